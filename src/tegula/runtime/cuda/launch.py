"""Launches of kernels: one driver call with four arguments, which point into a per-thread buffer."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import TYPE_CHECKING, Any

from tegula.errors import LaunchError
from tegula.runtime.cuda.context import LEGACY, MULTIPROCESSORS, Context
from tegula.runtime.cuda.graph import recording
from tegula.runtime.cuda.interop import foreign_handle, foreign_stream
from tegula.runtime.cuda.report import PinnedReports, enqueue_reports
from tegula.runtime.cuda.stream import Stream, thread_streams
from tegula.runtime.pack import NO_REPORT

if TYPE_CHECKING:
    from tegula.runtime.cuda.compile import CudaCompiled

MAX_BLOCKS = 2**31 - 1
CONFIGURATION = struct.Struct("<7I4xQQI4x8x")
"""The driver's CUlaunchConfig: grid, block, dynamic shared memory, stream, attributes and their number; padded up to
the start of the arguments."""
CONFIGURATION_AT, ARGUMENTS = 64, 128
"""The offsets of the configuration and of the arguments in a thread's buffer, which starts with the pointer to the
arguments."""
_ATTRIBUTE = struct.Struct("<I4x3I52x")
"""The driver's CUlaunchAttribute: its number, and its value."""
_PROGRAMMATIC_SERIALIZATION, _CLUSTER_DIMENSION = 6, 4
_attributes = ctypes.create_string_buffer(
    _ATTRIBUTE.pack(_PROGRAMMATIC_SERIALIZATION, 1, 0, 0) + _ATTRIBUTE.pack(_CLUSTER_DIMENSION, 2, 1, 1),
    2 * _ATTRIBUTE.size,
)
PROGRAMMATIC = ctypes.addressof(_attributes), 1
"""The address and the number of attributes for a programmatic dependent launch."""
CLUSTERS = PROGRAMMATIC[0] + _ATTRIBUTE.size, 1
"""The address and the number of attributes for a launch of 2-CTA clusters."""
PROGRAMMATIC_CLUSTERS = PROGRAMMATIC[0], 2
IN_ORDER = 0, 0
"""No attributes: the launch starts after all earlier work in the stream."""
MAX_CONFIGURATIONS = 256
"""The number of launch configurations that a compiled kernel caches."""
MIN_OCCUPANCY = 7 / 8
"""The minimum occupancy of CTAs with several blocks, as a fraction of the maximum number of resident blocks."""
MIN_CTAS_PER_SM = 8
"""The minimum number of CTAs per SM if CTAs have several blocks: of a launch, so that its blocks run on all SMs, and of
resident CTAs, because the warps of a CTA that end first leave their place empty until the last warp ends."""
MAX_BYTES = 32764
"""The maximum size of a kernel's arguments, in bytes."""


class _LaunchBuffer(threading.local):
    """A thread's buffer for launches: the list of one pointer to the arguments, the configuration, and the arguments.
    `buffer`: the memory, the address of the configuration, and the address of the list."""

    def __init__(self) -> None:
        memory = bytearray(ARGUMENTS + MAX_BYTES)
        # The exported buffer keeps the bytearray from moving.
        self.export = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(self.export)
        struct.pack_into("<Q", memory, 0, start + ARGUMENTS)
        self.buffer = memory, start + CONFIGURATION_AT, start


_local = _LaunchBuffer()


def enqueue(
    stream: Stream,
    function: int,
    blocks: int,
    threads: int,
    shared_bytes: int,
    packed: bytes,
    name: str,
    attributes: tuple[int, int] = IN_ORDER,
    rows: int = 1,
) -> None:
    """Enqueue a kernel in a stream; it reads `packed` as its only argument. RunError if the driver refuses. `blocks`:
    the number of CTAs, each of `rows` rows of `threads` threads."""
    size = blocks, 1, 1, threads, rows, 1, shared_bytes
    configuration = CONFIGURATION.pack(*size, stream.handle, *attributes)
    _submit(stream.context, function, configuration + packed, name)


def _submit(context: Context, function: int, data: bytes, name: str) -> None:
    """Launch with a configuration and arguments, which are adjacent in `data`. With one device the driver is called
    directly; if that fails, `submit` tries again and raises the error."""
    memory, configuration_address, parameters = _local.buffer
    memory[CONFIGURATION_AT : CONFIGURATION_AT + len(data)] = data
    if not context.launches_directly or context.launch_kernel(
        configuration_address, function, parameters, None
    ):
        context.submit(context.launch_kernel, configuration_address, function, parameters, None)
    context.recent_kernels.append(name)


def launch_on_device(
    compiled: CudaCompiled,
    blocks: int,
    packed: bytes,
    args: tuple[Any, ...],
    stream: Stream | None,
    has_foreign_arrays: bool = True,
) -> None:
    """Enqueue a compiled kernel in a stream. `packed`: arguments and launch dimensions, without the address of a
    report. `has_foreign_arrays`: whether another library's arrays may be among the arguments.

    `stream`: by default this thread's stream, or the current stream of PyTorch or CuPy if their arrays are passed."""
    if compiled.guards is not None and blocks:
        compiled.guards.check(packed)
    # A thread that has set no stream has no recording.
    if stream is None and not thread_streams.streams:
        configuration = compiled.configurations.get(blocks)
        if configuration is None and blocks and compiled.is_plain:
            configuration = configuration_for(compiled, blocks)
        if configuration is not None and (
            not has_foreign_arrays or foreign_handle(compiled.stream, args) == LEGACY
        ):
            maps = compiled.maps
            data = configuration + (packed if maps is None else maps.with_maps(packed))
            # The code of `_submit`, inlined.
            memory, configuration_address, parameters = _local.buffer
            memory[CONFIGURATION_AT : CONFIGURATION_AT + len(data)] = data
            context = compiled.context
            if not context.launches_directly or context.launch_kernel(
                configuration_address, compiled.function, parameters, None
            ):
                context.submit(
                    context.launch_kernel, configuration_address, compiled.function, parameters, None
                )
            context.recent_kernels.append(compiled.name)
            return
    if not blocks:
        return
    if stream is None:
        stream = thread_streams.streams.get(compiled.device.ordinal) or compiled.stream
        handle = foreign_handle(stream, args) if has_foreign_arrays else stream.handle
        if handle != stream.handle:
            with foreign_stream(stream, handle, args) as foreign:
                _launch(compiled, blocks, packed, foreign, args)
            return
    elif stream.device != compiled.device:
        raise LaunchError(
            f"kernel {compiled.name}: the stream belongs to {stream.device}, the arguments are on {compiled.device}",
            "pass a stream of that device",
        )
    _launch(compiled, blocks, packed, stream, args)


def configuration_for(compiled: CudaCompiled, blocks: int) -> bytes:
    """The configuration of a launch in the device's default stream, cached by the number of blocks. The kernel must not
    report to the host, because the arguments of a kernel that reports end with an address per launch."""
    assert compiled.is_plain
    (ctas, rows), cached = _hardware_blocks(compiled, blocks), compiled.configurations
    if len(cached) >= MAX_CONFIGURATIONS:
        cached.clear()
    size = ctas, 1, 1, compiled.threads, rows, 1, compiled.shared_bytes * rows
    packed_configuration = CONFIGURATION.pack(
        *size, LEGACY, *_attributes_of(compiled, ctas, compiled.overlaps)
    )
    cached[blocks] = packed_configuration
    return packed_configuration


def blocks_of_cta(context: Context, max_blocks: int, threads: int, shared_bytes: int, registers: int) -> int:
    """The number of blocks in each CTA of a large launch: the largest power of two, at most `max_blocks`, with nearly
    the maximum number of resident blocks and with MIN_CTAS_PER_SM resident CTAs. `threads`, `shared_bytes`: the
    resources of a block; `registers`: the registers of a thread."""
    if max_blocks == 1:
        return 1
    register_count = -(-registers // 8) * 8
    resident = {
        count: count * context.resident_blocks(count * threads, count * shared_bytes, register_count)
        for count in (1 << k for k in range(max_blocks.bit_length()))
    }
    min_resident = MIN_OCCUPANCY * max(resident.values())
    min_ctas = MIN_CTAS_PER_SM * context.attribute(MULTIPROCESSORS)
    return max(
        count
        for count, resident_blocks in resident.items()
        if count == 1 or resident_blocks >= max(min_resident, count * min_ctas)
    )


def _hardware_blocks(compiled: CudaCompiled, blocks: int) -> tuple[int, int]:
    """The number of CTAs of a launch with `blocks` blocks, and the rows of threads of each."""
    if compiled.max_blocks is not None and not (compiled.numbers_blocks and blocks > MAX_BLOCKS):
        # The number of CTAs is rounded up to whole clusters; a CTA without a block stores nothing.
        blocks *= compiled.max_logical_blocks
        blocks = min(blocks + compiled.clustered * blocks % 2, compiled.max_blocks)
    elif blocks > MAX_BLOCKS:
        raise LaunchError(
            f"kernel {compiled.name}: {blocks} blocks are more than the {MAX_BLOCKS} of one launch on a GPU",
            "use a larger block_dim, or launch several times",
        )
    warps_per_cta, warps = compiled.warps_per_cta, -(-blocks // compiled.blocks_per_warp)
    if warps_per_cta > 1:
        min_ctas = MIN_CTAS_PER_SM * compiled.context.attribute(MULTIPROCESSORS)
        while warps_per_cta > 1 and warps < warps_per_cta * min_ctas:
            warps_per_cta //= 2
    return -(-warps // warps_per_cta), warps_per_cta


def _attributes_of(compiled: CudaCompiled, ctas: int, may_overlap: bool) -> tuple[int, int]:
    """The attributes of a launch of `ctas` CTAs, which form no clusters if their number is odd."""
    if compiled.clustered and ctas % 2 == 0:
        return PROGRAMMATIC_CLUSTERS if may_overlap else CLUSTERS
    return PROGRAMMATIC if may_overlap else IN_ORDER


def _launch(
    compiled: CudaCompiled, blocks: int, packed: bytes, stream: Stream, args: tuple[Any, ...]
) -> None:
    ctas, rows = _hardware_blocks(compiled, blocks)
    graph = recording(stream) if recording.active else None
    if graph is not None:
        stream = graph.stream
        graph.keep(args, any(site.kind == "structures" for site in compiled.sites))
        graph.retained.append(compiled.module)
    reports = PinnedReports(compiled, compiled.context) if compiled.sites else None
    if reports is not None:
        packed = packed[: -len(NO_REPORT)] + struct.pack("<Q", reports.address)
    data = packed if compiled.maps is None else compiled.maps.with_maps(packed)
    # Launches in a stream of another library have no early start, because each launch would have to query whether the
    # stream is being recorded.
    is_known_stream = graph is None and (stream.owned or stream.handle == LEGACY)
    attributes = _attributes_of(compiled, ctas, compiled.overlaps and is_known_stream)
    shared_bytes = compiled.shared_bytes * rows
    enqueue(
        stream, compiled.function, ctas, compiled.threads, shared_bytes, data, compiled.name, attributes, rows
    )
    if reports is None:
        return
    if graph is not None:
        graph.reports.append(reports)
    else:
        enqueue_reports(compiled.context, stream.handle, reports)
