"""The argument block of a kernel, and the tensor maps at its end, which describe the boxes that bulk copies move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.dataclass import dataclass
from tegula.ir import Kernel
from tegula.types import ArrayType, Type, element_bytes

BYTES, ALIGNMENT = 128, 64
"""Size and alignment of an encoded tensor map, in bytes."""

BITS = "bits"
"""The element type of copies that do not interpret the elements."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map of array parameter `parameter`. `box`: the shape that one copy moves, in elements, first dimension
    first. `row_bytes`: the width of the swizzle in bytes, 0 for none. `elements`: the element type of copies: `BITS`
    (uninterpreted), tf32 (the copy to shared memory rounds float32 to tf32), or the type in which a reducing store
    adds."""

    parameter: int
    box: tuple[int, ...]
    row_bytes: int
    elements: str = BITS


def argument_bytes(kernel: Kernel) -> int:
    """The size of the argument block in bytes, laid out as on the CPU. Aligned tensor maps follow the block."""
    return sum(_bytes(p.type) for p in kernel.params) + 8 * (kernel.launch.ndim + 2)


def argument_range(kernel: Kernel, parameter: int) -> tuple[int, int]:
    """The byte range of one argument in the argument block: its start and its end (exclusive)."""
    start = sum(_bytes(p.type) for p in kernel.params[:parameter])
    return start, start + _bytes(kernel.params[parameter].type)


def _bytes(t: Type) -> int:
    """The size of an argument: an array takes 8 bytes each for its address, lengths and strides, a scalar or vector
    whole 8-byte slots."""
    return 8 * (1 + 2 * t.ndim) if isinstance(t, ArrayType) else -(-element_bytes(t) // 8) * 8  # type: ignore[arg-type]


def maps_offset(kernel: Kernel) -> int:
    """The byte offset of the first tensor map from the start of the argument block."""
    return -(-argument_bytes(kernel) // ALIGNMENT) * ALIGNMENT


def described_maps(
    kernel: Kernel, maps: Sequence[TensorMap], written: Sequence[int]
) -> Iterator[tuple[int, int, str, tuple[int, ...], int, bool]]:
    """The data from which a launch encodes each map: the begin and end of the array's descriptor in the arguments, the
    element type of copies, the box, the swizzle width in bytes, the parameter, and whether the array is `written`."""
    for m in maps:
        t = kernel.params[m.parameter].type
        assert isinstance(t, ArrayType)
        elements = f"uint{8 * element_bytes(t.dtype)}" if m.elements == BITS else m.elements
        position = argument_range(kernel, m.parameter)
        yield *position, elements, m.box, m.row_bytes, m.parameter in written
