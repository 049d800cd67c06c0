"""The Morton order of boxes: a key is the interleaved bits of the coordinates of a box's centre."""

from __future__ import annotations

from typing import Any

import tegula as tg
from tegula.algorithms.sorting import Chunks, sort
from tegula.runtime.array import array
from tegula.runtime.device import Device
from tegula.spatial.boxes import centre, is_valid_box, make_box

THREADS, CPU_THREADS = 1 << 15, 64
"""The numbers of threads that compute the bounds of all centres on a GPU and on a CPU."""
HALF = 1 << 31


@tg.func
def sortable_bits(x: float):
    """An unsigned integer with the same order as a float."""
    bits = tg.bitcast(x, tg.uint32)
    return tg.where(bits >= tg.uint32(HALF), ~bits, bits ^ tg.uint32(HALF))


@tg.func
def float_from_bits(bits: tg.uint32):
    """The inverse of `sortable_bits`."""
    return tg.bitcast(tg.where(bits >= tg.uint32(HALF), bits ^ tg.uint32(HALF), ~bits), tg.float32)


@tg.kernel
def bound_centres(
    lower: tg.array1d[tg.vec3], upper: tg.array1d[tg.vec3], threads: int, bounds: tg.array1d[tg.uint32]
):
    """Write the bounds of the centres of boxes as sortable bits: the complements of the lower bounds, and the upper
    bounds, so that both are maxima that start at 0."""
    lowest, highest = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
    for i in range(tg.tid(), lower.shape[0], threads):
        c = centre(make_box(lower[i], upper[i]))
        for k in tg.static(range(3)):
            lowest[k] = tg.where(c[k] < lowest[k], c[k], lowest[k])
            highest[k] = tg.where(c[k] > highest[k], c[k], highest[k])
    for k in tg.static(range(3)):
        tg.atomic_max(bounds, k, ~sortable_bits(lowest[k]))
        tg.atomic_max(bounds, 3 + k, sortable_bits(highest[k]))


@tg.func
def spread_bits(x: tg.uint64):
    """The lowest 21 bits of an integer, spread to every third bit."""
    x = (x | (x << tg.uint64(32))) & tg.uint64(0x1F00000000FFFF)
    x = (x | (x << tg.uint64(16))) & tg.uint64(0x1F0000FF0000FF)
    x = (x | (x << tg.uint64(8))) & tg.uint64(0x100F00F00F00F00F)
    x = (x | (x << tg.uint64(4))) & tg.uint64(0x10C30C30C30C30C3)
    return (x | (x << tg.uint64(2))) & tg.uint64(0x1249249249249249)


@tg.kernel
def number_boxes(
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    bounds: tg.array1d[tg.uint32],
    bits: int,
    keys,
    ids: tg.array1d[int],
):
    """Write the key and the index of each box; empty boxes are last."""
    i = tg.tid()
    low, high = lower[i], upper[i]
    key = (tg.uint64(1) << tg.uint64(3 * bits)) - tg.uint64(1)
    last_cell = (1 << bits) - 1
    if is_valid_box(low, high):
        c = centre(make_box(low, high))
        key = tg.uint64(0)
        for k in tg.static(range(3)):
            start = float_from_bits(~bounds[k])
            size = float_from_bits(bounds[3 + k]) - start
            scale = tg.where(size > 1e-30, float(last_cell) / size, 0.0)
            cell = tg.clamp(int((c[k] - start) * scale), 0, last_cell)
            key = key | (spread_bits(tg.uint64(cell)) << tg.uint64(k))
    keys[i], ids[i] = keys.dtype(key), i


class Curve:
    """The scratch memory for sorting at most `capacity` boxes on a device, with keys of `bits` bits per coordinate."""

    def __init__(self, capacity: int, device: Device, bits: int) -> None:
        self.device, self.bits = device, bits
        dtype = tg.uint32 if 3 * bits <= 32 else tg.uint64
        self.keys, self.ids = tg.empty(2 * capacity, dtype, device), tg.empty(2 * capacity, tg.int32, device)
        self.chunks = Chunks(capacity, device)
        self.bounds = tg.empty(6, tg.uint32, device)

    def sort(self, lower: array, upper: array) -> array:
        """Sort boxes in Morton order. Returns their indices in this order."""
        count = len(lower)
        self.bounds.zero_()
        on_cpu = self.device.is_cpu
        threads = min(count, CPU_THREADS if on_cpu else THREADS)
        args = [lower, upper, threads, self.bounds]
        self._launch(bound_centres, threads, args, 1 if on_cpu else None)
        self._launch(number_boxes, count, [lower, upper, self.bounds, self.bits, self.keys, self.ids])
        sort(self.keys, self.ids, count, 0, 3 * self.bits, self.chunks)
        return self.ids[:count]

    def _launch(self, kernel: Any, dim: int, inputs: list[Any], block_dim: int | None = None) -> None:
        tg.launch(kernel, dim, inputs, device=self.device, record_tape=False, block_dim=block_dim)
