"""The decisions of generated programs, and a record of the features that were used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class ChoiceSource:
    """Decisions from a source of integers: `draw(n)` is one of 0 to n - 1, and 0 is the simplest choice."""

    draw: Callable[[int], int]
    features: Counter[str] = field(default_factory=Counter)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.draw(len(options))]

    def number(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + self.draw(high - low + 1)

    def chance(self, percent: int) -> bool:
        return self.draw(100) >= 100 - percent

    def of(self, weighted: Sequence[tuple[int, Any]]) -> Any:
        """A value drawn from several by weight."""
        index = self.draw(sum(w for w, _ in weighted))
        for weight, value in weighted:
            index -= weight
            if index < 0:
                return value
        raise AssertionError

    def note(self, *features: str) -> None:
        self.features.update(features)
