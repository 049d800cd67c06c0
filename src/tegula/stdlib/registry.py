"""The functions of the standard library, by public name, in overload order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FUNCTIONS: dict[str, list[Callable[..., Any]]] = {}


def func(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a function, written in the language, to the standard library."""
    FUNCTIONS.setdefault(function.__name__, []).append(function)
    return function
