"""Captured objects: the outer objects that the trace of a kernel has read, recorded so that a launch can detect
changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from tegula.composite import Composite
from tegula.lang.definition import Definition

Fetch = Callable[[Any], Any]
Captured = tuple[Fetch, str, Any]
"""`(fetch, name, value)`: `fetch(name)` is `value` as long as the captured object has not changed."""


class Captures:
    """Collects captures. Names of the standard library are omitted: they are never rebound. `constants`: values that
    override the Python bindings of variables in this kernel."""

    def __init__(self, kernel: Definition) -> None:
        self.captured: dict[tuple[int, str], Captured] = {}
        self.constants = {kernel.variable(name): value for name, value in kernel.constants.items()}

    def lookup(self, definition: Definition) -> Fetch:
        """`definition.lookup`, which also records the names that it looks up."""
        if (definition.function.__module__ or "").startswith("tegula.stdlib."):
            return definition.lookup

        def recording_lookup(name: str) -> Any:
            if self.constants and definition.variable(name) in self.constants:
                return self.constants[definition.variable(name)]
            value = definition.lookup(name)
            if isinstance(value, ModuleType) and value.__name__ == "tegula":
                return value
            function = definition.function
            free = function.__code__.co_freevars
            if name in free:
                cell = (function.__closure__ or ())[free.index(name)]
                self._record(id(cell), name, cell.__getattribute__, "cell_contents")
            else:
                self._record(id(function.__globals__), name, function.__globals__.get, name)
            return value

        return recording_lookup

    def attribute(self, owner: object, name: str) -> None:
        """Record that an attribute of a module or class was read."""
        self._record(id(owner), name, partial(_attribute, owner), name)

    def _record(self, owner: int, label: str, fetch: Fetch, name: str) -> None:
        if (owner, label) in self.captured:
            return
        value = fetch(name)
        if _is_mutable(value):
            self.captured[owner, label] = (_SnapshotComparison(fetch, _snapshot(value)), name, True)
        else:
            self.captured[owner, label] = (fetch, name, value)


def _attribute(owner: object, name: str) -> Any:
    return getattr(owner, name, None)


def _is_mutable(x: object) -> bool:
    """Whether the contents of an object may change."""
    return isinstance(x, list | dict | np.ndarray | Composite) or (
        isinstance(x, tuple) and any(map(_is_mutable, x))
    )


class _SnapshotComparison:
    """A fetch that returns True as long as a container has the same content as at its capture."""

    def __init__(self, fetch: Fetch, content: object) -> None:
        self.fetch = fetch
        self.content = content

    def __call__(self, name: str) -> bool:
        return _snapshot(self.fetch(name)) == self.content


def _snapshot(x: Any) -> object:
    """A snapshot of a value. Two snapshots are equal only if kernels cannot distinguish the values."""
    if isinstance(x, Composite):
        x = x.numpy()
    if isinstance(x, np.ndarray):
        return (np.ndarray, x.dtype.str, x.shape, x.tobytes())
    if isinstance(x, list | tuple):
        return (type(x), *map(_snapshot, x))
    if isinstance(x, dict):
        return (dict, *((_snapshot(k), _snapshot(v)) for k, v in x.items()))
    if isinstance(x, bool | int | float | complex | str):
        return (type(x), repr(x))
    return _Identity(x)


class _Identity:
    """A reference that compares equal to references to the same object."""

    def __init__(self, x: object) -> None:
        self.x = x

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.x is self.x


def unchanged(captured: Captured) -> bool:
    """Whether a capture is unchanged: the name is bound to the same object, or to an equal number or string of the same
    type."""
    fetch, name, value = captured
    try:
        current = fetch(name)
    except (ValueError, AttributeError):  # a variable of an enclosing function that was deleted
        return False
    return current is value or (
        isinstance(value, bool | int | float | str) and _snapshot(current) == _snapshot(value)
    )


def refresh(captured: Captured) -> Captured:
    """An unchanged capture with the current object of the name."""
    fetch, name, _ = captured
    return fetch, name, fetch(name)
