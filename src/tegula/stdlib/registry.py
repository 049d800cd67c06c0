"""The functions of the standard library, by public name, in overload order."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

FUNCTIONS: dict[str, list[Callable[..., Any]]] = {}
"""Names that start with an underscore are parts that several functions share, not for users."""


def func(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a function, written in the language, to the standard library."""
    FUNCTIONS.setdefault(function.__name__, []).append(function)
    return function


tg: Any = ModuleType("tegula")
"""What library code calls the language: the compiler resolves `tg.fma` and `tg.exp` by name, as it does for users.

In Python the module is empty; tests fill it with NumPy implementations and so run the same code on arrays."""
