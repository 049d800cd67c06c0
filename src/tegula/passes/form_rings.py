"""Converts shared tiles of hand-written schedules to rings, as pipes have: consecutive stages, one of which each access
selects. A tile that is not indexed by stage becomes a ring of one stage."""

from __future__ import annotations

from tegula.errors import BulkAccess
from tegula.ir import Builder, ConstantLike, Kernel, Op, Region, Value, root
from tegula.ir.rewrite import replace, uses
from tegula.ops import scalar as S
from tegula.ops.buffer import BufNew, BufView, buffer_type, is_packed, is_swizzled
from tegula.ops.schedule import BulkLoad, BulkPut
from tegula.ops.tile import TileEmpty
from tegula.passes.bulk_access import bulk_reachable
from tegula.passes.overlap import array_root
from tegula.passes.place_shared import ALIGNMENT
from tegula.passes.runner import GpuCompilation
from tegula.target import CudaTarget
from tegula.types import BufType, TileType, element_bytes, int32


def form_rings(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place."""
    used = uses(kernel.body)
    copied = {root(op.buffer) for op in kernel.walk() if isinstance(op, BulkLoad | BulkPut)}
    wrapped: dict[Value, Value] = {}
    for op in [op for op in kernel.body.ops if isinstance(op, BufNew) and op.between_roles]:
        t = buffer_type(op.result.type)
        bulk = op.result in copied
        rank = len(t.shape)
        staged = rank > 1 and all(_selects_stage(user) for user, _ in used.get(op.result, []))
        if not staged:
            op = _single_stage_ring(op, wrapped)
            t = buffer_type(op.result.type)
        op.pipe, op.by_hand, op.stages, op.bulk = True, True, t.shape[0], bulk
    replace(kernel.body, wrapped)


def _selects_stage(user: Op) -> bool:
    return isinstance(user, BufView) and 0 not in user.dims


def _single_stage_ring(old: BufNew, wrapped: dict[Value, Value]) -> BufNew:
    """Replace a buffer by a ring whose only stage is the tile; `wrapped` maps the old buffer to a view of the stage."""
    region = old.parent
    assert region is not None
    t = buffer_type(old.result.type)
    region_of_stage = Region()
    build = Builder(region_of_stage, old.loc)
    staged_type = TileType(t.dtype, (1, *t.shape))
    empty = build.insert(TileEmpty([], [staged_type], {"type": staged_type})).result
    ring = build.insert(BufNew([empty], [BufType(t.dtype, staged_type.shape, "shared")], old.attrs))
    ring.result.name = old.result.name
    zero = build.insert(S.Const([], [int32], {"type": int32, "value": 0})).result
    rank = len(t.shape)
    attrs = {"shape": t.shape, "dims": tuple(range(1, 1 + rank)), "steps": (1,) * rank}
    view = build.insert(BufView([ring.result, *[zero] * (1 + rank)], [t], attrs)).result
    view.name = old.result.name
    wrapped[old.result] = view
    for op in region_of_stage.ops:
        op.parent = region
    at = region.ops.index(old)
    region.ops[at : at + 1] = region_of_stage.ops
    return ring


def is_stage(buffer: Value) -> bool:
    """Whether a buffer is a whole stage of a ring of a hand-written schedule."""
    view = buffer.owner
    if not isinstance(view, BufView) or not is_by_hand(view.buffer):
        return False
    shape = buffer_type(view.buffer.type).shape
    dims = tuple(range(1, len(shape)))
    return tuple(view.dims) == dims and tuple(view.shape) == shape[1:]


def is_by_hand(ring: Value) -> bool:
    """Whether a ring of stages is a shared tile of a hand-written schedule."""
    return isinstance(ring.owner, BufNew) and bool(ring.owner.by_hand)


def check_copies(kernel: Kernel, context: GpuCompilation) -> None:
    """Raise BulkAccess for a copy of a hand-written schedule that cannot be a bulk copy."""
    for op in kernel.walk():
        if isinstance(op, BulkLoad | BulkPut) and is_by_hand(root(op.buffer)):
            _check_copy(kernel, context.target, op)


def _check_copy(kernel: Kernel, target: CudaTarget, op: BulkLoad | BulkPut) -> None:
    function_name = op.loc.subject or op.NAME
    if not target.bulk_copies:
        raise BulkAccess(op.loc, what=f"{function_name} needs a GPU with bulk copies, sm_90 or later")
    buffer = op.buffer
    t = buffer_type(buffer.type)
    if not (is_packed(buffer) and _is_aligned(buffer)):
        message = (
            f"{function_name} copies a part of a tile that is not contiguous or not {ALIGNMENT}-byte aligned"
        )
        raise BulkAccess(op.loc, what=message, help="copy whole rows, or use a separate tile")
    position, kind = [op.array, *op.offset], "read" if isinstance(op, BulkLoad) else "write"
    if not bulk_reachable(kernel, target, position, t, is_swizzled(buffer), kind):
        name = array_root(op.array).name
        help = (
            f"'{name}' must be packed, aligned to 16 bytes and only "
            f"{'read' if isinstance(op, BulkLoad) else 'written'} by the kernel; rows of the tile must have "
            "a multiple of 16 bytes and start at provable multiples of 16 bytes in rows of the array; no dimension of "
            "the tile may exceed 256"
        )
        raise BulkAccess(
            op.loc, what=f"{function_name}: this access of '{name}' cannot be a bulk copy", help=help
        )


def _is_aligned(buffer: Value) -> bool:
    """Whether a packed view of a stage starts at a multiple of the alignment of bulk copies."""
    if is_stage(buffer):
        return True
    view = buffer.owner
    if not isinstance(view, BufView):
        return False
    t = buffer_type(view.buffer.type)
    unit, stage = element_bytes(t.dtype), is_by_hand(view.buffer)
    for d in reversed(range(len(t.shape))):
        start = view.starts[d].owner
        known = start.value if isinstance(start, ConstantLike) else 1
        if known * unit % ALIGNMENT and not (stage and d == 0):
            return False
        unit *= t.shape[d]
    return stage or _is_aligned(view.buffer)
