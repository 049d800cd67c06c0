"""Models: numbers for symbols in which all conditions known on a path hold. A condition that is false in a model does
not follow, and no proof of it is searched for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from zlib import crc32

from tegula.check.proof.terms import Atom, Condition, Sum, inside, quotient
from tegula.types import DTYPES

KINDS = ((0, 0), (1, 1), (0, 4), (1, 40), (0, 1000), (-9, 9))
"""The ranges from which the models choose unknown numbers."""
STEPS, TRIES, MAX_EVALUATIONS = 8, 2, 4_000
"""The largest number of changes to one model in a repair, of models that are repaired for one question, and of
conditions that are evaluated for one question."""


class Model:
    """A number for each atom; a function has equal results for equal arguments. `values`: the numbers that were changed
    after they had been chosen."""

    __slots__ = ("cache", "kind", "results", "values")

    def __init__(self, kind: int, values: Mapping[Any, int]) -> None:
        self.kind, self.values = kind, values
        self.cache: dict[Atom, int] = {}
        self.results: dict[Any, int] = {}

    def number(self, p: Sum) -> int:
        """The value of a polynomial."""
        total = 0
        for m, c in p.parts.items():
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

    def _any(self, x: Any) -> int:
        return self.number(x) if isinstance(x, Sum) else int(self.holds(x))

    def _atom(self, a: Atom) -> int:
        x = self.cache[a] = self._computed(a)
        return x

    def _computed(self, a: Atom) -> int:
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
            return crc32(str(operands[0]).encode())  # arrays differ, so that functions of them may
        if (parts := quotient(a)) is not None:
            x, y = map(self.number, parts)
            if y > 0 and (x >= 0 or operands[0][0] == "floordiv"):
                return x // y
        return self._chosen(self.key(a), a.limits)

    def key(self, a: Atom) -> Any:
        """The key by which a model knows a symbol, or the result of a function."""
        return a if a.kind == "sym" else (a.subterms[0], tuple(map(self._any, a.subterms[1])))

    def _chosen(self, key: Any, limits: tuple[Any, Any]) -> int:
        x = self.values.get(key)
        if x is None:
            least, most = KINDS[self.kind]
            x = least + crc32(str(key).encode()) % (most - least + 1) if most > least else least
        return int(min(max(x, limits[0]), limits[1]))

    def changed(self, key: Any, x: int) -> Model:
        """A copy of the model with one number changed."""
        return Model(self.kind, {**self.values, key: x})

    # Repair ----------------------------------------------------------------------------------------------------------

    def repaired(self, conditions: Sequence[Condition], evaluations: list[int]) -> Model | None:
        """A model in which all conditions hold, reached by changing numbers of this one; None if none is found.
        `evaluations`: the number of conditions that have been evaluated, to which those of this search are added."""
        best, left = self, [k for k, c in enumerate(conditions) if not self.holds(c)]
        evaluations[0] += len(conditions)
        about = concerned(conditions) if left else {}
        for _ in range(STEPS):
            if not left:
                return best
            near: Model | None = None
            wrong = left
            for key, x in dict.fromkeys(best.changes(conditions[left[-1]])):
                if evaluations[0] > MAX_EVALUATIONS:
                    return None
                other = best.changed(key, x)
                changed = about.get(key if isinstance(key, Atom) else key[0], set())
                rest = [k for k in left if k not in changed]
                rest += [k for k in changed if not other.holds(conditions[k])]
                evaluations[0] += len(changed) + 1
                if near is None or len(rest) < len(wrong):
                    near, wrong = other, rest
                if not rest:
                    return other
            if near is None:
                return None
            best, left = near, sorted(wrong)
        return None

    def changes(self, c: Condition, target: bool = True) -> Iterator[tuple[Any, int]]:
        """The changes, as (key, number), that may make a condition true, or false if not `target`."""
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
        for m, c in p.parts.items():
            for a in m:
                if a.kind in ("sym", "app"):
                    other = c
                    for b in m:
                        other *= 1 if b is a else self.number(Sum({(b,): 1}))
                    if other:
                        yield self.key(a), self.number(Sum({(a,): 1})) - -distance // other
                elif a.kind in ("min", "max", "wrap", "ite", "div", "mod"):
                    if a.kind == "ite":
                        yield from self.changes(a.subterms[0], not self.holds(a.subterms[0]))
                    elif a.kind in ("min", "max"):  # the other one may be taken
                        d = a.subterms[0] - a.subterms[1]
                        x = self.number(d)
                        yield from self._shifting_changes(d, -x - (1 if x >= 0 else -1))
                    each = distance // c if distance % c == 0 else distance // c + (c > 0)
                    for q in a.subterms:
                        if isinstance(q, Sum):
                            yield from self._shifting_changes(
                                q, each * a.subterms[1] if a.kind == "div" else each
                            )


def concerned(conditions: Sequence[Condition]) -> dict[Any, set[int]]:
    """The places of the conditions that a symbol, or the results of a function, may decide."""
    variables: defaultdict[Any, set[int]] = defaultdict(set)
    for k, c in enumerate(conditions):
        for a in inside(c):
            variables[a if a.kind == "sym" else a.subterms[0]].add(k)
    return variables


def counterexample(others: Sequence[Model], conditions: Sequence[Condition]) -> tuple[Model | None, int]:
    """A model of conditions near one of the first other models, or None if none is found; and the number of conditions
    that were evaluated."""
    evaluations = [0]
    for model in others[:TRIES]:
        repaired = model.repaired(conditions, evaluations)
        if repaired is not None:
            return repaired, evaluations[0]
    return None, evaluations[0]
