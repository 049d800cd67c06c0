"""Symbolic execution of a program's roles, until the known facts do not decide the next step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tegula.check.proof.accesses import Accesses
from tegula.check.proof.guards import Guard
from tegula.check.proof.known import Known
from tegula.check.proof.program import Program
from tegula.check.proof.state import Frame, Hoisted, Role, SlotKey, StartsEarly, State, Stuck
from tegula.check.proof.terms import (
    Condition,
    Sum,
    div,
    ge,
    inside,
    mod,
    number,
    of_launch,
    range_of_type,
    symbols,
)
from tegula.check.scheduled import MAX_BOUND, computing, number_type
from tegula.ir import BranchLike, Op, Value
from tegula.ops import events as E
from tegula.ops.buffer import BufRead, root
from tegula.ops.control import For, While, Yield
from tegula.ops.group import Barrier, MmaWait, RegisterMma, SharedMma
from tegula.ops.schedule import BulkStore, FenceAsync
from tegula.types import BufType, DType

MAX_CASES = 9
"""The maximum number of values of a number of the launch for each of which a proof is looked for."""


class Machine(Accesses):
    """The symbolic execution of a program's roles."""

    def __init__(
        self,
        program: Program,
        guards: Iterable[Guard] = (),
        early_waits: Iterable[tuple[int, int]] = (),
        rotates: bool = True,
    ) -> None:
        """`early_waits`: the barriers and roles whose waits begin with the items before the first ones; `rotates`:
        whether item 0 of a barrier may be in a stage that depends on the launch."""
        super().__init__(program)
        self.guards, self.early_waits, self.rotates = list(guards), set(early_waits), rotates

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

    # Steps ------------------------------------------------------------------------------------------------------------

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
            t = None if self.program.uniformity.varying(v) or self.program.pure(op) else number_type(v)
            if t is not None:
                frame.values[v] = self._arbitrary_number(t) if (x := self.value(v)) is None else x

    def condition(self, state: State, r: int) -> Condition | None:
        """The condition that a role decides next; None if the next step decides nothing, or if threads may decide
        differently."""
        self.state, self.role = state, r
        frame = self.frame(state, r)
        op = self.op(state, r)
        if frame.at >= 0:
            return self._condition_of_branch(op)
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
        if frame.at < 0 or isinstance(op, BranchLike):
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
        if isinstance(op, BranchLike):
            role.frames.append(Frame(op.alternatives[0 if condition else 1], 0, {}))
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
        if isinstance(parent, BranchLike):
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

    # Events -----------------------------------------------------------------------------------------------------------

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
            if (b, self.role) not in self.offsets:
                self._begin_waits(b, 0)
            role.waited[b] = role.arrived[b]
            self._sync(role, E.Sync(), op)
        elif isinstance(e, E.Arrive | E.NamedArrival):
            b = self.program.barrier[e.barrier]
            if isinstance(e, E.Arrive) and not self._is_stage_of(e.stage, role.arrived.get(b), b):
                raise Stuck("the stage is not the stage of the item", None, self.role)
            self._record_lag(role, b, isinstance(e, E.Arrive) and e.elected)
            elected = isinstance(e, E.Arrive) and e.elected
            so_far, parts = role.parts.pop(b, (0, 0)), self.program.parts.get((b, self.role))
            so_far = (so_far[0] + elected, so_far[1] + (not elected))
            if parts is None or so_far == parts:
                role.arrived[b] = role.arrived[b] + 1
            elif so_far[0] > parts[0] or so_far[1] > parts[1]:
                raise Stuck("the role has arrived for the item before", op, self.role)
            else:
                role.parts[b] = so_far
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
            elif b not in role.parts:
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

    def _is_stage_of(self, stage: Any, item: Sum | None, b: int) -> bool:
        """Whether a stage is the stage of an item."""
        if item is None:
            return False
        self._record_rotation(stage, item, b)
        stage_of_item = mod(item + self.rotation(b), self.program.stages[b])
        return self.state.known.equal(stage, stage_of_item)

    def _record_rotation(self, stage: Any, item: Sum, b: int) -> None:
        """Record the stage of item 0 of a barrier at the first wait or arrival, if it depends on numbers of the
        launch."""
        if b in self.rotations:
            return
        first = number(stage) - item
        is_rotated = (
            self.rotates and not symbols(first) and first.value is None and of_launch(tuple(inside(first)))
        )
        if is_rotated and not self.state.known.equal(stage, mod(item, self.program.stages[b])):
            self.rotations[b] = first
            self._split_by_small_number(stage)
        else:
            self.rotations[b] = number(0)

    def _wait(self, role: Role, e: E.Wait, many: bool) -> bool:
        b = self.program.barrier[e.barrier]
        stages, w = self.program.stages[b], role.waited[b]
        stage: Any = e.stage
        parity: Any = e.parity
        known = self.state.known
        if (b, self.role) not in self.offsets:
            starts_early = (b, self.role) in self.early_waits
            starts_early = starts_early or known.equal(parity, mod(div(w, stages) + 1, 2))
            self._begin_waits(b, stages if starts_early else 0)
        offset = self.offsets[b, self.role]

        def is_for(w: Sum) -> bool:
            parity_of_item = mod(div(w, stages) + offset // stages, 2)
            return self._is_stage_of(stage, w, b) and known.equal(parity, parity_of_item)

        if not is_for(w):
            if b in role.repeatable_waits and is_for(w - 1):
                return True
            w = self._next_item_of_stage(stage, w, b)
            is_first_use = known.nonnegative(number(offset - 1) - w)
            w = next((x for x in (w, w + stages) if is_for(x) and (x is w or is_first_use)), w)
            if b in self.program.copied or not is_for(w):
                if not offset and b not in self.program.copied and is_for(w + stages):
                    raise StartsEarly(b, self.role)
                self._split_by_small_number(stage, parity)
                raise Stuck("the stage or the parity does not belong to the item", None, self.role)
        if not self._is_complete(b, w - offset):
            return False
        if offset:
            self._record_late_waits(role, b, w - offset)
        passed = (w - role.waited[b]).value or 0
        self.passed[b, self.role] = passed, self.passed.get((b, self.role), (0, 0))[0]
        role.waited[b] = w + 1
        role.repeatable_waits.add(b)
        if many:
            role.one_warp_ahead, role.warps_unordered = (
                role.one_warp_ahead or e.elected,
                role.warps_unordered or not e.elected,
            )
        return True

    def _begin_waits(self, b: int, offset: int) -> None:
        """Record the offset of the current role's waits at a barrier, and its lags before the first wait."""
        self.offsets[b, self.role] = offset
        for key in [key for key in self.leads if key[1:] == (self.role, b)]:
            lag = self.leads.pop(key) - offset * self.program.units[b]
            previous = self.lags.get(key, lag)
            self.lags[key] = None if previous is None else max(lag, previous)

    def _next_item_of_stage(self, stage: Any, w: Sum, b: int) -> Sum:
        """The first item from w on that is in a stage: a number after w, or a number after the item of which the stage
        is the remainder, or else w and a remainder."""
        known, stages = self.state.known, self.program.stages[b]
        distance = number(stages - 1) - mod(w + self.rotation(b) - number(stage) - 1, stages)
        constant = next((k for k in range(1, stages) if known.equal(distance, number(k))), None)
        if constant is not None:
            return w + constant
        dividends = [
            a.subterms[0] for a in number(stage).atoms() if a.kind == "mod" and a.subterms[1] == stages
        ]
        for x in (q + k for q in [*dividends, number(stage)] for k in (self.offsets[b, self.role], 0)):
            if known.nonnegative(x - w) and known.nonnegative(w + stages - 1 - x):
                return x
        return w + distance

    def _split_by_small_number(self, *terms: Any) -> None:
        """Raise Hoisted for a number of the launch in a stage or parity that has few values: each is proved
        separately."""
        known = self.state.known
        for a in sorted(inside(tuple(map(number, terms)))):
            low, high = known.range(Sum({(a,): 1})) if a.kind == "app" and of_launch(a.subterms) else (0, 0)
            if 0 < high - low < MAX_CASES:
                raise Hoisted(ge(number(low) - Sum({(a,): 1})))

    def _is_complete(self, b: int, item: Sum) -> bool:
        known = self.state.known
        if known.nonnegative(-item - 1):
            return True
        arrivers = self.program.arrivers[b]
        return bool(arrivers) and all(
            known.nonnegative(self.state.roles[q].arrived[b] - item - 1) for q in arrivers
        )

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
