"""The end of a simulation of roles: all roles have ended with nothing in flight, or some are deadlocked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.check.state import Warp, named
from tegula.check.verdict import Refuted
from tegula.ir import Op
from tegula.ops import events as E
from tegula.types import NamedBarrierType

if TYPE_CHECKING:
    from tegula.check.machine import Run


def deadlock(run: Run) -> Refuted:
    """The fault of roles that have not ended: a phase that never completes, or a deadlock."""
    blocked = [(w, *_blocked(run, w)) for w in run.warps if not run.ended(w)]
    waits_of_roles: dict[int, tuple[Op, str]] = {}
    for warp, op, text in blocked:
        if warp.role not in waits_of_roles:
            _note_wait(run, warp)
            waits_of_roles[warp.role] = (op, text)
    (first, text), *rest = waits_of_roles.values()
    incomplete = _incomplete_phase(run, [w for w, *_ in blocked])
    if incomplete is not None:
        return incomplete
    return Refuted(
        "deadlock",
        f"deadlock: {text}",
        first.loc,
        "every phase that a role waits for must complete: fill, pop and release each item in each role",
        tuple((op.loc, other) for op, other in rest),
    )


def _note_wait(run: Run, warp: Warp) -> None:
    """Record the wait that never ends as the last step of a role."""
    done = run.traces[warp.role].steps[warp.step]
    event = done.events[warp.event]
    if isinstance(event, E.Wait | E.NamedWait):
        _, phase = run.phase(done.op, event.barrier, event.stage if isinstance(event, E.Wait) else 0)
        run.note(warp, done.op, f"waits for phase {phase.number}, which never completes", phase, phase.number)


def _incomplete_phase(run: Run, blocked: Sequence[Warp]) -> Refuted | None:
    """The fault of a phase that lacks bytes or arrivals and for which a role waits; None if there is no such phase."""
    for warp in blocked:
        event = run.traces[warp.role].steps[warp.step].events[warp.event]
        if not isinstance(event, E.Wait | E.NamedWait):
            continue
        op = run.traces[warp.role].steps[warp.step].op
        _, phase = run.phase(op, event.barrier, event.stage if isinstance(event, E.Wait) else 0)
        waits = ((op.loc, f"{run.name_of_warp(warp)} waits here for phase {phase.number}"),)
        if phase.announced != phase.copied and (phase.pending == 0 or phase.copied):
            message = (
                f"phase {phase.number} of {named(phase)} never completes: {phase.announced} bytes are announced, "
                f"{phase.copied} are copied"
            )
            at = phase.last if phase.last is not None else phase.copies[-1][1]
            return Refuted("bytes", message, at.loc, "announce the bytes of all copies of an item", waits)
        if 0 < phase.pending < phase.count:
            message = (
                f"phase {phase.number} of {named(phase)} never completes: {phase.count - phase.pending} of "
                f"{phase.count} arrivals have been made"
            )
            help = "count the warps of all roles that arrive, and let each arrive for each item"
            assert phase.last is not None
            return Refuted("arrivals", message, phase.last.loc, help, waits)
    return None


def _blocked(run: Run, warp: Warp) -> tuple[Op, str]:
    done = run.traces[warp.role].steps[warp.step]
    event = done.events[warp.event]
    if not isinstance(event, E.Wait | E.NamedWait):
        return done.op, f"{run.name_of_warp(warp)} waits for the other threads of its role"
    _, phase = run.phase(done.op, event.barrier, event.stage if isinstance(event, E.Wait) else 0)
    ended = [
        f"{role.name}, which {'has ended' if _role_ended(run, r) else 'waits too'}"
        for r, role in enumerate(run.roles)
        if event.barrier in role.arrives
    ]
    awaited_text = " and ".join(ended) or "a role, but no role arrives at it"
    return (
        done.op,
        f"{run.name_of_warp(warp)} waits for phase {phase.number} of {named(phase)} to be ended by {awaited_text}",
    )


def _role_ended(run: Run, role: int) -> bool:
    return all(run.ended(w) for w in run.warps if w.role == role)


def check_end(run: Run) -> None:
    """Check that nothing is in flight when all roles have ended."""
    known = [max(column) for column in zip(*(w.clock for w in run.warps), strict=True)]
    for phase in run.phases:
        if isinstance(phase.barrier.type, NamedBarrierType):
            continue  # A warp may arrive at a named barrier without a later wait: nothing is in flight then.
        if phase.pending != phase.count or phase.announced != phase.copied:
            assert phase.last is not None or phase.copies
            at = phase.last if phase.last is not None else phase.copies[-1][1]
            raise Refuted(
                "arrivals",
                f"phase {phase.number} of {named(phase)} is incomplete when all roles have ended: "
                f"{phase.count - phase.pending} of "
                f"{phase.count} arrivals were made",
                at.loc,
                "let each arriving role arrive once for each item",
            )
        for number, op in phase.copies:
            if known[phase.entry] <= number:
                raise Refuted(
                    "unfinished",
                    f"no role waits for this copy, which completes phase {number} of {named(phase)}: it may write "
                    "shared memory when the block has ended",
                    op.loc,
                    "wait for every copy that is started",
                )
    for warp in run.warps:
        steps = run.traces[warp.role].steps
        copying = known[warp.copies] < warp.copied or warp.open
        if copying or known[warp.matmuls] < warp.started_matmuls:
            kind = E.CopyOut if copying else E.Issue
            at = next(d.op for d in reversed(steps) if any(isinstance(e, kind) for e in d.events))
            raise Refuted(
                "unfinished",
                f"{run.roles[warp.role].name} ends while {at.NAME} still reads shared memory",
                at.loc,
                "wait for all bulk stores and matmuls at the end of a role",
            )
