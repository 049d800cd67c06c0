"""Conversion of host numbers to an element type: to the nearest number, or an error.

NumPy's own conversions silently wrap integers, turn large floats into infinities, and convert NaN to some integer."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from tegula.errors import UnfitNumber

CAST_HELP = "convert the data explicitly, with NumPy's round, clip or astype"


def fitted(data: np.ndarray, target: np.dtype, name: str, help: str = "") -> np.ndarray:
    """The numbers of `data` converted to NumPy's type `target`; `data` itself if it has this type. `name`: the name of
    the type in messages.

    Integers must be in the range of the type, and floats that become integers must be whole. Floats are rounded to
    nearest, but a finite number must not become infinite, and an infinity must stay infinite. Only 0 and 1 become
    bools. Raises UnfitNumber, with `help`, for the first number that does not fit, and for data that are not
    numbers."""
    if data.dtype == target:
        return data
    if data.dtype.kind == "O":
        return _from_objects(data, target, name, help)
    if not is_numeric(data.dtype):
        raise UnfitNumber(f"expected numbers for {name}, got data of NumPy dtype {data.dtype}", help)
    if _lossless(data.dtype, target):
        return data.astype(target)
    with np.errstate(all="ignore"):
        if _is_float(target):
            converted = data.astype(target)
            is_unfit = _overflowed(data, converted)
        else:
            # The floats of ml_dtypes are exact in float32, which NumPy compares correctly.
            comparable = data.astype(np.float32) if data.dtype.name in _EXTENDED else data
            is_unfit = ~_integers_in_range(comparable, *limits(target))
            converted = comparable if is_unfit.any() else comparable.astype(target)
    if is_unfit.any():
        index = tuple(int(k) for k in np.argwhere(is_unfit)[0])
        raise _unfit(data[index], index, target, name, help)
    return converted


def listed(data: Any, target: np.dtype | None) -> np.ndarray:
    """Python numbers, or nested lists of them, as a NumPy array. Unlike NumPy, integers are not rounded to floats
    because of floats in the same list or of integers beyond 64 bits. `target`: the target type, if known."""
    array = np.asarray(data)
    if array.dtype.kind != "f" or isinstance(data, np.generic):
        return array
    to_int = target is not None and not _is_float(target)
    if to_int or (array.dtype == np.float64 and array.size and np.max(np.abs(array)) >= 2**63):
        exact = np.array(data, dtype=object)
        if to_int or all(isinstance(x, int | np.integer) for x in exact.ravel()):
            return exact
    return array


def truncated(data: np.ndarray) -> np.ndarray:
    """Floats truncated to whole numbers; other numbers unchanged."""
    if data.dtype.kind == "O":
        entries = [int(x) if isinstance(x, float) and np.isfinite(x) else x for x in data.ravel()]
        integers = np.empty(data.size, object)
        integers[:] = entries
        return integers.reshape(data.shape)
    if data.dtype.name in _EXTENDED:
        data = data.astype(np.float32)
    return np.trunc(data) if data.dtype.kind == "f" else data


def first_leaf(data: Any) -> Any:
    """The first number of nested lists."""
    while isinstance(data, list | tuple) and data:
        data = data[0]
    return data


def extents(shape: Any) -> tuple[int, ...]:
    """A shape as a tuple of integers; ValueError for other numbers. Whole floats, such as the result of n / 4, are
    allowed."""
    if type(shape) is int:
        return (shape,)
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    given_shape = tuple(shape) if isinstance(shape, Sequence) and not isinstance(shape, str) else (shape,)
    return tuple([n if type(n) is int else _extent(n, given_shape) for n in given_shape])


def _extent(n: Any, given_shape: tuple[Any, ...]) -> int:
    if isinstance(n, float | np.floating) and float(n).is_integer():
        return int(n)
    if isinstance(n, bool | np.bool_) or not isinstance(n, SupportsIndex):
        shape_text = given_shape[0] if len(given_shape) == 1 else given_shape
        raise UnfitNumber(
            f"the lengths of a shape must be integers, got {shape_text!r}", "round them up: -(-n // m)"
        )
    return operator.index(n)


def new_extents(shape: tuple[int, ...], item_bytes: int) -> tuple[int, ...]:
    """The shape of a new array with elements of `item_bytes` bytes; UnfitNumber for negative lengths and for arrays
    that are too large."""
    if shape and min(shape) < 0:
        raise UnfitNumber(f"a new array cannot have the shape {shape}", "lengths must not be negative")
    byte_count = item_bytes
    for n in shape:
        byte_count *= max(n, 1)
    if byte_count >= 2**63:
        raise UnfitNumber(
            f"an array of shape {shape} would take {byte_count} bytes", "the address space is too small"
        )
    return shape


def is_numeric(dtype: np.dtype) -> bool:
    """Whether a NumPy type is bool, an integer type or a float type, including those of ml_dtypes."""
    return dtype.kind in "biuf" or dtype.name in _EXTENDED


_EXTENDED = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})
"""The names of the types that ml_dtypes adds to NumPy."""


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind not in "biu"


def _lossless(source: np.dtype, target: np.dtype) -> bool:
    """Whether NumPy's own types convert without loss; False for the types of ml_dtypes, whose numbers are checked."""
    return not {source.name, target.name} & _EXTENDED and np.can_cast(source, target, "safe")


def _overflowed(data: np.ndarray, converted: np.ndarray) -> np.ndarray:
    """A mask of finite numbers that became infinite, and of infinities that became another number."""
    if np.isfinite(converted).all():
        return np.zeros((), bool)
    was_infinite = np.isinf(data) if data.dtype.kind not in "biu" else np.zeros((), bool)
    is_preserved = np.isfinite(converted) | (np.isinf(converted) & was_infinite)
    return ~is_preserved & ~(np.isnan(data) if data.dtype.kind not in "biu" else np.zeros((), bool))


def limits(dtype: np.dtype) -> tuple[int, int]:
    """The least and the greatest number of an integer type, or of bool."""
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _integers_in_range(data: np.ndarray, low: int, high: int) -> np.ndarray:
    if data.dtype.kind == "f":
        # The lower end and the upper end plus 1 are powers of 2 or 0, which are exact as floats.
        kind = np.promote_types(data.dtype, np.float64)
        wide = data.astype(kind)
        return (wide >= kind.type(low)) & (wide < kind.type(high + 1)) & (np.trunc(wide) == wide)
    if data.dtype.kind == "b" or not data.size:
        return np.ones((), bool)
    if low <= int(data.min()) and int(data.max()) <= high:
        return np.ones((), bool)
    source_low, source_high = limits(data.dtype)
    return (data >= data.dtype.type(max(low, source_low))) & (data <= data.dtype.type(min(high, source_high)))


def _from_objects(data: np.ndarray, target: np.dtype, name: str, help: str) -> np.ndarray:
    """An array of Python numbers of any kind and size, converted one by one."""
    converted = np.empty(data.shape, target)
    for index, x in np.ndenumerate(data):
        converted[index] = _from_object(x, index, target, name, help)
    return converted


def _from_object(x: Any, index: tuple[int, ...], target: np.dtype, name: str, help: str) -> Any:
    if isinstance(x, np.generic) and is_numeric(x.dtype):
        return fitted(np.asarray(x), target, name, help)
    if not (hasattr(x, "__float__") or hasattr(x, "__index__")):
        raise UnfitNumber(f"expected numbers for {name}, got {shown(x)}{_index_text(index)}", help)
    try:
        if _is_float(target):
            return fitted(np.asarray(float(x), np.float64), target, name, help)
        low, high = limits(target)
        number = operator.index(x) if isinstance(x, SupportsIndex) else int(x)
        if number == x and low <= number <= high:
            return number
    except (OverflowError, ValueError, TypeError, UnfitNumber):
        pass
    raise _unfit(x, index, target, name, help)


def _unfit(x: Any, index: tuple[int, ...], target: np.dtype, name: str, help: str) -> UnfitNumber:
    message = f"{shown(x)} does not fit {name}"
    if not _is_float(target):
        low, high = limits(target)
        is_whole = _is_whole(x)
        limits_text = f"{low} to {high}" if target.kind != "b" else "False and True, 0 and 1"
        message += f" ({limits_text})" if is_whole else f", which holds whole numbers from {low} to {high}"
    return UnfitNumber(message + _index_text(index), help or CAST_HELP)


def _is_whole(x: Any) -> bool:
    try:
        return int(x) == x
    except (OverflowError, ValueError, TypeError):
        return False


def _index_text(index: tuple[int, ...]) -> str:
    return f", at index {', '.join(map(str, index))}" if index else ""


MAX_DIGITS = 40
"""The maximum number of digits of an integer in messages; Python refuses to print much longer integers."""


def shown(x: Any) -> str:
    """A number as text; a long integer by its number of bits."""
    if isinstance(x, np.generic):
        return (
            str(float(x)) if x.dtype.itemsize <= 8 and _is_float(x.dtype) and is_numeric(x.dtype) else str(x)
        )
    if isinstance(x, int) and x.bit_length() > 3 * MAX_DIGITS:
        return f"an integer of {x.bit_length()} bits"
    return repr(x)
