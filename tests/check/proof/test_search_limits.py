"""The search for a proof ends after a bounded number of inequalities, also within one query."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.attacks import attack as attacks
from tegula.check.proof import search
from tegula.check.proof.known import Known, OutOfWork, Work
from tegula.check.proof.models import MAX_EVALUATIONS, TRIES, Model, counterexample
from tegula.check.proof.terms import Sum, atom, ge

LARGEST_QUERY = 2_000
"""More inequalities than one query decides."""


@pytest.fixture
def works(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Work]]:
    """The work of each search."""
    recorded: list[Work] = []

    class Recorded(Work):
        def __init__(self) -> None:
            super().__init__()
            recorded.append(self)

    monkeypatch.setattr("tegula.check.proof.known.Work", Recorded)
    yield recorded


@pytest.mark.slow
@pytest.mark.parametrize("seed", [249, 6111, 4964])
def test_a_search_without_a_proof_ends_at_its_limit(seed: int, works: list[Work]) -> None:
    """In the last schedule a disjunction leaves a condition that has the same disjunction as its case split."""
    status, reason = attacks.wrong_attack(seed).proof()
    assert status == "unproved" and reason == "the search has reached its step limit"
    most = search.FIRST_WORK + search.MAX_WORK + LARGEST_QUERY
    assert max(work.done for work in works) <= most


def test_a_query_beyond_the_limit_is_refused() -> None:
    known, x = Known(), atom("sym", "x")
    known.assume(ge(x))
    known.work.limit = 0
    known.work.done = 1
    with pytest.raises(OutOfWork):
        known.nonnegative(x * 2 + 1 - atom("sym", "y"))


def test_the_search_for_a_model_is_bounded() -> None:
    names = [atom("sym", f"x{k}") for k in range(12)]
    total = Sum({})
    for k, x in enumerate(names):
        total = total + x * (k + 1)
    contradictory = [ge(total - 7), ge(-total + 6)] * 60
    model, evaluations = counterexample([Model(k, {}) for k in range(6)], contradictory)
    assert model is None
    # beyond the limit of each model: one candidate, and the first evaluation of all conditions
    assert 0 < evaluations <= TRIES * (MAX_EVALUATIONS + 2 * (len(contradictory) + 1))
