"""Builds ops for the expressions of kernels: adapts literals, broadcasts tiles, and lowers operators and subscripts.

All functions raise `TypeRule` for operands that do not fit; the frontend adds the source line."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeGuard, cast

import numpy as np

from tegula.errors import UnfitNumber
from tegula.fitting import fitted, shown
from tegula.ir import REGISTRY, Builder, Op, Region, TypeRule, Value, root
from tegula.ops import scalar as S
from tegula.ops.base import USAGE_HELP, cast_help, element, require
from tegula.ops.buffer import BufRead, BufSet, BufUpdate, BufWrite
from tegula.ops.control import If, Yield
from tegula.ops.convert import Cast
from tegula.ops.literals import BITWISE, BITWISE_HELP, SYMBOLS, fold_literals
from tegula.ops.tile import TileBroadcast, TileExtract, TileFillAbsent, TileFull, TileMap, TileMarkPartial
from tegula.ops.vector import VecExtract, VecMake, VecSplat
from tegula.source import UNKNOWN, Location
from tegula.types import (
    DTYPES,
    BufType,
    DType,
    ElementType,
    MatType,
    TileType,
    Type,
    VecType,
    algebra_of,
    bool_,
    element_shape,
    float32,
    float64,
    from_numpy,
    int32,
    int64,
    is_element,
    scalar_of,
    to_numpy,
    uint64,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Operand: TypeAlias = Any
"""An operand that the frontend passes: a Value, a Python number (an untyped literal), a tuple, a dtype, a function."""

LITERALS = (bool, int, float)
WRITES = (BufWrite, BufSet, BufUpdate)

MAX_VECTOR = 64
"""The maximum number of elements of a constant NumPy array that is a vector or matrix; larger arrays are tables."""

COMPONENTWISE_OPERATORS = ("add", "sub", "and", "or", "xor", "mod", "shl", "shr")
"""The operators that are defined component by component for two vectors or matrices."""


class LiteralRule(TypeRule):
    """A literal that cannot take the type of the other operand."""


class Function(Protocol):
    """A function that is passed as an argument, for example of tile_map."""

    def call(self, builder: OpBuilder, args: list[Operand]) -> Operand:
        """Build a call of the function with these arguments."""
        ...


class ThreadArray(Enum):
    """The kinds of vectors and matrices that users see as per-thread arrays."""

    OF_NUMBERS = "an array of numbers"
    OF_VECTORS = "an array of vectors, the rows of the matrix"
    COPY = "a row or slice of an array, copied"


class OpBuilder(Builder):
    """The builder of one kernel trace. `block_lanes`: the number of lanes of the block; `lanes`: the number of lanes of
    the group, which is a role or the block; `partial`: whether the last block may lack lanes; `library`: builds a call
    of a standard library function by name. `storage`: the declared storage of new tiles; `read_only`: tiles that cannot
    be written, with the name of the function that created each tile. `thread_arrays`: the values that are per-thread
    arrays. `elected`: whether one thread of the group runs the ops. `on_gpu`: as in `LaunchClass`. `tables`:
    converted arrays, by the identity of the array, which the entry keeps alive, and the type that was asked for."""

    __slots__ = (
        "block_lanes",
        "elected",
        "lanes",
        "library",
        "on_gpu",
        "partial",
        "read_only",
        "storage",
        "tables",
        "thread_arrays",
    )

    def __init__(
        self,
        region: Region,
        loc: Location = UNKNOWN,
        lanes: int = 1,
        partial: bool = False,
        library: Callable[[OpBuilder, str, list[Operand]], Operand] | None = None,
    ) -> None:
        super().__init__(region, loc)
        self.block_lanes = self.lanes = lanes
        self.partial = partial
        self.library = library
        self.storage, self.read_only = dict[Value, str](), dict[Value, str]()
        self.thread_arrays: dict[Value, ThreadArray] = {}
        self.elected, self.on_gpu = False, cast("bool | None", None)
        self.tables: dict[tuple[int, object], tuple[NDArray[Any], Any]] = {}

    # Inserting -------------------------------------------------------------------------------------------------------

    def emit(
        self,
        op: type[Op],
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
    ) -> list[Value]:
        """Insert an op; its result types follow from its operands."""
        if op in WRITES:
            self._check_writable(operands[0])
        return self.insert(op.typed(operands, attrs, regions, self.loc)).results

    def _check_writable(self, target: Value) -> None:
        producer = self.read_only.get(root(target))
        if producer is not None:
            message = f"the result of {producer} is read-only"
            raise TypeRule(message, "change a copy of the tile: tg.copy(...)")

    def one(
        self,
        op: type[Op],
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
    ) -> Value:
        """The only result of a new op."""
        return self.emit(op, operands, attrs, regions)[0]

    def region_of(self, types: Sequence[Type], body: Callable[[list[Value]], Value]) -> Region:
        """A region with arguments of the given types that yields the value which `body` builds from them."""
        region, outer_region = Region(types), self.region
        self.region = region
        try:
            result = body(region.args)
            self.emit(Yield, [result])
        finally:
            self.region = outer_region
        return region

    def branch(self, condition: Value, body: Callable[[], object]) -> None:
        """Build a branch that runs the ops that `body` builds if the condition holds."""
        regions, outer_region = [Region(), Region()], self.region
        for region, build in zip(regions, (body, lambda: None), strict=True):
            self.region = region
            build()
            self.emit(Yield, [])
        self.region = outer_region
        self.emit(If, [condition], None, regions)

    def call(self, name: str, *args: Operand) -> Operand:
        """Call a function of the standard library."""
        assert self.library is not None, f"no standard library to find {name} in"
        return self.library(self, name, list(args))

    # Operands --------------------------------------------------------------------------------------------------------

    def const(self, value: Any, dtype: ElementType) -> Value:
        """A constant of an element type; a number fills all components of a vector or matrix."""
        scalar = scalar_of(dtype)
        constant = self.one(S.Const, [], {"value": checked_literal(value, scalar), "type": scalar})
        return constant if dtype == scalar else self.one(VecSplat, [constant], {"type": dtype})

    def of_numbers(self, numbers: Sequence[float], t: ElementType) -> Value:
        """A constant vector or matrix of given components."""
        return self.one(VecMake, [self.const(x, scalar_of(t)) for x in numbers], {"type": t})

    def value(self, x: Operand, like: Type | None = None) -> Value:
        """The operand x as a Value; a literal takes the scalar type of `like`, or int32, float32, bool."""
        if isinstance(x, Value):
            return x
        if isinstance(x, np.generic):
            x = cast("np.generic[Any]", x).item()
        if isinstance(x, LITERALS):
            default = bool_ if isinstance(x, bool) else int32 if isinstance(x, int) else float32
            if like is not None:
                target = scalar_of(element(like.dtype if isinstance(like, TileType) else like))
            else:
                target = default
            self._check_adapts(x, target)
            return self.const(x, target)
        if is_constant_array(x):
            return self._array_constant(x)
        raise TypeRule(f"expected a value, got {describe(x)}", culprit=x)

    def _check_adapts(self, literal: bool | int | float, target: DType) -> None:
        fits = (
            target.is_bool
            if isinstance(literal, bool)
            else target.is_int
            if isinstance(literal, int)
            else target.is_float
        )
        if fits:
            return
        raise LiteralRule(f"expected {target}, got {literal!r}", expected=target)

    def _array_constant(self, x: NDArray[Any]) -> Value:
        message = f"an array of shape {x.shape} is a table of constants"
        require(
            x.ndim in (1, 2) and x.size <= MAX_VECTOR, message, "read elements of the table, as in table[i]"
        )
        scalar = from_numpy(x.dtype)
        composite_type: ElementType = (
            VecType(x.shape[0], scalar) if x.ndim == 1 else MatType(x.shape[0], x.shape[1], scalar)
        )
        return self.one(VecMake, [self.const(v.item(), scalar) for v in x.ravel()], {"type": composite_type})

    def tile(self, x: Operand, partial: bool = False) -> Value:
        """The operand x as a tile value; a buffer is read. Elements of absent lanes become 0 unless `partial`."""
        if not isinstance(x, Value) or not isinstance(x.type, (TileType, BufType)):
            raise TypeRule(f"expected a tile, got {describe(x)}", culprit=x)
        value = self.one(BufRead, [x]) if isinstance(x.type, BufType) else x
        assert isinstance(value.type, TileType)
        return self.one(TileFillAbsent, [value]) if value.type.partial and not partial else value

    def buffer(self, x: Operand) -> Value:
        """The operand x as a tile object that can be changed; TypeRule for other operands."""
        if isinstance(x, Value) and isinstance(x.type, BufType):
            return x
        raise TypeRule(f"expected a tile bound to a name, got {describe(x)}", culprit=x)

    def write(self, buffer: Value, value: Value) -> None:
        """Overwrite a buffer with a tile of its shape and element type."""
        assert isinstance(buffer.type, BufType) and isinstance(value.type, TileType)
        if value.type.partial and not buffer.type.partial:
            value = self.one(TileFillAbsent, [value])
        elif buffer.type.partial and not value.type.partial:
            value = self.one(TileMarkPartial, [value])
        self.emit(BufWrite, [buffer, value])

    def index(self, x: Operand) -> Value:
        """The operand x as an integer scalar."""
        index_value = self.value(x)
        if not (isinstance(index_value.type, DType) and index_value.type.is_int):
            message = f"indices must be integers or slices, got {describe(x)}"
            raise TypeRule(message, _index_help(index_value.type), culprit=x, expected=int32)
        return index_value

    def offset(self, x: Operand) -> Value:
        """The offset of a tile in an array, as a scalar that fits int64. A uint64 is limited to 2**62, which is outside
        of every array."""
        offset_value = self.index(x)
        if offset_value.type == uint64:
            return self.cast(self.within(offset_value, 1 << 62), int64)
        return offset_value

    def within(self, x: Value, bound: int) -> Value:
        """An integer clamped to -bound .. bound; unchanged if the type cannot exceed this range."""
        assert isinstance(x.type, DType)
        if x.type.bits - x.type.is_signed <= bound.bit_length():
            return x
        t = x.type
        if t.is_signed:
            x = self.one(S.Max, [x, self.const(-bound, t)])
        return self.one(S.Min, [x, self.const(bound, t)])

    def is_tile(self, x: Operand) -> bool:
        """Whether an operand is a tile, value or object."""
        return isinstance(x, Value) and isinstance(x.type, (TileType, BufType))

    # Elementwise -----------------------------------------------------------------------------------------------------

    def map(self, function: Callable[[list[Value]], Operand], operands: Sequence[Operand]) -> Value:
        """Apply a function of elements to tiles and broadcast values; tiles of different shapes broadcast."""
        tiles = [self.tile(x, partial=True) if self.is_tile(x) else self.value(x) for x in operands]
        tiles = self._broadcast(tiles)
        types = [t.type.dtype if isinstance(t.type, TileType) else t.type for t in tiles]
        region = self.region_of(types, lambda args: self._element_result(function(args)))
        for op in region.walk():
            require(
                not getattr(op, "COOPERATIVE", False),
                f"a mapped function cannot use tiles, as {op.NAME} does",
            )
        return self.one(TileMap, [*tiles, *captured_values(region)], None, [region])

    def _element_result(self, x: Operand) -> Value:
        value = self.value(x) if x is not None else None
        if value is None or not is_element(value.type):
            raise TypeRule(f"a mapped function must return one element, got {describe(x)}")
        return value

    def _broadcast(self, values: list[Value]) -> list[Value]:
        shapes = [v.type.shape for v in values if isinstance(v.type, TileType)]
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            raise TypeRule(
                "",
                "make the shapes equal, or 1 where they differ",
                "ShapeMismatch",
                what="elementwise operation",
                left=shapes[0],
                right=shapes[-1],
            ) from None
        return [self.broadcast(v, shape) if isinstance(v.type, TileType) else v for v in values]

    def broadcast(self, tile: Value, shape: Sequence[int]) -> Value:
        """A tile broadcast to a larger shape, by NumPy's rules."""
        assert isinstance(tile.type, TileType)
        if tile.type.shape == tuple(shape):
            return tile
        return self.one(TileBroadcast, [self.tile(tile)], {"shape": tuple(shape)})

    def elementwise(
        self, op: type[Op], operands: Sequence[Operand], attrs: Mapping[str, Any] | None = None
    ) -> Operand:
        """Apply a lane op to scalars, vectors and matrices, or element by element to tiles."""
        if any(self.is_tile(x) for x in operands):
            values, rebuild = self.split_literals(operands)
            return self.map(lambda args: self.elementwise(op, rebuild(args), attrs), values)
        return self.one(op, self.unified(op.NAME, operands), attrs)

    def split_literals(
        self, operands: Sequence[Operand]
    ) -> tuple[list[Operand], Callable[[list[Value]], list[Operand]]]:
        """The operands without literals, and a function that inserts the literals again. Literals thus take the type of
        the elements in a map's region."""
        literal = [isinstance(x, LITERALS) for x in operands]

        def rebuild(args: list[Value]) -> list[Operand]:
            rest = iter(args)
            return [x if is_literal else next(rest) for x, is_literal in zip(operands, literal, strict=True)]

        return [x for x, is_literal in zip(operands, literal, strict=True) if not is_literal], rebuild

    def unified(self, name: str, operands: Sequence[Operand]) -> list[Value]:
        """The operands as values, where literals take the type of the other operands."""
        typed = [x for x in operands if isinstance(x, Value)]
        like = typed[0].type if typed else None
        values: list[Value] = []
        for x in operands:
            if isinstance(x, Value):
                values.append(x)
                continue
            try:
                value = self.value(x, like)
            except TypeRule as e:
                raise self._mixed_scalars_error(name, x, like, e) from None
            if is_element(like) and value.type != like and scalar_of(like) == value.type:
                value = self.one(VecSplat, [value], {"type": like})
            values.append(value)
        return values

    def _mixed_scalars_error(
        self, name: str, literal: Operand, like: Type | None, cause: TypeRule
    ) -> TypeRule:
        if not isinstance(cause, LiteralRule):
            return cause
        kind = {bool: "bool", int: "int32", float: "float32"}[type(literal)]
        return TypeRule("", cause.help, "MixedScalars", op=SYMBOLS.get(name, name), left=kind, right=like)

    def unary(self, op: str, a: Operand) -> Operand:
        """The result of a unary operator: neg, pos, or not, which is bitwise for integers and logical for bool."""
        if op == "pos":
            return a
        if isinstance(a, LITERALS):
            if op == "neg":
                require(not isinstance(a, bool), f"unary '-' is not defined for {a!r}")
                return -a
            if isinstance(a, float):
                raise TypeRule(f"'~' is not defined for {a!r}")
            return not a if isinstance(a, bool) else ~a
        return self.elementwise(REGISTRY[op], [a])

    def logical_not(self, a: Operand) -> Operand:
        """The negation of a condition, `not a`."""
        if isinstance(a, LITERALS):
            return not a
        return self.one(REGISTRY["not"], [self.truth(a)])

    def only_element(self, x: Value) -> Value:
        """The element of a tile with a single element; any other value unchanged."""
        t = x.type
        if not isinstance(t, (TileType, BufType)) or math.prod(t.shape) != 1:
            return x
        return self.one(TileExtract, [self.tile(x, partial=True), *[self.const(0, int32)] * len(t.shape)])

    def truth(self, a: Operand) -> Value:
        """An operand as a bool scalar: numbers are compared with 0, and a tile of one element is that element;
        TypeRule for other operands."""
        element = self.only_element(self.value(a))
        if element.type == bool_:
            return element
        if isinstance(element.type, DType):
            return self.one(Cast, [element], {"to": bool_})
        message = f"a condition must be a scalar, got {describe(a)}"
        if self.is_tile(a):
            raise TypeRule(message, "reduce the tile, or choose with tg.where", what=message, tile=a)
        raise TypeRule(message, "compare one of the components with a number, as in v.x > 0")

    def compare(self, pred: str, a: Operand, b: Operand) -> Operand:
        """The result of a comparison: element by element for tiles; one bool for vectors and matrices, which are equal
        if all components are."""
        if isinstance(a, LITERALS) and isinstance(b, LITERALS):
            return bool(getattr(operator, pred)(a, b))
        if self.is_tile(a) or self.is_tile(b):
            values, rebuild = self.split_literals([a, b])
            return self.map(lambda args: self.compare(pred, *rebuild(args)), values)
        left, right = self.unified(pred, [a, b])
        result = self.one(S.Cmp, [left, right], {"pred": pred})
        if not isinstance(result.type, (VecType, MatType)):
            return result
        require(pred in ("eq", "ne"), f"{left.type} values have no order")
        return self._fold_components("and" if pred == "eq" else "or", result)

    def _fold_components(self, op: str, x: Value) -> Value:
        components = self.components_of(x)
        total = components[0]
        for component in components[1:]:
            total = self.one(REGISTRY[op], [total, component])
        return total

    def components_of(self, x: Value) -> list[Value]:
        """The scalars of a vector or matrix, row-major."""
        shape = element_shape(element(x.type))
        return [
            self.one(VecExtract, [x, *(self.const(i, int32) for i in index)]) for index in np.ndindex(*shape)
        ]

    def cast(self, x: Operand, to: DType) -> Operand:
        """The conversion of x to scalar type `to`; tiles, vectors and matrices are converted component by component."""
        if isinstance(x, LITERALS):
            x = self.value(x, to) if isinstance(x, float) and to.is_float else self._literal_cast(x, to)
        if self.is_tile(x):
            return self.map(lambda args: self.cast(args[0], to), [x])
        value = self.value(x)
        if not is_element(value.type):
            raise TypeRule(f"cannot convert {describe(x)} to {to}")
        return value if scalar_of(value.type) == to else self.one(Cast, [value], {"to": to})

    def _literal_cast(self, x: bool | int | float, to: DType) -> Value:
        if isinstance(x, int) and not isinstance(x, bool) and to.is_int:
            return self.const(int(x), to)
        if to.is_float:
            return self.const(x, to)
        if to.is_bool:
            return self.const(bool(x), to)
        return self.one(Cast, [self.const(x, float64)], {"to": to})

    # Operators -------------------------------------------------------------------------------------------------------

    def binary(self, op: str, a: Operand, b: Operand) -> Operand:
        """The result of an operator, + - * / // % ** & | ^ << >> @, on any operands."""
        if isinstance(a, LITERALS) and isinstance(b, LITERALS):
            return fold_literals(op, a, b)
        if op == "matmul":
            return self._matmul(a, b)
        if self.is_tile(a) or self.is_tile(b):
            return self._tile_binary(op, a, b)
        composite = [isinstance(x, Value) and isinstance(x.type, (VecType, MatType)) for x in (a, b)]
        if any(composite):
            return self._composite_binary(op, a, b)
        if op == "pow":
            return self._power(a, b)
        left, right = self.unified(op, [a, b])
        if op in BITWISE and scalar_of(element(left.type)).is_float:
            raise TypeRule(f"'{SYMBOLS[op]}' is not defined for {left.type}", BITWISE_HELP)
        if op == "mod" and scalar_of(element(left.type)).is_float:
            self._require_equal_shapes(op, left, right)
            return self.call("mod", left, right)
        return self.one(REGISTRY[op], [left, right])

    def _require_equal_shapes(self, op: str, a: Value, b: Value) -> None:
        if a.type != b.type:
            raise TypeRule(
                "",
                cast_help(a.type, b.type),
                "MixedScalars",
                op=SYMBOLS.get(op, op),
                left=a.type,
                right=b.type,
            )

    def _tile_binary(self, op: str, a: Operand, b: Operand) -> Value:
        composite: list[bool] = []
        for x in (a, b):
            t = x.type.dtype if self.is_tile(x) else x.type if isinstance(x, Value) else float32
            composite.append(isinstance(t, (VecType, MatType)))
        if all(composite) and op not in COMPONENTWISE_OPERATORS and not self._multiplication(op, a, b):
            raise TypeRule(
                _composite_error(op, *(self._elements_text(x) for x in (a, b))),
                "one tile must hold scalars; for component-wise operators use tg.tile_map with tg.cw_mul or tg.cw_div",
            )
        values, rebuild = self.split_literals([a, b])
        return self.map(lambda args: self.binary(op, *rebuild(args)), values)

    def _elements_text(self, x: Operand) -> str:
        """An operand of an operator by its elements: tile<vec3> for a tile."""
        return f"tile<{x.type.dtype}>" if self.is_tile(x) else describe(x)

    def _composite_binary(self, op: str, a: Operand, b: Operand) -> Value:
        """Operators of vectors and matrices: + and - of equal types, * and / with a scalar, products with a matrix."""
        ta, tb = (x.type if isinstance(x, Value) else None for x in (a, b))
        both_composite = isinstance(ta, (VecType, MatType)) and isinstance(tb, (VecType, MatType))
        function = self._multiplication(op, a, b)
        if function:
            self._require_equal_shapes(op, a, b)
            return self.call(function, a, b)
        if both_composite and op == "mul" and (isinstance(ta, MatType) or isinstance(tb, MatType)):
            return self._matmul(a, b)
        if both_composite and op in COMPONENTWISE_OPERATORS:
            return self._build_componentwise(op, a, b)
        shape = ta if isinstance(ta, (VecType, MatType)) else tb
        is_plain = algebra_of(shape).is_plain
        scaling = ("mul", "div", "mod", "floordiv", "shl", "shr") if is_plain else ("mul", "div")
        if not both_composite and op in scaling:
            assert isinstance(shape, (VecType, MatType))
            left, right = (self._splat(x, shape, op) for x in (a, b))
            return self._build_componentwise(op, left, right)
        raise TypeRule(
            f"'{SYMBOLS[op]}' is not defined between {describe(a)} and {describe(b)}",
            algebra_of(ta).help or algebra_of(tb).help or COMPONENTWISE_HELP if op in ("mul", "div") else "",
        )

    def _multiplication(self, op: str, a: Operand, b: Operand) -> str:
        """The name of the function that multiplies two elements, or two tiles of elements, of one algebra; "" if the
        algebra has no such function."""
        types = [x.type for x in (a, b) if isinstance(x, Value)]
        elements = [t.dtype if isinstance(t, (TileType, BufType)) else t for t in types]
        multiplies = op == "mul" and len(elements) == 2 and algebra_of(elements[0]) == algebra_of(elements[1])
        return algebra_of(elements[0]).multiply if multiplies else ""

    def _build_componentwise(self, op: str, a: Value, b: Value) -> Value:
        """An operator on two vectors or matrices of one type; the remainder of floats is a call of the standard
        library."""
        t = element(a.type)
        if op in ("shl", "shr") and scalar_of(t).is_float:
            raise TypeRule(f"'{SYMBOLS[op]}' is not defined for {t}", BITWISE_HELP)
        if op != "mod" or not scalar_of(t).is_float:
            return self.one(REGISTRY[op], [a, b])
        self._require_equal_shapes(op, a, b)
        pairs = zip(self.components_of(a), self.components_of(b), strict=True)
        return self.one(VecMake, [self.value(self.call("mod", x, y)) for x, y in pairs], {"type": t})

    def _splat(self, x: Operand, shape: VecType | MatType, op: str) -> Value:
        if isinstance(x, Value) and isinstance(x.type, (VecType, MatType)):
            return x
        value = self.value(x, shape.dtype)
        if value.type != shape.dtype:
            hint = cast_help(value.type, shape.dtype)
            raise TypeRule("", hint, "MixedScalars", op=SYMBOLS[op], left=value.type, right=shape)
        return self.one(VecSplat, [value], {"type": shape})

    def _matmul(self, a: Operand, b: Operand) -> Operand:
        """The matmul: of tiles, or of a matrix with a matrix or vector."""
        if self.is_tile(a) or self.is_tile(b):
            from tegula.ops import PUBLIC

            return PUBLIC["tile_matmul"](self, a, b)
        x, y = self.value(a), self.value(b)
        rows_of_x = _as_rows(self, x, column=False)
        rows_of_y = _as_rows(self, y, column=True)
        scalar = scalar_of(element(x.type))
        if len(rows_of_x[0]) != len(rows_of_y) or scalar != scalar_of(element(y.type)):
            raise TypeRule(f"cannot multiply {x.type} by {y.type}")
        entries = [
            self.inner(left_row, [row[c] for row in rows_of_y])
            for left_row in rows_of_x
            for c in range(len(rows_of_y[0]))
        ]
        if isinstance(x.type, VecType) or isinstance(y.type, VecType):
            return self.one(VecMake, entries, {"type": VecType(len(entries), scalar)})
        return self.one(VecMake, entries, {"type": MatType(len(rows_of_x), len(rows_of_y[0]), scalar)})

    def inner(self, a: Sequence[Value], b: Sequence[Value]) -> Value:
        """The sum of the products of two equally long rows of scalars, summed from the first."""
        total = self.one(S.Mul, [a[0], b[0]])
        for x, y in zip(a[1:], b[1:], strict=True):
            total = self.one(S.Add, [total, self.one(S.Mul, [x, y])])
        return total

    def _power(self, a: Operand, b: Operand) -> Operand:
        """A power: repeated products for an integer with a constant exponent, the library's pow for floats."""
        base = a if isinstance(a, Value) else b
        if isinstance(base.type, DType) and base.type.is_int:
            if isinstance(a, Value) and isinstance(b, int) and 0 <= b < 1 << 64:
                return self._int_power(a, b)
            raise TypeRule(
                "an integer power needs a constant exponent of 0 or more, less than 2**64",
                "cast to float for other powers",
            )
        left, right = self.unified(
            "pow", [a, float_literal(b) if isinstance(b, int) and not isinstance(b, bool) else b]
        )
        self._require_equal_shapes("pow", left, right)
        return self.call("pow", left, right)

    def _int_power(self, base: Value, exponent: int) -> Value:
        result = self.const(1, element(base.type))
        square = base
        while exponent:
            if exponent & 1:
                result = self.one(S.Mul, [result, square])
            exponent >>= 1
            square = self.one(S.Mul, [square, square]) if exponent else square
        return result

    def inplace(self, op: str, target: Value, value: Operand) -> None:
        """Build `t op= value` for a tile object t."""
        assert isinstance(target.type, BufType)
        result = self.binary(op, target, value)
        if (
            not (isinstance(result, Value) and isinstance(result.type, TileType))
            or result.type.shape != target.type.shape
        ):
            raise TypeRule(
                "",
                "",
                "ShapeMismatch",
                what="in-place operator",
                left=target.type.shape,
                right=_shape(result),
            )
        require(
            result.type.dtype == target.type.dtype,
            f"the result is {result.type.dtype}, the tile holds {target.type.dtype}",
        )
        self.write(target, result)

    def full(self, shape: Sequence[int], value: Operand, dtype: ElementType | None = None) -> Value:
        """A tile filled with a value."""
        filling = self.value(value, dtype)
        if dtype is not None and filling.type != dtype and scalar_of(dtype) == filling.type:
            filling = self.one(VecSplat, [filling], {"type": dtype})
        require(dtype is None or filling.type == dtype, f"the value is {filling.type}, the tile {dtype}")
        return self.one(TileFull, [filling], {"shape": tuple(shape)})


def captured_values(region: Region) -> list[Value]:
    """Replace the outer values that a mapped function uses by new arguments of its region. Returns the outer values."""
    inside = {v for op in region.walk() for v in op.results} | set(region.args)
    inside |= {a for op in region.walk() for nested in op.regions for a in nested.args}
    known_values: dict[Value, Value] = {}
    for op in region.walk():
        for operand in op.operands:
            if operand in inside:
                continue
            if not is_element(operand.type):
                raise TypeRule(
                    f"a mapped function cannot capture {describe(operand)}",
                    "pass the value as an argument",
                )
            if operand not in known_values:
                known_values[operand] = region.add_argument(operand.type, operand.name)
        op.substitute(known_values)
    return list(known_values)


def _as_rows(b: OpBuilder, x: Value, column: bool) -> list[list[Value]]:
    components = b.components_of(x)
    if isinstance(x.type, MatType):
        return [components[r * x.type.cols : (r + 1) * x.type.cols] for r in range(x.type.rows)]
    algebra = algebra_of(x.type)
    message = f"expected a matrix or vector, got {x.type}"
    require(isinstance(x.type, VecType) and algebra.is_plain, message, algebra.help)
    return [[p] for p in components] if column else [components]


COMPONENTWISE_HELP = "for component-wise products use tg.cw_mul or tg.cw_div"


def _composite_error(op: str, left: str, right: str) -> str:
    """The message for an unsupported operator on tiles of vectors or matrices."""
    if op not in ("mul", "div"):
        return f"'{SYMBOLS[op]}' between two tiles of vectors or matrices is not defined"
    verb, both_tiles = (
        "multiply" if op == "mul" else "divide",
        left.startswith("tile<") and right.startswith("tile<"),
    )
    rule = "the element type must be scalar" if both_tiles else "at least one operand must be a scalar type"
    return f"Cannot {verb} {left} by {right}: {rule}"


def _shape(x: Operand) -> object:
    return getattr(getattr(x, "type", None), "shape", "()")


def checked_literal(value: Any, scalar: DType) -> Any:
    """A number as a constant of a scalar type; raises TypeRule for a number outside the type's range."""
    if scalar.is_bool:
        return bool(value)
    if scalar.is_float:
        return float_literal(value, scalar)
    if isinstance(value, float):
        require(value.is_integer(), f"{value} does not fit {scalar}", "write a whole number")
    if not _represents(scalar, value):
        wider = next((t for t in ("int32", "uint32", "int64", "uint64") if _represents(DTYPES[t], value)), "")
        help = (
            f"use a wider type: tg.{wider}({value})"
            if wider
            else "no integer type represents it: use a float"
        )
        raise TypeRule(f"{shown(value)} does not fit {scalar}", help, "OutOfRange")
    return int(value)


_FINITE = {8: 448.0, 16: 65504.0, 32: 3.4e38, 64: 1.7e308}
"""For each width of floats in bits, a bound up to which no number is rounded to infinity."""


def float_literal(value: bool | int | float, scalar: DType = float64) -> float:
    """A number as a float; raises TypeRule for a number outside the type's range."""
    try:
        literal = float(value)
        if abs(literal) <= _FINITE[scalar.bits]:
            return literal
        fitted(np.asarray(literal), to_numpy(scalar), scalar.name)
    except (OverflowError, UnfitNumber):
        fits_float64 = abs(value) < 2**1023 and scalar.bits < 64
        help = "use tg.float64 throughout" if fits_float64 else "the largest number of a float64 is 1.8e308"
        raise TypeRule(f"{shown(value)} does not fit {scalar}", help, "OutOfRange") from None
    return literal


def _represents(scalar: DType, value: Any) -> bool:
    low = -(1 << (scalar.bits - 1)) if scalar.kind == "i" else 0
    return low <= int(value) < low + (1 << scalar.bits)


def is_tuple(x: Operand) -> TypeGuard[tuple[Operand, ...]]:
    """Whether an operand is a tuple."""
    return isinstance(x, tuple)


def as_tuple(x: Operand) -> tuple[Operand, ...]:
    """An argument as a tuple; any other value becomes a tuple of one entry."""
    return x if is_tuple(x) else (x,)


def is_slice(x: Operand) -> TypeGuard[slice[Any, Any, Any]]:
    """Whether an operand is a slice."""
    return isinstance(x, slice)


def is_constant_array(x: Operand) -> TypeGuard[NDArray[Any]]:
    """Whether an operand is a NumPy array, which is constant."""
    return isinstance(x, np.ndarray)


def _index_help(t: Type) -> str:
    """The help text for an index that is not an integer; "" if the message suggests a cast instead."""
    if isinstance(t, (TileType, BufType)):
        if scalar_of(t.dtype).is_bool:
            return "select elements by a mask with tg.where(mask, x, t)"
        return "in t[indices], indices must be a 1-D tile of integers, for example from tg.tile_load"
    return "" if isinstance(t, DType) else USAGE_HELP.get(type(t), "take a component, as in v.x or m[0, 0]")


def operand_text(x: Operand) -> str:
    """The text of an operand in error messages: the literal of a constant, the type of any other operand."""
    return repr(x) if isinstance(x, (str, *LITERALS)) or x is None else describe(x)


DESCRIPTIONS: dict[type, Callable[[Any], str]] = {
    type(None): lambda x: "None",
    str: lambda x: f"the string {x!r}",
    type: lambda x: f"type {x.__name__}",
    DType: lambda x: f"type {x}",
    VecType: lambda x: f"type {x}",
    MatType: lambda x: f"type {x}",
}
"""The text of operands that are not values in error messages, by class."""


def describe(x: Operand) -> str:
    """The text of an operand in error messages."""
    if isinstance(x, Value):
        return str(x.type.tile if isinstance(x.type, BufType) else x.type)
    if isinstance(x, LITERALS):
        return f"{type(x).__name__} literal {x!r}"
    if is_tuple(x):
        return f"a tuple of {len(x)}"
    kind: Any = type(x)  # type: ignore[reportUnknownVariableType]
    named = DESCRIPTIONS.get(kind)
    return f"a {kind.__name__}" if named is None else named(x)
