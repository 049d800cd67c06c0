"""The block of arguments of a kernel, and the tensor maps at its end: which boxes of which arrays bulk copies move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.dataclass import dataclass
from tegula.ir import Kernel
from tegula.types import ArrayType, Type, element_bytes

BYTES, ALIGNMENT = 128, 64
"""Of an encoded tensor map."""

BITS = "bits"
"""Elements that copies do not look at."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A map of array parameter `parameter`. `box`: the elements of one copy along each of its dimensions, the first
    dimension first. `row_bytes`: of the swizzle, 0 for none. `elements`: what copies take them
    for: `BITS`, tf32, to which float32 is rounded on its way to shared memory, or the type in which they are added."""

    parameter: int
    box: tuple[int, ...]
    row_bytes: int
    elements: str = BITS


def argument_bytes(kernel: Kernel) -> int:
    """Bytes of the block of arguments: as the CPU's. Tensor maps follow it, aligned."""
    return sum(_bytes(p.type) for p in kernel.params) + 8 * (kernel.launch.ndim + 2)


def argument_place(kernel: Kernel, parameter: int) -> tuple[int, int]:
    """The bytes of one argument: the first, and the one after the last."""
    start = sum(_bytes(p.type) for p in kernel.params[:parameter])
    return start, start + _bytes(kernel.params[parameter].type)


def _bytes(t: Type) -> int:
    """An array takes its address, lengths and strides, a scalar or vector whole slots of 8 bytes."""
    return 8 * (1 + 2 * t.ndim) if isinstance(t, ArrayType) else -(-element_bytes(t) // 8) * 8  # type: ignore[arg-type]


def maps_at(kernel: Kernel) -> int:
    """Where the tensor maps start."""
    return -(-argument_bytes(kernel) // ALIGNMENT) * ALIGNMENT


def described_maps(
    kernel: Kernel, maps: Sequence[TensorMap], written: Sequence[int]
) -> Iterator[tuple[int, int, str, tuple[int, ...], int, bool]]:
    """What a launch needs of each map: where the array's descriptor starts and ends in the arguments, what its elements
    are for copies, the box, the bytes of a row, whether the array is `written`."""
    for m in maps:
        t = kernel.params[m.parameter].type
        assert isinstance(t, ArrayType)
        elements = f"uint{8 * element_bytes(t.dtype)}" if m.elements == BITS else m.elements
        place = argument_place(kernel, m.parameter)
        yield *place, elements, m.box, m.row_bytes, m.parameter in written
