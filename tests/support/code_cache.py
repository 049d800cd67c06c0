"""A cache of the output of LLVM and ptxas for other tests, workers and later runs. `inspect.unwrap` gives the functions
without the cache."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import pytest

from tegula import backend
from tegula.backend import llvm, ptx
from tegula.target import CpuTarget, get_cuda_target

Result = TypeVar("Made")
MAX_BYTES = 256 << 20
"""The largest number of entries; the least recently used entries are deleted."""
_LENGTH = struct.Struct("<Q")
_object, _ptx, _cubin = llvm.compile_object, llvm.compile_ptx, ptx._run


class StoredCode:
    """A folder of code, by the hash of all inputs. Failures are not stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def compiler(self) -> str:
        """A text for LLVM's version and options."""
        sources = sorted(Path(backend.__file__).parent.glob("*.py"))
        return " ".join(
            (llvmlite.__version__, *(hashlib.sha256(p.read_bytes()).hexdigest() for p in sources))
        )

    def compile_object(self, ir_text: str, target: CpuTarget) -> bytes:
        """Compile for a processor, with the cache."""
        path = self._path(self.compiler, repr(target), ir_text)
        return self._cached(path) or self._keep(path, _object(ir_text, target))

    def compile_ptx(self, ir_text: str, arch: str) -> str:
        """Compile to PTX, with the cache."""
        path = self._path(self.compiler, repr(get_cuda_target(arch)), ir_text)
        return (self._cached(path) or self._keep(path, _ptx(ir_text, arch).encode())).decode()

    def assembled(self, program: Path, text: str, arch: str) -> tuple[int, str, bytes]:
        """Run ptxas, with the cache. Returns its status, its output and the code."""
        stamp = ptx._stamp(program) if program.exists() else str(program)
        path = self._path(stamp, arch, text)
        data = self._cached(path)
        if not data:
            status, log, code = _cubin(program, text, arch)
            if status:
                return status, log, code
            data = self._keep(path, _LENGTH.pack(len(log.encode())) + log.encode() + code)
        end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
        return 0, data[_LENGTH.size : end].decode(), data[end:]

    def _path(self, *content: str) -> Path:
        return self.folder / hashlib.sha256("\0".join(content).encode()).hexdigest()

    def _cached(self, path: Path) -> bytes:
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return b""
        return data

    def _keep(self, path: Path, data: bytes) -> bytes:
        try:
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_bytes(data)
            os.replace(unfinished, path)
        except OSError:
            pass
        return data

    def trim(self) -> None:
        """Delete the least recently used entries."""
        entries = [
            (status.st_mtime, status.st_size, p) for p in self.folder.iterdir() for status in (p.stat(),)
        ]
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= MAX_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= size


def pytest_configure(config: pytest.Config) -> None:
    """Store code in pytest's cache folder, if there is one. Installed before tests are collected, because they import
    the names."""
    if not config.pluginmanager.hasplugin("cacheprovider"):
        return
    code_cache = StoredCode(config.cache.mkdir("code"))
    if not hasattr(config, "workerinput"):
        code_cache.trim()
    llvm.compile_object = _in_place_of(_object, code_cache.compile_object)
    llvm.compile_ptx = _in_place_of(_ptx, code_cache.compile_ptx)
    ptx._run = code_cache.assembled


def _in_place_of(function: Callable[..., Result], by: Callable[..., Result]) -> Callable[..., Result]:
    @wraps(function)
    def made(*args: Any, **options: Any) -> Result:
        return by(*args, **options)

    return made
