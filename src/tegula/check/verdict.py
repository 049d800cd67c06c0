"""What the checker says of a schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tegula.dataclass import dataclass
from tegula.errors import ScheduleRefuted, ScheduleUnproved
from tegula.source import UNKNOWN, Location

PROVED, REFUTED, UNPROVED = "proved", "refuted", "unproved"
EXPLORED = "explored: {} launches"


def explored(launches: int) -> str:
    """The status of a schedule that is right in so many launches, chosen to show what may go wrong."""
    return EXPLORED.format(launches)


def passes(status: str) -> bool:
    """Whether a schedule of this status may run: nothing is wrong with it, and no launch was left out for being beyond
    the checker."""
    return status == PROVED or status.startswith(EXPLORED.split("{")[0])


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a counterexample: which role does what, where, to which barrier (or ring), stage and phase; the last
    two are -1 where there is none."""

    role: str
    op: str
    loc: Location
    text: str
    barrier: str = ""
    stage: int = -1
    phase: int = -1

    def __str__(self) -> str:
        stage = f", stage {self.stage}" if self.stage >= 0 else ""
        phase = f", phase {self.phase}" if self.phase >= 0 else ""
        of = f" ({self.barrier}{stage}{phase})" if self.barrier else ""
        return f"{self.role}: {self.text}{of}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`status`: "proved", "explored: N launches" (all of them right), "refuted" or "unproved". Of the last two: `kind`
    of fault, `message`, `loc` and `help`;
    `places`: the other ops involved, with what they have to do with it. A refuted schedule has a counterexample:
    `steps`, in order, under the launch values `launch`. `explored`: how many launches were unrolled, and how many ops
    of roles in all. `automatic`: the roles that the compiler made, or why it made none. `bounded`: whether
    the kernel accepts a schedule that is unproved."""

    status: str
    kind: str = ""
    message: str = ""
    loc: Location = UNKNOWN
    help: str = ""
    places: tuple[tuple[Location, str], ...] = ()
    steps: tuple[Step, ...] = ()
    launch: tuple[tuple[str, int], ...] = ()
    explored: tuple[int, int] = (0, 0)
    automatic: str = ""
    bounded: bool = False

    @property
    def proved(self) -> bool:
        return self.status == PROVED

    @property
    def passed(self) -> bool:
        """Whether the schedule is proved, or right in all launches that were explored."""
        return passes(self.status)

    @property
    def accepted(self) -> bool:
        """Whether the schedule has passed, or the kernel asks for no more than that launches are explored."""
        return self.passed or (self.bounded and self.status == UNPROVED)

    def require(self) -> None:
        """Return if the schedule is accepted; ScheduleRefuted with the counterexample, or ScheduleUnproved."""
        if self.accepted:
            return
        steps = [(s.loc, f"step {k}: {s}") for k, s in enumerate(self.steps, 1) if s.loc is not UNKNOWN]
        cls = ScheduleRefuted if self.status == REFUTED else ScheduleUnproved
        raise cls(self.loc, what=f"{self.message}{self.where}", notes=[*self.places, *steps], help=self.help)

    @property
    def where(self) -> str:
        """The launch that goes wrong, in words."""
        values = ", ".join(f"{name} = {n}" for name, n in self.launch)
        return f" (in a launch with {values})" if values else ""

    def summary(self) -> Mapping[str, Any]:
        """What a cache entry keeps of a verdict."""
        return {"status": self.status, "explored": list(self.explored)}


class Refuted(Exception):
    """A fault that was found. `places`: other ops involved."""

    def __init__(
        self,
        kind: str,
        message: str,
        loc: Location,
        help: str,
        places: tuple[tuple[Location, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.loc, self.help, self.places = kind, message, loc, help, places


class Unproved(Exception):
    """The schedule leaves the class that the checker decides."""

    def __init__(
        self, kind: str, message: str, loc: Location, help: str, places: tuple[tuple[Location, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.loc, self.help, self.places = kind, message, loc, help, places
