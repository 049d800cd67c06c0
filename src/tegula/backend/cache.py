"""Compiled kernels on disk. An entry is one file: a header with a checksum, JSON, machine code."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MAGIC = b"TGLC0001"
HEADER = struct.Struct("<8s32sQQ")
LIMIT = 512 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled kernel: what the launch must know, and its object."""

    metadata: dict[str, Any]
    code: bytes


def directory(configured: str | None = None) -> Path:
    """Where entries lie: as configured, or in the user's cache directory (XDG)."""
    if configured:
        return Path(configured)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tegula"


@cache
def _sources() -> bytes:
    """A digest of Tegula's own files: names, sizes, times of change."""
    root = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        status = path.stat()
        digest.update(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.digest()


@cache
def _llvmlite() -> bytes:
    """What identifies the installed llvmlite, without importing it."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return b"none"
    version = Path(spec.origin).parent / "_version.py"
    return version.read_bytes() if version.exists() else str(Path(spec.origin).stat().st_mtime_ns).encode()


def key(parts: Iterable[str]) -> str:
    """The name of the entry for everything that the code depends on."""
    digest = hashlib.sha256(_sources() + _llvmlite())
    for part in parts:
        data = part.encode()
        digest.update(struct.pack("<Q", len(data)) + data)
    return digest.hexdigest()


class Cache:
    """Entries in one directory; safe for several processes at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, name: str) -> Entry | None:
        """The entry, or None if there is none or it is damaged."""
        try:
            data = (self.path / name).read_bytes()
        except OSError:
            return None
        if len(data) < HEADER.size:
            return None
        magic, checksum, text_size, code_size = HEADER.unpack_from(data)
        body = data[HEADER.size :]
        if magic != MAGIC or len(body) != text_size + code_size or hashlib.sha256(body).digest() != checksum:
            return None
        return Entry(json.loads(body[:text_size]), body[text_size:])

    def put(self, name: str, entry: Entry) -> None:
        """Write an entry whole or not at all. A directory that cannot be written leaves the cache as it is."""
        text = json.dumps(entry.metadata).encode()
        body = text + entry.code
        data = HEADER.pack(MAGIC, hashlib.sha256(body).digest(), len(text), len(entry.code)) + body
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            temporary = self.path / f".new-{os.getpid()}-{time.monotonic_ns()}"
            temporary.write_bytes(data)
            os.replace(temporary, self.path / name)
        except OSError:
            return
        self._trim()

    def _trim(self) -> None:
        """Drop the entries used longest ago when the directory grows past its limit."""
        entries = [(p, p.stat()) for p in self.entries()]
        total = sum(status.st_size for _, status in entries)
        for path, status in sorted(entries, key=lambda e: e[1].st_atime):
            if total <= LIMIT:
                return
            path.unlink(missing_ok=True)
            total -= status.st_size

    def entries(self) -> list[Path]:
        return [p for p in self.path.glob("*") if p.is_file() and not p.name.startswith(".")]

    def size(self) -> int:
        """Bytes of all entries."""
        return sum(p.stat().st_size for p in self.entries())

    def clear(self) -> int:
        """Remove all entries; how many there were."""
        found = self.entries()
        for path in found:
            path.unlink(missing_ok=True)
        return len(found)
