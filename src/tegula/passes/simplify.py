"""Folds constants and identities of integer arithmetic, integers and comparisons that the ranges of their operands
determine, branches on constants, and loops with a single iteration, and removes common subexpressions, wrap-arounds of
non-negative indices, unused operands of maps, and loop-invariant carried values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from tegula.ir import ConstantLike, Kernel, LoopLike, Op, Region, ReshapeLike, Value, constant_number
from tegula.ir.rewrite import erase_dead, replace
from tegula.ops.base import Binary, Elementwise, element
from tegula.ops.control import If, Yield
from tegula.ops.convert import Bitcast, Cast
from tegula.ops.integer_ranges import IntegerRanges
from tegula.ops.lane import Lanes
from tegula.ops.roles import Roles
from tegula.ops.scalar import Add, Cmp, Const, Div, FloorDiv, Fma, Max, Mul, Select, Sub
from tegula.ops.tile import TileArange, TileEmpty, TileMap, TilePermute, TileSlice
from tegula.passes.runner import Compilation
from tegula.types import DType, TileType, Type, scalar_of, to_numpy

FOLDED = (Elementwise, Cast, Bitcast, Select)
RESHAPES = (ReshapeLike, TileSlice)
UNNUMBERED = (Yield, TileEmpty)
MAX_COMPARED = 64
"""The maximum length of a tuple that is compared by its elements."""
DETERMINED = (Cmp, Div, FloorDiv)
"""The ops whose result the ranges of their operands often determine."""


def simplify(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place."""
    _Simplifier(IntegerRanges(kernel.launch), unrolls=kernel.launch.on_gpu is False).region(kernel.body, {})
    erase_dead(kernel)
    if _narrow_maps(kernel) + _fix_carried(kernel):
        erase_dead(kernel)


def _fix_carried(kernel: Kernel) -> bool:
    """Replace values that a loop carries unchanged by their initial values. Returns whether the kernel changed."""
    mapping: dict[Value, Value] = {}
    for op in kernel.walk():
        if isinstance(op, LoopLike):
            mapping |= op.invariants()
    replace(kernel.body, mapping)
    return bool(mapping)


def _narrow_maps(kernel: Kernel) -> bool:
    """Remove unused operands of maps, and replace maps that return an operand unchanged. Returns whether the kernel
    changed."""
    mapping: dict[Value, Value] = {}
    narrowed = False
    for op in kernel.walk():
        if not isinstance(op, TileMap):
            continue
        inputs = dict(zip(op.elements, op.inputs, strict=True))
        (result,) = op.function.yielded
        if result in inputs and inputs[result].type == op.result.type:
            mapping[op.result] = inputs[result]
            narrowed = True
            continue
        used = {v for inner in op.function.walk() for v in inner.operands}
        used_inputs = {element: value for element, value in inputs.items() if element in used}
        if len(used_inputs) < len(inputs) and _same_tile(op, used_inputs.values()):
            op.replace_inputs([*used_inputs.values()], [*used_inputs])
            narrowed = True
    replace(kernel.body, mapping)
    return narrowed


def _same_tile(op: TileMap, values: Iterable[Value]) -> bool:
    """Whether these inputs alone determine the shape of the result and whether the result is partial."""
    tiles = [v.type for v in values if isinstance(v.type, TileType)]
    assert isinstance(op.result.type, TileType)
    return bool(tiles) and any(t.partial for t in tiles) == op.result.type.partial


class _Simplifier:
    """`mapping`: the values that replace others; `unrolls`: whether loops with a single iteration are unrolled;
    `exact`: the keys of attributes, by the identity of the object, which stays alive."""

    def __init__(self, ranges: IntegerRanges, unrolls: bool) -> None:
        self.mapping: dict[Value, Value] = {}
        self.ranges, self.unrolls = ranges, unrolls
        self.exact: dict[int, tuple[Any, str]] = {}

    def region(self, region: Region, available: dict[Any, Op]) -> None:
        """Simplify a region. `available`: the pure ops that dominate it, by value number."""
        out: list[Op] = []
        self._ops(region.ops, region, dict(available), out)
        region.ops = out

    def _ops(self, ops: Sequence[Op], region: Region, available: dict[Any, Op], out: list[Op]) -> None:
        """Append the simplified form of ops to `out`, the ops of a region."""
        for op in ops:
            op.substitute(self.mapping)
            body = self._running_once(op, out)
            if body is not None:
                for inner in body.ops[:-1]:
                    inner.parent = region
                self._ops(body.ops[:-1], region, available, out)
                yielded = [self.mapping.get(v, v) for v in body.yielded]
                self.mapping.update(zip(op.results, yielded, strict=True))
                continue
            replaced = self._fold(op, out)
            if replaced is not None:
                self.mapping[op.result] = replaced
                continue
            key = self._key(op)
            if key is not None and key in available:
                self._reuse(op, available[key])
                continue
            if key is not None:
                available[key] = op
            if op.regions:
                inside = _known_inside(op, available)
                for nested in op.regions:
                    self.region(nested, inside)
            out.append(op)

    def _running_once(self, op: Op, out: list[Op]) -> Region | None:
        """The region of a branch or a loop that certainly runs, once, after its arguments are replaced; None if there
        is none. GPUs pipeline loops, so that loops stay."""
        if isinstance(op, If) and isinstance(op.condition.owner, ConstantLike):
            return op.then if op.condition.owner.value else op.orelse
        if not self.unrolls or not isinstance(op, LoopLike) or op.unrolled is not None:
            return None
        positions = op.positions
        if positions is None or len(positions) != 1:
            return None
        (index,) = (a for a in op.body.args if a not in op.arguments)
        self.mapping[index] = _constant(op, index.type, positions[0], out)
        self.mapping.update(zip(op.arguments, op.initial, strict=True))
        return op.body

    def _reuse(self, op: Op, earlier: Op) -> None:
        for old, new in zip(op.results, earlier.results, strict=True):
            new.name = new.name or old.name
            self.mapping[old] = new

    def _fold(self, op: Op, out: list[Op]) -> Value | None:
        if not _may_fold(type(op)):
            return None
        if isinstance(op, Select) and isinstance(op.condition.owner, ConstantLike):
            return op.a if op.condition.owner.value else op.b
        if isinstance(op, Select) and self._is_wrap(op):
            return op.b
        same = self._unchanged(op) if isinstance(op, Binary) else _round_trip_source(op)
        if same is not None:
            return same
        if isinstance(op, RESHAPES):
            return _simpler_reshape(op, out)
        if not isinstance(op, FOLDED) or isinstance(op, Fma) or not isinstance(op.result.type, DType):
            return None
        number = self.ranges.number(op) if isinstance(op, DETERMINED) else None
        if number is not None:
            return _constant(op, op.result.type, number, out)
        if not all([isinstance(v.owner, ConstantLike) for v in op.operands]):
            return None
        constants = [
            np.array([v.owner.value], to_numpy(v.type))
            for v in op.operands
            if isinstance(v.owner, ConstantLike) and isinstance(v.type, DType)
        ]
        if len(constants) != len(op.operands):
            return None
        return _constant(op, op.result.type, op.ref(op.attrs, *constants)[0].item(), out)

    def _unchanged(self, op: Binary) -> Value | None:
        """The operand that an integer op returns unchanged; None if there is none."""
        if not isinstance(op.a.type, DType) or not op.a.type.is_int:
            return None
        first, second = op.a, op.b
        if type(op) in NEUTRAL and constant_number(second) == NEUTRAL[type(op)]:
            return first
        if isinstance(op, (Add, Mul)) and constant_number(first) == NEUTRAL[type(op)]:
            return second
        limit = constant_number(second)
        if isinstance(op, Max) and limit is not None and limit <= self.ranges.of(first)[0]:
            return first
        return self.ranges.dividend(op)

    def _is_wrap(self, op: Select) -> bool:
        """Whether an op is `i + n if i < 0 else i` for an i that is never negative."""
        compared, index = op.condition.owner, op.b
        if not isinstance(compared, Cmp) or compared.pred != "lt" or compared.a is not index:
            return False
        return constant_number(compared.b) == 0 and self.ranges.nonnegative(index)

    def _key(self, op: Op) -> Any:
        """A value number: equal for pure ops that compute the same value; None for ops that must stay."""
        if not op.PURE or op.regions or isinstance(op, UNNUMBERED):
            return None
        if not op.attrs:
            return (type(op), *op.operands)
        attributes = [(name, self._exact(value)) for name, value in op.attrs.items()]
        return (type(op), *op.operands, *sorted(attributes))

    def _exact(self, value: Any) -> str:
        """A key for an attribute that distinguishes 0.0 from -0.0, and 1 from 1.0 and True. Long tables of equal
        numbers have equal keys only if they are one object."""
        known = self.exact.get(id(value))
        if known is None:
            text = str(value) if isinstance(value, Type) else f"{type(value).__name__} {_content(value)}"
            known = self.exact[id(value)] = value, text
        return known[1]


@cache
def _may_fold(kind: type[Op]) -> bool:
    """Whether an op of a class may have a simpler value."""
    return issubclass(kind, (Binary, TileMap, *RESHAPES, *FOLDED))


def _content(value: Any) -> str:
    is_long = type(value) in (tuple,) and len(value) > MAX_COMPARED
    return f"object {id(value)}" if is_long else repr(value)


def _constant(op: Op, type: Type, number: Any, out: list[Op]) -> Value:
    """A constant that is computed before an op, or in its place."""
    constant_op = Const([], [type], {"value": number, "type": type}, [], op.loc)
    constant_op.parent = op.parent
    out.append(constant_op)
    return constant_op.result


def _known_inside(op: Op, available: dict[Any, Op]) -> dict[Any, Op]:
    """The ops among `available` whose results the regions of an op may reuse."""
    if isinstance(op, LoopLike):
        # An arange is cheaper to recompute than to keep in registers throughout a loop.
        return {k: v for k, v in available.items() if not isinstance(v, TileArange)}
    return available if isinstance(op, (If, Lanes, Roles)) else {}


def _simpler_reshape(op: ReshapeLike | TileSlice, out: list[Op]) -> Value | None:
    """A simpler value for a reshape or a slice: a permutation for a slice of all elements, one op for two
    consecutive ops, or the tile itself; None if there is nothing to simplify."""
    reshape: Op | None = op
    if isinstance(op, TileSlice):
        order = op.order()
        reshape = (
            None if order is None else TilePermute([op.tile], [op.result.type], {"perm": order}, [], op.loc)
        )
    if not isinstance(reshape, ReshapeLike):
        return None
    earlier = reshape.tile.owner
    combined = reshape.after(earlier) if isinstance(earlier, Op) else None
    reshape = combined if isinstance(combined, ReshapeLike) else reshape
    if reshape.is_identity:
        return reshape.tile
    if reshape is op:
        return None
    reshape.parent = op.parent
    out.append(reshape)
    return reshape.result


NEUTRAL: dict[type[Op], int] = {Add: 0, Sub: 0, Mul: 1, Div: 1, FloorDiv: 1}
"""The second operand for which an integer op returns the first."""


def _round_trip_source(op: Op) -> Value | None:
    """The value x if an op converts x back from a type that represents all values of x; else None."""
    source = _converted(op)
    before = source.owner if source is not None else None
    narrow = _converted(before) if isinstance(before, Op) else None
    if source is None or narrow is None or narrow.type != op.result.type:
        return None
    return narrow if represents_all(_scalar(source), _scalar(narrow)) else None


def _converted(op: Op) -> Value | None:
    """The operand of a conversion of a number, or of each element of a tile; None for other ops."""
    if isinstance(op, Cast):
        return op.x
    if not isinstance(op, TileMap) or len(op.inputs) != 1 or len(op.function.ops) != 2:
        return None
    cast = op.function.ops[0]
    is_cast_only = isinstance(cast, Cast) and op.elements == [cast.x] and op.function.yielded == [cast.result]
    return op.inputs[0] if is_cast_only else None


def _scalar(value: Value) -> DType:
    t = value.type
    return scalar_of(t.dtype if isinstance(t, TileType) else element(t))


def represents_all(wide: DType, narrow: DType) -> bool:
    """Whether one float type represents all values of another."""
    return wide.is_float and narrow.is_float and wide.bits >= 32 and wide.bits >= narrow.bits
