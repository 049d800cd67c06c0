"""Vectors and matrices in the language: calls of types, construction, products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tegula.fitting import UnfitNumber, fitted
from tegula.ir import REGISTRY, TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.base import element, public, require, require_components, require_range
from tegula.ops.buffer import BufGet
from tegula.ops.builder import OpBuilder, Operand, as_tuple, describe, float_literal, is_constant_array
from tegula.ops.kinds import AMatrix, AVector
from tegula.ops.tile import TileExtract
from tegula.ops.vector import VecMake, VecSplat
from tegula.types import (
    BufType,
    DType,
    ElementType,
    MatType,
    TileType,
    VecType,
    components,
    element_type,
    float32,
    int32,
    scalar_of,
    to_numpy,
)


def convert(b: OpBuilder, to: ElementType, args: Sequence[Operand], kwargs: dict[str, Operand]) -> Operand:
    """Calls of types: `tg.float64(x)`, `tg.vec3(x, y, z)`, `tg.mat22(...)`, `float(i)`."""
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


def _elements(b: OpBuilder, x: Value, rank: int) -> Value:
    """A vector or matrix of all elements of a tile, or of the thread's own view of a tile."""
    t = x.type
    assert isinstance(t, TileType | BufType)
    scalar = scalar_of(t.dtype)
    require(t.dtype == scalar, f"the tile's elements are {t.dtype}", "read them one by one")
    what = "vector" if rank == 1 else "matrix"
    require(len(t.shape) == rank, f"a {what} takes a tile of {rank} dimensions, got shape {t.shape}")
    made = VecType(t.shape[0], scalar) if rank == 1 else MatType(t.shape[0], t.shape[1], scalar)
    require_components(made)
    reads, source = (BufGet, x) if isinstance(t, BufType) else (TileExtract, b.tile(x))
    at = [[b.const(k, int32) for k in place] for place in np.ndindex(*t.shape)]
    return b.one(VecMake, [b.one(reads, [source, *place]) for place in at], {"type": made})


@public("table")
def table(b: OpBuilder, data: Operand, dtype: Operand = None) -> Operand:
    """Constants that are read at indices known at run time only: read-only data of the kernel.

    `table[i]`, or `table[i, j]`, is an element; with fewer indices it is a vector or matrix of the rest. A negative
    index counts from the end, one outside gives the last element of its dimension.

    Parameters:
        data: a NumPy array of any shape, captured by the kernel, of 1 to 65,536 elements.
        dtype: the scalar type of the elements; by default that of the array.
    Returns:
        the table: NumPy's array, each element rounded once.
    Raises:
        type-mismatch: `data` is no NumPy array, or `dtype` no scalar type.
        out-of-range: an element does not fit `dtype`.
    Gradient:
        none: it is a constant.
    """
    if not is_constant_array(data):
        raise TypeRule(f"a table is made of a NumPy array, got {describe(data)}", culprit=data)
    if dtype is None:
        return data
    scalar = element_type(dtype)
    require(isinstance(scalar, DType), f"the elements of a table are scalars, got {scalar}")
    try:
        return fitted(data, to_numpy(scalar_of(scalar)), str(scalar))
    except UnfitNumber as error:
        raise TypeRule(str(error), "", "OutOfRange", culprit=data) from None


@public("vector")
def vector(b: OpBuilder, *args: Operand, length: Operand = None, dtype: Operand = None) -> Value:
    """A vector of given components, of the elements of a tile, or of zeros.

    Parameters:
        *args: the components, scalars of one dtype; one scalar fills all of `length`; a tile (N,), of which each thread
            reads all elements, or all elements of the thread's own view; none: zeros.
        length: the number of components, 1 to 1024, a constant; by default that of the components given.
        dtype: the scalar type; by default that of the first component, float32 for zeros.
    Returns:
        a vector (length,).
    Raises:
        type-mismatch: a component has another dtype, their number is not `length`, or there are more than 1024; a tile
            has another rank, or elements that are no scalars.
        not-constant: `length` is known at run time only.
        out-of-range: `length` is below 1.
    Gradient:
        that of each component is the adjoint's component.
    """
    if len(args) == 1 and b.is_tile(args[0]):
        return _elements(b, args[0], 1)
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
    """A matrix of given entries, of row vectors, of the elements of a tile, of one value, or of zeros.

    Parameters:
        *args: the entries, row by row; or the rows as vectors; or a tile (M, N), of which each thread reads all
            elements; or one scalar for all entries; none: zeros.
        shape: (rows, columns), constants; without it 4, 9 or 16 entries make a square matrix.
        dtype: the scalar type; float32 by default.
    Returns:
        a matrix (rows, columns) of at most 1024 entries.
    Raises:
        type-mismatch: the number of entries does not fit the shape, or an entry has another dtype.
        not-constant: `shape` is known at run time only.
        out-of-range: `shape` is no pair of positive numbers.
    Gradient:
        that of each entry is the adjoint's entry.
    """
    if len(args) == 1 and b.is_tile(args[0]):
        return _elements(b, args[0], 2)
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
    """The identity matrix of n rows.

    Parameters:
        n: the number of rows and columns, 1 to 32, a constant.
        dtype: the scalar type; float32 by default.
    Returns:
        a matrix (n, n).
    Raises:
        not-constant: `n` is known at run time only.
        type-mismatch: `n` is below 1 or above 32, or `dtype` is no scalar type.
    Gradient:
        none: it is a constant.
    """
    scalar = scalar_of(element_type(dtype))
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeRule("", "", "NotConstant", culprit=n, what="the size of an identity matrix")
    require(n > 0, f"an identity matrix has 1 or more rows, got {n}")
    require_components(MatType(n, n, scalar))
    entries = [b.const(int(r == c), scalar) for r in range(n) for c in range(n)]
    return b.one(VecMake, entries, {"type": MatType(n, n, scalar)})


@public("transpose")
def transpose(b: OpBuilder, m: AMatrix) -> Value:
    """The transpose of a matrix.

    Parameters:
        m: a matrix (M, N); tiles have tg.tile_transpose.
    Returns:
        a matrix (N, M).
    Gradient:
        the transpose of the adjoint.
    """
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
def dot(b: OpBuilder, x: AVector, y: AVector) -> Value:
    """The inner product of two vectors, summed from the first component on.

    Parameters:
        x, y: vectors (N,) of one type but bool.
    Returns:
        a scalar of their dtype.
    Raises:
        type-mismatch: the types differ, or are of bools.
    Gradient:
        adjoint * y for `x`, adjoint * x for `y`.
    Source:
        BLAS dot.
    """
    left, right = _vector(b, x), _vector(b, y)
    require(left.type == right.type, f"dot needs two vectors of one type, got {left.type} and {right.type}")
    return b.inner(b.components_of(left), b.components_of(right))


@public("length_sq")
def length_sq(b: OpBuilder, x: AVector) -> Value:
    """The squared length of a vector: dot(x, x).

    Parameters:
        x: a vector (N,) of any dtype but bool.
    Returns:
        a scalar of its dtype.
    Raises:
        type-mismatch: `x` is of bools.
    Gradient:
        2 * adjoint * x.
    """
    return dot(b, x, x)


@public("_length")
def length(b: OpBuilder, x: Operand) -> Value:
    """The length of a vector of floats."""
    return b.one(S.Sqrt, [dot(b, x, x)])


@public("normalize")
def normalize(b: OpBuilder, x: AVector) -> Value:
    """The vector divided by its length; zeros for a vector of length 0.

    Parameters:
        x: a vector (N,) of floats.
    Returns:
        a vector of the type of `x`.
    Raises:
        type-mismatch: `x` holds no floats.
    Gradient:
        (adjoint - y * dot(y, adjoint)) / length(x) with y the result; 0 at length 0.
    """
    size = length(b, x)
    vec = _vector(b, x)
    zero = b.const(0.0, element(size.type))
    positive = b.one(S.Cmp, [size, zero], {"pred": "gt"})
    scaled = b.one(S.Div, [vec, b.one(VecSplat, [size], {"type": vec.type})])
    return b.one(S.Select, [positive, scaled, b.const(0.0, element(vec.type))])


@public("cross")
def cross(b: OpBuilder, x: AVector, y: AVector) -> Value:
    """The cross product of two vectors of three components.

    Parameters:
        x, y: vectors (3,) of one type but bool.
    Returns:
        a vector (3,) of that type.
    Raises:
        type-mismatch: an operand has not three components, or is of bools.
        mixed-scalar-types: the dtypes differ.
    Gradient:
        cross(y, adjoint) for `x`, cross(adjoint, x) for `y`.
    """
    u, v = b.components_of(_vector(b, x)), b.components_of(_vector(b, y))
    require(len(u) == len(v) == 3, "cross needs 3-vectors")
    entries = [
        b.binary("sub", b.binary("mul", u[i], v[j]), b.binary("mul", u[j], v[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return b.one(VecMake, entries, {"type": b.value(x).type})


@public("outer")
def outer(b: OpBuilder, x: AVector, y: AVector) -> Value:
    """The outer product of two vectors: entry (i, j) is x[i] * y[j].

    Parameters:
        x, y: vectors (M,) and (N,) of one dtype but bool, M * N at most 1024.
    Returns:
        a matrix (M, N).
    Raises:
        type-mismatch: the matrix would have more than 1024 entries, or the operands are of bools.
        mixed-scalar-types: the dtypes differ.
    Gradient:
        adjoint @ y for `x`, transpose(adjoint) @ x for `y`.
    Source:
        BLAS ger.
    """
    u, v = b.components_of(_vector(b, x)), b.components_of(_vector(b, y))
    scalar = scalar_of(element(b.value(x).type))
    require_components(MatType(len(u), len(v), scalar))
    entries = [b.one(REGISTRY["mul"], [p, q]) for p in u for q in v]
    return b.one(VecMake, entries, {"type": MatType(len(u), len(v), scalar)})


@public("trace")
def trace(b: OpBuilder, m: AMatrix) -> Value:
    """The sum of the diagonal of a matrix.

    Parameters:
        m: a square matrix (N, N) of any dtype but bool.
    Returns:
        a scalar of its dtype.
    Raises:
        type-mismatch: `m` is not square, or of bools.
    Gradient:
        the adjoint on the diagonal, 0 elsewhere.
    """
    t = b.value(m).type
    require(isinstance(t, MatType) and t.rows == t.cols, f"expected a square matrix, got {t}")
    assert isinstance(t, MatType)
    parts = b.components_of(m)
    total = parts[0]
    for k in range(1, t.rows):
        total = b.one(S.Add, [total, parts[k * t.cols + k]])
    return total
