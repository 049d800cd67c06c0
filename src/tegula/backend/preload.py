"""LLVM's shared library, loaded on another thread while a kernel is prepared for it.

Relocating the library takes 5 ms, for which the dynamic loader does not need the interpreter's lock. llvmlite finds the
library loaded later; if it has no library at the usual path, llvmlite loads its library itself."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from importlib.util import find_spec
from threading import Thread


@cache
def start_loading_llvm() -> None:
    """Start to load LLVM's library, once for each process."""
    if sys.platform != "linux" or "llvmlite" in sys.modules:
        return
    package = find_spec("llvmlite")
    if package is None or package.origin is None:
        return
    path = os.path.join(os.path.dirname(package.origin), "binding", "libllvmlite.so")
    if os.path.exists(path):
        dlopen = ctypes.CDLL(None).dlopen
        dlopen.argtypes, dlopen.restype = (ctypes.c_char_p, ctypes.c_int), ctypes.c_void_p
        # The handle is kept until the end of the process, as llvmlite keeps its own.
        Thread(target=dlopen, args=(path.encode(), os.RTLD_NOW), daemon=True).start()


__all__ = ["start_loading_llvm"]
