"""Converts shared tiles of hand-written schedules to rings, as pipes have: consecutive stages, one of which each access
selects. A tile that is not indexed by stage, or whose first index may differ between lanes, becomes a ring of one
stage. Elements of a vector are stages if some index is not constant."""

from __future__ import annotations

from tegula.deferred import deferred_imports
from tegula.errors import BulkAccess
from tegula.ir import Builder, ConstantLike, ElementAccess, Kernel, Op, Region, Value, root
from tegula.ir.rewrite import insert_before, replace, uses
from tegula.ops import scalar as S
from tegula.ops.buffer import BufNew, BufView, buffer_type, is_packed, is_swizzled
from tegula.ops.schedule import BulkLoad, BulkPut
from tegula.ops.tile import TileEmpty
from tegula.passes.overlap import array_root
from tegula.passes.place_shared import ALIGNMENT
from tegula.passes.runner import GpuCompilation
from tegula.passes.uniformity import analyse
from tegula.target import CudaTarget
from tegula.types import BufType, TileType, element_bytes, int32

with deferred_imports():
    from tegula.passes.bulk_access import bulk_reachable


def form_rings(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place."""
    used = uses(kernel.body)
    copied = {root(op.buffer) for op in kernel.walk() if isinstance(op, BulkLoad | BulkPut)}
    wrapped: dict[Value, Value] = {}
    uniformity = analyse(kernel)
    for op in [op for op in kernel.body.ops if isinstance(op, BufNew) and op.between_roles]:
        bulk, users = op.result in copied, [user for user, _ in used.get(op.result, [])]
        accesses = [
            user
            for user in users
            if isinstance(user, ElementAccess) and not uniformity.varying(user.indices[0])
        ]
        t = buffer_type(op.result.type)
        if len(t.shape) == 1 and len(accesses) == len(users) and not all(map(_is_at_constant, accesses)):
            op = _reshaped(op, (*t.shape, 1), {})
            t = buffer_type(op.result.type)
        if len(t.shape) > 1 and all(_selects_stage(user) for user in users if user not in accesses):
            for access in accesses:
                _select_stage(access, op.result)
        else:
            op = _reshaped(op, (1, *t.shape), wrapped)
            t = buffer_type(op.result.type)
        op.pipe, op.by_hand, op.stages, op.bulk = True, True, t.shape[0], bulk
    replace(kernel.body, wrapped)


def _selects_stage(user: Op) -> bool:
    return isinstance(user, BufView) and 0 not in user.dims


def _is_at_constant(access: ElementAccess) -> bool:
    return all(isinstance(i.owner, ConstantLike) for i in access.indices)


def _select_stage(access: ElementAccess, ring: Value) -> None:
    """Let an access of an element be one of a stage that a view selects by the first index."""
    build = Builder(Region(), access.loc)
    first, *others = access.indices
    zero = build.insert(S.Const([], [int32], {"type": int32, "value": 0})).result
    access.target = _view_of_stage(build, ring, first, zero)
    access.indices = others or [zero]
    insert_before(access, build.region.ops)


def _view_of_stage(build: Builder, ring: Value, stage: Value, zero: Value) -> Value:
    t = buffer_type(ring.type)
    rank = len(t.shape) - 1
    attrs = {"shape": t.shape[1:], "dims": tuple(range(1, 1 + rank)), "steps": (1,) * rank}
    stage_type = BufType(t.dtype, t.shape[1:], t.storage)
    return build.insert(BufView([ring, stage, *[zero] * rank], [stage_type], attrs)).result


def _reshaped(old: BufNew, shape: tuple[int, ...], wrapped: dict[Value, Value]) -> BufNew:
    """Replace a new buffer by one of another shape; `wrapped` maps the old buffer to a view of the first stage."""
    t, region = buffer_type(old.result.type), old.parent
    assert region is not None
    build = Builder(Region(), old.loc)
    new_type = TileType(t.dtype, shape)
    empty = build.insert(TileEmpty([], [new_type], {"type": new_type})).result
    ring = build.insert(BufNew([empty], [BufType(t.dtype, shape, "shared")], old.attrs))
    ring.result.name = old.result.name
    if shape[0] == 1:
        zero = build.insert(S.Const([], [int32], {"type": int32, "value": 0})).result
        wrapped[old.result] = _view_of_stage(build, ring.result, zero, zero)
        wrapped[old.result].name = old.result.name
    insert_before(old, build.region.ops)
    region.ops.remove(old)
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
