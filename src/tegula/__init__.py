"""Tegula: a tile language embedded in Python, and its compiler. `import tegula as tg`."""

from typing import Any

from tegula.api import NAMES, lookup

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    found = NAMES[name] if name in NAMES else lookup(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    from tegula.ops import PUBLIC

    return sorted({*globals(), *NAMES, *PUBLIC})
