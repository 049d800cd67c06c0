"""Values that a kernel stores to the memory of the thread, and reads again where they are used.

The accesses are volatile: LLVM would keep the value in registers, and would move reads out of loops."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.codegen.gpu.state import GpuState
from tegula.codegen.scalar import Components
from tegula.codegen.storage import View
from tegula.codegen.text import register_type
from tegula.ir import Op, Value
from tegula.ops.base import element
from tegula.ops.spill import Reload, Spill
from tegula.types import ElementType, bool_, components, scalar_of

MAX_BYTES = 16
"""The maximum size of an access."""


def spill_access(s: GpuState, op: Op) -> bool:
    """Lower a store of a value to the thread's memory, or a read of a stored value; False for all other ops."""
    if isinstance(op, Spill) and _takes_registers(s, op.x):
        s.scalars[op.result] = value = s.components(op.x)
        s.spilled[op.result] = memory = s.allocate("spill", element(op.x.type), ())
        _store(s, memory, value)
        return True
    if isinstance(op, Reload) and op.x in s.spilled:
        s.scalars[op.result] = _load(s, s.spilled[op.x])
        return True
    return False


def _takes_registers(s: GpuState, x: Value) -> bool:
    """Whether each thread needs registers for a value: threads share uniform values, and bools are predicates."""
    return s.known.varying(x) and scalar_of(element(x.type)) != bool_


def _parts(t: ElementType) -> Iterator[tuple[int, int, int]]:
    """The accesses to the components of an element: the first component of each, the number of components, a power of
    two, and the number of bytes."""
    begin, count, size = 0, components(t), scalar_of(t).bits // 8
    while begin < count:
        width = min(MAX_BYTES // size, 1 << ((count - begin).bit_length() - 1))
        yield begin, width, width * size
        begin += width


def _store(s: GpuState, view: View, value: Components) -> None:
    scalar = scalar_of(view.dtype)
    for begin, width, size in _parts(view.dtype):
        pointer, parts = s.memory.offset(view.pointer, str(begin), scalar), value[begin : begin + width]
        vector = parts[0] if width == 1 else s.memory.packed([(part,) for part in parts], scalar, width)[0]
        s.code.line(f"store volatile {register_type(scalar, width)} {vector}, ptr {pointer}, align {size}")


def _load(s: GpuState, view: View) -> Components:
    scalar, value = scalar_of(view.dtype), list[str]()
    for begin, width, size in _parts(view.dtype):
        pointer, t = s.memory.offset(view.pointer, str(begin), scalar), register_type(scalar, width)
        vector = s.code.emit(f"load volatile {t}, ptr {pointer}, align {size}")
        value += [vector] if width == 1 else [s.memory.lane(vector, scalar, width, k) for k in range(width)]
    return tuple(value)
