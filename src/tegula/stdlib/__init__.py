"""The standard library, written in the kernel language. A module is imported when one of its functions is looked up,
and all modules for the tables of all functions, which are names of this package."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any

from tegula.stdlib import registry

TABLES = ("COMPOUND_FUNCTIONS", "EXACT_DEFINITIONS", "FAMILIES", "FUNCTIONS")
"""The names of the tables of all functions."""
PACKAGES = ("tegula.stdlib", "tegula.stdlib.geometry")
"""The packages of functions that are not cooperative."""


def __getattr__(name: str) -> Any:
    if name not in TABLES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import_all(PACKAGES)
    return getattr(registry, name)


@cache
def import_all(packages: tuple[str, ...]) -> None:
    """Import all modules of packages of the library."""
    for module, _ in _files(packages):
        import_module(module)


def import_definitions(packages: tuple[str, ...], name: str) -> None:
    """Import the modules of packages of the library that define a function of this name, which their texts show."""
    for module in _modules_by_name(packages).get(name, ()):
        import_module(module)


@cache
def _modules_by_name(packages: tuple[str, ...]) -> dict[str, list[str]]:
    """The names of the modules of packages of the library, by the name of a function that they define."""
    modules: dict[str, list[str]] = {}
    for module, file in _files(packages):
        with open(file, "rb") as opened:
            _, *definitions = opened.read().split(b"\ndef ")
        for definition in definitions:
            modules.setdefault(definition[: definition.find(b"(")].decode(), []).append(module)
    return modules


def _files(packages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The modules of packages of the library, by name, with their files."""
    for package in packages:
        folder = os.path.join(__path__[0], *package.split(".")[2:])
        for file in sorted(os.listdir(folder)):
            if file.endswith(".py") and file != "__init__.py":
                yield f"{package}.{file[:-3]}", os.path.join(folder, file)
