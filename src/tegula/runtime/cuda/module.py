"""Modules of code on a device: compiled from LLVM IR text or read from the cache, and their functions."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from tegula.backend import cache as disk
from tegula.backend import ptx
from tegula.errors import InternalError, LaunchError, RunError
from tegula.runtime.config import config
from tegula.runtime.cuda.context import Context
from tegula.runtime.cuda.driver import text as error_text
from tegula.runtime.store import disk_cache
from tegula.target import CudaTarget

SHARED_ALWAYS = 48 << 10
"""The bytes of dynamic shared memory that a function may use without setting an attribute."""
LOG_BYTES = 1 << 16
INFO_LOG, INFO_LOG_BYTES, ERROR_LOG, ERROR_LOG_BYTES, LOG_VERBOSE, LINE_INFO = 3, 4, 5, 6, 12, 13
MAX_THREADS, LOCAL_BYTES, REGISTERS, MAX_DYNAMIC_SHARED = 0, 3, 4, 8


class LoadedModule:
    """Loaded code. Launchers of its functions keep a reference; launches may still run when the module is dropped (see
    `DroppedModules`)."""

    def __init__(self, context: Context, code: bytes, is_ptx: bool) -> None:
        self.context = context
        context.dropped.unload()
        self.handle: int = _compiled_by_driver(context, code) if is_ptx else _loaded(context, code)

    def function(self, name: str, shared_bytes: int = 0, threads: int = 1, registers: int = 0) -> int:
        """The handle of a kernel, configured for `shared_bytes` of dynamic shared memory.

        LaunchError if the device cannot run a block of `threads`; InternalError if the code does not have exactly the
        `registers` per thread that the roles assume (0: any number)."""
        call, make = self.context.call, self.context.make
        handle = make(ctypes.c_void_p, "cuModuleGetFunction", self.handle, name.encode())
        max_threads = make(ctypes.c_int, "cuFuncGetAttribute", MAX_THREADS, handle)
        if threads > max_threads:
            help = f"launch with block_dim={max_threads // 32 * 32} or less"
            raise LaunchError(
                f"the kernel needs so many registers that a block has at most {max_threads} threads", help
            )
        if registers and self.attribute(handle, REGISTERS) != registers:
            register_count = self.attribute(handle, REGISTERS)
            raise InternalError(
                f"the roles assume {registers} registers per thread at launch, but the code uses {register_count}"
            )
        if shared_bytes > SHARED_ALWAYS:
            call("cuFuncSetAttribute", handle, MAX_DYNAMIC_SHARED, shared_bytes)
        return handle

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if hasattr(self, "handle") and not ending():
            self.context.dropped.add(self.handle)

    def attribute(self, function: int, number: int) -> int:
        """An attribute of a function of the module by its number in the driver."""
        return self.context.make(ctypes.c_int, "cuFuncGetAttribute", number, function)


def _loaded(context: Context, code: bytes) -> int:
    return context.make(ctypes.c_void_p, "cuModuleLoadDataEx", code, 0, None, None)


def _compiled_by_driver(context: Context, code: bytes) -> int:
    """Compile PTX with the driver's compiler; warnings are errors, as for ptxas."""
    info_log, error_log = ctypes.create_string_buffer(LOG_BYTES), ctypes.create_string_buffer(LOG_BYTES)
    options = {
        INFO_LOG: ctypes.addressof(info_log),
        INFO_LOG_BYTES: LOG_BYTES,
        ERROR_LOG: ctypes.addressof(error_log),
        ERROR_LOG_BYTES: LOG_BYTES,
        LOG_VERBOSE: 1,
        LINE_INFO: int(ptx.has_lines(code.decode())),
    }
    names = (ctypes.c_int * len(options))(*options)
    values = (ctypes.c_void_p * len(options))(*options.values())
    module_handle = ctypes.c_void_p()
    status = context.status(
        "cuModuleLoadDataEx", ctypes.byref(module_handle), code, len(options), names, values
    )
    ptx.check_log(info_log.value.decode(errors="replace") + error_log.value.decode(errors="replace"))
    if status or module_handle.value is None:
        reason = error_log.value.decode(errors="replace").strip() or error_text(status, context.driver)
        raise InternalError(f"the driver's compiler refused the generated code:\n{reason}")
    return module_handle.value


def key_parts(parts: list[str], target: CudaTarget) -> list[str]:
    """The cache key of generated code: `parts`, the target and the compiler of PTX."""
    return [*parts, target.key, ptx.identity(config.ptxas)]


def compiled_entry(parts: list[str], target: CudaTarget, make: Any) -> tuple[disk.Entry, bool]:
    """The entry for `parts` and a target, from the disk cache or else from `make()`, and whether it was in the
    cache."""
    store = disk_cache()
    if store is None:
        return make(), False
    all_parts = key_parts(parts, target)
    entry = None if store.is_empty() else store.get(store.key(all_parts))
    if entry is not None:
        return entry, True
    entry = make()
    store.put(store.key(all_parts), entry)
    return entry, False


def assembled(
    text: str,
    target: CudaTarget,
    waiting: int = 0,
    require: Callable[[str], None] | None = None,
    shared_bytes: int = 0,
    tile_registers: int = 0,
) -> ptx.Cubin:
    """Compile LLVM IR text to code for a device. `waiting`: for a kernel that mostly waits for memory, the threads of a
    CTA with `shared_bytes` of shared memory; the code then uses fewer registers, so that more CTAs are resident.
    `require`: a function that is called with the PTX, and raises an error for a wrong order of instructions.
    `tile_registers`: the registers of tiles that are live in each thread throughout the kernel."""
    from tegula.backend.llvm import compile_ptx

    fast_compile = ptx.is_compiled_fast(text, waiting > 0)
    with ptx.started(target.arch, "!DILocation(" in text, config.ptxas, fast_compile):
        program = compile_ptx(text, target.arch)
        if require is not None:
            require(program)
        return ptx.compile_for_occupancy(
            program, target.arch, waiting, shared_bytes, tile_registers, config.ptxas, fast_compile
        )


def loaded(context: Context, entry: disk.Entry) -> LoadedModule:
    """The module of a cached entry. RunError if the device cannot load it."""
    try:
        return LoadedModule(context, entry.code, bool(entry.metadata.get("ptx")))
    except RunError as error:
        raise RunError(f"{error}; the code was compiled for another device") from error
