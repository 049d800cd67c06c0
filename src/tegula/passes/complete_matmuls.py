"""Makes asynchronous matmuls synchronous and drops their waits, for targets without asynchronous matmuls."""

from __future__ import annotations

from tegula.ir import Kernel, Value
from tegula.ir.rewrite import replace, walk_regions
from tegula.ops.linear import TileMatmulWait, in_flight
from tegula.passes.runner import Compilation


def complete_matmuls(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place: the result has neither asynchronous matmuls nor waits for matmuls."""
    replacements: dict[Value, Value] = {}
    for region in walk_regions(kernel.body):
        for op in region.ops:
            if isinstance(op, TileMatmulWait):
                replacements.update(zip(op.results, op.sums, strict=True))
            elif in_flight(op):
                del op.wait
        region.ops = [op for op in region.ops if not isinstance(op, TileMatmulWait)]
    replace(kernel.body, replacements)
