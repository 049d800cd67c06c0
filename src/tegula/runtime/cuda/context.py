"""Devices as the driver sees them: their properties, and the context in which everything on one happens."""

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
from tegula.runtime.cuda.dropped import DroppedModules
from tegula.target import CudaTarget, cuda_target_for

LEGACY = 1
"""The handle of a device's default stream, which orders itself with all blocking streams."""
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
"""Of a multiprocessor."""
RESERVED_SHARED = 1024
"""Bytes of shared memory that every block takes besides its own."""

# After these the driver refuses everything until the process ends.
FAULTS = {
    214: "an error of the memory that could not be corrected",
    700: "an access outside of any array",
    702: "a kernel ran too long",
    710: "an assertion",
    714: "a broken stack",
    715: "an illegal instruction",
    716: "an access at an address that is not aligned",
    717: "an access in the wrong memory space",
    718: "a jump to a wrong address",
    719: "a kernel failed",
}
_HELP = {
    OUT_OF_MEMORY: "; delete arrays, or use smaller ones",
    900: "; it is not possible while launches are recorded: do it before capture_begin",
    901: "; the recorded launches were spoilt by an operation that cannot be recorded",
    906: "; the default stream cannot take part while launches are recorded on another stream",
}


class Context:
    """What happens on one device: its memory pool, and what is known about its state.

    `recent`: the names of the kernels launched since the device was last idle, for the message of a fault."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.driver = driver()
        self.fault = _earlier_fault()
        """What ended the use of the device, perhaps on another one: the driver gives a process none any more then."""
        self.check_usable()
        self.device = _out(ctypes.c_int, "cuDeviceGet", ordinal)
        self.handle: int = _out(ctypes.c_void_p, "cuDevicePrimaryCtxRetain", self.device)
        self.launch_kernel = self.driver.cuLaunchKernelEx
        self.recent: deque[str] = deque(maxlen=8)
        # With one device, a wrong context of the calling thread is seen by the launch itself.
        self.alone = device_count() == 1
        self.plain = self.alone
        launch, current = address(self.launch_kernel), address(self.driver.cuCtxGetCurrent)
        usable, replace = (
            bool(launch and (self.alone or current)),
            address(self.driver.cuTensorMapReplaceAddress),
        )
        self.known = words("Q", [usable, self.alone, self.handle, launch, current, replace])
        """For the machine code of launches, as `backend.launcher.DEVICE` says."""
        self.dropped = DroppedModules(self)
        self._keep_freed_memory()

    def _keep_freed_memory(self) -> None:
        """Have the pool keep what is freed, for the next arrays, instead of giving it back at each synchronisation."""
        if not self.attribute(MEMORY_POOLS):
            raise RunError(f"device cuda:{self.ordinal} has no memory pools, which Tegula needs")
        pool = _out(ctypes.c_void_p, "cuDeviceGetDefaultMemPool", self.device)
        most = ctypes.c_uint64(2**64 - 1)
        self.call("cuMemPoolSetAttribute", pool, POOL_RELEASE_THRESHOLD, ctypes.byref(most))

    # Calls ---------------------------------------------------------------------------------------------------------

    def enter(self) -> int | None:
        """Make the context that of the calling thread for good; what it had before, None if there was none."""
        found = ctypes.c_void_p()
        self.driver.cuCtxGetCurrent(ctypes.byref(found))
        if found.value == self.handle:
            return None
        self.driver.cuCtxSetCurrent(self.handle)
        return found.value

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver in this context; RunError if it fails, or if the device had a fault before.

        The calling thread gets back the context that it had for another device."""
        self.check(self.status(name, *arguments))

    def status(self, name: str, *arguments: Any) -> int:
        """Call a function of the driver in this context; its error code."""
        if self.fault is not None:
            self.check_usable()
        before = self.enter()
        code = getattr(self.driver, name)(*arguments)
        if before:
            self.driver.cuCtxSetCurrent(before)
        return code

    def allocate(self, size: int) -> int:
        """The address of new memory, in the order of the default stream; `make` without what it does for any function,
        because new arrays wait for it."""
        if self.fault is not None:
            self.check_usable()
        made = ctypes.c_uint64()
        before = self.enter()
        code = self.driver.cuMemAllocAsync(ctypes.byref(made), size, LEGACY)
        if before:
            self.driver.cuCtxSetCurrent(before)
        if code:
            self.check(code)
        return made.value

    def submit(self, function: Any, *arguments: Any) -> None:
        """Call a function that puts work into a stream. With one device the calling thread's context is looked at only
        if the driver refuses, which saves a call."""
        if self.fault is not None:
            self.check_usable()
        before = None if self.alone else self.enter()
        code = function(*arguments)
        if code:
            if code in (INVALID_CONTEXT, INVALID_HANDLE):
                # This thread has had no context yet, or another library's.
                self.enter()
                code = function(*arguments)
            self.check(code)
        if before:
            self.driver.cuCtxSetCurrent(before)

    def make(self, kind: Any, name: str, *arguments: Any) -> Any:
        """Call a function whose first argument takes what it makes, and return that."""
        made = kind()
        self.call(name, ctypes.byref(made), *arguments)
        return made.value

    def is_done(self, name: str, handle: int) -> bool:
        """What a query function says: whether the work is complete."""
        code = self.status(name, handle)
        if code != NOT_READY:
            self.check(code)
        return code != NOT_READY

    # Errors --------------------------------------------------------------------------------------------------------

    def check_usable(self) -> None:
        """RunError where a fault has ended the use of the device."""
        if self.fault is not None:
            raise RunError(
                f"device cuda:{self.ordinal} cannot be used any more in this process, after: {self.fault}"
            )

    def check(self, code: int) -> None:
        """RunError for an error code, naming the kernels that may have caused it."""
        if code == 0:
            return
        said = text(code, self.driver)
        if code not in FAULTS:
            raise RunError(f"device cuda:{self.ordinal}: {said}{_HELP.get(code, '')}")
        self.fault = _earlier_fault() or f"{FAULTS[code]} in {self._suspects()}: {said}"
        self.plain = False
        self.known[0] = 0
        raise RunError(
            f"{self.fault}. Device cuda:{self.ordinal} cannot be used any more in this process. "
            'tg.config.mode = "debug" finds accesses outside of arrays'
        )

    def _suspects(self) -> str:
        names = [f"'{name}'" for name in dict.fromkeys(self.recent)]
        if not names:
            return "work that is not Tegula's"
        return (
            f"kernel {names[0]}"
            if len(names) == 1
            else f"one of the kernels launched last, {', '.join(names)}"
        )

    # Properties ----------------------------------------------------------------------------------------------------

    def attribute(self, which: int) -> int:
        """A number that the driver knows of the device."""
        return attribute(self.ordinal, which)

    def resident_blocks(self, threads: int, shared_bytes: int = 0, registers: int = 0) -> int:
        """How many blocks the device holds at once that have so many threads, bytes of shared memory, and registers a
        thread (0: few)."""
        fit = [self.attribute(RESIDENT_THREADS) // threads]
        fit.append(self.attribute(RESIDENT_SHARED) // (shared_bytes + RESERVED_SHARED))
        if registers:
            fit.append(self.attribute(RESIDENT_REGISTERS) // (registers * threads))
        return self.attribute(MULTIPROCESSORS) * max(1, min(fit))

    def memory(self) -> tuple[int, int]:
        """Bytes of memory: free, and in all."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value


class _Contexts:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.made: dict[int, Context] = {}


_contexts = _Contexts()


def context(ordinal: int) -> Context:
    """The context of a device, made at the first call."""
    found = _contexts.made.get(ordinal)
    if found is None or found.driver is not driver():
        with _contexts.lock:
            found = _contexts.made.get(ordinal)
            if found is None or found.driver is not driver():
                found = _contexts.made[ordinal] = Context(ordinal)
    return found


def _earlier_fault() -> str | None:
    """What was found first, on any device."""
    return next((one.fault for one in contexts() if one.fault is not None), None)


def contexts() -> list[Context]:
    """The contexts that exist: those of devices that were used."""
    return list(_contexts.made.values())


# Properties of devices, for which no context is needed ---------------------------------------------------------------


def device_count() -> int:
    """How many devices there are; Unavailable without a driver."""
    return _out(ctypes.c_int, "cuDeviceGetCount")


def count_or_none() -> int:
    """How many devices there are: 0 where there is no driver or it cannot be used."""
    try:
        return device_count()
    except Unavailable:
        return 0


@cache
def attribute(ordinal: int, which: int) -> int:
    """A number that the driver knows of a device."""
    return _out(ctypes.c_int, "cuDeviceGetAttribute", which, _out(ctypes.c_int, "cuDeviceGet", ordinal))


def capability(ordinal: int) -> tuple[int, int]:
    """The compute capability, such as (9, 0)."""
    return attribute(ordinal, CAPABILITY_MAJOR), attribute(ordinal, CAPABILITY_MINOR)


def target(ordinal: int) -> CudaTarget:
    """What kernels are compiled for; RuntimeError for a device that Tegula has no target for."""
    return cuda_target_for(*capability(ordinal))


def name(ordinal: int) -> str:
    """The name of the product."""
    made = ctypes.create_string_buffer(256)
    code = driver().cuDeviceGetName(made, len(made), _out(ctypes.c_int, "cuDeviceGet", ordinal))
    if code:
        raise RunError(f"device cuda:{ordinal}: {text(code, driver())}")
    return made.value.decode()


def describe_devices() -> list[str]:
    """One line per CUDA device: number, name, compute capability, multiprocessors. Unavailable without a driver."""
    lines = []
    for ordinal in range(device_count()):
        major, minor = capability(ordinal)
        cores = attribute(ordinal, MULTIPROCESSORS)
        lines.append(
            f"cuda:{ordinal}: {name(ordinal)}, compute capability {major}.{minor}, {cores} multiprocessors"
        )
    return lines


def _out(kind: Any, function: str, *arguments: Any) -> Any:
    """What a function of the driver makes, where no context is needed."""
    library = driver()
    made = kind()
    code = getattr(library, function)(ctypes.byref(made), *arguments)
    if code:
        raise RunError(f"{function}: {text(code, library)}")
    return made.value
