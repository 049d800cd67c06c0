"""Which launch indices a value is computed from."""

from __future__ import annotations

from collections.abc import Iterable

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.control import For, If, While
from tegula.ops.lane import Tid
from tegula.rewrite import carried_slots


def launch_indices(values: Iterable[Value]) -> set[int]:
    """The components of the thread index that any of the values depends on."""
    found: set[int] = set()
    seen: set[Value] = set()
    queue = list(values)
    while queue:
        value = queue.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, Tid):
            found.add(owner.results.index(value))
            continue
        op = owner.parent if isinstance(owner, Region) else owner
        if op is None:
            continue
        slots = carried_slots(op) if isinstance(op, For | If | While) else None
        if slots is None:
            queue += op.operands
            continue
        queue += [v for slot in slots if value in slot for v in slot]
        queue += _decides(op)
    return found


def bounds_vary(kernel: Kernel) -> bool:
    """Whether blocks differ in how often their loops run."""
    loops = [op for op in kernel.walk() if isinstance(op, For | While)]
    return any(launch_indices(_decides(op)) for op in loops)


def _decides(op: Op) -> list[Value]:
    if isinstance(op, For):
        return op.operands[:3]
    return op.operands[:1] if isinstance(op, If) else op.regions[0].terminator.operands
