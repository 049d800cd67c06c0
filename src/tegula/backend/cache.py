"""The disk cache of compiled kernels. An entry is a file: a header with a checksum, the key, JSON metadata, machine
code."""

from __future__ import annotations

import json
import os
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from os import PathLike, fspath
from typing import Any

from tegula.backend.tools import (
    MEMO_PREFIX,
    llvmlite_version,
    remove,
    sources_digest,
    want_digest,
    write_atomically,
)
from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports

with deferred_imports():
    from hashlib import sha256

# The format version of an entry, which changes with the layout below.
MAGIC = b"TGLC0002"
HEADER = struct.Struct("<8s32sQQQ")
MAX_BYTES = 512 << 20
# In seconds: the minimum time between two recorded uses of an entry, and the ages at which unfinished files and digests
# of Tegula's sources are removed.
USE_INTERVAL, UNFINISHED_AGE, DIGEST_AGE = 3600, 3600, 30 * 86400


@dataclass(frozen=True, slots=True)
class Entry:
    """A compiled kernel: the metadata for launches, and its object code."""

    metadata: dict[str, Any]
    code: bytes


def directory(configured: str | None = None) -> str:
    """The directory of the entries: the configured one, or one in the user's cache directory (XDG, which ignores
    relative paths)."""
    if configured:
        return configured
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "tegula")


class Cache:
    """Entries in one directory; safe for several processes at once.

    A damaged or renamed entry is treated as missing. If the directory cannot be read or written, every look-up is a
    miss."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = fspath(path)

    def key(self, parts: Iterable[str]) -> str:
        """The name of an entry: a digest of `parts`, all inputs of code generation, and of the tools that compile the
        code."""
        digest = sha256(sources_digest(self.path) + llvmlite_version())
        for part in parts:
            data = part.encode()
            digest.update(struct.pack("<Q", len(data)) + data)
        return digest.hexdigest()

    def is_empty(self) -> bool:
        """Whether the cache has no entries, so that every look-up is a miss, for which no key is needed. The digest of
        Tegula's sources, for the key of the new entry, is then computed while LLVM runs."""
        try:
            with os.scandir(self.path) as files:
                if any(not file.name.startswith(".") for file in files):
                    return False
        except OSError:
            pass
        want_digest(self.path)
        return True

    def get(self, name: str) -> Entry | None:
        """The entry of this name, or None if the entry is missing or damaged."""
        path = os.path.join(self.path, name)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            return None
        entry = _decode(data, name)
        if entry is not None:
            _record_use(path)
        return entry

    def put(self, name: str, entry: Entry) -> None:
        """Write an entry atomically. If the directory is not writable, the cache stays unchanged.

        TypeError if the metadata is not JSON."""
        data = _encode(entry, name)
        is_written = write_atomically(os.path.join(self.path, name), data)
        # Reading the whole directory is slow: one pseudo-random put in 256 trims the cache.
        if is_written and (name.startswith("00") or len(data) > MAX_BYTES >> 8):
            self.trim()

    def trim(self, limit: int = MAX_BYTES) -> None:
        """Remove unfinished files, and the least recently used entries until the other entries have at most `limit`
        bytes."""
        now = time.time()
        files: list[tuple[float, int, str]] = []
        for name, path in self._files():
            try:
                status = os.stat(path)
            except OSError:
                continue
            if not name.startswith("."):
                files.append((status.st_mtime, status.st_size, path))
            elif now - status.st_mtime > (DIGEST_AGE if name.startswith(MEMO_PREFIX) else UNFINISHED_AGE):
                remove(path)
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= limit:
                return
            remove(path)
            total -= size

    def _files(self) -> list[tuple[str, str]]:
        """The names and the paths of all files of the directory."""
        try:
            return [(name, os.path.join(self.path, name)) for name in os.listdir(self.path)]
        except OSError:
            return []

    def entries(self) -> list[str]:
        """The paths of the entries, without files that are being written."""
        return [path for name, path in self._files() if os.path.isfile(path) and not name.startswith(".")]

    def size(self) -> int:
        """The size of all entries in bytes."""
        return sum(os.path.getsize(path) for path in self.entries())

    def clear(self) -> int:
        """Remove all entries and all other files of the cache. Returns the number of entries removed."""
        entries = self.entries()
        for path in [*entries, *(path for name, path in self._files() if name.startswith(MEMO_PREFIX))]:
            remove(path)
        return len(entries)


def _encode(entry: Entry, name: str) -> bytes:
    key, text = name.encode(), json.dumps(entry.metadata).encode()
    body = key + text + entry.code
    checksum = sha256(body).digest()
    return HEADER.pack(MAGIC, checksum, len(key), len(text), len(entry.code)) + body


def _decode(data: bytes, name: str) -> Entry | None:
    if len(data) < HEADER.size:
        return None
    magic, checksum, key_size, text_size, code_size = HEADER.unpack_from(data)
    body = data[HEADER.size :]
    is_complete = len(body) == key_size + text_size + code_size and sha256(body).digest() == checksum
    if magic != MAGIC or not is_complete or body[:key_size] != name.encode():
        return None
    code_start = key_size + text_size
    return Entry(json.loads(body[key_size:code_start]), body[code_start:])


def _default_cache() -> Cache | None:
    return Cache(directory(os.environ.get("TEGULA_CACHE_DIR")))


disk_cache: Callable[[], Cache | None] = _default_cache
"""The function that returns the disk cache of code that belongs to no kernel; the runtime replaces it by the configured
cache."""


def _record_use(path: str) -> None:
    """Record a use of an entry for `trim`: set the file's times to the current time, because most file systems do not
    record reads."""
    with suppress(OSError):
        if time.time() - os.path.getmtime(path) > USE_INTERVAL:
            os.utime(path)
