"""The state of the lowering of one kernel to GPU threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from tegula.codegen.gpu.maps import TensorMap
from tegula.codegen.gpu.memory import GpuMemory
from tegula.codegen.scalar import Components
from tegula.codegen.state import State
from tegula.codegen.storage import View, packed_strides
from tegula.codegen.text import constant, register_type
from tegula.dataclass import dataclass, field
from tegula.ir import Synchronising, Value
from tegula.layout import COPY, Layout, Mode
from tegula.ops.roles import WARP
from tegula.passes.groups import Group
from tegula.passes.place_shared import SharedAllocation
from tegula.target import CudaTarget
from tegula.types import ElementType, TileType, components, element_bytes, scalar_of

if TYPE_CHECKING:
    from tegula.codegen.gpu.lines import LineTable

Registers: TypeAlias = list[Components]
"""A thread's registers of a tile: for each register of the layout, the components of its element."""


@dataclass(slots=True)
class GpuState(State):
    """The state of the lowering of one GPU kernel. `layouts`: the layouts of all tile values. `places`: the allocations
    of buffers in shared memory. `group`: the threads that run the current code, of which `lanes` have a lane. `held`:
    the registers of tiles. `barriers`: the addresses of mbarriers. `named`: the numbers of named barriers. `maps`: the
    tensor maps of the kernel, in order. `start_registers`: the initial registers per thread if roles change them, and
    `budgets`: the registers per thread of each warp group afterwards. `clustered`: whether CTAs form 2-CTA clusters.
    `numbers`: the numbers of synchronising ops; `noted`: the comment that is attached to the instructions of the
    current op. `line_table`: set if the code records Python lines. `depth`: the nesting depth of code that only some
    threads of a warp run; `diverged`: whether the threads may still be diverged. `lane`: the index of the thread in the
    group; `lane32`: the same index as i32."""

    layouts: dict[Value, Layout] = field(default_factory=dict)
    places: dict[Value, SharedAllocation] = field(default_factory=dict)
    group: Group = Group(0, 1)
    lanes: int = 32
    held: dict[Value, Registers] = field(default_factory=dict)
    stored: dict[Value, Value] = field(default_factory=dict)
    """The vectors in the thread's memory, which have no registers, each with the representative of the vectors that
    share an array."""
    spilled: dict[Value, View] = field(default_factory=dict)
    """The memory of the thread that holds the result of a `lane.spill`."""
    vector_arrays: dict[Value, View] = field(default_factory=dict)
    """The arrays of vectors, by representative."""
    bases: dict[tuple[int, tuple[Mode, ...]], list[str]] = field(default_factory=dict)
    together: int = 1
    """The maximum number of warps of a CTA that run separate blocks."""
    block_lanes: int = WARP
    """The number of lanes of each block, if several blocks share a warp."""
    part_bytes: int = 0
    """The bytes of shared memory of each block, if several blocks share a CTA."""
    loops: list[str] = field(default_factory=list)
    repeated: int = 0
    """The lines of code that unrolling adds."""
    barriers: dict[Value, str] = field(default_factory=dict)
    named: dict[Value, int] = field(default_factory=dict)
    maps: list[TensorMap] = field(default_factory=list)
    start_registers: int = 0
    budgets: tuple[int, ...] = ()
    line_table: LineTable | None = None
    lane32: str = "%lane32"
    frame: list[str] = field(default_factory=list)
    clustered: bool = False
    depth: int = 0
    diverged: bool = False
    numbers: dict[Synchronising, int] = field(default_factory=dict)
    noted: str = ""

    def __post_init__(self) -> None:
        State.__post_init__(self)
        self.memory = GpuMemory(self.code)

    @property
    def gpu(self) -> CudaTarget:
        """The GPU target."""
        assert isinstance(self.target, CudaTarget)
        return self.target

    @contextmanager
    def of_group(self, group: Group) -> Iterator[None]:
        """A context for code of a group of the block's threads. The threads of the group are numbered from 0, and
        values that are computed once are computed at the start of the code."""
        code = self.code
        saved = self.group, self.lanes, self.lane, self.lane32, self.present, self.bases, code.entry
        start = len(code.lines)
        code.entry = []
        self.group, self.lanes, self.present, self.bases = group, group.threads, str(group.threads), {}
        self.lane32 = self.first(f"sub i32 {saved[3]}, {group.first * 32}")
        self.lane = self.first(f"zext nneg i32 {self.lane32} to i64")
        yield
        code.lines[start:start] = code.entry
        self.group, self.lanes, self.lane, self.lane32, self.present, self.bases, code.entry = saved

    @contextmanager
    def conditional_code(self) -> Iterator[None]:
        """A context for code that does not run on every path to later code, which cannot use its results."""
        saved = dict(self.in_bounds)
        yield
        self.in_bounds = saved

    @contextmanager
    def divergent_code(self) -> Iterator[None]:
        """A context for divergent code of a warp."""
        self.depth += 1
        yield
        self.depth -= 1
        self.diverged = True

    @contextmanager
    def rematerialised(self) -> Iterator[None]:
        """A context in which values derived from the thread index are rematerialised, so that they are not live
        outside."""
        code = self.code
        saved = self.lane, self.lane32, self.bases, code.entry
        self.lane32 = code.emit(f'call i32 asm sideeffect "mov.u32 $0, $1;", "=r,r"(i32 {self.lane32})')
        self.lane, self.bases = code.emit(f"zext nneg i32 {self.lane32} to i64"), {}
        start, code.entry = len(code.lines), []
        yield
        code.lines[start:start] = code.entry
        self.lane, self.lane32, self.bases, code.entry = saved

    @property
    def warp_group(self) -> str:
        """The index of the thread's warp group in the group, i32, shuffled from lane 0 of the warp, so that ptxas knows
        that it is warp-uniform."""
        key = (-2, ())
        if key not in self.bases:
            warp = self.first(f"lshr i32 {self.lane32}, 5")
            first_lane = self.first(
                f"call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 {warp}, i32 0, i32 31)"
            )
            self.bases[key] = [self.first(f"lshr i32 {first_lane}, 2")]
        return self.bases[key][0]

    # The function's entry --------------------------------------------------------------------------------------------

    def first(self, rhs: str) -> str:
        """A register that is computed once, in the function's entry."""
        name = self.code.fresh("e")
        self.code.entry.append(f"  {name} = {rhs}")
        return name

    def first_wide(self, rhs: str) -> str:
        """A non-negative i32 that is computed once, in the function's entry, and zero-extended to i64."""
        return self.first(f"zext nneg i32 {self.first(rhs)} to i64")

    def allocate(self, name: str, dtype: ElementType, shape: tuple[int, ...]) -> View:
        """Memory that is private to the thread (an alloca)."""
        count = 1
        for n in shape:
            count *= n
        pointer = self.code.fresh("e")
        line = f"  {pointer} = alloca [{count * element_bytes(dtype)} x i8], align 16"
        # Of the variable that comes first the address is the stack pointer, which needs no further register.
        self.frame.insert(0 if name == "vector" else len(self.frame), line)
        return View(pointer, dtype, shape, packed_strides(shape, components(dtype)))

    def shared(self, value: Value) -> str:
        """The address of a buffer or stack in shared memory."""
        allocation = self.places[value]
        return self.first(f"getelementptr inbounds i8, ptr %shared, i64 {allocation.offset}")

    def length(self) -> int:
        """The lines of code so far, with the lines of unrolled loops repeated for each iteration."""
        return len(self.code.lines) + self.repeated

    def rolled(self, short: bool = False) -> str:
        """The unrolling metadata of a loop's back edge: short loops are unrolled completely and other loops not at all,
        because ptxas unrolls them incorrectly (docs/design/004)."""
        self.loops.append("full" if short else "disable")
        return f", !llvm.loop !{2 * len(self.loops)}"

    def loop_metadata(self) -> str:
        """The LLVM metadata that control the unrolling of loops."""
        lines: list[str] = []
        for k, metadata in enumerate(self.loops, 1):
            lines.append(f"!{2 * k} = distinct !{{!{2 * k}, !{2 * k + 1}}}")
            lines.append(f'!{2 * k + 1} = !{{!"llvm.loop.unroll.{metadata}"}}')
        return "\n".join(lines) + "\n"

    # Layouts ---------------------------------------------------------------------------------------------------------

    def base(self, layout: Layout) -> list[str]:
        """The coordinates of this thread's register 0, one i64 per dimension."""
        key = (len(layout.shape), layout.threads)
        if key not in self.bases:
            self.bases[key] = self._base(*key)
        return self.bases[key]

    def _base(self, rank: int, modes: tuple[Mode, ...]) -> list[str]:
        terms: list[list[str]] = [[] for _ in range(rank)]
        period = 1
        for mode in modes:
            if mode.dim != COPY:
                digit = self.digit(period, mode.size)
                step = digit if mode.stride == 1 else self.first(f"mul nuw nsw i32 {digit}, {mode.stride}")
                terms[mode.dim].append(step)
            period *= mode.size
        return [self._sum(t) for t in terms]

    def digit(self, period: int, size: int) -> str:
        """(thread / period) mod size, i32."""
        quotient = self.lane32
        if period > 1:
            quotient = self.first(f"udiv i32 {quotient}, {period}")
        return quotient if period * size == self.threads else self.first(f"urem i32 {quotient}, {size}")

    def _sum(self, terms: list[str]) -> str:
        if not terms:
            return "0"
        total = terms[0]
        for term in terms[1:]:
            total = self.first(f"add nuw nsw i32 {total}, {term}")
        return self.first(f"zext nneg i32 {total} to i64")

    def owner(self, layout: Layout) -> str:
        """An i1 that is true in the owner among the threads that hold copies of the same elements."""
        key = (-1, layout.threads)
        if key not in self.bases:
            ok, period = "true", 1
            for mode in layout.threads:
                if mode.dim == COPY:
                    test = self.first(f"icmp eq i32 {self.digit(period, mode.size)}, 0")
                    ok = test if ok == "true" else self.first(f"and i1 {ok}, {test}")
                period *= mode.size
            self.bases[key] = [ok]
        return self.bases[key][0]

    def index(self, layout: Layout, register: int) -> list[str]:
        """The coordinates of the element in a register."""
        pairs = zip(self.base(layout), layout.register_offsets(register), strict=True)
        return [self.memory.add(a, str(b)) for a, b in pairs]

    def within_tile(self, layout: Layout, register: int, dims: Iterable[int]) -> bool:
        """Whether the coordinates of the element in a register along `dims` are within the tile in all threads."""
        offsets = layout.register_offsets(register)
        return all(self._max_coordinate(layout, d, offsets[d]) < layout.shape[d] for d in dims)

    def holds(self, layout: Layout, register: int, over_lanes: bool = False) -> str:
        """Whether a register holds an element of the tile, i1 or "true". `over_lanes`: whether the last dimension is
        the lanes, some of which may be absent."""
        ok = "true"
        last = len(layout.shape) - 1
        for d, (base, offset) in enumerate(
            zip(self.base(layout), layout.register_offsets(register), strict=True)
        ):
            lanes = over_lanes and d == last and self.some_absent
            if not lanes and self._max_coordinate(layout, d, offset) < layout.shape[d]:
                continue
            limit = self.present if lanes else str(layout.shape[d])
            test = self.code.emit(f"icmp ult i64 {self.memory.add(base, str(offset))}, {limit}")
            ok = test if ok == "true" else self.code.emit(f"and i1 {ok}, {test}")
        return ok

    def same_test(self, layout: Layout, registers: tuple[int, int]) -> bool:
        """Whether two registers of a layout hold elements of the tile in the same threads. Coordinates of threads are
        multiples of a number, such as the elements of an access."""
        for d, n in enumerate(layout.shape):
            unit = gcd(*(m.stride for m in layout.threads if m.dim == d)) or 1
            offsets = [layout.register_offsets(r)[d] for r in registers]
            always = [self._max_coordinate(layout, d, offset) < n for offset in offsets]
            if (
                always[0] != always[1]
                or not always[0]
                and len({-(-(n - offset) // unit) for offset in offsets}) > 1
            ):
                return False
        return True

    def _max_coordinate(self, layout: Layout, dim: int, offset: int) -> int:
        return offset + sum((m.size - 1) * m.stride for m in layout.threads if m.dim == dim)

    @property
    def some_absent(self) -> bool:
        """Whether the block may have threads without a lane."""
        return self.kernel.launch.partial or self.threads != self.lanes

    @property
    def threads(self) -> int:
        """The number of threads of the group, a multiple of the warp size."""
        return self.group.threads

    @property
    def block_dim(self) -> int:
        return self.lanes

    @property
    def first_lane(self) -> int:
        return WARP * self.group.first

    # Values ----------------------------------------------------------------------------------------------------------

    def flat(self, value: Value) -> list[str]:
        """All registers of a value, flattened."""
        if isinstance(value.type, TileType):
            return [x for parts in self.held[value] for x in parts]
        return list(self.components(value))

    def types(self, value: Value) -> list[str]:
        """The LLVM types of all registers of a value."""
        if value in self.stored:
            return []
        t = value.type
        dtype = t.dtype if isinstance(t, TileType) else t
        count = self.layouts[value].register_count if isinstance(t, TileType) else 1
        return [register_type(scalar_of(dtype), 1)] * (components(dtype) * count)  # type: ignore[arg-type]

    def bind(self, value: Value, registers: list[str]) -> None:
        """Bind a value to its registers; the registers of a tile are grouped by element, component by component."""
        t = value.type
        if isinstance(t, TileType):
            n = components(t.dtype)
            self.held[value] = [tuple(registers[k : k + n]) for k in range(0, len(registers), n)]
        else:
            self.scalars[value] = tuple(registers)


def zeros(dtype: ElementType) -> Components:
    """The components of a zero element."""
    return (constant(scalar_of(dtype), 0),) * components(dtype)
