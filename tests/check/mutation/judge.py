"""The checker's verdict and the replay of a mutant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mutation.operators import Mutant, mutants, saved
from mutation.subjects import Subject
from tegula.check.schedule import check_schedule
from tegula.dataclass import dataclass
from tegula.interp.engines.launch import EngineLaunch
from tegula.interp.engines.orders import orders
from tegula.interp.engines.state import ReplayFailed
from tegula.interp.engines.trace import InvalidLaunch

ORDERS = 40
"""The number of orders of each of the five launches."""


@dataclass(slots=True)
class JudgedMutant:
    """A mutant: `status`, `kind`, `message` of the checker's verdict, and whether it has `passed`; `failure`: the
    replay's failure, "" for none. `same_events`: the events equal the events of the kernel;
    `other_results`: all orders store the same results, which differ from the results of the kernel."""

    subject: str
    operator: str
    change: str
    status: str
    kind: str
    message: str
    passed: bool
    failure: str
    same_events: bool
    other_results: bool

    @property
    def is_missed(self) -> bool:
        """Whether the mutant fails in a replay but passes the checker."""
        return self.passed and bool(self.failure)

    @property
    def is_false_alarm(self) -> bool:
        """Whether the checker refuses the mutant, but no replay fails."""
        return not self.passed and not self.failure and not self.other_results


class MutantJudge:
    """Judges the mutants of one kernel; the kernel's own events and results in each launch are computed first."""

    def __init__(self, subject: Subject, count: int = ORDERS) -> None:
        self.subject, self.count = subject, count
        self.graphs: list[Any] = []
        self.stored: list[Any] = []
        for args in subject.launches:
            launch = EngineLaunch(subject.prepared, args, subject.dims)
            self.graphs.append(graph(launch))
            self.stored.append(launch.run(next(orders(_roles(launch), 1))))
        self.saved = saved(subject)
        self.mutants = list(mutants(subject))

    def all(self, part: int = 0, parts: int = 1) -> Iterator[JudgedMutant]:
        """The verdicts on every `parts`-th mutant."""
        for mutant in self.mutants[part::parts]:
            yield self.judge(mutant)

    def judge(self, mutant: Mutant) -> JudgedMutant:
        subject = self.subject
        try:
            mutant.apply()
            verdict = check_schedule(subject.kernel, subject.compilation)
            failure, same, differs = self.replayed()
        finally:
            self.saved.restore(subject)
        verdict_fields = (verdict.status, verdict.kind, verdict.message, verdict.passed)
        return JudgedMutant(
            subject.name, mutant.operator, mutant.change, *verdict_fields, failure, same, differs
        )

    def replayed(self) -> tuple[str, bool, bool]:
        """The first failure, whether the events equal the events of the kernel, and whether the results differ from the
        results of the kernel."""
        all_same, differs = True, False
        for args, expected_events, expected_results in zip(
            self.subject.launches, self.graphs, self.stored, strict=True
        ):
            try:
                launch = EngineLaunch(self.subject.prepared, args, self.subject.dims)
            except InvalidLaunch as e:
                return f"{e.kind}: {e.text}", False, False
            same = graph(launch) == expected_events
            all_same = all_same and same
            if same:
                continue
            first_results: Any = None
            for order in orders(_roles(launch), self.count):
                try:
                    results = launch.run(order)
                except ReplayFailed as e:
                    return f"{e.kind}: {e.text} ({order.name})", False, False
                first_results = results if first_results is None else first_results
                if results != first_results:
                    return f"value: other results ({order.name})", False, False
            differs = differs or first_results != expected_results
        return "", all_same, differs


def _roles(launch: EngineLaunch) -> list[int]:
    return [role for role, *_ in launch.programs]


def graph(launch: EngineLaunch) -> Any:
    """The events of each warp, with memory named in the order of its first use."""
    names: dict[int, int] = {}

    def cells(x: Any) -> Any:
        return tuple(names.setdefault(c, len(names)) for c in x)

    out: list[Any] = [list(launch.barriers)]
    for _, number, name, program in launch.programs:
        for act, step, *rest in program:
            kind = act.__name__
            if kind in ("read", "write", "copy_out"):
                rest = [cells(rest[0]), *rest[2:]]
            elif kind == "copy_in":
                rest = [tuple((cells(c), n) for c, n in rest[0]), *rest[2:]]
            elif kind == "issue":
                rest = [tuple(cells(c) for c in rest[0])]
            out.append((number, name, kind, step.op.NAME, step.key[1:], tuple(rest)))
    return out


REASONS = {
    "arrivals": "too many or too few arrivals at a barrier for which no role waits any more",
    "aliasing": "the order that keeps the barrier from being a phase ahead is not caused by the arrivals that end the "
    "phase",
    "stage": "a stage is read after its release, and never filled again",
}
"""The reasons why mutants that do not fail are unproved, by the kind of the message."""


def reason(judged: JudgedMutant) -> str:
    return REASONS.get(judged.kind, judged.kind)
