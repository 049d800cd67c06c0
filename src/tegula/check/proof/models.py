"""Launches and iterations in which all that is known holds: numbers for what terms are made of. What is negative in one
of them does not follow from what is known, and need not be searched for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tegula.check.proof.terms import Atom, Condition, Sum, held_by
from tegula.types import DTYPES

Model: TypeAlias = dict[Atom, int]
"""Of symbols, and of functions that are not looked into."""
Range: TypeAlias = Callable[[Atom], tuple[Any, Any]]
MOST_MODELS, MOST_CHANGES = 3, 12
STEPS = tuple(sign * 16**k for k in range(4) for sign in (1, -1))
"""By which a number is changed to see what that does; quotients take long steps."""


def value(p: Sum, model: Model, within: Range) -> int:
    """What a sum is; what the model says nothing of is as near to 0 as it may be."""
    total = 0
    for m, c in p.parts.items():
        for a in m:
            c *= _atom(a, model, within)
        total += c
    return total


def _atom(a: Atom, model: Model, within: Range) -> int:
    kind = a.kind
    if kind in ("sym", "app"):
        if a not in model:
            low, high = within(a)
            model[a] = int(min(max(0, low), high))
        return model[a]
    if kind in ("mod", "div"):
        n = value(a.given[0], model, within)
        return n % a.given[1] if kind == "mod" else n // a.given[1]
    if kind == "ite":
        return value(a.given[1 if holds(a.given[0], model, within) else 2], model, within)
    if kind == "wrap":
        low, high = held_by(DTYPES[a.given[1]])
        return (value(a.given[0], model, within) - low) % (high - low + 1) + low
    return (min if kind == "min" else max)(value(p, model, within) for p in a.given)


def holds(c: Condition, model: Model, within: Range) -> bool:
    """Whether a condition holds."""
    if isinstance(c, bool):
        return c
    kind, *args = c
    if kind in ("ge", "eq", "is"):
        n = value(args[0], model, within)
        return n >= 0 if kind == "ge" else n == 0 if kind == "eq" else n != 0
    if kind == "not":
        return not holds(args[0], model, within)
    return (all if kind == "and" else any)(holds(x, model, within) for x in args)


def found(facts: Sequence[Sum], start: Model, within: Range) -> Model | None:
    """A model in which no fact is negative, by a few changes of one: each makes up for a fact that is not met."""
    model = dict(start)
    for k in range(MOST_CHANGES):
        wrong = next(((p, n) for p in facts if (n := value(p, model, within)) < 0), None)
        if wrong is None:
            return model
        if not _changed(*wrong, model, within, k):
            return None
    return None


def _changed(p: Sum, n: int, model: Model, within: Range, turn: int) -> bool:
    """Changes one number so that a sum, which is n, is not negative."""
    atoms = sorted(a for a in {a for x in p.atoms() for a in x.inside} if a in model)
    ways: list[tuple[Atom, int]] = []
    for a in atoms:
        for step in STEPS:
            slope = value(p, {**model, a: model[a] + step}, within) - n
            low, high = within(a)
            new = model[a] + step * -(n // slope) if slope > 0 else model[a]
            if slope > 0 and low <= new <= high:
                ways.append((a, new))
    if not ways:
        return False
    a, new = ways[turn % len(ways)]
    model[a] = new
    return True
