"""Constructors of quaternions and transforms, in the language."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.algebra import QUATERNION, TRANSFORM, Algebra
from tegula.ir import TypeRule, Value
from tegula.ops.base import public, require
from tegula.ops.build_vector import composite
from tegula.ops.builder import OpBuilder, Operand
from tegula.types import DType, VecType, element_type, float32, is_element, scalar_of


def _construct(b: OpBuilder, algebra: Algebra, args: Sequence[Operand], dtype: Operand) -> Value:
    """An element of an algebra from its components and parts, or zeros."""
    typed = [x.type for x in args if isinstance(x, Value) and is_element(x.type)]
    scalar = _float_dtype(algebra, dtype) if dtype is not None else scalar_of(typed[0]) if typed else float32
    require(scalar.is_float, f"the components of a {algebra.name} must be floats, not {scalar}")
    return composite(b, VecType(algebra.length, scalar, algebra), args)


def _float_dtype(algebra: Algebra, dtype: Operand) -> DType:
    scalar = element_type(dtype)
    if not isinstance(scalar, DType) or not scalar.is_float:
        raise TypeRule(f"the components of a {algebra.name} must be floats, not {scalar}", culprit=dtype)
    return scalar


@public("quaternion")
def quaternion(b: OpBuilder, *args: Operand, dtype: Operand = None) -> Value:
    """A quaternion of given components, or of zeros.

    Parameters:
        *args: x, y, z and w, scalars of one dtype; or a vector (3,) of the first three, and w; or a quaternion, which
            is converted; zeros by default.
        dtype: the scalar type, one of floats; by default the dtype of the first component, float32 for zeros.
    Returns:
        a quaternion.
    Raises:
        type-mismatch: a component has another dtype or is not a float, or the number of components is not 4.
        out-of-range: a literal does not fit the dtype.
    Gradient:
        each component gets the adjoint's component.
    """
    return _construct(b, QUATERNION, args, dtype)


@public("transformation")
def transformation(b: OpBuilder, *args: Operand, dtype: Operand = None) -> Value:
    """A transform of a translation and a rotation: the first 3 and the last 4 of its 7 components.

    Parameters:
        *args: a translation, a vector (3,), and a rotation, a quaternion, the identity by default; or the 7 components;
            or one scalar for all; or a transform, which is converted; zeros by default.
        dtype: the scalar type, one of floats; by default the dtype of the first component, float32 for zeros.
    Returns:
        a transform.
    Raises:
        type-mismatch: a component has another dtype or is not a float, or the number of components is neither 3 nor 7.
        out-of-range: a literal does not fit the dtype.
    Gradient:
        each component gets the adjoint's component.
    """
    return _construct(b, TRANSFORM, args, dtype)


def _identity(b: OpBuilder, algebra: Algebra, dtype: Operand) -> Value:
    return b.of_numbers(algebra.unit, VecType(algebra.length, _float_dtype(algebra, dtype), algebra))


@public("quat_identity")
def quat_identity(b: OpBuilder, dtype: Operand = float) -> Value:
    """The identity quaternion: (0, 0, 0, 1).

    Parameters:
        dtype: the scalar type, one of floats; float32 by default.
    Returns:
        a quaternion.
    Raises:
        type-mismatch: `dtype` is not a type of floats.
    Gradient:
        none: the result is a constant.
    """
    return _identity(b, QUATERNION, dtype)


@public("transform_identity")
def transform_identity(b: OpBuilder, dtype: Operand = float) -> Value:
    """The identity transform: (0, 0, 0, 0, 0, 0, 1).

    Parameters:
        dtype: the scalar type, one of floats; float32 by default.
    Returns:
        a transform.
    Raises:
        type-mismatch: `dtype` is not a type of floats.
    Gradient:
        none: the result is a constant.
    """
    return _identity(b, TRANSFORM, dtype)
