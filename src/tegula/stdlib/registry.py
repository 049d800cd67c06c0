"""The functions of the standard library, by public name, in overload order."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from tegula.dataclass import dataclass
from tegula.ops.documented import Family

FUNCTIONS: dict[str, list[Callable[..., Any]]] = {}
"""The overloads of each function. Names that start with an underscore are internal functions of the library."""


def func(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add a function, written in the language, to the standard library."""
    FUNCTIONS.setdefault(function.__name__, []).append(function)
    return function


COMPOUND_FUNCTIONS: dict[str, list[Callable[..., Any]]] = {}
"""The overloads of each function of whole vectors, matrices and states, as opposed to element-wise functions; internal
functions as in `FUNCTIONS`."""
FAMILIES: dict[str, Family] = {}
"""The docstring sections that functions of vectors, matrices and states share with their family, by the function's
name."""


NOT_A_VALUE = {
    "unsupported-python": "an argument is a function, a module or another object that is not a value",
    "unknown-attribute": "an argument is of another kind",
    "not-constant": "an argument is a tuple",
}
"""The errors of arguments that are not values, by code, for families of functions of any type."""


def composite(family: Family | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function of whole vectors, matrices or states, written in the language, to the standard library."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        COMPOUND_FUNCTIONS.setdefault(function.__name__, []).append(function)
        if family is not None:
            FAMILIES.setdefault(function.__name__, family)
        return function

    return add


Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Meaning:
    """The exact definition of a scalar function and the intervals in which tests sample it. `exact`: the function of
    multiprecision numbers (mpmath); `ranges`: for each argument, the intervals to draw it from; `bounds`: the promised
    error for float32 and float64, in units in the last place; `smooth`: for each argument, the interval in which its
    derivative is compared with finite differences."""

    exact: Callable[..., Any]
    ranges: tuple[tuple[Range, ...], ...]
    bounds: tuple[float, float]
    smooth: tuple[Range, ...]


EXACT_DEFINITIONS: dict[str, Meaning] = {}
"""The meanings of functions that declare a meaning in their files. The meanings of the other functions are in tables of
tests."""


def meaning(
    name: str,
    *ranges: tuple[Range, ...],
    smooth: tuple[Range, ...],
    bounds: tuple[float, float] = (2.0, 2.0),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the exact definition of a library function, from which its accuracy test, its gradient test and its page
    are derived."""

    def declare(exact: Callable[..., Any]) -> Callable[..., Any]:
        EXACT_DEFINITIONS[name] = Meaning(exact, ranges, bounds, smooth)
        return exact

    return declare


tg: Any = ModuleType("tegula")
"""The name of the language in library code: the compiler resolves `tg.fma` and `tg.exp` by name, as in users' kernels.
In Python the module is empty; tests add NumPy implementations to the module and run the library code on arrays."""
