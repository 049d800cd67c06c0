"""The view of a kernel in proofs: its values, roles, barriers and events by number, derived from the IR and the event
table. The prover and the verifier share this numbering only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, TypeAlias
from zlib import crc32

from tegula.ir import BranchLike, ConstantLike, Kernel, LoopLike, Op, Region, Value
from tegula.ops import events as E
from tegula.ops import scalar as S
from tegula.ops.array import ArrayLoad, ArrayShape, ArrayView
from tegula.ops.buffer import BufNew, root, stage_of_view
from tegula.ops.control import If
from tegula.ops.convert import Cast
from tegula.ops.debug import Assert
from tegula.ops.lane import Lanes, LaneUniform
from tegula.ops.roles import WARP, WARP_GROUP, Roles
from tegula.ops.schedule import MbarrierNew, NamedNew
from tegula.passes.groups import only_starts_copies
from tegula.types import ArrayType, DType, TileType

MAX_BOUND = 2**28
"""The maximum absolute value of a number that a guard bounds."""
COMPUTED = (
    S.Const,
    S.Add,
    S.Sub,
    S.Mul,
    S.Neg,
    S.Div,
    S.FloorDiv,
    S.Mod,
    S.Min,
    S.Max,
    S.Cmp,
    S.Select,
    S.And,
    S.Or,
    S.Xor,
    S.Not,
    S.Shl,
    S.Shr,
    Cast,
)
"""The ops that the host computes for guards."""

Access: TypeAlias = tuple[int, bool, bool, Op]
"""An access of memory: its role, whether it writes, whether it is asynchronous, and its op."""


class Scheduled(ABC):
    """The roles, barriers and events of a lowered kernel, by number."""

    def __init__(self, kernel: Kernel, compilation: Any) -> None:
        self.kernel, self.uniformity, self.allocations = (
            kernel,
            compilation.uniformity,
            compilation.shared.allocations,
        )
        self.ops = list(kernel.walk())
        self.values: list[Value] = list(kernel.params)
        self.regions: list[Region] = [kernel.body]
        for op in self.ops:
            for region in op.regions:
                self.regions.append(region)
                self.values.extend(region.args)
            self.values += op.results
        self.number = {v: k for k, v in enumerate(self.values)}
        self.used = {v for op in self.ops for v in op.operands}
        self.parent = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
        self.roles = list(self.parent.regions) if self.parent is not None else [kernel.body]
        rows = self.parent.warps if self.parent is not None else [(0, compilation.threads // WARP)]
        self.warps = [
            1
            if self.parent is not None and only_starts_copies(region)
            else n  # codegen omits the other warps
            for region, (_, n) in zip(self.roles, rows, strict=True)
        ]
        self.warp_groups = [max(1, n * WARP // WARP_GROUP) for _, n in rows]
        self.written = self._written()
        self.barriers = [op.result for op in self.ops if isinstance(op, MbarrierNew | NamedNew)]
        self.barrier = {v: k for k, v in enumerate(self.barriers)}
        self.stages = [v.owner.stages if isinstance(v.owner, MbarrierNew) else 1 for v in self.barriers]
        self._events: dict[Op, tuple[E.Event, ...]] = {}
        self._acts: dict[Op, bool] = {}
        self._counts: dict[Op, bool] = {}
        self.order = [
            [(op, e) for op in region.walk() if op.NAME != "buf.new" for e in self.events_of(op)]
            for region in self.roles
        ]
        """The events of each role in program order, each with its op."""
        self.arrivers: list[set[int]] = [set() for _ in self.barriers]
        self.waiters: list[set[int]] = [set() for _ in self.barriers]
        self.waits_of_one: set[tuple[int, int]] = set()
        """The barriers that a role waits for with one warp, by barrier and role."""
        self.copied: set[int] = set()
        """The barriers on which bulk copies complete."""
        self.accesses: dict[Value, list[Access]] = {}
        for r, events in enumerate(self.order):
            for op, e in events:
                self._record(r, op, e)
        self.tracked = {v for v, rows in self.accesses.items() if any(row[2] for row in rows)}
        """The buffers that copies or tensor cores access."""

    def _record(self, r: int, op: Op, e: E.Event) -> None:
        b = self.at(e)
        if isinstance(e, E.Wait | E.NamedWait):
            self.waiters[b].add(r)
            self.waits_of_one |= {(b, r)} if isinstance(e, E.Wait) and e.elected else set()
        elif isinstance(e, E.Arrive | E.NamedArrival):
            self.arrivers[b].add(r)
        elif isinstance(e, E.CopyIn):
            self.copied.add(b)
        writes = isinstance(e, E.CopyIn) or (isinstance(e, E.MemoryAccess) and e.write)
        for at in memory(e):
            self.accesses.setdefault(at.buffer, []).append((r, writes, not isinstance(e, E.MemoryAccess), op))

    def at(self, e: E.Event) -> int:
        """The barrier of an event; -1 if it has none."""
        barrier = getattr(e, "barrier", None)
        return -1 if barrier is None else self.barrier.get(barrier, -1)

    def _written(self) -> set[Value]:
        """The arrays that the kernel changes, or that share bytes with one that it changes."""
        values: set[Value] = set()
        for op in self.ops:
            for e in op.effects():
                if e.kind == "read" or e.value is None or not isinstance(e.value.type, ArrayType):
                    continue
                array, params = array_of(e.value), self.kernel.params
                access = self.kernel.access[params.index(array)] if array in params else None
                values |= {array, *(params if access is None else (params[k] for k in access.aliases))}
        return values

    def pure(self, op: Op) -> bool:
        """Whether the results of an op are a function of its operands throughout a launch."""
        if isinstance(op, ArrayLoad):
            array = array_of(op.array)
            return array in self.kernel.params and array not in self.written
        scalars = all(isinstance(v.type, DType | ArrayType) for v in (*op.operands, *op.results))
        return isinstance(op, LaneUniform) or (op.PURE and not op.COOPERATIVE and scalars and not op.regions)

    def slots(self, v: Value) -> int:
        """The number of stages of a buffer that copies or tensor cores access; 0 for other buffers."""
        return v.owner.stages if v in self.tracked and isinstance(v.owner, BufNew) else 0

    def events_of(self, op: Op) -> tuple[E.Event, ...]:
        """The events of an op, without the stages and numbers that depend on the path."""
        events = self._events.get(op)
        if events is None:
            events = self._events[op] = tuple(E.events(op, _PathIndependent(self)))
        return events

    def acts(self, op: Op) -> bool:
        """Whether an op has events other than accesses of memory, synchronisation and fences."""
        acts = self._acts.get(op)
        if acts is None:
            acts = self._acts[op] = type(op) in E.RULES and any(
                not isinstance(e, E.MemoryAccess | E.Sync | E.Fence) for e in self.events_of(op)
            )
        return acts

    def counts(self, op: Op) -> bool:
        """Whether an op is a step: an op that acts, or contains such ops, or a branch that threads take together and in
        which memory of several roles is handed over, or a loop over stages of such memory."""
        if op not in self._counts:
            is_uniform = isinstance(op, If) and not self.uniformity.varying(op.condition)
            self._counts[op] = any(
                self.acts(o) or (is_uniform and self._prepares(o)) or self._walks_stages(o) for o in op.walk()
            )
        return self._counts[op]

    def _walks_stages(self, loop: Op) -> bool:
        """Whether an op is a loop that computes the stages of memory that roles hand to each other."""
        if not isinstance(loop, LoopLike):
            return False
        ops = [op for region in loop.regions for op in region.walk()]
        regions = [*loop.regions, *(region for op in ops for region in op.regions)]
        computed = {*(v for op in ops for v in op.results), *(v for region in regions for v in region.args)}
        stages = (start for op in ops if (start := stage_of_view(op, self.stages_handed_over)) is not None)
        return any(v in computed and not isinstance(v.owner, ConstantLike) for v in stages)

    def _prepares(self, op: Op) -> bool:
        events = self.events_of(op)
        return any(
            isinstance(e, E.Fence)
            or (isinstance(e, E.MemoryAccess) and self.stages_handed_over(e.at.buffer) > 0)
            for e in events
        )

    @abstractmethod
    def stages_handed_over(self, buffer: Value) -> int:
        """The number of stages of a buffer that roles hand to each other; 0 for other buffers."""


class _PathIndependent:
    """The facts about operands that hold on every path, in the interface of the event table (see events.Known)."""

    def __init__(self, scheduled: Scheduled) -> None:
        self.scheduled = scheduled

    def number(self, value: Value) -> int:
        """The integer 0 for every value: stages are not distinguished."""
        return 0

    def bytes(self, buffer: Value) -> E.Bytes:
        """All bytes of the buffer of a view, counted from the start of the buffer."""
        allocation = self.scheduled.allocations.get(root(buffer))
        return E.Bytes(0, allocation.size if allocation is not None else 1, root(buffer))

    def warp_groups(self, op: Op) -> int:
        """The number of warp groups of the role that an op is in; 1 outside of roles."""
        at = op.parent
        while at is not None and at not in self.scheduled.roles:
            at = at.parent.parent if at.parent is not None else None
        return self.scheduled.warp_groups[self.scheduled.roles.index(at)] if at is not None else 1


def memory(e: E.Event) -> tuple[E.Bytes, ...]:
    """The memory that an event accesses."""
    if isinstance(e, E.Issue):
        return e.operands
    if isinstance(e, E.CopyIn):
        return (e.to,)
    return (e.source,) if isinstance(e, E.CopyOut) else (e.at,) if isinstance(e, E.MemoryAccess) else ()


def number_type(v: Value) -> DType | None:
    """The type of a value that is one number: a scalar, or a tile with one element. None for other values."""
    if isinstance(v.type, TileType) and v.type.size == 1 and not v.type.partial:
        return v.type.dtype if isinstance(v.type.dtype, DType) else None
    return v.type if isinstance(v.type, DType) else None


def array_of(v: Value) -> Value:
    """The array to which a view refers."""
    while isinstance(v.owner, ArrayView):
        v = v.owner.array
    return v


def fingerprint(kernel: Kernel) -> int:
    """A checksum of a kernel: of its ops, their operands, attributes and types, in order."""
    numbers: dict[Value, int] = {v: k for k, v in enumerate(kernel.params)}
    out = 0
    for op in kernel.walk():
        for v in (*op.results, *(v for region in op.regions for v in region.args)):
            numbers[v] = len(numbers)
        attrs = sorted((k, str(x)) for k, x in op.attrs.items())
        results = [v.type.notation for v in op.results]
        line = (op.NAME, [numbers[v] for v in op.operands], results, attrs, len(op.regions))
        out = crc32(str(line).encode(), out)
    return out


# Numbers that the host computes for guards ---------------------------------------------------------------------------


class OfLaunch:
    """The values of a kernel that the host can compute: from parameters and lengths of arrays, by arithmetic."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.decided: dict[Value, bool] = {}

    def __call__(self, v: Value) -> bool:
        if v not in self.decided:
            self.decided[v] = self._is_launch_known(v)
        return self.decided[v]

    def _is_launch_known(self, v: Value) -> bool:
        op = v.owner
        if not isinstance(v.type, DType) or v.type.is_float:
            return False
        if isinstance(op, ArrayShape):
            return op.array in self.kernel.params
        if isinstance(op, BranchLike):
            ends = (region.yielded[op.results.index(v)] for region in op.alternatives)
            return all(map(self, (*op.control_operands, *ends)))
        return v in self.kernel.params or (isinstance(op, COMPUTED) and all(map(self, op.operands)))


def asserts(kernel: Kernel) -> Iterator[Assert]:
    """The asserts of a kernel that all threads reach before roles begin."""
    for op in kernel.body.ops:
        if isinstance(op, Roles):
            return
        inner = op.body.ops if isinstance(op, Lanes) else (op,)
        yield from (o for o in inner if isinstance(o, Assert))


def computing(kernel: Kernel, v: Value) -> list[Any]:
    """The ops on integers that compute a value, in order, without constants and results of branches."""
    ops, cone = kernel.body.ops, {v}
    for op in reversed(ops):
        cone |= set(op.operands) if not cone.isdisjoint(op.results) else set()

    def integers(op: Op) -> bool:
        return all(isinstance(x.type, DType) and x.type.is_int for x in (*op.operands, *op.results))

    operations = (op for op in ops if isinstance(op, COMPUTED) and not isinstance(op, ConstantLike))
    return [op for op in operations if op.result in cone and integers(op)]
