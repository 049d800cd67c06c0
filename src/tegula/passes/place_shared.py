"""Where each buffer and stack lies in the shared memory of a block."""

from __future__ import annotations

from dataclasses import dataclass

from tegula.ir import Kernel, Op, Value
from tegula.ops.buffer import BufNew, BufReshape, BufView
from tegula.ops.group import SharedProduct
from tegula.ops.stack import StackNew
from tegula.rewrite import uses
from tegula.source import Location
from tegula.types import BufType, StackType, components, element_bytes, scalar_of

ALIGNMENT = 128
PAD_BYTES = 16
BANKS_BYTES = 128


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of shared memory. `strides`: of the elements, in scalars. `name` and `loc`: whose they are, for errors."""

    offset: int
    size: int
    strides: tuple[int, ...]
    name: str
    loc: Location


def place_shared(kernel: Kernel) -> dict[Value, Place]:
    """A place for each buffer and stack of the kernel."""
    users = uses(kernel.body)
    places: dict[Value, Place] = {}
    top = 0
    for op in kernel.walk():
        if not isinstance(op, BufNew | StackNew):
            continue
        strides = _strides(op, users.get(op.result, []))
        size = _bytes(op, strides)
        places[op.result] = Place(top, size, strides, op.result.name or "tile", op.loc)
        top += -(-size // ALIGNMENT) * ALIGNMENT
    return places


def _strides(op: Op, users: list[tuple[Op, int]]) -> tuple[int, ...]:
    """Row-major; rows of product operands are padded, so that the rows that threads read together fall on different
    banks."""
    t = op.result.type
    if isinstance(t, StackType):
        return (components(t.dtype),)
    assert isinstance(t, BufType)
    unit = components(t.dtype)
    product = any(isinstance(user, SharedProduct) for user, _ in users)
    reshaped = any(isinstance(user, BufReshape | BufView) for user, _ in users)
    row = t.shape[-1] * element_bytes(t.dtype)
    pad = 0
    if (op.attrs.get("stages") or (product and not reshaped)) and row % (BANKS_BYTES // 4) == 0:
        pad = PAD_BYTES * 8 // scalar_of(t.dtype).bits
    strides = [unit]
    for d in reversed(range(1, len(t.shape))):
        strides.append(strides[-1] * t.shape[d] + (pad if d == len(t.shape) - 1 else 0))
    return tuple(reversed(strides))


def _bytes(op: Op, strides: tuple[int, ...]) -> int:
    t = op.result.type
    if isinstance(t, StackType):
        return COUNT_BYTES + t.capacity * element_bytes(t.dtype)
    assert isinstance(t, BufType)
    return strides[0] * t.shape[0] * scalar_of(t.dtype).bits // 8


COUNT_BYTES = 16
"""Before the elements of a stack: how many there are."""
