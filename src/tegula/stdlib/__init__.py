"""The standard library, written in the kernel language. Importing the package imports every module in it, which fills
the registry."""

from importlib import import_module
from pkgutil import iter_modules

from tegula.stdlib import geometry
from tegula.stdlib.registry import COMPOUND_FUNCTIONS, FAMILIES, FUNCTIONS

for _folder, _package in ((__path__, __name__), (geometry.__path__, geometry.__name__)):
    for _module in iter_modules(_folder):
        if not _module.ispkg:
            import_module(f"{_package}.{_module.name}")

SIXTEEN_BIT: frozenset[str] = frozenset(
    name for name in (*FUNCTIONS, *COMPOUND_FUNCTIONS) if not name.startswith("_")
)
"""Functions that compute float16 and bfloat16 results in float32 and round the results once more."""

__all__ = ["COMPOUND_FUNCTIONS", "FAMILIES", "FUNCTIONS", "SIXTEEN_BIT"]
