"""Cooperative functions of the standard library, one file each. Importing the package declares them."""

from importlib import import_module
from pkgutil import iter_modules

from tegula.declaration import DECLARED, PARTS

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["DECLARED", "PARTS"]
