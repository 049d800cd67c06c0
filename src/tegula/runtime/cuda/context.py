"""Devices and their contexts in the CUDA driver: properties, calls and errors."""

from __future__ import annotations

import ctypes
import threading
from array import array as words
from collections import deque
from functools import cache
from typing import Any

from tegula.errors import RunError
from tegula.runtime.cuda.driver import (
    INVALID_CONTEXT,
    INVALID_HANDLE,
    NOT_READY,
    Unavailable,
    address,
    driver,
    text,
)
from tegula.runtime.cuda.dropped_modules import DroppedModules
from tegula.target import CudaTarget, cuda_target_for

LEGACY = 1
"""The handle of a device's default stream, which is ordered with all blocking streams."""
OUT_OF_MEMORY = 2
POOL_RELEASE_THRESHOLD = 4
CAPABILITY_MAJOR, CAPABILITY_MINOR, MULTIPROCESSORS, L2_BYTES, MEMORY_POOLS, SHARED_OPT_IN = (
    75,
    76,
    16,
    38,
    115,
    97,
)

RESIDENT_THREADS, RESIDENT_SHARED, RESIDENT_REGISTERS = 39, 81, 82
"""The driver's attributes of an SM: threads, bytes of shared memory, registers."""
RESERVED_SHARED = 1024
"""The bytes of shared memory that the hardware reserves for every block."""

# Errors after which the driver refuses every call until the process ends.
FAULTS = {
    214: "an uncorrectable memory error",
    700: "an access outside of any array",
    702: "a launch timeout",
    710: "a failed assertion",
    714: "a corrupted stack",
    715: "an illegal instruction",
    716: "a misaligned access",
    717: "an access to the wrong address space",
    718: "a jump to an invalid address",
    719: "a launch failure",
}
_HELP = {
    OUT_OF_MEMORY: "; delete arrays, or use smaller ones",
    900: "; this operation is not possible while launches are recorded: run it before capture_begin",
    901: "; the recording was invalidated by an operation that cannot be recorded",
    906: "; the default stream cannot be used while launches are recorded on another stream",
}


class Context:
    """The context of one device, with its memory pool, its faults and its dropped modules.

    `recent_kernels`: the names of the kernels launched since the device was last idle, for the message of a fault."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.driver = driver()
        self.fault = _earlier_fault()
        """The first fault of any device, after which the process can use no device; None if there was none."""
        self.check_usable()
        self.device = _driver_output(ctypes.c_int, "cuDeviceGet", ordinal)
        self.handle: int = _driver_output(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", self.device)
        self.launch_kernel = self.driver.cuLaunchKernelEx
        self.recent_kernels: deque[str] = deque(maxlen=8)
        # With one device a missing context of the calling thread is detected by a failed launch.
        self.is_only_device = device_count() == 1
        self.launches_directly = self.is_only_device
        launch, current = address(self.launch_kernel), address(self.driver.cuCtxGetCurrent)
        usable, replace = (
            bool(launch and (self.is_only_device or current)),
            address(self.driver.cuTensorMapReplaceAddress),
        )
        self.variables = words("Q", [usable, self.is_only_device, self.handle, launch, current, replace])
        """The device's variables for the machine code of launches (see `backend.launcher.DEVICE`)."""
        self.dropped = DroppedModules(self)
        self._keep_freed_memory()

    def _keep_freed_memory(self) -> None:
        """Set the pool to retain freed memory for the next arrays instead of releasing it at each synchronisation."""
        if not self.attribute(MEMORY_POOLS):
            raise RunError(f"device cuda:{self.ordinal} has no memory pools, which Tegula needs")
        pool = _driver_output(ctypes.c_void_p, "cuDeviceGetDefaultMemPool", self.device)
        threshold = ctypes.c_uint64(2**64 - 1)
        self.call("cuMemPoolSetAttribute", pool, POOL_RELEASE_THRESHOLD, ctypes.byref(threshold))

    # Calls ---------------------------------------------------------------------------------------------------------

    def enter(self) -> int | None:
        """Make this the calling thread's current context. Returns the context to restore, or None."""
        current = ctypes.c_void_p()
        self.driver.cuCtxGetCurrent(ctypes.byref(current))
        if current.value == self.handle:
            return None
        self.driver.cuCtxSetCurrent(self.handle)
        return current.value

    def call(self, name: str, *arguments: Any) -> None:
        """Call a driver function in this context; RunError if it fails, or if the device had a fault before.

        Afterwards the calling thread's context for another device is restored."""
        self.check(self.status(name, *arguments))

    def status(self, name: str, *arguments: Any) -> int:
        """Call a driver function in this context and return its error code."""
        if self.fault is not None:
            self.check_usable()
        previous_context = self.enter()
        code = getattr(self.driver, name)(*arguments)
        if previous_context:
            self.driver.cuCtxSetCurrent(previous_context)
        return code

    def allocate(self, size: int) -> int:
        """The address of new memory, allocated in the order of the default stream. The call is inlined from `make`,
        because its latency is part of every allocation of an array."""
        if self.fault is not None:
            self.check_usable()
        address = ctypes.c_uint64()
        previous_context = self.enter()
        code = self.driver.cuMemAllocAsync(ctypes.byref(address), size, LEGACY)
        if previous_context:
            self.driver.cuCtxSetCurrent(previous_context)
        if code:
            self.check(code)
        return address.value

    def submit(self, function: Any, *arguments: Any) -> None:
        """Call a driver function that enqueues work in a stream. With one device the calling thread's context is set
        only after a failed call, which saves a call."""
        if self.fault is not None:
            self.check_usable()
        previous_context = None if self.is_only_device else self.enter()
        code = function(*arguments)
        if code:
            if code in (INVALID_CONTEXT, INVALID_HANDLE):
                # The thread has no context, or the context of another library.
                self.enter()
                code = function(*arguments)
            self.check(code)
        if previous_context:
            self.driver.cuCtxSetCurrent(previous_context)

    def make(self, kind: Any, name: str, *arguments: Any) -> Any:
        """Call a driver function whose first argument is an output of type `kind`, and return the output."""
        handle = kind()
        self.call(name, ctypes.byref(handle), *arguments)
        return handle.value

    def is_done(self, name: str, handle: int) -> bool:
        """Whether the work of a stream or event is complete, by a query function of the driver."""
        code = self.status(name, handle)
        if code != NOT_READY:
            self.check(code)
        return code != NOT_READY

    # Errors --------------------------------------------------------------------------------------------------------

    def check_usable(self) -> None:
        """Raise RunError if a fault has ended the use of the device."""
        if self.fault is not None:
            raise RunError(
                f"device cuda:{self.ordinal} cannot be used any more in this process, after: {self.fault}"
            )

    def check(self, code: int) -> None:
        """Raise RunError for an error code, naming the kernels that may have caused it."""
        if code == 0:
            return
        reason = text(code, self.driver)
        if code not in FAULTS:
            raise RunError(f"device cuda:{self.ordinal}: {reason}{_HELP.get(code, '')}")
        self.fault = _earlier_fault() or f"{FAULTS[code]} in {self._suspected_kernels()}: {reason}"
        self.launches_directly = False
        self.variables[0] = 0
        raise RunError(
            f"{self.fault}. Device cuda:{self.ordinal} cannot be used any more in this process. "
            'tg.config.mode = "debug" finds accesses outside of arrays'
        )

    def _suspected_kernels(self) -> str:
        names = [f"'{name}'" for name in dict.fromkeys(self.recent_kernels)]
        if not names:
            return "work of another library"
        return (
            f"kernel {names[0]}"
            if len(names) == 1
            else f"one of the kernels launched last, {', '.join(names)}"
        )

    # Properties ----------------------------------------------------------------------------------------------------

    def attribute(self, number: int) -> int:
        """An attribute of the device by its number in the driver."""
        return attribute(self.ordinal, number)

    def resident_blocks(self, threads: int, shared_bytes: int = 0, registers: int = 0) -> int:
        """The number of blocks that are resident on the device at once. `threads`, `shared_bytes`: the resources of a
        block; `registers`: the registers of a thread, or 0 if they do not limit the number."""
        limits = [self.attribute(RESIDENT_THREADS) // threads]
        limits.append(self.attribute(RESIDENT_SHARED) // (shared_bytes + RESERVED_SHARED))
        if registers:
            limits.append(self.attribute(RESIDENT_REGISTERS) // (registers * threads))
        return self.attribute(MULTIPROCESSORS) * max(1, min(limits))

    def memory(self) -> tuple[int, int]:
        """The bytes of free memory and of all memory of the device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


class _Contexts:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.contexts: dict[int, Context] = {}


_contexts = _Contexts()


def context(ordinal: int) -> Context:
    """The context of a device, created by the first call."""
    existing = _contexts.contexts.get(ordinal)
    if existing is None or existing.driver is not driver():
        with _contexts.lock:
            existing = _contexts.contexts.get(ordinal)
            if existing is None or existing.driver is not driver():
                existing = _contexts.contexts[ordinal] = Context(ordinal)
    return existing


def _earlier_fault() -> str | None:
    """The first fault of any device, if there was one."""
    return next(
        (fault_context.fault for fault_context in contexts() if fault_context.fault is not None), None
    )


def contexts() -> list[Context]:
    """The contexts of the devices that were used."""
    return list(_contexts.contexts.values())


# Properties of devices, for which no context is needed ---------------------------------------------------------------


def device_count() -> int:
    """The number of devices; Unavailable without a driver."""
    return _driver_output(ctypes.c_int, "cuDeviceGetCount")


def count_or_none() -> int:
    """The number of devices: 0 if there is no driver or it cannot be used."""
    try:
        return device_count()
    except Unavailable:
        return 0


@cache
def attribute(ordinal: int, number: int) -> int:
    """An attribute of a device by its number in the driver."""
    return _driver_output(
        ctypes.c_int, "cuDeviceGetAttribute", number, _driver_output(ctypes.c_int, "cuDeviceGet", ordinal)
    )


def capability(ordinal: int) -> tuple[int, int]:
    """The compute capability, such as (9, 0)."""
    return attribute(ordinal, CAPABILITY_MAJOR), attribute(ordinal, CAPABILITY_MINOR)


def target(ordinal: int) -> CudaTarget:
    """The target of kernels for a device; RuntimeError for a device that Tegula does not support."""
    return cuda_target_for(*capability(ordinal))


def name(ordinal: int) -> str:
    """The name of a device, such as "NVIDIA H200"."""
    buffer = ctypes.create_string_buffer(256)
    code = driver().cuDeviceGetName(buffer, len(buffer), _driver_output(ctypes.c_int, "cuDeviceGet", ordinal))
    if code:
        raise RunError(f"device cuda:{ordinal}: {text(code, driver())}")
    return buffer.value.decode()


def describe_devices() -> list[str]:
    """A text with a line for each CUDA device: number, name, compute capability, number of SMs. Unavailable without a
    driver."""
    lines = []
    for ordinal in range(device_count()):
        major, minor = capability(ordinal)
        cores = attribute(ordinal, MULTIPROCESSORS)
        lines.append(
            f"cuda:{ordinal}: {name(ordinal)}, compute capability {major}.{minor}, {cores} multiprocessors"
        )
    return lines


def _driver_output(kind: Any, function: str, *arguments: Any) -> Any:
    """The output of a driver function that needs no context."""
    library = driver()
    output = kind()
    code = getattr(library, function)(ctypes.byref(output), *arguments)
    if code:
        raise RunError(f"{function}: {text(code, library)}")
    return output.value
