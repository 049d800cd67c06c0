"""Stable sort of keys with the numbers of points, in memory that is kept between sorts."""

from __future__ import annotations

from functools import cache

import tegula as tg
from tegula.runtime.array import array
from tegula.runtime.device import Device
from tegula.types import DType

DIGIT = 11
"""The bits of a digit."""
CHUNKS = 16
"""The number of chunks, each of which a thread counts and moves."""


class SortMemory:
    """The keys and numbers of at most `room` points, and the same again to move them to."""

    def __init__(self, room: int, device: Device) -> None:
        self.room, self.device = room, device
        self.keys, self.other_keys = (tg.empty(room, tg.uint32, device) for _ in range(2))
        self.values, self.other_values = (tg.empty(room, tg.int32, device) for _ in range(2))
        self.places = tg.empty((CHUNKS, 1 << DIGIT), tg.int32, device)
        self.wide_keys = self.other_wide_keys = tg.empty(0, tg.uint64, device)

    def widen(self) -> None:
        """Make room for keys of 64 bits."""
        if not self.wide_keys.size:
            self.wide_keys, self.other_wide_keys = (
                tg.empty(self.room, tg.uint64, self.device) for _ in range(2)
            )


@cache
def _kernels(dtype: DType) -> tuple[tg.Kernel, tg.Kernel]:
    """The kernels that count the digits of keys of a dtype, and that move keys and values."""

    @tg.kernel
    def count(keys, places: tg.array2d[int], number: int, chunk: int, shift: int, mask: int):
        """Count the digits of chunks of keys."""
        c = tg.tid()
        for d in range(mask + 1):
            places[c, d] = 0
        for i in range(c * chunk, tg.min((c + 1) * chunk, number)):
            d = tg.int32(keys[i] >> dtype(shift)) & mask
            places[c, d] = places[c, d] + 1

    @tg.kernel
    def move(
        keys,
        values: tg.array1d[int],
        places: tg.array2d[int],
        number: int,
        chunk: int,
        shift: int,
        mask: int,
        to_keys,
        to_values: tg.array1d[int],
    ):
        """Move keys and values to the places of their digits."""
        c = tg.tid()
        for i in range(c * chunk, tg.min((c + 1) * chunk, number)):
            key = keys[i]
            d = tg.int32(key >> dtype(shift)) & mask
            place = places[c, d]
            places[c, d] = place + 1
            to_keys[place] = key
            to_values[place] = values[i]

    return count, move


@tg.kernel
def place_digits(places: tg.array2d[int], digits: int):
    """Turn the counts of digits by chunk into the first places of each chunk's elements."""
    total = 0
    for d in range(digits):
        for c in range(CHUNKS):
            here = places[c, d]
            places[c, d] = total
            total += here


def sort_by_key(m: SortMemory, keys: array, other_keys: array, count: int, begin: int, end: int) -> None:
    """Sort the first keys and values by the bits from `begin` to `end` of the keys."""
    counted, move = _kernels(keys.dtype)
    chunk = -(-count // CHUNKS)
    now, then = (keys, m.values), (other_keys, m.other_values)
    passes = -(-(end - begin) // DIGIT)
    for k in range(passes):
        low = begin + k * (end - begin) // passes
        mask = (1 << (begin + (k + 1) * (end - begin) // passes - low)) - 1
        _launch(m, counted, CHUNKS, [now[0], m.places, count, chunk, low, mask])
        _launch(m, place_digits, 1, [m.places, mask + 1])
        _launch(m, move, CHUNKS, [*now, m.places, count, chunk, low, mask, *then])
        now, then = then, now
    if now[0] is not keys:
        tg.copy(keys, now[0], count=count)
        tg.copy(m.values, now[1], count=count)


def _launch(m: SortMemory, kernel: tg.Kernel, dim: int, inputs: list[object]) -> None:
    tg.launch(kernel, dim=dim, inputs=inputs, device=m.device, record_tape=False, block_dim=1)
