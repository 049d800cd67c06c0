"""The standard library, as functions that kernels call."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tegula.lang.definition import Definition, FuncDef


@cache
def standard_library() -> Mapping[str, FuncDef]:
    """The functions of the standard library by public name; nothing is parsed before it is called."""
    import tegula.stdlib  # filling the registry here keeps it out of the import of tegula
    from tegula.stdlib.registry import FUNCTIONS

    assert tegula.stdlib is not None
    out: dict[str, FuncDef] = {}
    for name, definitions in FUNCTIONS.items():
        overloads: list[FuncDef] = []
        for function in definitions:
            out[name] = FuncDef(Definition(function), overloads)
    return out
