"""The storage of values during a block: views of memory, array descriptors, and the plan of scratch memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tegula.dataclass import dataclass, field
from tegula.deferred import deferred_imports
from tegula.ir import Kernel, Value
from tegula.passes.plan_memory import CACHE_LINE, Interval, MemoryMap, plan_memory, subdivide
from tegula.source import Location
from tegula.types import ArrayType, ElementType, components, element_bytes, element_shape, scalar_of

with deferred_imports():
    from tegula.codegen.lifetimes import lifetimes

PAGE = 4096
STAGGER = 5 * CACHE_LINE
"""The padding in bytes of pieces of at least a page."""


@dataclass(frozen=True, slots=True)
class View:
    """Elements in memory. `strides` and `component_stride` count scalars; `pointer` is the address of element 0."""

    pointer: str
    dtype: ElementType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    component_stride: int = 1

    def at(self, memory: Any, index: Sequence[str]) -> str:
        """The address of an element. `memory`: the emitter of address arithmetic."""
        total, constant, scalar = "0", 0, scalar_of(self.dtype)
        for coordinate, stride in zip(index, self.strides, strict=True):
            variable, constant_part = memory.separated_constant(coordinate)
            total, constant = (
                memory.add(total, memory.mul(variable, str(stride))),
                constant + constant_part * stride,
            )
        return memory.offset(memory.offset(self.pointer, total, scalar), str(constant), scalar)

    def sliced(self, memory: Any, starts: Sequence[str], attrs: Mapping[str, Any]) -> View:
        """The slice of the view that a `buf.view` with these attributes selects."""
        pointer = self.at(memory, starts)
        strides = tuple(
            self.strides[d] * step if d >= 0 else 0
            for d, step in zip(attrs["dims"], attrs["steps"], strict=True)
        )
        return View(pointer, self.dtype, tuple(attrs["shape"]), strides, self.component_stride)

    @property
    def contiguous(self) -> bool:
        """Whether consecutive elements of the last dimension are consecutive scalars."""
        return element_shape(self.dtype) == () and (self.strides[-1] == 1 or self.shape[-1] == 1)

    @property
    def adjacent(self) -> bool:
        """Whether consecutive elements of the last dimension are adjacent in memory."""
        count = components(self.dtype)
        return (self.strides[-1] == count or self.shape[-1] == 1) and (
            count == 1 or self.component_stride == 1
        )

    @property
    def packed(self) -> bool:
        """Whether the elements are adjacent in row-major order. Strides of dimensions of length 1 are ignored."""
        packed = packed_strides(self.shape, components(self.dtype))
        matches = (n == 1 or a == b for n, a, b in zip(self.shape, self.strides, packed, strict=True))
        return all(matches) and self.component_stride == 1


@dataclass(frozen=True, slots=True)
class SwizzledView(View):
    """A view of a buffer of two-dimensional stages. `root`: the shape of the whole buffer (stages, rows, columns). Each
    stage is divided into consecutive boxes with rows of `row_bytes`; the 16-byte units of a row are permuted by the row
    index. Element e is the root's element starts[d] + sum of e_k * steps_k over k with dims[k] = d. The strides only
    determine which elements may be accessed together."""

    root: tuple[int, int, int] = (1, 1, 1)
    row_bytes: int = 128
    starts: tuple[str, ...] = ("0", "0", "0")
    dims: tuple[int, ...] = (0, 1, 2)
    steps: tuple[int, ...] = (1, 1, 1)

    def at(self, memory: Any, index: Sequence[str]) -> str:
        coordinates = self._root(memory, index)
        _, rows, columns = self.root
        size, row = element_bytes(self.dtype), self.row_bytes
        line, constant = memory.separated_constant(coordinates[1])
        if constant * row % (row // 16 * SWIZZLE_LINE_BYTES) == 0:
            coordinates[1], constant = line, constant * row
        else:
            constant = 0
        byte = memory.mul(coordinates[2], str(size))
        offset = memory.add(byte, memory.mul(coordinates[1], str(row)))
        if columns * size > row:
            box = memory.quotient(byte, row)
            offset = memory.add(offset, memory.mul(box, str((rows - 1) * row)))
        offset = memory.add(offset, memory.mul(coordinates[0], str(rows * columns * size)))
        address = memory.bytes_offset(self.pointer, memory.swizzled(offset, row))
        return memory.bytes_offset(address, str(constant))

    def sliced(self, memory: Any, starts: Sequence[str], attrs: Mapping[str, Any]) -> SwizzledView:
        shape = tuple(attrs["shape"])
        dims = tuple(self.dims[d] if d >= 0 else -1 for d in attrs["dims"])
        steps = tuple(
            self.steps[d] * n if d >= 0 else 0 for d, n in zip(attrs["dims"], attrs["steps"], strict=True)
        )
        root_starts = tuple(self._root(memory, starts))
        is_adjacent = dims[-1] == 2 and steps[-1] == 1 and root_starts[2] == "0"
        strides = (*(FAR,) * (len(shape) - 1), 1 if is_adjacent else FAR)
        mapping = (self.root, self.row_bytes, root_starts, dims, steps)
        return SwizzledView(self.pointer, self.dtype, shape, strides, 1, *mapping)

    def _root(self, memory: Any, index: Sequence[str]) -> list[str]:
        coordinates = list(self.starts)
        for i, d, step in zip(index, self.dims, self.steps, strict=True):
            if d >= 0:
                coordinates[d] = memory.add(coordinates[d], memory.mul(i, str(step)))
        return coordinates


SWIZZLE_LINE_BYTES = 128
"""The size in bytes of a line of shared memory, whose 16-byte units a swizzle permutes in the same way."""
FAR = 1 << 20
"""The stride of a dimension whose elements cannot be accessed together."""


@dataclass(frozen=True, slots=True)
class ArrayDescriptor:
    """The registers of an array: its address, lengths (i64) and strides (i64 bytes; a literal if the stride is known).
    `name`: the user's name."""

    pointer: str
    dtype: ElementType
    shape: tuple[str, ...]
    strides: tuple[str, ...]
    name: str = ""

    @property
    def contiguous(self) -> bool:
        """Whether elements along the last dimension are known to be adjacent."""
        return self.strides[-1] == str(element_bytes(self.dtype))


def strides_of(kernel: Kernel, array: Value, load: Callable[[int], str]) -> tuple[str, ...]:
    """The strides of a parameter: a literal if the stride is known, else the register that `load` returns."""
    t, access = array.type, kernel.access[kernel.params.index(array)]
    assert isinstance(t, ArrayType)
    unit = None if access is None else access.unit_dimension(t.ndim)
    return tuple(str(element_bytes(t.dtype)) if d == unit else load(d) for d in range(t.ndim))


@dataclass(frozen=True, slots=True)
class PipeDescriptor:
    """The registers of a pipe: the addresses of its stages and of its counters (i64: tiles filled, then for each
    consumer tiles popped and tiles released). `producers` and `consumers`: positions of roles."""

    name: str
    stages: str
    counters: str
    producers: tuple[int, ...]
    consumers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BarrierDescriptor:
    """The register of barriers: the address of their stages, of three i64 each: the phase, the pending arrivals, and
    the pending transaction bytes. `arrivals`: the number of arrivals that complete a phase; `roles`: the positions of
    the roles that arrive."""

    name: str
    stages: str
    arrivals: int
    roles: tuple[int, ...]


def packed_strides(shape: Sequence[int], unit: int) -> tuple[int, ...]:
    """Row-major strides, in scalars, of elements of `unit` scalars."""
    out: list[int] = []
    for n in reversed(shape):
        out.append(unit)
        unit *= n
    return tuple(reversed(out))


MAX_STACK_PIECE, STACK_BYTES = 1024, 1 << 16
"""The maximum size of a piece on the stack, and of all pieces on the stack together, in bytes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Scratch memory of `size` bytes at the address in register `pointer`, allocated for `name` at `loc`.
    `line_count`: the number of lines of the function at the allocation; `is_written`: whether all elements are written
    before they are read."""

    pointer: str
    name: str
    size: int
    loc: Location
    line_count: int
    is_written: bool = True


@dataclass(slots=True)
class ThreadScratch:
    """The scratch memory of one thread while it runs blocks. `line_locations`: pairs of a line number of the function
    and the source location of the lines from this number on, in ascending order. `min_ends`: for each piece with uses
    that the text does not show, the line up to which its live range extends at least. `subplans`: the plans of
    subdivided pieces."""

    pieces: list[Piece] = field(default_factory=list)
    min_ends: dict[str, int] = field(default_factory=dict)
    subplans: dict[str, MemoryMap] = field(default_factory=dict)
    line_locations: list[tuple[int, Location]] = field(default_factory=list)

    def resize(self, pointer: str, plan: MemoryMap) -> None:
        """Set the size of a piece to the size of its subdivision's plan."""
        size = max(plan.total, CACHE_LINE)
        self.pieces = [replace(p, size=size) if p.pointer == pointer else p for p in self.pieces]
        self.subplans[pointer] = plan

    def planned(self, lines: list[str], stack_bytes: int = 0) -> tuple[list[str], MemoryMap]:
        """The instructions that compute the address of each piece that the function uses, and the plan of the pieces
        in scratch memory. Small pieces, of `stack_bytes` together, are on the stack instead. Stores that nothing reads
        become empty lines."""
        kept = {*self.min_ends, *self.subplans}
        spans = lifetimes(lines, {p.pointer: p.line_count for p in self.pieces}, kept)
        for pointer, end in self.min_ends.items():
            if pointer in spans:
                spans[pointer] = spans[pointer][0], max(spans[pointer][1], end)
        on_stack = self._on_stack(spans, stack_bytes)
        used = [p for p in self.pieces if p.pointer in spans and p.pointer not in on_stack]
        plan = plan_memory([self._interval(p, *spans[p.pointer]) for p in used])
        entry = [
            f"  {p.pointer} = getelementptr inbounds i8, ptr %scratch, i64 {at}"
            for p, at in zip(used, plan.offsets, strict=True)
        ]
        entry += [
            f"  {pointer} = alloca [{size} x i8], align {CACHE_LINE}" for pointer, size in on_stack.items()
        ]
        return entry, subdivide(
            plan, {k: self.subplans[p.pointer] for k, p in enumerate(used) if p.pointer in self.subplans}
        )

    def _on_stack(self, used: Container[str], stack_bytes: int) -> dict[str, int]:
        """The address and size of each piece on the stack, where LLVM replaces the piece by registers if all accesses
        are at constant offsets. The smallest pieces come first. Elements that may be read before they are written stay
        in scratch memory, because LLVM assumes that no branch depends on such elements of the stack."""
        on_stack: dict[str, int] = {}
        for p in sorted(self.pieces, key=lambda piece: piece.size):
            stack_bytes -= -(-p.size // CACHE_LINE) * CACHE_LINE if p.pointer in used else 0
            if p.size > MAX_STACK_PIECE or stack_bytes < 0:
                break
            if (
                p.pointer in used
                and p.is_written
                and not (p.pointer in self.min_ends or p.pointer in self.subplans)
            ):
                on_stack[p.pointer] = p.size
        return on_stack

    def _interval(self, p: Piece, start: int, end: int) -> Interval:
        """The live interval of a piece. Large pieces are staggered, so that tiles whose size is a power of two do not
        map to the same cache sets."""
        pad = STAGGER if p.size >= PAGE else 0
        return Interval(
            p.name, start, end, p.size, CACHE_LINE, pad, p.loc, self._location_of_line(end - 1, p.loc)
        )

    def _location_of_line(self, line: int, default: Location) -> Location:
        """The source location of a line of the function; `default` before the first recorded location."""
        position = bisect_right(self.line_locations, line, key=lambda entry: entry[0])
        return self.line_locations[position - 1][1] if position else default
