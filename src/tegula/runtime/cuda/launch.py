"""Launches: one call of the driver with four arguments, from buffers that each thread reuses."""

from __future__ import annotations

import ctypes
import struct
import threading
from typing import TYPE_CHECKING, Any

from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.cuda.graph import recording
from tegula.runtime.cuda.interop import foreign_stream
from tegula.runtime.cuda.report import PinnedReports, expect
from tegula.runtime.cuda.stream import Stream, chosen

if TYPE_CHECKING:
    from tegula.runtime.cuda.compile import CudaCompiled

MOST_BLOCKS = 2**31 - 1
CONFIGURATION = struct.Struct("<7I4xQQI4x")
"""The driver's CUlaunchConfig: grid, block, dynamic shared memory, stream, attributes and how many."""
PARAMETERS = 64
"""Where the pointer to the arguments lies in a thread's buffer, after the configuration."""
ARGUMENTS = 128
MOST_BYTES = 32764
"""Bytes of arguments that a kernel may have."""
NO_REPORT = bytes(8)
OURS = frozenset({array, int, float, bool})
"""Types of arguments that no other library's stream works on."""


class _Local(threading.local):
    """A thread's buffer: the configuration, the list of pointers to arguments (one), the arguments."""

    def __init__(self) -> None:
        self.memory = bytearray(ARGUMENTS + MOST_BYTES)
        # The export keeps the memory where it is.
        self.export = ctypes.c_char.from_buffer(self.memory)
        self.configuration = ctypes.addressof(self.export)
        self.parameters = self.configuration + PARAMETERS
        struct.pack_into("<Q", self.memory, PARAMETERS, self.configuration + ARGUMENTS)


_local = _Local()


def enqueue(
    stream: Stream, function: int, blocks: int, threads: int, shared_bytes: int, packed: bytes, name: str
) -> None:
    """Put a kernel into a stream; it reads `packed` as its only argument. RunError if the driver refuses."""
    context, local = stream.context, _local
    memory = local.memory
    CONFIGURATION.pack_into(memory, 0, blocks, 1, 1, threads, 1, 1, shared_bytes, stream.handle, 0, 0)
    memory[ARGUMENTS : ARGUMENTS + len(packed)] = packed
    context.submit(context.launch_kernel, local.configuration, function, local.parameters, None)
    context.recent.append(name)


def launch_on_device(
    compiled: CudaCompiled, blocks: int, packed: bytes, args: tuple[Any, ...], stream: Stream | None
) -> None:
    """Launch a compiled kernel; it runs when its stream comes to it. `packed`: arguments and launch dimensions.

    `stream`: the one of this thread by default, or the current one of PyTorch or CuPy where their arrays are passed."""
    if blocks > MOST_BLOCKS:
        raise LaunchError(
            f"kernel {compiled.name}: {blocks} blocks are more than the {MOST_BLOCKS} of one launch on a GPU",
            "use a larger block_dim, or launch several times",
        )
    if stream is None:
        stream = chosen.streams.get(compiled.device.ordinal) or compiled.stream
        if not OURS.issuperset(map(type, args)):
            with foreign_stream(stream, args) as found:
                _launch(compiled, blocks, packed, found, args)
            return
    elif stream.device != compiled.device:
        raise LaunchError(
            f"kernel {compiled.name}: the stream is one of {stream.device}, the arguments are on {compiled.device}",
            "pass a stream of that device",
        )
    _launch(compiled, blocks, packed, stream, args)


def _launch(
    compiled: CudaCompiled, blocks: int, packed: bytes, stream: Stream, args: tuple[Any, ...]
) -> None:
    graph = recording(stream) if recording.active else None
    if graph is not None:
        stream = graph.stream
        graph.keep(args)
    if not compiled.sites:
        data = packed + NO_REPORT if compiled.maps is None else compiled.maps.appended(packed + NO_REPORT)
        enqueue(
            stream, compiled.function, blocks, compiled.threads, compiled.shared_bytes, data, compiled.name
        )
        return
    reports = PinnedReports(compiled, compiled.context)
    data = packed + struct.pack("<Q", reports.address)
    if compiled.maps is not None:
        data = compiled.maps.appended(data)
    enqueue(stream, compiled.function, blocks, compiled.threads, compiled.shared_bytes, data, compiled.name)
    if graph is not None:
        graph.reports.append(reports)
    else:
        expect(compiled.context, stream.handle, reports)
