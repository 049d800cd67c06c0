"""Arithmetic of arrays on the host, by kernels that run on the arrays' device and that tapes record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.errors import LaunchError
from tegula.fitting import fitted, listed
from tegula.lang.annotations import CLASSES
from tegula.runtime.device import CPU
from tegula.types import DType, ElementType, element_shape, scalar_of, to_numpy, with_scalar

if TYPE_CHECKING:
    from tegula.runtime.array import array
    from tegula.runtime.elementwise import Expression


class Arithmetic:
    """Operators of arrays. Elements are combined with the semantics of kernels and NumPy's broadcasting. Numbers are
    converted to the array's scalar type. The result is on the array's device, and no operator waits for a GPU. A result
    has a gradient if an operand has one, and tapes record the launches."""

    __slots__ = ()
    __array_priority__ = 1000
    """NumPy arrays delegate operators with a Tegula array to this class."""

    def __add__(self, other: Any) -> Any:
        return binary("add", "{0} + {1}", self, other)

    def __radd__(self, other: Any) -> Any:
        return binary("add", "{1} + {0}", self, other)

    def __iadd__(self, other: Any) -> Any:
        return in_place("add", "{0} + {1}", self, other)

    def __sub__(self, other: Any) -> Any:
        return binary("sub", "{0} - {1}", self, other)

    def __rsub__(self, other: Any) -> Any:
        return binary("sub", "{1} - {0}", self, other)

    def __isub__(self, other: Any) -> Any:
        return in_place("sub", "{0} - {1}", self, other)

    def __mul__(self, other: Any) -> Any:
        return binary("mul", "{0} * {1}", self, other)

    def __rmul__(self, other: Any) -> Any:
        return binary("mul", "{1} * {0}", self, other)

    def __imul__(self, other: Any) -> Any:
        return in_place("mul", "{0} * {1}", self, other)

    def __truediv__(self, other: Any) -> Any:
        return binary("div", "{0} / {1}", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return binary("div", "{1} / {0}", self, other)

    def __itruediv__(self, other: Any) -> Any:
        return in_place("div", "{0} / {1}", self, other)

    def __floordiv__(self, other: Any) -> Any:
        return binary("floordiv", "{0} // {1}", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return binary("floordiv", "{1} // {0}", self, other)

    def __ifloordiv__(self, other: Any) -> Any:
        return in_place("floordiv", "{0} // {1}", self, other)

    def __mod__(self, other: Any) -> Any:
        return binary("mod", "{0} % {1}", self, other)

    def __rmod__(self, other: Any) -> Any:
        return binary("mod", "{1} % {0}", self, other)

    def __imod__(self, other: Any) -> Any:
        return in_place("mod", "{0} % {1}", self, other)

    def __pow__(self, other: Any) -> Any:
        return binary("pow", "{0} ** {1}", self, other)

    def __rpow__(self, other: Any) -> Any:
        return binary("pow", "{1} ** {0}", self, other)

    def __ipow__(self, other: Any) -> Any:
        return in_place("pow", "{0} ** {1}", self, other)

    def __matmul__(self, other: Any) -> Any:
        from tegula.runtime.array_matmul import matmul

        right = operand(self, other)
        return NotImplemented if right is NotImplemented else matmul(self, right)

    def __rmatmul__(self, other: Any) -> Any:
        from tegula.runtime.array_matmul import matmul

        left = operand(self, other)
        return NotImplemented if left is NotImplemented else matmul(left, self)

    def __neg__(self) -> Any:
        return unary("neg", "-{0}", self)

    def __pos__(self) -> Any:
        return unary("pos", "{0}", self)

    def __abs__(self) -> Any:
        return unary("abs", "tg.abs({0})", self)


def unary(name: str, text: str, a: Any) -> array:
    """A new array of an expression of each element."""
    from tegula.runtime.elementwise import apply

    return apply(_expression(name, text), [a], [a.dtype])[0]


def binary(name: str, text: str, a: Any, other: Any) -> Any:
    """A new array of an expression of the elements of an array and of another operand; NotImplemented if the operand is
    not a number or an array."""
    from tegula.runtime.elementwise import apply

    right = operand(a, other)
    if right is NotImplemented:
        return right
    return apply(_expression(name, text), [a, right], [a.dtype, type_of(right, a)])[0]


def in_place(name: str, text: str, a: Any, other: Any) -> Any:
    """The array itself, after its elements were set to an expression of the operands."""
    from tegula.runtime.elementwise import apply

    right = operand(a, other)
    if right is NotImplemented:
        return right
    if _overlaps(a, right):
        right = unary("pos", "{0}", right)
    return apply(_expression(name, text), [a, right], [a.dtype, type_of(right, a)], [a])[0]


def converted(a: Any, dtype: ElementType) -> array:
    """A copy with another element type."""
    from tegula.runtime.elementwise import Expression, apply

    element = with_scalar(a.dtype, dtype) if isinstance(dtype, DType) else dtype
    if element_shape(element) != element_shape(a.dtype):
        raise ValueError(f"elements of type {a.dtype} cannot become {element}")
    if element == a.dtype:
        return a.copy()
    return apply(Expression("astype", "dtype({0})", (("dtype", element),)), [a], [a.dtype])[0]


def _expression(name: str, text: str) -> Expression:
    from tegula.runtime.elementwise import Expression

    return Expression(name, text)


# Operands -------------------------------------------------------------------------------------------------------------


def operand(a: Any, other: Any) -> Any:
    """The second operand of an operator: an array of the same scalar type as `a`, or a value of this type;
    NotImplemented for an object that is not an operand."""
    if _is_array(other):
        return _checked(a, other)
    if isinstance(other, str | bytes | dict | set) or other is None:
        return NotImplemented
    scalar = scalar_of(a.dtype)
    if isinstance(other, bool | int | float | np.generic) and np.ndim(other) == 0:
        number = fitted(listed(other, to_numpy(scalar)), to_numpy(scalar), scalar.name, _help(a, other))
        return number.item() if scalar.bits > 8 or not scalar.is_float else float(number)
    element_dims = element_shape(a.dtype)
    try:
        if element_dims and np.shape(other) == element_dims and not hasattr(other, "__dlpack__"):
            return a.dtype(*np.ravel(other))
        if element_dims and isinstance(other, np.ndarray) and other.shape == element_dims:
            return a.dtype(*other.ravel())
    except ValueError:  # lists of different lengths
        return NotImplemented
    array = CLASSES["array"]
    if isinstance(other, list | tuple):
        return array(other, dtype=a.dtype, device=a.device)
    if any(
        hasattr(other, protocol)
        for protocol in ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
    ):
        dtype = a.dtype if element_dims else None
        right = array(other, copy=False)
        if dtype is not None and right.shape[-len(element_dims) :] == element_dims and right.dtype == scalar:
            right = array(other, dtype=dtype, copy=False)
        return _checked(
            a, right if right.device == a.device or right.device is not CPU else right.to(a.device)
        )
    return NotImplemented


def _is_array(x: Any) -> bool:
    """Whether an operand is read element by element."""
    return isinstance(x, Arithmetic)


def type_of(x: Any, a: Any) -> ElementType:
    """The element type of an operand: a number has the scalar type of the array that it is combined with."""
    if _is_array(x):
        return x.dtype
    return a.dtype if np.ndim(x) or hasattr(x, "__len__") else scalar_of(a.dtype)


def _checked(a: Any, other: Any) -> Any:
    if scalar_of(a.dtype) != scalar_of(other.dtype):
        raise LaunchError(
            f"arrays of {a.dtype} and {other.dtype} cannot be combined",
            "convert one of the arrays: a.astype(tg.float32)",
        )
    return other


def _help(a: Any, other: Any) -> str:
    dtype = "float" if isinstance(other, float | np.floating) else "tg.int64"
    return f"convert the array: a.astype({dtype})"


def _overlaps(a: Any, other: Any) -> bool:
    """Whether an operand overlaps an array that will be written, with another layout."""
    if not _is_array(other) or a is other:
        return False
    target, source = (getattr(x, "data", x) for x in (a, other))
    if target.device != source.device or not (target.low < source.high and source.low < target.high):
        return False
    same_elements = target.ptr == source.ptr and target.description is source.description
    return not (a is target and other is source and same_elements and target.dtype == source.dtype)
