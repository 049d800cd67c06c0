"""The report of tuning: the time of each candidate, or the reason why it was dropped."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.dataclass import dataclass, field
from tegula.tune.candidates import Candidate


@dataclass(slots=True)
class Outcome:
    """The outcome of one candidate: the seconds of a launch, or the reason why the candidate was dropped."""

    candidate: Candidate
    seconds: float | None = None
    dropped: str = ""


@dataclass(slots=True)
class TuningReport:
    """The outcomes for one class of launches in the order of the candidates. `chosen`: the index of the candidate that
    was chosen; `remembered`: whether the choice was read from the disk cache, without running a candidate."""

    kernel: str
    launch: str
    outcomes: list[Outcome] = field(default_factory=list)
    chosen: int = -1
    remembered: bool = False

    @property
    def dropped(self) -> list[Outcome]:
        """The outcomes of candidates that were dropped before timing."""
        return [o for o in self.outcomes if o.dropped]

    def __str__(self) -> str:
        """A line for each candidate, the fastest first, then the dropped candidates, with the reason."""
        if self.remembered:
            return f"{self.kernel}, {self.launch}: {self.outcomes[self.chosen].candidate} (remembered)"
        best = self.outcomes[self.chosen].seconds or 1.0
        lines = [f"{self.kernel}, {self.launch}:"]
        for o in sorted(self.outcomes, key=_order):
            if o.seconds is not None:
                lines.append(f"  {o.seconds * 1e3:10.4f} ms {o.seconds / best:6.2f}  {o.candidate}")
        return "\n".join(lines + reasons(self.dropped))


def _order(outcome: Outcome) -> float:
    return outcome.seconds if outcome.seconds is not None else 0.0


def reasons(dropped: Sequence[Outcome]) -> list[str]:
    """A line for each dropped candidate, with the first line of the reason."""
    return [f"  dropped: {o.candidate}: {first_line(o.dropped)}" for o in dropped]


def first_line(text: str) -> str:
    """The first line of a text; in a compile error, the location and the message."""
    return text.strip().partition("\n")[0]
