"""Functions and operators with operands of all kinds: accepted, or refused with an error in users' terms and a help
text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from random import Random

import pytest

import tegula as tg
from support.campaigns import chunks
from tegula.ir import LaunchClass
from tegula.ops import PUBLIC
from tegula.runtime.library import library
from tegula.types import ArrayType, float32

BODY = """
def k(a: tg.array2d[float], b: tg.array1d[float]):
    t = tg.tile_load(a, shape=(4, 4))
    i = tg.tile_arange(4, dtype=int)
    mask = t > 0.0
    row = t[0]
    v = tg.vec3(1.0, 2.0, 3.0)
    m = tg.mat33(1.0)
    n = tg.tid()
    x = b[n]
    stack = tg.tile_stack(8, int)
    def f(p): return p
    {statement}
"""
VALUES = (
    *(
        "t",
        "i",
        "mask",
        "row",
        "v",
        "m",
        "n",
        "x",
        "stack",
        "a",
        "b",
        "f",
        "(1)",
        "2.0",
        "(-1)",
        "True",
        "'text'",
        "None",
    ),
    *(
        "(1, 2)",
        "(4, 4)",
        "()",
        "float",
        "tg.vec3",
        "(t, t)",
        "tg.sin",
        "slice(0, 2)",
        "(10**40)",
        "1e300",
        "tg",
        "t.T",
    ),
)
STATEMENTS = (
    *(
        "r = {p} + {q}",
        "r = {p} @ {q}",
        "r = {p} // {q}",
        "r = {p} << {q}",
        "r = {p} ** {q}",
        "r = {p} < {q}",
        "r = -{p}",
    ),
    *(
        "r = {p}[{q}]",
        "t[{p}] = {q}",
        "b[{p}] = {q}",
        "t += {p}",
        "v[{p}] = {q}",
        "r = {p} and {q}",
        "r = not {p}",
    ),
    *(
        "if {p}:\n        x = 1.0",
        "while {p}:\n        x = 1.0",
        "for r in {p}:\n        x = 1.0",
        "r = 1.0 if {p} else {q}",
    ),
    *(
        "for r in range({p}, {q}):\n        x = 1.0",
        "r, s = {p}",
        "r = {p}.shape",
        "assert {p}",
        "r = {p}({q})",
        "print({p})",
    ),
    *("a[0, 0] = {p}", "t[0, 0] += {p}", "r = float({p})", "r = len({p})", "r = int({p})", "row[:2] = {p}"),
)
INTERNAL = re.compile(
    r"\b(buf|array|vec|mat|stack|pipe|mbarrier|named_barrier|tile|partial tile)<|<tegula\.|0x[0-9a-f]{6}"
)


def _statements(count: int, seed: int) -> Iterator[str]:
    random = Random(seed)
    names = sorted(n for n in {*PUBLIC, *library()} if n[0] != "_" and "." not in n)
    for _ in range(count):
        p, q = random.choice(VALUES), random.choice(VALUES)
        if random.random() < 0.4:
            yield random.choice(STATEMENTS).format(p=p, q=q)
        else:
            args = ", ".join(random.choice(VALUES) for _ in range(random.randint(0, 4)))
            yield f"r = tg.{random.choice(names)}({args})"


def _error(statement: str) -> tg.TegulaError | None:
    names = {"tg": tg}
    text = BODY.format(statement=statement)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(text, names)
    types = [ArrayType(float32, 2), ArrayType(float32, 1)]
    try:
        tg.kernel(source=text)(names["k"]).trace(
            types, LaunchClass(1, 64, (False,), False, False), (), library()
        )
    except tg.CompileError as error:
        return error
    return None


def faults(statements: Iterable[str]) -> list[str]:
    """The faults of the error messages of statements."""
    found = []
    for statement in statements:
        try:
            error = _error(statement)
        except Exception as error:  # a fault of the compiler
            found.append(f"{statement}: {type(error).__name__}: {error}")
            continue
        for each in getattr(error, "errors", [error] if error is not None else []):
            if INTERNAL.search(str(each)):
                found.append(f"{statement}: internal words: {each}")
            if not each.help and not each.notes:
                found.append(f"{statement}: no way out: {each}")
    return found


def test_wrong_calls_have_help() -> None:
    assert faults(_statements(100, 1)) == []


def test_wrong_constants_have_help() -> None:
    """Functions of a group with constants of every kind: no message shows a value in its internal form."""
    calls = ("tile_cholesky(t, {})", "tile_histogram(i, {})")
    assert faults(f"r = tg.{call.format(p)}" for call in calls for p in VALUES) == []


@pytest.mark.parametrize("seed", chunks(range(2, 12)))
def test_many_wrong_calls_have_help(seed: int) -> None:
    assert faults(_statements(2000, seed)) == []
