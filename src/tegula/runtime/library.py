"""The standard library as functions that kernels call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from tegula.lang.capture import CONSTANTS
from tegula.lang.definition import Definition, FuncDef
from tegula.ops import PUBLIC
from tegula.types import DTYPES, NAMED_ELEMENTS

BOTH = frozenset({"mod"})
"""Names of functions of the library that are names of ops too."""
_ELSEWHERE = (PUBLIC.keys() | DTYPES.keys() | NAMED_ELEMENTS.keys() | CONSTANTS.keys()) - BOTH


class Library(Mapping[str, FuncDef]):
    """The functions of `tegula.stdlib` by public name, each with its overloads.

    They are imported when first asked for a name that is not known to be something else: kernels of tile functions
    alone do without."""

    def __getitem__(self, name: str) -> FuncDef:
        if name in _ELSEWHERE:
            raise KeyError(name)
        return _functions()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_functions())

    def __len__(self) -> int:
        return len(_functions())


@cache
def library() -> Library:
    """The standard library."""
    return Library()


@cache
def _functions() -> dict[str, FuncDef]:
    from tegula.stdlib import FUNCTIONS, SIXTEEN_BIT

    made: dict[str, FuncDef] = {}
    for name, overloads in FUNCTIONS.items():
        for function in overloads:
            earlier = made[name].definitions if name in made else ()
            made[name] = FuncDef(Definition(function, library=True), earlier)
            made[name].in_float32 = name in SIXTEEN_BIT
    return made
