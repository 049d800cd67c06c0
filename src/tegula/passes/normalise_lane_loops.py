"""Normalises loops that start at the lane index with the number of lanes as step: they start at 0, and their body adds
the lane index. The trip count is then uniform over the block, and the loop may contain cooperative ops.

`range(lane, stop, n)` with 0 <= lane < n has ceil((stop - lane) / n) iterations: stop / n for each lane, if n divides
stop, and none for a stop at or below 0. n must be a power of two: then multiples stay multiples where integers
wrap."""

from __future__ import annotations

from tegula.deferred import deferred_imports
from tegula.ir import ConstantLike, Kernel
from tegula.ops.control import For
from tegula.ops.scalar import Add, Const
from tegula.passes.runner import Compilation
from tegula.passes.uniformity import analyse, begins_at_lane

with deferred_imports():
    from tegula.passes.divisors import divides


def normalise_lane_loops(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place."""
    loops = [
        loop
        for loop in kernel.walk()
        if begins_at_lane(loop, kernel.launch) and _has_uniform_trip_count(loop, kernel)
    ]
    if loops:
        uniformity = analyse(kernel)
        for loop in loops:
            if not uniformity.varying(loop.stop):
                _start_at_0(loop)


def _has_uniform_trip_count(loop: For, kernel: Kernel) -> bool:
    """Whether a loop that starts at the lane index has the number of lanes, or a larger power of two, as step, and a
    multiple of the step as end."""
    step = loop.step.owner
    if not isinstance(step, ConstantLike):
        return False
    n = step.value
    return n >= kernel.launch.block_dim and n & (n - 1) == 0 and divides(n, loop.stop)


def _start_at_0(loop: For) -> None:
    """Make a loop start at 0, with the old start added in its body."""
    lane, index = loop.start, loop.index
    zero = Const.typed([], {"value": 0, "type": lane.type}, loc=loop.loc)
    shifted_index = Add.typed([index, lane], loc=loop.loc)
    shifted_index.result.name = index.name
    for op in loop.body.walk():
        op.substitute({index: shifted_index.result})
    region = loop.parent
    assert region is not None
    zero.parent, shifted_index.parent = region, loop.body
    region.ops.insert(region.ops.index(loop), zero)
    loop.body.ops.insert(0, shifted_index)
    loop.start = zero.result
