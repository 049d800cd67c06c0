"""Asserts about arguments and shapes are facts for the prover, and guards that the host evaluates before a launch."""

from __future__ import annotations

import json
from typing import Any

import pytest
from schedules import lowered

import tegula as tg
from support.campaigns import sampled
from tegula.check.bounded import explore
from tegula.check.guards import asserted
from tegula.check.judge import verify_certificate
from tegula.check.schedule import check_schedule
from tegula.check.verdict import Gap
from tegula.check.verifier import Rejected
from tegula.errors import LaunchError
from tegula.runtime.guards import LaunchGuards

TEXT = """
def copies(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    {asserts}
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=3)
    with tg.ws(0):
        for k in range({fills}):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range({pops}):
            tg.tile_store(out, tg.tile_pipe_pop(pipe) * 2.0, offset=(k, 0))
"""


def copies(fills: str, pops: str, *asserts: str) -> Any:
    lines = "\n    ".join(f"assert {a}" for a in asserts) or "pass"
    text = TEXT.format(fills=fills, pops=pops, asserts=lines).lstrip()
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    return tg.kernel(source=text)(space["copies"])


PROVED = [
    ("n", "1, n + 1", "n < 1000"),
    ("n", "1, n + 1", "0 <= n and n < x.shape[0]"),
    ("n", "tg.min(n, 100)", "n <= 100"),
    ("n", "m", "n == m"),
    ("n", "m * 2", "m * 2 == n"),
    ("n", "x.shape[0]", "x.shape[0] == n"),
    ("n", "x.shape[0] * 1", "x.shape[0] == n and out.shape[0] == n"),
]


@sampled(2, "case", PROVED)
def test_each_assert_about_arguments_is_needed_for_the_proof(case: tuple[str, ...]) -> None:
    """Without any one of the asserts the prover does not prove the schedule."""
    fills, pops, *asserts = case
    kernel, compilation = lowered(copies(fills, pops, *asserts))
    verdict = check_schedule(kernel, compilation)
    assert verdict.status == "proved", verdict.message
    assert [g.text for g in verdict.guards] == list(asserts)
    assert [g.loc.line for g in verdict.guards] == [2 + k for k in range(len(asserts))]
    with_asserts = check_schedule(*lowered(copies(fills, pops)))
    assert with_asserts.status != "proved" or with_asserts.guards


@pytest.mark.parametrize("condition", ["x[0, 0] > 1.0", "float(n) < 5.0", "m < 5", "n < 5 or m == 3"])
def test_asserts_about_memory_and_floats_are_not_guards(condition: str) -> None:
    """Values read from memory and floats are not facts; facts about other numbers do not help."""
    verdict = check_schedule(*lowered(copies("n", "1, n + 1", condition)))
    assert condition not in [g.text for g in verdict.guards] or "m" in condition
    assert verdict.status != "proved" or "fits" in [g.kind for g in verdict.guards]


def test_an_assert_inside_a_role_is_not_a_fact() -> None:
    text = TEXT.format(fills="n", pops="1, n + 1", asserts="pass").lstrip()
    text = text.replace("    with tg.ws(0):\n", "    with tg.ws(0):\n        assert n < 1000\n")
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    verdict = check_schedule(*lowered(tg.kernel(source=text)(space["copies"])))
    assert all(g.kind == "fits" for g in verdict.guards)


def packed(kernel: Any, *values: Any) -> bytes:
    return b"".join(pack(v)[1] for pack, v in zip(kernel.packers, values, strict=True))


X, OUT = tg.zeros((7, 8)), tg.zeros((7, 8))


@pytest.mark.parametrize(
    ("condition", "good", "bad", "values_text"),
    [
        ("n < m", (3, 4), (4, 4), "n = 4, m = 4"),
        ("n * m < 1000", (-5, 3), (2**17, 2**17), "n = 131072, m = 131072"),
        ("n + m < 1000 or n == 7", (7, 10**9), (2**31 - 1, 5), "n = 2147483647, m = 5"),
        ("0 <= n and n < x.shape[0]", (6, 0), (7, 0), "n = 7, x.shape[0] = 7"),
        ("n % 4 == 0 or m == -n", (-8, 1), (5, 5), "n = 5, m = 5"),
        ("tg.max(n, m) // 2 - 1 == x.shape[1]", (18, 19), (20, 1), "n = 20, m = 1, x.shape[1] = 8"),
        ("not (n == m)", (1, 2), (2, 2), "n = 2, m = 2"),
    ],
)
def test_hosts_evaluate_guards_on_exact_integers(
    condition: str, good: tuple[int, int], bad: tuple[int, int], values_text: str
) -> None:
    """Hosts compute on exact integers: 2**34 does not wrap around to a small number."""
    built_kernel = copies("n", "n", condition)
    kernel, compilation = lowered(built_kernel)
    guards = LaunchGuards(kernel, [g.row() for g in check_schedule(kernel, compilation).guards])
    assert len(guards.guards) == 1
    guards.check(packed(built_kernel, X, OUT, *good))
    with pytest.raises(LaunchError, match="the launch does not satisfy .* \\(line 2 of") as error:
        guards.check(packed(built_kernel, X, OUT, *bad))
    assert values_text in str(error.value)


def test_guards_read_the_numbers_of_all_kinds_of_arguments() -> None:
    @tg.kernel
    def mixed(
        a: tg.array1d[float],
        b: bool,
        c: tg.uint8,
        v: tg.vec3,
        d: tg.int64,
        e: float,
        f: tg.array2d[float],
        g: tg.int8,
    ):
        assert b
        assert c > 200 and d > 2**40 and g < 0
        assert f.shape[1] == 8 and a.shape[0] == 5
        pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
        with tg.ws(0):
            tg.tile_pipe_load(pipe, f, offset=(0, 0))
        with tg.ws(1):
            tg.tile_store(f, tg.tile_pipe_pop(pipe) * e * v[0], offset=(0, 0))

    kernel, compilation = lowered(mixed)
    verdict = check_schedule(kernel, compilation)
    assert verdict.status == "proved", verdict.message
    guards = LaunchGuards(kernel, json.loads(json.dumps([g.row() for g in verdict.guards])))
    assert len(guards.guards) == 3
    accepted = [tg.zeros(5), True, 250, (1.0, 2.0, 3.0), 2**41, 1.0, tg.zeros((7, 8)), -1]
    guards.check(packed(mixed, *accepted))
    for k, wrong in ((0, tg.zeros(4)), (1, False), (2, 3), (4, 1), (6, tg.zeros((8, 7))), (7, 1)):
        with pytest.raises(LaunchError):
            guards.check(packed(mixed, *accepted[:k], wrong, *accepted[k + 1 :]))


def test_guards_depend_on_launch_arguments_alone() -> None:
    """Conditions that are computed in roles, or that the kernel does not assert, are not guards."""
    kernel, compilation = lowered(copies("n", "1, n + 1", "n < 1000"))
    certificate = json.loads(check_schedule(kernel, compilation).certificate)
    verify_certificate(kernel, compilation, certificate)
    ((kind, number),) = certificate["guards"]
    for corrupted in (
        [],
        [["assert", number + 20]],
        [["factor", number + 40]],
        [["holds", number]],
        [[kind, 10**6]],
    ):
        with pytest.raises(Rejected):
            verify_certificate(kernel, compilation, {**certificate, "guards": corrupted})


def test_a_launch_that_does_not_satisfy_a_guard_is_not_a_counterexample() -> None:
    kernel, compilation = lowered(copies("tg.min(n, 4)", "n", "n <= 4"))
    assert explore(kernel, compilation, Gap("")).status == "refuted"
    assert explore(kernel, compilation, Gap(""), asserted(kernel)).status == "unproved"
