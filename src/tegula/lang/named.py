"""Objects that represent a function of a module. They are pickled by name, and a copy is the same object."""

from __future__ import annotations

import pickle
import sys
from functools import reduce
from importlib import import_module
from typing import Any


class Named:
    """A kernel or a function of kernels. `definition.function` is the decorated Python function."""

    definition: Any

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        """Pickle the function's name; PicklingError if its module does not bind the name to this object."""
        function = self.definition.function
        module, name = function.__module__, function.__qualname__
        try:
            value = named(module, name) if module in sys.modules else None
        except (AttributeError, ImportError):
            value = None
        if value is not self:
            raise pickle.PicklingError(
                f"{type(self).__name__} '{name}' cannot be pickled: module {module} has another object, or none, under "
                "that name; define the object at the top level of a module"
            )
        return named, (module, name)


def named(module: str, name: str) -> Any:
    """The object of a module with a qualified name; dots separate the names of classes."""
    return reduce(getattr, name.split("."), import_module(module))
