"""A simulated driver of GPUs: device memory is host memory, work completes at once, and kernels are Python functions.

The class has the functions of the real driver, refuses the arguments that the real driver refuses (handles, contexts,
sizes), and records every call, so that the whole runtime is tested without a GPU."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tegula.runtime.cuda.driver import PROTOTYPES
from tegula.runtime.cuda.launch import CONFIGURATION
from tegula.runtime.cuda.strided import ARGUMENTS

ATTRIBUTES = {75: 9, 76: 0, 16: 132, 39: 2048, 81: 233472, 82: 65536, 38: 50 << 20, 115: 1, 97: 232448}
INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE, NOT_READY, CAPTURE_UNSUPPORTED = 1, 201, 400, 600, 900
LEGACY = 1
REGISTERS = 4
PROGRAMMATIC_SERIALIZATION, CLUSTER_DIMENSION = (6, 1, 0, 0), (4, 2, 1, 1)
"""The numbers of launch attributes and their values in the driver."""
REGISTER_COUNT = b"\x04\x2f\x08\x00"
"""The header of a cubin attribute of 8 bytes: the symbol of a function and its registers per thread."""
Kernel = Callable[[int, int, bytes], int | None]


def copy_kernel(size: int) -> Kernel:
    """The function of the kernels of strided.py."""

    def run(blocks: int, threads: int, data: bytes) -> None:
        target, source, count, rank, *rest = ARGUMENTS.unpack(data)
        extents, target_strides, source_strides = rest[0:rank], rest[6 : 6 + rank], rest[12 : 12 + rank]
        for index in np.ndindex(*extents):
            target_address = target + sum(i * s for i, s in zip(index, target_strides, strict=True))
            source_address = source + sum(i * s for i, s in zip(index, source_strides, strict=True))
            ctypes.memmove(target_address, source_address, size)
        assert count == int(np.prod(extents, dtype=np.int64))

    return run


def registers(cubin: bytes) -> int:
    """The registers per thread of a function, from the limits in the code's attributes."""
    address, maximum = cubin.find(REGISTER_COUNT), 0
    while address >= 0:
        (count,) = struct.unpack_from("<I", cubin, address + len(REGISTER_COUNT) + 4)
        maximum, address = max(maximum, count), cubin.find(REGISTER_COUNT, address + 1)
    return maximum


class SimulatedDriver:
    """`calls`: the names of the called functions; `kernels`: Python functions by the names of functions in modules;
    `launches`: the grid, threads, shared memory and stream of each launch."""

    def __init__(self, devices: int = 2) -> None:
        self.devices = devices
        self.calls: list[str] = []
        self.launches: list[tuple[int, int, int, int]] = []
        self.early: list[bool] = []
        """For each launch, whether it may start while the previous kernel ends."""
        self.clustered: list[bool] = []
        """For each launch, whether neighbouring CTAs form 2-CTA clusters."""
        self.kernels: dict[str, Kernel] = {f"copy{n}": copy_kernel(n) for n in (1, 2, 4, 8)}
        self.memory: dict[int, Any] = {}
        self.owners: dict[int, int] = {}
        self.current: int | None = None
        self.handles: dict[int, Any] = {}
        self.registers: dict[int, int] = {}
        self.recorded: dict[int, list[Callable[[], int | None]]] = {}
        self.functions: dict[int, list[int]] = {}
        """The code of each module."""
        self.busy = False
        """Whether no event has completed."""
        self.sticky = 0
        self.next_handle = 0x1000

    def __getattr__(self, name: str) -> Any:
        if name not in PROTOTYPES:
            raise AttributeError(name)
        function = getattr(type(self), name[2:], None)

        def call(*arguments: Any) -> int:
            assert len(arguments) == len(PROTOTYPES[name]), name
            self.calls.append(name)
            if self.sticky and name not in ("cuGetErrorName", "cuGetErrorString"):
                return self.sticky
            if function is None:
                return 0
            return function(self, *arguments) or 0

        setattr(self, name, call)
        return call

    def handle(self, value: Any) -> int:
        self.next_handle += 0x10
        self.handles[self.next_handle] = value
        return self.next_handle

    def submit(self, stream: int, work: Callable[[], int | None]) -> int | None:
        """Execute the work of a stream immediately, or record the work."""
        if self.current is None:
            return INVALID_CONTEXT
        if stream != LEGACY and stream not in self.handles:
            return INVALID_HANDLE
        if stream in self.recorded:
            self.recorded[stream].append(work)
            return 0
        return work()

    # Devices -------------------------------------------------------------------------------------------------------

    def DriverGetVersion(self, out: Any) -> None:
        out._obj.value = 13000

    def GetErrorName(self, code: int, out: Any) -> None:
        out._obj.value = {700: b"CUDA_ERROR_ILLEGAL_ADDRESS", 2: b"CUDA_ERROR_OUT_OF_MEMORY"}.get(
            code, b"CUDA_ERROR"
        )

    def GetErrorString(self, code: int, out: Any) -> None:
        out._obj.value = b"code %d" % code

    def DeviceGetCount(self, out: Any) -> None:
        out._obj.value = self.devices

    def DeviceGet(self, out: Any, ordinal: int) -> int | None:
        out._obj.value = ordinal
        return None if 0 <= ordinal < self.devices else 101

    def DeviceGetName(self, out: Any, size: int, device: int) -> None:
        out.value = b"Simulated GPU"

    def DeviceGetAttribute(self, out: Any, attribute: int, device: int) -> None:
        out._obj.value = ATTRIBUTES[attribute]

    def DevicePrimaryCtxRetain(self, out: Any, device: int) -> None:
        out._obj.value = 0xC000 + device

    def DeviceGetDefaultMemPool(self, out: Any, device: int) -> None:
        out._obj.value = 0xD000 + device

    def CtxGetCurrent(self, out: Any) -> None:
        out._obj.value = self.current

    def CtxSetCurrent(self, context: int) -> None:
        self.current = context

    def MemGetInfo_v2(self, free_bytes: Any, total: Any) -> None:
        free_bytes._obj.value, total._obj.value = 100 << 30, 141 << 30

    # Memory --------------------------------------------------------------------------------------------------------

    def MemAllocAsync(self, out: Any, size: int, stream: int) -> int | None:
        if size > 1 << 40:
            return 2
        raw = np.zeros(size + 512, np.uint8)
        padding = -raw.ctypes.data % 512
        address = raw.ctypes.data + padding
        self.memory[address], self.owners[address] = (
            raw[padding : padding + size],
            (self.current or 0) - 0xC000,
        )
        out._obj.value = address
        return None if size > 0 else INVALID_VALUE

    def MemFreeAsync(self, address: int, stream: int) -> int | None:
        return None if self.memory.pop(address, None) is not None else INVALID_VALUE

    def MemHostAlloc(self, out: Any, size: int, flags: int) -> None:
        raw = np.full(size, 0xFF, np.uint8)
        self.handle(raw)
        out._obj.value = raw.ctypes.data

    def PointerGetAttribute(self, out: Any, attribute: int, address: int) -> int | None:
        for start, raw in self.memory.items():
            if start <= address < start + raw.size:
                out._obj.value = self.owners[start] if attribute == 9 else 2
                return None
        return INVALID_VALUE

    def _move(self, target: int, source: int, size: int, stream: int) -> int | None:
        return self.submit(stream, lambda: ctypes.memmove(target, source, size) and None)

    def MemcpyAsync(self, target: int, source: int, size: int, stream: int) -> int | None:
        """Memory of a pool can be reached from its own device alone."""
        owners = {self._owner(address) for address in (target, source)} - {None}
        return INVALID_VALUE if len(owners) > 1 else self._move(target, source, size, stream)

    def MemcpyPeerAsync(
        self, target: int, target_context: int, source: int, source_context: int, size: int, stream: int
    ) -> int | None:
        if (self._owner(target), self._owner(source)) != (target_context - 0xC000, source_context - 0xC000):
            return INVALID_VALUE
        return self._move(target, source, size, stream)

    def _owner(self, address: int) -> int | None:
        starts = (start for start, raw in self.memory.items() if start <= address < start + raw.size)
        return self.owners.get(next(starts, 0))

    def MemcpyHtoDAsync_v2(self, target: int, source: int, size: int, stream: int) -> int | None:
        return CAPTURE_UNSUPPORTED if stream in self.recorded else self._move(target, source, size, stream)

    def MemcpyDtoHAsync_v2(self, target: int, source: int, size: int, stream: int) -> int | None:
        return CAPTURE_UNSUPPORTED if stream in self.recorded else self._move(target, source, size, stream)

    def _set(self, address: int, value: int, size: int, count: int, stream: int) -> int | None:
        data = value.to_bytes(size, "little") * count
        return self.submit(stream, lambda: ctypes.memmove(address, data, len(data)) and None)

    def MemsetD8Async(self, address: int, value: int, count: int, stream: int) -> int | None:
        return self._set(address, value, 1, count, stream)

    def MemsetD16Async(self, address: int, value: int, count: int, stream: int) -> int | None:
        return self._set(address, value, 2, count, stream)

    def MemsetD32Async(self, address: int, value: int, count: int, stream: int) -> int | None:
        return self._set(address, value, 4, count, stream)

    # Code ----------------------------------------------------------------------------------------------------------

    def ModuleLoadDataEx(self, out: Any, code: bytes, count: int, names: Any, values: Any) -> None:
        assert code
        out._obj.value = self.handle(code)

    def ModuleGetFunction(self, out: Any, module: int, name: bytes) -> int | None:
        code = self.handles[module]
        out._obj.value = self.handle(name.decode())
        self.registers[out._obj.value] = registers(code)
        self.functions.setdefault(module, []).append(out._obj.value)
        return None

    def ModuleUnload(self, module: int) -> None:
        """Unload a module, whose functions can no longer be launched."""
        for handle in (module, *self.functions.pop(module, ())):
            del self.handles[handle]

    def FuncGetAttribute(self, out: Any, attribute: int, function: int) -> None:
        out._obj.value = self.registers[function] if attribute == REGISTERS else 1024

    def LaunchKernelEx(self, configuration: int, function: int, parameters: int, extra: None) -> int | None:
        fields = CONFIGURATION.unpack(ctypes.string_at(configuration, CONFIGURATION.size))
        blocks, _, _, threads, rows, _, shared, stream, attributes, count = fields
        threads *= rows
        (first,) = struct.unpack("<Q", ctypes.string_at(parameters, 8))
        name = self.handles[function]
        size = ARGUMENTS.size if name.startswith("copy") else 512
        data = ctypes.string_at(first, size)
        if self.current is None:
            return INVALID_CONTEXT
        self.launches.append((blocks, threads, shared, stream))
        address = range(attributes, attributes + 72 * count, 72)
        decoded = [struct.unpack("<I4x3I52x", ctypes.string_at(x, 72)) for x in address]
        assert set(decoded) <= {PROGRAMMATIC_SERIALIZATION, CLUSTER_DIMENSION}
        self.early.append(PROGRAMMATIC_SERIALIZATION in decoded)
        self.clustered.append(CLUSTER_DIMENSION in decoded)
        return self.submit(stream, lambda: self.kernels[name](blocks, threads, data))

    # Streams, events, graphs -----------------------------------------------------------------------------------------

    def StreamCreateWithPriority(self, out: Any, flags: Any, priority: int) -> None:
        out._obj.value = self.handle("stream")

    def StreamDestroy_v2(self, stream: int) -> int | None:
        return None if self.handles.pop(stream, None) == "stream" else INVALID_HANDLE

    def StreamIsCapturing(self, stream: int, out: Any) -> None:
        out._obj.value = int(stream in self.recorded)

    def StreamBeginCapture_v2(self, stream: int, mode: int) -> int | None:
        if stream == LEGACY:
            return CAPTURE_UNSUPPORTED
        self.recorded[stream] = []
        return None

    def StreamEndCapture(self, stream: int, out: Any) -> None:
        out._obj.value = self.handle(self.recorded.pop(stream))

    def GraphInstantiateWithFlags(self, out: Any, graph: int, flags: Any) -> None:
        out._obj.value = self.handle(self.handles[graph])

    def GraphLaunch(self, graph: int, stream: int) -> int | None:
        for work in self.handles[graph]:
            code = self.submit(stream, work)
            if code:
                return code
        return None

    def EventCreate(self, out: Any, flags: Any) -> None:
        out._obj.value = self.handle("event")

    def EventQuery(self, event: int) -> int | None:
        return NOT_READY if self.busy else None

    def EventDestroy_v2(self, event: int) -> int | None:
        return None if self.handles.pop(event, None) == "event" else INVALID_HANDLE

    def EventElapsedTime(self, out: Any, start: int, end: int) -> None:
        out._obj.value = 1.5
