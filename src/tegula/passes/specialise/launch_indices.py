"""Analysis of the launch indices that values depend on."""

from __future__ import annotations

from collections.abc import Iterable

from tegula.ir import Carrier, Kernel, LoopLike, Region, Value
from tegula.ops.lane import Tid


def launch_indices(values: Iterable[Value]) -> set[int]:
    """The components of the thread index that any of the values depends on."""
    indices: set[int] = set()
    seen: set[Value] = set()
    queue = list(values)
    while queue:
        value = queue.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, Tid):
            indices.add(owner.results.index(value))
            continue
        op = owner.parent if isinstance(owner, Region) else owner
        if op is None:
            continue
        if not isinstance(op, Carrier):
            queue.extend(op.operands)
            continue
        queue += [v for carried in op.carried if value in carried.values for v in carried.values]
        queue += op.control_operands
    return indices


def indices_along(kernel: Kernel, dim: int) -> set[Value]:
    """The values that are the thread's index along dimension `dim` of the launch."""
    return {op.results[dim] for op in kernel.walk() if isinstance(op, Tid)}


def bounds_vary(kernel: Kernel) -> bool:
    """Whether trip counts of loops may differ between blocks."""
    return any(launch_indices(op.control_operands) for op in kernel.walk() if isinstance(op, LoopLike))
