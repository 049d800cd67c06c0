"""Symbolic execution of roles on a path of the certificate: the position, the values and the next step of each role."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, TypeAlias

from tegula.check.scheduled import number_type
from tegula.check.verifier.arithmetic import (
    Atoms,
    Cond,
    Facts,
    Poly,
    at_least,
    both,
    constant,
    either,
    is_zero,
    limits_of,
    negated,
    number,
    plus,
    times,
)
from tegula.check.verifier.layout import Layout, Rejected, part_of_stage
from tegula.dataclass import dataclass, field, replace
from tegula.ir import ConstantLike, Kernel, Op, Region, Value
from tegula.ops import events as E
from tegula.ops import scalar as S
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView, root
from tegula.ops.control import For, If, While, Yield
from tegula.ops.convert import Cast
from tegula.ops.group import Barrier
from tegula.ops.lane import LaneUniform, Tid
from tegula.ops.schedule import (
    FenceAsync,
)
from tegula.types import DTYPES, DType

Key: TypeAlias = tuple[int, Any]
"""The memory of an access: a ring and an item, or another buffer and a slot, -1 for all slots."""


@dataclass(slots=True)
class Frame:
    """A region on the stack of a role, with the position `at` of the next op (-1: at the loop head) and the values
    defined there."""

    region: Region
    at: int
    env: dict[Value, Any]


@dataclass(slots=True)
class Role:
    """One role on the path that is replayed.

    `events`: the events of the current op, of which `completed_events` are complete. `arrived`, `waited`: the ghosts a
    and w, by barrier. `repeatable_waits`: the barriers waited for since the last arrival. `parts`: by barrier, the
    numbers of arrivals of one warp, and of all warps, for an item that is to get more of them. `outstanding_bytes`: by
    barrier, the item whose bytes are outstanding, and their number. `pending_matmuls`: the matmuls in flight, oldest
    first, each with its number, the memory that it reads, and its operand in registers; `in_flight`: the number of the
    last matmul on each tile. `uncommitted_reads`, `bulk_groups`: the memory that bulk stores read, in the open bulk
    group and in committed ones. `pending_loads`: by ring, the bulk loads in flight, each with its barrier and its range
    of elements in the stage. `unfenced`: memory accessed since the last fence; `unsynchronised`: memory fenced since
    all threads (2), or the threads of each warp group (1), last synchronised; `issuer_only_reads`: memory whose
    asynchronous reads are complete, which the issuing warps alone know. `warps_unordered`: all warps have waited or
    used a ring since they last synchronised; `one_warp_ahead`: the first warp alone has waited since then."""

    frames: list[Frame]
    events: tuple[E.Event, ...] = ()
    completed_events: int = 0
    issued_matmuls: int = 0
    warps_unordered: bool = False
    one_warp_ahead: bool = False
    arrived: dict[int, Poly] = field(default_factory=dict[int, Poly])
    waited: dict[int, Poly] = field(default_factory=dict[int, Poly])
    repeatable_waits: set[int] = field(default_factory=set[int])
    parts: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    outstanding_bytes: dict[int, tuple[Poly, int]] = field(default_factory=dict[int, tuple[Poly, int]])
    pending_matmuls: list[tuple[int, list[Key], Value | None]] = field(default_factory=list[Any])
    in_flight: dict[Value, int] = field(default_factory=dict[Value, int])
    uncommitted_reads: list[Key] = field(default_factory=list[Key])
    bulk_groups: list[list[Key]] = field(default_factory=list[list[Key]])
    pending_loads: dict[int, tuple[tuple[int, int, int, Any], ...]] = field(default_factory=dict[int, Any])
    unfenced: set[Key] = field(default_factory=set[Key])
    unsynchronised: dict[Key, int] = field(default_factory=dict[Key, int])
    issuer_only_reads: set[Key] = field(default_factory=set[Key])

    def copy(self) -> Role:
        """An independent copy of the role."""
        role = replace(self, frames=[Frame(f.region, f.at, dict(f.env)) for f in self.frames])
        for name in (
            "arrived",
            "waited",
            "repeatable_waits",
            "parts",
            "outstanding_bytes",
            "in_flight",
            "pending_loads",
            "unfenced",
            "unsynchronised",
            "issuer_only_reads",
        ):
            setattr(role, name, getattr(self, name).copy())
        role.pending_matmuls, role.bulk_groups = list(self.pending_matmuls), list(self.bulk_groups)
        role.uncommitted_reads = list(self.uncommitted_reads)
        return role


@dataclass(slots=True)
class State:
    """All roles on a path, and the facts that hold there; `steps`: the number of executed steps of the roles."""

    roles: list[Role]
    facts: Facts
    bound: list[Poly] = field(default_factory=list[Poly])
    """The symbols of the label at which the path begins, then the symbols for arbitrary results of ops."""
    contents: list[tuple[int, Poly, int, Any]] = field(default_factory=list[tuple[int, Poly, int, Any]])
    """Known contents of stages: a ring, an item, an element (-1 for every element), and the number that it has in the
    item's stage."""
    steps: int = 0
    outer: dict[Value, Any] = field(default_factory=dict[Value, Any])
    """The values defined outside of roles, which are equal in all roles."""

    def copy(self) -> State:
        """An independent copy of the state."""
        return State(
            [r.copy() for r in self.roles],
            Facts(self.facts.atoms, self.facts),
            list(self.bound),
            list(self.contents),
            self.steps,
            dict(self.outer),
        )


class Walk(ABC):
    """The symbolic execution of roles. Subclasses define the conditions that an event must satisfy (`execute`)."""

    def __init__(self, kernel: Kernel, compilation: Any, certificate: Mapping[str, Any]) -> None:
        self.kernel, self.certificate = kernel, certificate
        self.atoms = Atoms()
        self.layout = Layout(kernel, compilation, certificate)
        self.state = State([], Facts(self.atoms))
        self.role = 0
        self.op: Op = kernel.body.ops[0]

    def reject(self, message: str) -> NoReturn:
        """Reject the certificate, with a message, at the current op and role."""
        raise Rejected(message, self.op, self.role)

    def require(self, holds: object, message: str) -> None:
        """Reject the certificate, with a message, unless a condition holds."""
        if not holds:
            self.reject(message)

    # Values ----------------------------------------------------------------------------------------------------------

    def value(self, v: Value) -> Any:
        """The number or condition of a value, or of all elements of a tile; None if it may differ between threads or
        elements."""
        frames = self.state.roles[self.role].frames
        for f in reversed(frames):
            if v in f.env:
                return f.env[v]
        if v in self.state.outer:
            return self.state.outer[v]
        owner = v.owner
        if self.layout.uniformity.varying(v) or self._is_lane_varying(v):
            return None
        env = self._env_of(frames, owner)
        result = None
        if isinstance(owner, Op) and self.layout.pure(owner):
            result = self._compute(owner, v)
        elif isinstance(owner, If) and isinstance(v.type, DType):
            result = self._branch_result(owner, v)
        elif isinstance(owner, Op) and (source := E.source_of_elements(owner)) is not None:
            result = self.value(source)
        elif owner is self.kernel.body:
            result = self._application(("param", str(self.kernel.params.index(v)), 0, v.type.notation), (), v)
        substitution = self.state.facts.substitution
        env[v] = (
            result if result is None or not substitution else self.atoms.substitute_any(result, substitution)
        )
        return env[v]

    def _is_lane_varying(self, v: Value) -> bool:
        """Whether a value is a thread index that differs between threads, or the result of a varying op."""
        if isinstance(v.owner, Tid):
            return not self.kernel.launch.uniform[v.owner.results.index(v)]
        return isinstance(v.owner, Op) and v.owner.VARYING

    def _env_of(self, frames: list[Frame], owner: Op | Region | None) -> dict[Value, Any]:
        """The values of the innermost frame whose region holds the owner of a value."""
        at = owner.parent if isinstance(owner, Op) else owner
        while at is not None:
            for f in reversed(frames):
                if f.region is at:
                    return f.env
            at = at.parent.parent if at.parent is not None else None
        return self.state.outer

    def _application(self, function: tuple[Any, ...], args: tuple[Any, ...], v: Value) -> Any:
        result = self.atoms.intern("app", function, args)
        return ("is", result) if v.type is DTYPES["bool"] else result

    def _compute(self, op: Op, v: Value) -> Any:
        """The result of a pure op: a polynomial or condition, else an atom with the operands as arguments."""
        t, facts = v.type, self.state.facts
        if isinstance(op, ConstantLike) and isinstance(t, DType) and not t.is_float:
            return bool(op.value) if t.kind == "b" else number(int(op.value))
        args = tuple(self.value(x) for x in op.operands)
        if None in args:
            return None
        if isinstance(op, LaneUniform):
            return args[0]
        kinds = {x.type.kind if isinstance(x.type, DType) else "" for x in op.operands}
        result = None
        if kinds == {"b"} and isinstance(op, S.And | S.Or):
            result = (both if isinstance(op, S.And) else either)(*args)
        elif kinds == {"b"} and isinstance(op, S.Not):
            result = negated(args[0])
        elif isinstance(op, S.Select) and isinstance(t, DType):
            c = args[0] if (known := facts.decide(args[0], False)) is None else known
            result = self._choose(c, args[1], args[2], t)
        elif isinstance(op, Cast) and isinstance(t, DType) and t.is_int and kinds == {"b"}:
            c = args[0] if (known := facts.decide(args[0], False)) is None else known
            result = self.atoms.choose(c, number(1), ())
        elif kinds <= {"i", "u"} and kinds:
            result = self._integer(op, args)
            if result is not None and isinstance(t, DType) and t.is_int:
                low, high = limits_of(t)
                a, b = facts.interval(result)
                fits = (a >= low or facts.at_least(plus(result, number(-low)))) and (
                    b <= high or facts.at_least(plus(number(high), result, -1))
                )
                result = result if fits else self.atoms.wrap(result, t.name)
        if result is None:
            attrs = str(sorted((k, str(x)) for k, x in op.attrs.items()))
            result = self._application((op.NAME, attrs, op.results.index(v), t.notation), args, v)
        return result

    def _choose(self, c: Cond, x: Any, y: Any, t: DType) -> Any:
        if t.kind == "b":
            return either(both(c, x), both(negated(c), y))
        return self.atoms.choose(c, x, y)

    def _integer(self, op: Op, args: tuple[Any, ...]) -> Any:
        """The result of an op on integers before it wraps; None where it is not a polynomial."""
        x, y = args[0], args[1] if len(args) > 1 else ()
        n, is_at_least = constant(y), self.state.facts.at_least
        if isinstance(op, S.Add | S.Sub):
            return plus(x, y, 1 if isinstance(op, S.Add) else -1)
        if isinstance(op, S.Neg | S.Not):
            return plus((), plus(x, number(isinstance(op, S.Not))), -1)
        if isinstance(op, Cast):
            return negated(is_zero(x)) if op.result.type is DTYPES["bool"] else x
        if isinstance(op, S.Mul):
            return times(x, y) if n is None else self.atoms.scaled(x, n)
        if isinstance(op, S.Min | S.Max):
            is_min = isinstance(op, S.Min)
            if is_at_least(plus(y, x, -1), 2):
                return x if is_min else y
            if is_at_least(plus(x, y, -1), 2):
                return y if is_min else x
            return self.atoms.extreme("min" if is_min else "max", x, y)
        if isinstance(op, S.Cmp):
            d, pred = plus(x, y, -1), op.pred
            if pred in ("eq", "ne"):
                return is_zero(d) if pred == "eq" else negated(is_zero(d))
            d = d if pred[0] == "g" else plus((), d, -1)
            return at_least(d if pred[1] == "e" else plus(d, number(-1)))
        if isinstance(op, S.And | S.Or | S.Xor) and all(
            0 <= a <= b <= 1 for a, b in map(self.state.facts.interval, (x, y))
        ):
            if isinstance(op, S.Xor) and n is None and constant(x) is None:
                return self.atoms.mod(plus(x, y), 2)
            product = times(x, y)
            coefficient = -2 if isinstance(op, S.Xor) else -1
            return product if isinstance(op, S.And) else plus(plus(x, y), product, coefficient)
        if n is None or n < 0:
            return None
        if isinstance(op, S.FloorDiv) and n:
            return self.atoms.div(x, n)
        if isinstance(op, S.Div | S.Mod) and n:  # toward zero
            part = self.atoms.div if isinstance(op, S.Div) else self.atoms.mod
            if_negative = plus((), part(plus((), x, -1), n), -1)
            return self.atoms.choose(True if is_at_least(x) else at_least(x), part(x, n), if_negative)
        if isinstance(op, S.And) and n & (n + 1) == 0:
            return self.atoms.mod(x, n + 1)
        if isinstance(op, S.Xor) and n == 1:
            return plus(plus(x, number(1)), self.atoms.mod(x, 2), -2)
        if isinstance(op, S.Shr | S.Shl) and n < 31:
            return self.atoms.div(x, 1 << n) if isinstance(op, S.Shr) else self.atoms.scaled(x, 1 << n)
        return None

    # Steps -----------------------------------------------------------------------------------------------------------

    def settle(self, r: int) -> None:
        """Run a role up to its next step: an event, a decision, the end of a region."""
        self.role, role = r, self.state.roles[r]
        while True:
            f = role.frames[-1]
            if f.at < 0:
                return
            op = self.op = f.region.ops[f.at]
            if isinstance(op, For | While) and self.layout.counts(op):
                initial = op.initial
                env = dict(zip(op.arguments, map(self.value, initial), strict=True))
                if isinstance(op, For):
                    env[op.index] = self.value(op.start)
                self.transfer_in_flight(role, zip(op.arguments, initial, strict=True))
                role.frames.append(Frame(op.body, -1, env))
                return
            if isinstance(op, Yield) or self.layout.counts(op) or isinstance(op, Barrier | FenceAsync):
                return
            self._execute_silently(role, f, op)
            f.at += 1

    def _execute_silently(self, role: Role, f: Frame, op: Op) -> None:
        """Execute an op that is not a step: computation and accesses of memory, where any access in nested control
        flow may happen."""
        for o in op.walk():
            if isinstance(o, BufRead) and o.result not in self.layout.used:
                continue
            for e in self.layout.events_of(o):
                if isinstance(e, E.MemoryAccess) and (
                    e.at.buffer in self.layout.rings or e.at.buffer in self.layout.overlapping
                ):
                    for event in E.events(o, self):
                        if isinstance(event, E.MemoryAccess):
                            self.access(event if o is op else replace(event, number=None))
                    break
            self.check_accesses_of_results(role, o)
        for v in op.results:
            uniform = not self.layout.uniformity.varying(v) and not self._is_lane_varying(v)
            t = number_type(v)
            if t is not None and uniform and not self.layout.pure(op) and self.value(v) is None:
                f.env[v] = self._arbitrary(t)

    def _branch_result(self, op: If, v: Value) -> Any:
        c = self.value(op.condition)
        ends = [self.value(region.yielded[op.results.index(v)]) for region in op.regions]
        assert isinstance(v.type, DType)
        return None if c is None or None in ends else self._choose(c, ends[0], ends[1], v.type)

    def _arbitrary(self, t: DType) -> Any:
        """An arbitrary number of a type."""
        symbol = self.atoms.intern("wrap", self.atoms.intern("sym", len(self.state.bound)), t.notation)
        self.state.bound.append(symbol)
        return ("is", symbol) if t.notation == "bool" else symbol

    def step(self, r: int) -> None:
        """Execute the next step of a role, and advance to the following step."""
        self.role, role = r, self.state.roles[r]
        self.state.steps += 1
        f = role.frames[-1]
        if f.at < 0:
            self._decide_loop(role, f)
        else:
            op = self.op = f.region.ops[f.at]
            if isinstance(op, Yield):
                self._leave(role, f, op)
            elif isinstance(op, If):
                condition = self.decided(self.value(op.condition))
                role.frames.append(Frame(op.then if condition else op.orelse, 0, {}))
            else:
                self._event(role, f, op)
        self.settle(r)

    def decided(self, c: Cond) -> bool:
        """The truth value of a condition that decides control flow; Rejected where the facts do not imply it."""
        self.require(c is not None, "the condition may differ between threads")
        answer = self.state.facts.decide(c)
        if answer is None:
            self.reject("the certificate does not decide this condition")
        return answer

    def continues(self, f: Frame) -> Cond:
        """Whether a loop begins another iteration."""
        loop = f.region.parent
        assert loop is not None
        self.op = loop
        if isinstance(loop, For):
            step, i, stop = self.value(loop.step), f.env[loop.index], self.value(loop.stop)
            self.require(None not in (step, i, stop), "the condition may differ between threads")
            ascending, descending = (step, plus(stop, i, -1)), (plus((), step, -1), plus(i, stop, -1))
            for magnitude, distance in (ascending, descending):
                if self.decided(at_least(plus(magnitude, number(-1)))):
                    return at_least(plus(distance, number(-1)))
            return False  # a loop with a step of 0 has no iterations
        assert isinstance(loop, While)
        test = loop.condition
        self.require(not any(self.layout.counts(op) for op in test.ops), "the condition of a loop has events")
        frames = self.state.roles[self.role].frames
        frames.append(Frame(test, 0, dict(zip(test.args, map(f.env.get, loop.body.args), strict=True))))
        test_value = self.value(test.yielded[0])
        frames.pop()
        return test_value

    def _decide_loop(self, role: Role, f: Frame) -> None:
        loop = f.region.parent
        if self.decided(self.continues(f)):
            f.at = 0
            return
        assert isinstance(loop, For | While)
        role.frames.pop()
        args = loop.arguments
        role.frames[-1].env.update(zip(loop.results, map(f.env.get, args), strict=True))
        self.transfer_in_flight(role, zip(loop.results, args, strict=True))
        role.frames[-1].at += 1

    def _leave(self, role: Role, f: Frame, op: Yield) -> None:
        parent = f.region.parent
        self.require(f.region not in self.layout.roles, "a role continues after its end")
        if isinstance(parent, If):
            yielded = [self.value(v) for v in op.values]
            role.frames.pop()
            role.frames[-1].env.update(zip(parent.results, yielded, strict=True))
            self.transfer_in_flight(role, zip(parent.results, op.values, strict=True))
            role.frames[-1].at += 1
            return
        assert isinstance(parent, For | While)
        for _, _, operand in role.pending_matmuls:
            self.require(
                not self._is_defined_in(operand, f.region),
                "the next iteration overwrites registers that a matmul reads",
            )
        args = parent.arguments
        env = dict(zip(args, map(self.value, op.values), strict=True))
        if isinstance(parent, For):
            i, step = parent.index, self.value(parent.step)
            env[i] = plus(f.env[i], step)
        self.transfer_in_flight(role, zip(args, op.values, strict=True))
        role.frames[-1] = Frame(f.region, -1, env)

    def _is_defined_in(self, v: Value | None, region: Region) -> bool:
        """Whether a value is defined in a region, or in a region nested in it."""
        at = v.owner if v is not None else None
        while at is not None and at is not region:
            at = at.parent
        return at is not None

    def _event(self, role: Role, f: Frame, op: Op) -> None:
        if not role.completed_events:
            role.events = tuple(E.events(op, self))
        if role.completed_events < len(role.events):
            self.execute(role.events[role.completed_events])
            role.completed_events += 1
        if role.completed_events >= len(role.events):
            self.check_accesses_of_results(role, op)
            self.record_in_flight(role, op)
            role.completed_events = 0
            f.at += 1

    # Queries of the event table (see events.Known)

    def number(self, value: Value) -> Any:
        """The number of a value in the current role; raises Rejected if the value may differ between threads."""
        number = self.value(value)
        self.require(number is not None, "threads may use different stages")
        return number

    def warp_groups(self, op: Op) -> int:
        """The number of warp groups of the current role."""
        return self.layout.warp_groups[self.role]

    def bytes(self, buffer: Value) -> E.Bytes:
        """The bytes of a stage that a view selects, or all bytes of the stage or of a buffer without stages."""
        buffer_root = root(buffer)
        ring, allocation = self.layout.rings.get(buffer_root), self.layout.allocations.get(buffer_root)
        stages = ring.stages if ring is not None else self.layout.slots(buffer_root)
        size = allocation.size if allocation is not None else 1
        stage: Any = () if stages == 1 else None
        is_staged = stages > 1 or (isinstance(buffer_root.owner, BufNew) and buffer_root.owner.stages == 1)
        operand = buffer
        while buffer is not buffer_root:
            assert isinstance(buffer.owner, BufView | BufReshape)
            view, buffer = buffer.owner, buffer.owner.buffer
            if is_staged and buffer is buffer_root:
                is_one_stage = isinstance(view, BufView) and all(
                    d != 0 or n == 1 for d, n in zip(view.dims, view.shape, strict=True)
                )
                stage = self.number(view.starts[0]) if isinstance(view, BufView) and is_one_stage else None
        self.require(ring is None or stage is not None, "one op uses all stages of a ring")
        stage = -1 if stages == 0 or stage is None else stage
        start, end = (part_of_stage(operand) if stages > 0 else None) or (0, size)
        return E.Bytes(start, end, buffer_root, stage)

    @abstractmethod
    def execute(self, e: E.Event) -> None:
        """Execute an event; Rejected where it violates its obligations."""

    @abstractmethod
    def access(self, e: E.MemoryAccess) -> None:
        """Execute an access of memory; Rejected where it violates its obligations."""

    @abstractmethod
    def check_accesses_of_results(self, role: Role, op: Op) -> None:
        """Reject an op that uses the result of a matmul in flight."""

    @abstractmethod
    def record_in_flight(self, role: Role, op: Op) -> None:
        """Record the matmul that an op starts, or for which it waits, by its result tiles."""

    def transfer_in_flight(self, role: Role, rows: Iterator[tuple[Value, Value]] | Any) -> None:
        """For each pair (target, source) of values of one tile, record the matmul in flight of the source for the
        target."""
        for target, source in list(rows):
            role.in_flight.pop(target, None)
            if source in role.in_flight:
                role.in_flight[target] = role.in_flight[source]
