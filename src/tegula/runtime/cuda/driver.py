"""The driver of NVIDIA GPUs, libcuda, called through ctypes.

The driver's binary interface is stable, so Tegula needs no package besides it, and a launch costs one call with four
arguments. docs/design/005-cuda-driver.md has the measurements."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

LIBRARY = "libcuda.so.1"
MIN_VERSION = 12000
"""The minimum version of the driver's interface: CUDA 12.0, the first version that loads code for sm_90a."""

_p, _i32, _u32, _size, _u64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_uint64

PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_u32,),
    "cuDriverGetVersion": (_p,),
    "cuGetErrorName": (_i32, _p),
    "cuGetErrorString": (_i32, _p),
    "cuDeviceGetCount": (_p,),
    "cuDeviceGet": (_p, _i32),
    "cuDeviceGetName": (_p, _i32, _i32),
    "cuDeviceGetAttribute": (_p, _i32, _i32),
    "cuDeviceTotalMem_v2": (_p, _i32),
    "cuDeviceGetDefaultMemPool": (_p, _i32),
    "cuDevicePrimaryCtxRetain": (_p, _i32),
    "cuCtxGetCurrent": (_p,),
    "cuCtxSetCurrent": (_p,),
    "cuCtxSynchronize": (),
    "cuMemGetInfo_v2": (_p, _p),
    "cuMemPoolSetAttribute": (_p, _i32, _p),
    "cuMemAllocAsync": (_p, _size, _p),
    "cuMemFreeAsync": (_u64, _p),
    "cuMemHostAlloc": (_p, _size, _u32),
    "cuMemFreeHost": (_p,),
    "cuMemcpyAsync": (_u64, _u64, _size, _p),
    "cuMemcpyPeerAsync": (_u64, _p, _u64, _p, _size, _p),
    "cuMemcpyHtoDAsync_v2": (_u64, _p, _size, _p),
    "cuMemcpyDtoHAsync_v2": (_p, _u64, _size, _p),
    "cuMemsetD8Async": (_u64, ctypes.c_ubyte, _size, _p),
    "cuMemsetD16Async": (_u64, ctypes.c_ushort, _size, _p),
    "cuMemsetD32Async": (_u64, _u32, _size, _p),
    "cuPointerGetAttribute": (_p, _i32, _u64),
    "cuModuleLoadDataEx": (_p, _p, _u32, _p, _p),
    "cuModuleUnload": (_p,),
    "cuModuleGetFunction": (_p, _p, ctypes.c_char_p),
    "cuFuncSetAttribute": (_p, _i32, _i32),
    "cuFuncGetAttribute": (_p, _i32, _p),
    "cuTensorMapEncodeTiled": (_p, _i32, _u32, _u64, _p, _p, _p, _p, _i32, _i32, _i32, _i32),
    "cuTensorMapReplaceAddress": (_p, _u64),
    "cuLaunchKernelEx": (_p, _p, _p, _p),
    "cuStreamCreateWithPriority": (_p, _u32, _i32),
    "cuStreamDestroy_v2": (_p,),
    "cuStreamSynchronize": (_p,),
    "cuStreamQuery": (_p,),
    "cuStreamWaitEvent": (_p, _p, _u32),
    "cuStreamIsCapturing": (_p, _p),
    "cuStreamBeginCapture_v2": (_p, _i32),
    "cuStreamEndCapture": (_p, _p),
    "cuEventCreate": (_p, _u32),
    "cuEventDestroy_v2": (_p,),
    "cuEventRecord": (_p, _p),
    "cuEventQuery": (_p,),
    "cuEventSynchronize": (_p,),
    "cuEventElapsedTime": (_p, _p, _p),
    "cuGraphDestroy": (_p,),
    "cuGraphInstantiateWithFlags": (_p, _p, _u64),
    "cuGraphLaunch": (_p, _p),
    "cuGraphExecDestroy": (_p,),
}
"""The argument types of each driver function; all functions return an error code, 0 for success."""

NOT_INITIALIZED, NO_DEVICE, STUB = 3, 100, 34
INVALID_CONTEXT, INVALID_HANDLE, NOT_READY = 201, 400, 600

Driver = Any
"""An object with a function for each name in PROTOTYPES."""


class Unavailable(RuntimeError):
    """Raised if there is no driver or it cannot be used; the message is the reason."""


class _State:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.driver: Driver = None
        self.failure: str | None = None


_state = _State()


def _after_fork() -> None:
    """Drop the driver in a forked child, in which a driver that the parent has used does not work."""
    parent_used_driver = _state.driver is not None
    _state.__init__()
    if parent_used_driver:
        _state.failure = (
            "CUDA cannot be used in a process that was forked after its parent had used CUDA; start it with "
            "multiprocessing.get_context('spawn')"
        )


os.register_at_fork(after_in_child=_after_fork)


def driver() -> Driver:
    """The driver, loaded and initialised by the first call. Unavailable if that fails, also for later calls."""
    if _state.driver is None:
        with _state.lock:
            if _state.driver is None and _state.failure is None:
                try:
                    _state.driver = initialised(_load())
                except Unavailable as error:
                    _state.failure = str(error)
        if _state.failure is not None:
            raise Unavailable(_state.failure)
    return _state.driver


def install(replacement: Driver) -> Driver:
    """Replace the driver by another object, or by None for the real driver, which is loaded on demand. Returns the
    previous object."""
    previous = _state.driver
    _state.driver, _state.failure = replacement, None
    return previous


def _load() -> Driver:
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise Unavailable(f"the NVIDIA driver is not installed ({LIBRARY} cannot be loaded)") from error
    for name, arguments in PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise Unavailable(
                f"the NVIDIA driver is too old: it has no {name}; CUDA 12.0 is needed"
            ) from None
        function.restype, function.argtypes = ctypes.c_int, arguments
    return library


def initialised(library: Driver) -> Driver:
    """The given driver, initialised; Unavailable if initialisation fails, the driver is too old, or there is no
    device."""
    code = library.cuInit(0)
    if code:
        message = (
            "there is no CUDA device"
            if code == NO_DEVICE
            else f"the NVIDIA driver does not start: {text(code, library)}"
        )
        raise Unavailable(message)
    driver_version = version(library)
    if driver_version < MIN_VERSION:
        raise Unavailable(
            f"the NVIDIA driver is too old: it supports CUDA {_dotted_version(driver_version)}, but 12.0 is needed"
        )
    return library


def version(library: Driver) -> int:
    """The version of the driver's interface: 1000 * major + 10 * minor."""
    number = ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(number))
    return number.value


def address(function: Any) -> int:
    """The address of a function of ctypes; 0 for a Python function."""
    try:
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    except (TypeError, ctypes.ArgumentError):
        return 0


def version_text() -> str:
    """The version of the driver's interface, such as "13.0"; Unavailable without a driver."""
    return _dotted_version(version(driver()))


def _dotted_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def text(code: int, library: Driver) -> str:
    """The name and description of an error code: "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"."""
    name_and_description: list[str] = []
    for name in ("cuGetErrorName", "cuGetErrorString"):
        characters = ctypes.c_char_p()
        if getattr(library, name)(code, ctypes.byref(characters)) or characters.value is None:
            return f"error {code}"
        name_and_description.append(characters.value.decode())
    return f"{name_and_description[0]} ({name_and_description[1]})"
