"""Statements of the prover and the verifier about numbers, checked for all numbers: conditions with quotients and
remainders, facts, and ops on integers of 8 bits, which wrap."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from schedules import lowered

import tegula as tg
from tegula.check.proof import terms
from tegula.check.proof.known import Known
from tegula.check.proof.machine import Machine
from tegula.check.proof.program import Program
from tegula.check.verifier import Verifier as Verifying
from tegula.check.verifier import arithmetic as verifier
from tegula.check.verifier.walk import Frame, Role, State
from tegula.ir import REGISTRY
from tegula.ops.control import For
from tegula.ops.convert import Cast, convert
from tegula.ops.scalar import Const

SYMBOLS = ("x", "y")
RANGE = range(-7, 14)


class Prover:
    """The arithmetic of the prover."""

    def __init__(self) -> None:
        self.known = Known()

    def symbol(self, name: str) -> Any:
        return terms.atom("sym", name)

    number = staticmethod(terms.number)
    mod, div = staticmethod(terms.mod), staticmethod(terms.div)
    choose = staticmethod(terms.choice)
    at_least, is_zero = staticmethod(terms.ge), staticmethod(terms.eq)
    both, either = staticmethod(terms.conjunction), staticmethod(terms.disjunction)
    negated = staticmethod(terms.negation)

    def plus(self, p: Any, q: Any, n: int = 1) -> Any:
        return p + q * n

    def times(self, p: Any, q: Any) -> Any:
        return p * q

    def extreme(self, kind: str, p: Any, q: Any) -> Any:
        return terms.extreme(kind, p, q)

    def function(self, function: Any, *args: Any) -> Any:
        return terms.atom("app", function, args)

    def assume(self, c: Any) -> None:
        self.known.assume(c)

    def decide(self, c: Any) -> bool | None:
        return self.known.holds(self.known.normalised(c))


class Verifier:
    """The arithmetic of the verifier."""

    def __init__(self) -> None:
        self.atoms = verifier.Atoms()
        self.facts = verifier.Facts(self.atoms)
        self.mod, self.div, self.extreme = self.atoms.mod, self.atoms.div, self.atoms.extreme
        self.choose = self.atoms.choose

    def symbol(self, name: str) -> Any:
        return self.atoms.intern("sym", name)

    number, plus, times = (
        staticmethod(verifier.number),
        staticmethod(verifier.plus),
        staticmethod(verifier.times),
    )
    at_least, is_zero = staticmethod(verifier.at_least), staticmethod(verifier.is_zero)
    both, either = staticmethod(verifier.both), staticmethod(verifier.either)
    negated = staticmethod(verifier.negated)

    def function(self, function: Any, *args: Any) -> Any:
        return self.atoms.intern("app", function, args)

    def assume(self, c: Any) -> None:
        self.facts.assume(c)

    def decide(self, c: Any) -> bool | None:
        return self.facts.decide(c)


class Numbers:
    """The arithmetic of numbers."""

    def __init__(self, values: dict[str, int]) -> None:
        self.values = values

    def symbol(self, name: str) -> int:
        return self.values[name]

    def number(self, n: int) -> int:
        return n

    def mod(self, p: int, n: int) -> int:
        return p % n

    def div(self, p: int, n: int) -> int:
        return p // n

    def plus(self, p: int, q: int, n: int = 1) -> int:
        return p + q * n

    def times(self, p: int, q: int) -> int:
        return p * q

    def extreme(self, kind: str, p: int, q: int) -> int:
        return min(p, q) if kind == "min" else max(p, q)

    def choose(self, c: bool, p: int, q: int) -> int:
        return p if c else q

    def at_least(self, p: int) -> bool:
        return p >= 0

    def is_zero(self, p: int) -> bool:
        return p == 0

    def both(self, c: bool, d: bool) -> bool:
        return c and d

    def either(self, c: bool, d: bool) -> bool:
        return c or d

    def negated(self, c: bool) -> bool:
        return not c


def term(rng: random.Random, depth: int) -> Any:
    """A random term, as a function of an arithmetic."""
    if depth == 0:
        name, n = rng.choice(SYMBOLS), rng.randint(-4, 4)
        return (lambda a: a.symbol(name)) if rng.random() < 0.7 else (lambda a: a.number(n))
    kind = rng.choice(("plus", "plus", "mod", "mod", "div", "div", "extreme", "choose", "times"))
    p, q = term(rng, depth - 1), term(rng, depth - 1)
    n, k = rng.randint(1, 5), rng.randint(-2, 2)
    if kind == "plus":
        return lambda a: a.plus(p(a), q(a), k)
    if kind == "times" and rng.random() < 0.5:
        return lambda a: a.times(p(a), q(a))
    if kind == "times":
        return lambda a: a.times(p(a), a.number(k))
    if kind in ("mod", "div"):
        return lambda a: getattr(a, kind)(p(a), n)
    if kind == "extreme":
        form = rng.choice(("min", "max"))
        return lambda a: a.extreme(form, p(a), q(a))
    c = condition(rng, depth - 1)
    return lambda a: a.choose(c(a), p(a), q(a))


def condition(rng: random.Random, depth: int) -> Any:
    p, q = term(rng, depth), term(rng, depth)
    test = rng.choice(("at_least", "is_zero"))
    return lambda a: getattr(a, test)(a.plus(p(a), q(a), -1))


def compound(rng: random.Random, depth: int) -> Any:
    """A random condition that combines several comparisons."""
    if depth == 0:
        return condition(rng, rng.choice((0, 0, 1)))
    kind = rng.choice(("both", "either", "negated"))
    c, d = compound(rng, depth - 1), compound(rng, rng.randrange(depth))
    if kind == "negated":
        return lambda a: a.negated(c(a))
    return lambda a: getattr(a, kind)(c(a), d(a))


def assignments() -> Iterator[Numbers]:
    return (Numbers(dict(zip(SYMBOLS, row, strict=True))) for row in product(RANGE, repeat=len(SYMBOLS)))


ASSIGNMENTS = list(assignments())


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
@pytest.mark.parametrize("seed", range(4))
def test_decided_conditions_hold_wherever_the_facts_hold(arithmetic: Any, seed: int) -> None:
    """A decided condition holds under every assignment that satisfies the facts."""
    rng, decided = random.Random(seed), 0
    for _ in range(150):
        facts = [condition(rng, rng.choice((0, 0, 1))) for _ in range(rng.randint(0, 3))]
        query = condition(rng, rng.choice((1, 2, 3)))
        a = arithmetic()
        for fact in facts:
            a.assume(fact(a))
        answer = a.decide(query(a))
        decided += answer is not None
        if answer is not None:
            truths = {query(w) for w in ASSIGNMENTS if all(fact(w) for fact in facts)}
            assert truths <= {answer}
    assert decided > 20


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
@pytest.mark.parametrize("seed", range(4))
def test_conclusions_from_compound_facts_hold_wherever_the_facts_hold(arithmetic: Any, seed: int) -> None:
    """Conclusions from conjunctions and disjunctions of facts hold under every assignment that satisfies the facts."""
    rng, decided = random.Random(f"compound {seed}"), 0
    for _ in range(100):
        facts = [compound(rng, rng.choice((0, 1, 2))) for _ in range(rng.randint(1, 4))]
        query = condition(rng, rng.choice((1, 2)))
        a = arithmetic()
        for fact in facts:
            a.assume(fact(a))
        answer = a.decide(query(a))
        decided += answer is not None
        if answer is not None:
            truths = {query(w) for w in ASSIGNMENTS if all(fact(w) for fact in facts)}
            assert truths <= {answer}
    assert decided > 20


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
@pytest.mark.parametrize("kind", ["min", "max"])
def test_products_with_a_maximum_are_not_bounded_by_its_operands(arithmetic: Any, kind: str) -> None:
    """A maximum is not less than either number, but products with it may be."""
    a = arithmetic()
    x, y = a.symbol("x"), a.symbol("y")
    m = a.extreme(kind, a.number(0), y)
    assert a.decide(a.at_least(a.plus(m, a.times(m, y), -1))) is None
    a.assume(a.at_least(a.plus(a.plus(m, a.times(m, x), -1), a.number(4))))
    assert a.decide(a.at_least(a.plus(a.plus(y, a.times(y, x), -1), a.number(4)))) is None


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
def test_excluded_alternatives_leave_the_one_that_holds(arithmetic: Any) -> None:
    """If all alternatives but one are excluded, the remaining alternative holds; a known remainder determines a
    quotient."""
    a = arithmetic()
    x, y = a.symbol("x"), a.symbol("y")
    above, below = a.at_least(x), a.at_least(a.plus(a.number(-1), x, -1))
    even = a.is_zero(a.choose(above, a.mod(x, 6), a.mod(a.plus(a.number(0), x, -1), 6)))
    a.assume(even)
    moved = a.is_zero(a.plus(a.mod(a.plus(x, y), 3), a.mod(y, 3), -1))
    assert a.decide(moved) is not False
    a.assume(a.negated(a.both(below, above)))
    a.assume(a.negated(a.is_zero(a.plus(x, a.number(-6)))))
    a.assume(a.at_least(a.plus(x, a.number(-6))))
    assert a.decide(moved) is True
    assert a.decide(a.at_least(a.plus(x, a.number(-12)))) is True


def stage(n: int, k: int = 0) -> Any:
    """The stage of item x + k of a ring of n stages."""
    return lambda a: a.mod(a.plus(a.symbol("x"), a.number(k)), n)


def parity(n: int, first_phase: int, k: int = 0) -> Any:
    """The parity of item x + k, of a ring of n stages that begins with phase `first_phase`."""
    return lambda a: a.mod(a.plus(a.number(first_phase), a.div(a.plus(a.symbol("x"), a.number(k)), n)), 2)


def shifted(k: int, p: Any, factor: int = 1) -> Any:
    return lambda a: a.plus(a.number(k), p(a), factor)


def is_ring_choice(n: int, end: int, p: Any, q: Any, expected: Any) -> Any:
    """Whether the select of p at stage `end`, and q at other stages, equals the expected number."""
    last = shifted(-end, stage(n))
    return lambda a: a.is_zero(a.plus(a.choose(a.is_zero(last(a)), p(a), q(a)), expected(a), -1))


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
@pytest.mark.parametrize(("kind", "exact"), [("floordiv", True), ("div", False)])
def test_quotients_by_positive_symbols_equal_trip_counts(arithmetic: Any, kind: str, exact: bool) -> None:
    """A loop in steps of d does as many iterations as the quotient that is rounded up; for positive d only."""

    def conditions(positive: bool) -> tuple[Any, Any, Any]:
        a = arithmetic()
        n, d, t = map(a.symbol, ("n", "d", "t"))
        count = a.function((kind, "[]", 0, "int32"), a.plus(a.plus(n, d), a.number(-1)), d)
        a.assume(a.at_least(a.plus(d, a.number(-1) if positive else a.number(5))))
        inside = a.at_least(a.plus(a.plus(n, a.times(d, t), -1), a.number(-1)))
        return a, inside, a.at_least(a.plus(a.plus(count, t, -1), a.number(-1)))

    for first, second in ((1, 2), (2, 1)):
        for negated in (False, True):
            row = conditions(True)
            a = row[0]
            a.assume(a.negated(row[first]) if negated else row[first])
            assert a.decide(row[second]) is ((not negated) if exact else None)
            row = conditions(False)
            row[0].assume(row[first])
            assert row[0].decide(row[second]) is None


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_choice_is_the_next_stage_only_if_all_alternatives_are(arithmetic: Any, n: int) -> None:
    """A select is recognised as the next stage or parity only if the two are equal under all assignments."""
    rng, other_formula = random.Random(n), lambda a: a.mod(a.symbol("y"), 2)
    parities = [parity(n, 0), parity(n, 1), other_formula]
    numbers = [lambda a: a.number(0), lambda a: a.number(1), *(shifted(1, p, -1) for p in parities)]
    rest = [stage(n), shifted(1, stage(n)), *parities]
    after = [stage(n, 1), parity(n, 0, 1), parity(n, 1, 1)]
    right = [
        is_ring_choice(n, n - 1, numbers[0], rest[1], after[0]),
        *(is_ring_choice(n, n - 1, shifted(1, parities[k], -1), parities[k], after[1 + k]) for k in (0, 1)),
    ]
    ends = range(-1, n + 1)
    random_choices = [
        is_ring_choice(n, rng.choice(ends), *map(rng.choice, (numbers, rest, after))) for _ in range(25)
    ]
    assert all((a := arithmetic()).decide(c(a)) is True for c in right)
    for c in random_choices:
        answer = (a := arithmetic()).decide(c(a))
        assert answer is None or {c(w) for w in ASSIGNMENTS} == {answer}


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7, 12])
def test_counted_stages_and_parities_are_recognised(arithmetic: Any, stages: int) -> None:
    """Exactly the counted stages and parities are recognised as the stages and parities of items."""
    a = arithmetic()
    x = a.symbol("x")
    stage = a.mod(x, stages)
    parity = a.mod(a.div(x, stages), 2)
    after = a.plus(stage, a.number(1))
    wraps = a.is_zero(a.plus(after, a.number(-stages)))
    item = a.plus(x, a.number(1))
    next_stage = a.choose(wraps, a.number(0), after)
    next_parity = a.choose(wraps, a.plus(a.number(1), parity, -1), parity)
    assert a.decide(a.is_zero(a.plus(next_stage, a.mod(item, stages), -1))) is True
    assert a.decide(a.is_zero(a.plus(next_parity, a.mod(a.div(item, stages), 2), -1))) is True
    late = a.is_zero(a.plus(next_parity, a.mod(a.div(a.plus(item, a.number(1)), stages), 2), -1))
    assert a.decide(late) is (False if stages == 1 else None)
    if stages > 1:
        assert a.decide(a.is_zero(a.plus(stage, a.mod(item, stages), -1))) is False


def strip(a: Any, n: int, r: int, holds: bool) -> tuple[Any, Any]:
    """An expression that is 0 where x has remainder r in strip y, and not negative below that."""
    x, y = a.symbol("x"), a.symbol("y")
    above = a.plus(a.plus(x, y, -n), a.number(n - 1 - r))
    a.assume(a.at_least(above))
    a.assume(a.at_least(a.plus(a.number(n - 1), above, -1)))
    c = a.is_zero(a.plus(a.mod(x, n), a.number(-r)))
    a.assume(c if holds else ("not", c))
    return a.plus(above, a.number(1 - n)), a.plus(a.number(n - 2), above, -1)


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
@pytest.mark.parametrize("n", [2, 3, 5, 48])
@pytest.mark.parametrize("r", [0, 1])
def test_known_remainders_determine_a_number_in_a_strip(arithmetic: Any, n: int, r: int) -> None:
    """For a number in a strip of n, a known remainder determines the number; an excluded remainder excludes that number
    and no other."""
    a = arithmetic()
    last, before = strip(a, n, r, True)
    assert a.decide(a.is_zero(last)) is True
    assert a.decide(a.at_least(before)) is False
    a = arithmetic()
    last, before = strip(a, n, r, False)
    assert a.decide(a.at_least(before)) is True
    assert a.decide(a.is_zero(a.plus(last, a.number(1)))) is (True if n == 2 else None)


# Ops that wrap --------------------------------------------------------------------------------------------------------


def bytes_kernel(expression: str, dtype: str) -> Any:
    text = f"""def kernel(x: tg.array2d[float], out: tg.array2d[float], a: tg.{dtype}, b: tg.{dtype}):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=3)
    with tg.ws(0):
        for k in range(int({expression})):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(int({expression})):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
"""
    names: dict[str, Any] = {"tg": tg}
    exec(text, names)
    return tg.kernel(source=text)(names["kernel"])


EXPRESSIONS = (
    "a + b", "a - b", "a * b", "(a + b) % tg.{t}(3)", "(a - b) // tg.{t}(5)", "a & tg.{t}(7)", "(a ^ tg.{t}(1)) + b",
    "tg.min(a, b) - tg.max(a, b)", "(a >> tg.{t}(2)) + (b << tg.{t}(3))", "tg.where(a + b < a, a, b)", "-a", "~a + b",
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_terms_of_wrapping_ops_evaluate_to_the_results_of_the_ops(dtype: str) -> None:
    """The term of a number, evaluated for numbers instead of parameters, is the result of the ops."""
    numbers = np.array([0, 1, 2, 3, 5, 7, 8, 100, 126, 127, 128, 129, 200, 254, 255], np.uint8).view(dtype)
    for expression in EXPRESSIONS:
        kernel, compilation = lowered(bytes_kernel(expression.format(t=dtype), dtype))
        stop = next(op for op in kernel.walk() if isinstance(op, For)).stop
        machine = Machine(Program(kernel, compilation))
        machine.state, machine.role = machine.start(), 0
        replay = Verifying(kernel, compilation, claims_without_proof(machine.program))
        replay.state = State([Role([Frame(replay.layout.roles[0], 0, {})])], verifier.Facts(replay.atoms))
        first, second = machine.value(stop), keyed(replay.atoms, replay.value(stop))
        for a, b in product(numbers, repeat=2):
            expected = evaluated_by_ops(stop, {2: a, 3: b}, kernel)
            for result in (first, second):
                assert evaluated(result, {2: int(a), 3: int(b)}) == expected, (expression, a, b)


def keyed(atoms: verifier.Atoms, x: Any) -> Any:
    """A term of the verifier as a term of the prover, by the names in certificates."""
    if isinstance(x, bool | int | str):
        return x
    if x and isinstance(x[0], str):
        return (x[0], *(keyed(atoms, y) for y in x[1:]))
    return terms.Sum({tuple(map(lambda a: atom_of_key(atoms, atoms.keys[a]), m)): c for m, c in x})


def atom_of_key(atoms: verifier.Atoms, key: Any) -> terms.Atom:
    kind, *args = key
    if kind == "app":
        return terms.Atom("app", args[0], tuple(keyed(atoms, y) for y in args[1]))
    return terms.Atom(kind, *(keyed(atoms, y) for y in args))


def evaluated(x: Any, values: dict[int, int]) -> Any:
    """A term, with numbers for the parameters."""
    if isinstance(x, terms.Sum):
        return sum(c * prod(evaluated(a, values) for a in m) for m, c in x.coefficients.items())
    if isinstance(x, tuple):
        kind, *args = x
        inner = [evaluated(y, values) for y in args]
        return CONDITIONS[kind](*inner)
    if not isinstance(x, terms.Atom):
        return x
    if x.kind == "app":
        function, args = x.subterms
        if function[0] == "param":
            return values[int(function[1])]
        dtype = tg.types.to_numpy(tg.types.DTYPES[function[3]])
        arguments = [np.asarray([evaluated(y, values)]).astype(dtype) for y in args]
        return int(REGISTRY[function[0]].ref({}, *arguments)[0])  # type: ignore[attr-defined]
    if x.kind == "ite":
        return evaluated(x.subterms[1 if evaluated(x.subterms[0], values) else 2], values)
    if x.kind == "wrap":
        return int(np.asarray(evaluated(x.subterms[0], values)).astype(x.subterms[1]))
    p, q = (evaluated(y, values) for y in x.subterms)
    return {"mod": lambda: p % q, "div": lambda: p // q, "min": lambda: min(p, q), "max": lambda: max(p, q)}[
        x.kind
    ]()


CONDITIONS: dict[str, Any] = {
    "ge": lambda p: p >= 0,
    "eq": lambda p: p == 0,
    "is": bool,
    "not": lambda c: not c,
    "and": lambda c, d: c and d,
    "or": lambda c, d: c or d,
}


def claims_without_proof(program: Program) -> dict[str, Any]:
    """The claims of a certificate about a pipe, without the proof."""
    chains = [[0, 1, 0, [[0, 0], [1, 1]]], [1, 0, 1, [[1, 1], [0, 0]]]]
    rings = [
        [
            program.number[v],
            [
                [*row.releaser, *row.acquirer, row.barrier, 0, row.barrier, row.own, 1, []]
                for row in ring.handovers
            ],
            [],
        ]
        for v, ring in program.rings.items()
    ]
    return {
        "offsets": [],
        "lags": [[0, 0, 1, 3], [1, 1, 0, 0]],
        "rings": rings,
        "units": [],
        "parts": [],
        "rotations": [],
        "chains": chains,
    }


def evaluated_by_ops(value: Any, values: dict[int, Any], kernel: Any) -> int:
    """The results of the ops."""
    known = {kernel.params[k]: np.asarray([v]) for k, v in values.items()}

    def of(v: Any) -> Any:
        if v not in known:
            op = v.owner
            if isinstance(op, Const):
                known[v] = np.asarray([op.value], tg.types.to_numpy(v.type))
            elif isinstance(op, Cast):
                known[v] = convert(of(op.operands[0]), tg.types.to_numpy(v.type))
            else:
                known[v] = np.asarray(op.ref(op.attrs, *(of(x) for x in op.operands)))
        return known[v]

    return int(of(value)[0])


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
@pytest.mark.parametrize("low", [0, 7, None])
def test_the_next_stage_is_known_where_bounds_determine_the_quotient(
    arithmetic: Any, low: int | None
) -> None:
    """The next stage by a comparison is the next remainder, in one phase of a ring of 6 stages as in any."""
    a = arithmetic()
    x = a.symbol("x")
    if low is not None:
        a.assume(a.at_least(a.plus(x, a.number(-low))))
        a.assume(a.at_least(a.plus(a.number(low + 3), x, -1)))
    stage = a.mod(x, 6)
    chosen = a.choose(a.at_least(a.plus(a.number(4), stage, -1)), a.plus(stage, a.number(1)), a.number(0))
    assert a.decide(a.is_zero(a.plus(chosen, a.mod(a.plus(x, a.number(1)), 6), -1))) is True


@pytest.mark.parametrize("arithmetic", [Prover, Verifier])
def test_remainders_are_dividends_without_multiples(arithmetic: Any) -> None:
    """From x mod 6 > y >= 0 follows that y is less than x, if x is not negative, and less than 6."""
    a = arithmetic()
    x, y = a.symbol("x"), a.symbol("y")
    a.assume(a.at_least(x))
    a.assume(a.at_least(y))
    a.assume(a.at_least(a.plus(a.plus(a.mod(x, 6), y, -1), a.number(-1))))
    rest = a.plus(x, a.div(x, 6), -6)
    assert a.decide(a.at_least(a.plus(a.plus(rest, y, -1), a.number(-1)))) is True
    assert a.decide(a.is_zero(a.div(y, 5))) is True
    assert a.decide(a.is_zero(a.div(y, 4))) is None
