"""Descriptions of arrays without address and elements: the properties on which kernels are specialised, and the memory
layout. Arrays with equal properties share a description."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tegula.ir import AccessClass
from tegula.runtime.device import CPU, Device
from tegula.runtime.dimensions import MAX_INT32
from tegula.types import ElementType, element_bytes, scalar_of, to_numpy

MAP_ALIGNMENT, MAP_STRIDES, MAP_LENGTHS = 16, 1 << 40, 1 << 32
"""Limits of tensor maps: the alignment of addresses in bytes, and exclusive upper bounds of strides and lengths."""
ALIGNMENT = 64
MAX_DESCRIPTIONS = 8192

SPECIALISATIONS: list[Any] = []
"""The specialisations of array arguments, indexed by their launch ids."""
_numbers: dict[Any, int] = {}
_lock = threading.Lock()


def launch_id(specialisation: Any) -> int:
    """The launch id of a specialisation: a small integer, so that launches compare integers only."""
    number = _numbers.get(specialisation)
    if number is None:
        with _lock:
            number = _numbers.get(specialisation)
            if number is None:
                number = len(SPECIALISATIONS)
                SPECIALISATIONS.append(specialisation)
                _numbers[specialisation] = number
    return number


def device_of(specialisation: tuple[Any, ...]) -> Device:
    """The device of arrays with a specialisation."""
    return specialisation[4] if len(specialisation) > 4 else CPU


class Description:
    """The properties of an array for launches. `launch_id`: the number of its specialisation; `low`, `high`: the
    offsets from the address to the first byte and to the end of the last byte; `packed_dimensions`: the bytes after the
    address in a kernel's arguments; `steps`: the strides of dimensions with several elements; `start`: the address
    modulo ALIGNMENT."""

    __slots__ = ("access", "high", "launch_id", "low", "packed_dimensions", "shape", "steps", "strides")

    def __init__(
        self,
        dtype: ElementType,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        start: int,
        writeable: bool,
        device: Device,
    ) -> None:
        size, rank = element_bytes(dtype), len(shape)
        spans = [s * (n - 1) for n, s in zip(shape, strides, strict=True)]
        empty = 0 in shape
        if not (empty or device.is_cpu):
            _require_aligned(dtype, (start, *spans))
        self.low = sum(min(0, x) for x in spans)
        self.high = self.low if empty else size + sum(max(0, x) for x in spans)
        self.access = _access(size, shape, strides, start)
        device_key = () if device is CPU else (device,)
        self.launch_id = launch_id((dtype, rank, self.access, writeable, *device_key))
        self.shape, self.strides = shape, strides
        self.steps = tuple(s for n, s in zip(shape, strides, strict=True) if n > 1)
        self.packed_dimensions = struct.pack(f"<{2 * rank}q", *shape, *strides)


cached_description = lru_cache(maxsize=MAX_DESCRIPTIONS)(Description)
"""The cached description of arrays; equal arrays share an object while it is in the cache."""


def _require_aligned(dtype: ElementType, offsets: Sequence[int]) -> None:
    """ValueError unless the address and strides are multiples of the alignment, without which a GPU faults."""
    unit = to_numpy(scalar_of(dtype)).alignment
    if any(offset % unit for offset in offsets):
        raise ValueError(
            f"elements of type {dtype} are not aligned: on a GPU the address and the strides of an array must be "
            f"multiples of {unit} bytes; copy the data to a packed array"
        )


def _access(size: int, shape: Sequence[int], strides: Sequence[int], start: int) -> AccessClass:
    """The access class of arrays with elements of `size` bytes."""
    empty = 0 in shape
    contiguous = strides[-1] == size or shape[-1] == 1 or empty
    columns = not contiguous and strides[-2:-1] == (size,)
    packed, dense, packed_sizes = size, True, list[int]()
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        dense = dense and (s == packed or n == 1)
        packed *= n
        packed_sizes.append(packed)
    dense = dense or empty
    # Strides of an array without elements, or of dimensions with one element, are irrelevant; but the length of the
    # rows of a packed array must agree with its alignment.
    steps = (*(() if empty else strides[:-1]), *(packed_sizes[:-1] if dense else ()))
    align = ALIGNMENT
    while align > 1 and any(x % align for x in (start, *steps)):
        align //= 2
    fits_map = (
        strides[-1] == size
        and align >= MAP_ALIGNMENT
        and all(0 < s < MAP_STRIDES for s in steps)
        and all(n < MAP_LENGTHS for n in shape)
    )
    long_dims = tuple(k for k, n in enumerate(shape) if n > MAX_INT32)
    return AccessClass(align, contiguous, dense, bulk=fits_map or empty, long=long_dims, columns=columns)
