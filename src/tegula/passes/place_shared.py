"""Allocates each buffer and stack in the shared memory of a block.

If little memory is needed, buffers share no bytes. Otherwise buffers that are never live together share bytes;
`insert_barriers` derives the barriers that the reuse requires."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from tegula.dataclass import dataclass, replace
from tegula.deferred import deferred_imports
from tegula.ir import Kernel, Op, Region, Value, ViewLike, root
from tegula.ir.rewrite import uses
from tegula.ops.buffer import BufNew, BufRead
from tegula.ops.group import GroupMma, SharedMma
from tegula.ops.roles import Roles
from tegula.ops.schedule import MbarrierNew
from tegula.ops.stack import StackNew
from tegula.passes.assign_layouts import Layouts
from tegula.passes.lines import has_rows_in_threads, least_coalesced_bytes
from tegula.passes.plan_memory import Branch, Interval, MemoryMap, plan_memory
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, MbarrierType, StackType, TileType, components, element_bytes, scalar_of

with deferred_imports():
    from tegula.passes.bulk_access import boxes

ALIGNMENT = 128
"""Alignment in bytes of the destination of bulk copies."""
SWIZZLE_ALIGNMENT = 1024
"""Alignment in bytes of swizzled buffers, a multiple of the period of every swizzle."""
PAD_BYTES = 16
BANKS_BYTES = 128
SMALL_BYTES = 128
"""The size in bytes up to which a buffer shares no bytes with other buffers."""
NO_REUSE_BYTES = 16 << 10
"""The total size in bytes up to which no buffers share bytes: a dozen such blocks fit on a multiprocessor, and reuse
costs barriers."""


Users = Mapping[Value, Sequence[tuple[Op, int]]]
SharedOp = BufNew | StackNew | MbarrierNew
"""The ops that allocate shared memory."""


@dataclass(frozen=True, slots=True)
class SharedAllocation:
    """The allocation of a buffer in shared memory: `offset` and `size` in bytes. `strides`: the strides of the
    dimensions, in scalars. `row_bytes`: the bytes of a row of the consecutive boxes into which the last dimension of a
    swizzled tile is divided; 0 for other tiles."""

    offset: int
    size: int
    strides: tuple[int, ...]
    row_bytes: int = 0


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """The shared memory of a block: an allocation for each buffer and stack, and the memory plan."""

    allocations: dict[Value, SharedAllocation]
    plan: MemoryMap


def place_shared(kernel: Kernel, context: GpuCompilation) -> None:
    """Allocate each buffer and stack of the kernel."""
    users = uses(kernel.body)
    layouts = context.layouts if least_coalesced_bytes(kernel) < inf else {}
    owners = [op for op in kernel.walk() if isinstance(op, SharedOp)]
    strides = [_strides(op, users, layouts) for op in owners]
    live_ranges = _LiveRanges(kernel)
    intervals = [live_ranges.interval(op, _bytes(op, s)) for op, s in zip(owners, strides, strict=True)]
    plan = _concatenated(intervals)
    if plan.total > NO_REUSE_BYTES:
        plan = plan_memory(_extend_small(kernel, intervals))
    rows = zip(owners, plan.offsets, plan.intervals, strides, strict=True)
    allocations = {op.result: SharedAllocation(at, i.size, s, _row_bytes(op)) for op, at, i, s in rows}
    context.shared = SharedMemory(allocations, plan)


def _extend_small(kernel: Kernel, intervals: list[Interval]) -> list[Interval]:
    """The intervals, with small ones extended over the whole kernel so that they share no bytes. The exchange of one
    reduction then needs no barrier after the reads of the previous exchange. Kernels with roles are unchanged, because
    their stages may take all memory."""
    if any(isinstance(op, Roles) for op in kernel.body.ops):
        return intervals
    end = max(i.end for i in intervals)
    return [replace(i, start=0, end=end) if i.reserved <= SMALL_BYTES else i for i in intervals]


def _row_bytes(op: SharedOp) -> int:
    """The bytes of a row of a swizzled buffer's boxes, else 0. The buffer's first dimension counts its stages."""
    t = op.result.type
    if not isinstance(op, BufNew) or not op.swizzled:
        return 0
    assert isinstance(t, BufType)
    return boxes(TileType(t.dtype, t.shape[1:]), True).row_bytes


def _concatenated(intervals: list[Interval]) -> MemoryMap:
    offsets: list[int] = []
    top = 0
    for i in intervals:
        top = -(-top // i.align) * i.align
        offsets.append(top)
        top += i.reserved
    return MemoryMap(tuple(intervals), tuple(offsets), top)


class _LiveRanges:
    """Live ranges of buffers over ops numbered in textual order. A buffer that is used in a loop and defined before the
    loop is live to the end of the loop."""

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
        """The live range of a buffer. Pipes and mbarriers, which connect roles, are live to the end of the kernel;
        buffers of different roles are live concurrently (`branch`)."""
        last_use = self.last.get(op.result, op)
        ancestor, end = last_use, self.ends[last_use]
        while (
            ancestor.parent is not op.parent
            and ancestor.parent is not None
            and ancestor.parent.parent is not None
        ):
            ancestor = ancestor.parent.parent
            end = self.ends[ancestor]
        if isinstance(op, MbarrierNew) or (isinstance(op, BufNew) and op.pipe):
            end = len(self.numbers)
        name = op.result.name or "tile"
        align = SWIZZLE_ALIGNMENT if isinstance(op, BufNew) and op.swizzled else ALIGNMENT
        return Interval(name, self.numbers[op], end, size, align, 0, op.loc, last_use.loc, self._branch(op))

    def _branch(self, op: Op) -> Branch:
        """The role that a buffer belongs to, as a branch of the fork of roles."""
        region = op.parent
        while region is not None and region.parent is not None:
            if isinstance(region.parent, Roles):
                return ((self.numbers[region.parent], region.parent.roles.index(region)),)
            region = region.parent.parent
        return ()


def _strides(op: SharedOp, users: Users, layouts: Layouts) -> tuple[int, ...]:
    """Row-major strides, in scalars. Rows of matmul operands, of tiles whose threads hold whole rows, and vectors that
    lanes exchange are padded so that concurrently accessed rows are in different banks, and stages of bulk copies are
    padded to the alignment of copies.

    Buffers with views that show packed elements are not padded. Nor are others, because an asynchronous copy that
    splits a sector makes the L2 cache send the sector twice."""
    t = op.result.type
    if isinstance(t, StackType):
        return (components(t.dtype),)
    if isinstance(t, MbarrierType):
        return (MBARRIER_BYTES,)
    assert isinstance(t, BufType) and isinstance(op, BufNew)
    unit = components(t.dtype)
    is_packed = _shows_packed(op.result, users)
    if op.exchanged and not is_packed and element_bytes(t.dtype) % (2 * PAD_BYTES) == 0:
        unit += PAD_BYTES * 8 // scalar_of(t.dtype).bits
    row = t.shape[-1] * element_bytes(t.dtype)
    pad = 0
    padded = row % (BANKS_BYTES // 4) == 0 and (_is_operand(op, users) or _accesses_rows(op, users, layouts))
    if padded and not op.pipe and not is_packed:
        pad = PAD_BYTES * 8 // scalar_of(t.dtype).bits
    strides = [unit]
    for d in reversed(range(1, len(t.shape))):
        strides.append(strides[-1] * t.shape[d] + (pad if d == len(t.shape) - 1 else 0))
    if op.bulk:
        row_elements = ALIGNMENT * 8 // scalar_of(t.dtype).bits
        strides[-1] = -(-strides[-1] // row_elements) * row_elements
    return tuple(reversed(strides))


def _shows_packed(buffer: Value, users: Users) -> bool:
    """Whether the buffer has a view, or a view of a view, that shows packed elements."""
    views = [user for user, _ in users.get(buffer, []) if isinstance(user, ViewLike)]
    return any(view.SHOWS_PACKED or _shows_packed(view.result, users) for view in views)


def _accesses_rows(op: BufNew, users: Users, layouts: Layouts) -> bool:
    """Whether threads write or read whole rows of a buffer."""
    read = (user.result for user, _ in users.get(op.result, []) if isinstance(user, BufRead))
    return any(v in layouts and has_rows_in_threads(layouts[v]) for v in (op.tile, *read))


def _is_operand(op: BufNew, users: Users) -> bool:
    """Whether a matmul reads the rows of a buffer: a whole buffer in place, stages in place or through registers."""
    user_ops = [user for user, _ in users.get(op.result, [])]
    if not op.stages:
        viewed = any(isinstance(user, ViewLike) for user in user_ops)
        return not viewed and any(isinstance(user, SharedMma) for user in user_ops)
    return any(isinstance(user, GroupMma) for user in _transitive_users(op.result, users))


def _transitive_users(value: Value, users: Users) -> set[Op]:
    """The ops that use a value, directly or through results of other users."""
    ops, worklist = set[Op](), [value]
    while worklist:
        new_users = {user for user, _ in users.get(worklist.pop(), [])} - ops
        ops |= new_users
        worklist += [result for user in new_users for result in user.results]
    return ops


def _bytes(op: SharedOp, strides: tuple[int, ...]) -> int:
    t = op.result.type
    if isinstance(t, StackType):
        return COUNT_BYTES + t.capacity * element_bytes(t.dtype)
    if isinstance(t, MbarrierType):
        return t.stages * MBARRIER_BYTES
    assert isinstance(t, BufType)
    return strides[0] * t.shape[0] * scalar_of(t.dtype).bits // 8


COUNT_BYTES = 16
"""Bytes before the elements of a stack, which hold the number of elements."""
MBARRIER_BYTES = 8
