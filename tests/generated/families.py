"""The registry of families of statements of generated programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from family_programs import FamilyProgram

Family = Callable[["FamilyProgram"], None]
FAMILIES: list[Family] = []
MAX_NUMERATOR = 2.0**22
"""The limit of a number's magnitude times its denominator: larger numerators may be rounded in float32."""


def family(statement: Family) -> Family:
    """Register a function that emits a statement of a program and the NumPy reference of the statement."""
    FAMILIES.append(statement)
    return statement


@dataclass(frozen=True)
class Term:
    """A value of each thread: its name in the program, the largest magnitude of its elements, and their common
    denominator."""

    name: str
    bound: float = 1.0
    denominator: float = 1.0

    def fits(self) -> bool:
        return self.bound * self.denominator < MAX_NUMERATOR

    def __str__(self) -> str:
        return self.name
