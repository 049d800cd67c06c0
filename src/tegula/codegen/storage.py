"""Where things lie while a block runs: views of memory, array descriptors, and the scratch memory plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tegula.source import Location
from tegula.types import ElementType, components, element_bytes, element_shape, scalar_of

LINE = 64
PAGE = 4096


@dataclass(frozen=True, slots=True)
class View:
    """Elements in memory. `strides` and `component_stride` count scalars; `pointer` is that of element 0."""

    pointer: str
    dtype: ElementType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    component_stride: int = 1

    @property
    def contiguous(self) -> bool:
        """Whether consecutive elements of the last dimension are consecutive scalars."""
        return element_shape(self.dtype) == () and (self.strides[-1] == 1 or self.shape[-1] == 1)

    @property
    def packed(self) -> bool:
        return (
            self.strides == packed_strides(self.shape, components(self.dtype)) and self.component_stride == 1
        )


@dataclass(frozen=True, slots=True)
class ArrayAt:
    """An array at run time: registers for its address, lengths (i64) and strides (i64 bytes). `contiguous`: the last
    dimension is known to be packed. `name` is the user's."""

    pointer: str
    dtype: ElementType
    shape: tuple[str, ...]
    strides: tuple[str, ...]
    contiguous: bool
    name: str = ""


def packed_strides(shape: Sequence[int], unit: int) -> tuple[int, ...]:
    """Row-major strides, in scalars, of elements of `unit` scalars."""
    out: list[int] = []
    for n in reversed(shape):
        out.append(unit)
        unit *= n
    return tuple(reversed(out))


@dataclass(slots=True)
class Placement:
    """One allocation, and the op that it is for: for `explain()` and errors."""

    name: str
    offset: int
    size: int
    loc: Location


@dataclass(slots=True)
class Scratch:
    """The memory of one thread while it runs blocks. Starts are 64-byte aligned and staggered, so that tiles of a power
    of two in size do not fall on the same cache sets."""

    placements: list[Placement] = field(default_factory=list)
    top: int = 0

    def place(self, name: str, dtype: ElementType, count: int, loc: Location) -> int:
        """Offset of `count` elements."""
        offset, size = self.top, element_bytes(dtype) * count
        self.placements.append(Placement(name, offset, size, loc))
        end = offset + size
        self.top = -(-end // LINE) * LINE
        if size >= PAGE:
            self.top += LINE * 5
        return offset


def register_bytes(dtype: ElementType) -> int:
    return scalar_of(dtype).bits // 8
