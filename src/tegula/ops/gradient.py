"""The builder that an op's `adjoint` uses, and ops that occur only in gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from tegula.ir import CallLike, Op, Region, Value
from tegula.ir.fields import attr, body, variadic
from tegula.ops import scalar as S
from tegula.ops.array import ArrayShape, ArrayView
from tegula.ops.base import PUBLIC, element, require, types
from tegula.ops.indexing import KernelBuilder
from tegula.ops.lane import LaneIndex, TileFromLanes
from tegula.ops.tile import (
    TileExtract,
    TileFillAbsent,
    TileFull,
    TileLoad,
    TileMarkPartial,
    TileReshape,
    TileStore,
)
from tegula.types import (
    ArrayType,
    BufType,
    DType,
    ElementType,
    TileType,
    Type,
    element_shape,
    float32,
    int32,
    is_element,
    scalar_of,
    with_scalar,
)

Attrs = Mapping[str, Any]


def adjoint_type(t: Type) -> Type:
    """The type of a value's adjoint: the value's own type, or float32 instead of a narrower float. For the gradients of
    arrays see `gradient_element`."""
    if isinstance(t, TileType):
        return TileType(adjoint_element(t.dtype), t.shape, t.partial)
    if isinstance(t, BufType):
        return BufType(adjoint_element(t.dtype), t.shape, t.storage, t.partial)
    if isinstance(t, ArrayType):
        return ArrayType(gradient_element(t.dtype), t.ndim)
    return adjoint_element(t) if is_element(t) else t


def adjoint_element(t: ElementType) -> ElementType:
    """The type of the adjoint of an element that a kernel computes with."""
    scalar = scalar_of(t)
    return with_scalar(t, float32) if scalar.is_float and scalar.bits < 32 else t


def gradient_element(t: ElementType) -> ElementType:
    """The element type of the gradient of an array with elements of type `t`: float32 for 8-bit floats, else `t`."""
    scalar = scalar_of(t)
    return with_scalar(t, float32) if scalar.is_float and scalar.bits == 8 else t


def has_adjoint(t: Type) -> bool:
    """Whether values of a type can carry a gradient: floats, and tiles, tile objects and arrays of floats."""
    if isinstance(t, TileType | BufType | ArrayType):
        t = t.dtype
    return is_element(t) and scalar_of(t).is_float


class GradientBuilder(KernelBuilder):
    """Builds adjoint ops. The values that its methods take are values of the forward kernel, unless they are adjoints.

    The adjoint of a scalar that differs between lanes is a value per lane. The adjoint of a uniform scalar that all
    lanes reach is one value for the block: the sum over the lanes."""

    __slots__ = ()

    def same_view(self, view: ArrayView, target: Value, bounds: Sequence[Value]) -> Value:
        """The same view of another array of the same shape. `bounds`: the view's bounds, as values that are defined at
        this point. A dimension of which the view has all elements has the length of the target, as a tensor map
        requires."""
        bounds = list(bounds)
        for at, dim in view.lengths():
            bounds[at] = self.one(ArrayShape, [target], {"dim": dim})
        return self.one(ArrayView, [target, *bounds], view.attrs)

    # Implemented by the pass
    # -----------------------------------------------------------------------------------------------

    def primal(self, value: Value) -> Value:
        """The recomputed forward value, in the type of its adjoint."""
        raise NotImplementedError

    def needs_adjoint(self, value: Value) -> bool:
        """Whether a gradient flows to a value."""
        raise NotImplementedError

    def shadow(self, memory: Value) -> Value:
        """The gradient of an array, tile object or view: memory of the same shape."""
        raise NotImplementedError

    def is_uniform_op(self, op: Op) -> bool:
        """Whether all lanes reach a lane op with equal operands, so that its gradient is added once."""
        raise NotImplementedError

    def accumulator(self, tile: Value) -> Value:
        """A tile object, zero at first, whose elements are added to the adjoint of a tile value."""
        raise NotImplementedError

    def element_adjoint(self, body: Region, argument: Value) -> Region | None:
        """A region that computes the derivative of a mapped function by one of its arguments, times an additional last
        argument; None if the derivative is 0."""
        raise NotImplementedError

    def inlined(self, body: Region, args: Sequence[Value]) -> list[Value]:
        """Copy the region's ops to this point, and return the values that the region yields."""
        raise NotImplementedError

    def refuse(self, op: Op, reason: str, help: str = "") -> NoReturn:
        """Raise the error for an op without a derivative on the path of a gradient."""
        raise NotImplementedError

    def forward_value(self, value: Value) -> Value:
        """The recomputed forward value, in its own type."""
        raise NotImplementedError

    def check_writers(self, op: Op, value: Value, indices: Sequence[Value]) -> None:
        """Refuse a write of different values to one element by several lanes."""
        raise NotImplementedError

    def may_give_nan(self, factor: Value, op: Op) -> bool:
        """Whether a factor may be infinite or a NaN where the adjoint of an op's result is 0 and must stay 0."""
        raise NotImplementedError

    def may_be_zero(self, value: Value) -> bool:
        """Whether a forward value may be 0, negative or a NaN."""
        raise NotImplementedError

    # Building --------------------------------------------------------------------------------------------------------

    def zero(self, t: Type) -> Value:
        """The zero of an adjoint's type."""
        if not isinstance(t, TileType):
            return self.const(0.0, element(t))
        zeros = self.one(TileFull, [self.const(0.0, t.dtype)], {"shape": t.shape})
        return self.one(TileMarkPartial, [zeros]) if t.partial else zeros

    def fitted(self, tile: Value, t: Type) -> Value:
        """The tile, converted to a partial or full tile like `t`."""
        assert isinstance(tile.type, TileType) and isinstance(t, TileType)
        if tile.type.partial == t.partial:
            return tile
        return self.one(TileMarkPartial if t.partial else TileFillAbsent, [tile])

    def scaled(self, x: Value, factor: float) -> Value:
        """A value times a constant."""
        return self.one(S.Mul, [x, self.const(factor, element(x.type))])

    def zero_where_zero(self, g: Value, x: Value) -> Value:
        """The value x, a multiple of the adjoint g; but 0 if g is 0, even if x is NaN."""
        zero = self.const(0.0, element(g.type))
        return self.one(S.Select, [self.one(S.Cmp, [g, zero], {"pred": "eq"}), g, x])

    def times(self, g: Value, factor: Value, of: Op) -> Value:
        """The adjoint g of the result of the op `of`, times a forward value."""
        scaled = self.one(S.Mul, [g, self.primal(factor)])
        return self.zero_where_zero(g, scaled) if self.may_give_nan(factor, of) else scaled

    def plus(self, a: Value | None, b: Value | None) -> Value | None:
        """The sum of two adjoints of one value."""
        if a is None or b is None:
            return b if a is None else a
        if isinstance(a.type, TileType):
            return self.map(lambda xs: self.one(S.Add, xs), [a, b])
        return self.one(S.Add, [a, b])

    def summed(self, tile: Value, axis: int | None = None, keepdims: bool = False) -> Value:
        """The sum of a tile, along an axis or of all elements, equal to `tile_sum`."""
        return PUBLIC["tile_sum"](self, tile, axis, keepdims)

    def total(self, tile: Value) -> Value:
        """The sum of all elements, as a scalar, vector or matrix."""
        return self.one(TileExtract, [self.summed(tile), self.const(0, int32)])

    def block_sum(self, x: Value) -> Value:
        """The sum of the lanes' values."""
        attrs = {"lanes": self.lanes, "preserve_type": True, "partial": self.partial}
        return self.total(self.one(TileFromLanes, [x], attrs))

    def in_first_lane_only(self, x: Value) -> Value:
        """The value x in lane 0, and zero in other lanes."""
        first = self.one(S.Cmp, [self.one(LaneIndex, []), self.const(0, int32)], {"pred": "eq"})
        return self.one(S.Select, [first, x, self.zero(x.type)])

    def in_first_lane(self, body: Callable[[], object]) -> None:
        """Build a branch in which lane 0 alone runs the ops that `body` builds."""
        first = self.one(S.Cmp, [self.one(LaneIndex, []), self.const(0, int32)], {"pred": "eq"})
        self.branch(first, body)

    def stored_as(self, x: Value, array: Value) -> Value:
        """An adjoint, or a tile of adjoints, rounded to the scalar type of an array of gradients."""
        assert isinstance(array.type, ArrayType)
        return self.as_scalar(x, scalar_of(array.type.dtype))

    def widened(self, x: Value) -> Value:
        """A number or a tile from an array of gradients, in the type of adjoints."""
        t = adjoint_type(x.type)
        return self.as_scalar(x, scalar_of(t.dtype if isinstance(t, TileType) else element(t)))

    def load_and_clear(self, array: Value, index: Sequence[Value]) -> Value:
        """Read an element of an array, and set it to zero."""
        assert isinstance(array.type, ArrayType)
        attrs, t = {"bounds_check": True, "aligned": False}, array.type.dtype
        shape = (1,) * array.type.ndim
        tile = self.one(TileLoad, [array, self.const(0.0, t), *index], {**attrs, "shape": shape})
        self.emit(TileStore, [array, self.zero(tile.type), *index], attrs)
        return self.widened(self.one(TileExtract, [tile, *(self.const(0, int32) for _ in index)]))

    def reshaped(self, tile: Value, shape: Sequence[int]) -> Value:
        """The tile in another shape with the same number of elements."""
        assert isinstance(tile.type, TileType)
        if tile.type.shape == tuple(shape):
            return tile
        return self.one(TileReshape, [tile], {"shape": tuple(shape)})

    def as_scalar(self, x: Value, to: DType) -> Value:
        """The value x, converted to another scalar type; tiles are converted element by element."""
        scalar = self.cast(x, to)
        assert isinstance(scalar, Value)
        return scalar


LIBRARY = "tg."
"""The prefix of names of library functions in calls, because a user's function may have the same name."""


class Call(CallLike):
    """A call of a function with a declared derivative. Operands: its arguments. Regions: the body and, in kernels to be
    differentiated, its adjoint. The adjoint's arguments are the arguments and results of the body and the adjoints of
    these results, each converted to the type of the region's argument; the adjoint yields the increment of each float
    operand's adjoint. Attribute `name`. Ops of the body are not fused with ops outside of the call. The pass
    `inline_calls` replaces the call by its body."""

    __slots__ = ()
    NAME = "call"
    arguments = variadic()
    function = body()
    rule = body()
    name = attr()

    @property
    def library_name(self) -> str:
        """The name of the called function of the standard library; "" for other functions."""
        return self.name.removeprefix(LIBRARY) if self.name.startswith(LIBRARY) else ""

    @property
    def has_rule(self) -> bool:
        """Whether the call has an adjoint region; otherwise its adjoint is derived from its body."""
        return len(self.regions) > 1

    @property
    def integers_are_constant(self) -> bool:
        """Whether integer results are constants: true for functions with a declared derivative."""
        return self.has_rule

    def infer(self) -> Sequence[Type]:
        body, *rules = self.regions
        result_types, operands = types(body.yielded), types(self.arguments)
        require(types(body.args) == operands, "a call's body does not match its operands")
        if not rules:
            return result_types
        (rule,) = rules
        expected = [*operands, *result_types, *(t for t in result_types if has_adjoint(t))]
        require(
            [_shape_of(a.type) for a in rule.args] == [_shape_of(t) for t in expected]
            and types(rule.yielded) == [adjoint_type(t) for t in operands if has_adjoint(t)],
            "a call's adjoint does not match",
        )
        return result_types

    def adjoint(self, b: GradientBuilder, *grads: Any) -> Sequence[Value | None]:
        adjoints_of_results = [
            b.zero(adjoint_type(r.type)) if g is None else g
            for r, g in zip(self.results, grads, strict=True)
            if has_adjoint(r.type)
        ]
        values = [*(b.forward_value(v) for v in (*self.arguments, *self.results)), *adjoints_of_results]
        args = zip(values, self.rule.args, strict=True)
        gradients = iter(b.inlined(self.rule, [b.as_scalar(v, scalar_of(element(a.type))) for v, a in args]))
        return [next(gradients) if has_adjoint(v.type) else None for v in self.arguments]


def _shape_of(t: Type) -> tuple[bool, tuple[int, ...]]:
    """Whether an element type is a float type, and the type's shape: both agree between a call and its adjoint. Widths
    may differ."""
    return scalar_of(element(t)).is_float, element_shape(element(t))


class Unreplayable(Op):
    """The result of an op that cannot run a second time. Attributes: `type`; `what`, a description of the op. Compiled
    kernels do not contain this op."""

    __slots__ = ()
    NAME = "unreplayable"
    type = attr()
    what = attr()

    def infer(self) -> Sequence[Type]:
        return [self.type]


__all__ = [
    "LIBRARY",
    "Call",
    "GradientBuilder",
    "Unreplayable",
    "adjoint_type",
    "gradient_element",
    "has_adjoint",
]
