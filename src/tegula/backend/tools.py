"""The identity of the tools that produce an object: a digest of Tegula's sources, and the version of llvmlite."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from threading import RLock, Thread

from tegula.deferred import deferred_imports

with deferred_imports():
    from hashlib import sha256

ROOT = Path(__file__).parent.parent
MEMO_PREFIX = ".sources-"
# A file that is modified twice within a tick of the file system's clock keeps its times, so that digests of files
# modified more recently than this, in nanoseconds, are not stored.
STABLE_NS = 2 * 10**9

_digests: dict[Path, bytes] = {}
_computing = RLock()
"""Held while a digest is computed. A fork waits for that, so that no process begins with a lock of another thread."""
os.register_at_fork(
    before=_computing.acquire, after_in_parent=_computing.release, after_in_child=_computing.release
)
_wanted: list[Path] = []


def sources_digest(memos: Path, root: Path = ROOT) -> bytes:
    """A digest of the contents of Tegula's files, computed once per process.

    `memos`: a directory that stores the digest by the files' sizes, modification times and inodes, so that most
    processes need not read the files. Each modification of a file sets a new time of status change (ctime)."""
    with _computing:
        digest = _digests.get(root)
        if digest is None:
            digest = _digests[root] = _stored_digest(memos, root)
        return digest


def want_digest(memos: Path) -> None:
    """Note that the digest is needed after the next run of LLVM."""
    _wanted.append(memos)


def start_wanted_digest() -> None:
    """Compute a wanted digest on another thread, while LLVM runs without the interpreter's lock; `sources_digest` waits
    for the result."""
    directories = _wanted[:1]
    _wanted.clear()
    for memos in directories:
        Thread(target=sources_digest, args=(memos,), daemon=True).start()


def _stored_digest(memos: Path, root: Path) -> bytes:
    files = sorted(_files(str(root)))
    lines = [f"{path} {s.st_size} {s.st_mtime_ns} {s.st_ctime_ns} {s.st_dev} {s.st_ino}" for path, s in files]
    memo = memos / (MEMO_PREFIX + sha256("\n".join(lines).encode()).hexdigest())
    try:
        data = memo.read_bytes()
    except OSError:
        data = b""
    if len(data) == 64 and _memo_checksum(memo, data[:32]) == data[32:]:
        return data[:32]
    digest = _digest_of_contents(root, [(path, s.st_size) for path, s in files])
    if max((s.st_ctime_ns for _, s in files), default=0) < time.time_ns() - STABLE_NS:
        _write(memo, digest + _memo_checksum(memo, digest))
    return digest


def _memo_checksum(memo: Path, digest: bytes) -> bytes:
    """A checksum of a memo's contents and name, so that a memo under another name is invalid."""
    return sha256(memo.name.encode() + digest).digest()


def _files(directory: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path, entry.stat()
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path)


def _digest_of_contents(root: Path, files: list[tuple[str, int]]) -> bytes:
    """The digest of files. `files`: their paths and sizes."""
    digest = sha256()
    start = len(str(root)) + 1
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


def _write(memo: Path, data: bytes) -> None:
    """Write a memo atomically, unless the directory is read-only."""
    temporary = memo.with_name(f".new-{os.getpid()}-{os.urandom(8).hex()}")
    try:
        memo.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary.write_bytes(data)
        os.replace(temporary, memo)
    except OSError:
        return


@cache
def llvmlite_version() -> bytes:
    """The identity of the installed llvmlite, found without importing it."""
    spec = find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return b"none"
    version = Path(spec.origin).parent / "_version.py"
    if version.exists():
        return version.read_bytes()
    from importlib.metadata import version as installed

    return installed("llvmlite").encode()
