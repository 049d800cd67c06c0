"""All overlaps between boxes and the items of a hierarchy."""

from __future__ import annotations

import tegula as tg
from tegula.algorithms.scan import array_scan
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.spatial.bvh import VEC3, Bvh, check_array, check_is_array
from tegula.types import int32

MAX_OVERLAPS = (1 << 31) - 1


@tg.kernel
def count_overlaps(
    bvh: tg.Bvh, lowers: tg.array1d[tg.vec3], uppers: tg.array1d[tg.vec3], counts: tg.array1d[int]
):
    """Write the number of overlapped items of box i to `counts[i + 1]`; `counts[0]` is 0."""
    i = tg.tid()
    count = 0
    for _ in tg.bvh_query_aabb(bvh, lowers[i], uppers[i]):
        count += 1
    counts[i + 1] = count


@tg.kernel
def list_overlaps(
    bvh: tg.Bvh,
    lowers: tg.array1d[tg.vec3],
    uppers: tg.array1d[tg.vec3],
    starts: tg.array1d[int],
    items: tg.array1d[int],
):
    """Write the items that each box overlaps, and heapsort the items of each box."""
    i = tg.tid()
    first = starts[i]
    count = 0
    for item in tg.bvh_query_aabb(bvh, lowers[i], uppers[i]):
        # Sift the new leaf up past smaller elements.
        node = count
        while node > 0 and items[first + (node - 1) // 2] < item:
            items[first + node] = items[first + (node - 1) // 2]
            node = (node - 1) // 2
        items[first + node] = item
        count += 1
    while count > 1:
        count -= 1
        last = items[first + count]
        items[first + count] = items[first]
        node, child = 0, 1
        while child < count:
            if child + 1 < count and items[first + child + 1] > items[first + child]:
                child += 1
            if items[first + child] > last:
                items[first + node] = items[first + child]
                node = child
                child = 2 * node + 1
            else:
                child = count
        items[first + node] = last


def bvh_overlaps(bvh: Bvh, lowers: array, uppers: array) -> tuple[array, array]:
    """The items of a hierarchy that overlap each of the given boxes; boxes are closed sets.

    Parameters:
        bvh: the hierarchy, a tg.Bvh object.
        lowers, uppers: arrays (N,) of vec3 on its device, the corners of the boxes.
    Returns:
        two arrays of int32, starts (N + 1,) and items, in compressed sparse row form: the items of box i are
        items[starts[i]:starts[i + 1]], in ascending order.
    Raises:
        launch: an array is of another type, shape or device, or there are 2**31 overlaps or more.
    """
    if not isinstance(bvh, Bvh):
        message = f"bvh_overlaps takes a tg.Bvh, got a value of type {type(bvh).__name__}"
        raise LaunchError(message, "create one with tg.Bvh(lowers, uppers)")
    check_is_array(lowers, "lowers", VEC3)
    count, device = len(lowers), bvh.device
    for name, a in (("lowers", lowers), ("uppers", uppers)):
        check_array(a, name, VEC3, count, device)
    starts = tg.zeros(count + 1, dtype=int32, device=device)
    if count:
        inputs = [bvh, lowers, uppers]
        tg.launch(count_overlaps, count, [*inputs, starts], device=device, record_tape=False)
        total = int(starts.numpy().sum(dtype="int64"))
        if total > MAX_OVERLAPS:
            raise LaunchError(
                f"the query found {total} overlaps, but at most {MAX_OVERLAPS} are supported",
                "take fewer boxes at a time",
            )
        array_scan(starts, starts, True)
        items = tg.empty(total, dtype=int32, device=device)
        tg.launch(list_overlaps, count, [*inputs, starts, items], device=device, record_tape=False)
        return starts, items
    return starts, tg.empty(0, dtype=int32, device=device)
