"""Launches: one call of the driver with four arguments, from buffers that each thread reuses."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import TYPE_CHECKING, Any

from tegula.errors import LaunchError
from tegula.runtime.cuda.context import LEGACY, Context
from tegula.runtime.cuda.graph import recording
from tegula.runtime.cuda.interop import foreign_handle, foreign_stream
from tegula.runtime.cuda.report import PinnedReports, expect
from tegula.runtime.cuda.stream import Stream, chosen
from tegula.runtime.report import NO_REPORT

if TYPE_CHECKING:
    from tegula.runtime.cuda.compile import CudaCompiled

MOST_BLOCKS = 2**31 - 1
CONFIGURATION = struct.Struct("<7I4xQQI4x8x")
"""The driver's CUlaunchConfig: grid, block, dynamic shared memory, stream, attributes and how many; filled up to where
the arguments begin."""
CONFIGURATION_AT, ARGUMENTS = 64, 128
"""Where they lie in a thread's buffer, after the pointer to the arguments."""
_ATTRIBUTE = struct.Struct("<I4x3I52x")
"""The driver's CUlaunchAttribute: its number, and its value."""
_PROGRAMMATIC_SERIALIZATION, _CLUSTER_DIMENSION = 6, 4
_attributes = ctypes.create_string_buffer(
    _ATTRIBUTE.pack(_PROGRAMMATIC_SERIALIZATION, 1, 0, 0) + _ATTRIBUTE.pack(_CLUSTER_DIMENSION, 2, 1, 1),
    2 * _ATTRIBUTE.size,
)
EARLY = ctypes.addressof(_attributes), 1
"""Where the attributes are, and how many, of a launch that may start while the kernel before it ends."""
CLUSTERS = EARLY[0] + _ATTRIBUTE.size, 1
"""Of one whose neighbouring CTAs work in 2-CTA clusters."""
EARLY_CLUSTERS = EARLY[0], 2
IN_ORDER = 0, 0
"""No attributes: it starts when all earlier work in the stream is complete."""
MOST_CONFIGURATIONS = 256
"""Sizes of launches that a form remembers."""
MOST_BYTES = 32764
"""Bytes of arguments that a kernel may have."""


class _Local(threading.local):
    """Where the driver reads a thread's launches from: the configuration, the list of pointers to arguments (one), the
    arguments. `buffer`: the memory, and the addresses of the first two."""

    def __init__(self) -> None:
        memory = bytearray(ARGUMENTS + MOST_BYTES)
        # The export keeps the memory where it is.
        self.export = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(self.export)
        struct.pack_into("<Q", memory, 0, start + ARGUMENTS)
        self.buffer = memory, start + CONFIGURATION_AT, start


_local = _Local()


def enqueue(
    stream: Stream,
    function: int,
    blocks: int,
    threads: int,
    shared_bytes: int,
    packed: bytes,
    name: str,
    attributes: tuple[int, int] = IN_ORDER,
) -> None:
    """Put a kernel into a stream; it reads `packed` as its only argument. RunError if the driver refuses."""
    configuration = CONFIGURATION.pack(blocks, 1, 1, threads, 1, 1, shared_bytes, stream.handle, *attributes)
    _submit(stream.context, function, configuration + packed, name)


def _submit(context: Context, function: int, data: bytes, name: str) -> None:
    """Give the driver a configuration and arguments, which lie side by side. With one device the driver is asked at
    once; `submit` tries again, and says what is wrong, where it refuses."""
    memory, at, parameters = _local.buffer
    memory[CONFIGURATION_AT : CONFIGURATION_AT + len(data)] = data
    if not context.plain or context.launch_kernel(at, function, parameters, None):
        context.submit(context.launch_kernel, at, function, parameters, None)
    context.recent.append(name)


def launch_on_device(
    compiled: CudaCompiled,
    blocks: int,
    packed: bytes,
    args: tuple[Any, ...],
    stream: Stream | None,
    other: bool = True,
) -> None:
    """Launch a compiled kernel; it runs when its stream reaches it. `packed`: arguments, launch dimensions, and no
    address of a report. `other`: whether another library's arrays may be among the arguments.

    `stream`: the one of this thread by default, or the current one of PyTorch or CuPy where their arrays are passed."""
    # Threads that chose no stream record nothing either.
    if stream is None and not chosen.streams:
        configuration = compiled.configurations.get(blocks)
        if configuration is None and blocks and compiled.is_plain:
            configuration = configuration_for(compiled, blocks)
        if configuration is not None and (not other or foreign_handle(compiled.stream, args) == LEGACY):
            maps = compiled.maps
            data = configuration + (packed if maps is None else maps.appended(packed))
            # What `_submit` does, without the call.
            memory, at, parameters = _local.buffer
            memory[CONFIGURATION_AT : CONFIGURATION_AT + len(data)] = data
            context = compiled.context
            if not context.plain or context.launch_kernel(at, compiled.function, parameters, None):
                context.submit(context.launch_kernel, at, compiled.function, parameters, None)
            context.recent.append(compiled.name)
            return
    if not blocks:
        return
    if stream is None:
        stream = chosen.streams.get(compiled.device.ordinal) or compiled.stream
        handle = foreign_handle(stream, args) if other else stream.handle
        if handle != stream.handle:
            with foreign_stream(stream, handle, args) as found:
                _launch(compiled, blocks, packed, found, args)
            return
    elif stream.device != compiled.device:
        raise LaunchError(
            f"kernel {compiled.name}: the stream is one of {stream.device}, the arguments are on {compiled.device}",
            "pass a stream of that device",
        )
    _launch(compiled, blocks, packed, stream, args)


def configuration_for(compiled: CudaCompiled, blocks: int) -> bytes:
    """How a kernel that reports nothing is launched in its device's default stream; kept for the next launch of that
    size, which reads its arguments as they are: those of one that reports end with an address of their own."""
    assert compiled.is_plain
    grid, known = _hardware_blocks(compiled, blocks), compiled.configurations
    if len(known) >= MOST_CONFIGURATIONS:
        known.clear()
    size = grid, 1, 1, compiled.threads, 1, 1, compiled.shared_bytes
    made = CONFIGURATION.pack(*size, LEGACY, *_attributes_of(compiled, grid, compiled.overlaps))
    known[blocks] = made
    return made


def _hardware_blocks(compiled: CudaCompiled, blocks: int) -> int:
    """How many CTAs run so many of the launch."""
    if compiled.most_blocks is not None and not (compiled.placed and blocks > MOST_BLOCKS):
        # The other CTA of a cluster is there too; if there is nothing left for it, it stores nothing.
        return min(blocks + compiled.clustered * blocks % 2, compiled.most_blocks)
    if blocks > MOST_BLOCKS:
        raise LaunchError(
            f"kernel {compiled.name}: {blocks} blocks are more than the {MOST_BLOCKS} of one launch on a GPU",
            "use a larger block_dim, or launch several times",
        )
    return blocks


def _attributes_of(compiled: CudaCompiled, grid: int, early: bool) -> tuple[int, int]:
    """Of a launch of so many blocks, which work by themselves if their number is odd."""
    if compiled.clustered and grid % 2 == 0:
        return EARLY_CLUSTERS if early else CLUSTERS
    return EARLY if early else IN_ORDER


def _launch(
    compiled: CudaCompiled, blocks: int, packed: bytes, stream: Stream, args: tuple[Any, ...]
) -> None:
    if compiled.guards is not None:
        compiled.guards.check(packed)
    grid = _hardware_blocks(compiled, blocks)
    graph = recording(stream) if recording.active else None
    if graph is not None:
        stream = graph.stream
        graph.keep(args)
        graph.kept.append(compiled.module)
    reports = PinnedReports(compiled, compiled.context) if compiled.sites else None
    if reports is not None:
        packed = packed[: -len(NO_REPORT)] + struct.pack("<Q", reports.address)
    data = packed if compiled.maps is None else compiled.maps.appended(packed)
    # Whether a stream of another library is being recorded would have to be asked for at every launch.
    known = graph is None and (stream.owned or stream.handle == LEGACY)
    order = _attributes_of(compiled, grid, compiled.overlaps and known)
    enqueue(
        stream, compiled.function, grid, compiled.threads, compiled.shared_bytes, data, compiled.name, order
    )
    if reports is None:
        return
    if graph is not None:
        graph.reports.append(reports)
    else:
        expect(compiled.context, stream.handle, reports)
