"""The standard library as functions that kernels call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

from tegula.lang.capture import CONSTANTS
from tegula.lang.definition import Definition, FuncDef
from tegula.ops import PUBLIC
from tegula.types import DTYPES, NAMED_ELEMENTS

BOTH = frozenset({"mod"})
"""Names of functions of the library that are names of ops too."""
OF_TILES = ("tile_", "_tile_")
"""What the names of cooperative functions begin with, and of no others in the library."""
_ELSEWHERE = (PUBLIC.keys() | DTYPES.keys() | NAMED_ELEMENTS.keys() | CONSTANTS.keys()) - BOTH


class Library(Mapping[str, FuncDef]):
    """The functions of `tegula.stdlib` by public name, each with its overloads.

    They are imported when first asked for a name that is not known to be something else: kernels of tile functions
    alone do without."""

    def __getitem__(self, name: str) -> FuncDef:
        if name in _ELSEWHERE:
            raise KeyError(name)
        return _tiles()[name] if name.startswith(OF_TILES) else _functions()[name]

    def __iter__(self) -> Iterator[str]:
        return chain(_functions(), _tiles())

    def __len__(self) -> int:
        return len(_functions()) + len(_tiles())


@cache
def library() -> Library:
    """The standard library."""
    return Library()


@cache
def _tiles() -> dict[str, FuncDef]:
    """The cooperative functions, and their forms that overwrite a parameter."""
    from tegula.lang.cooperative import CooperativeDef
    from tegula.stdlib.tiles import DECLARED, PARTS

    made = _overloaded(PARTS)
    for name, parts in DECLARED.items():
        made[name] = found = CooperativeDef.of_library(parts)
        if found.overwritten is not None:
            made[found.inplace.name] = found.inplace
    return made


@cache
def _functions() -> dict[str, FuncDef]:
    from tegula.stdlib import FUNCTIONS, SIXTEEN_BIT

    return _overloaded(FUNCTIONS, SIXTEEN_BIT)


def _overloaded(
    functions: Mapping[str, list[Callable[..., Any]]], in_float32: Collection[str] = ()
) -> dict[str, FuncDef]:
    made: dict[str, FuncDef] = {}
    for name, overloads in functions.items():
        for function in overloads:
            earlier = made[name].definitions if name in made else ()
            made[name] = FuncDef(Definition(function, library=True), earlier)
            made[name].in_float32 = name in in_float32
    return made
