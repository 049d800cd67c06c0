"""Functions and operators with operands of all kinds: accepted, or refused with an error in users' terms and a help
text."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import NamedTuple

import numpy as np
import pytest
from internal_names import INTERNAL

import tegula as tg
from support.campaigns import chunks
from support.pruned_bodies import needed_statements
from tegula.ir import LaunchClass
from tegula.lang.structs import leaf_parameters
from tegula.ops import PUBLIC
from tegula.runtime.library import library
from tegula.types import ArrayType


@tg.struct
class Body:
    """A struct with an array."""

    mass: float
    data: tg.array[float]


class Point(NamedTuple):
    x: float = 1.0


@dataclass
class Options:
    rows: int = 4


class Colour(Enum):
    RED = 1


@tg.func
def shifted(x: float) -> float:
    return x + 1.0


BODY = """
def k(a: tg.array2d[float], b: tg.array1d[float], bodies: tg.array[Body], body: Body, other: Body):
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
    s = tg.tile_zeros(4, dtype=Body)
    either = body
    if n > 2:
        either = other
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
    *(
        "s",
        "bodies",
        "body",
        "Body",
        "point",
        "options",
        "Colour.RED",
        "Colour",
        "shifted",
        "numpy",
        "either",
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
    names = {"tg": tg, "Body": Body, "point": Point(), "options": Options(), "Colour": Colour, "numpy": np}
    names["shifted"] = shifted
    text = needed_statements(BODY.format(statement=statement))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(text, names)
    leaves = leaf_parameters(tg.kernel(source=text)(names["k"]).parameters)
    types = [ArrayType(t.dtype, t.ndim) if hasattr(t, "ndim") else t for t in (p.annotation for p in leaves)]
    try:
        tg.kernel(source=text)(names["k"]).trace(
            types, LaunchClass(1, 64, (False,), False, False), (), library()
        )
    except tg.CompileError as error:
        return error
    return None


def faults(statements: Iterable[str]) -> list[str]:
    """The faults of the error messages of statements."""
    messages = []
    for statement in statements:
        try:
            error = _error(statement)
        except Exception as error:  # a fault of the compiler
            messages.append(f"{statement}: {type(error).__name__}: {error}")
            continue
        for one_error in getattr(error, "errors", [error] if error is not None else []):
            if INTERNAL.search(str(one_error)):
                messages.append(f"{statement}: internal words: {one_error}")
            if not one_error.help and not one_error.notes:
                messages.append(f"{statement}: no remedy: {one_error}")
    return messages


def test_wrong_calls_have_help() -> None:
    assert faults(_statements(100, 1)) == []


def test_wrong_constants_have_help() -> None:
    """Functions of a group with constants of every kind: no message shows a value in its internal form."""
    calls = ("tile_cholesky(t, {})", "tile_histogram(i, {})")
    assert faults(f"r = tg.{call.format(p)}" for call in calls for p in VALUES) == []


@pytest.mark.parametrize("seed", chunks(range(2, 42)))
def test_many_wrong_calls_have_help(seed: int) -> None:
    assert faults(_statements(500, seed)) == []
