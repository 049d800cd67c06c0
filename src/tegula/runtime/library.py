"""The standard library as functions that kernels call."""

from __future__ import annotations

from functools import cache

from tegula.lang.definition import Definition, FuncDef
from tegula.stdlib import FUNCTIONS, SIXTEEN_BIT


@cache
def library() -> dict[str, FuncDef]:
    """The functions of `tegula.stdlib` by public name, each with its overloads."""
    made: dict[str, FuncDef] = {}
    for name, overloads in FUNCTIONS.items():
        known: list[FuncDef] = []
        for function in overloads:
            made[name] = FuncDef(Definition(function), known)
            made[name].in_float32 = name in SIXTEEN_BIT
    return made
