"""Tensor maps, by which bulk copies (TMA) address boxes of an array. The driver encodes tensor maps on the host, and
they are appended to the arguments of a launch."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from tegula.dataclass import dataclass
from tegula.runtime.cuda.context import LEGACY, Context
from tegula.runtime.cuda.memory import Allocation

BYTES, ALIGNMENT = 128, 64
"""The size and the alignment of an encoded map, in bytes."""

ELEMENTS = {
    **{"uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5},
    **{"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9, "tf32": 11},
}
"""The driver's numbers of element types. Bulk additions add in the element type, copies to tf32 round float32, and
other copies do not depend on the element type."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
L2_128_BYTES, L2_256_BYTES = 2, 3
"""The driver's numbers of the L2 promotion size. If rows of boxes are not aligned to sectors, the smaller size is
faster, because the sectors at both ends are partly used."""
SECTOR = 32
MAX_CACHED = 256
EMPTY_ARRAY_BYTES = 256
"""The bytes of each of the two regions that replace an array without elements."""


@dataclass(frozen=True, slots=True)
class ArrayMap:
    """A map of the array whose description is in bytes `start` to `end` of the arguments. `elements`: the element type,
    a key of `ELEMENTS`. `box`: the elements of one copy along each dimension, the first dimension first. `row_bytes`:
    the bytes of a row of the swizzle, or 0. `written`: whether copies write the array."""

    start: int
    end: int
    elements: str
    box: tuple[int, ...]
    row_bytes: int
    written: bool


_empty_arrays: dict[Context, Allocation] = {}


def _empty_array_address(context: Context) -> int:
    """The address of memory for maps of empty arrays, which the driver cannot encode: `EMPTY_ARRAY_BYTES` bytes of
    zeros for reads, and `EMPTY_ARRAY_BYTES` bytes for writes."""
    allocation = _empty_arrays.get(context)
    if allocation is None:
        allocation = Allocation(context, 2 * EMPTY_ARRAY_BYTES)
        context.call("cuMemsetD8Async", allocation.address, 0, 2 * EMPTY_ARRAY_BYTES, LEGACY)
        context.call("cuStreamSynchronize", LEGACY)
        _empty_arrays[context] = allocation
    return allocation.address


class TensorMaps:
    """The maps of one compiled kernel, `padding` bytes after the arguments."""

    def __init__(self, context: Context, padding: int, maps: Sequence[ArrayMap]) -> None:
        self.context = context
        self.maps = maps
        self.padding = bytes(padding)
        self.encoded: dict[tuple[int, bytes], bytes] = {}

    def with_maps(self, arguments: bytes) -> bytes:
        """A launch's arguments followed by the maps of its arrays. RunError if the driver refuses a map."""
        parts = [arguments, self.padding]
        for k, array_map in enumerate(self.maps):
            array = arguments[array_map.start : array_map.end]
            encoded = self.encoded.get((k, array))
            if encoded is None:
                if len(self.encoded) >= MAX_CACHED:
                    self.encoded.clear()
                encoded = self.encoded[k, array] = self._encoded(array_map, array)
            parts.append(encoded)
        return b"".join(parts)

    def map_positions(self, arguments: bytes) -> list[tuple[int, int, int]]:
        """For each map: its offset in the result of `with_maps`, the offset of its array's address in the arguments,
        and the address. Arrays without elements are left out, because their maps are of other memory."""
        first_map, positions = len(arguments) + len(self.padding), []
        for k, array_map in enumerate(self.maps):
            address, *numbers = _words(arguments[array_map.start : array_map.end])
            if 0 not in numbers[: len(numbers) // 2]:
                positions.append((first_map + BYTES * k, array_map.start, address))
        return positions

    def _encoded(self, array_map: ArrayMap, array: bytes) -> bytes:
        """The encoded map of an array. `array`: its address, lengths and strides, as in the arguments of kernels."""
        address, *numbers = _words(array)
        rank = len(numbers) // 2
        lengths, strides = numbers[:rank][::-1], numbers[rank:][::-1]
        if 0 in lengths:
            address = _empty_array_address(self.context) + EMPTY_ARRAY_BYTES * array_map.written
            lengths, strides = [1] * rank, [EMPTY_ARRAY_BYTES] * rank
        has_partial_sectors = any(n % SECTOR for n in (address, *strides[1:]))
        memory = ctypes.create_string_buffer(BYTES + ALIGNMENT)
        memory_address = ctypes.addressof(memory)
        start = -memory_address % ALIGNMENT
        self.context.call(
            "cuTensorMapEncodeTiled",
            memory_address + start,
            ELEMENTS[array_map.elements],
            rank,
            address,
            (ctypes.c_uint64 * rank)(*lengths),
            (ctypes.c_uint64 * rank)(*strides[1:], 0),
            (ctypes.c_uint32 * rank)(*array_map.box[::-1]),
            (ctypes.c_uint32 * rank)(*[1] * rank),
            0,
            SWIZZLES[array_map.row_bytes],
            L2_128_BYTES if has_partial_sectors else L2_256_BYTES,
            0,
        )
        return memory.raw[start : start + BYTES]


def _words(array: bytes) -> tuple[int, ...]:
    """The address, lengths and strides in the description of an array."""
    return struct.unpack(f"<{len(array) // 8}q", array)
