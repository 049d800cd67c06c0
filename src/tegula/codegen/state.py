"""The state of the lowering of one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tegula.codegen.blocks_in_lanes import VectorisedKernel
from tegula.codegen.memory import MemoryEmitter
from tegula.codegen.scalar import Components
from tegula.codegen.storage import (
    ArrayDescriptor,
    BarrierDescriptor,
    Piece,
    PipeDescriptor,
    ThreadScratch,
    View,
    packed_strides,
)
from tegula.codegen.text import Code
from tegula.dataclass import dataclass, field
from tegula.deferred import deferred_imports
from tegula.errors import InternalError
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.integer_ranges import IntegerRanges
from tegula.passes.accesses import Independence
from tegula.passes.uniformity import Uniformity
from tegula.source import UNKNOWN, Location
from tegula.target import CpuTarget
from tegula.types import BufType, ElementType, TileType, components, element_bytes, scalar_of

with deferred_imports():
    from tegula.codegen.sites import Site

if TYPE_CHECKING:
    from tegula.codegen.matmul import MatmulSpec


@dataclass(frozen=True, slots=True)
class LoweredRole:
    """A role that is being lowered: its position among the `names` of all roles, its first lane in the block and its
    number of lanes. `control`: the address of the role's control block; `scheduler`: the address of the scheduler state
    shared by all roles."""

    position: int
    names: tuple[str, ...]
    first: int
    lanes: int
    control: str
    scheduler: str


@dataclass(slots=True)
class State:
    """The state of the lowering of one kernel to LLVM IR.

    `scalars`: registers of uniform values, and inside a lane loop of varying values. `lanes`: the memory of varying
    values, component-major. `tiles`: materialised tiles; `registers`: the number of elements of a tile, and the
    registers that hold them too, for tiles of one register. `inline`: tile ops evaluated inside their consumers. `loc`:
    the source location of the op being lowered. In a lane loop, `lane` is the lane, or the first of `width` lanes;
    `mask` (a vector of i1, or "" for all lanes) selects the active lanes; `wide_masks` maps a mask to the vector of -1
    and 0 from which the mask was computed.

    `block`: the register of the block index; `present`: the number of lanes of the block that the launch contains;
    `dims`: the dimensions of the launch; `thread_count`: the number of threads of the launch. `vectorised`: the kernel
    whose body computes several blocks at once, if any. `assumed`: conditions, as tiles, with known values at the
    current point. `role`: the role that is being lowered, if any.

    `rare`: the regions whose code is compiled for length; `is_rare`: whether the current op is in such a region;
    `work`: the estimated operations of regions.
    `named_barriers`: named barriers of roles. `destinations`: memory offered for tiles about to be computed.
    `unaliased`: tiles whose memory no other value aliases. `origins`: for a register with an address, the registers
    with addresses that may be equal. `copies`: loops that copy a tile for the next iteration. `functions`: the text of
    functions that the kernel calls, besides matmuls.

    `watch`: the register with the address of the thread's watch, or "" where loops must not poll; `polls`: the loops
    that poll; `emit_due_poll`: emits the code of a due poll and a jump to a label (see `poll`)."""

    kernel: Kernel
    known: Uniformity
    target: CpuTarget
    debug: bool
    code: Code = field(default_factory=Code)
    memory: MemoryEmitter = field(init=False)
    independence: Independence = field(init=False)
    ranges: IntegerRanges = field(init=False)
    scratch: ThreadScratch = field(default_factory=ThreadScratch)
    scalars: dict[Value, Components] = field(default_factory=dict)
    lanes: dict[Value, View] = field(default_factory=dict)
    arrays: dict[Value, ArrayDescriptor] = field(default_factory=dict)
    buffers: dict[Value, View] = field(default_factory=dict)
    stacks: dict[Value, tuple[str, View]] = field(default_factory=dict)
    pipes: dict[Value, PipeDescriptor] = field(default_factory=dict)
    named_barriers: dict[Value, BarrierDescriptor] = field(default_factory=dict)
    tiles: dict[Value, View] = field(default_factory=dict)
    registers: dict[Value, tuple[int, Components]] = field(default_factory=dict)
    inline: dict[Value, Op] = field(default_factory=dict)
    users: dict[Value, list[tuple[Op, int]]] = field(default_factory=dict)
    in_bounds: dict[Op, str] = field(default_factory=dict)
    sites: list[Site] = field(default_factory=list)
    destinations: dict[Value, Callable[[], View]] = field(default_factory=dict)
    unaliased: set[Value] = field(default_factory=set)
    origins: dict[str, set[str]] = field(default_factory=dict)
    copies: list[Location] = field(default_factory=list)
    matmuls: dict[str, tuple[MatmulSpec, str]] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)
    polls: list[Location] = field(default_factory=list)
    emit_due_poll: Callable[[str], None] = field(init=False)
    watch: str = "%watch"
    run_branching: Callable[[Region, list[Components]], list[Components]] = field(init=False)
    block: str = "%block"
    lane: str = ""
    width: int = 1
    mask: str = ""
    wide_masks: dict[str, str] = field(default_factory=dict)
    present: str = ""
    thread_count: str = ""
    assumed: dict[Value, bool] = field(default_factory=dict)
    rare: frozenset[Region] = frozenset()
    is_rare: bool = False
    work: dict[Region, int] = field(default_factory=dict)
    vectorised: VectorisedKernel = field(default_factory=VectorisedKernel)
    role: LoweredRole | None = None
    dims: list[str] = field(default_factory=list)
    loc: Location = UNKNOWN

    def __post_init__(self) -> None:
        self.memory = MemoryEmitter(self.code)
        self.independence = Independence(self.known)
        self.code.ranges = self.ranges = IntegerRanges(self.kernel.launch)

    @property
    def block_dim(self) -> int:
        """The number of lanes of the role, or of the block outside roles."""
        return self.role.lanes if self.role is not None else self.kernel.launch.block_dim

    @property
    def first_lane(self) -> int:
        """The position of the group's lane 0 among the lanes of the block."""
        return self.role.first if self.role is not None else 0

    def first_thread(self, block: str | None = None) -> str:
        """The thread of the group's lane 0 in the launch. `block`: the block index if it is not the hardware's."""
        base = self.code.emit(f"mul i64 {block or self.block}, {self.kernel.launch.block_dim}")
        return self.memory.add(base, str(self.first_lane))

    def allocate(
        self, name: str, dtype: ElementType, shape: tuple[int, ...], is_written: bool = True
    ) -> View:
        """Allocate scratch memory for a packed tile. `ThreadScratch.planned` assigns the address when all uses are
        known. `is_written`: whether all elements are written before they are read."""
        unit = components(dtype)
        count = 1
        for n in shape:
            count *= n
        pointer = self.code.fresh("s")
        size = element_bytes(dtype) * count
        self.scratch.pieces.append(Piece(pointer, name, size, self.loc, len(self.code.lines), is_written))
        if self.code.tracks_scratch:
            self.code.contents.add_piece(pointer)
        return View(pointer, dtype, shape, packed_strides(shape, unit))

    def result_memory(self, value: Value, name: str) -> View:
        """The memory for a tile that is about to be computed: memory that a loop or branch offers, or new scratch
        memory."""
        if value in self.destinations:
            return self.destinations.pop(value)()
        self.unaliased.add(value)
        t = tile_of(value)
        return self.allocate(value.name or name, t.dtype, t.shape)

    def lane_array(self, name: str, dtype: ElementType) -> View:
        """Scratch memory for one value per lane, component-major."""
        n = self.block_dim
        view = self.allocate(name, dtype, (n,))
        return View(view.pointer, dtype, (n,), (1,), n)

    def scalar(self, value: Value) -> str:
        """The register of a scalar value."""
        return self.components(value)[0]

    def components(self, value: Value) -> Components:
        """The registers of a value; for a varying value outside a lane loop, the registers of lane 0's value."""
        if value in self.scalars:
            return self.scalars[value]
        if value in self.lanes:
            view = self.lanes[value]
            return self.memory.load_element(view.pointer, view.dtype, view.component_stride)
        raise InternalError(f"{value} has no register")

    def width_of(self, value: Value) -> int:
        """The number of lanes per register of a value: the SIMD width for a varying value, else 1."""
        return self.width if self.width > 1 and self.known.varying(value) else 1

    def spread(self, value: Value, width: int) -> Components:
        """The registers of a value for `width` lanes; a uniform value is splat."""
        parts = self.components(value)
        if width == 1 or self.width_of(value) == width:
            return parts
        dtype = scalar_of(value.type)  # type: ignore[arg-type]
        return tuple(self.memory.splat(x, dtype, width) for x in parts)

    def i64(self, value: Value) -> str:
        """An integer scalar as i64."""
        register = self.scalar(value)
        t = value.type
        bits, kind = t.bits, t.kind  # type: ignore[union-attr]
        if not register.startswith("%") or bits == 64:
            return register
        return self.code.emit(f"{'sext' if kind == 'i' else 'zext'} i{bits} {register} to i64")

    def site(self, kind: str, loc: Location, **data: Any) -> int:
        """The number of a new report site."""
        self.sites.append(Site(kind, loc, data))
        return len(self.sites) - 1


def tile_of(value: Value) -> TileType:
    """The type of a tile value or of the tile that a buffer holds."""
    t = value.type
    if isinstance(t, BufType):
        return t.tile
    assert isinstance(t, TileType)
    return t
