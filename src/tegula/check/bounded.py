"""The bounded search: launches of a schedule that no proof was found for are explored for one that goes wrong
(docs/checker.md)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from tegula.check.counters import counted
from tegula.check.counts import check_counts
from tegula.check.forms import Forms, Term, most
from tegula.check.guards import Guard
from tegula.check.launches import OTHERWISE, Values, launches
from tegula.check.machine import Run
from tegula.check.memory import Memory, cuts
from tegula.check.pairs import check_pairs
from tegula.check.state import Role
from tegula.check.unroll import Program, TooLong, Trace
from tegula.check.verdict import REFUTED, UNPROVED, Gap, Refuted, Step, Unproved, Verdict
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.buffer import BufNew
from tegula.ops.control import For, If, While
from tegula.ops.roles import Roles
from tegula.ops.schedule import (
    BulkLoad,
    MbarrierExpect,
    MbarrierNew,
    MbarrierWait,
    NamedNew,
    arrivals_at,
    arrived_at,
    is_elected,
    stages_of,
)
from tegula.passes.groups import group_of
from tegula.passes.place_shared import SharedMemory
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, MbarrierType

SIMPLE = "let loops and conditions around pipes depend on kernel arguments and shapes in a simple way"
SHOWN = 8
"""Steps of a counterexample."""


def explore(kernel: Kernel, spread: GpuCompilation, gap: Gap, guards: Sequence[Guard] = ()) -> Verdict:
    """Refuted, with a counterexample; or unproved, because of the gap, and of where the search leaves its class."""
    search = BoundedSearch(kernel, spread, guards)
    try:
        found = search.verdict()
    except Unproved as e:
        places = (*e.places, (gap.loc, str(gap)))
        return Verdict(
            UNPROVED,
            e.kind,
            e.message,
            e.loc,
            e.help,
            places,
            explored=search.explored,
            gap=gap,
            bounded=kernel.bounded,
        )
    if found is not None:
        return found
    return Verdict(
        UNPROVED,
        "proof",
        gap.message,
        gap.loc,
        gap.help,
        explored=search.explored,
        searched=True,
        gap=gap,
        bounded=kernel.bounded,
    )


class BoundedSearch:
    """Unrolls launches of one kernel, and plays their roles."""

    def __init__(self, kernel: Kernel, spread: GpuCompilation, guards: Sequence[Guard]) -> None:
        self.kernel, self.spread, self.guards = kernel, spread, guards
        self.forms = Forms(kernel)
        self.program = Program(kernel, self.forms, spread.shared.places, spread.threads)
        barriers = [op for op in kernel.walk() if isinstance(op, MbarrierNew | NamedNew)]
        self.barriers = [(op.result, stages_of(op), arrivals_at(op.result)) for op in barriers]
        self.roles = [_role(region, spread.threads) for region in self.program.roles]
        self.guarded = {
            v: (place.offset, place.offset + place.size)
            for v, place in spread.shared.places.items()
            if isinstance(v.type, MbarrierType)
        }
        self.doubt: Unproved | None = None
        self.suspect: Verdict | None = None
        """Refuted, if nothing worse is found."""
        self.again: dict[Op, bool] = {}
        """Of each wait whether it only ever waits once more for what was waited for."""
        self.cuts = cuts(_parts(spread.shared))
        self.launches, self.steps = 0, 0

    @property
    def explored(self) -> tuple[int, int]:
        """How many launches were unrolled, and how many ops of roles in all."""
        return self.launches, self.steps

    def verdict(self) -> Verdict | None:
        """Refuted, or nothing where all launches go well; Unproved outside of what is decided."""
        found: Verdict | None = None
        try:
            self._uniform()
            check_pairs(self.kernel, self.forms, self.program.followed.controls)
        except Unproved as e:
            self._doubt(e)
        if not self.barriers and not self.program.followed.tracked:
            return None
        stages = sorted({n for _, n, _ in self.barriers}) or [1]
        for values in launches(self.forms, self.program.followed, stages):
            try:
                found = self._launch(values)
            except Unproved as e:
                self._doubt(e)
                continue
            if found is not None and self._meets(values):
                return found
        if self.suspect is not None:
            return self.suspect
        if self.doubt is not None:
            raise self.doubt
        self._covered()
        rows = [(role.name, region) for role, region in zip(self.roles, self.program.roles, strict=True)]
        barriers = [v for v, *_ in self.barriers]
        idle = {op for op, again in self.again.items() if again}
        check_counts(self.forms, self.program.followed, rows, barriers, stages[-1], idle)
        return None

    def _meets(self, values: Values) -> bool:
        """Whether a launch meets the kernel's guards; others are unrolled too, for what they show of loops."""
        known = {
            (k, -1) if t.kind == "param" else (k, t.parts[1]): n
            for t, n in values.known.items()
            if (k := _parameter(t)) is not None
        }
        return all(guard.holds(lambda leaf: known.get(leaf, OTHERWISE)) for guard in self.guards)

    def _doubt(self, found: Unproved) -> None:
        """The schedule is unproved; where that is accepted, launches are explored all the same."""
        if not self.kernel.bounded:
            raise found
        self.doubt = self.doubt or found

    def _launch(self, values: Values) -> Verdict | None:
        """A verdict if the launch goes wrong."""
        launch = tuple(sorted((_spoken(self.kernel, t), n) for t, n in values.known.items()))
        traces: list[Trace] = []
        try:
            traces = [self.program.trace(region, values) for region in self.program.roles]
            run = self._run(traces, False)
            run.play()
            if run.suspect is not None and self.suspect is None and self._meets(values):
                self.suspect = refuted(
                    run.suspect, self._counterexample(traces, run.suspect), launch, self.explored
                )
        except TooLong as e:
            raise Unproved(
                "length",
                "the roles do more than is unrolled, in a small launch already",
                e.op.loc,
                "let the loops of roles run as often as an argument or a shape says",
            ) from e
        except Refuted as e:
            return refuted(e, self._counterexample(traces, e), launch, self.explored)
        for op, again in run.again.items():
            self.again[op] = again and self.again.get(op, True)
        self.launches += 1
        self.steps += sum(len(t.steps) for t in traces)
        return None

    def _run(self, traces: Sequence[Trace], record: bool) -> Run:
        cuts = [*self.cuts, *sorted(self.program.cuts)]
        return Run(self.roles, traces, self.barriers, Memory(cuts, self.guarded), record)

    def _counterexample(self, traces: Sequence[Trace], fault: Refuted) -> tuple[Step, ...]:
        """The last steps, of those that have to do with the ops that the fault names."""
        if len(traces) < len(self.roles):
            return ()
        run = self._run(traces, True)
        with suppress(Refuted):
            run.play()
        places = {fault.loc, *(loc for loc, _ in fault.places)}
        stages = {(s.barrier, s.stage) for s in run.steps if s.loc in places and s.barrier}
        last = run.steps[-1:] if run.steps and run.steps[-1].stage < 0 else []
        kept = [s for s in run.steps if s.loc in places or (s.barrier, s.stage) in stages]
        return tuple([*kept[-SHOWN:], *(s for s in last if s not in kept)])

    # Conditions ------------------------------------------------------------------------------------------------------

    def _uniform(self) -> None:
        """C1: all threads of a role go the same way around what roles do to pipes."""
        for op in self.program.followed.controls:
            if op in self.spread.uniformity.divergent and not self.program.followed.touches_only(op):
                raise Unproved(
                    "divergent",
                    "threads of a role part here, around what the role does to pipes",
                    op.loc,
                    "let the condition be the same in all threads",
                )

    def _covered(self) -> None:
        """Everything that roles may do has been done in some launch."""
        for op in self.program.followed.controls:
            for region in op.regions if isinstance(op, If) else [op.body]:
                loud = any(self.program.followed.loud(o) for o in region.ops)
                if loud and not self.program.entered.get(region) and not self._never(op, region):
                    raise Unproved(
                        "unreached",
                        "no launch that was tried leads here",
                        op.loc,
                        SIMPLE,
                    )
            if not isinstance(op, If):
                self._iterations(op)

    def _never(self, op: If | For | While, region: Region) -> bool:
        """Whether a branch is never taken, or a loop never run, whatever the launch."""
        if not isinstance(op, If):
            limit = self._most_iterations(op)
            return limit is not None and limit <= 0
        holds = self.forms.truth(op.condition)
        return holds is not None and holds is not (region is op.then)

    def _iterations(self, op: For | While) -> None:
        """A loop has been run often enough for all stages to be used again, unless it cannot."""
        iterations = self.program.entered.get(op.body, 0)
        if not any(self.program.followed.loud(o) for o in op.body.ops) or iterations > max(
            (n for _, n, _ in self.barriers), default=1
        ):
            return
        limit = self._most_iterations(op)
        if limit is not None and limit <= iterations:
            return
        raise Unproved(
            "unreached",
            f"no launch that was tried runs this loop more than {iterations} times",
            op.loc,
            SIMPLE,
        )

    def _most_iterations(self, op: Op) -> int | None:
        """How often a loop runs at most, where its bounds say so."""
        loop = counted(self.forms, op)
        limit, step = (most(loop.span), loop.step.number) if loop is not None else (None, None)
        return None if limit is None or not step or step < 0 else -(-limit // step)


def refuted(
    e: Refuted,
    steps: tuple[Step, ...] = (),
    launch: tuple[tuple[str, int], ...] = (),
    tried: tuple[int, int] = (0, 0),
) -> Verdict:
    """The verdict on a schedule with a fault."""
    return Verdict(REFUTED, e.kind, e.message, e.loc, e.help, e.places, steps, launch, tried)


def _parameter(term: Term) -> int | None:
    """Which argument, or array of which length, a value of the launch is."""
    if term.kind == "param":
        return term.parts[0]
    inner = [t for t, _ in term.parts[0].terms] if term.kind == "shape" else []
    return inner[0].parts[0] if inner and inner[0].kind == "param" else None


def _spoken(kernel: Kernel, term: object) -> str:
    """A value of the launch, in the user's terms."""
    kind, parts = term.kind, term.parts  # type: ignore[attr-defined]
    if kind == "param":
        return kernel.param_names[parts[0]]
    if kind == "shape":
        inner = [t for t, _ in parts[0].terms]
        return f"{_spoken(kernel, inner[0]) if inner else '?'}.shape[{parts[1]}]"
    if kind == "tid":
        return f"tid[{parts[0]}]"
    if kind == "load":
        inner = [t for t, _ in parts[0].terms]
        return f"{_spoken(kernel, inner[0]) if inner else '?'}[...]"
    return kind


def _role(region: Region, threads: int) -> Role:
    roles = region.parent
    name = roles.names[roles.roles.index(region)] if isinstance(roles, Roles) else "the block"
    alone = isinstance(roles, Roles) and starts_copies_only(region)
    return Role(name, group_of(region, threads), alone, frozenset(arrived_at(region)))


def starts_copies_only(region: Region) -> bool:
    """Whether one warp does all that a role does, because it only starts copies."""
    return all(_by_one_warp(op) for op in region.walk())


def _by_one_warp(op: Op) -> bool:
    assert isinstance(op, Op)
    reads = all(e.kind == "read" for e in op.effects())
    copies = isinstance(op, BulkLoad | MbarrierExpect | MbarrierWait) or is_elected(op)
    return copies or (not op.COOPERATIVE and reads)


def _parts(shared: SharedMemory) -> dict[Value, tuple[int, int, int]]:
    """The buffers: offset, size, and how many stages or slots they have."""
    out: dict[Value, tuple[int, int, int]] = {}
    for v, place in shared.places.items():
        piped = isinstance(v.owner, BufNew) and v.owner.pipe
        parts = v.type.shape[0] if isinstance(v.type, BufType) and piped else 1
        out[v] = (place.offset, place.size, parts)
    return out
