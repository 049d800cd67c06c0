"""Programs that move tiles of indexed arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from tegula.lang.definition import Definition, FuncDef


@cache
def program(name: str) -> FuncDef:
    """The program that moves tiles in one way."""
    from tegula.stdlib import indexed_tiles

    function: Callable[..., None] = getattr(indexed_tiles, name)
    return FuncDef(Definition(function, library=True))
