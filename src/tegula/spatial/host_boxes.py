"""The boxes of a build on the CPU, as one array of vectors, and their order along the Morton curve."""

from __future__ import annotations

from typing import Any, NamedTuple

import tegula as tg
from tegula.algorithms.sorting import Chunks, sort
from tegula.runtime.array import array
from tegula.runtime.device import get_device
from tegula.spatial.boxes import EIGHT, VEC8, centre, lang, make_box, union
from tegula.spatial.curve import spread_bits

THREADS = 64
"""The maximum number of threads that read all boxes."""
SHORT, SHORT_BITS, BITS = 1 << 20, 10, 21
"""The number of boxes up to which keys have 10 bits per coordinate, and the numbers of bits below and above it."""
SPARSE = ((16, 0x030000FF), (8, 0x0300F00F), (4, 0x030C30C3), (2, 0x09249249))
"""The shifts and masks that spread the lowest 10 bits of an integer to every third bit."""


class HostBoxes(NamedTuple):
    """Boxes as vectors, with the bounds of their centres (and of the negated centres) for each part of the boxes."""

    boxes: array
    middles: array


@tg.func
def chunk_range(count: int, thread: int, threads: int):
    """The range of items that a thread processes, end exclusive."""
    each = (count + threads - 1) // threads
    return tg.min(thread * each, count), tg.min((thread + 1) * each, count)


@tg.kernel
def bound_boxes(
    lower: tg.array1d[tg.vec3],
    upper: tg.array1d[tg.vec3],
    threads: int,
    boxes: tg.array1d[VEC8],
    middles: tg.array1d[VEC8],
):
    """Write boxes as vectors, and the bounds of the centres of a thread's boxes."""
    t = tg.tid()
    begin, end = chunk_range(boxes.shape[0], t, threads)
    middle = VEC8(tg.inf)
    for i in range(begin, end):
        box = make_box(lower[i], upper[i])
        boxes[i] = box
        middle = union(centre(box), middle)
    middles[t] = middle


@tg.kernel
def bound_faces(
    points: tg.array1d[tg.vec3],
    indices: tg.array1d[int],
    threads: int,
    boxes: tg.array1d[VEC8],
    middles: tg.array1d[VEC8],
):
    """Write the boxes of faces as vectors, as `bound_boxes` does; a face with a NaN has an empty box."""
    t = tg.tid()
    begin, end = chunk_range(boxes.shape[0], t, threads)
    middle = VEC8(tg.inf)
    for i in range(begin, end):
        a, b, c = points[indices[3 * i]], points[indices[3 * i + 1]], points[indices[3 * i + 2]]
        total = a + b + c
        low, high = tg.min(tg.min(a, b), c), tg.max(tg.max(a, b), c)
        # A sum is NaN for opposite infinities too, whose box is not finite.
        known = total[0] == total[0] and total[1] == total[1] and total[2] == total[2]
        box = VEC8(tg.inf)
        if known:
            box = make_box(low, high)
        boxes[i] = box
        middle = union(centre(box), middle)
    middles[t] = middle


@tg.kernel
def key_boxes(
    boxes: tg.array1d[VEC8],
    middles: tg.array1d[VEC8],
    bits: int,
    threads: int,
    keys,
    ids: tg.array1d[int],
):
    """Write the Morton keys and the indices of a thread's boxes; empty boxes are last."""
    middle = VEC8(tg.inf)
    for k in range(middles.shape[0]):
        middle = union(middles[k], middle)
    most = (1 << bits) - 1
    start, scale = VEC8(0.0), VEC8(0.0)
    for k in tg.static(range(3)):
        size = -middle[3 + k] - middle[k]
        start[k], scale[k] = middle[k], tg.where(size > 1e-30, float(most) / size, 0.0)
    begin, end = chunk_range(boxes.shape[0], tg.tid(), threads)
    for i in range(begin, end):
        x = tg.cw_mul(centre(boxes[i]) - start, scale)
        known = x[0] == x[0]
        x = lang._smaller_of_each(lang._larger_of_each(x, VEC8(0.0)), VEC8(float(most)))
        key = (tg.uint64(1) << tg.uint64(3 * bits)) - tg.uint64(1)
        if known:
            key = tg.uint64(0)
            for k in tg.static(range(3)):
                key = key | (spread_bits(tg.uint64(int(x[k]))) << tg.uint64(k))
        keys[i], ids[i] = keys.dtype(key), i


def measure(kernel: Any, sources: list[array], count: int) -> HostBoxes:
    """Compute the boxes of `count` items by a kernel."""
    threads = max(1, min(THREADS, count // 256))
    found = HostBoxes(tg.empty(count, VEC8, "cpu"), tg.empty(threads, VEC8, "cpu"))
    launch(kernel, threads, [*sources, threads, *found])
    return found


def sort_boxes(found: HostBoxes) -> tuple[array, array]:
    """The keys and the indices of boxes in Morton order."""
    count = len(found.boxes)
    bits = SHORT_BITS if count <= SHORT else BITS
    keys = tg.empty(2 * count, tg.uint32 if bits == SHORT_BITS else tg.uint64, "cpu")
    ids = tg.empty(2 * count, tg.int32, "cpu")
    threads = len(found.middles)
    launch(key_boxes, threads, [*found, bits, threads, keys, ids])
    sort(keys, ids, count, 0, 3 * bits, Chunks(count, get_device("cpu")))
    return keys[:count], ids[:count]


def launch(kernel: Any, dim: int, inputs: list[Any], block_dim: int | None = 1) -> None:
    """Launch a kernel on the CPU, by default one whose threads do not run in the lanes of vector registers."""
    tg.launch(kernel, dim=dim, inputs=inputs, device="cpu", record_tape=False, block_dim=block_dim)


def ints(*shape: int) -> array:
    """An array of int32 on the CPU, not initialised."""
    return tg.empty(shape, tg.int32, "cpu")
