"""What ptxas makes of a text is kept for the other workers and for later runs, which would get the same."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

import pytest

from tegula.backend import ptx

MOST_BYTES = 256 << 20
"""Those used longest ago go where there are more."""
_LENGTH = struct.Struct("<Q")
_assemble = ptx._run


class Cubins:
    """A folder of them, by the hash of all that they depend on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def assembled(self, program: Path, text: str, arch: str) -> tuple[int, str, bytes]:
        """As ptxas itself: its status, what it says, and the code. Failures are not kept."""
        parts = "\0".join((ptx._stamp(program) if program.exists() else str(program), arch, text))
        path = self.folder / hashlib.sha256(parts.encode()).hexdigest()
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            data = b""
        if data:
            end = _LENGTH.size + _LENGTH.unpack_from(data)[0]
            return 0, data[_LENGTH.size : end].decode(), data[end:]
        status, log, code = _assemble(program, text, arch)
        if status == 0:
            self._keep(path, _LENGTH.pack(len(log.encode())) + log.encode() + code)
        return status, log, code

    def _keep(self, path: Path, data: bytes) -> None:
        try:
            unfinished = path.with_suffix(f".{os.getpid()}")
            unfinished.write_bytes(data)
            os.replace(unfinished, path)
        except OSError:
            return

    def trim(self) -> None:
        found = [
            (status.st_mtime, status.st_size, p) for p in self.folder.iterdir() for status in (p.stat(),)
        ]
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= MOST_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= size


def pytest_configure(config: pytest.Config) -> None:
    """In pytest's own cache; without one ptxas runs each time."""
    if not config.pluginmanager.hasplugin("cacheprovider"):
        return
    cubins = Cubins(config.cache.mkdir("cubins"))
    if not hasattr(config, "workerinput"):
        cubins.trim()
    ptx._run = cubins.assembled
