"""Names of the compiler's own classes and types, which no message to users may hold."""

from __future__ import annotations

import inspect
import re
import sys

import tegula as tg
from tegula.runtime.library import library

COMPILER = ("tegula.lang.", "tegula.ops.", "tegula.ir", "tegula.types", "tegula.structs", "tegula.interp")
"""Prefixes of modules whose classes users do not know."""
SINGLE_WORD_CLASSES = ("Opaque", "Namespace", "Callee", "Conflict", "Unbound")
"""Names of such classes that are a single word, which no message uses."""


def _classes() -> set[str]:
    """The names of several words of all classes of the compiler that are not public."""
    library()
    modules = [m for name, m in sys.modules.items() if name.startswith(COMPILER)]
    class_names = {
        x.__name__
        for m in modules
        for x in vars(m).values()
        if inspect.isclass(x) and x.__module__.startswith(COMPILER)
    }
    compound_names = {name for name in class_names if re.fullmatch(r"_?[A-Z][a-z0-9]+[A-Z]\w*", name)}
    return {name.lstrip("_") for name in compound_names if not hasattr(tg, name)} | {*SINGLE_WORD_CLASSES}


INTERNAL = re.compile(
    r"\b(buf|array|vec|mat|stack|pipe|mbarrier|named_barrier|tile|partial tile)<|<tegula\.|<function |0x[0-9a-f]{6}"
    rf"|\b({'|'.join(sorted(_classes()))})\b"
)
