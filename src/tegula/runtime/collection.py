"""A pause of Python's garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock


class _Pauses:
    """The number of pauses in progress, on all threads, and whether the collection was enabled before the first."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.was_enabled = False

    def begin(self) -> None:
        with self.lock:
            if not self.count:
                self.was_enabled = gc.isenabled()
                gc.disable()
            self.count += 1

    def end(self) -> None:
        with self.lock:
            self.count -= 1
            if not self.count and self.was_enabled:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def paused_collection() -> Generator[None]:
    """Pause the collection of cyclic garbage in the process, for code that creates many objects and needs most of them
    until the end. The collection visits all these objects again and again, and all other objects of the process."""
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()


__all__ = ["paused_collection"]
