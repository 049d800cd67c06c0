"""Randomly mutated programs get errors with a line within seconds."""

import importlib.util
import random
from pathlib import Path
from types import ModuleType

import pytest

from support.campaigns import chunks

pytestmark = pytest.mark.cpu


def tool() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "fuzz_programs.py"
    spec = importlib.util.spec_from_file_location("fuzz_programs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(first: int, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    fuzz = tool()
    for seed in range(first, first + count):
        text = fuzz.program(seed)
        outcome = fuzz.outcome(text, seed)
        assert not outcome.startswith("FOUND"), f"seed {seed}: {outcome}\n{text}"
    capsys.readouterr()


def test_some_fuzzed_programs_get_errors_with_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    check(0, 8, capsys)


@pytest.mark.parametrize("chunk", chunks(range(30)))
def test_many_fuzzed_programs_get_errors_with_a_line(chunk: int, capsys: pytest.CaptureFixture[str]) -> None:
    check(1000 + 100 * chunk, 100, capsys)


@pytest.mark.slow
def test_seeds_of_fuzzed_programs_are_used_unchanged() -> None:
    """If a seed were refused, its mutants would not test the compiler beyond the first errors."""
    fuzz = tool()
    for text in fuzz.SEEDS:
        assert fuzz.outcome(text, 0) == "accepted", text


HUGE_EXPRESSIONS = [
    "tg.vector(length={n}, dtype=float)",
    "tg.matrix(shape=({n}, 2), dtype=float)",
    "tg.identity({n})",
]
HUGE_EXPRESSIONS += [
    "tg.tile_zeros(shape={n}, dtype=float)",
    "tg.tile_arange({n}, dtype=tg.float64)",
    "tg.tile_full((2, {n}), 1.0)",
]
HUGE_EXPRESSIONS += [
    "tg.tile_reshape(tg.tile_zeros(8), shape={n})",
    "tg.tile_broadcast(tg.tile_zeros(1), shape=({n},))",
    "v**{n}",
]
HUGE_EXPRESSIONS += [
    "1 << {n}",
    "10**{n}",
    "1 << -{n}",
    "tg.outer(tg.vector(length=65, dtype=float), tg.vector(length=64, dtype=float))",
]


@pytest.mark.parametrize("expression", HUGE_EXPRESSIONS)
def test_programs_with_too_large_numbers_are_refused(expression: str) -> None:
    """Refused immediately and without allocating memory; shifts by negative counts have a value."""
    for n in random.Random(expression).sample([10**9 * 3, 2**31, 2**63, 2**64 + 1, 10**30, 10**400], 2):
        text = (
            "def kernel(x, y: tg.array1d[float], z, n, m):\n"
            f"    v = int(y[0])\n    t = {expression.format(n=n)}\n    print(t)\n"
        )
        outcome = tool().outcome(text, 0)
        assert not outcome.startswith("FOUND") and (
            outcome != "accepted" or "<< -" in expression or "v**" in expression
        )


@pytest.mark.parametrize("group", ["0.0", "-1", "True", "None", "n", "1.5", "'a'", "10**400"])
def test_warp_groups_that_are_not_small_integers_are_refused(group: str) -> None:
    fuzz = tool()
    text = fuzz.SEEDS[5].replace("tg.ws(0)", f"tg.ws({group})")
    assert fuzz.outcome(text, 0) == "role-groups"
