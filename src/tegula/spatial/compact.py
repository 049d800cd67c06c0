"""Compact nodes for rays on a GPU, written from the nodes of a hierarchy (tegula.stdlib.geometry.layout)."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import AXIS_WORD, CHILD_WORD, NODE, UPPER_WORD, level_begin
from tegula.stdlib.geometry.layout import COMPACT_BYTES, COMPACT_CHILDREN, COMPACT_Z, HALF, LEVELS, WIDTH

COMPACT = COMPACT_BYTES // 4
"""The size of a compact node in 32-bit words."""
MAX_STEPS = 255
"""The maximum value of a bound in steps."""
PER_STEP = 2.0 * (1.0 + 2.0**-20) / 254.0
"""The size of a step of the grid, relative to half the size of a node, before it is rounded up to a power of two: less
than 255 steps, so that there is room for the margins."""
BYTE_MARGIN = 1.0 / 64.0
"""The displacement of bounds in steps, which covers the rounding of distances in steps."""
ORIGIN_MARGIN = 1.0 / 16.0
"""The displacement of the origin in steps."""
MAX_FINITE = (2.0 - 2.0**-23) * 2.0**127


@tg.func
def exponent_of_step(lower: float, upper: float):
    """The exponent, as in a float32, of the steps of a grid that covers an interval."""
    step = (0.5 * upper - 0.5 * lower) * PER_STEP
    return tg.max(tg.int32((tg.bitcast(step, tg.uint32) + tg.uint32(0x7FFFFF)) >> tg.uint32(23)), 1)


@tg.func
def steps_to(bound: float, origin: float, steps_per_two: float, margin: float):
    """The number of steps from the origin to a displaced bound."""
    return (0.5 * bound - 0.5 * origin) * steps_per_two + margin


@tg.kernel
def write_compact(
    nodes: tg.array1d[float],
    words: tg.array1d[int],
    counts: tg.array1d[int],
    threads: int,
    compact: tg.array1d[tg.uint8],
    compact_words: tg.array1d[int],
):
    """Write the compact nodes of a hierarchy, a node by eight adjacent threads, a child each. `nodes` and `words`: the
    floats and the integers of the nodes; `counts`: the numbers of nodes of the levels; `compact` and `compact_words`:
    the bytes and the integers of the compact nodes."""
    lane, nodes_at_once = tg.tid() % WIDTH, threads // WIDTH
    count = tg.uniform(level_begin(counts, LEVELS)) - 1
    half, column = lane // 4, lane % 4
    for iteration in range((count + nodes_at_once - 1) // nodes_at_once):
        index = iteration * nodes_at_once + tg.tid() // WIDTH
        node = 1 + tg.min(index, count - 1)
        row, target = tg.int64(node) * NODE + tg.int64(lane), tg.int64(node) * COMPACT
        low, high = tg.vec3(), tg.vec3()
        for axis in tg.static(range(3)):
            low[axis], high[axis] = nodes[row + axis * AXIS_WORD], nodes[row + UPPER_WORD + axis * AXIS_WORD]
        has_bounds = low[0] <= high[0] and low[1] <= high[1] and low[2] <= high[2]
        lower, upper = tg.vec3(tg.inf, tg.inf, tg.inf), tg.vec3(-tg.inf, -tg.inf, -tg.inf)
        if has_bounds:
            lower, upper = low, high
        lower, upper = tg.lane_min(lower, WIDTH), tg.lane_max(upper, WIDTH)
        exponents, own_word = 0, 0
        for axis in tg.static(range(3)):
            begin_of_node, end_of_node = tg.max(lower[axis], -MAX_FINITE), tg.min(upper[axis], MAX_FINITE)
            if not begin_of_node <= end_of_node:
                begin_of_node, end_of_node = 0.0, 0.0
            exponent = exponent_of_step(begin_of_node, end_of_node)
            step = tg.bitcast(exponent << 23, tg.float32)
            steps_per_two = 2.0 / step
            origin = tg.max(begin_of_node - step * ORIGIN_MARGIN, -MAX_FINITE)
            exponents = exponents | (exponent << (8 * axis))
            own_word = tg.where(lane == axis, tg.bitcast(origin, tg.int32), own_word)
            begin, end = MAX_STEPS, 0
            if has_bounds:
                first = tg.max(steps_to(low[axis], origin, steps_per_two, -BYTE_MARGIN), 0.0)
                last = tg.min(steps_to(high[axis], origin, steps_per_two, BYTE_MARGIN), tg.float32(MAX_STEPS))
                begin, end = tg.int32(tg.floor(first)), tg.int32(tg.ceil(last))
            if index < count:
                offset = HALF + 8 * axis + 2 * HALF * half
                if axis == 2:
                    offset = COMPACT_Z + HALF // 2 * half
                at = target * 4 + tg.int64(offset + column)
                compact[at], compact[at + 4] = tg.uint8(begin), tg.uint8(end)
        if index < count:
            if lane < 4:
                compact_words[target + tg.int64(lane)] = tg.where(lane == 3, exponents, own_word)
            for k in tg.static(range(2)):
                at = target + COMPACT_CHILDREN // 4 + k * WIDTH + tg.int64(lane)
                compact_words[at] = words[row + CHILD_WORD + k * WIDTH]
