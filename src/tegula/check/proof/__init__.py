"""The prover: finds a proof that the schedule of a kernel is correct in every launch, and writes the proof as a
certificate. Only a certificate that `check.verifier` has replayed counts as a proof."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tegula.check.proof.certificate import Certificate
from tegula.check.proof.labels import Mismatch
from tegula.check.proof.program import Program
from tegula.check.proof.search import Search
from tegula.check.proof.state import StartsEarly, Stuck
from tegula.check.proof.terms import TooLong
from tegula.ir import Kernel


def prove(kernel: Kernel, compilation: Any) -> Certificate:
    """A certificate for a kernel as it is emitted; raises Stuck if no proof is found."""
    failures: list[Stuck] = []
    for program in _programs(kernel, compilation):
        try:
            return _certificate(program)
        except Stuck as e:
            failures.append(e)
    raise failures[0]


def _programs(kernel: Kernel, compilation: Any) -> Iterator[Program]:
    """The views of a kernel in which a proof is looked for, one after another: in the second one, barriers hand over
    groups of stages; in the third one, memory of one role is no ring."""
    program = Program(kernel, compilation)
    yield program
    if program.hand_over_groups():
        yield program
    if program.has_rings_of_one_role:
        yield Program(kernel, compilation, rings_of_one_role=False)


def _certificate(program: Program) -> Certificate:
    guards, early_waits, rotates = list(program.guards.asserts), list[tuple[int, int]](), True
    while True:
        search = Search(program, guards, early_waits, rotates)
        try:
            return search.certificate()
        except StartsEarly as e:
            if e.wait in early_waits:
                raise Stuck("no invariant was found") from e
            early_waits.append(e.wait)
        except (Stuck, Mismatch, RecursionError, TooLong) as e:
            more = [guard for guard in search.machine.requested_guards if guard not in guards]
            if more:
                guards += more
            elif rotates and any(first.value != 0 for first in search.machine.rotations.values()):
                rotates = False
            elif isinstance(e, Stuck):
                raise
            else:
                raise Stuck("no invariant was found") from e
