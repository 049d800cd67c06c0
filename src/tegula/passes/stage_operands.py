"""Copies operands with a layout in shared memory that wgmma cannot read to a swizzled stage: the threads write the
stage and execute a fence for the async proxy.

A tile that is never written after its definition is copied once; other tiles are copied before each matmul."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import Builder, Kernel, Op, Region, Value, root
from tegula.ir.rewrite import uses
from tegula.layout import wgmma_group_tile
from tegula.ops import scalar as S
from tegula.ops.buffer import BufNew, BufRead, BufView, BufWrite
from tegula.ops.group import GroupMma
from tegula.ops.roles import PipeNew
from tegula.ops.schedule import FenceAsync
from tegula.ops.tile import TileEmpty
from tegula.passes.form_rings import is_by_hand
from tegula.passes.groups import group_of, role_of
from tegula.target import CudaTarget
from tegula.types import BufType, PipeType, TileType, element_bytes, int32

with deferred_imports():
    from tegula.passes.bulk_access import cuts_boxes, may_swizzle
    from tegula.passes.mma_types import shared_mma_types

if TYPE_CHECKING:
    from tegula.passes.mma_types import MmaTypes

ANY_ORDER = 16
"""The element width in bits for which operands may be K-major or MN-major."""
SWIZZLED_BYTES = "a multiple of 32"
RESERVED_BYTES = 32 << 10
"""The bytes of shared memory reserved for later passes: buffers for stores and for exchanging elements."""


@dataclass(frozen=True, slots=True)
class StageSlot:
    """The stage for one operand of a matmul. `position`: 0 for the left operand, 1 for the right one; `transposed`:
    whether rows of the stage are columns of the operand."""

    matmul: GroupMma
    position: int
    shape: tuple[int, int]
    transposed: bool

    @property
    def bytes(self) -> int:
        """The size of the operand's tile in bytes."""
        return self.shape[0] * self.shape[1] * element_bytes(_type(self.matmul, self.position).dtype)


def possible_stage(matmul: GroupMma, position: int, threads: int) -> StageSlot | str:
    """A stage for an operand in shared memory, or the reason why there is none: its rows cannot be swizzled, the
    operand is outside of roles, or it is part of a hand-written ring, whose copies would not wait for the threads that
    read the stage. `threads`: of the block."""
    mma_types = shared_mma_types(matmul)
    if mma_types is None:
        return "wgmma does not support its element types"
    if role_of(matmul) is None:
        return "is outside of roles, so that it cannot be copied to a swizzled stage"
    if is_by_hand(root(matmul.sides[position])):
        return "is in a hand-written ring, which is never copied to a swizzled stage"
    t = _type(matmul, position)
    for transposed in _stage_orders(matmul, position, mma_types):
        shape = (t.shape[1], t.shape[0]) if transposed else (t.shape[0], t.shape[1])
        fits = not group_cuts_boxes(matmul, position, threads, transposed)
        if fits and may_swizzle(BufType(t.dtype, shape, "shared")):
            return StageSlot(matmul, position, shape, transposed)
    row = t.shape[1] * element_bytes(t.dtype)
    return f"has rows of {row} bytes, where only {SWIZZLED_BYTES} can be swizzled"


def group_cuts_boxes(matmul: GroupMma, position: int, threads: int, transposed: bool) -> bool:
    """Whether the columns of a warp group would start within a box of the right operand's stage (of the left one's, if
    the transposed matmul is computed). `transposed`: whether rows of the stage are columns of the operand."""
    computes_transposed = matmul.computes_transposed
    t = matmul.result.type
    assert isinstance(t, TileType)
    if position == int(computes_transposed) or transposed != computes_transposed:
        return False
    rows, columns = t.shape[::-1] if computes_transposed else t.shape
    blocks_n = wgmma_group_tile((rows, columns), group_of(matmul, threads).warp_groups)[3]
    return cuts_boxes(columns, element_bytes(_type(matmul, position).dtype), 8 * blocks_n)


def _stage_orders(matmul: GroupMma, position: int, mma_types: MmaTypes) -> Iterator[bool]:
    """The possible values of `transposed`, the best first. Only operands with elements of 16 bits have a choice; they
    keep their order if possible."""
    if mma_types.bits != ANY_ORDER:
        yield position == 1
        return
    first = is_transpose(matmul.sides[position])
    yield from (first, not first)


def stages_fit(kernel: Kernel, target: CudaTarget, slots: list[StageSlot]) -> bool:
    """Whether the stages fit into shared memory together with the kernel's buffers and pipes, by a conservative
    estimate."""
    total = RESERVED_BYTES + sum(p.bytes for p in slots)
    for op in kernel.walk():
        if isinstance(op, BufNew | PipeNew):
            t = op.result.type
            assert isinstance(t, BufType | PipeType)
            count = t.stages if isinstance(t, PipeType) else 1
            for n in t.shape:
                count *= n
            total += count * element_bytes(t.dtype)
    return total <= target.shared_per_block


def stage_operands(kernel: Kernel, slots: list[StageSlot]) -> None:
    """Make the matmuls read stages. A matmul whose stage is rewritten before each execution gets the attribute
    `at_once`, and is not left in flight."""
    written = _written(kernel)
    stage_of_source: dict[tuple[Value, bool, bool], Value] = {}
    for slot in slots:
        matmul, operand = slot.matmul, slot.matmul.sides[slot.position]
        mma_types = shared_mma_types(matmul)
        assert mma_types is not None
        to_tf32 = mma_types.left == "tf32"
        source, transposed = _without_transpose(operand, slot.transposed)
        staged = Region()
        build = Builder(staged, matmul.loc)
        if not isinstance(source.owner, BufNew) or source in written:
            matmul.at_once = True
            matmul.set_side(
                slot.position, _copy_to_stage(build, slot, _read(build, source, transposed), to_tf32)
            )
            _insert(matmul, staged, after=False)
            continue
        key = source, slot.transposed, to_tf32
        if key not in stage_of_source:
            tile = _read(build, source, True) if transposed else source.owner.tile
            stage_of_source[key] = _copy_to_stage(build, slot, tile, to_tf32)
            _insert(source.owner, staged, after=True)
        matmul.set_side(slot.position, stage_of_source[key])
    _erase_unread(kernel, {root(s) for s, _, _ in stage_of_source})


def _without_transpose(operand: Value, transposed: bool) -> tuple[Value, bool]:
    """The operand without a transposing view: the viewed buffer, and whether the stage is the transpose."""
    if not is_transpose(operand):
        return operand, transposed
    assert isinstance(operand.owner, BufView)
    return operand.owner.buffer, not transposed


def _written(kernel: Kernel) -> set[Value]:
    """The buffers that are written after their definition, or are defined without contents."""
    result: set[Value] = set()
    for op in kernel.walk():
        if isinstance(op, BufNew) and not isinstance(op.tile.owner, TileEmpty):
            continue
        changed = (e.value for e in op.effects() if e.kind != "read")
        result.update(root(v) for v in changed if v is not None and isinstance(v.type, BufType))
    return result


def _read(build: Builder, buffer: Value, transposed: bool) -> Value:
    """A new read of a whole buffer, or of its transpose."""
    assert isinstance(buffer.type, BufType)
    if transposed:
        buffer = _view(build, buffer, buffer.type.shape[::-1], (1, 0))
    assert isinstance(buffer.type, BufType)
    return build.insert(BufRead([buffer], [buffer.type.tile])).result


def _copy_to_stage(build: Builder, slot: StageSlot, tile: Value, to_tf32: bool) -> Value:
    """The operand as a view of a new stage that holds the tile, rounded if `to_tf32`."""
    t = tile.type
    assert isinstance(t, TileType)
    tile_type = TileType(t.dtype, (1, *t.shape))
    empty = build.insert(TileEmpty([], [tile_type], {"type": tile_type})).result
    attrs = {"storage": "shared", "swizzled": True}
    ring = build.insert(BufNew([empty], [BufType(t.dtype, tile_type.shape, "shared")], attrs)).result
    ring.name = tile.name or "operand"
    stage = _view(build, ring, t.shape, (1, 2))
    build.insert(BufWrite([stage, tile], [], {"to_tf32": to_tf32}))
    build.insert(FenceAsync())
    return _view(build, stage, t.shape[::-1], (1, 0)) if slot.transposed else stage


def _view(build: Builder, buffer: Value, shape: tuple[int, ...], dims: tuple[int, ...]) -> Value:
    assert isinstance(buffer.type, BufType)
    zero = build.insert(S.Const([], [int32], {"type": int32, "value": 0})).result
    attrs = {"shape": shape, "dims": dims, "steps": (1,) * len(dims)}
    t = BufType(buffer.type.dtype, shape, "shared")
    return build.insert(BufView([buffer, *[zero] * len(buffer.type.shape)], [t], attrs)).result


def _insert(at: Op, staged: Region, after: bool) -> None:
    region = at.parent
    assert region is not None
    for op in staged.ops:
        op.parent = region
    k = region.ops.index(at) + after
    region.ops[k:k] = staged.ops


def _erase_unread(kernel: Kernel, buffers: set[Value]) -> None:
    """Remove the objects that only unused views and reads refer to, together with these views and reads."""
    while True:
        used = uses(kernel.body)
        unread = [
            op for op in kernel.walk()
            if isinstance(op, BufView | BufRead | BufNew) and op.result not in used
            and root(op.result if isinstance(op, BufNew) else op.buffer) in buffers
        ]  # fmt: skip
        if not unread:
            return
        for op in unread:
            assert op.parent is not None
            op.parent.ops.remove(op)


def is_transpose(buffer: Value) -> bool:
    """Whether a buffer is a view of all of a two-dimensional tile with its dimensions exchanged."""
    view = buffer.owner
    if not isinstance(view, BufView):
        return False
    source = view.buffer.type
    assert isinstance(source, BufType)
    return tuple(view.dims) == (1, 0) and tuple(view.shape) == source.shape[::-1]


def _type(matmul: GroupMma, position: int) -> BufType:
    t = matmul.sides[position].type
    assert isinstance(t, BufType)
    return t
