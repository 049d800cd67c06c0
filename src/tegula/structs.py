"""Struct types, and their values on the host.

To the compiler a struct is the tuple of its leaves: nested structs are flattened, and no op sees a struct. An array of
structs is one array for each leaf, with the bytes of the whole struct between elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from importlib import import_module
from pickle import PicklingError
from typing import Any, TypeAlias

import numpy as np

from tegula.dataclass import dataclass
from tegula.errors import NoField, UnfitNumber, suggestion
from tegula.fitting import fitted, listed
from tegula.types import (
    Compound,
    DType,
    ElementType,
    VecType,
    components,
    element_shape,
    float64,
    int64,
    is_element,
    scalar_of,
    to_numpy,
)

FieldType: TypeAlias = Any
"""The type of a field: an element type, a StructType, or the annotation of an array or indexed array, which has `dtype`
and `ndim`."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A non-struct field of a struct or of a nested struct: the path of names, and the type."""

    path: tuple[str, ...]
    type: FieldType

    @property
    def name(self) -> str:
        """The names, joined by dots."""
        return ".".join(self.path)

    @property
    def stored(self) -> ElementType:
        """The element type in arrays and tiles; for an array field, the type of its descriptor."""
        if is_element(self.type):
            return self.type
        return VecType(_in_numpy(self.type)[0].itemsize // 8, int64)

    def component_view(self, data: np.ndarray) -> np.ndarray:
        """The leaf in structured NumPy data, with its components as the last dimensions."""
        for name in self.path:
            data = data[name]
        if is_element(self.type):
            return data
        numbers = data["data"].view(np.int64)
        shape, strides = (*numbers.shape, *element_shape(self.stored)), (*numbers.strides, numbers.itemsize)
        return np.lib.stride_tricks.as_strided(numbers, shape, strides)


class StructType(Compound):
    """A struct, created from a class by `@tg.struct`. A call creates a value: of zeros without arguments, else from the
    values of all fields, in order or all by name.

    Parameters:
        name: the name of the class.
        fields: the types of the fields by name, in order.
        module: the module that defines the class.
        qualname: the qualified name of the class in its module; `name` by default.
        doc: the docstring of the class.
        advance: for a query of the library, the name of the library function that finds the next result of a loop; ""
            for other structs.
        spans: for a query that finds ranges of results, the names of the functions that find the next range, `item` to
            `end`, and that return a result of the range; "" for other structs.
        tested: whether the second of these functions tests a result, and returns a negative number for none; loops over
            ranges are then for CPUs only.
        general: a struct with the same fields, to which values of several such structs are converted where control flow
            joins, and as arguments of functions with parameters of that type.
    Raises:
        TypeError: a field has the name of an attribute of all values, such as `assign`.
    """

    def __init__(
        self,
        name: str,
        fields: Mapping[str, FieldType],
        module: str = "",
        qualname: str = "",
        doc: str | None = None,
        advance: str = "",
        spans: tuple[str, str] = ("", ""),
        tested: bool = False,
        general: StructType | None = None,
    ) -> None:
        self.name = self.__name__ = name
        self.advance, self.spans, self.tested, self.general = advance, spans, tested, general
        self.__qualname__ = qualname or name
        self.__module__ = module
        self.__doc__ = doc
        self.fields = dict(fields)
        conflicting = [field for field in self.fields if hasattr(Struct, field)]
        if conflicting:
            raise TypeError(
                f"a field of the struct {name} cannot have the name '{conflicting[0]}', an attribute of every struct"
            )
        self.cls = type(name, (Struct,), {"__module__": module, "__slots__": (), "type": self})

    def __call__(self, *args: Any, **kwargs: Any) -> Struct:
        instance = self.cls()
        for name, value in self.bound_fields(args, kwargs).items():
            setattr(instance, name, value)
        return instance

    def __copy__(self) -> StructType:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> StructType:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the name; PicklingError if the module does not bind it to this struct."""
        identity = self.__module__, self.__qualname__
        try:
            struct_type = _struct_type_of(*identity)
        except (AttributeError, ImportError):
            struct_type = None
        if struct_type is not self:
            raise PicklingError(
                f"the struct '{self.name}' cannot be pickled: module {self.__module__} has another object, or none, "
                "under that name; define the struct at the top level of a module"
            )
        return _struct_type_of, identity

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        raise RuntimeError(
            f"a class cannot be derived from the struct {self.name}: structs must be defined as base classes"
        )

    def __instancecheck__(self, x: object) -> bool:
        return type(x) is self.cls

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<struct {self.name}>"

    @property
    def vars(self) -> dict[str, FieldType]:
        """The types of the fields by name, in order."""
        return dict(self.fields)

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The non-struct fields of this struct and of nested structs, in order."""
        return tuple(_leaves(self, ()))

    @property
    def is_float(self) -> bool:
        """Whether the struct has floats, so that an array of this type may have a gradient."""
        return any(is_element(leaf.type) and scalar_of(leaf.type).is_float for leaf in self.leaves)

    @property
    def bits(self) -> int:
        """The width in memory, in bits."""
        return 8 * self.numpy_dtype().itemsize

    def numpy_dtype(self) -> np.dtype[Any]:
        """The layout in memory, which is the layout of C, as a structured type of NumPy.

        Returns:
            a dtype with an entry for each field: n numbers for a vector of n, (rows, columns) numbers for a matrix; for
            an array the addresses of the data and of the gradient, lengths, strides and number of dimensions; for an
            indexed array the same of its data, and the addresses of its indices.
        Raises:
            nothing.
        """
        return self._layout

    def values(self, data: np.ndarray) -> list[Any]:
        """Structured NumPy data as nested lists of values of the struct.

        Parameters:
            data: an array of the type that numpy_dtype() gives.
        Returns:
            lists of the shape of the data.
        Raises:
            TypeError: the struct holds arrays, of which the data have only addresses.
        """
        unstructured = next((leaf.name for leaf in self.leaves if not is_element(leaf.type)), None)
        if unstructured is not None:
            raise TypeError(
                f"elements of the struct {self} cannot become values, because '{unstructured}' is an array: "
                "numpy() has its address and lengths"
            )
        return [self.values(x) if data.ndim > 1 else self._value(x) for x in data]

    def _value(self, entry: Any) -> Struct:
        value = self()
        for name, t in self.fields.items():
            setattr(value, name, t._value(entry[name]) if isinstance(t, StructType) else entry[name].tolist())
        return value

    @cached_property
    def _layout(self) -> np.dtype[Any]:
        return np.dtype([(name, *_in_numpy(t)) for name, t in self.fields.items()], align=True)

    def require(self, name: str) -> None:
        """Raise NoField unless the struct has a field with the given name."""
        if name not in self.fields:
            raise NoField(f"the struct {self.name} has no field '{name}'", suggestion(name, self.fields))

    def bound_fields(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by field, none or all fields; NoField for any other call."""
        unknown = [name for name in kwargs if name not in self.fields]
        fits = len(args) <= len(self.fields) and not unknown and not (args and kwargs)
        by_name = dict(zip(self.fields, args, strict=False)) | dict(kwargs)
        if fits and (not by_name or len(by_name) == len(self.fields)):
            return by_name
        argument_count, field_count = len(args) + len(kwargs), len(self.fields)
        fields_text = f"{field_count} field{'s'[: field_count != 1]}"
        arguments_text = f"{argument_count} argument{'s'[: argument_count != 1]}"
        raise NoField(
            f"{self} has no field '{unknown[0]}'"
            if unknown
            else f"{self} has {fields_text}, got {arguments_text}",
            f"pass no fields or all fields: {self}({', '.join(self.fields)}), in order or all by name",
        )


def _struct_type_of(module: str, name: str) -> Any:
    """The object of a module with a qualified name."""
    return reduce(getattr, name.split("."), import_module(module))


def _leaves(struct: StructType, path: tuple[str, ...]) -> Iterator[Leaf]:
    for name, t in struct.fields.items():
        if isinstance(t, StructType):
            yield from _leaves(t, (*path, name))
        else:
            yield Leaf((*path, name), t)


def _in_numpy(t: FieldType) -> tuple[Any, ...]:
    """The type and shape of a field in a structured NumPy type."""
    if isinstance(t, StructType):
        return (t.numpy_dtype(),)
    if is_element(t):
        return (to_numpy(scalar_of(t)), element_shape(t))
    lengths = (np.int64, (t.ndim,))
    address = np.uint64
    fields = [
        ("data", address),
        ("grad", address),
        ("shape", *lengths),
        ("strides", *lengths),
        ("ndim", np.int64),
    ]
    fields += [("indices", address, (t.ndim,))] if _is_indexed(t) else []
    return (np.dtype(fields, align=True),)


def _is_indexed(x: Any) -> bool:
    """Whether a field type, or a value, is an indexed array."""
    return getattr(x, "is_indexed", False)


class Struct:
    """A value of a struct type on the host."""

    __slots__ = ("_fields",)
    type: StructType

    def __init__(self) -> None:
        object.__setattr__(self, "_fields", {name: _zero(t) for name, t in self.type.fields.items()})

    def __getattr__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "_fields")
        if name in fields:
            return fields[name]
        raise AttributeError(
            f"the struct {self.type.name} has no field '{name}': {suggestion(name, self.type.fields)}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        self.type.require(name)
        self._fields[name] = converted(self.type.fields[name], value, name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.type.fields]

    def __copy__(self) -> Struct:
        return self.type().assign(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_struct, (self.type, self._fields)

    def __str__(self) -> str:
        return f"{self.type.name}({', '.join(f'{name}={x}' for name, x in self._fields.items())})"

    def __repr__(self) -> str:
        return f"{self.type.name}({', '.join(f'{name}={x!r}' for name, x in self._fields.items())})"

    def assign(self, value: Struct) -> Struct:
        """Copies the fields of another value of the struct; arrays are shared.

        Parameters:
            value: the other value.
        Returns:
            the value itself.
        Raises:
            RuntimeError: `value` is of another type.
        """
        if not isinstance(value, Struct) or value.type is not self.type:
            actual = value.type.name if isinstance(value, Struct) else type(value).__name__
            # Memory of a spatial structure may change: structs hold ids.
            help = (
                "annotate the field with tg.uint64 and assign the id" if hasattr(value, "in_kernels") else ""
            )
            raise NoField(f"a {self.type.name} cannot be assigned a value of type {actual}", help)
        for name in self.type.fields:
            setattr(self, name, getattr(value, name))
        return self

    def to(self, device: Any) -> Struct:
        """A copy of the value with all arrays on a device: arrays on the device are shared, other arrays are copied.

        Parameters:
            device: the device, or its name.
        Returns:
            a new value.
        Raises:
            launch: there is no such device.
        Gradient:
            flows through the copies where a tape records.
        """
        value = self.type()
        for name, t in self.type.fields.items():
            x = getattr(self, name)
            setattr(value, name, x if is_element(t) or x is None else x.to(device))
        return value

    def numpy_value(self) -> tuple[Any, ...]:
        """The value as an entry of a structured array of NumPy.

        Returns:
            a tuple of the fields: numbers, lists of them, and tuples for structs and arrays.
        Raises:
            nothing.
        """
        return tuple(_as_entry(t, getattr(self, name)) for name, t in self.type.fields.items())

    def leaf(self, leaf: Leaf) -> Any:
        """The value of a leaf, with numbers as Python numbers.

        Parameters:
            leaf: a leaf of its type.
        Returns:
            a number, a vector or matrix, an array or None.
        Raises:
            nothing.
        """
        value: Any = self
        for name in leaf.path:
            value = getattr(value, name)
        return _python_number(leaf.type, value) if isinstance(leaf.type, DType) else value


def _restore_struct(struct: StructType, fields: dict[str, Any]) -> Struct:
    result = struct()
    for name, x in fields.items():
        setattr(result, name, x)
    return result


def _zero(t: FieldType) -> Any:
    """The initial value of a field."""
    if isinstance(t, DType):
        return _python_number(t, 0)
    return t() if is_element(t) or isinstance(t, StructType) else None


def _python_number(t: DType, x: Any) -> bool | int | float:
    return float(x) if t.is_float else bool(x) if t.is_bool else int(x)


def _is_exact(t: DType, value: Any) -> bool:
    """Whether a value is a plain number that the type represents."""
    if t.kind == "i":
        return type(value) is int and -1 << (t.bits - 1) <= value < 1 << (t.bits - 1)
    if t.kind == "u":
        return type(value) is int and 0 <= value < 1 << t.bits
    return type(value) is float and t is float64


def converted(t: FieldType, value: Any, name: str) -> Any:
    """The value of a field after an assignment; TypeError or UnfitNumber for a value that does not fit."""
    if isinstance(t, DType) and _is_exact(t, value):
        return value
    if value is None:
        return _zero(t)
    if isinstance(t, StructType):
        return t().assign(value)
    if not is_element(t):
        return _array(t, value, name)
    scalar = scalar_of(t)
    data = fitted(listed(value, to_numpy(scalar)), to_numpy(scalar), scalar.name)
    if isinstance(t, DType):
        if data.shape != ():
            raise TypeError(f"the field '{name}' holds a {t}, got a value of shape {data.shape}")
        return data[()] if isinstance(value, np.generic) else _python_number(t, data)
    if data.shape == ():
        raise TypeError(f"Struct field '{name}' expects {t} but got a single value")
    if data.shape not in (element_shape(t), (components(t),)):
        raise TypeError(f"the field '{name}' holds a {t}, got a value of shape {data.shape}")
    return t(*data.ravel())


def _array(expected: Any, value: Any, name: str) -> Any:
    """An array as the value of a field; TypeError for other values."""
    dtype, ndim = getattr(value, "dtype", None), getattr(value, "ndim", None)
    if dtype is None or ndim is None or _is_indexed(value) != _is_indexed(expected):
        kind = "an indexed array" if _is_indexed(expected) else "an array"
        raise TypeError(f"Struct field '{name}' expects {kind}, got {type(value).__name__}")
    if (
        (is_element(dtype) or isinstance(dtype, StructType))
        and is_type(expected.dtype)
        and dtype != expected.dtype
    ):
        raise TypeError(f"Struct field '{name}' expects dtype {expected.dtype}, got {dtype}")
    if ndim != expected.ndim and is_type(dtype):
        raise TypeError(
            f"Struct field '{name}' expects an array with {expected.ndim} dimension(s), got {ndim} dimension(s)"
        )
    return value


def is_type(x: object) -> bool:
    """Whether a value is an element type of arrays."""
    return is_element(x) or isinstance(x, StructType)


def _as_entry(t: FieldType, x: Any) -> Any:
    if isinstance(t, StructType):
        return x.numpy_value()
    if isinstance(t, DType):
        return x
    if is_element(t):
        return np.asarray(x).reshape(element_shape(t)).tolist()
    zeros = (0,) * t.ndim
    if x is None:
        return (0, 0, zeros, zeros, 0, zeros) if _is_indexed(t) else (0, 0, zeros, zeros, 0)
    data = x.data if _is_indexed(x) else x
    grad = getattr(data, "grad", None)
    entry = (data.ptr, 0 if grad is None else grad.ptr, data.shape, data.strides, data.ndim)
    return (*entry, tuple(index.ptr for index in x.parts[1:])) if _is_indexed(t) else entry


def entries(struct: StructType, value: Any) -> np.ndarray:
    """The fill value of an array of structs: a value of the struct, structured NumPy data, or 0."""
    array = as_structured(struct, value)
    if array is not None:
        return array
    if isinstance(value, int | float) and value == 0:
        return np.zeros((), struct.numpy_dtype())
    return relayout(np.asarray(value), struct.numpy_dtype())


def relayout(data: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Structured NumPy data in another layout of the same fields; UnfitNumber for other data."""
    if data.dtype == dtype:
        return data
    if data.dtype.names != dtype.names:
        raise UnfitNumber(
            f"expected values of a struct with the fields {', '.join(dtype.names or ())}, got data of NumPy's type "
            f"{data.dtype}",
            "make a list of values, or a structured array with the dtype that S.numpy_dtype() gives",
        )
    return data.astype(dtype)


def as_structured(struct: StructType, data: Any) -> np.ndarray | None:
    """Values of a struct, in lists or alone, as a structured array of NumPy; None for other data."""
    objects = np.empty((), object)
    objects[()] = data
    if isinstance(data, list | tuple):
        objects = _objects(data)
        if objects is None:
            return None
    if not all(isinstance(x, Struct) and x.type is struct for x in objects.ravel()):
        return None
    structured = np.zeros(objects.shape, struct.numpy_dtype())
    for index in np.ndindex(*objects.shape):
        value: Any = objects[index]
        structured[index] = value.numpy_value()
    return structured


def contained_arrays(struct: StructType, data: Any) -> list[Any]:
    """The arrays in values of a struct, alone or in lists."""
    if isinstance(data, list | tuple):
        return [x for part in data for x in contained_arrays(struct, part)]
    if not isinstance(data, Struct):
        return []
    return [data.leaf(leaf) for leaf in struct.leaves if not is_element(leaf.type)]


def _objects(data: Any) -> np.ndarray | None:
    """Nested lists, with equal lengths at each depth, as an array of objects; None for ragged lists."""
    shape: list[int] = []
    level: list[Any] = [data]
    while level and all(isinstance(x, list | tuple) for x in level):
        if len({len(x) for x in level}) != 1:
            return None
        shape.append(len(level[0]))
        level = [x for part in level for x in part]
    objects = np.empty(len(level), object)
    objects[:] = level
    return objects.reshape(shape)
