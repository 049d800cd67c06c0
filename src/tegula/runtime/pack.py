"""The checks of the arguments of a launch, and their packing."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from tegula.composite import Composite
from tegula.errors import LaunchError, RunError, UnfitNumber
from tegula.fitting import fitted, listed, shown
from tegula.lang.annotations import ANY, ArrayAnnotation
from tegula.lang.definition import Parameter
from tegula.runtime.array import adopt, array
from tegula.runtime.description import launch_id
from tegula.runtime.structures import Structure
from tegula.types import (
    ArrayType,
    DType,
    MatType,
    VecType,
    bool_,
    components,
    element_bytes,
    element_shape,
    float32,
    from_numpy,
    int32,
    int64,
    scalar_of,
    to_numpy,
)

FORMATS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H",
            "uint32": "I", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d"}  # fmt: skip

NO_REPORT = bytes(8)
"""The last bytes of the packed arguments of a kernel without report sites: a null address of the report buffer."""
ARRAY_HELP = (
    "pass a tg.array, or an array of booleans, integers or floats in native byte order with 1 to 4 dimensions"
)

MAX_VALUE = 16
"""The maximum size of NumPy arrays that are vectors or matrices for parameters without an annotation."""

Packed = tuple[int, bytes]
"""The launch id of an argument's specialisation, and the argument's bytes."""
Packer = Callable[[Any], Packed]


def packer(p: Parameter) -> Packer:
    """The function that checks and packs arguments of a parameter. The function raises LaunchError for an argument that
    does not fit."""
    annotation = p.annotation
    if isinstance(annotation, ArrayAnnotation):
        return _array_packer(p, annotation)
    if isinstance(annotation, DType):
        return _scalar_packer(p, annotation)
    if isinstance(annotation, VecType | MatType):
        return lambda value: _pack_composite(p, annotation, value)
    return lambda value: _pack_any(p, value)


def _array_packer(p: Parameter, annotation: ArrayAnnotation) -> Packer:
    """The packer of an array parameter, which caches the specialisations that match the annotation."""
    matching: set[int] = set()

    def pack(value: Any) -> Packed:
        if type(value) is not array:
            value = _adopt(p, value)
        if value.launch_id not in matching:
            actual = ArrayType(value.dtype, value.ndim)
            if not annotation.matches(actual):
                raise LaunchError(
                    f"argument '{p.name}': expected {annotation}, got {actual}",
                    _array_help(annotation, actual),
                )
            matching.add(value.launch_id)
        return value.launch_id, value.packed

    return pack


def adopt_argument(p: Parameter, value: Any) -> Any:
    """A `tg.array` on the memory of an argument that is another library's array; other arguments unchanged."""
    if type(value) is array or not (isinstance(p.annotation, ArrayAnnotation) or _is_array(p, value)):
        return value
    return _adopt(p, value)


def _is_array(p: Parameter, value: Any) -> bool:
    """Whether an argument of a parameter without annotation must be an array."""
    if p.annotation is not ANY or isinstance(value, np.generic):
        return False
    if isinstance(value, np.ndarray):
        return value.size > MAX_VALUE
    return hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__")


def _adopt(p: Parameter, value: Any) -> array:
    """A `tg.array` on the memory of another library's array, without a copy; LaunchError if there is none."""
    if any(
        hasattr(value, name) for name in ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
    ):
        dtype = p.annotation.dtype if isinstance(p.annotation, ArrayAnnotation) else None
        composite = dtype if isinstance(dtype, VecType | MatType) else None
        try:
            result = adopt(value, composite)
        except (LaunchError, RunError):
            raise
        except (TypeError, ValueError, BufferError, RuntimeError) as error:
            message = f"argument '{p.name}': this {type(value).__name__} cannot be passed: {error}"
            raise LaunchError(message, ARRAY_HELP) from error
        # The kernel's writes to a copy would be lost.
        on_host = result.device.is_cpu and composite is not None and result.size
        if on_host and not np.may_share_memory(result.numpy(), np.asarray(value)):
            message = (
                f"argument '{p.name}': expected elements of type {composite}, got numbers of another type"
            )
            raise LaunchError(message, f"convert the array: tg.array(..., dtype=tg.{composite})")
        return result
    message = f"argument '{p.name}': expected an array, got {type(value).__name__}"
    raise LaunchError(
        message, "create an array with tg.array(...), or pass a NumPy array or an object with __dlpack__"
    )


def _array_help(annotation: ArrayAnnotation, actual: ArrayType) -> str:
    if annotation.ndim == actual.ndim and annotation.dtype is not None:
        return f"create the array with dtype={annotation.dtype}, or annotate the parameter with {actual}"
    return f"pass an array with ndim {annotation.ndim}, or annotate the parameter with {actual}"


def _scalar_packer(p: Parameter, dtype: DType) -> Packer:
    id = launch_id(dtype)
    code = FORMATS.get(dtype.name)
    pack_bytes = struct.Struct(f"<{code}{8 - dtype.bits // 8}x").pack if code is not None else None
    python_type = bool if dtype.is_bool else int if dtype.is_int else float

    def pack(value: Any) -> Packed:
        try:
            if type(value) is not python_type:
                value = _checked_number(dtype, value)
            if pack_bytes is not None:
                return id, pack_bytes(value)
            converted = fitted(np.asarray(float(value)), to_numpy(dtype), dtype.name)
            return id, converted.tobytes().ljust(8, b"\0")
        except (TypeError, ValueError, struct.error, OverflowError) as e:
            help, actual = f"pass a number that {dtype} represents exactly", shown(value)
            if isinstance(value, Structure):
                actual = f"a {value.label}"
                help = f"pass its id, or annotate the parameter with {value.label}"
            raise LaunchError(f"argument '{p.name}': expected {dtype}, got {actual}", help) from e

    return pack


def _checked_number(dtype: DType, value: Any) -> Any:
    """The number; TypeError for a number of a kind that the type does not accept."""
    if isinstance(value, bool | np.bool_) != dtype.is_bool:
        raise TypeError
    if dtype.is_int and not isinstance(value, int | np.integer):
        raise TypeError
    if not hasattr(value, "__float__"):
        raise TypeError
    return value.item() if isinstance(value, np.generic) else value


def _pack_composite(p: Parameter, composite_type: VecType | MatType, value: Any) -> Packed:
    help = f"pass {components(composite_type)} numbers, of shape {element_shape(composite_type)}"
    scalar = scalar_of(composite_type)
    try:
        data = fitted(listed(value, to_numpy(scalar)), to_numpy(scalar), scalar.name)
    except UnfitNumber as error:
        raise LaunchError(f"argument '{p.name}': expected {composite_type}: {error.message}", help) from error
    except ValueError as error:  # rows of different lengths
        raise LaunchError(f"argument '{p.name}': expected {composite_type}, got {value!r}", help) from error
    if data.shape == (components(composite_type),):
        data = data.reshape(element_shape(composite_type))
    if data.shape != element_shape(composite_type):
        message = f"argument '{p.name}': expected {composite_type}, got a value of shape {data.shape}"
        raise LaunchError(message, help)
    return launch_id(composite_type), data.tobytes().ljust(-(-element_bytes(composite_type) // 8) * 8, b"\0")


def _pack_any(p: Parameter, value: Any) -> Packed:
    """Pack an argument of an unannotated parameter by the argument's own type."""
    if isinstance(value, bool):
        return _scalar_packer(p, bool_)(value)
    if isinstance(value, int):
        return _scalar_packer(p, int32 if -(2**31) <= value < 2**31 else int64)(value)
    if isinstance(value, float):
        return _scalar_packer(p, float32)(value)
    if isinstance(value, np.generic):
        return _scalar_packer(p, _scalar_type(p, value))(value.item())
    if isinstance(value, Composite):
        return _pack_composite(p, cast(VecType | MatType, value.type), value)
    if isinstance(value, np.ndarray) and value.ndim in (1, 2) and value.size <= MAX_VALUE:
        scalar = _scalar_type(p, value)
        rows, cols = value.shape[0], value.shape[-1]
        composite_type = VecType(rows, scalar) if value.ndim == 1 else MatType(rows, cols, scalar)
        return _pack_composite(p, composite_type, value)
    value_array = value if isinstance(value, array) else _adopt(p, value)
    return value_array.launch_id, value_array.packed


def _scalar_type(p: Parameter, value: np.ndarray | np.generic) -> DType:
    try:
        return from_numpy(value.dtype)
    except ValueError as error:
        raise LaunchError(f"argument '{p.name}': {error}", "convert the value with astype") from error
