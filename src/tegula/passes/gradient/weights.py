"""Type inference for a change of gauge: how values change if a running maximum, or another gauge, is shifted.

Let a loop carry a gauge m. Under the shift m + c before an iteration and m' + c' after the iteration, a value is
*shifted* by a linear form of c and c', or *scaled* by the exponential of a linear form. Forms contain the weights of
the other carried values, which are unknown until sums demand equal forms. Each rule is an identity of the op; ops
without a rule need operands that do not change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Op, Region, Value
from tegula.types import DType, TileType, Type, scalar_of

Form = Mapping[tuple[str, int | None], float]
"""A linear form: the factor of each shift, and of each shift times an unknown weight."""
Dims = frozenset[tuple[int, int]]
"""The dimensions of a tile along which the gauge varies, each with the dimension of the gauge."""
NO_DIMS: Dims = frozenset()
BEFORE, AFTER = "before", "after"
TOLERANCE = 1e-7
"""The relative error of a float32 constant such as log2(e)."""


class Change(Enum):
    """The kinds of change of a value: none; none under any scale, because the value is 0; by addition; by
    multiplication."""

    SAME = "same"
    ZERO = "zero"
    SHIFTED = "shifted"
    SCALED = "scaled"


@dataclass(frozen=True, slots=True)
class Weight:
    """The change of a value. `number`: the value, if it is a constant."""

    kind: Change
    form: Form
    positions: Dims = NO_DIMS
    number: float | None = None


SAME = Weight(Change.SAME, {})


class NoWeight(Exception):
    """A value that is neither shifted nor scaled."""


def times(a: Form, factor: float) -> Form:
    """factor * a."""
    return {k: factor * x for k, x in a.items()}


class Weights:
    """The weights of values. `solved`: the weights of carried values that are known, by position. `tolerance`: the
    relative error of constants."""

    def __init__(self, tolerance: float = TOLERANCE) -> None:
        self.weight_of: dict[Value, Weight] = {}
        self.solved: dict[int, float] = {}
        self.tolerance = tolerance

    def of(self, value: Value) -> Weight:
        """The weight of a value."""
        known_weight = self.weight_of.get(value) or _constant(value)
        return known_weight if not known_weight.form or self.resolved(known_weight.form) else SAME

    def visit(self, op: Op) -> None:
        """Record the weights of an op's results. NoWeight if the op has no rule for operands that change."""
        inside = {v for o in op.walk() for v in o.results} | {
            a for o in op.walk() for r in o.regions for a in r.args
        }
        used = [v for o in op.walk() for v in o.operands if v not in inside]
        if all(self.of(v).kind in (Change.SAME, Change.ZERO) for v in used):
            return
        rule = RULES.get(op.NAME)
        if rule is None:
            for v in used:
                self.unchanged(self.of(v))
            return
        weights = rule(self, op, [self.of(v) for v in op.operands])
        self.weight_of.update(dict.fromkeys(op.results, weights))

    def function_weight(self, region: Region, operands: Sequence[Weight]) -> Weight:
        """The weight of the value that a function of elements yields."""
        self.weight_of.update(zip(region.args, operands, strict=True))
        for op in region.ops[:-1]:
            self.visit(op)
        return self.of(region.yielded[0])

    # Equations -------------------------------------------------------------------------------------------------------

    def plus(self, a: Form, b: Form, factor: float = 1.0) -> Form:
        """a + factor * b."""
        return self.sums([*a.items(), *times(b, factor).items()])

    def sums(self, terms: Iterable[tuple[tuple[str, int | None], float]]) -> Form:
        """The sums of the terms of each shift, without sums that cancel. The error of a sum is relative to its terms,
        so that a small sum of small terms remains."""
        sums_by_key: dict[tuple[str, int | None], float] = {}
        sizes: dict[tuple[str, int | None], float] = {}
        for key, x in terms:
            sums_by_key[key] = sums_by_key.get(key, 0.0) + x
            sizes[key] = sizes.get(key, 0.0) + abs(x)
        return {key: x for key, x in sums_by_key.items() if abs(x) > self.tolerance * sizes[key]}

    def resolved(self, form: Form) -> Form:
        """A form in which known weights are replaced by numbers."""
        return self.sums(
            ((shift, None), x * self.solved[unknown]) if unknown in self.solved else ((shift, unknown), x)
            for (shift, unknown), x in form.items()
        )

    def follows(self, form: Form) -> bool:
        """Whether a value with a form changes if the gauge has one value in all iterations and is shifted."""
        return bool(self.sums(((BEFORE, unknown), x) for (_, unknown), x in self.resolved(form).items()))

    def equate(self, a: Form, b: Form) -> None:
        """Solve a = b for an unknown weight. NoWeight if the forms differ."""
        for shift in (BEFORE, AFTER):
            remaining = {k: x for (s, k), x in self.resolved(self.plus(a, b, -1.0)).items() if s == shift}
            unknown = [k for k in remaining if k is not None]
            if len(unknown) > 1 or (remaining and not unknown):
                raise NoWeight
            for k in unknown:
                self.solved[k] = -remaining.get(None, 0.0) / remaining[k]
        if self.resolved(self.plus(a, b, -1.0)):
            raise NoWeight

    def unchanged(self, w: Weight) -> None:
        """Demand that a value does not change."""
        if w.kind in (Change.SHIFTED, Change.SCALED):
            self.equate(w.form, {})

    def alike(self, a: Weight, b: Weight) -> Weight:
        """The common change of two values."""
        if Change.ZERO in (a.kind, b.kind) and Change.SHIFTED not in (a.kind, b.kind):
            return b if a.kind is Change.ZERO else a
        self.equate(a.form, b.form)
        return self.combined(a, b, a.form)

    def combined(self, a: Weight, b: Weight, form: Form) -> Weight:
        """The change of a function of two values by a form. All values that change must change alike, even if their
        changes cancel: otherwise an addition might cancel a scale, or different elements of the gauge might cancel."""
        kinds = {w.kind for w in (a, b) if self.resolved(w.form)}
        dims, form = self.joined(a, b), self.resolved(form)
        if len(kinds) > 1:
            raise NoWeight
        return Weight(kinds.pop(), form, dims) if kinds and form else SAME

    def joined(self, *operands: Weight) -> Dims:
        """The dimensions along which a function of values changes, which must be the same for all values that
        change."""
        varying = {w.positions for w in operands if self.resolved(w.form)}
        if len(varying) > 1:
            raise NoWeight
        return varying.pop() if varying else NO_DIMS


Rule = Callable[[Weights, Any, list[Weight]], Weight]


def _constant(value: Value) -> Weight:
    """The weight of a value that does not change: a constant, or another value without a known change."""
    owner = value.owner
    if isinstance(owner, Op) and owner.NAME == "tile.full":
        (number,) = owner.operands
        return _constant(number)
    if isinstance(owner, ConstantLike) and isinstance(owner.value, int | float):
        return Weight(Change.ZERO if owner.value == 0 else Change.SAME, {}, number=owner.value)
    return SAME


def _add(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    a, b = operands
    if Change.SHIFTED not in (a.kind, b.kind):
        return w.alike(a, b)
    return w.combined(a, b, w.plus(a.form, b.form, -1.0 if op.NAME == "sub" else 1.0))


def _multiply(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    a, b = operands
    is_quotient = op.NAME == "div"
    if Change.SHIFTED in (a.kind, b.kind):
        if a.kind is not Change.SHIFTED and not is_quotient:
            a, b = b, a
        if b.number is None or (is_quotient and a.kind is not Change.SHIFTED) or b.number == 0:
            raise NoWeight
        factor = 1.0 / b.number if is_quotient else b.number
        return Weight(a.kind, times(a.form, factor), a.positions)
    if a.kind is Change.ZERO or (b.kind is Change.ZERO and not is_quotient):
        return Weight(Change.ZERO, {})
    return w.combined(a, b, w.plus(a.form, b.form, -1.0 if is_quotient else 1.0))


def _fma(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    return _add(w, op, [_multiply(w, op, operands[:2]), operands[2]])


def _negative(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    return (
        Weight(operands[0].kind, times(operands[0].form, -1.0), operands[0].positions)
        if operands[0].kind is Change.SHIFTED
        else operands[0]
    )


def _magnitude(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    if operands[0].kind is Change.SHIFTED:
        raise NoWeight
    return Weight(
        operands[0].kind, times(operands[0].form, 0.5 if op.NAME == "sqrt" else 1.0), operands[0].positions
    )


def _extreme(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    return w.alike(*operands)


def _compare(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    w.alike(*operands)
    return SAME


def _select(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    w.unchanged(operands[0])
    return w.alike(*operands[1:])


def _cast(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    if not (_is_float(op.x.type) and _is_float(op.result.type)):
        w.unchanged(operands[0])
        return SAME
    return operands[0]


def _call(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    name = op.library_name
    return (
        _function(w, name, operands[0])
        if name in LOG_BASES and len(operands) == 1
        else _unchanged_operands(w, operands)
    )


def _power(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    return _function(w, "exp2", operands[0])


def _function(w: Weights, name: str, x: Weight) -> Weight:
    """The change of a power, whose base is named, of x, or of a logarithm of x."""
    before, after = (
        (Change.SCALED, Change.SHIFTED) if name.startswith("log") else (Change.SHIFTED, Change.SCALED)
    )
    if x.kind is before:
        return Weight(after, times(x.form, LOG_BASES[name]), x.positions)
    return _unchanged_operands(w, [x])


def _unchanged_operands(w: Weights, operands: Sequence[Weight]) -> Weight:
    for x in operands:
        w.unchanged(x)
    return SAME


def _full(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    return operands[0]


def _map(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    w.joined(*operands)
    return w.function_weight(op.function, operands)


def _reduce(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    x, axis, body = operands[0], op.axis, op.combine
    if len(body.ops) != 2 or body.ops[0].NAME not in ("add", "min", "max"):
        return _unchanged_operands(w, operands)
    if x.kind is Change.SHIFTED and body.ops[0].NAME == "add":
        raise NoWeight
    if x.positions and (axis is None or any(d == axis for d, _ in x.positions)):
        raise NoWeight
    if op.keepdims or not x.positions:
        return x
    return Weight(x.kind, x.form, frozenset((d - (d > axis), g) for d, g in x.positions))


def _broadcast(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    added_dims = len(_shape(op.result)) - len(_shape(op.tile))
    return Weight(
        operands[0].kind, operands[0].form, frozenset((d + added_dims, g) for d, g in operands[0].positions)
    )


def _permute(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    new_dim = {d: k for k, d in enumerate(op.perm)}
    return Weight(
        operands[0].kind, operands[0].form, frozenset((new_dim[d], g) for d, g in operands[0].positions)
    )


def _reshape(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    before, after = _shape(op.tile), _shape(op.result)
    long_dims = [[d for d, n in enumerate(s) if n > 1] for s in (before, after)]
    if [n for n in before if n > 1] != [n for n in after if n > 1]:
        return _unchanged_operands(w, operands) if operands[0].positions else operands[0]
    new_dim = dict(zip(*long_dims, strict=True))
    return Weight(
        operands[0].kind, operands[0].form, frozenset((new_dim[d], g) for d, g in operands[0].positions)
    )


def _matmul(w: Weights, op: Any, operands: list[Weight]) -> Weight:
    a, b, c, *factors = operands
    if Change.SHIFTED in (a.kind, b.kind, c.kind) or any(f.number != 1 for f in factors):
        return _unchanged_operands(w, operands)
    if any(d == 1 for d, _ in a.positions) or any(d == 0 for d, _ in b.positions):
        raise NoWeight
    return w.alike(_multiply(w, op, [a, b]), c)


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, TileType) else ()


def _is_float(t: Type) -> bool:
    return isinstance(t, DType) and scalar_of(t).is_float


LN2 = math.log(2.0)
LOG_BASES = {
    "exp": 1.0,
    "exp2": LN2,
    "exp10": math.log(10.0),
    "log": 1.0,
    "log2": 1.0 / LN2,
    "log10": 1 / math.log(10.0),
}
"""The factor between the shift of an exponent and the logarithm of the scale of a power, or the reverse."""
RULES: dict[str, Rule] = {
    **dict.fromkeys(("add", "sub"), _add),
    **dict.fromkeys(("mul", "div"), _multiply),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys(("abs", "sqrt"), _magnitude),
    **{"fma": _fma, "neg": _negative, "cmp": _compare, "select": _select, "cast": _cast},
    **{"fast.exp2": _power, "call": _call, "tile.full": _full, "tile.map": _map, "tile.reduce": _reduce},
    **{
        "tile.broadcast": _broadcast,
        "tile.permute": _permute,
        "tile.reshape": _reshape,
        "tile.matmul": _matmul,
    },
}
"""The rule of each op that may take operands that change, by the name of the op."""
