"""Where things lie while a block runs: views of memory, array descriptors, and the scratch memory plan."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from tegula.codegen.lifetimes import lifetimes
from tegula.dataclass import dataclass, field
from tegula.passes.plan_memory import LINE, Interval, Plan, divided, plan_memory
from tegula.source import Location
from tegula.types import ElementType, components, element_shape, scalar_of

PAGE = 4096
STAGGER = 5 * LINE


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
        """Whether consecutive elements, row-major, are neighbours. A dimension of one element has any stride."""
        wanted = packed_strides(self.shape, components(self.dtype))
        fits = (n == 1 or a == b for n, a, b in zip(self.shape, self.strides, wanted, strict=True))
        return all(fits) and self.component_stride == 1


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


@dataclass(frozen=True, slots=True)
class PipeAt:
    """A pipe: addresses of its stages and of its counters (i64): tiles filled, then for each consumer tiles popped and
    released. `producers` and `consumers`: positions of roles."""

    name: str
    stages: str
    counters: str
    producers: tuple[int, ...]
    consumers: tuple[int, ...]


def packed_strides(shape: Sequence[int], unit: int) -> tuple[int, ...]:
    """Row-major strides, in scalars, of elements of `unit` scalars."""
    out: list[int] = []
    for n in reversed(shape):
        out.append(unit)
        unit *= n
    return tuple(reversed(out))


@dataclass(frozen=True, slots=True)
class Piece:
    """Scratch memory for `size` bytes at the address in the register `pointer`, made for `name` at `loc`."""

    pointer: str
    name: str
    size: int
    loc: Location


@dataclass(slots=True)
class Scratch:
    """The memory of one thread while it runs blocks. `places`: the source of what follows a line of the text. `held`:
    pieces that are in use up to a line, named or not. `inner`: pieces that are divided further."""

    pieces: list[Piece] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    inner: dict[str, Plan] = field(default_factory=dict)
    places: list[tuple[int, Location]] = field(default_factory=list)

    def resize(self, pointer: str, plan: Plan) -> None:
        """Give a piece the room that a plan needs, which divides it."""
        size = max(plan.total, LINE)
        self.pieces = [replace(p, size=size) if p.pointer == pointer else p for p in self.pieces]
        self.inner[pointer] = plan

    def planned(self, lines: list[str]) -> tuple[list[str], Plan]:
        """The instructions that compute the address of each piece which the function uses, and where all lie."""
        spans = lifetimes(lines, [p.pointer for p in self.pieces])
        for pointer, end in self.held.items():
            if pointer in spans:
                spans[pointer] = spans[pointer][0], max(spans[pointer][1], end)
        used = [p for p in self.pieces if p.pointer in spans]
        plan = plan_memory([self._interval(p, *spans[p.pointer]) for p in used])
        entry = [
            f"  {p.pointer} = getelementptr inbounds i8, ptr %scratch, i64 {at}"
            for p, at in zip(used, plan.offsets, strict=True)
        ]
        return entry, divided(
            plan, {k: self.inner[p.pointer] for k, p in enumerate(used) if p.pointer in self.inner}
        )

    def _interval(self, p: Piece, start: int, end: int) -> Interval:
        """Large pieces are staggered, so that tiles of a power of two in size do not fall on the same cache sets."""
        pad = STAGGER if p.size >= PAGE else 0
        return Interval(p.name, start, end, p.size, LINE, pad, p.loc, self._place(end - 1, p.loc))

    def _place(self, line: int, otherwise: Location) -> Location:
        at = bisect_right(self.places, line, key=lambda place: place[0])
        return self.places[at - 1][1] if at else otherwise


def register_bytes(dtype: ElementType) -> int:
    return scalar_of(dtype).bits // 8
