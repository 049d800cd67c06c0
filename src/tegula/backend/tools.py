"""The identity of the tools that produce an object: a digest of Tegula's sources, and the version of llvmlite."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from threading import RLock, Thread

from tegula.deferred import deferred_imports

with deferred_imports():
    from hashlib import sha256

ROOT = os.path.dirname(os.path.dirname(__file__))
MEMO_PREFIX = ".sources-"
# A file that is modified twice within a tick of the file system's clock keeps its times, so that digests of files
# modified more recently than this, in nanoseconds, are not stored.
STABLE_NS = 2 * 10**9

_digests: dict[str, bytes] = {}
_computing = RLock()
"""Held while a digest is computed. A fork waits for that, so that no process begins with a lock of another thread."""
os.register_at_fork(
    before=_computing.acquire, after_in_parent=_computing.release, after_in_child=_computing.release
)
_wanted: list[str] = []


def sources_digest(memos: str, root: str = ROOT) -> bytes:
    """A digest of the contents of Tegula's files, computed once per process.

    `memos`: a directory that stores the digest by the files' sizes, modification times and inodes, so that most
    processes need not read the files. Each modification of a file sets a new time of status change (ctime)."""
    with _computing:
        digest = _digests.get(root)
        if digest is None:
            digest = _digests[root] = _stored_digest(memos, root)
        return digest


def want_digest(memos: str) -> None:
    """Note that the digest is needed after the next run of LLVM."""
    _wanted.append(memos)


def start_wanted_digest() -> None:
    """Compute a wanted digest on another thread, while LLVM runs without the interpreter's lock; `sources_digest` waits
    for the result."""
    directories = _wanted[:1]
    _wanted.clear()
    for memos in directories:
        Thread(target=sources_digest, args=(memos,), daemon=True).start()


def _stored_digest(memos: str, root: str) -> bytes:
    files = sorted(_files(root))
    lines = [f"{path} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_dev} {s.st_ino}" for path, s in files]
    memo = os.path.join(memos, MEMO_PREFIX + sha256("\n".join(lines).encode()).hexdigest())
    try:
        data = _contents(memo, 64)
    except OSError:
        data = b""
    if len(data) == 64 and _memo_checksum(memo, data[:32]) == data[32:]:
        return data[:32]
    digest = _digest_of_contents(root, [(path, s.st_size) for path, s in files])
    if max((s.st_ctime_ns for _, s in files), default=0) < time.time_ns() - STABLE_NS:
        write_atomically(memo, digest + _memo_checksum(memo, digest))
    return digest


def _memo_checksum(memo: str, digest: bytes) -> bytes:
    """A checksum of a memo's contents and name, so that a memo under another name is invalid."""
    return sha256(os.path.basename(memo).encode() + digest).digest()


def _files(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)


def _digest_of_contents(root: str, files: list[tuple[str, int]]) -> bytes:
    """The digest of files. `files`: their paths and sizes."""
    digest = sha256()
    start = len(root) + 1
    for path, size in files:
        data = _contents(path, size)
        digest.update(f"{path[start:]} {len(data)}\n".encode() + data)
    return digest.digest()


def _contents(path: str, size: int) -> bytes:
    """The contents of a file, which is read at once if it has the expected size, in a third of the time that a file
    object takes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        data = os.read(descriptor, size + 1)
        return (
            data if len(data) == size else data + b"".join(iter(partial(os.read, descriptor, 1 << 16), b""))
        )
    finally:
        os.close(descriptor)


def write_atomically(path: str, data: bytes) -> bool:
    """Write a file whose readers see all of its contents or none, and create its directory, which only the user may
    read. Returns False if the directory is read-only."""
    directory = os.path.dirname(path)
    temporary = os.path.join(directory, f".new-{os.getpid()}-{os.urandom(8).hex()}")
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError:
        remove(temporary)
        return False
    return True


def remove(path: str) -> None:
    """Remove a file, unless another process has removed it, or the directory is read-only."""
    with suppress(OSError):
        os.unlink(path)


@cache
def llvmlite_version() -> bytes:
    """The identity of the installed llvmlite, found without importing it."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return b"none"
    version = os.path.join(os.path.dirname(spec.origin), "_version.py")
    if os.path.exists(version):
        with open(version, "rb") as file:
            return file.read()
    from importlib.metadata import version as installed

    return installed("llvmlite").encode()
