"""A stand-in for `importlib.resources` while another package is imported.

llvmlite imports `importlib.resources` for the path of its library, and that imports modules for zip files, temporary
files, compression and random numbers: 6 ms, as long as llvmlite's own modules take. The stand-in finds files in
directories itself. For all else it loads `importlib.resources`, so that code that has the stand-in can do whatever the
module can."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import ModuleType
from typing import Any

NAME = "importlib.resources"


class PackageFiles(ModuleType):
    """The stand-in."""

    def files(self, package: Any) -> Any:
        """The folder of a package."""
        return PackageFile(package) if isinstance(package, str) else self.module.files(package)

    def as_file(self, file: Any) -> Any:
        """A context in which a resource is a file."""
        if not isinstance(file, PackageFile):
            return self.module.as_file(file)
        return nullcontext(file) if os.path.isfile(file) else self.module.as_file(file.resource)

    @property
    def module(self) -> Any:
        """The module itself, which takes the place of the stand-in when it is first needed."""
        if sys.modules.get(NAME) is self:
            del sys.modules[NAME]
        return import_module(NAME)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


class PackageFile:
    """A file of a package, by the names of its folders and its own name."""

    def __init__(self, package: str, *names: str) -> None:
        self.package, self.names = package, names

    def __truediv__(self, name: str) -> PackageFile:
        return PackageFile(self.package, *self.names, name)

    def __fspath__(self) -> str:
        module = sys.modules.get(self.package)
        return os.path.join(os.path.dirname(getattr(module, "__file__", None) or ""), *self.names)

    def __str__(self) -> str:
        return self.__fspath__()

    @property
    def resource(self) -> Any:
        """The file as `importlib.resources` describes it."""
        return import_module(NAME).files(self.package).joinpath(*self.names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.resource, name)


@contextmanager
def package_files() -> Iterator[None]:
    """A context in which packages that import `importlib.resources` get the stand-in, unless the module is loaded."""
    if NAME in sys.modules:
        yield
        return
    stand_in = sys.modules[NAME] = PackageFiles(NAME)
    try:
        yield
    finally:
        if sys.modules.get(NAME) is stand_in:
            del sys.modules[NAME]


__all__ = ["package_files"]
