"""A cache of the output of LLVM and ptxas, shared by tests, workers and later runs. `inspect.unwrap` returns the
functions without the cache."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar

import llvmlite
import pytest

from tegula import backend
from tegula.backend import llvm, ptx
from tegula.target import CpuTarget, get_cuda_target

Result = TypeVar("Result")
MAX_CACHE_BYTES = 256 << 20
"""The largest size of the cache in bytes; the least recently used entries are deleted."""
_LENGTH = struct.Struct("<Q")
_object, _ptx, _cubin = llvm.compile_object, llvm.compile_ptx, ptx._run


class StoredCode:
    """A folder of compiled code, named by the hash of all inputs. Failures are not stored."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def compiler(self) -> str:
        """A text that identifies the version and the options of LLVM."""
        sources = sorted(Path(backend.__file__).parent.glob("*.py"))
        return " ".join(
            (llvmlite.__version__, *(hashlib.sha256(p.read_bytes()).hexdigest() for p in sources))
        )

    def compile_object(self, ir_text: str, target: CpuTarget) -> bytes:
        """Compile for a processor, with the cache."""
        path = self._path(self.compiler, repr(target), ir_text)
        return self._cached(path) or self._store(path, _object(ir_text, target))

    def compile_ptx(self, ir_text: str, arch: str) -> str:
        """Compile to PTX, with the cache."""
        path = self._path(self.compiler, repr(get_cuda_target(arch)), ir_text)
        return (self._cached(path) or self._store(path, _ptx(ir_text, arch).encode())).decode()

    def assemble(
        self,
        program: str,
        text: str,
        arch: str,
        fast_compile: bool = False,
        meanwhile: Callable[[], object] | None = None,
    ) -> tuple[int, str, bytes]:
        """Run ptxas, with the cache. Returns the exit status, the output and the cubin."""
        stamp = ptx._program_identity(program) if os.path.exists(program) else program
        path = self._path(stamp, arch, text, *(["fast_compile"] if fast_compile else []))
        data = self._cached(path)
        if not data:
            status, log, code = _cubin(program, text, arch, fast_compile, meanwhile)
            if status:
                return status, log, code
            data = self._store(path, _LENGTH.pack(len(log.encode())) + log.encode() + code)
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

    def _store(self, path: Path, data: bytes) -> bytes:
        try:
            temporary_path = path.with_suffix(f".{os.getpid()}")
            temporary_path.write_bytes(data)
            os.replace(temporary_path, path)
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
            if total <= MAX_CACHE_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= size


def pytest_configure(config: pytest.Config) -> None:
    """Store code in pytest's cache folder, if the run has one. Installed before the collection of tests, because tests
    import the patched names."""
    if not config.pluginmanager.hasplugin("cacheprovider"):
        return
    code_cache = StoredCode(config.cache.mkdir("code"))
    if not hasattr(config, "workerinput"):
        code_cache.trim()
    llvm.compile_object = _wrapped_as(_object, code_cache.compile_object)
    llvm.compile_ptx = _wrapped_as(_ptx, code_cache.compile_ptx)
    ptx._run = code_cache.assemble
    ptx.started = _wrapped_as(ptx.started, _not_started)


@contextmanager
def _not_started(
    arch: str, has_lines: bool, configured: str | None = None, fast_compile: bool = False
) -> Iterator[None]:
    """No process waits for PTX that may be in the cache."""
    yield


def _wrapped_as(function: Callable[..., Result], replacement: Callable[..., Result]) -> Callable[..., Result]:
    @wraps(function)
    def call(*args: Any, **options: Any) -> Result:
        return replacement(*args, **options)

    return call
