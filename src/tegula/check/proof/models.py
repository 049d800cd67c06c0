"""Models: assignments of numbers to symbols under which all conditions of a path hold. A condition that is false in a
model does not follow, so the prover does not search for a proof of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any
from zlib import crc32

from tegula.check.proof.terms import BIT_OPERATIONS, Atom, Condition, Sum, bit_operation, inside, quotient
from tegula.types import DTYPES

KINDS = ((0, 0), (1, 1), (0, 4), (1, 40), (0, 1000), (-9, 9))
"""The range from which each kind of model chooses unknown numbers."""
MAX_CHANGES, TRIES, MAX_EVALUATIONS = 12, 2, 800
"""The maximum number of changes to one model in a repair, of models that are repaired for one query, and of conditions
that are evaluated in one repair."""


class Model:
    """A number for each atom; a function has equal results for equal arguments. `values`: the numbers that a repair has
    changed."""

    __slots__ = ("cache", "kind", "results", "values")

    def __init__(self, kind: int, values: Mapping[Any, int]) -> None:
        self.kind, self.values = kind, values
        self.cache: dict[Atom, int] = {}
        self.results: dict[Any, int] = {}

    def number(self, p: Sum) -> int:
        """The value of a polynomial."""
        total = 0
        for m, c in p.coefficients.items():
            for a in m:
                x = self.cache.get(a)
                c *= self._atom(a) if x is None else x
            total += c
        return total

    def holds(self, c: Condition) -> bool:
        """Whether a condition is true."""
        if isinstance(c, bool):
            return c
        kind = c[0]
        if kind == "ge":
            return self.number(c[1]) >= 0
        if kind in ("eq", "is"):
            return (self.number(c[1]) == 0) == (kind == "eq")
        if kind == "not":
            return not self.holds(c[1])
        return (all if kind == "and" else any)(map(self.holds, c[1:]))

    def _argument(self, x: Any) -> int:
        return self.number(x) if isinstance(x, Sum) else int(self.holds(x))

    def _atom(self, a: Atom) -> int:
        x = self.cache[a] = self._compute(a)
        return x

    def _compute(self, a: Atom) -> int:
        kind, operands = a.kind, a.subterms
        if kind == "mod":
            return self.number(operands[0]) % operands[1]
        if kind == "div":
            return self.number(operands[0]) // operands[1]
        if kind in ("min", "max"):
            return (min if kind == "min" else max)(map(self.number, operands))
        if kind == "ite":
            return self.number(operands[1] if self.holds(operands[0]) else operands[2])
        if kind == "wrap":
            low, high = a.limits
            return (self.number(operands[0]) - low) % (high - low + 1) + low
        if kind == "app" and operands[0][0] == "param" and operands[0][3] not in DTYPES:
            return crc32(
                str(operands[0]).encode()
            )  # different arrays have different numbers, so functions of them may differ
        if (parts := quotient(a)) is not None:
            x, y = map(self.number, parts)
            if y > 0 and (x >= 0 or operands[0][0] == "floordiv"):
                return x // y
        if kind == "app" and operands[0][0] in BIT_OPERATIONS and len(operands[1]) == 2:
            result = bit_operation(operands[0], [*map(self._argument, operands[1])])
            if result is not None:
                return result
        return self._choose_number(self.key(a), a.limits)

    def key(self, a: Atom) -> Any:
        """The key of a symbol, or of the result of a function, in a model."""
        return a if a.kind == "sym" else (a.subterms[0], tuple(map(self._argument, a.subterms[1])))

    def _choose_number(self, key: Any, limits: tuple[Any, Any]) -> int:
        x = self.values.get(key)
        if x is None:
            low, high = KINDS[self.kind]
            x = low + crc32(str(key).encode()) % (high - low + 1) if high > low else low
        return int(min(max(x, limits[0]), limits[1]))

    def with_number(self, key: Any, x: int) -> Model:
        """A copy of the model with one number changed."""
        return Model(self.kind, {**self.values, key: x})

    # Repair ----------------------------------------------------------------------------------------------------------

    def repaired(self, conditions: Sequence[Condition], evaluations: list[int]) -> Model | None:
        """A model in which all conditions hold, by at most three changes of each number of this model; None if no such
        model is found. `evaluations`: the number of evaluated conditions, which the search increases."""
        best, unsatisfied = self, [k for k, c in enumerate(conditions) if not self.holds(c)]
        evaluations[0] += len(conditions)
        conditions_of = conditions_by_variable(conditions) if unsatisfied else {}
        changes, limit = list[tuple[Any, int]](), evaluations[0] + MAX_EVALUATIONS
        for _ in range(MAX_CHANGES):
            if not unsatisfied:
                return best
            neighbour: Model | None = None
            unsatisfied_there = unsatisfied
            for key, x in dict.fromkeys(best.changes(conditions[unsatisfied[-1]])):
                if (key, x) in changes or sum(key == k for k, _ in changes) > 2:
                    continue
                if evaluations[0] > limit:
                    return None
                candidate = best.with_number(key, x)
                affected = conditions_of.get(key if isinstance(key, Atom) else key[0], set())
                remaining = [k for k in unsatisfied if k not in affected]
                remaining += [k for k in affected if not candidate.holds(conditions[k])]
                evaluations[0] += len(affected) + 1
                if neighbour is None or len(remaining) < len(unsatisfied_there):
                    neighbour, unsatisfied_there, change = candidate, remaining, (key, x)
                if not remaining:
                    return candidate
            if neighbour is None:
                return None
            changes.append(change)
            best, unsatisfied = neighbour, sorted(unsatisfied_there)
        return None

    def changes(self, c: Condition, target: bool = True) -> Iterator[tuple[Any, int]]:
        """The changes, as (key, number), that may give a condition the truth value `target`."""
        if isinstance(c, bool):
            return
        if c[0] == "not":
            yield from self.changes(c[1], not target)
        elif c[0] in ("and", "or"):
            for d in c[1:]:
                if self.holds(d) != target:
                    yield from self.changes(d, target)
        else:
            x = self.number(c[1])
            if c[0] == "ge":
                yield from self._shifting_changes(c[1], -x if target else -x - 1)
            elif (c[0] == "eq") == target:
                yield from self._shifting_changes(c[1], -x)
            else:
                yield from self._shifting_changes(c[1], 1)
                yield from self._shifting_changes(c[1], -1)

    def _shifting_changes(self, p: Sum, distance: int) -> Iterator[tuple[Any, int]]:
        """The changes, as (key, number), that move the value of a polynomial by `distance` or more."""
        for m, c in p.coefficients.items():
            for a in m:
                slope = c * prod(self.number(Sum({(b,): 1})) for b in m if b is not a)
                if slope:
                    shift = -(-abs(distance) // abs(slope))
                    yield from self._shifts(a, shift if (distance > 0) == (slope > 0) else -shift)

    def _shifts(self, a: Atom, shift: int) -> Iterator[tuple[Any, int]]:
        """The changes, as (key, number), that add `shift` or more to the number of an atom."""
        operands = a.subterms
        division = quotient(a)
        divisor = self.number(division[1]) if division is not None else 0
        if division is not None and divisor > 0:
            yield from self._shifting_changes(division[0], shift * divisor)
        elif a.kind in ("sym", "app"):
            if division is not None:
                yield from self._shifting_changes(division[1], 1 - divisor)
            yield self.key(a), self.number(Sum({(a,): 1})) + shift
        elif a.kind in ("div", "mod"):
            yield from self._shifting_changes(operands[0], shift * operands[1] if a.kind == "div" else shift)
        elif a.kind in ("min", "max", "wrap", "ite"):
            if a.kind == "ite":
                yield from self.changes(operands[0], not self.holds(operands[0]))
            elif a.kind in ("min", "max"):  # select the other operand
                d = operands[0] - operands[1]
                x = self.number(d)
                yield from self._shifting_changes(d, -x - (1 if x >= 0 else -1))
            for q in operands:
                if isinstance(q, Sum):
                    yield from self._shifting_changes(q, shift)


def conditions_by_variable(conditions: Sequence[Condition]) -> dict[Any, set[int]]:
    """The indices of the conditions in which a symbol, or a function, occurs."""
    variables: defaultdict[Any, set[int]] = defaultdict(set)
    for k, c in enumerate(conditions):
        for a in inside(c):
            variables[a if a.kind == "sym" else a.subterms[0]].add(k)
    return variables


def counterexample(models: Sequence[Model], conditions: Sequence[Condition]) -> tuple[Model | None, int]:
    """A model of the conditions that a repair of one of the first `models` finds, or None; and the number of conditions
    that were evaluated."""
    evaluations = [0]
    for model in models[:TRIES]:
        repaired = model.repaired(conditions, evaluations)
        if repaired is not None:
            return repaired, evaluations[0]
    return None, evaluations[0]
