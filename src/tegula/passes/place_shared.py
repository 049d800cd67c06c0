"""Where each buffer and stack lies in the shared memory of a block.

Little memory is laid out side by side. Where more is needed, buffers that are never in use together share bytes; the
barriers that this asks for are then derived like all others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tegula.dataclass import dataclass, replace
from tegula.ir import Kernel, Op, Region, Value, root
from tegula.ir.rewrite import uses
from tegula.ops.buffer import BufNew, BufReshape, BufView
from tegula.ops.group import GroupMma, SharedMma
from tegula.ops.roles import Roles
from tegula.ops.schedule import MbarrierNew
from tegula.ops.stack import StackNew
from tegula.passes.bulk_access import boxes
from tegula.passes.plan_memory import Branch, Interval, MemoryMap, plan_memory
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, MbarrierType, StackType, TileType, components, element_bytes, scalar_of

ALIGNMENT = 128
"""Bytes that whatever bulk copies write starts at a multiple of."""
SWIZZLE_ALIGNMENT = 1024
"""Bytes after which every swizzle starts anew."""
PAD_BYTES = 16
BANKS_BYTES = 128
SMALL = 128
"""Bytes of a buffer that shares none."""
LITTLE = 16 << 10
"""Bytes up to which nothing is shared: a multiprocessor has them for a dozen blocks, and sharing costs barriers."""


Users = Mapping[Value, Sequence[tuple[Op, int]]]
SharedOp = BufNew | StackNew | MbarrierNew
"""Ops that take shared memory."""


@dataclass(frozen=True, slots=True)
class SharedAllocation:
    """Bytes of shared memory. `strides`: of the elements, in scalars. `row_bytes`: of a swizzled tile, whose last
    dimension is cut into boxes with rows of so many bytes, one box after the other; 0 for others."""

    offset: int
    size: int
    strides: tuple[int, ...]
    row_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The shared memory of a block: a place for each buffer and stack, and their plan."""

    places: dict[Value, SharedAllocation]
    plan: MemoryMap


def place_shared(kernel: Kernel, context: GpuCompilation) -> None:
    """Set a place for each buffer and stack of the kernel."""
    users = uses(kernel.body)
    owners = [op for op in kernel.walk() if isinstance(op, SharedOp)]
    strides = [_strides(op, users) for op in owners]
    lives = _Lives(kernel)
    intervals = [lives.interval(op, _bytes(op, s)) for op, s in zip(owners, strides, strict=True)]
    plan = _side_by_side(intervals)
    if plan.total > LITTLE:
        plan = plan_memory(_apart(kernel, intervals))
    rows = zip(owners, plan.offsets, plan.intervals, strides, strict=True)
    places = {op.result: SharedAllocation(at, i.size, s, _row_bytes(op)) for op, at, i, s in rows}
    context.shared = SharedMemory(places, plan)


def _apart(kernel: Kernel, intervals: list[Interval]) -> list[Interval]:
    """The same, but that small ones share no bytes: then what warps tell each other in one reduction need not wait
    until all have read what they told in the last. Not together with roles, whose stages may leave no room."""
    if any(isinstance(op, Roles) for op in kernel.body.ops):
        return intervals
    end = max(i.end for i in intervals)
    return [replace(i, start=0, end=end) if i.room <= SMALL else i for i in intervals]


def _row_bytes(op: SharedOp) -> int:
    """The bytes of a row of the boxes of a swizzled buffer; the first dimension is the stages."""
    t = op.result.type
    if not isinstance(op, BufNew) or not op.swizzled:
        return 0
    assert isinstance(t, BufType)
    return boxes(TileType(t.dtype, t.shape[1:]), True).row_bytes


def _side_by_side(intervals: list[Interval]) -> MemoryMap:
    offsets: list[int] = []
    top = 0
    for i in intervals:
        top = -(-top // i.align) * i.align
        offsets.append(top)
        top += i.room
    return MemoryMap(tuple(intervals), tuple(offsets), top)


class _Lives:
    """The ops numbered in textual order, and from where to where each buffer is in use: to the end of every loop that
    uses one made before it."""

    def __init__(self, kernel: Kernel) -> None:
        self.numbers: dict[Op, int] = {}
        self.ends: dict[Op, int] = {}
        self.last: dict[Value, Op] = {}
        self._visit(kernel.body)

    def _visit(self, region: Region) -> None:
        for op in region.ops:
            self.numbers[op] = len(self.numbers)
            for v in op.operands:
                if isinstance(v.type, BufType | StackType | MbarrierType):
                    self.last[root(v)] = op
            for nested in op.regions:
                self._visit(nested)
            self.ends[op] = len(self.numbers)

    def interval(self, op: SharedOp, size: int) -> Interval:
        """What connects roles is in use to the end; what two roles have of their own, at the same time."""
        final = self.last.get(op.result, op)
        at, end = final, self.ends[final]
        while at.parent is not op.parent and at.parent is not None and at.parent.parent is not None:
            at = at.parent.parent
            end = self.ends[at]
        if isinstance(op, MbarrierNew) or (isinstance(op, BufNew) and op.pipe):
            end = len(self.numbers)
        name = op.result.name or "tile"
        align = SWIZZLE_ALIGNMENT if isinstance(op, BufNew) and op.swizzled else ALIGNMENT
        return Interval(name, self.numbers[op], end, size, align, 0, op.loc, final.loc, self._branch(op))

    def _branch(self, op: Op) -> Branch:
        """The role that a buffer belongs to."""
        region = op.parent
        while region is not None and region.parent is not None:
            if isinstance(region.parent, Roles):
                return ((self.numbers[region.parent], region.parent.roles.index(region)),)
            region = region.parent.parent
        return ()


def _strides(op: SharedOp, users: Users) -> tuple[int, ...]:
    """Row-major; rows of matmul operands are padded, so that the rows that threads read together fall on different
    banks, and stages that bulk copies fill, so that each starts where a copy may write.

    Nothing else is padded: where an asynchronous copy writes half a sector into another one, the L2 cache sends that
    sector twice."""
    t = op.result.type
    if isinstance(t, StackType):
        return (components(t.dtype),)
    if isinstance(t, MbarrierType):
        return (MBARRIER_BYTES,)
    assert isinstance(t, BufType) and isinstance(op, BufNew)
    unit = components(t.dtype)
    row = t.shape[-1] * element_bytes(t.dtype)
    pad = 0
    if not op.pipe and _is_operand(op, users) and row % (BANKS_BYTES // 4) == 0:
        pad = PAD_BYTES * 8 // scalar_of(t.dtype).bits
    strides = [unit]
    for d in reversed(range(1, len(t.shape))):
        strides.append(strides[-1] * t.shape[d] + (pad if d == len(t.shape) - 1 else 0))
    if op.bulk:
        whole = ALIGNMENT * 8 // scalar_of(t.dtype).bits
        strides[-1] = -(-strides[-1] // whole) * whole
    return tuple(reversed(strides))


def _is_operand(op: BufNew, users: Users) -> bool:
    """Whether a matmul reads the rows of a buffer: a whole one from where it lies, stages from there or by threads."""
    found = [user for user, _ in users.get(op.result, [])]
    if not op.stages:
        viewed = any(isinstance(user, BufReshape | BufView) for user in found)
        return not viewed and any(isinstance(user, SharedMma) for user in found)
    return any(isinstance(user, GroupMma) for user in _followed(op.result, users))


def _followed(value: Value, users: Users) -> set[Op]:
    """The ops that use a value, or what others make of it."""
    found, left = set[Op](), [value]
    while left:
        more = {user for user, _ in users.get(left.pop(), [])} - found
        found |= more
        left += [result for user in more for result in user.results]
    return found


def _bytes(op: SharedOp, strides: tuple[int, ...]) -> int:
    t = op.result.type
    if isinstance(t, StackType):
        return COUNT_BYTES + t.capacity * element_bytes(t.dtype)
    if isinstance(t, MbarrierType):
        return t.stages * MBARRIER_BYTES
    assert isinstance(t, BufType)
    return strides[0] * t.shape[0] * scalar_of(t.dtype).bits // 8


COUNT_BYTES = 16
"""Before the elements of a stack: how many there are."""
MBARRIER_BYTES = 8
