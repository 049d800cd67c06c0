"""A pause of Python's garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

MAX_UNVISITED = 400_000
"""The number of objects that were created in pauses after which all objects are visited once."""


MAX_FROZEN_AT_START = 1000
"""More objects than Python freezes itself: Python 3.12 starts with 375."""


class _Pauses:
    """The number of pauses in progress, on all threads, whether the collection was enabled before the first, the number
    of objects that were created in pauses and that no collection has visited, and whether the program has frozen
    objects, which takes long to find out if there are many."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count = 0
        self.was_enabled = False
        self.unvisited = 0
        self.has_frozen_objects = False

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
                self._move_to_oldest_generation()
                gc.enable()

    def _move_to_oldest_generation(self) -> None:
        """Move the objects of the pause to the oldest generation, which collections of young objects do not visit. Most
        of them are modules, functions and caches; the others are collected with all other garbage. Objects that the
        program has frozen stay frozen, and those of pauses stay young then."""
        self.has_frozen_objects = self.has_frozen_objects or gc.get_freeze_count() > MAX_FROZEN_AT_START
        if self.has_frozen_objects:
            return
        self.unvisited += gc.get_count()[0]
        if self.unvisited > MAX_UNVISITED:
            self.unvisited = 0
            gc.collect()
        else:
            gc.freeze()
            gc.unfreeze()


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
