"""Host vectors and matrices: small values with the same algebra as in kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, SupportsIndex

import numpy as np

from tegula.evaluation import evaluate
from tegula.fitting import fitted, listed


class CompositeType(Protocol):
    """The interface of vector and matrix types that their host values use."""

    @property
    def dtype(self) -> Any:
        """The scalar type of the components."""
        ...

    @property
    def extents(self) -> tuple[int, ...]:
        """The length of a vector, or the rows and columns of a matrix."""
        ...

    @property
    def memory_dtype(self) -> np.dtype[Any]:
        """The NumPy type of the components."""
        ...

    @property
    def short_name(self) -> str:
        """The name that begins the text of a value."""
        ...

    def of_shape(self, shape: tuple[int, ...]) -> CompositeType:
        """The type with the same scalar type and another shape."""
        ...

    def part(self, name: str) -> tuple[tuple[int, ...], CompositeType | None] | None:
        """The indices of the components that a swizzle such as `xyz` selects, and the type of the result."""
        ...


def _binary(op: str) -> Callable[[Any, Any], Any]:
    def operator(self: Composite, other: object) -> Any:
        operand = self._operand(other)
        return NotImplemented if operand is None else evaluate(op, (self, operand))

    return operator


def _reflected(op: str) -> Callable[[Any, Any], Any]:
    def operator(self: Composite, other: object) -> Any:
        operand = self._operand(other)
        return NotImplemented if operand is None else evaluate(op, (operand, self))

    return operator


def _unary(op: str) -> Callable[[Any], Any]:
    def operator(self: Composite) -> Any:
        return evaluate(op, (self,))

    return operator


class Composite:
    """A host vector or matrix.

    Components can be assigned to; operators and functions of the language return new values with the same bits as in
    kernels. In an operator, a Python or NumPy number is converted to the type of the components, and a list or array to
    a vector or matrix; UnfitNumber if the operand does not fit."""

    __slots__ = ("_data", "type")
    __array_priority__ = 1000.0
    """Makes NumPy defer operators on its numbers and arrays to this class."""

    def __init__(self, t: CompositeType, data: np.ndarray) -> None:
        """`data`: the components, in the NumPy type and shape of `t`; not copied."""
        self.type = t
        self._data = data

    @property
    def dtype(self) -> Any:
        """The scalar type of the components."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of a vector, or the rows and columns of a matrix."""
        return self._data.shape

    def numpy(self) -> np.ndarray:
        """The components as a NumPy array on the same memory."""
        return self._data

    def tolist(self) -> list[Any]:
        """The components as Python numbers, row by row."""
        return self._data.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy:
            return np.array(self._data, dtype=dtype)
        return self._data if dtype is None else self._data.astype(dtype, copy=False)

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """A component, a row, or the vector or matrix that slices select."""
        return self._wrapped(self._data[_checked_index(key)].copy())

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[_checked_index(key)] = self._numbers(value)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same shape and equal components."""
        if not isinstance(other, Composite | np.ndarray | list | tuple):
            return NotImplemented
        array = np.asarray(other)
        return array.shape == self._data.shape and bool(np.all(array == self._data))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("sub"), _reflected("sub")
    __mul__, __rmul__ = _binary("mul"), _reflected("mul")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __truediv__, __rtruediv__ = _binary("div"), _reflected("div")
    __floordiv__, __rfloordiv__ = _binary("floordiv"), _reflected("floordiv")
    __mod__, __rmod__ = _binary("mod"), _reflected("mod")
    __and__, __rand__ = _binary("and"), _reflected("and")
    __or__, __ror__ = _binary("or"), _reflected("or")
    __xor__, __rxor__ = _binary("xor"), _reflected("xor")
    __lshift__, __rlshift__ = _binary("shl"), _reflected("shl")
    __rshift__, __rrshift__ = _binary("shr"), _reflected("shr")
    __neg__, __pos__, __invert__ = _unary("neg"), _unary("pos"), _unary("not")

    def __repr__(self) -> str:
        return f"{self.type.short_name}({_components_text(self._data)})"

    def __str__(self) -> str:
        return _components_text(self._data)

    def __reduce__(self) -> tuple[Any, ...]:
        return composite, (self.type, self._data.copy())

    def _operand(self, x: object) -> Any:
        """The other operand of an operator, converted; None for a value that is not a number, vector or matrix."""
        if isinstance(x, Composite | bool | np.bool_):
            return x
        if isinstance(x, int | float | np.generic | np.ndarray | list | tuple):
            numbers = self._numbers(x)
            return self._wrapped(numbers) if numbers.ndim <= 2 else None
        return None

    def _numbers(self, x: Any) -> np.ndarray:
        numpy_dtype = self.type.memory_dtype
        return np.asarray(fitted(listed(x, numpy_dtype), numpy_dtype, str(self.dtype)))

    def _wrapped(self, data: np.ndarray) -> Any:
        """The value with the given components: a number, a vector or a matrix."""
        return data[()] if data.ndim == 0 else composite(self.type.of_shape(data.shape), data)


class Vector(Composite):
    """A vector of the host, as `tg.vec3(1.0, 2.0, 3.0)` makes it. Attributes are named parts: `v.x`, `v.xy`, or the
    translation `t.p` of a transform."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        indices, t = self._part(name)
        return self._data[indices[0]] if t is None else composite(t, self._data[list(indices)])

    def __setattr__(self, name: str, value: object) -> None:
        if name in Composite.__slots__:
            super().__setattr__(name, value)
            return
        indices, t = self._part(name)
        if len({*indices}) < len(indices):
            raise AttributeError(f"'{name}' names a component twice")
        self._data[indices[0] if t is None else list(indices)] = self._numbers(value)

    def _part(self, name: str) -> tuple[tuple[int, ...], CompositeType | None]:
        """The indices of the components of a named part, and the part's type, None for a scalar."""
        part = self.type.part(name) if name not in Composite.__slots__ else None
        if part is None:
            raise AttributeError(f"a vector of {len(self)} components has no component '{name}'")
        return part


class Matrix(Composite):
    """A matrix of the host, as `tg.mat22(1.0, 2.0, 3.0, 4.0)` makes it."""

    __slots__ = ()

    @property
    def T(self) -> Matrix:
        """The transposed matrix."""
        return evaluate("transpose", (self,))


def composite(t: CompositeType, data: np.ndarray) -> Any:
    """The vector or matrix of a type on the memory of `data`, an array of the type's shape and NumPy type."""
    return (Vector if len(t.extents) == 1 else Matrix)(t, data)


def _checked_index(key: Any) -> Any:
    """An index of a vector or matrix; TypeError for an index with another meaning in NumPy."""
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, bool) or not isinstance(part, SupportsIndex | slice):
            raise TypeError(f"indices must be integers or slices, got {type(part).__name__}")
    return key


def _components_text(data: np.ndarray) -> str:
    """The components as text, each with the fewest digits that identify the number in its type."""
    if data.ndim:
        return f"[{', '.join(map(_components_text, map(np.asarray, data)))}]"
    text = str(data[()])
    return text if data.dtype.kind in "biu" or not text.lstrip("-").isdigit() else f"{text}.0"
