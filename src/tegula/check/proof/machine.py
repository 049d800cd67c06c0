"""Symbolic execution of a program's roles, as long as the known facts decide the next step."""

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
"""Ranges of numbers that are one bit."""


class Machine:
    """The symbolic execution of a program's roles. `offsets`: by barrier and role, the number of stages if the role's
    waits are for the item one phase before, else 0; `lags`: by (barrier, role, other barrier), the largest lead of the
    role's arrivals over its waits that was seen, without the offsets of the waits (None: not bounded by a number);
    `firsts`: the number of arrivals of an engine at each barrier when it first accessed a ring, less the item of the
    ring, or the largest such number of later accesses; `first_accesses`: the order in which engines first accessed
    rings."""

    def __init__(self, program: Program, guards: Iterable[Guard] = ()) -> None:
        self.program = program
        self.guards = list(guards)
        self.requested: dict[Guard, None] = {}
        self.offsets: dict[tuple[int, int], int] = {}
        self.lags: dict[tuple[int, int, int], int | None] = {}
        self.firsts: dict[tuple[Value, Engine], dict[int, int]] = {}
        self.first_accesses: dict[tuple[Value, Engine], None] = {}
        self.noting = True
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
            for c in self._guarded(guard):
                if c is not None:
                    state.assume(c)
                state.outer.clear()
        for r in range(len(state.roles)):
            self.settle(state, r)
        return state

    def _guarded(self, guard: Guard) -> Iterator[Condition]:
        """The conditions that hold in launches that satisfy a guard."""
        if guard.kind == "assert":
            for op in computing(self.program.kernel, guard.value):
                p = self._exact(op, [self.value(x) for x in op.operands], op.result.type)
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
                p = self._exact(op, args, guard.value.type)
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
        if not self.program.known.varying(v):
            if isinstance(owner, Op) and self.program.pure(owner):
                result = self._compute(owner, v)
            elif isinstance(owner, If) and isinstance(v.type, DType):
                result = self._chosen(owner, v)
            elif owner is self.program.kernel.body:
                result = self._app(v, ("param", str(self.program.number[v]), 0, v.type.notation), ())
        result = self.state.known.now(result)
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

    def _app(self, v: Value, function: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
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
        result = self._exact(op, args, t)
        if result is None:
            attrs = str(sorted((k, str(x)) for k, x in op.attrs.items()))
            return self._app(v, (op.NAME, attrs, op.results.index(v), t.notation), tuple(args))
        if isinstance(result, Sum) and isinstance(t, DType):
            low, high = range_of_type(t)
            known = self.state.known
            a, b = known.range(result)
            above = a >= low or known.nonnegative(result - low)
            if not (above and (b <= high or known.nonnegative(number(high) - result))):
                self.requested |= dict.fromkeys(self.program.guards.requested(v))
                return wrapped(result, t.name)
        return result

    def _exact(self, op: Op, args: list[Any], t: Any) -> Any:
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
            least = isinstance(op, S.Min)
            if known.nonnegative(y - x):
                return x if least else y
            return (y if least else x) if known.nonnegative(x - y) else extreme(op.NAME, x, y)
        if isinstance(op, S.And | S.Or | S.Xor) and all(known.range(p) in BIT for p in (x, y)):
            if isinstance(op, S.Xor) and x.value is None and y.value is None:
                return mod(x + y, 2)
            both = x * y
            return both if isinstance(op, S.And) else x + y - both * (2 if isinstance(op, S.Xor) else 1)
        n = y.value
        return None if n is None or n < 0 else self._by_number(op, x, n)

    def _by_number(self, op: Op, x: Sum, n: int) -> Sum | None:
        positive = n > 0
        if isinstance(op, S.FloorDiv) and positive:
            return div(x, n)
        if isinstance(op, S.Div | S.Mod) and positive:  # toward zero
            part = div if isinstance(op, S.Div) else mod
            above = self.state.known.nonnegative(x) or ge(x)
            return choice(above, part(x, n), -part(-x, n))
        if isinstance(op, S.And) and n & (n + 1) == 0:
            return mod(x, n + 1)
        if isinstance(op, S.Xor) and n == 1:
            return x + 1 - mod(x, 2) * 2
        if isinstance(op, S.Shl | S.Shr) and n < 31:
            return multiplied(x, 1 << n) if isinstance(op, S.Shl) else div(x, 1 << n)
        return None

    # Steps -----------------------------------------------------------------------------------------------------------

    def frame(self, state: State, r: int) -> Frame:
        """The innermost region of a role, and the next op in the region."""
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
                args = _carried(op)
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
            numeric = isinstance(v.type, DType) and not self.program.known.varying(v)
            if numeric and not self.program.pure(op) and frame.values.get(v) is None:
                chosen = self._chosen(op, v) if isinstance(op, If) else None
                frame.values[v] = self._any(v) if chosen is None else chosen

    def _chosen(self, op: If, v: Value) -> Any:
        c = self.value(op.condition)
        x, y = (self.value(region.yielded[op.results.index(v)]) for region in op.regions)
        if c is None or x is None or y is None:
            return None
        if v.type is DTYPES["bool"]:
            return disjunction(conjunction(c, x), conjunction(negation(c), y))
        return choice(c, x, y)

    def _any(self, v: Value) -> Any:
        """An arbitrary number of a type: the next symbol that the path binds."""
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
            for by, more in ((step, ge(stop - i - 1)), (-step, ge(i - stop - 1))):
                moves = state.known.holds(ge(by - 1))
                if moves is None:
                    c = self._sign(by)
                    if symbols(c):
                        return None
                    raise Hoisted(c)
                if moves:
                    return more
            return False  # a loop with a step of 0 has no iterations
        assert isinstance(op, While)
        test = op.condition
        values = {a: frame.values.get(b) for a, b in zip(test.args, op.body.args, strict=True)}
        state.roles[r].frames.append(Frame(test, 0, values))
        value = self.value(test.yielded[0])
        state.roles[r].frames.pop()
        return value

    def _sign(self, step: Sum) -> Condition:
        """The condition that decides first whether a number, the step of a loop or its opposite, is positive."""
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
            self._bind_results(role, op.results, [frame.values.get(a) for a in _carried(op)], _carried(op))

    def _bind_results(self, role: Role, results: list[Value], values: list[Any], names: list[Value]) -> None:
        """Bind the results of an op to the values that its region has yielded."""
        frame = role.frames[-1]
        for v, x in zip(results, values, strict=True):
            if isinstance(v.type, DType):
                frame.values[v] = x
        self._transfer_in_flight(role, zip(results, names, strict=True))
        frame.at += 1

    def _leave(self, role: Role, frame: Frame, op: Yield) -> None:
        parent = frame.region.parent
        values = [self.value(v) for v in op.values]
        if isinstance(parent, If):
            role.frames.pop()
            self._bind_results(role, parent.results, values, op.values)
            return
        assert isinstance(parent, For | While)
        args = _carried(parent)
        arguments = dict(zip(args, values, strict=True))
        if isinstance(parent, For):
            step, i = self.value(parent.step), frame.values[parent.index]
            arguments[parent.index] = None if step is None or i is None else i + step
        self._transfer_in_flight(role, zip(args, op.values, strict=True))
        role.frames[-1] = Frame(frame.region, -1, arguments, frame.turn + 1)

    def _transfer_in_flight(self, role: Role, rows: Iterable[tuple[Value, Value]]) -> None:
        for to, v in list(rows):
            role.in_flight.pop(to, None)
            if v in role.in_flight:
                role.in_flight[to] = role.in_flight[v]

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
        """The bytes of a whole buffer, with the stage that a view selects; -1 if the view does not select a single
        stage."""
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
        if not role.midway:
            role.todo = tuple(E.events(op, self))
        if role.midway < len(role.todo):
            if not self._do(role, op, role.todo[role.midway]):
                return False
            role.midway += 1
        if role.midway >= len(role.todo):
            if isinstance(op, SharedMma | RegisterMma) and op.unit == "wgmma":
                role.in_flight[op.result] = role.matmuls
            elif isinstance(op, MmaWait):
                self._transfer_in_flight(role, zip(op.results, op.sums, strict=True))
            role.midway = 0
            frame.at += 1
        return True

    def _do(self, role: Role, op: Op, e: Any) -> bool:
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
            if isinstance(e, E.Arrive) and not self._at(e.stage, role.arrived.get(b), b):
                raise Stuck("the stage is not the stage of the item", None, self.role)
            self._record_lag(role, b, isinstance(e, E.Arrive) and e.elected)
            role.arrived[b] = role.arrived[b] + 1
            role.open[b] = role.open.get(b, 0) + (e.bytes if isinstance(e, E.Arrive) else 0)
            role.fresh.clear()
        elif isinstance(e, E.CopyIn):
            b = self.program.barrier[e.barrier]
            if b not in role.arrived:
                raise Stuck("a copy completes on a barrier at which its role does not arrive", op, self.role)
            item = role.arrived[b]
            if role.open.get(b, 0) < e.bytes:
                self._record_lag(role, b, True)
            else:
                item = item - 1
            role.open[b] = role.open.get(b, 0) - e.bytes
            self._record_first_access(e.to, (self.role, True), {b: item})
            n = self.program.number[e.to.buffer]
            self.state.contents = [row for row in self.state.contents if row[0] != n]
        elif isinstance(e, E.MemoryAccess):
            self._access(role, e, op, True)
        elif isinstance(e, E.Fence):
            role.loose = role.loose or (many and any(k is None for _, k in role.dirty))
            role.unsynchronised |= {
                (n, k): 2 for n, k in role.dirty if many and (k is not None or self._in_place(n))
            }
            role.dirty.clear()
        elif isinstance(e, E.Sync):
            self._sync(role, e, op)
        elif isinstance(e, E.Issue):
            role.matmuls += 1
            in_registers = _in_registers(op) if isinstance(op, RegisterMma) else None
            role.pending_copies.append(
                (role.matmuls, [self._slot_of(role, at) for at in e.operands], in_registers)
            )
            role.loose = role.loose or many
        elif isinstance(e, E.MmaComplete):
            done = max(0, len(role.pending_copies) - e.pending)
            self._complete_for_issuers(
                role, [k for _, frames, _ in role.pending_copies[:done] for k in frames]
            )
            role.loose = role.loose or (many and done > 0)
            role.pending_copies = role.pending_copies[done:]
        elif isinstance(e, E.CopyOut | E.Commit):
            if isinstance(e, E.CopyOut):
                role.uncommitted = [*role.uncommitted, self._slot_of(role, e.source)]
            if isinstance(e, E.Commit) or e.commit:
                role.copies.append(role.uncommitted)
                role.uncommitted = []
        elif isinstance(e, E.CopiesOutDone):
            done = max(0, len(role.copies) - e.pending)
            self._complete_for_issuers(role, [k for frames in role.copies[:done] for k in frames])
            role.copies = role.copies[done:]
        return True

    def _complete_for_issuers(self, role: Role, slots: Iterable[SlotKey]) -> None:
        """Record memory whose asynchronous reads are complete, a fact known to the issuing warps alone until all warps
        have synchronised."""
        for n, k in slots if self.program.warps[self.role] > 1 else ():
            if self.program.values[n] not in self.program.rings:
                role.unknown.add((n, k if isinstance(k, int) else -1))
            elif self._in_place(n):
                role.unknown.add((n, None))

    def _in_place(self, ring: int) -> bool:
        """Whether threads of the role write a ring that they do not fill: the same engine reads what they write."""
        return (self.role, False) in self.program.writers[ring]

    def _at(self, stage: Any, item: Sum | None, b: int) -> bool:
        """Whether a stage is the stage of an item."""
        return item is not None and self.state.known.equal(stage, mod(item, self.program.stages[b]))

    def last(self, role: Role, r: int, b: int) -> Sum:
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
                    self.lags[key] = lag + self.offsets[b, self.role]
        offset = self.offsets[b, self.role]
        if not (
            known.equal(stage, mod(w, stages))
            and known.equal(parity, mod(div(w, stages) + offset // stages, 2))
        ):
            if b in role.fresh:
                return True
            raise Stuck("the stage or the parity does not belong to the item", None, self.role)
        if not self._is_complete(b, w - offset):
            return False
        role.waited[b] = w + 1
        role.fresh.add(b)
        if many:
            role.ahead, role.loose = role.ahead or e.elected, role.loose or not e.elected
        return True

    def _is_complete(self, b: int, item: Sum) -> bool:
        known = self.state.known
        if known.nonnegative(-item - 1):
            return True
        arrivers = self.program.arrivers[b]
        return bool(arrivers) and all(
            known.nonnegative(self.state.roles[q].arrived[b] - item - 1) for q in arrivers
        )

    def _record_lag(self, role: Role, b: int, elected: bool) -> None:
        """Record the lead of an arrival over the items that the role has waited for, in `lags`: that of the warps that
        arrive, one (`elected`) or all. Waits of other warps count only after all warps have synchronised."""
        warps_differ = self.program.warps[self.role] > 1 and (role.loose if elected else role.ahead)
        c = role.arrived[b]
        for after in role.waited:
            key = (b, self.role, after)
            near = self.program.stages[b] + self.program.stages[after]
            same_warps = ((after, self.role) in self.program.waits_of_one) == elected
            lag = (
                self._upper_bound(c - role.waited[after] + 1, near)
                if same_warps or not warps_differ
                else None
            )
            before = self.lags.get(key, lag)
            self.lags[key] = None if lag is None or before is None else max(lag, before)
        key = (b, self.role, -1)
        early = self.state.known.nonnegative(number(self.program.stages[b] - 1) - c)
        self.lags[key] = 0 if early and self.lags.get(key, 0) == 0 else None

    def _record_first_access(self, at: E.Bytes, engine: Engine, arrived: dict[int, Sum]) -> None:
        """Record an engine's first access of a ring, in `first_accesses` and `firsts`. The item is the number of the
        stage if all numbers of arrivals are known, else the last item of that stage that has been handed over."""
        key = (at.buffer, engine)
        self.first_accesses.setdefault(key)
        if key in self.firsts:
            return
        item: Sum | None = number(at.stage)
        if any(x.value is None for x in arrived.values()):
            item = self._of_stage(at, self._last_handed(at, engine))
        resolved = self.state.known.resolved
        residual = {b: resolved(x - item).value for b, x in arrived.items()} if item is not None else {}
        known = {b: n for b, n in residual.items() if n is not None}
        if known:
            self.firsts[key] = known

    def _last_handed(self, at: E.Bytes, engine: Engine) -> list[Sum]:
        """The last items that were handed to an engine, one for each stage."""
        ring = self.program.rings.get(at.buffer)
        if ring is None:
            name = at.buffer.name or "a buffer"
            raise Stuck(f"roles share {name}, and no pair of barriers hands it over", None, self.role)
        for row in ring.rows:
            if row.taker == engine and not row.own:
                last = self.last(self.state.roles[self.role], self.role, row.barrier)
                near = (x for v, x in self.first_accesses if v is at.buffer and x in (engine, row.giver))
                last += (0 if next(near, engine) == row.giver else ring.stages) - self.shift(at.buffer, row)
                return [last - k for k in range(ring.stages)]
        return []

    def _of_stage(self, at: E.Bytes, items: Sequence[Sum]) -> Sum | None:
        """The item, among some, that lies in the accessed stage: one whose stage is the same term, before one whose
        stage is known to be equal."""
        stages = self.program.rings[at.buffer].stages
        stage, rows = number(at.stage), [(item, mod(item, stages)) for item in items]
        matching_items = (item for item, own in rows if own == stage)
        known = (item for item, own in rows if self.state.known.equal(stage, own))
        return next(chain(matching_items, known), None)

    def shift(self, v: Value, row: HandOver) -> int:
        """The item for which the releasing engine arrives, less the item of the ring that it hands over."""
        return self.firsts.get((v, row.giver), {}).get(row.barrier, 0)

    def _upper_bound(self, p: Sum, near: int) -> int | None:
        """The least known upper bound of a sum between -near and near; None if there is none."""
        if p.value is not None:
            return p.value
        if not self.state.known.nonnegative(number(near) - p):
            return None
        return next(n for n in range(-near, near + 1) if self.state.known.nonnegative(number(n) - p))

    def _slot_of(self, role: Role, at: E.Bytes, writes: bool = False) -> SlotKey:
        ring, n = self.program.rings.get(at.buffer), self.program.number[at.buffer]
        if ring is None:
            return n, at.stage
        engine = ring.engine(self.role, writes, False)
        self._record_first_access(at, engine, role.arrived)
        near: list[Sum] = []
        for row in ring.handovers_of(engine)[:1]:
            first = role.arrived[row.barrier] - self.shift(at.buffer, row)
            near += [first + k for k in range(ring.stages)]
        item = self._of_stage(at, [*near, *self._last_handed(at, engine)])
        if item is None:
            raise Stuck("the stage does not belong to an item that the role has waited for", None, self.role)
        for row in ring.handovers_of(engine):
            self._shifted(at.buffer, row, role.arrived[row.barrier] - item)
        return n, item

    def _shifted(self, v: Value, row: HandOver, shift: Sum) -> None:
        """Raise the noted shift of a row, if its engine has arrived for later items at this access than at those
        before."""
        noted = self.shift(v, row)
        if not self.state.known.nonnegative(number(noted) - shift):
            bound = self._upper_bound(shift, self.program.rings[v].stages)
            if bound is not None:
                key = (v, row.giver)
                self.firsts[key] = {**self.firsts.get(key, {}), row.barrier: bound}

    def _access(self, role: Role, e: E.MemoryAccess, op: Op, sure: bool) -> None:
        v, n = e.at.buffer, self.program.number[e.at.buffer]
        ring, many = self.program.rings.get(v), self.program.warps[self.role] > 1
        if ring is not None:
            engine = ring.engine(self.role, e.write, False)
            numbered = v in self.program.numbered
            if op.NAME != "buf.new":
                accesses = (x.at for x in E.events(op, self) if isinstance(x, E.MemoryAccess))
                at = next(at for at in accesses if at.buffer is v)
                self._record_first_access(at, engine, role.arrived)
                if ring.handovers_of(engine):
                    self._slot_of(role, at, e.write)
                if numbered:
                    self._number(role, e, at, sure)
            if ring.copied or (e.write and ring.asynchronous):
                role.dirty.add((n, None))
            role.loose = role.loose or many
        elif e.write:
            for m in self.program.overlapping.get(v, ()):
                slot = e.at.stage if m == n and isinstance(e.at.stage, int) else -1  # type: ignore[redundant-cast]
                role.dirty.add((m, slot))

    def _number(self, role: Role, e: E.MemoryAccess, at: E.Bytes, sure: bool) -> None:
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
            stored = self.value(e.number) if sure and e.number is not None else None
            if stored is not None:
                self.state.contents.append((n, item, stored))
        elif sure and e.number is not None and not self.program.known.varying(e.number):
            for m, other, stored in self.state.contents:
                if m == n and self.state.known.equal(other, item):
                    role.frames[-1].values[e.number] = stored

    def _sync(self, role: Role, e: E.Sync, op: Op) -> None:
        if e.warp_group and self.program.warp_groups[self.role] > 1:
            role.unsynchronised = {k: min(level, 1) for k, level in role.unsynchronised.items()}
            if isinstance(op, BulkStore):
                staging = self.program.number[root(op.buffer)]
                role.unknown = {k for k in role.unknown if k[0] != staging}
            return
        role.unsynchronised, role.unknown, role.loose, role.ahead = {}, set(), False, False


def _carried(op: For | While) -> list[Value]:
    """The arguments of a loop's body for the values that the loop carries."""
    return op.arguments


def _in_registers(op: RegisterMma) -> Value:
    """The operand of a matmul that is in registers."""
    return op.b if isinstance(op.a.type, BufType) else op.a


def compared(pred: str, d: Sum) -> Condition:
    """The condition that two numbers compare by the predicate `pred`, from their difference."""
    if pred in ("eq", "ne"):
        return eq(d) if pred == "eq" else negation(eq(d))
    d = d if pred[0] == "g" else -d
    return ge(d if pred[1] == "e" else d - 1)
