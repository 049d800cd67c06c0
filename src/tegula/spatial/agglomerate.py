"""Bottom-up construction of binary hierarchies: clusters of boxes in Morton order are merged repeatedly, each with the
cluster within a few positions with which its union has the smallest area, if that cluster chooses it too (PLOC).

A cluster is a vector of eight floats: its lower corner, the negated upper corner, and the bits of its node and of its
number of items. The node of a cluster is its box with the bits of its two children; the node of a leaf cluster has the
bits of -1 minus the position of its first item in Morton order, and of its number of items.

Threads merge the clusters of short chunks in their cache; the few clusters that each chunk leaves are merged in the
same way. The hierarchy therefore depends on the boxes alone."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import EIGHT, VEC8, lang, union
from tegula.stdlib.geometry.layout import WIDTH

CHUNK = 2048
"""The number of boxes, or of clusters, that a thread merges at a time."""
KEPT = 64
"""The maximum number of clusters of a chunk that are not merged within the chunk."""
RADIUS = WIDTH
"""The maximum distance of the positions of clusters that are merged."""
ROW = CHUNK + 3 * WIDTH
"""The length of a row of scratch memory."""
PARTNER_BITS = 5
"""The lowest bits of a key, which are the exclusive or of both positions. The keys of a cluster and the clusters within
RADIUS therefore differ, and equal areas prefer neighbours of positions 2 * k and 2 * k + 1."""
PARTNER = (1 << PARTNER_BITS) - 1
NO_KEY = (1 << 31) - 1
"""A key above all keys of pairs."""
AHEAD = 48
"""The number of boxes by which the CPU fetches boxes in advance."""
CELL = 4
"""The maximum number of boxes of a leaf cluster."""
PATIENCE = 24
"""The number of passes over a chunk after which all neighbours are merged. This limits the time for chains of clusters
that each prefer the next cluster."""


@tg.struct
class Merging:
    """The clusters that threads merge, with a row for each thread.

    `clusters`: the clusters; `coordinates`: their lower bounds and negated upper bounds, for each axis; `windows`: the
    same memory, as the eight coordinates from each position on; `keys`: the key of the partner that each cluster
    prefers, and before the first merge 1 for each box that begins a leaf cluster; `starts`: the same memory, in
    vectors; `levels`: the numbers of common leading bits of adjacent keys; `level_windows`: the same memory, as the
    eight levels from each position on."""

    clusters: tg.array2d[VEC8]
    coordinates: tg.array3d[float]
    windows: tg.array3d[VEC8]
    keys: tg.array2d[int]
    levels: tg.array2d[int]
    level_windows: tg.array2d[EIGHT]
    starts: tg.array2d[EIGHT]


@tg.struct
class BinaryTree:
    """A binary hierarchy: its nodes, and their numbers of items; and the addresses of both."""

    nodes: tg.array1d[VEC8]
    sizes: tg.array1d[int]
    address: tg.uint64
    sizes_address: tg.uint64


@tg.func
def low_of_eight(x: EIGHT):
    """The smallest component."""
    a = lang._smaller_of_each(x, EIGHT(x[4], x[5], x[6], x[7], x[4], x[5], x[6], x[7]))
    b = lang._smaller_of_each(a, EIGHT(a[2], a[3], a[2], a[3], a[2], a[3], a[2], a[3]))
    return tg.min(b[0], b[1])


@tg.func
def partner(position: int, key: int):
    """The position of the other cluster of a pair."""
    step = ((position ^ (key & PARTNER)) - position) & PARTNER
    return position + tg.where(step > RADIUS, step - (PARTNER + 1), step)


@tg.func
def write_cluster(m: Merging, t: int, position: int, cluster: VEC8):
    """Write a cluster to a row."""
    m.clusters[t, position] = cluster
    for k in tg.static(range(6)):
        m.coordinates[t, k, position] = cluster[k]


@tg.func
def choose_partners(m: Merging, t: int, count: int):
    """Write the key of each cluster's choice: the bits of the area of the union, and the partner."""
    for k in range(WIDTH):
        # The union with a cluster after the last one has an infinite area.
        for side in tg.static(range(6)):
            m.coordinates[t, side, count + k] = -tg.inf
    lx, ly, lz = m.windows[t, 0], m.windows[t, 1], m.windows[t, 2]
    hx, hy, hz = m.windows[t, 3], m.windows[t, 4], m.windows[t, 5]
    clusters, keys = m.clusters[t], m.keys[t]
    backward, positions = EIGHT(NO_KEY), EIGHT(0, 1, 2, 3, 4, 5, 6, 7)
    for i in range(count):
        c = clusters[i]
        positions = positions + EIGHT(1)
        x = lang._smaller_of_each(lx[i + 1], VEC8(c[0])) + lang._smaller_of_each(hx[i + 1], VEC8(c[3]))
        y = lang._smaller_of_each(ly[i + 1], VEC8(c[1])) + lang._smaller_of_each(hy[i + 1], VEC8(c[4]))
        z = lang._smaller_of_each(lz[i + 1], VEC8(c[2])) + lang._smaller_of_each(hz[i + 1], VEC8(c[5]))
        area = tg.cw_mul(x, y + z) + tg.cw_mul(y, z)
        forward = (tg.bitcast(area, int) & EIGHT(~PARTNER)) | ((positions ^ EIGHT(i)) & EIGHT(PARTNER))
        keys[i] = tg.min(low_of_eight(forward), backward[0])
        b = backward
        backward = lang._smaller_of_each(forward, EIGHT(b[1], b[2], b[3], b[4], b[5], b[6], b[7], NO_KEY))
    keys[count] = NO_KEY


@tg.func
def pair_neighbours(m: Merging, t: int, count: int):
    """Write keys that pair positions 2 * k and 2 * k + 1."""
    for i in range(count):
        m.keys[t, i] = 1
    m.keys[t, count] = NO_KEY


@tg.func
def merge_pairs(m: Merging, t: int, count: int, tree: BinaryTree, node: int):
    """Merge the pairs that choose each other, and write their nodes from index `node` on. Returns the number of
    clusters and the next node."""
    clusters, keys = m.clusters[t], m.keys[t]
    kept = 0
    for i in range(count):
        key = keys[i]
        j = tg.min(partner(i, key), count)
        mutual = keys[tg.max(j, 0)] == key
        a = clusters[i]
        merged = mutual & (j > i)
        b = clusters[tg.where(merged, j, i)]
        c = union(a, b)
        size = tg.bitcast(a[7], tg.int32) + tg.bitcast(b[7], tg.int32)
        c[6] = a[6]
        c[7] = b[6]
        # Without a pair the node is overwritten by the next one.
        tree.nodes[node] = c
        tree.sizes[node] = size
        c[6] = tg.where(merged, tg.bitcast(node, tg.float32), a[6])
        c[7] = tg.where(merged, tg.bitcast(size, tg.float32), a[7])
        write_cluster(m, t, kept, c)
        node += tg.where(merged, 1, 0)
        kept += tg.where(mutual & (j < i), 0, 1)
    return kept, node


@tg.func
def merge_clusters(m: Merging, t: int, count: int, max_clusters: int, tree: BinaryTree, node: int):
    """Merge the clusters of a row until there are at most `max_clusters`. Returns their number and the next node."""
    passes = 0
    while count > max_clusters:
        if passes < PATIENCE:
            choose_partners(m, t, count)
        else:
            pair_neighbours(m, t, count)
        count, node = merge_pairs(m, t, count, tree, node)
        passes += 1
    return count, node


@tg.func
def find_cells(m: Merging, t: int, keys, begin: int, end: int):
    """Write to the row of keys, for each box of a chunk, 1 if the box begins a leaf cluster, else 0.

    A box begins a cluster if more than CELL boxes are in the smallest cell of the curve that contains the box and its
    predecessor."""
    count = end - begin
    levels = m.levels[t]
    for k in range(WIDTH):
        levels[k] = -1
        levels[count + WIDTH + k] = -1
    levels[WIDTH] = -1
    for i in range(1, count):
        levels[WIDTH + i] = tg.int32(tg.clz(keys[begin + i - 1] ^ keys[begin + i]))
    windows, starts = m.level_windows[t], m.starts[t]
    for block in range((count + WIDTH - 1) // WIDTH):
        at = WIDTH * block + WIDTH
        # For each CELL adjacent boundaries that include a boundary, the smallest level.
        level, deepest = windows[at], EIGHT(-1)
        for first in tg.static(range(CELL)):
            low = level
            for k in tg.static(range(CELL)):
                low = lang._smaller_of_each(windows[at + k - first], low)
            deepest = lang._larger_of_each(low, deepest)
        starts[block] = lang._pick_each(lang._each_within(level, deepest), EIGHT(1), EIGHT(0))


@tg.func
def load_cells(
    m: Merging,
    t: int,
    boxes: tg.array1d[VEC8],
    address: tg.uint64,
    ids: tg.array1d[int],
    begin: int,
    end: int,
    tree: BinaryTree,
):
    """Write the leaf clusters of a chunk to the hierarchy and to a row. Returns their number.

    `address`: the address of the boxes."""
    count, size = 0, 0
    box = VEC8(tg.inf)
    for i in range(begin, end):
        next_id = ids[tg.min(i + AHEAD, end - 1)]
        lang._read_soon(address + tg.uint64(next_id) * tg.uint64(4 * WIDTH))
        begins = m.keys[t, i - begin]
        b = boxes[ids[i]]
        box = tg.where(begins != 0, b, union(box, b))
        size = tg.where(begins != 0, 1, size + 1)
        count += begins
        # A cluster is overwritten until its last box.
        node = 2 * begin + count - 1
        leaf, cluster = box, box
        leaf[6], leaf[7] = tg.bitcast(size - 2 - i, tg.float32), tg.bitcast(size, tg.float32)
        tree.nodes[node], tree.sizes[node] = leaf, size
        cluster[6], cluster[7] = tg.bitcast(node, tg.float32), leaf[7]
        write_cluster(m, t, count - 1, cluster)
    return count


@tg.kernel
def merge_chunks(
    m: Merging,
    boxes: tg.array1d[VEC8],
    address: tg.uint64,
    keys,
    ids: tg.array1d[int],
    tree: BinaryTree,
    remaining: tg.array2d[VEC8],
    numbers: tg.array1d[int],
    threads: int,
):
    """Merge the boxes of each chunk, and write the remaining clusters, and their number. `address`: the address of the
    boxes."""
    t = tg.tid()
    for chunk in range(t, numbers.shape[0], threads):
        begin = chunk * CHUNK
        end = tg.min(begin + CHUNK, ids.shape[0])
        find_cells(m, t, keys, begin, end)
        count = load_cells(m, t, boxes, address, ids, begin, end, tree)
        count, _ = merge_clusters(m, t, count, KEPT, tree, 2 * begin + count)
        for k in range(count):
            remaining[chunk, k] = m.clusters[t, k]
        numbers[chunk] = count


@tg.kernel
def merge_rest(
    m: Merging,
    clusters: tg.array2d[VEC8],
    counts: tg.array1d[int],
    tree: BinaryTree,
    first: int,
    max_clusters: int,
    remaining: tg.array2d[VEC8],
    numbers: tg.array1d[int],
):
    """Merge the remaining clusters of adjacent chunks, of CHUNK // KEPT chunks per thread, until there are at most
    `max_clusters`. Write the nodes from index `first` on, with CHUNK indices per thread."""
    t = tg.tid()
    count = 0
    for chunk in range(t * (CHUNK // KEPT), tg.min((t + 1) * (CHUNK // KEPT), counts.shape[0])):
        for k in range(counts[chunk]):
            write_cluster(m, t, count, clusters[chunk, k])
            count += 1
    count, _ = merge_clusters(m, t, count, max_clusters, tree, first + t * CHUNK)
    for k in range(count):
        remaining[t, k] = m.clusters[t, k]
    numbers[t] = count
