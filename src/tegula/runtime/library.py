"""The standard library as functions that kernels call."""

from __future__ import annotations

from functools import cache

from tegula.lang.definition import Definition, FuncDef
from tegula.stdlib.registry import FUNCTIONS


@cache
def library() -> dict[str, FuncDef]:
    """The functions of `tegula.stdlib` by public name, each with its overloads."""
    import tegula.stdlib

    assert tegula.stdlib
    made: dict[str, FuncDef] = {}
    for name, overloads in FUNCTIONS.items():
        known: list[FuncDef] = []
        for function in overloads:
            made[name] = FuncDef(Definition(function), known)
    return made
