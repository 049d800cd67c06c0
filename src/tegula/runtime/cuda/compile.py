"""Kernels for GPUs: from IR to a function on a device."""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING, Any

from tegula.backend.cache import Entry
from tegula.codegen.sites import Site
from tegula.dataclass import dataclass, field
from tegula.deferred import deferred_imports
from tegula.ir import Kernel
from tegula.lang.captures import Captured
from tegula.runtime.config import config
from tegula.runtime.cuda.context import Context, context, target
from tegula.runtime.cuda.launch import blocks_of_cta, launch_on_device
from tegula.runtime.cuda.module import LoadedModule, compiled_entry, loaded
from tegula.runtime.cuda.stream import Stream, default_stream
from tegula.runtime.device import Device
from tegula.runtime.guards import LaunchGuards
from tegula.target import CudaTarget

with deferred_imports():
    from tegula.backend.preload import start_loading_llvm

if TYPE_CHECKING:
    from tegula.ops.lane import LogicalBlocks
    from tegula.runtime.cuda.maps import TensorMaps


@dataclass(slots=True)
class CudaCompiled:
    """A kernel compiled for one device. `function`: the driver's handle; `shared_bytes`: dynamic shared memory of a
    block; `threads`: threads of a block; `sites`: the source locations that report to the host; `writes`: the positions
    of the array parameters that the kernel may write; `registers`, `spill_bytes`: as reported by ptxas, 0 if the driver
    compiled the PTX."""

    kernel: Kernel
    name: str
    device: Device
    context: Context
    module: LoadedModule
    """The module that contains the function."""
    function: int
    shared_bytes: int
    threads: int
    sites: list[Site]
    from_cache: bool
    writes: tuple[int, ...]
    registers: int
    spill_bytes: int
    code: bytes
    stream: Stream
    """The device's default stream."""
    maps: TensorMaps | None
    """The tensor maps, which are appended to the arguments of a launch."""
    captured: tuple[Captured, ...] = ()
    """The captured objects that the code depends on (see `lang.captures`)."""

    configurations: dict[int, bytes] = field(default_factory=dict)
    """Configurations of launches in the default stream, by the number of blocks; empty for a kernel that reports to the
    host (see `launch_on_device`)."""

    max_blocks: int | None = None
    """The maximum number of blocks that run; None: every block of the launch."""

    max_logical_blocks: int = 0
    """The maximum number of logical blocks for each block of the launch, if CTAs loop over logical blocks; else 0."""

    warps_per_cta: int = 1
    """The maximum number of warps of a CTA if each warp runs blocks of its own; else 1."""

    blocks_per_warp: int = 1
    """The number of blocks that each warp of such a CTA runs."""

    numbers_blocks: bool = False
    """Whether CTAs compute their block index in 32 bits, so that a launch has at most MAX_BLOCKS blocks."""

    overlaps: bool = False
    """Whether the kernel waits for earlier launches itself, so that it may start before they end (programmatic
    dependent launch)."""

    clustered: bool = False
    """Whether neighbouring CTAs form 2-CTA clusters."""

    guards: LaunchGuards | None = None
    """The guards that the arguments of a launch must satisfy; None if there are none."""

    @property
    def is_plain(self) -> bool:
        """Whether launches report nothing to the host."""
        return not self.sites

    launch = launch_on_device
    __eq__, __hash__ = (
        object.__eq__,
        object.__hash__,
    )  # Compiled kernels are compared by identity, as kernels for CPUs are.


def compile_for_device(kernel: Kernel, text: str, device: Device, debug: bool) -> CudaCompiled:
    """Compile a traced kernel, which the passes change in place, for a device, or load it from the disk cache.

    `text`: the kernel's text, part of the cache key. SharedMemoryExceeded for tiles that do not fit a block of the
    device."""
    device_target = target(device.ordinal)
    entry, from_cache = compiled_entry(
        parts(kernel, text, debug), device_target, lambda: build(kernel, device_target, debug)
    )
    return _ready(kernel, entry, device, from_cache)


def parts(kernel: Kernel, text: str, debug: bool) -> list[str]:
    """The text inputs of a kernel's code, besides the target and the tools."""
    return [
        text,
        str(debug),
        config.check_schedules,
        str(kernel.bounded),
        str(tuple(kernel.overlap)),
        *(_lines(kernel) if config.line_info else ()),
    ]


def _lines(kernel: Kernel) -> list[str]:
    """The source location of each op, followed by the locations that it was inlined at."""
    return [" ".join(map(str, op.loc.chain())) for op in kernel.walk()]


def build(kernel: Kernel, target: CudaTarget, debug: bool) -> Entry:
    """Compile a traced kernel, which the passes change in place."""
    start_loading_llvm()
    from tegula.codegen.gpu.maps import argument_bytes, described_maps, maps_offset
    from tegula.ops.lane import LogicalBlocks, uses_block_numbers
    from tegula.passes.pipeline import prepare
    from tegula.runtime.automatic import build as build_code
    from tegula.runtime.compile import site_to_json, written

    writes = written(kernel)
    prepare(kernel)
    built = build_code(kernel, target, debug)
    code, cubin = built.code, built.cubin
    metadata: dict[str, Any] = {
        "shared": code.shared_bytes,
        "threads": code.threads,
        "sites": [site_to_json(s) for s in code.sites],
        "writes": writes,
        "ptx": cubin.is_ptx,
        "registers": cubin.registers,
        "start": code.start_registers,
        "spills": cubin.spill_bytes,
        "maps": [list(m) for m in described_maps(kernel, code.maps, writes)],
        "padding": maps_offset(kernel) - argument_bytes(kernel),
        "schedule": built.verdict.summary(),
        "max_logical_blocks": max(
            (_most_logical(op) for op in kernel.walk() if isinstance(op, LogicalBlocks)), default=0
        ),
        "overlaps": target.overlaps_launches,
        "clustered": code.clustered,
        "numbers_blocks": uses_block_numbers(kernel),
        "warps_per_cta": code.max_warps,
        "blocks_per_warp": code.per_warp,
    }
    return Entry(metadata, cubin.code)


def _most_logical(op: LogicalBlocks) -> int:
    """The maximum number of logical blocks for each block of the launch."""
    return prod(ceil(denominator / numerator) for numerator, denominator in op.scale)


def _maps(device_context: Context, padding: int, rows: list[Any]) -> TensorMaps | None:
    if not rows:
        return None
    from tegula.runtime.cuda.maps import ArrayMap, TensorMaps

    maps = [ArrayMap(start, end, name, tuple(box), *rest) for start, end, name, box, *rest in rows]
    return TensorMaps(device_context, padding, maps)


def _ready(kernel: Kernel, entry: Entry, device: Device, from_cache: bool) -> CudaCompiled:
    from tegula.runtime.compile import sites_of

    device_context, data = context(device.ordinal), entry.metadata
    module = loaded(device_context, entry)
    guards = data["schedule"]["guards"]
    warps_per_cta = blocks_of_cta(
        device_context, data["warps_per_cta"], data["threads"], data["shared"], data["registers"]
    )
    return CudaCompiled(
        kernel=kernel,
        name=kernel.name,
        device=device,
        context=device_context,
        module=module,
        function=module.function("kernel", data["shared"], data["threads"] * warps_per_cta, data["start"]),
        shared_bytes=data["shared"],
        threads=data["threads"],
        sites=sites_of(kernel, data["sites"]),
        from_cache=from_cache,
        writes=tuple(data["writes"]),
        registers=data["registers"],
        spill_bytes=data["spills"],
        code=entry.code,
        stream=default_stream(device),
        maps=_maps(device_context, data["padding"], data["maps"]),
        captured=kernel.captured,
        max_blocks=device_context.resident_blocks(data["threads"], data["shared"], data["registers"])
        if data["max_logical_blocks"]
        else None,
        max_logical_blocks=data["max_logical_blocks"],
        numbers_blocks=data["numbers_blocks"],
        warps_per_cta=warps_per_cta,
        blocks_per_warp=data["blocks_per_warp"],
        overlaps=data["overlaps"],
        clustered=data["clustered"],
        guards=LaunchGuards(kernel, guards) if guards else None,
    )
