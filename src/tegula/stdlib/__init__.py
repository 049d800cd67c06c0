"""The standard library, written in the language itself. Importing it fills the registry."""

from tegula.stdlib import (
    derivatives,
    elementary,
    error_function,
    exponential,
    inverse_trigonometry,
    logarithm,
    polynomial,
    trigonometry,
)
from tegula.stdlib.registry import FUNCTIONS

SIXTEEN_BIT: frozenset[str] = frozenset(name for name in FUNCTIONS if not name.startswith("_"))
"""Functions whose float16 and bfloat16 results are the float32 ones, rounded once."""

__all__ = [
    "FUNCTIONS",
    "SIXTEEN_BIT",
    "derivatives",
    "elementary",
    "error_function",
    "exponential",
    "inverse_trigonometry",
    "logarithm",
    "polynomial",
    "trigonometry",
]
