"""Quaternions, transforms and matrices from their parts, in the language."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.algebra import QUATERNION, TRANSFORM, Algebra
from tegula.ir import TypeRule, Value
from tegula.ops.base import element, public, require, require_components
from tegula.ops.build_vector import composite
from tegula.ops.builder import OpBuilder, Operand, describe
from tegula.ops.vector import VecMake
from tegula.types import DType, MatType, VecType, element_type, float32, is_element, scalar_of


def _of(b: OpBuilder, algebra: Algebra, args: Sequence[Operand], dtype: Operand) -> Value:
    """An element of an algebra from its components and parts, or zeros."""
    typed = [x.type for x in args if isinstance(x, Value) and is_element(x.type)]
    scalar = _floats(algebra, dtype) if dtype is not None else scalar_of(typed[0]) if typed else float32
    require(scalar.is_float, f"a {algebra.name} has floats as components, not {scalar}")
    return composite(b, VecType(algebra.length, scalar, algebra), args)


def _floats(algebra: Algebra, dtype: Operand) -> DType:
    scalar = element_type(dtype)
    if not isinstance(scalar, DType) or not scalar.is_float:
        raise TypeRule(f"a {algebra.name} has floats as components, not {scalar}", culprit=dtype)
    return scalar


@public("quaternion")
def quaternion(b: OpBuilder, *args: Operand, dtype: Operand = None) -> Value:
    """A quaternion of given components, or of zeros.

    Parameters:
        *args: x, y, z and w, scalars of one dtype; or a vector (3,) of the first three, and w; or a quaternion, which
            is converted; none: zeros.
        dtype: the scalar type, one of floats; by default that of the first component, float32 for zeros.
    Returns:
        a quaternion.
    Raises:
        type-mismatch: a component has another dtype, is no float, or there are not 4 of them.
        out-of-range: a literal does not fit the dtype.
    Gradient:
        that of each component is the adjoint's component.
    """
    return _of(b, QUATERNION, args, dtype)


@public("transformation")
def transformation(b: OpBuilder, *args: Operand, dtype: Operand = None) -> Value:
    """A transform of a translation and a rotation, which come first and last in its 7 components.

    Parameters:
        *args: a translation, a vector (3,), and a rotation, a quaternion, the identity by default; or the 7 components;
            or one scalar for all; or a transform, which is converted; none: zeros.
        dtype: the scalar type, one of floats; by default that of the first component, float32 for zeros.
    Returns:
        a transform.
    Raises:
        type-mismatch: a component has another dtype, is no float, or there are not 3 or 7 of them.
        out-of-range: a literal does not fit the dtype.
    Gradient:
        that of each component is the adjoint's component.
    """
    return _of(b, TRANSFORM, args, dtype)


def _unit(b: OpBuilder, algebra: Algebra, dtype: Operand) -> Value:
    return b.of_numbers(algebra.unit, VecType(algebra.length, _floats(algebra, dtype), algebra))


@public("quat_identity")
def quat_identity(b: OpBuilder, dtype: Operand = float) -> Value:
    """The quaternion of no rotation: (0, 0, 0, 1).

    Parameters:
        dtype: the scalar type, one of floats; float32 by default.
    Returns:
        a quaternion.
    Raises:
        type-mismatch: `dtype` is no type of floats.
    Gradient:
        none: it is a constant.
    """
    return _unit(b, QUATERNION, dtype)


@public("transform_identity")
def transform_identity(b: OpBuilder, dtype: Operand = float) -> Value:
    """The transform that moves nothing: (0, 0, 0, 0, 0, 0, 1).

    Parameters:
        dtype: the scalar type, one of floats; float32 by default.
    Returns:
        a transform.
    Raises:
        type-mismatch: `dtype` is no type of floats.
    Gradient:
        none: it is a constant.
    """
    return _unit(b, TRANSFORM, dtype)


def _rows(b: OpBuilder, vectors: Sequence[Operand]) -> tuple[list[list[Value]], DType]:
    """The components of vectors of one type."""
    made = [b.value(x) for x in vectors]
    require(bool(made), "a matrix takes one vector or more")
    first = made[0].type
    for x in made:
        require(isinstance(x.type, VecType), f"expected a vector, got {describe(x)}")
        require(x.type == first, f"the vectors have one type, got {first} and {x.type}")
    return [b.components_of(x) for x in made], scalar_of(element(first))


@public("matrix_from_rows")
def matrix_from_rows(b: OpBuilder, *rows: Operand) -> Value:
    """A matrix whose rows are given vectors.

    Parameters:
        *rows: M vectors (N,) of one type, M * N at most 1024.
    Returns:
        a matrix (M, N).
    Raises:
        type-mismatch: an argument is no vector, the types differ, or there are more than 1024 entries.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        that of each row is the adjoint's row.
    """
    parts, scalar = _rows(b, rows)
    made = MatType(len(parts), len(parts[0]), scalar)
    require_components(made)
    return b.one(VecMake, [x for row in parts for x in row], {"type": made})


@public("matrix_from_cols")
def matrix_from_cols(b: OpBuilder, *columns: Operand) -> Value:
    """A matrix whose columns are given vectors.

    Parameters:
        *columns: N vectors (M,) of one type, M * N at most 1024.
    Returns:
        a matrix (M, N).
    Raises:
        type-mismatch: an argument is no vector, the types differ, or there are more than 1024 entries.
        out-of-range: a literal does not fit its dtype.
    Gradient:
        that of each column is the adjoint's column.
    """
    parts, scalar = _rows(b, columns)
    made = MatType(len(parts[0]), len(parts), scalar)
    require_components(made)
    return b.one(VecMake, [x for row in zip(*parts, strict=True) for x in row], {"type": made})
