"""Tegula: a tile language embedded in Python, and its compiler. `import tegula as tg`.

Public names are resolved on first use, so that parts of the package can be imported alone."""

from typing import Any

__version__ = "0.1.0.dev0"


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from tegula.collection import paused_collection

    with paused_collection():
        from tegula.api import NAMES, lookup

        name_value = NAMES[name] if name in NAMES else lookup(name)
    globals()[name] = name_value
    return name_value


def __dir__() -> list[str]:
    from tegula.api import OPTIONAL, public_names

    own = [name for name in globals() if name.startswith("__") or name in OPTIONAL]
    return sorted({*public_names(), *own})
