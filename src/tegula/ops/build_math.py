"""The scalar functions of the language: `tg.sqrt`, `tg.where`, casts, ... Applied to tiles they work element by
element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tegula.ir import Value
from tegula.ops import scalar as S
from tegula.ops.base import (
    REGISTRY,
    TypeRule,
    element,
    public,
    require,
    require_components,
    require_range,
)
from tegula.ops.builder import LITERALS, OpBuilder, Operand, as_tuple, describe, float_literal
from tegula.ops.convert import Bitcast
from tegula.ops.literals import fold_literals
from tegula.ops.vector import VecMake, VecSplat
from tegula.types import DType, ElementType, MatType, VecType, components, element_type, float32, scalar_of


@public("min")
def minimum(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """The smaller of x and y; a NaN loses, -0 is below +0. Vectors, matrices and tiles: component by component."""
    return b.elementwise(S.Min, [x, y]) if _typed(x, y) else fold_literals("min", x, y)


@public("max")
def maximum(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """The larger of x and y; a NaN loses, -0 is below +0. Vectors, matrices and tiles: component by component."""
    return b.elementwise(S.Max, [x, y]) if _typed(x, y) else fold_literals("max", x, y)


def _typed(*operands: Operand) -> bool:
    return any(not isinstance(x, LITERALS) for x in operands)


@public("clamp")
def clamp(b: OpBuilder, x: Operand, low: Operand, high: Operand) -> Operand:
    """min(max(x, low), high)."""
    return minimum(b, maximum(b, x, low), high)


@public("add")
def add(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """x + y."""
    return b.binary("add", x, y)


@public("sub")
def sub(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """x - y."""
    return b.binary("sub", x, y)


@public("mul")
def mul(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """x * y."""
    return b.binary("mul", x, y)


@public("div")
def div(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """x / y; integers truncate."""
    return b.binary("div", x, y)


@public("floordiv")
def floordiv(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """x // y."""
    return b.binary("floordiv", x, y)


@public("mod")
def mod(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """x % y: the remainder of the truncated quotient."""
    return b.binary("mod", x, y)


@public("neg")
def neg(b: OpBuilder, x: Operand) -> Operand:
    """-x."""
    return b.unary("neg", x)


@public("bit_and")
def bit_and(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """x & y."""
    return b.binary("and", x, y)


@public("bit_or")
def bit_or(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """x | y."""
    return b.binary("or", x, y)


@public("bit_xor")
def bit_xor(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """x ^ y."""
    return b.binary("xor", x, y)


@public("cw_mul")
def cw_mul(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """The component-wise product of two vectors or matrices of one type."""
    return b.elementwise(S.Mul, [x, y])


@public("cw_div")
def cw_div(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """The component-wise quotient of two vectors or matrices of one type."""
    return b.elementwise(S.Div, [x, y])


@public("abs")
def absolute(b: OpBuilder, x: Operand) -> Operand:
    """The magnitude of x."""
    if _typed(x):
        return b.elementwise(S.Abs, [x])
    require(not isinstance(x, bool), f"abs is not defined for {x!r}")
    return abs(x)


def _float_function(name: str, op: type[Any], doc: str) -> None:
    def build(b: OpBuilder, x: Operand) -> Operand:
        return b.elementwise(op, [b.value(x)])

    build.__doc__ = doc
    public(name)(build)


_float_function("sqrt", S.Sqrt, "The square root, correctly rounded; NaN for negative numbers.")
_float_function(
    "fast.exp2",
    S.FastExp2,
    "2 to the power of x, with a relative error of at most 2 to the -20; results below the smallest normal number may "
    "be 0. By the hardware's approximation on GPUs. For float32 and narrower floats.",
)
_float_function("floor", S.Floor, "The largest integral number not above x.")
_float_function("ceil", S.Ceil, "The smallest integral number not below x.")
_float_function("trunc", S.Trunc, "x without its fraction.")
_float_function("rint", S.Rint, "x rounded to the nearest integral number, halves to even.")


def _classifier(name: str) -> None:
    def build(b: OpBuilder, x: Operand) -> Operand:
        return b.elementwise(S.Classify, [b.value(x)], {"test": name})

    build.__doc__ = f"Whether x {name[2:]}, for floats."
    public(name)(build)


for _name in ("isnan", "isinf", "isfinite"):
    _classifier(_name)


@public("_never_above")
def never_above(b: OpBuilder, x: Operand, limit: Operand) -> Operand:
    """Whether the compiler knows that x is at most `limit`, or NaN. For the library."""
    return b.elementwise(S.NeverAbove, [x, limit])


@public("fma")
def fma(b: OpBuilder, x: Operand, y: Operand, z: Operand) -> Operand:
    """x * y + z, rounded once."""
    return b.elementwise(S.Fma, [x, y, z])


@public("copysign")
def copysign(b: OpBuilder, x: Operand, y: Operand) -> Operand:
    """The magnitude of x with the sign of y."""
    return b.elementwise(S.CopySign, [x, y])


@public("where")
def where(b: OpBuilder, condition: Operand, x: Operand, y: Operand) -> Operand:
    """x where the condition holds, else y. A bool scalar picks whole values, a bool tile element by element."""
    if isinstance(condition, bool):
        return x if condition else y
    if any(b.is_tile(v) for v in (condition, x, y)):
        kept, rebuild = b.literals_apart([condition, x, y])
        return b.map(lambda args: where(b, *rebuild(args)), kept)
    left, right = b.unified("where", [x, y])
    test = b.value(condition)
    if isinstance(test.type, DType) and test.type.is_float:
        raise TypeRule(
            f"the condition of where is {test.type}", "compare it, as in mask > 0.0", culprit=condition
        )
    return b.one(S.Select, [b.truth(test), left, right])


@public("select")
def select(b: OpBuilder, condition: Operand, value_if_false: Operand, value_if_true: Operand) -> Operand:
    """`where` with the two values the other way round."""
    return where(b, condition, value_if_true, value_if_false)


@public("bitcast")
def bitcast(b: OpBuilder, x: Operand, dtype: Operand) -> Operand:
    """The bits of x as a scalar type of the same width."""
    to = scalar_of(element_type(dtype))
    if b.is_tile(x):
        return b.map(lambda args: bitcast(b, args[0], to), [x])
    return b.one(Bitcast, [b.value(x)], {"to": to})


@public("cast")
def cast(b: OpBuilder, x: Operand, dtype: Operand) -> Operand:
    """x converted to a scalar type, component by component."""
    return b.cast(x, scalar_of(element_type(dtype)))


def convert(b: OpBuilder, to: ElementType, args: Sequence[Operand], kwargs: dict[str, Operand]) -> Operand:
    """What calling a type does: `tg.float64(x)`, `tg.vec3(x, y, z)`, `tg.mat22(...)`, `float(i)`."""
    if isinstance(to, DType):
        require(len(args) <= 1 and not kwargs, f"{to}(...) takes one argument")
        return b.cast(args[0] if args else 0, to)
    require(not kwargs, f"{to}(...) takes no keywords")
    return composite(b, to, args)


def composite(b: OpBuilder, to: VecType | MatType, args: Sequence[Operand]) -> Value:
    """A vector or matrix from no value (zeros), one scalar (all components), a value of the same shape (converted),
    its components, or (matrices) its row vectors."""
    if not args:
        return b.const(0, to)
    first = args[0]
    if len(args) == 1 and isinstance(first, Value) and isinstance(first.type, VecType | MatType):
        made = b.cast(first, to.dtype)
        require(made.type == to, f"cannot make a {to} from {describe(first)}")
        return made
    if len(args) == 1 and components(to) != 1:
        return b.one(VecSplat, [_component(b, first, to.dtype)], {"type": to})
    if isinstance(to, MatType) and len(args) == to.rows and all(
        isinstance(x, Value) and isinstance(x.type, VecType) for x in args
    ):  # fmt: skip
        args = [part for row in args for part in b.components_of(row)]
    return b.one(VecMake, [_component(b, x, to.dtype) for x in args], {"type": to})


def _component(b: OpBuilder, x: Operand, dtype: DType) -> Value:
    if isinstance(x, int) and not isinstance(x, bool) and dtype.is_float:
        x = float_literal(x)
    made = b.value(x, dtype)
    if made.type != dtype:
        raise TypeRule(f"a component must be {dtype}, got {made.type}", f"cast it: tg.{dtype}(...)")
    return made


@public("vector")
def vector(b: OpBuilder, *args: Operand, length: Operand = None, dtype: Operand = None) -> Value:
    """A vector of the given components, or of `length` zeros."""
    scalar = scalar_of(element_type(dtype)) if dtype is not None else None
    if length is not None and (not isinstance(length, int) or isinstance(length, bool)):
        raise TypeRule("", "", "NotConstant", culprit=length, what="the length of a vector")
    what = f"a vector has 1 or more components, got {length}"
    require_range(length is None or length > 0, what, "write tg.vector(length=3)")
    if not args:
        require(length is not None, "vector needs components or a length", "write tg.vector(length=3)")
        return b.const(0, VecType(int(length or 0), scalar or float32))
    values = [b.value(x, scalar) for x in args]
    scalar = scalar or scalar_of(element(values[0].type))
    return composite(b, VecType(length or len(values), scalar), values)


@public("matrix")
def matrix(b: OpBuilder, *args: Operand, shape: Operand = None, dtype: Operand = float) -> Value:
    """A matrix of `shape` = (rows, cols) from its entries, one value, or zeros. Without a shape, 4, 9 or 16 entries
    make a square one."""
    if shape is None:
        n = math.isqrt(len(args))
        require(
            n > 1 and n * n == len(args),
            f"{len(args)} entries make no square matrix",
            "give shape=(rows, cols)",
        )
        shape = (n, n)
    entries = as_tuple(shape)
    for extent in entries:
        if not isinstance(extent, int) or isinstance(extent, bool):
            raise TypeRule("", "", "NotConstant", culprit=extent, what="the shape of a matrix")
    require_range(
        len(entries) == 2 and min(entries) > 0,
        f"a matrix has 1 or more rows and columns, got shape {shape}",
        "write shape=(2, 3)",
    )
    return composite(b, MatType(entries[0], entries[1], scalar_of(element_type(dtype))), args)


@public("identity")
def identity(b: OpBuilder, n: Operand, dtype: Operand = float) -> Value:
    """The n by n identity matrix."""
    scalar = scalar_of(element_type(dtype))
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeRule("", "", "NotConstant", culprit=n, what="the size of an identity matrix")
    require(n > 0, f"an identity matrix has 1 or more rows, got {n}")
    require_components(MatType(n, n, scalar))
    entries = [b.const(int(r == c), scalar) for r in range(n) for c in range(n)]
    return b.one(VecMake, entries, {"type": MatType(n, n, scalar)})


@public("transpose")
def transpose(b: OpBuilder, m: Operand) -> Value:
    """The transpose of a matrix."""
    t = b.value(m).type
    require(isinstance(t, MatType), f"expected a matrix, got {t}")
    assert isinstance(t, MatType)
    parts = b.components_of(m)
    swapped = [parts[r * t.cols + c] for c in range(t.cols) for r in range(t.rows)]
    return b.one(VecMake, swapped, {"type": MatType(t.cols, t.rows, t.dtype)})


def _vector(b: OpBuilder, x: Operand) -> Value:
    made = b.value(x)
    require(isinstance(made.type, VecType), f"expected a vector, got {made.type}")
    return made


@public("dot")
def dot(b: OpBuilder, x: Operand, y: Operand) -> Value:
    """The inner product of two vectors."""
    left, right = _vector(b, x), _vector(b, y)
    require(left.type == right.type, f"dot needs two vectors of one type, got {left.type} and {right.type}")
    return b.inner(b.components_of(left), b.components_of(right))


@public("length_sq")
def length_sq(b: OpBuilder, x: Operand) -> Value:
    """The squared length of a vector."""
    return dot(b, x, x)


@public("_length")
def length(b: OpBuilder, x: Operand) -> Value:
    """The length of a vector of floats."""
    return b.one(S.Sqrt, [dot(b, x, x)])


@public("normalize")
def normalize(b: OpBuilder, x: Operand) -> Value:
    """The vector over its length; zeros for a vector of length 0."""
    size = length(b, x)
    vec = _vector(b, x)
    zero = b.const(0.0, element(size.type))
    positive = b.one(S.Cmp, [size, zero], {"pred": "gt"})
    scaled = b.one(S.Div, [vec, b.one(VecSplat, [size], {"type": vec.type})])
    return b.one(S.Select, [positive, scaled, b.const(0.0, element(vec.type))])


@public("cross")
def cross(b: OpBuilder, x: Operand, y: Operand) -> Value:
    """The cross product of two 3-vectors."""
    u, v = b.components_of(_vector(b, x)), b.components_of(_vector(b, y))
    require(len(u) == len(v) == 3, "cross needs 3-vectors")
    entries = [
        b.binary("sub", b.binary("mul", u[i], v[j]), b.binary("mul", u[j], v[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return b.one(VecMake, entries, {"type": b.value(x).type})


@public("outer")
def outer(b: OpBuilder, x: Operand, y: Operand) -> Value:
    """The outer product of two vectors: entry (i, j) is x[i] * y[j]."""
    u, v = b.components_of(_vector(b, x)), b.components_of(_vector(b, y))
    scalar = scalar_of(element(b.value(x).type))
    require_components(MatType(len(u), len(v), scalar))
    entries = [b.one(REGISTRY["mul"], [p, q]) for p in u for q in v]
    return b.one(VecMake, entries, {"type": MatType(len(u), len(v), scalar)})


@public("trace")
def trace(b: OpBuilder, m: Operand) -> Value:
    """The sum of a matrix's diagonal."""
    t = b.value(m).type
    require(isinstance(t, MatType) and t.rows == t.cols, f"expected a square matrix, got {t}")
    assert isinstance(t, MatType)
    parts = b.components_of(m)
    total = parts[0]
    for k in range(1, t.rows):
        total = b.one(S.Add, [total, parts[k * t.cols + k]])
    return total
