"""The prover: finds a proof that the schedule of a kernel is correct in every launch, and writes the proof as a
certificate. Only a certificate that `check.verifier` has replayed counts as a proof."""

from __future__ import annotations

from typing import Any

from tegula.check.proof.certificate import Certificate
from tegula.check.proof.labels import Mismatch
from tegula.check.proof.program import Program
from tegula.check.proof.search import Search
from tegula.check.proof.state import Stuck
from tegula.check.proof.terms import TooLong
from tegula.ir import Kernel


def prove(kernel: Kernel, compilation: Any) -> Certificate:
    """A certificate for a kernel as it is emitted; raises Stuck if no proof is found."""
    program = Program(kernel, compilation)
    try:
        return _certificate(program)
    except Stuck:
        if not program.hand_over_groups():
            raise
        return _certificate(program)


def _certificate(program: Program) -> Certificate:
    guards = list(program.guards.asserts)
    while True:
        search = Search(program, guards)
        try:
            return search.certificate()
        except (Stuck, Mismatch, RecursionError, TooLong) as e:
            more = [guard for guard in search.machine.requested_guards if guard not in guards]
            if more:
                guards += more
            elif isinstance(e, Stuck):
                raise
            else:
                raise Stuck("no invariant was found") from e
