"""Verdicts of the checker on schedules, and the counterexamples and gaps that they report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tegula.check.premises import PREMISES
from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.errors import ScheduleRefuted, ScheduleUnproved
from tegula.source import UNKNOWN, Location

with deferred_imports():
    from tegula.check.guards import from_row

if TYPE_CHECKING:
    from tegula.check.guards import Guard

PROVED, REFUTED, UNPROVED, NO_SCHEDULE = "proved", "refuted", "unproved", "no schedule"
BOUNDED = 'declare the kernel with check="bounded" to run a schedule without a proof if no simulated launch has a fault'


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a counterexample: the role, its action and line, and the barrier (or ring), stage and phase; the last
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
        barrier = f" ({self.barrier}{stage}{phase})" if self.barrier else ""
        return f"{self.role}: {self.text}{barrier}"


@dataclass(frozen=True, slots=True)
class Gap:
    """The reason why there is no proof: the claim without a proof, its location and role, and its `obligation` in
    docs/checker.md. `failed`: whether the prover itself failed."""

    message: str
    loc: Location = UNKNOWN
    role: str = ""
    obligation: str = ""
    help: str = ""
    failed: bool = False

    @property
    def line_prefix(self) -> str:
        """The line number in front of a message; empty where there is no line."""
        return f"line {self.loc.line}: " if self.loc.line else ""

    def __str__(self) -> str:
        obligation = f"{self.obligation}, " if self.obligation else ""
        role = f"{self.role}: " if self.role else ""
        return (
            f"no proof ({obligation}{role}{self.message})"
            if obligation or role
            else f"no proof: {self.message}"
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check of a schedule. `status`: "proved", "refuted", "unproved", or "no schedule" where nothing is
    asynchronous. Of a schedule that is refuted or unproved: `message`, `loc` and `help`; of a refuted one the `kind` of
    fault, and `locations`: the other ops involved, each with a note.

    A refuted schedule has a counterexample: `steps`, in order, under the launch values `launch`. Where there is no
    proof, `gap` is the reason; `explored`: the number of unrolled launches, and the total number of their ops of roles.
    A proved schedule has a `certificate`, as text. `guards`: the conditions that launches must satisfy. `results`:
    whether equal arguments give equal results, or the reason why not. `automatic`: the roles that the compiler created,
    or the reason why it created none. `bounded`: whether the kernel accepts a schedule without a proof in which no
    simulated launch has a fault."""

    status: str
    kind: str = ""
    message: str = ""
    loc: Location = UNKNOWN
    help: str = ""
    locations: tuple[tuple[Location, str], ...] = ()
    steps: tuple[Step, ...] = ()
    launch: tuple[tuple[str, int], ...] = ()
    explored: tuple[int, int] = (0, 0)
    gap: Gap | None = None
    certificate: str = ""
    guards: tuple[Guard, ...] = ()
    results: str = ""
    automatic: str = ""
    bounded: bool = False

    @property
    def proved(self) -> bool:
        """Whether the schedule is proved."""
        return self.status == PROVED

    @property
    def passed(self) -> bool:
        """Whether the schedule is proved, or the kernel has none."""
        return self.status in (PROVED, NO_SCHEDULE)

    @property
    def accepted(self) -> bool:
        """Whether the schedule has passed, or is unproved and the kernel asks for a bounded search only."""
        return self.passed or (self.bounded and self.status == UNPROVED)

    def require(self) -> None:
        """Raise ScheduleRefuted, with the counterexample, or ScheduleUnproved, unless the schedule is accepted."""
        if self.accepted:
            return
        steps = [(s.loc, f"step {k}: {s}") for k, s in enumerate(self.steps, 1) if s.loc is not UNKNOWN]
        cls = ScheduleRefuted if self.status == REFUTED else ScheduleUnproved
        message = f"{self.message}{self.launch_text}" if self.gap is None else str(self.gap)
        help = "\n".join(filter(None, (self.help, BOUNDED if self.status == UNPROVED else "")))
        raise cls(self.loc, what=message, notes=[*self.locations, *steps], help=help)

    @property
    def launch_text(self) -> str:
        """The launch with the fault, as text."""
        values = ", ".join(f"{name} = {n}" for name, n in self.launch)
        return f" (in a launch with {values})" if values else ""

    @property
    def premises(self) -> tuple[str, ...]:
        """The premises of the verdict: facts that no proof covers."""
        return () if self.status == NO_SCHEDULE else PREMISES

    def report(self) -> str:
        """The verdict as text: the gaps of the proof, premises, guards, and whether results are deterministic."""
        lines = [f"{self.status}{self.explored_text}"]
        if self.gap is not None:
            lines.append(f"  {self.gap.line_prefix}{self.gap}")
            lines += [f"    {self.gap.help}"] if self.gap.help else []
            lines += ['  it runs without a proof: the kernel has check="bounded"'] if self.accepted else []
        if self.premises:
            lines += ["  premises:", *(f"  - {p}" for p in self.premises)]
        if self.status != NO_SCHEDULE:
            guards = dict.fromkeys(f"  - {g}" for g in self.guards)
            lines += ["  guards:" if guards else "  guards: none", *guards]
        lines += [f"  results: {self.results}"] if self.results else []
        return "\n".join(lines)

    @property
    def explored_text(self) -> str:
        """The numbers of launches and steps that were simulated, as text; empty unless the status is unproved."""
        launches, steps = self.explored
        return f" ({launches} launches explored, {steps} steps of roles)" if self.status == UNPROVED else ""

    def summary(self) -> Mapping[str, Any]:
        """The part of a verdict that a cache entry keeps, as JSON values."""
        return {
            "status": self.status,
            "explored": list(self.explored),
            "accepted": self.accepted,
            "certificate": self.certificate,
            "guards": [guard.row() for guard in self.guards],
            "results": self.results,
            "automatic": self.automatic,
        }


def from_summary(summary: Mapping[str, Any]) -> Verdict:
    """The verdict of a cache entry for a proved schedule, or for a kernel without a schedule."""
    guards = tuple(map(from_row, summary["guards"]))
    certificate, results, automatic = summary["certificate"], summary["results"], summary["automatic"]
    return Verdict(
        summary["status"], certificate=certificate, guards=guards, results=results, automatic=automatic
    )


class Refuted(Exception):
    """A fault of a schedule. `locations`: the locations of other ops involved."""

    def __init__(
        self,
        kind: str,
        message: str,
        loc: Location,
        help: str,
        locations: tuple[tuple[Location, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.kind, self.message, self.loc, self.help, self.locations = kind, message, loc, help, locations
