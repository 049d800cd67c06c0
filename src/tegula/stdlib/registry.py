"""The functions of the standard library, by public name, in overload order."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tegula.dataclass import dataclass
from tegula.ops.documented import Family

FUNCTIONS: dict[str, list[Callable[..., Any]]] = {}
"""Names that start with an underscore are parts that several functions share, not for users."""


def func(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a function, written in the language, to the standard library."""
    FUNCTIONS.setdefault(function.__name__, []).append(function)
    return function


WHOLES: dict[str, list[Callable[..., Any]]] = {}
"""Functions of whole vectors, matrices and states, which are no functions of one number, by public name, in overload
order; and parts that they share, as in `FUNCTIONS`."""
FAMILIES: dict[str, Family] = {}
"""What the docstrings of functions of wholes share with others, by the function's name."""


NO_VALUES = {
    "unsupported-python": "an argument is a function, a module or another object that is no value",
    "unknown-attribute": "an argument is of another kind",
    "not-constant": "an argument is a tuple",
}
"""Why arguments that are no values at all are errors, for families of functions of any type."""


def whole(family: Family | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function of whole vectors, matrices or states, written in the language, to the standard library."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        WHOLES.setdefault(function.__name__, []).append(function)
        if family is not None:
            FAMILIES.setdefault(function.__name__, family)
        return function

    return add


Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a function of numbers is exactly, and where that is tried. `exact`: of multiprecision numbers (mpmath);
    `ranges`: where arguments are drawn, one tuple for each argument; `bounds`: the promised error for float32 and
    float64, in units of the last place; `smooth`: for each argument, where its derivative is compared with
    differences."""

    exact: Callable[..., Any]
    ranges: tuple[tuple[Range, ...], ...]
    bounds: tuple[float, float]
    smooth: tuple[Range, ...]


MEANINGS: dict[str, Meaning] = {}
"""Of functions that declare it in their files. Tests have tables with those of others."""


def meaning(
    name: str,
    *ranges: tuple[Range, ...],
    smooth: tuple[Range, ...],
    bounds: tuple[float, float] = (2.0, 2.0),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Say what a function of the library is exactly: its accuracy, its gradient and its page follow."""

    def declare(exact: Callable[..., Any]) -> Callable[..., Any]:
        MEANINGS[name] = Meaning(exact, ranges, bounds, smooth)
        return exact

    return declare


tg: Any = ModuleType("tegula")
"""What library code calls the language: the compiler resolves `tg.fma` and `tg.exp` by name, as it does for users.

In Python the module is empty; tests fill it with NumPy implementations and so run the same code on arrays."""
