"""Symbolic execution of a program's roles, until the known facts do not decide the next step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from tegula.check.proof.guards import Guard
from tegula.check.proof.known import Known
from tegula.check.proof.program import Engine, HandOver, Program, stage_of
from tegula.check.proof.state import Frame, Hoisted, Role, SlotKey, State, Stuck
from tegula.check.proof.terms import (
    Atom,
    Condition,
    Sum,
    atom,
    choice,
    conjunction,
    disjunction,
    div,
    eq,
    extreme,
    ge,
    mod,
    multiplied,
    negation,
    number,
    range_of_type,
    symbols,
    wrapped,
)
from tegula.check.scheduled import MAX_BOUND, computing
from tegula.ir import ConstantLike, Op, Region, Value
from tegula.ops import events as E
from tegula.ops import scalar as S
from tegula.ops.buffer import BufRead, root
from tegula.ops.control import For, If, While, Yield
from tegula.ops.convert import Cast
from tegula.ops.group import Barrier, MmaWait, RegisterMma, SharedMma
from tegula.ops.lane import LaneUniform
from tegula.ops.schedule import BulkStore, FenceAsync
from tegula.types import DTYPES, BufType, DType

BIT = ((0, 0), (0, 1), (1, 1))
"""The ranges of one-bit numbers."""


class Machine:
    """The symbolic execution of a program's roles. `offsets`: by barrier and role, the number of stages if the role
    waits for the item one phase before, else 0. `lags`: by (barrier, role, other barrier), the maximum lead of the
    role's arrivals at the barrier over its waits at the other barrier, without the offsets of the waits; None if no
    maximum is known. `item_shifts`: by ring and engine, for each barrier, the maximum number of arrivals of the engine
    at an access of the ring, less the item of the ring. `first_accesses`: the engines in the order of their first
    accesses of rings."""

    def __init__(self, program: Program, guards: Iterable[Guard] = ()) -> None:
        self.program = program
        self.guards = list(guards)
        self.requested_guards: dict[Guard, None] = {}
        self.offsets: dict[tuple[int, int], int] = {}
        self.lags: dict[tuple[int, int, int], int | None] = {}
        self.item_shifts: dict[tuple[Value, Engine], dict[int, int]] = {}
        self.first_accesses: dict[tuple[Value, Engine], None] = {}
        self.requires_items = True
        """Whether accesses of items that a role may not have acquired are refused."""
        self.symbol_count = 0
        self.state = State([], Known())
        self.role = 0

    def start(self) -> State:
        """The state at the start of the kernel, in which the guards hold and each role is at its first relevant
        step."""
        state = State([], Known())
        for r, region in enumerate(self.program.roles):
            role = Role([Frame(region, 0, {})])
            for b in range(len(self.program.barriers)):
                if r in self.program.arrivers[b]:
                    role.arrived[b] = number(0)
                if r in self.program.waiters[b]:
                    role.waited[b] = number(0)
            state.roles.append(role)
        self.state, self.role = state, 0
        for guard in self.guards:
            for c in self._conditions_of_guard(guard):
                if c is not None:
                    state.assume(c)
                state.outer.clear()
        for r in range(len(state.roles)):
            self.settle(state, r)
        return state

    def _conditions_of_guard(self, guard: Guard) -> Iterator[Condition]:
        """The conditions that a guard implies."""
        if guard.kind == "assert":
            for op in computing(self.program.kernel, guard.value):
                p = self._exact_result(op, [self.value(x) for x in op.operands], op.result.type)
                low, high = range_of_type(op.result.type)
                a, b = self.state.known.range(p) if isinstance(p, Sum) else (low, high)
                if a < low or b > high:
                    yield from (ge(p - low), ge(number(high) - p))
            yield self.value(guard.value)
        elif guard.kind == "factor":
            p = self.value(guard.value)
            yield None if p is None else ge(p)
        else:
            op = guard.value.owner
            args = [self.value(x) for x in op.operands] if isinstance(op, Op) else []
            if isinstance(op, Op) and None not in args and args:
                p = self._exact_result(op, args, guard.value.type)
            else:
                p = self.value(guard.value)
            if isinstance(p, Sum):
                yield from (ge(p + MAX_BOUND), ge(number(MAX_BOUND) - p))

    # Values ----------------------------------------------------------------------------------------------------------

    def value(self, v: Value) -> Any:
        """The number or condition of a value in the current role; None if the value may differ between threads, or if
        the prover does not model it."""
        frames = self.state.roles[self.role].frames
        for frame in reversed(frames):
            if v in frame.values:
                return frame.values[v]
            if v in frame.derived:
                return frame.derived[v]
        if v in self.state.outer:
            return self.state.outer[v]
        owner = v.owner
        result: Any = None
        if not self.program.uniformity.varying(v):
            if isinstance(owner, Op) and self.program.pure(owner):
                result = self._compute(owner, v)
            elif isinstance(owner, If) and isinstance(v.type, DType):
                result = self._branch_result(owner, v)
            elif owner is self.program.kernel.body:
                result = self._application(v, ("param", str(self.program.number[v]), 0, v.type.notation), ())
        result = self.state.known.normalised(result)
        self._values_at(frames, owner)[v] = result
        return result

    def _values_at(self, frames: list[Frame], owner: Op | Region | None) -> dict[Value, Any]:
        at = owner.parent if isinstance(owner, Op) else owner
        while at is not None:
            for frame in reversed(frames):
                if frame.region is at:
                    return frame.derived
            at = at.parent.parent if at.parent is not None else None
        return self.state.outer

    def _application(self, v: Value, function: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        application = atom("app", function, args)
        return ("is", application) if v.type is DTYPES["bool"] else application

    def _compute(self, op: Op, v: Value) -> Any:
        t = v.type
        if isinstance(op, ConstantLike) and isinstance(t, DType) and not t.is_float:
            return bool(op.value) if t.kind == "b" else number(int(op.value))
        args = [self.value(x) for x in op.operands]
        if any(x is None for x in args):
            return None
        if isinstance(op, LaneUniform):
            return args[0]
        result = self._exact_result(op, args, t)
        if result is None:
            attrs = str(sorted((k, str(x)) for k, x in op.attrs.items()))
            return self._application(v, (op.NAME, attrs, op.results.index(v), t.notation), tuple(args))
        if isinstance(result, Sum) and isinstance(t, DType):
            low, high = range_of_type(t)
            known = self.state.known
            a, b = known.range(result)
            fits_below = a >= low or known.nonnegative(result - low)
            if not (fits_below and (b <= high or known.nonnegative(number(high) - result))):
                self.requested_guards |= dict.fromkeys(self.program.guards.requested(v))
                return wrapped(result, t.name)
        return result

    def _exact_result(self, op: Op, args: list[Any], t: Any) -> Any:
        """The result of an op on integers and bools before it wraps; None for ops that are not modelled."""
        kinds = {v.type.kind for v in op.operands if isinstance(v.type, DType)}
        known = self.state.known
        if isinstance(op, S.Select) and isinstance(t, DType):
            c, x, y = args
            truth = known.holds(c, False)
            c = c if truth is None else truth
            if t.kind == "b":
                return disjunction(conjunction(c, x), conjunction(negation(c), y))
            return choice(c, x, y)
        if kinds == {"b"}:
            if isinstance(op, S.And | S.Or):
                return (conjunction if isinstance(op, S.And) else disjunction)(*args)
            if isinstance(op, S.Not):
                return negation(args[0])
            if not isinstance(op, Cast) or not t.is_int:
                return None
            truth = known.holds(args[0], False)
            return choice(args[0] if truth is None else truth, number(1), number(0))
        if not kinds or not kinds <= {"i", "u"} or not isinstance(t, DType) or t.is_float:
            return None
        x: Sum = args[0]
        y: Sum = args[1] if len(args) > 1 else number(0)
        if isinstance(op, S.Cmp):
            return compared(op.pred, x - y)
        if t.kind == "b":
            return None
        if isinstance(op, S.Add):
            return x + y
        if isinstance(op, S.Sub):
            return x - y
        if isinstance(op, S.Mul):
            return x * y if y.value is None else multiplied(x, y.value)
        if isinstance(op, S.Neg):
            return -x
        if isinstance(op, S.Not):
            return -x - 1
        if isinstance(op, Cast):
            return x
        if isinstance(op, S.Min | S.Max):
            is_min = isinstance(op, S.Min)
            if known.nonnegative(y - x):
                return x if is_min else y
            return (y if is_min else x) if known.nonnegative(x - y) else extreme(op.NAME, x, y)
        if isinstance(op, S.And | S.Or | S.Xor) and all(known.range(p) in BIT for p in (x, y)):
            if isinstance(op, S.Xor) and x.value is None and y.value is None:
                return mod(x + y, 2)
            conjunction_bit = x * y
            return (
                conjunction_bit
                if isinstance(op, S.And)
                else x + y - conjunction_bit * (2 if isinstance(op, S.Xor) else 1)
            )
        n = y.value
        return None if n is None or n < 0 else self._by_constant(op, x, n)

    def _by_constant(self, op: Op, x: Sum, n: int) -> Sum | None:
        positive = n > 0
        if isinstance(op, S.FloorDiv) and positive:
            return div(x, n)
        if isinstance(op, S.Div | S.Mod) and positive:  # toward zero
            part = div if isinstance(op, S.Div) else mod
            is_nonnegative = self.state.known.nonnegative(x) or ge(x)
            return choice(is_nonnegative, part(x, n), -part(-x, n))
        if isinstance(op, S.And) and n & (n + 1) == 0:
            return mod(x, n + 1)
        if isinstance(op, S.Xor) and n == 1:
            return x + 1 - mod(x, 2) * 2
        if isinstance(op, S.Shl | S.Shr) and n < 31:
            return multiplied(x, 1 << n) if isinstance(op, S.Shl) else div(x, 1 << n)
        return None

    # Steps -----------------------------------------------------------------------------------------------------------

    def frame(self, state: State, r: int) -> Frame:
        """The innermost frame of a role."""
        return state.roles[r].frames[-1]

    def op(self, state: State, r: int) -> Op:
        """The next op of a role; at a loop's head, the loop."""
        frame = self.frame(state, r)
        if frame.at >= 0:
            return frame.region.ops[frame.at]
        assert frame.region.parent is not None
        return frame.region.parent

    def ended(self, state: State, r: int) -> bool:
        """Whether a role is at the end of its own region."""
        return len(state.roles[r].frames) == 1 and isinstance(self.op(state, r), Yield)

    def settle(self, state: State, r: int) -> None:
        """Run a role up to its next relevant step."""
        self.state, self.role = state, r
        role = state.roles[r]
        while True:
            frame = role.frames[-1]
            if frame.at < 0:
                return
            op = frame.region.ops[frame.at]
            if isinstance(op, For | While) and self.program.counts(op):
                args = op.arguments
                initial = {a: self.value(v) for a, v in zip(args, op.initial, strict=True)}
                if isinstance(op, For):
                    initial[op.index] = self.value(op.start)
                self._transfer_in_flight(role, zip(args, op.initial, strict=True))
                role.frames.append(Frame(op.body, -1, initial))
                return
            if isinstance(op, Yield | Barrier | FenceAsync) or self.program.counts(op):
                return
            self._execute_silently(role, frame, op)
            frame.at += 1

    def _execute_silently(self, role: Role, frame: Frame, op: Op) -> None:
        for o in op.walk():
            if not (isinstance(o, BufRead) and o.result not in self.program.used):
                for e in self.program.events_of(o):
                    if isinstance(e, E.MemoryAccess):
                        self._access(role, e, o, o is op)
        for v in op.results:
            numeric = isinstance(v.type, DType) and not self.program.uniformity.varying(v)
            if numeric and not self.program.pure(op) and frame.values.get(v) is None:
                chosen = self._branch_result(op, v) if isinstance(op, If) else None
                frame.values[v] = self._arbitrary_number(v) if chosen is None else chosen

    def _branch_result(self, op: If, v: Value) -> Any:
        c = self.value(op.condition)
        x, y = (self.value(region.yielded[op.results.index(v)]) for region in op.regions)
        if c is None or x is None or y is None:
            return None
        if v.type is DTYPES["bool"]:
            return disjunction(conjunction(c, x), conjunction(negation(c), y))
        return choice(c, x, y)

    def _arbitrary_number(self, v: Value) -> Any:
        """An arbitrary number of a value's type: a new symbol, which the path binds."""
        self.symbol_count += 1
        symbol = Atom("sym", f"o{self.symbol_count}", *range_of_type(v.type))
        self.state.bound.append(symbol)
        symbol_sum = Sum({(symbol,): 1})
        return ("is", symbol_sum) if v.type is DTYPES["bool"] else symbol_sum

    def condition(self, state: State, r: int) -> Condition | None:
        """The condition that a role decides next; None if the next step decides nothing, or if threads may decide
        differently."""
        self.state, self.role = state, r
        frame = self.frame(state, r)
        op = self.op(state, r)
        if frame.at >= 0:
            return self.value(op.condition) if isinstance(op, If) else None
        if isinstance(op, For):
            step, i, stop = self.value(op.step), frame.values[op.index], self.value(op.stop)
            if step is None or i is None or stop is None:
                return None
            for magnitude, continues in ((step, ge(stop - i - 1)), (-step, ge(i - stop - 1))):
                is_positive = state.known.holds(ge(magnitude - 1))
                if is_positive is None:
                    c = self._sign_condition(magnitude)
                    if symbols(c):
                        return None
                    raise Hoisted(c)
                if is_positive:
                    return continues
            return False  # a loop with a step of 0 has no iterations
        assert isinstance(op, While)
        test = op.condition
        values = {a: frame.values.get(b) for a, b in zip(test.args, op.body.args, strict=True)}
        state.roles[r].frames.append(Frame(test, 0, values))
        value = self.value(test.yielded[0])
        state.roles[r].frames.pop()
        return value

    def _sign_condition(self, step: Sum) -> Condition:
        """The first undecided condition on which the sign of a number, the step of a loop or its negation, depends."""
        for a in sorted(step.atoms()):
            if a.kind == "ite" and self.state.known.holds(a.subterms[0]) is None:
                undecided = (ge(p - 1) for p in a.subterms[1:] if self.state.known.holds(ge(p - 1)) is None)
                return next(undecided, a.subterms[0])
        return ge(step - 1)

    def step(self, state: State, r: int) -> bool:
        """Execute the next step of a role; False where a wait is not proved to end, or a condition is undecided."""
        self.state, self.role = state, r
        role = state.roles[r]
        frame, op = role.frames[-1], self.op(state, r)
        if frame.at < 0 or isinstance(op, If):
            c = self.condition(state, r)
            decided = state.known.holds(c) if c is not None else None
            if decided is None:
                return False
            self._take_branch(role, frame, op, decided)
        elif isinstance(op, Yield):
            self._leave(role, frame, op)
        elif not self._event(role, frame, op):
            return False
        self.settle(state, r)
        return True

    def _take_branch(self, role: Role, frame: Frame, op: Op, condition: bool) -> None:
        if isinstance(op, If):
            role.frames.append(Frame(op.then if condition else op.orelse, 0, {}))
        elif condition:
            frame.at = 0
        else:
            assert isinstance(op, For | While)
            role.frames.pop()
            self._bind_results(role, op.results, [frame.values.get(a) for a in op.arguments], op.arguments)

    def _bind_results(
        self, role: Role, results: list[Value], values: list[Any], yielded: list[Value]
    ) -> None:
        """Bind the results of an op to the values that its region has yielded."""
        frame = role.frames[-1]
        for v, x in zip(results, values, strict=True):
            if isinstance(v.type, DType):
                frame.values[v] = x
        self._transfer_in_flight(role, zip(results, yielded, strict=True))
        frame.at += 1

    def _leave(self, role: Role, frame: Frame, op: Yield) -> None:
        parent = frame.region.parent
        values = [self.value(v) for v in op.values]
        if isinstance(parent, If):
            role.frames.pop()
            self._bind_results(role, parent.results, values, op.values)
            return
        assert isinstance(parent, For | While)
        args = parent.arguments
        arguments = dict(zip(args, values, strict=True))
        if isinstance(parent, For):
            step, i = self.value(parent.step), frame.values[parent.index]
            arguments[parent.index] = None if step is None or i is None else i + step
        self._transfer_in_flight(role, zip(args, op.values, strict=True))
        role.frames[-1] = Frame(frame.region, -1, arguments, frame.iteration + 1)

    def _transfer_in_flight(self, role: Role, rows: Iterable[tuple[Value, Value]]) -> None:
        """For each pair (target, source) of values of one tile, record the matmul in flight of the source for the
        target."""
        for target, source in list(rows):
            role.in_flight.pop(target, None)
            if source in role.in_flight:
                role.in_flight[target] = role.in_flight[source]

    # Events ----------------------------------------------------------------------------------------------------------

    def number(self, value: Value) -> Any:
        """The number of a value in the current role; raises Stuck if the value may differ between threads."""
        result = self.value(value)
        if result is None:
            raise Stuck("the stage is unknown", None, self.role)
        return result

    def warp_groups(self, op: Op) -> int:
        """The number of warp groups of the current role."""
        return self.program.warp_groups[self.role]

    def bytes(self, buffer: Value) -> E.Bytes:
        """All bytes of a buffer, with the stage that a view selects; the stage is -1 if the view does not select a
        single stage."""
        buffer_root = root(buffer)
        allocation, ring = self.program.allocations.get(buffer_root), self.program.rings.get(buffer_root)
        stage: Any = -1
        stages = ring.stages if ring is not None else self.program.slots(buffer_root)
        if stages:
            at = stage_of(buffer) if stages > 1 else None
            stage = self.number(at) if at is not None else number(0) if stages == 1 else -1
        return E.Bytes(0, allocation.size if allocation is not None else 1, buffer_root, stage)

    def _event(self, role: Role, frame: Frame, op: Op) -> bool:
        """Execute one event; False for a wait that is not proved to end."""
        if not role.completed_events:
            role.events = tuple(E.events(op, self))
        if role.completed_events < len(role.events):
            if not self._execute(role, op, role.events[role.completed_events]):
                return False
            role.completed_events += 1
        if role.completed_events >= len(role.events):
            if isinstance(op, SharedMma | RegisterMma) and op.unit == "wgmma":
                role.in_flight[op.result] = role.issued_matmuls
            elif isinstance(op, MmaWait):
                self._transfer_in_flight(role, zip(op.results, op.sums, strict=True))
            role.completed_events = 0
            frame.at += 1
        return True

    def _execute(self, role: Role, op: Op, e: Any) -> bool:
        many = self.program.warps[self.role] > 1
        if isinstance(e, E.Wait):
            return self._wait(role, e, many)
        if isinstance(e, E.NamedWait):
            b = self.program.barrier[e.barrier]
            if not self._is_complete(b, role.arrived[b] - 1):
                return False
            role.waited[b] = role.arrived[b]
            self._sync(role, E.Sync(), op)
        elif isinstance(e, E.Arrive | E.NamedArrival):
            b = self.program.barrier[e.barrier]
            if isinstance(e, E.Arrive) and not self._is_stage_of(e.stage, role.arrived.get(b), b):
                raise Stuck("the stage is not the stage of the item", None, self.role)
            self._record_lag(role, b, isinstance(e, E.Arrive) and e.elected)
            role.arrived[b] = role.arrived[b] + 1
            role.outstanding_bytes[b] = role.outstanding_bytes.get(b, 0) + (
                e.bytes if isinstance(e, E.Arrive) else 0
            )
            role.repeatable_waits.clear()
        elif isinstance(e, E.CopyIn):
            b = self.program.barrier[e.barrier]
            if b not in role.arrived:
                raise Stuck("a copy completes on a barrier at which its role does not arrive", op, self.role)
            item = role.arrived[b]
            if role.outstanding_bytes.get(b, 0) < e.bytes:
                self._record_lag(role, b, True)
            else:
                item = item - 1
            role.outstanding_bytes[b] = role.outstanding_bytes.get(b, 0) - e.bytes
            self._record_first_access(e.to, (self.role, True), {b: item})
            n = self.program.number[e.to.buffer]
            self.state.contents = [row for row in self.state.contents if row[0] != n]
        elif isinstance(e, E.MemoryAccess):
            self._access(role, e, op, True)
        elif isinstance(e, E.Fence):
            role.warps_unordered = role.warps_unordered or (many and any(k is None for _, k in role.unfenced))
            role.unsynchronised |= {
                (n, k): 2 for n, k in role.unfenced if many and (k is not None or self._writes_in_place(n))
            }
            role.unfenced.clear()
        elif isinstance(e, E.Sync):
            self._sync(role, e, op)
        elif isinstance(e, E.Issue):
            role.issued_matmuls += 1
            in_registers: Value | None = None
            if isinstance(op, RegisterMma):
                in_registers = op.b if isinstance(op.a.type, BufType) else op.a
            role.pending_matmuls.append(
                (role.issued_matmuls, [self._slot_of(role, at) for at in e.operands], in_registers)
            )
            role.warps_unordered = role.warps_unordered or many
        elif isinstance(e, E.MmaComplete):
            done = max(0, len(role.pending_matmuls) - e.pending)
            self._complete_for_issuers(
                role, [k for _, frames, _ in role.pending_matmuls[:done] for k in frames]
            )
            role.warps_unordered = role.warps_unordered or (many and done > 0)
            role.pending_matmuls = role.pending_matmuls[done:]
        elif isinstance(e, E.CopyOut | E.Commit):
            if isinstance(e, E.CopyOut):
                role.uncommitted_reads = [*role.uncommitted_reads, self._slot_of(role, e.source)]
            if isinstance(e, E.Commit) or e.commit:
                role.bulk_groups.append(role.uncommitted_reads)
                role.uncommitted_reads = []
        elif isinstance(e, E.CopiesOutDone):
            done = max(0, len(role.bulk_groups) - e.pending)
            self._complete_for_issuers(role, [k for frames in role.bulk_groups[:done] for k in frames])
            role.bulk_groups = role.bulk_groups[done:]
        return True

    def _complete_for_issuers(self, role: Role, slots: Iterable[SlotKey]) -> None:
        """Record memory whose asynchronous reads are complete. Only the issuing warps know this until all warps have
        synchronised."""
        for n, k in slots if self.program.warps[self.role] > 1 else ():
            if self.program.values[n] not in self.program.rings:
                role.issuer_only_reads.add((n, k if isinstance(k, int) else -1))
            elif self._writes_in_place(n):
                role.issuer_only_reads.add((n, None))

    def _writes_in_place(self, ring: int) -> bool:
        """Whether threads of the role write a ring with the engine that also reads it."""
        return (self.role, False) in self.program.writers[ring]

    def _is_stage_of(self, stage: Any, item: Sum | None, b: int) -> bool:
        """Whether a stage is the stage of an item."""
        return item is not None and self.state.known.equal(stage, mod(item, self.program.stages[b]))

    def last_waited(self, role: Role, r: int, b: int) -> Sum:
        """The item of a role's last wait for a barrier."""
        return role.waited[b] - 1 - self.offsets.get((b, r), 0)

    def _wait(self, role: Role, e: E.Wait, many: bool) -> bool:
        b = self.program.barrier[e.barrier]
        stages, w = self.program.stages[b], role.waited[b]
        stage: Any = e.stage
        parity: Any = e.parity
        known = self.state.known
        if (b, self.role) not in self.offsets:
            self.offsets[b, self.role] = stages if known.equal(parity, mod(div(w, stages) + 1, 2)) else 0
            for key, lag in self.lags.items():  # of arrivals before this first wait
                if lag is not None and key[1:] == (self.role, b):
                    self.lags[key] = lag + self.offsets[b, self.role] * self.program.units[b]
        offset = self.offsets[b, self.role]
        if not (
            known.equal(stage, mod(w, stages))
            and known.equal(parity, mod(div(w, stages) + offset // stages, 2))
        ):
            if b in role.repeatable_waits:
                return True
            raise Stuck("the stage or the parity does not belong to the item", None, self.role)
        if not self._is_complete(b, w - offset):
            return False
        role.waited[b] = w + 1
        role.repeatable_waits.add(b)
        if many:
            role.one_warp_ahead, role.warps_unordered = (
                role.one_warp_ahead or e.elected,
                role.warps_unordered or not e.elected,
            )
        return True

    def _is_complete(self, b: int, item: Sum) -> bool:
        known = self.state.known
        if known.nonnegative(-item - 1):
            return True
        arrivers = self.program.arrivers[b]
        return bool(arrivers) and all(
            known.nonnegative(self.state.roles[q].arrived[b] - item - 1) for q in arrivers
        )

    def _record_lag(self, role: Role, b: int, elected: bool, accesses: bool = False) -> None:
        """Record in `lags` the lead of an arrival, of one warp (`elected`) or of all warps, over the waits of these
        warps at each barrier. Waits of other warps count only after all warps have synchronised. `accesses`: the role
        does not arrive yet, but writes a ring that the arrival hands over."""
        warps_differ = self.program.warps[self.role] > 1 and (
            role.warps_unordered if elected else role.one_warp_ahead
        )
        c, units, stages = role.arrived[b], self.program.units, self.program.stages
        for waited_barrier in role.waited:
            key = (b, self.role, waited_barrier)
            limit = stages[b] * units[b] + stages[waited_barrier] * units[waited_barrier]
            same_warps = ((waited_barrier, self.role) in self.program.waits_of_one) == elected
            lag = (
                self._upper_bound(
                    (c + 1) * units[b] - role.waited[waited_barrier] * units[waited_barrier], limit
                )
                if same_warps or not warps_differ
                else None
            )
            previous = self.lags.get(key, lag)
            self.lags[key] = None if lag is None or previous is None else max(lag, previous)
        if accesses:
            return
        key = (b, self.role, -1)
        is_first_use = self.state.known.nonnegative(number(self.program.stages[b] - 1) - c)
        self.lags[key] = 0 if is_first_use and self.lags.get(key, 0) == 0 else None

    def _record_first_access(self, at: E.Bytes, engine: Engine, arrived: dict[int, Sum]) -> None:
        """Record an engine's first access of a ring, in `first_accesses` and `item_shifts`. The item is the number of
        the stage if all numbers of arrivals are known, else the last item of that stage that has been handed over."""
        key = (at.buffer, engine)
        self.first_accesses.setdefault(key)
        if key in self.item_shifts:
            return
        item: Sum | None = number(at.stage)
        if any(x.value is None for x in arrived.values()):
            item = self._item_of_stage(at, self._last_acquired_items(at, engine))
        resolved = self.state.known.resolved
        groups = {row.barrier: row.group for row in self.program.rings[at.buffer].handovers}
        shifts = {
            b: resolved(x - div(item, groups.get(b, 1))).value for b, x in arrived.items() if item is not None
        }
        known_shifts = {b: n for b, n in shifts.items() if n is not None}
        if known_shifts:
            self.item_shifts[key] = known_shifts

    def _last_acquired(self, at: E.Bytes, engine: Engine) -> Iterator[Sum]:
        """The last item that an engine has acquired from each engine of another role."""
        ring = self.program.rings.get(at.buffer)
        if ring is None:
            name = at.buffer.name or "a buffer"
            raise Stuck(f"roles share {name}, and no pair of barriers hands it over", None, self.role)
        for row in ring.handovers:
            if row.acquirer == engine and not row.own:
                last = row.last_of(
                    self.last_waited(self.state.roles[self.role], self.role, row.barrier),
                    self.item_shift(at.buffer, row),
                )
                order = (x for v, x in self.first_accesses if v is at.buffer and x in (engine, row.releaser))
                yield last + (0 if next(order, engine) == row.releaser else ring.stages)

    def _last_acquired_items(self, at: E.Bytes, engine: Engine) -> list[Sum]:
        """The last items that an engine has acquired, one for each stage."""
        last = next(self._last_acquired(at, engine), None)
        return [] if last is None else [last - k for k in range(self.program.rings[at.buffer].stages)]

    def _item_of_stage(self, at: E.Bytes, items: Sequence[Sum]) -> Sum | None:
        """The item of `items` that is in the accessed stage: preferably an item whose stage is the identical term, else
        an item whose stage is known to be equal."""
        stages = self.program.rings[at.buffer].stages
        stage, rows = number(at.stage), [(item, mod(item, stages)) for item in items]
        identical = (item for item, own in rows if own == stage)
        equal = (item for item, own in rows if self.state.known.equal(stage, own))
        return next(chain(identical, equal), None)

    def item_shift(self, v: Value, row: HandOver) -> int:
        """The item for which the releasing engine arrives, less the item of the ring that it hands over."""
        return self.item_shifts.get((v, row.releaser), {}).get(row.barrier, 0)

    def _upper_bound(self, p: Sum, limit: int) -> int | None:
        """The least known upper bound of a sum between -limit and limit; None if there is none."""
        if p.value is not None:
            return p.value
        if not self.state.known.nonnegative(number(limit) - p):
            return None
        return next(n for n in range(-limit, limit + 1) if self.state.known.nonnegative(number(n) - p))

    def _slot_of(self, role: Role, at: E.Bytes, writes: bool = False) -> SlotKey:
        ring, n = self.program.rings.get(at.buffer), self.program.number[at.buffer]
        if ring is None:
            return n, at.stage
        engine = ring.engine(self.role, writes, False)
        self._record_first_access(at, engine, role.arrived)
        candidates: list[Sum] = []
        for row in ring.handovers_from(engine)[:1]:
            first = (role.arrived[row.barrier] - self.item_shift(at.buffer, row)) * row.group
            candidates += [first + k for k in range(ring.stages)]
        item = self._item_of_stage(at, [*candidates, *self._last_acquired_items(at, engine)])
        if item is None:
            raise Stuck("the stage does not belong to an item that the role has waited for", None, self.role)
        if self.requires_items and any(
            not self.state.known.nonnegative(last - item) for last in self._last_acquired(at, engine)
        ):
            raise Stuck("the stage may still be in use", None, self.role)
        for row in ring.handovers_from(engine):
            self._raise_shift(at.buffer, row, role.arrived[row.barrier] - div(item, row.group))
        return n, item

    def _raise_shift(self, v: Value, row: HandOver, shift: Sum) -> None:
        """Raise the recorded shift of a hand-over, if the engine has arrived for later items at this access than at
        the previous ones."""
        recorded = self.item_shift(v, row)
        if not self.state.known.nonnegative(number(recorded) - shift):
            bound = self._upper_bound(shift, self.program.rings[v].stages)
            if bound is not None:
                key = (v, row.releaser)
                self.item_shifts[key] = {**self.item_shifts.get(key, {}), row.barrier: bound}

    def _access(self, role: Role, e: E.MemoryAccess, op: Op, is_certain: bool) -> None:
        v, n = e.at.buffer, self.program.number[e.at.buffer]
        ring, many = self.program.rings.get(v), self.program.warps[self.role] > 1
        if ring is not None:
            engine = ring.engine(self.role, e.write, False)
            has_contents = v in self.program.rings_with_contents
            if op.NAME != "buf.new":
                at = self._accessed(op, v)
                self._record_first_access(at, engine, role.arrived)
                if ring.handovers_from(engine):
                    self._slot_of(role, at, e.write)
                if many and e.write:  # the threads may rely on the chain of their next arrival
                    for row in ring.handovers_from(engine):
                        self._record_lag(role, row.barrier, False, accesses=True)
                if has_contents:
                    self._update_contents(role, e, at, is_certain)
            if ring.copying_roles or (e.write and ring.asynchronous):
                role.unfenced.add((n, None))
            role.warps_unordered = role.warps_unordered or many
        elif e.write:
            for m in self.program.overlapping.get(v, ()):
                slot: Any = e.at.stage if m == n else -1
                role.unfenced.add((m, slot if isinstance(slot, int) else -1))
                slots = [*self._read_slots(role, m)]
                if slots and m == n and slot == -1:
                    slot = self._accessed(op, v).stage
                if not all(self._differ(slot, k) for k in slots):
                    message = "memory that a bulk store or matmul in flight reads is overwritten"
                    raise Stuck(message, op, self.role)

    def _accessed(self, op: Op, v: Value) -> E.Bytes:
        """The memory of a buffer that an op accesses, with the stage."""
        accesses = (e.at for e in E.events(op, self) if isinstance(e, E.MemoryAccess))
        return next(at for at in accesses if at.buffer is v)

    def _read_slots(self, role: Role, n: int) -> Iterator[Any]:
        """The slots of a buffer that matmuls and bulk stores read, or have read without all warps knowing this."""
        in_flight = [*(p for _, p, _ in role.pending_matmuls), *role.bulk_groups, role.uncommitted_reads]
        return (k for keys in (*in_flight, role.issuer_only_reads) for m, k in keys if m == n)

    def _differ(self, slot: Any, other: Any) -> bool:
        """Whether two slots of a buffer are known to differ; the slot -1 is the whole buffer."""
        if slot == -1 or other == -1:
            return False
        a, b = (number(x) if isinstance(x, int) else x for x in (slot, other))
        return self.state.known.holds(eq(a - b)) is False

    def _update_contents(self, role: Role, e: E.MemoryAccess, at: E.Bytes, is_certain: bool) -> None:
        """Update the known contents of stages after a store of one number to a stage, or the value of a loaded
        element."""
        n, item = self._slot_of(role, at, e.write)
        if e.write:
            stages = self.program.rings[e.at.buffer].stages
            self.state.contents = [
                (m, other, x)
                for m, other, x in self.state.contents
                if m != n or ((other - item).value or 0) % stages
            ]
            stored = self.value(e.number) if is_certain and e.number is not None else None
            if stored is not None:
                self.state.contents.append((n, item, stored))
        elif is_certain and e.number is not None and not self.program.uniformity.varying(e.number):
            for m, other, stored in self.state.contents:
                if m == n and self.state.known.equal(other, item):
                    role.frames[-1].values[e.number] = stored

    def _sync(self, role: Role, e: E.Sync, op: Op) -> None:
        if e.warp_group and self.program.warp_groups[self.role] > 1:
            role.unsynchronised = {k: min(level, 1) for k, level in role.unsynchronised.items()}
            if isinstance(op, BulkStore):
                staging = self.program.number[root(op.buffer)]
                role.issuer_only_reads = {k for k in role.issuer_only_reads if k[0] != staging}
            return
        role.unsynchronised, role.issuer_only_reads, role.warps_unordered, role.one_warp_ahead = (
            {},
            set(),
            False,
            False,
        )


def compared(pred: str, d: Sum) -> Condition:
    """The condition that two numbers compare by the predicate `pred`, from their difference."""
    if pred in ("eq", "ne"):
        return eq(d) if pred == "eq" else negation(eq(d))
    d = d if pred[0] == "g" else -d
    return ge(d if pred[1] == "e" else d - 1)
