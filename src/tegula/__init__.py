"""Tegula: a tile language embedded in Python, and its compiler. `import tegula as tg`.

The names are made when the first of them is asked for, so that parts of the package can be imported alone."""

from typing import Any

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from tegula.api import NAMES, lookup

    found = NAMES[name] if name in NAMES else lookup(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    from tegula.api import LAZY, NAMES, NAMESPACES
    from tegula.ops import PUBLIC

    return sorted({*globals(), *LAZY, *NAMES, *NAMESPACES, *PUBLIC})
