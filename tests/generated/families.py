"""The registry of families of statements of generated programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from family_programs import FamilyProgram

Family = Callable[["FamilyProgram"], None]
FAMILIES: list[Family] = []
ROOM = 2.0**22
"""The bound of a number times its denominator."""


def family(statement: Family) -> Family:
    """Register a function that writes a statement of a program and its meaning."""
    FAMILIES.append(statement)
    return statement


@dataclass(frozen=True)
class Term:
    """A value of each thread: its name, the largest magnitude of its numbers, and their denominator."""

    name: str
    bound: float = 1.0
    denominator: float = 1.0

    def fits(self) -> bool:
        return self.bound * self.denominator < ROOM

    def __str__(self) -> str:
        return self.name
