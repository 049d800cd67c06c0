"""Models of the prover's facts: all facts hold in them, so a condition that is false in one does not follow."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from tegula.check.proof.known import Known
from tegula.check.proof.models import KINDS, Model, counterexample
from tegula.check.proof.terms import Sum, atom, conjunction, div, eq, extreme, ge, mod, negation

X, Y = atom("sym", "x"), atom("sym", "y")
RANGE = range(-3, 9)


def random_expression(rng: Random) -> Sum:
    """A random expression in x and y."""
    p, q = X * rng.randrange(-2, 3) + rng.randrange(-4, 5), Y * rng.randrange(-2, 3)
    kinds = [p + q, mod(X + q, 3), div(p, 2) + Y, extreme("min", p, q), extreme("max", q, X)]
    return rng.choice(kinds)


def random_conditions(rng: Random) -> list[Any]:
    """Random conditions that hold together in at least one point of the range."""
    point = {X: rng.choice(RANGE), Y: rng.choice(RANGE)}
    model = Model(0, {next(iter(s.atoms())): n for s, n in point.items()})
    out = []
    for _ in range(rng.randrange(1, 4)):
        p = random_expression(rng)
        c = rng.choice([ge(p), eq(p - model.number(p)), negation(eq(p - model.number(p) - 1))])
        out.append(c if model.holds(c) else negation(c))
    return out


def points_that_satisfy(known: list[Any]) -> list[Model]:
    """The points of the range in which conditions hold."""
    names = [next(iter(s.atoms())) for s in (X, Y)]
    points = (Model(0, dict(zip(names, index, strict=True))) for index in product(RANGE, RANGE))
    return [point for point in points if all(map(point.holds, known))]


@pytest.mark.parametrize("seed", range(60))
def test_facts_hold_in_constructed_models(seed: int) -> None:
    rng = Random(f"models {seed}")
    facts = random_conditions(rng)
    known = Known()
    for c in facts:
        known.assume(c)
    query = random_expression(rng)
    answer = known.nonnegative(query)
    assert all(model.holds(c) for model in known.models for c in facts)
    if answer:
        assert all(point.number(query) >= 0 for point in points_that_satisfy(facts))


def test_a_failing_model_is_repaired() -> None:
    repaired, _ = counterexample([Model(0, {})], [ge(X - 5), ge(Y - X * 2), eq(mod(Y, 4) - 3), ge(-Y + 30)])
    assert repaired is not None
    assert (
        repaired.number(X) >= 5
        and repaired.number(Y) % 4 == 3
        and 2 * repaired.number(X) <= repaired.number(Y) <= 30
    )


def test_functions_of_equal_numbers_are_equal_in_models() -> None:
    def load(p: Sum) -> Sum:
        return atom("app", ("array.load", "[]", 0, "int32"), (p,))

    model = Model(3, {next(iter(X.atoms())): 4, next(iter(Y.atoms())): 4})
    assert model.number(load(X)) == model.number(load(Y))
    second_model, _ = counterexample([model], [eq(X - Y), negation(eq(load(X) - load(Y)))])
    assert second_model is None


def test_contradictory_facts_have_no_model() -> None:
    starts = [Model(k, {}) for k in range(len(KINDS))]
    assert counterexample(starts, [ge(X), conjunction(ge(-X - 1), ge(Y))])[0] is None
