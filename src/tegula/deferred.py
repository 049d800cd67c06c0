"""Imports of functions whose modules are loaded when the functions are first called.

    with deferred_imports():
        from tegula.passes.release_stages import release_stages

A module takes 0.2 ms to load, and first compiles of most kernels need half of the compiler's modules. A name of such a
block is a placeholder, which can be called and stored in tables. The first call replaces it by the function. A block
imports functions, and classes that are only called: no classes of tests, and no constants."""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from threading import RLock
from typing import Any

_block = RLock()
"""Held in a block, so that one thread at a time replaces the function that `import` statements call. A finaliser that
Python runs in a block may have blocks of its own. A fork waits for the blocks of other threads."""
os.register_at_fork(before=_block.acquire, after_in_parent=_block.release, after_in_child=_block.release)


class DeferredFunction:
    """A function of a module that is not loaded yet. `importer`: the names of the module that imports the function."""

    def __init__(self, module: str, name: str, importer: dict[str, Any]) -> None:
        self.__module__ = module
        self.__name__ = name
        self.importer = importer

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.load()(*args, **options)

    def load(self) -> Any:
        """The function itself, which replaces this object among the importer's names."""
        function = getattr(import_module(self.__module__), self.__name__)
        # Other threads may add names to the importer.
        for name, value in list(self.importer.items()):
            if value is self:
                self.importer[name] = function
        return function


class _DeferredModule:
    """The result of an `import` statement in a block; `from` reads its attributes."""

    def __init__(self, module: str, importer: dict[str, Any]) -> None:
        self._module, self._importer = module, importer

    def __getattr__(self, name: str) -> DeferredFunction:
        return DeferredFunction(self._module, name, self._importer)


class deferred_imports:
    """A block of `from ... import` statements at the top of a file, for functions that most programs do not call. The
    imports of other files, by other threads or in finalisers, are not deferred."""

    importer: dict[str, Any]
    importing: Callable[..., Any]

    def __enter__(self) -> None:
        self.importer = sys._getframe(1).f_globals
        _block.acquire()
        self.importing = builtins.__import__
        builtins.__import__ = self._import

    def __exit__(self, *_: object) -> None:
        builtins.__import__ = self.importing
        _block.release()

    def _import(
        self,
        name: str,
        globals: dict[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if globals is not self.importer:
            return self.importing(name, globals, locals, fromlist or (), level)
        assert fromlist and not level, f"import functions of {name} by name"
        return _DeferredModule(name, self.importer)


__all__ = ["DeferredFunction", "deferred_imports"]
