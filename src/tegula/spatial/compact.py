"""Compact nodes for rays on a GPU, written from the nodes of a hierarchy (tegula.stdlib.geometry.layout)."""

from __future__ import annotations

import tegula as tg
from tegula.spatial.boxes import AXIS_WORD, CHILD_WORD, NODE, UPPER_WORD, level_begin
from tegula.stdlib.geometry.layout import COMPACT_BYTES, COMPACT_CHILDREN, COMPACT_X, LEVELS, UNIT, WIDTH

COMPACT = COMPACT_BYTES // 4
"""The size of a compact node in 32-bit words."""
MAX_STEPS = 255
"""The maximum value of a bound in steps."""
ORIGIN_MARGIN, BOUND_MARGIN = 0.75, 0.375
"""The displacements of the origin and of bounds, in steps. The origin may be rounded by a fourth of a step. Of the
displacement of bounds rays need 255 * 2**-11 for the rounding of factors to float16 and 384 * 2**-11 for that of
addends, 0.3125 together; the rest covers roundings in float32."""
PER_STEP = 2.0 * (1.0 + 2.0**-20) / 253.0
"""The size of a step relative to half the size of a node: less than 253 steps leave room for the displacements."""
MIN_STEP, STEP_OF_MAGNITUDE = 2.0**-60, 2.0**-22
"""The minimum size of a step, and its minimum relative to the largest coordinate of the node."""
MIN_NORMAL = 2.0**-126
MAX_FINITE = (2.0 - 2.0**-23) * 2.0**127


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
    compact: tg.array1d[tg.uint16],
    compact_words: tg.array1d[int],
):
    """Write the compact nodes of a hierarchy, a node by eight adjacent threads, a child each. `nodes` and `words`: the
    floats and the integers of the nodes; `counts`: the numbers of nodes of the levels; `compact` and `compact_words`:
    the pairs of bytes and the integers of the compact nodes."""
    lane, nodes_at_once = tg.tid() % WIDTH, threads // WIDTH
    count = tg.uniform(level_begin(counts, LEVELS)) - 1
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
        half_size, magnitude = 0.0, 0.0
        for axis in tg.static(range(3)):
            lower[axis], upper[axis] = tg.max(lower[axis], -MAX_FINITE), tg.min(upper[axis], MAX_FINITE)
            if not lower[axis] <= upper[axis]:
                lower[axis], upper[axis] = 0.0, 0.0
            half_size = tg.max(half_size, 0.5 * upper[axis] - 0.5 * lower[axis])
            magnitude = tg.max(magnitude, tg.max(tg.abs(lower[axis]), tg.abs(upper[axis])))
        step = tg.max(tg.max(half_size * PER_STEP, magnitude * STEP_OF_MAGNITUDE), MIN_STEP)
        steps_per_unit = 1.0 / step
        own_word = tg.bitcast(tg.max(steps_per_unit * UNIT, MIN_NORMAL), tg.int32)
        for axis in tg.static(range(3)):
            origin = tg.max(lower[axis] - step * ORIGIN_MARGIN, -MAX_FINITE)
            own_word = tg.where(lane == axis, tg.bitcast(origin, tg.int32), own_word)
            begin, end = MAX_STEPS, 0
            if has_bounds:
                first = tg.max(steps_to(low[axis], origin, 2.0 * steps_per_unit, -BOUND_MARGIN), 0.0)
                last = steps_to(high[axis], origin, 2.0 * steps_per_unit, BOUND_MARGIN)
                begin = tg.int32(tg.floor(first))
                end = tg.int32(tg.ceil(tg.min(last, tg.float32(MAX_STEPS))))
            if index < count:
                at = target * 2 + tg.int64(COMPACT_X // 2 + axis * WIDTH + lane)
                compact[at] = tg.uint16(begin | (end << 8))
        if index < count:
            if lane < 4:
                compact_words[target + tg.int64(lane)] = own_word
            for k in tg.static(range(2)):
                at = target + COMPACT_CHILDREN // 4 + k * WIDTH + tg.int64(lane)
                compact_words[at] = words[row + CHILD_WORD + k * WIDTH]
