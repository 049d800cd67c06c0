"""Vectors and matrices in the language: calls of types, construction, products."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tegula.algebra import QUATERNION
from tegula.fitting import UnfitNumber, fitted
from tegula.ir import REGISTRY, TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.base import element, public, require, require_components, require_range
from tegula.ops.buffer import BufGet
from tegula.ops.builder import (
    OpBuilder,
    Operand,
    ThreadArray,
    as_tuple,
    describe,
    float_literal,
    is_constant_array,
)
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
    algebra_of,
    components,
    element_shape,
    element_type,
    float32,
    int32,
    numpy_type,
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
    """A vector or matrix from no argument (zeros), one scalar (all components), a value of the same shape (converted),
    its components as scalars and vectors, or its rows as vectors."""
    if not args:
        return b.const(0, to)
    first, algebra = args[0], algebra_of(to)
    if len(args) == 1 and isinstance(first, Value) and isinstance(first.type, VecType | MatType):
        if components(first.type) == components(to):
            component = b.cast(first, to.dtype)
            return component if component.type == to else b.one(VecMake, [component], {"type": to})
        if not algebra.optional:
            raise TypeRule(f"cannot construct a {to} from {describe(first)}")
    if len(args) == 1 and components(to) != 1 and algebra.fills and not is_vector(first):
        return b.one(VecSplat, [_component(b, first, to.dtype)], {"type": to})
    if isinstance(to, MatType) and any(_is_row_source(x) for x in args):
        message = (
            f"the rows of a {to} are vectors of length {to.cols}, or rows of matrices with {to.cols} columns"
        )
        require(all(_is_row_source(x, to) for x in args), message)
    components_given = [*args]
    missing = components(to) - sum(components(x.type) if is_vector(x) else 1 for x in args)
    if missing and missing == algebra.optional:
        components_given += algebra.unit[-missing:]
    return b.one(VecMake, [_component_or_vector(b, x, to.dtype) for x in components_given], {"type": to})


def is_vector(x: Operand) -> bool:
    """Whether an operand is a vector."""
    return isinstance(x, Value) and isinstance(x.type, VecType)


def _is_row_source(x: Operand, matrix_type: MatType | None = None) -> bool:
    """Whether an operand is a vector or matrix; with `matrix_type`, whether it is one or more rows of such a matrix."""
    if not (isinstance(x, Value) and isinstance(x.type, VecType | MatType)):
        return False
    return matrix_type is None or (element_shape(x.type)[-1], x.type.dtype) == (
        matrix_type.cols,
        matrix_type.dtype,
    )


def _component_or_vector(b: OpBuilder, x: Operand, dtype: DType) -> Value:
    """A component, or a vector or matrix of consecutive components."""
    if not _is_row_source(x):
        return _component(b, x, dtype)
    part = b.value(x)
    if scalar_of(element(part.type)) != dtype:
        raise TypeRule(
            f"a component must be {dtype}, got {part.type}", f"cast the component: tg.{dtype}(...)"
        )
    return part


def _component(b: OpBuilder, x: Operand, dtype: DType) -> Value:
    if isinstance(x, int) and not isinstance(x, bool) and dtype.is_float:
        x = float_literal(x)
    component = b.value(x, dtype)
    if component.type != dtype:
        raise TypeRule(
            f"a component must be {dtype}, got {component.type}", f"cast the component: tg.{dtype}(...)"
        )
    return component


def is_component_type(x: Operand) -> bool:
    """Whether an operand names a scalar type."""
    return isinstance(x, DType) or any(x is t for t in (float, int, bool)) or numpy_type(x) is not None


def vector_type(length: Operand, dtype: Operand) -> VecType:
    """The type of vectors; raises TypeRule for a length that is not constant or not supported."""
    if type(length) is not int:
        raise TypeRule("", "", "NotConstant", culprit=length, what="the length of a vector")
    require_range(length > 0, f"a vector has 1 or more components, got {length}", "write tg.vector(3, float)")
    result = VecType(length, scalar_of(element_type(dtype)))
    require_components(result)
    return result


def matrix_type(shape: Operand, dtype: Operand) -> MatType:
    """The type of matrices; raises TypeRule for a shape that is not a pair of constants or not supported."""
    entries = as_tuple(shape)
    if not all(type(n) is int for n in entries):
        raise TypeRule("", "", "NotConstant", culprit=shape, what="the shape of a matrix")
    message = f"a matrix has 1 or more rows and columns, got shape {shape}"
    require_range(len(entries) == 2 and min(entries) > 0, message, "write tg.matrix((2, 3), float)")
    result = MatType(entries[0], entries[1], scalar_of(element_type(dtype)))
    require_components(result)
    return result


def _composite_of_tile(b: OpBuilder, x: Value, rank: int) -> Value:
    """A vector or matrix of all elements of a tile, or of a tile view of this thread."""
    t = x.type
    assert isinstance(t, TileType | BufType)
    scalar = scalar_of(t.dtype)
    require(t.dtype == scalar, f"the tile's elements are {t.dtype}", "read the elements one by one")
    noun = "vector" if rank == 1 else "matrix"
    require(len(t.shape) == rank, f"a {noun} takes a tile of {rank} dimensions, got shape {t.shape}")
    composite_type = VecType(t.shape[0], scalar) if rank == 1 else MatType(t.shape[0], t.shape[1], scalar)
    require_components(composite_type)
    read_op, source = (BufGet, x) if isinstance(t, BufType) else (TileExtract, b.tile(x))
    indices = [[b.const(k, int32) for k in index] for index in np.ndindex(*t.shape)]
    return b.one(VecMake, [b.one(read_op, [source, *index]) for index in indices], {"type": composite_type})


@public("table")
def table(b: OpBuilder, data: Operand, dtype: Operand = None) -> Operand:
    """A table of constants, read-only data of the kernel, that is read at run-time indices. `table[i]`, or `table[i,
    j]`, is an element; with fewer indices the subscript is a vector or matrix of the remaining dimensions. A negative
    index counts from the end; an index outside of the table selects the last element of its dimension.

    Parameters:
        data: a NumPy array of any shape, captured by the kernel, of 1 to 65,536 elements.
        dtype: the scalar type of the elements; by default the array's.
    Returns:
        the table: the NumPy array, each element rounded once.
    Raises:
        type-mismatch: `data` is not a NumPy array, or `dtype` is not a scalar type.
        out-of-range: an element does not fit `dtype`.
    Gradient:
        none: the result is a constant.
    """
    if not is_constant_array(data):
        raise TypeRule(f"a table needs a NumPy array, got {describe(data)}", culprit=data)
    if dtype is None:
        return data
    scalar = element_type(dtype)
    if not isinstance(scalar, DType):
        raise TypeRule(f"the elements of a table must be scalars, got {scalar}")
    key = id(data), scalar
    if key not in b.tables:
        try:
            b.tables[key] = data, fitted(data, to_numpy(scalar), str(scalar))
        except UnfitNumber as error:
            raise TypeRule(str(error), "", "OutOfRange", culprit=data) from None
    return b.tables[key][1]


@public("vector")
def vector(b: OpBuilder, *args: Operand, length: Operand = None, dtype: Operand = None) -> Value | VecType:
    """A vector of given components, of the elements of a tile, or of zeros; or a type of vectors.

    Parameters:
        *args: the components, scalars of one dtype and vectors of it; the entries of a matrix, row by row, with their
            number as `length`; one scalar fills all of `length`; a tile (N,) or a view, all of whose elements each
            thread reads; no argument: zeros. A length and a scalar type give the vector type, also in annotations.
        length: the number of components, 1 to 1024, a constant; by default the number of the arguments' components.
        dtype: the scalar type; by default the dtype of the first component, float32 for zeros.
    Returns:
        a vector (length,); or the type.
    Raises:
        type-mismatch: a component has another dtype, their number is not `length`, or there are more than 1024; a tile
            has another rank, or elements that are not scalars.
        not-constant: `length` is known at run time only.
        out-of-range: `length` is below 1.
    Gradient:
        each component gets the adjoint's component.
    """
    if len(args) == 2 and is_component_type(args[1]):
        return vector_type(args[0], args[1])
    if len(args) == 1 and b.is_tile(args[0]):
        return _composite_of_tile(b, args[0], 1)
    scalar = scalar_of(element_type(dtype)) if dtype is not None else None
    if length is not None and (not isinstance(length, int) or isinstance(length, bool)):
        raise TypeRule("", "", "NotConstant", culprit=length, what="the length of a vector")
    message = f"a vector has 1 or more components, got {length}"
    require_range(length is None or length > 0, message, "write tg.vector(length=3)")
    if not args:
        require(length is not None, "vector needs components or a length", "write tg.vector(length=3)")
        return b.const(0, VecType(int(length or 0), scalar or float32))
    values = [b.value(x, scalar) for x in args]
    types = [element(x.type) for x in values]
    count = sum(components(t) for t in types if not isinstance(t, MatType))
    return composite(b, VecType(length or count, scalar or scalar_of(types[0])), values)


@public("matrix", rest=("pos", "rot", "scale"))
def matrix(b: OpBuilder, *args: Operand, shape: Operand = None, dtype: Operand = float) -> Value | MatType:
    """A matrix of given entries, of row vectors, of a tile's elements, of one value, of a motion, or of zeros; or a
    type of matrices.

    Parameters:
        *args: the entries, row by row, or a vector or matrix of them; or the rows as vectors, and matrices of several
            rows; or a tile (M, N), all of whose elements each thread reads; or one scalar for all entries; or a
            translation, rotation and scale, which are composed by tg.transform_compose; no argument: zeros. A shape
            and a scalar type give the matrix type, also in annotations.
        shape: (rows, columns), constants; without it 4, 9 or 16 entries make a square matrix.
        dtype: the scalar type; float32 by default.
    Returns:
        a matrix (rows, columns) of at most 1024 entries; or the type.
    Raises:
        type-mismatch: the number of entries does not fit the shape, or an entry has another dtype.
        mixed-scalar-types: the dtypes of a translation, rotation and scale differ.
        not-constant: `shape` is known at run time only.
        out-of-range: `shape` is not a pair of positive numbers.
    Gradient:
        each entry gets the adjoint's entry.
    """
    if len(args) == 2 and is_component_type(args[1]):
        return matrix_type(args[0], args[1])
    if len(args) == 1 and b.is_tile(args[0]):
        return _composite_of_tile(b, args[0], 2)
    if len(args) == 3 and isinstance(args[1], Value) and algebra_of(args[1].type) == QUATERNION:
        return b.value(b.call("transform_compose", *args))
    if shape is None:
        n = math.isqrt(len(args))
        require(
            n > 1 and n * n == len(args),
            f"{len(args)} entries do not form a square matrix",
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
        type-mismatch: `n` is below 1 or above 32, or `dtype` is not a scalar type.
    Gradient:
        none: the result is a constant.
    """
    scalar = scalar_of(element_type(dtype))
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeRule("", "", "NotConstant", culprit=n, what="the size of an identity matrix")
    require(n > 0, f"an identity matrix has 1 or more rows, got {n}")
    require_components(MatType(n, n, scalar))
    entries = [b.const(int(r == c), scalar) for r in range(n) for c in range(n)]
    return b.one(VecMake, entries, {"type": MatType(n, n, scalar)})


@public("transpose")
def transpose(b: OpBuilder, a: AMatrix) -> Value:
    """The transpose of a matrix.

    Parameters:
        a: a matrix (M, N); tiles have tg.tile_transpose.
    Returns:
        a matrix (N, M).
    Gradient:
        the transpose of the adjoint.
    """
    t = b.value(a).type
    require(isinstance(t, MatType), f"expected a matrix, got {t}")
    assert isinstance(t, MatType)
    entries = b.components_of(a)
    swapped = [entries[r * t.cols + c] for c in range(t.cols) for r in range(t.rows)]
    return b.one(VecMake, swapped, {"type": MatType(t.cols, t.rows, t.dtype)})


def _vector(b: OpBuilder, x: Operand) -> Value:
    value = b.value(x)
    require(isinstance(value.type, VecType), f"expected a vector, got {value.type}")
    return value


@public("dot")
def dot(build: OpBuilder, a: AVector, b: AVector) -> Value:
    """The inner product of two vectors, summed from the first component on.

    Parameters:
        a, b: vectors (N,) of one type but bool.
    Returns:
        a scalar of their dtype.
    Raises:
        type-mismatch: the types differ, or are of bools.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`.
    Source:
        BLAS dot.
    """
    left, right = _vector(build, a), _vector(build, b)
    require(left.type == right.type, f"dot needs two vectors of one type, got {left.type} and {right.type}")
    return build.inner(build.components_of(left), build.components_of(right))


@public("length_sq")
def length_sq(b: OpBuilder, a: AVector) -> Value:
    """The squared length of a vector: dot(a, a).

    Parameters:
        a: a vector (N,) of any dtype but bool.
    Returns:
        a scalar of its dtype.
    Raises:
        type-mismatch: the components of `a` are bools.
    Gradient:
        2 * adjoint * a.
    """
    return dot(b, a, a)


@public("_length")
def length(b: OpBuilder, x: Operand) -> Value:
    """The length of a vector of floats."""
    return b.one(S.Sqrt, [dot(b, x, x)])


@public("normalize")
def normalize(b: OpBuilder, a: AVector) -> Value:
    """The vector divided by its length; zeros for a vector of length 0, the identity for a quaternion of zeros.

    Parameters:
        a: a vector (N,) of floats.
    Returns:
        a vector of the type of `a`.
    Raises:
        type-mismatch: the components of `a` are not floats.
    Gradient:
        (adjoint - y * dot(y, adjoint)) / length(a) with y the result; 0 at length 0.
    """
    size = length(b, a)
    vector_value = _vector(b, a)
    t, zero = element(vector_value.type), b.const(0.0, element(size.type))
    unit = algebra_of(t).unit
    positive = b.one(S.Cmp, [size, zero], {"pred": "gt"})
    scaled = b.one(S.Div, [vector_value, b.one(VecSplat, [size], {"type": vector_value.type})])
    return b.one(S.Select, [positive, scaled, b.of_numbers(unit, t) if unit else b.const(0.0, t)])


@public("cross")
def cross(build: OpBuilder, a: AVector, b: AVector) -> Value:
    """The cross product of two vectors of three components.

    Parameters:
        a, b: vectors (3,) of one type but bool.
    Returns:
        a vector (3,) of that type.
    Raises:
        type-mismatch: an operand does not have three components, or has components of bool.
        mixed-scalar-types: the dtypes differ.
    Gradient:
        cross(b, adjoint) for `a`, cross(adjoint, a) for `b`.
    """
    u, v = build.components_of(_vector(build, a)), build.components_of(_vector(build, b))
    require(len(u) == len(v) == 3, "cross needs two vectors of 3 components")
    entries = [
        build.binary("sub", build.binary("mul", u[i], v[j]), build.binary("mul", u[j], v[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return build.one(VecMake, entries, {"type": build.value(a).type})


@public("outer")
def outer(build: OpBuilder, a: AVector, b: AVector) -> Value:
    """The outer product of two vectors: entry (i, j) is a[i] * b[j].

    Parameters:
        a, b: vectors (M,) and (N,) of one dtype but bool, M * N at most 1024.
    Returns:
        a matrix (M, N).
    Raises:
        type-mismatch: the matrix would have more than 1024 entries, or the operands are of bools.
        mixed-scalar-types: the dtypes differ.
    Gradient:
        adjoint @ b for `a`, transpose(adjoint) @ a for `b`.
    Source:
        BLAS ger.
    """
    u, v = build.components_of(_vector(build, a)), build.components_of(_vector(build, b))
    scalar = scalar_of(element(build.value(a).type))
    require_components(MatType(len(u), len(v), scalar))
    entries = [build.one(REGISTRY["mul"], [p, q]) for p in u for q in v]
    return build.one(VecMake, entries, {"type": MatType(len(u), len(v), scalar)})


@public("trace")
def trace(b: OpBuilder, a: AMatrix) -> Value:
    """The sum of the diagonal of a matrix.

    Parameters:
        a: a square matrix (N, N) of any dtype but bool.
    Returns:
        a scalar of its dtype.
    Raises:
        type-mismatch: `a` is not square, or of bools.
    Gradient:
        the adjoint on the diagonal, 0 elsewhere.
    """
    t = b.value(a).type
    require(isinstance(t, MatType) and t.rows == t.cols, f"expected a square matrix, got {t}")
    assert isinstance(t, MatType)
    entries = b.components_of(a)
    total = entries[0]
    for k in range(1, t.rows):
        total = b.one(S.Add, [total, entries[k * t.cols + k]])
    return total


@public("ddot")
def ddot(build: OpBuilder, a: AMatrix, b: AMatrix) -> Value:
    """The double inner product of two matrices: the sum of the products of their entries, row by row.

    Parameters:
        a, b: matrices (M, N) of one type but bool.
    Returns:
        a scalar of their dtype.
    Raises:
        type-mismatch: the types differ, or are of bools.
    Gradient:
        adjoint * b for `a`, adjoint * a for `b`.
    """
    left, right = build.value(a), build.value(b)
    for v in (left, right):
        require(isinstance(v.type, MatType), f"expected a matrix, got {v.type}")
    require(left.type == right.type, f"ddot needs two matrices of one type, got {left.type} and {right.type}")
    return build.inner(build.components_of(left), build.components_of(right))


@public("matrix_from_rows")
def matrix_from_rows(b: OpBuilder, *rows: AVector) -> Value:
    """The matrix of given rows.

    Parameters:
        *rows: 1 or more vectors (N,) of one type.
    Returns:
        a matrix (number of rows, N) of their dtype.
    Raises:
        type-mismatch: there are no rows, or their types differ; the matrix would have more than 1024 entries.
    Gradient:
        each row gets the adjoint's row.
    """
    require(rows, "a matrix has 1 or more rows", "pass vectors")
    first, *others = row_vectors = [_vector(b, x) for x in rows]
    for x in others:
        require(
            x.type == first.type, f"the rows are {first.type} and {x.type}", "convert the rows to one type"
        )
    entries = [part for row in row_vectors for part in b.components_of(row)]
    t = MatType(len(row_vectors), len(entries) // len(row_vectors), scalar_of(element(first.type)))
    require_components(t)
    return b.one(VecMake, entries, {"type": t})


@public("matrix_from_cols")
def matrix_from_cols(b: OpBuilder, *cols: AVector) -> Value:
    """The matrix of given columns.

    Parameters:
        *cols: 1 or more vectors (M,) of one type.
    Returns:
        a matrix (M, number of columns) of their dtype.
    Raises:
        type-mismatch: there are no columns, or their types differ; the matrix would have more than 1024 entries.
    Gradient:
        each column gets the adjoint's column.
    """
    return transpose(b, matrix_from_rows(b, *cols))


@public("_require_matrix")
def require_matrix(b: OpBuilder, name: Operand, m: Operand, *sizes: Operand) -> None:
    """Raise TypeRule unless the argument of a library function is a square matrix of floats of a supported size."""
    t = b.value(m).type
    fits = isinstance(t, MatType) and t.rows == t.cols and t.rows in (sizes or (t.rows,))
    expected = " or ".join(f"{n}x{n}" for n in sizes) or "square"
    if not (fits and scalar_of(element(t)).is_float):
        raise TypeRule(f"{name} takes a {expected} matrix of floats, got {t}", culprit=m)


@public("_require_vector")
def require_vector(b: OpBuilder, name: Operand, v: Operand, *sizes: Operand) -> None:
    """Raise TypeRule unless the argument of a library function is a vector of numbers of a supported length."""
    t = b.value(v).type
    fits = isinstance(t, VecType) and not t.dtype.is_bool and t.length in (sizes or (t.length,))
    expected = f" of {' or '.join(map(str, sizes))} components" if sizes else ""
    if not fits:
        raise TypeRule(f"{name} takes a vector{expected}, got {t}", culprit=v)


@public("_all_within")
def all_within(builder: OpBuilder, a: Operand, b: Operand, tolerance: Operand) -> Operand:
    """Whether all components of two values of one type differ by at most a tolerance; false for NaN."""
    left, right = builder.unified("sub", [a, b])
    difference = builder.one(S.Abs, [builder.one(S.Sub, [left, right])])
    differences = (
        builder.components_of(difference) if isinstance(difference.type, VecType | MatType) else [difference]
    )
    limit = builder.cast(tolerance, scalar_of(element(difference.type)))
    tests = [builder.one(S.Cmp, [part, limit], {"pred": "le"}) for part in differences]
    all_hold = tests[0]
    for test in tests[1:]:
        all_hold = builder.one(S.And, [all_hold, test])
    return all_hold


@public("zeros")
def zeros(b: OpBuilder, shape: Operand, dtype: Operand = float) -> Value:
    """A per-thread array of zeros: a vector or matrix that is indexed like an array.

    An index may be known at run time only. A function that assigns elements of a parameter, which may be annotated as
    an array, changes the array that is passed. An assignment to another name, as in `b = a`, makes a copy; rows and
    slices are copies too, whose elements cannot be assigned to.

    Parameters:
        shape: one or two lengths, constants, with at most 1024 components in all.
        dtype: a scalar type, or with one length a vector type; float32 by default.
    Returns:
        a vector (N,); a matrix (M, N) for two lengths, or for one length and a vector type, with the vectors as rows.
    Raises:
        not-constant: a length is known at run time only.
        out-of-range: a length is below 1.
        type-mismatch: there are more than two lengths or more than 1024 components, or `dtype` is another type.
    Gradient:
        none: the result is a constant.
    """
    t, lengths = element_type(dtype), as_tuple(shape)
    kind = ThreadArray.OF_NUMBERS
    if isinstance(t, VecType) and algebra_of(t).is_plain and len(lengths) == 1:
        lengths, t, kind = (*lengths, t.length), t.dtype, ThreadArray.OF_VECTORS
    message = (
        f"an array of a thread has one or two dimensions of scalars, or one of vectors, got {shape} of {t}"
    )
    require(
        isinstance(t, DType) and len(lengths) in (1, 2), message, "create a tile, as in tg.tile_zeros(...)"
    )
    type = vector_type(lengths[0], t) if len(lengths) == 1 else matrix_type(tuple(lengths), t)
    array = b.const(0, type)
    b.thread_arrays[array] = kind
    return array
