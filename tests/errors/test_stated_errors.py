"""The docstrings of kernel functions state all errors of their calls: tested with operands of all kinds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

import tegula as tg
from support.campaigns import chunks
from support.pruned_bodies import needed_statements
from tegula.api import lookup
from tegula.ir import LaunchClass
from tegula.ops import PUBLIC
from tegula.ops.documented import documentation, split
from tegula.runtime.library import documentation as of_library
from tegula.runtime.library import library
from tegula.types import ArrayType, float32

BODY = """
def k(a: tg.array2d[float], b: tg.array1d[float]):
    t = tg.tile_load(a, shape=(4, 4))
    i = tg.tile_arange(4, dtype=int)
    mask = t > 0.0
    row = t[0]
    five = tg.tile_zeros(5)
    shared = tg.tile_empty((4, 4), storage="shared")
    v, m, n = tg.vec3(1.0, 2.0, 3.0), tg.mat33(1.0), tg.tid()
    x, d, u = b[n], tg.float64(1.0), tg.uint8(3)
    stack = tg.tile_stack(8, int)
    def f(p): return p
    {statement}
"""
VALUES = (
    *("t", "i", "mask", "row", "five", "shared", "t.T", "i[0]", "i > 1", "v", "m", "n", "x", "d", "u"),
    *("stack", "a", "b", "f", "(1)", "7", "300", "2.0", "0", "(-1)", "(-5)", "True", "'text'", "None"),
    *("(1, 2)", "(4, 4)", "()", "(t, t)", "slice(0, 2)", "(10**40)", "1e300", "100000000"),
    *("float", "tg.float64", "tg.vec3", "tg.sin", "tg.add", "tg", 'float("nan")'),
    *("tg.mbarrier(1)", "tg.named_barrier(2)", "tg.tile_pipe((4, 4))"),
)
ANY_CALL = {"wrong-arguments", "role-placement", "divergent-cooperative-op", "pipe-ends"}
"""Errors that any call can raise according to CONTRIBUTING.md, and errors of the operands themselves."""


@cache
def documented_codes() -> dict[str, tuple[frozenset[str], bool]]:
    """For each function the codes that its docstring states, and whether it returns a value."""
    result: dict[str, tuple[frozenset[str], bool]] = {}
    for name in sorted(n for n in (*PUBLIC, *library()) if not n.startswith("_") and n not in result):
        text = documentation(name) if name in PUBLIC else of_library(library()[name])
        _, sections = split(text)
        codes = frozenset(entry.partition(":")[0] for entry in sections["Raises"])
        result[name] = codes, "Returns" in sections
    return result


def _calls(name: str, count: int, random: Random) -> Iterator[str]:
    parameters = lookup(name).__signature__.parameters.values()
    for _ in range(count):
        arguments: list[str] = []
        for p in parameters:
            several = random.randint(0, 4) if p.kind is p.VAR_POSITIONAL else 1
            arguments += random.choices(VALUES, k=several) if p.kind is not p.KEYWORD_ONLY else []
        call = f"tg.{name}({', '.join(arguments)})"
        yield f"r = {call}" if documented_codes()[name][1] else call


def _raised(statement: str) -> Iterator[tg.CompileError]:
    names = {"tg": tg}
    text = needed_statements(BODY.format(statement=statement))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(text, names)
    types = [ArrayType(float32, 2), ArrayType(float32, 1)]
    kernel = tg.kernel(source=text)(names["k"])
    try:
        kernel.trace(types, LaunchClass(1, 64, (False,), False, False), (), library())
    except tg.CompileError as error:
        yield from getattr(error, "errors", [error])


def undocumented_errors(count: int, seed: int) -> list[str]:
    """The errors of `count` calls of each function that the docstring of the function does not state."""
    random = Random(seed)
    return [
        f"{statement}: {error.CODE}: {error.message}"
        for name, (codes, _) in documented_codes().items()
        for statement in _calls(name, count, random)
        for error in _raised(statement)
        if error.CODE not in codes | ANY_CALL
    ]


@pytest.mark.parametrize("seed", chunks(range(2, 102)))
def test_docstrings_state_the_errors_of_many_calls(seed: int) -> None:
    assert undocumented_errors(4, seed) == []
