"""Compilation of a kernel for argument types to a function in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.backend.cache import Entry
from tegula.codegen.sites import Site
from tegula.collection import paused_collection
from tegula.dataclass import replace
from tegula.deferred import deferred_imports
from tegula.errors import LaunchError, SharedMemoryExceeded
from tegula.ir import AccessClass, Kernel, LaunchClass, Op, TileAccess
from tegula.ir.text import print_kernel
from tegula.lang.captures import Captured
from tegula.lang.decorators import KernelDef
from tegula.ops.debug import Assert, Print, PrintTile
from tegula.ops.lane import MAX_BLOCK_NUMBER, uses_block_numbers
from tegula.ops.roles import Roles, block_threads
from tegula.python_stack import on_long_stack
from tegula.runtime.config import config
from tegula.runtime.device import CPU, Device
from tegula.runtime.library import library
from tegula.runtime.store import disk_cache
from tegula.source import Location, Text
from tegula.target import CpuTarget, get_target
from tegula.types import Type

with deferred_imports():
    from tegula.backend.loader import load
    from tegula.backend.pool import KernelFunction, run, thread_count
    from tegula.backend.preload import start_loading_llvm
    from tegula.runtime.report import run_reporting

if TYPE_CHECKING:
    from tegula.passes.plan_memory import MemoryMap

MIN_LANE_BYTES = 4
"""The minimum size in bytes of the lane of a block."""
MAX_UNNAMED_BYTES = 1 << 16
"""The maximum size in bytes of a tile that errors for exceeded memory do not name."""


class Compiled:
    """A kernel ready to run. `function(args, scratch, first block, end)` is native code; `sites` are the code locations
    that report to the host, `writes` the positions of the arrays that it may write; `captured` are the objects besides
    its source that the code depends on (see `lang.captures`). Launches of fewer than `min_blocks` blocks have a form of
    their own: `is_for_many` is whether this form is the one for more blocks; `other`, the other form, is compiled by
    `compile_other` for the first launch that needs that form."""

    __slots__ = (
        "captured",
        "compile_other",
        "device",
        "from_cache",
        "function",
        "is_for_many",
        "kernel",
        "loaded",
        "max_blocks",
        "min_blocks",
        "other",
        "scratch_bytes",
        "sites",
        "writes",
    )

    def __init__(
        self, kernel: Kernel, entry: Entry, from_cache: bool, compile_other: Callable[[int], Compiled]
    ) -> None:
        data = entry.metadata
        self.compile_other = compile_other
        self.other: Compiled | None = None
        lanes = data["lanes"]
        self.min_blocks = _min_blocks(lanes) if lanes > 1 else 0
        self.is_for_many: bool = lanes == 1 or data["vectorised"]
        self.kernel = kernel
        self.loaded = load(entry.code)
        self.function = KernelFunction(self.loaded.address("kernel"))
        self.scratch_bytes: int = data["scratch"]
        self.sites = sites_of(kernel, data["sites"])
        self.from_cache = from_cache
        self.device: Device = CPU
        self.writes: tuple[int, ...] = tuple(data["writes"])
        self.max_blocks: int = MAX_BLOCK_NUMBER if data["numbered"] else 2**62
        self.captured: tuple[Captured, ...] = kernel.captured

    def launch(
        self,
        blocks: int,
        packed: bytes,
        args: Sequence[Any],
        stream: object,
        has_foreign_arrays: bool,
        threads: int | None = None,
    ) -> None:
        """Run the kernel to completion. `packed`: arguments and launch dimensions, without the address of a report.
        `threads`: the maximum number of threads; a single thread runs the blocks in order."""
        if stream is not None:
            message = f"kernel {self.kernel.name}: there are no streams on the CPU"
            raise LaunchError(message, "launch the kernel without stream=")
        if blocks > self.max_blocks:
            message = f"kernel {self.kernel.name}: {blocks} blocks exceed the maximum of {self.max_blocks}"
            raise LaunchError(
                message, "launch fewer blocks, each with more tiles, as with tg.persistent_tiles"
            )
        form = self if (blocks >= self.min_blocks) is self.is_for_many else self.for_blocks(blocks)
        if form.sites:
            run_reporting(form, packed, blocks, threads)
        else:
            run(form.function, packed, blocks, form.scratch_bytes, threads)

    def for_blocks(self, blocks: int) -> Compiled:
        """The other form of the kernel, compiled on demand: for launches of few blocks, or of many."""
        if self.other is None:
            self.other = self.compile_other(blocks)
        return self.other


def trace(
    definition: KernelDef,
    types: Sequence[Type],
    launch: LaunchClass,
    access: Sequence[AccessClass | None],
    device: Device | None = None,
) -> Kernel:
    """The kernel's IR for these types. `device`: the device whose program alone is traced; None for the programs of all
    devices. LaunchError for a block size that does not match the roles."""
    if device is not None:
        launch = replace(launch, on_gpu=device.is_cuda)
    kernel = definition.trace(types, launch, access, library())
    roles = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
    if roles is None:
        return kernel
    needed = block_threads(roles)
    if launch.block_dim != needed:
        message = f"kernel {kernel.name}: its roles need blocks of {needed} threads, got block_dim {launch.block_dim}"
        raise LaunchError(message, "leave out block_dim=, which is computed from the roles")
    if launch.partial:
        message = (
            f"kernel {kernel.name}: a kernel with roles is launched in whole blocks, here of {needed} threads"
        )
        raise LaunchError(message, "use tg.launch_tiled, which launches whole blocks")
    return kernel


@paused_collection()
@on_long_stack
def compile_kernel(
    definition: KernelDef,
    types: Sequence[Type],
    launch: LaunchClass,
    access: Sequence[AccessClass | None],
    device: Device = CPU,
    blocks: int | None = None,
) -> Any:
    """The kernel compiled for the types and launch class, from the disk cache if present: a Compiled, or for a CUDA
    device a CudaCompiled. `blocks`: the number of blocks of the launch, None for many; on CPUs kernels have another
    form for few blocks."""
    kernel = trace(definition, types, launch, access, device)
    debug = config.mode == "debug"
    if device.is_cuda:
        from tegula.runtime.cuda.compile import compile_for_device

        return compile_for_device(kernel, cache_text(kernel, debug), device, debug)
    target = get_target(config.cpu_target)
    entry, is_new = _cached_or_built(kernel, target, debug, blocks)

    def compile_other(blocks: int) -> Compiled:
        return compile_kernel(definition, types, launch, access, device, blocks)

    return Compiled(kernel, entry, not is_new, compile_other)


def _cached_or_built(
    kernel: Kernel, target: CpuTarget, debug: bool, blocks: int | None
) -> tuple[Entry, bool]:
    """The entry of the disk cache for a kernel, and whether it is new. Code for few blocks has a name of its own,
    unless it is the code for many blocks too."""
    blocks_of_pair = None if blocks is None else _blocks_of_pair(blocks)
    is_small = blocks_of_pair is not None and blocks_of_pair < target.vector_bytes // MIN_LANE_BYTES
    store = disk_cache()
    if store is None:
        return build(kernel, target, debug, blocks_of_pair), True
    parts = cpu_key_parts(kernel, target, debug)
    small_parts = [*parts, "few blocks"]
    if not store.is_empty():
        for tried in [small_parts, parts] if is_small else [parts]:
            entry = store.get(store.key(tried))
            if entry is not None and _fits(entry, blocks_of_pair):
                return entry, False
    entry = build(kernel, target, debug, blocks_of_pair)
    store.put(store.key(parts if _fits(entry, None) else small_parts), entry)
    return entry, True


def _blocks_of_pair(blocks: int) -> int:
    """The number of blocks for each pair of threads of a launch."""
    return 2 * blocks // max(2, thread_count())


def _min_blocks(lanes: int) -> int:
    """The minimum number of blocks of a launch with at least `lanes` blocks for each pair of threads."""
    return -(-lanes * max(2, thread_count()) // 2)


def _fits(entry: Entry, blocks_of_pair: int | None) -> bool:
    """Whether the code is the one for launches with so many blocks for each pair of threads."""
    lanes: int = entry.metadata["lanes"]
    fills_lanes = blocks_of_pair is None or blocks_of_pair >= lanes
    return lanes == 1 or entry.metadata["vectorised"] is fills_lanes


def cache_text(kernel: Kernel, debug: bool) -> str:
    """The text of a traced kernel, for keys of the disk cache."""
    return print_kernel(kernel, locations=_reports(kernel, debug), has_digests=True)


def cpu_key_parts(kernel: Kernel, target: CpuTarget, debug: bool) -> list[str]:
    """The parts of a CPU kernel's key in the disk cache: all inputs of code generation besides the tools."""
    return [cache_text(kernel, debug), target.key, str(debug)]


def _reports(kernel: Kernel, debug: bool) -> bool:
    """Whether the code contains source locations; roles report their waits in a deadlock."""
    return debug or any(
        isinstance(op, (Print, PrintTile, Assert, Roles)) or (isinstance(op, TileAccess) and op.aligned)
        for op in kernel.walk()
    )


def build(kernel: Kernel, target: CpuTarget, debug: bool, blocks_of_pair: int | None = None) -> Entry:
    """Compile a traced kernel, which the passes change in place. `blocks_of_pair`: the number of blocks for
    each pair of threads of a launch, None for many."""
    start_loading_llvm()
    from tegula.codegen.kernel import lower_kernel
    from tegula.passes.pipeline import for_cpu, prepare

    writes = written(kernel)
    prepare(kernel)
    code = lower_kernel(kernel, for_cpu(kernel, debug=debug), target, debug, blocks_of_pair)
    check_memory(code.scratch, CPU.max_shared_memory_per_block, CPU)
    sites = [site_to_json(s) for s in code.sites]
    metadata = {
        "scratch": code.scratch.total,
        "sites": sites,
        "writes": writes,
        "numbered": uses_block_numbers(kernel),
        "lanes": code.vectorised.max_lanes,
        "vectorised": code.vectorised.kernel is not None,
    }
    from tegula.backend.llvm import compile_object

    return Entry(metadata, compile_object(code.text, target))


def check_memory(plan: MemoryMap, limit: int, device: object) -> None:
    """Raise SharedMemoryExceeded if a block's tiles do not fit; the error names the large tiles that are live when most
    memory is in use."""
    if plan.total > limit:
        from tegula.passes.plan_memory import lifetime

        live = plan.peak()
        notes = [
            (i.loc, f"{i.name}: {i.size:,} bytes, in use in line{'s' * ('-' in lifetime(i))} {lifetime(i)}")
            for i in live
            if i.size > min(MAX_UNNAMED_BYTES, limit // 64)
        ]
        raise SharedMemoryExceeded(live[0].loc, needed=plan.total, limit=limit, device=device, notes=notes)


def written(kernel: Kernel) -> list[int]:
    """The positions of the array parameters that the kernel may write."""
    from tegula.passes.overlap import array_root

    positions: set[int] = set()
    for op in kernel.walk():
        assert isinstance(op, Op)
        for effect in op.effects():
            if effect.kind in ("write", "atomic") and effect.value is not None:
                source = array_root(effect.value)
                if source in kernel.params:
                    positions.add(kernel.params.index(source))
    return sorted(positions)


def site_to_json(site: Site) -> dict[str, Any]:
    """A site as the JSON data that the disk cache stores."""
    data = {k: [t.notation for t in v] if k == "types" else v for k, v in site.data.items()}
    chain = [
        [location.file, location.line, location.column, location.end_column, location.function]
        for location in site.loc.chain()
    ]
    return json.loads(json.dumps({"kind": site.kind, "places": chain, "data": data}))


def sites_of(kernel: Kernel, entries: Sequence[dict[str, Any]]) -> list[Site]:
    """The report sites from the JSON data of the disk cache. The source texts are taken from the traced kernel, because
    text from Python's prompt is in no file."""
    if not entries:
        return []
    chains = (op.loc.chain() for op in kernel.walk())
    texts = {(location.file, location.function): location.written for chain in chains for location in chain}
    return [_site(data, texts) for data in entries]


def _site(data: dict[str, Any], texts: Mapping[tuple[str, str], Text | None]) -> Site:
    loc: Location | None = None
    for file, line, column, end_column, function in reversed(data["places"]):
        loc = Location(file, line, column, end_column, function, loc, written=texts.get((file, function)))
    assert loc is not None
    return Site(data["kind"], loc, data["data"])
