"""Random decisions of program generators, and a count of the features that were generated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class ChoiceSource:
    """Random decisions: `draw(n)` returns an integer from 0 to n - 1, of which 0 is the simplest choice."""

    draw: Callable[[int], int]
    features: Counter[str] = field(default_factory=Counter)

    def choose(self, options: Sequence[T]) -> T:
        return options[self.draw(len(options))]

    def number(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + self.draw(high - low + 1)

    def chance(self, percent: int) -> bool:
        """True with a probability in percent."""
        return self.draw(100) >= 100 - percent

    def choose_weighted(self, weighted: Sequence[tuple[int, Any]]) -> Any:
        """One of several values, chosen with its weight."""
        index = self.draw(sum(w for w, _ in weighted))
        for weight, value in weighted:
            index -= weight
            if index < 0:
                return value
        raise AssertionError

    def note(self, *features: str) -> None:
        """Count features of the program."""
        self.features.update(features)
