"""Cooperative functions of the standard library, one file each. A file is imported when one of its functions is looked
up, and all files for the tables of all functions, which are names of this package."""

from __future__ import annotations

from typing import Any

from tegula import declaration
from tegula.stdlib import import_all

TABLES = ("DECLARED", "PARTS")
"""The names of the tables of all functions."""
PACKAGES = ("tegula.stdlib.tiles",)
"""The package of cooperative functions."""


def __getattr__(name: str) -> Any:
    if name not in TABLES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import_all(PACKAGES)
    return dict(sorted(getattr(declaration, name).items()))
