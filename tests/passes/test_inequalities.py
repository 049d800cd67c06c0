"""Linear equations and inequalities of integers, against all small numbers."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from tegula.passes.inequalities import Form, constant, is_infeasible, less_than, plus, times

NUMBERS = range(-3, 5)


def value(form: Form, point: dict[str, int]) -> int:
    return form[1] + sum(n * point[str(atom)] for atom, n in form[0].items())


def random_form(random: Random) -> Form:
    terms = {atom: random.choice([-4, -2, -1, 1, 1, 2, 3]) for atom in "ijm" if random.random() < 0.7}
    return terms, random.randint(-6, 6)


@pytest.mark.parametrize("seed", range(4))
def test_inequalities_with_small_solutions_are_never_infeasible(seed: int) -> None:
    random, proved = Random(seed), 0
    points = [dict(zip("ijm", numbers, strict=True)) for numbers in product(NUMBERS, repeat=3)]
    bounds: list[Form] = [
        form for atom in "ijm" for form in (({atom: 1}, -NUMBERS[0]), ({atom: -1}, NUMBERS[-1]))
    ]
    for _ in range(60):
        equations = [random_form(random) for _ in range(random.randint(0, 2))]
        inequalities = [random_form(random) for _ in range(random.randint(0, 3))]
        has_solution = any(
            all(value(f, p) == 0 for f in equations) and all(value(f, p) >= 0 for f in inequalities)
            for p in points
        )
        infeasible = is_infeasible(equations, [*inequalities, *bounds])
        assert not (has_solution and infeasible), (equations, inequalities)
        proved += infeasible
    assert proved > 10


def test_strides_distinguish_addresses() -> None:
    i: Form = {"i": 1}, 0
    j: Form = {"j": 1}, 0
    lanes = [form for x in (i, j) for form in (x, less_than(x, constant(32)))]
    for stride, is_disjoint in ((32, True), (33, True), (31, False)):
        difference = plus(plus(i, j, -1), times(({"m": 1}, 0), stride))
        assert is_infeasible([difference], [*lanes, less_than(i, j)]) == is_disjoint
