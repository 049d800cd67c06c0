"""Clusters of a few boxes that are adjacent in Morton order, over which hierarchies are built top-down. If too many
boxes have equal keys, each is a separate cluster."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import VEC8, union

BOXES_PER_THREAD = 2048
"""The number of boxes per thread in the search for clusters."""


@tg.func
def begins_cluster(keys, groups: tg.array1d[int], ids: tg.array1d[int], i: int, max_boxes: int):
    """Whether a box is the first of its cluster: more than `max_boxes` boxes are in the smallest cell that contains the
    box and its predecessor."""
    begins = i == 0
    if groups is not None and i > 0:
        begins = groups[ids[i]] != groups[ids[i - 1]]
    if not begins:
        key = tg.uint64(keys[i])
        # The common bits of the keys in the cell.
        shift = tg.uint64(64) - tg.uint64(tg.clz(tg.uint64(keys[i - 1]) ^ key))
        cell, count = key >> shift, 2
        j = i - 2
        while j >= 0 and count <= max_boxes and tg.uint64(keys[j]) >> shift == cell:
            count += 1
            j -= 1
        j = i + 1
        while j < keys.shape[0] and count <= max_boxes and tg.uint64(keys[j]) >> shift == cell:
            count += 1
            j += 1
        begins = count > max_boxes
    return begins


@tg.kernel
def mark_clusters(
    keys,
    groups: tg.array1d[int],
    ids: tg.array1d[int],
    max_boxes: int,
    marks: tg.array1d[tg.uint8],
    numbers: tg.array1d[int],
):
    """Mark the first boxes of clusters, and count them."""
    c = tg.tid()
    count = 0
    for i in range(c * BOXES_PER_THREAD, tg.min((c + 1) * BOXES_PER_THREAD, keys.shape[0])):
        begins = tg.where(begins_cluster(keys, groups, ids, i, max_boxes), 1, 0)
        marks[i] = tg.uint8(begins)
        count += begins
    numbers[c + 1] = count


@tg.kernel
def prefix_sum(numbers: tg.array1d[int]):
    """Write running sums, in one thread."""
    numbers[0] = 0
    for c in range(1, numbers.shape[0]):
        numbers[c] = numbers[c] + numbers[c - 1]


@tg.kernel
def number_clusters(marks: tg.array1d[tg.uint8], numbers: tg.array1d[int], first: tg.array1d[int]):
    """Write the first box of each cluster, and the number of boxes after the last one."""
    c = tg.tid()
    cluster = numbers[c]
    for i in range(c * BOXES_PER_THREAD, tg.min((c + 1) * BOXES_PER_THREAD, marks.shape[0])):
        if marks[i] != tg.uint8(0):
            first[cluster] = i
            cluster += 1
    if (c + 1) * BOXES_PER_THREAD >= marks.shape[0]:
        first[cluster] = marks.shape[0]


@tg.kernel
def bound_clusters(
    items: tg.array1d[VEC8], ids: tg.array1d[int], first: tg.array1d[int], boxes: tg.array1d[VEC8]
):
    """Write the bounds of clusters of items, with their indices and their numbers of boxes."""
    c = tg.tid()
    box = VEC8(tg.inf)
    for i in range(first[c], first[c + 1]):
        box = union(items[ids[i]], box)
    box[6], box[7] = tg.bitcast(c, tg.float32), tg.bitcast(first[c + 1] - first[c], tg.float32)
    boxes[c] = box


@tg.kernel
def write_cluster_offsets(boxes: tg.array1d[VEC8], offsets: tg.array1d[int]):
    """Write the position of the first item of each cluster, in the order of the hierarchy, in one thread."""
    position = 0
    for k in range(boxes.shape[0]):
        offsets[k] = position
        position += tg.bitcast(boxes[k][7], tg.int32)
    offsets[boxes.shape[0]] = position


@tg.kernel
def write_items(
    boxes: tg.array1d[VEC8],
    offsets: tg.array1d[int],
    first: tg.array1d[int],
    ids: tg.array1d[int],
    order: tg.array1d[int],
):
    """Write the indices of the items in the order of the hierarchy."""
    k = tg.tid()
    begin, cluster = offsets[k], tg.bitcast(boxes[k][6], tg.int32)
    for i in range(offsets[k + 1] - begin):
        order[begin + i] = ids[first[cluster] + i]
