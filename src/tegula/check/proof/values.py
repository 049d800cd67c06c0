"""The numbers and conditions that a program computes, as terms."""

from __future__ import annotations

from typing import Any

from tegula.check.proof.guards import Guard
from tegula.check.proof.known import Known
from tegula.check.proof.program import Program
from tegula.check.proof.state import Frame, State
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
    wrapped,
)
from tegula.ir import BranchLike, ConstantLike, Op, Region, Value
from tegula.ops import events as E
from tegula.ops import scalar as S
from tegula.ops.control import If
from tegula.ops.convert import Cast
from tegula.ops.lane import LaneUniform
from tegula.types import DTYPES, DType

BIT = ((0, 0), (0, 1), (1, 1))
"""The ranges of one-bit numbers."""


class Values:
    """The terms of a program's values in the current role of a state."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.requested_guards: dict[Guard, None] = {}
        self.symbol_count = 0
        self.state = State([], Known())
        self.role = 0

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
            elif isinstance(owner, BranchLike) and isinstance(v.type, DType):
                result = self._branch_result(owner, v)
            elif isinstance(owner, Op) and (source := E.source_of_elements(owner)) is not None:
                result = self.value(source)
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

    def _condition_of_branch(self, op: Op) -> Any:
        """The condition of a branch; None for other ops."""
        return self.value(op.condition) if isinstance(op, If) else None

    def _branch_result(self, op: BranchLike, v: Value) -> Any:
        c = self._condition_of_branch(op)
        x, y = (self.value(region.yielded[op.results.index(v)]) for region in op.alternatives)
        if c is None or x is None or y is None:
            return None
        if v.type is DTYPES["bool"]:
            return disjunction(conjunction(c, x), conjunction(negation(c), y))
        return choice(c, x, y)

    def _arbitrary_number(self, t: DType) -> Any:
        """An arbitrary number of a type: a new symbol, which the path binds."""
        self.symbol_count += 1
        symbol = Atom("sym", f"o{self.symbol_count}", *range_of_type(t))
        self.state.bound.append(symbol)
        symbol_sum = Sum({(symbol,): 1})
        return ("is", symbol_sum) if t is DTYPES["bool"] else symbol_sum


def compared(pred: str, d: Sum) -> Condition:
    """The condition that two numbers compare by the predicate `pred`, from their difference."""
    if pred in ("eq", "ne"):
        return eq(d) if pred == "eq" else negation(eq(d))
    d = d if pred[0] == "g" else -d
    return ge(d if pred[1] == "e" else d - 1)
