"""Scalar operands of tile functions that differ between threads: thread 0's value is used in the interpreter, in
lowered form and on the device, in whole blocks, partial blocks and roles; and users are warned."""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from agreement import agree, interpret
from lowering import Launch, agrees

import tegula as tg
from support.campaigns import chunks

pytestmark = pytest.mark.machine_code

SHAPES = [((70,), 32), ((64,), 64), ((5, 9), 16), ((3, 32), 32), ((2, 3, 7), 8), ((4, 1), 1), ((33,), 100)]
N = 24
"""Elements of the array that is read."""


def expression(rng: random.Random, names: list[str]) -> str:
    """An index from 0 to 7 of the threads' indices."""
    a, b = rng.choice(names), rng.choice([*names, str(rng.randrange(9))])
    return f"({a} * {rng.randrange(1, 5)} + {b}) % {rng.randrange(2, 9)}"


STEPS = {
    "load": ("t = t + tg.tile_load(x, shape=4, offset={e})", lambda t, x, e: t + x[e : e + 4]),
    "view": ("t = t + tg.tile_load(x[{e}:], shape=4)", lambda t, x, e: t + x[e : e + 4]),
    "times": ("t = t * float({e})", lambda t, x, e: t * e),
    "full": ("t = t + tg.tile_full(4, float({e}))", lambda t, x, e: t + e),
    "map": ("t = tg.tile_map(tg.max, t, float({e}))", lambda t, x, e: np.maximum(t, e)),
    "element": ("v = x[{e}]\n    t = t - v", lambda t, x, e: t - x[e]),
    "loop": ("for q in range(2):\n        t = t + float({e} + q)", lambda t, x, e: t + 2 * e + 1),
    "named": ("w = {e}\n    t = t + tg.tile_load(x, shape=4, offset=w)", lambda t, x, e: t + x[e : e + 4]),
    "conditional": ("if n > 1:\n        t = t + float({e})", lambda t, x, e: t + e),
    "view in a loop": (
        "u = x[{e}:]\n    for q in range(n):\n        t = t + tg.tile_load(u, shape=4)",
        lambda t, x, e: t + 2 * x[e : e + 4],
    ),
    "view in while": (
        "u, q = x[{e}:], n\n    while q > 0:\n        t = t + tg.tile_load(u[1:], shape=4)\n        q = q - 1",
        lambda t, x, e: t + 2 * x[e + 1 : e + 5],
    ),
    "row in a branch": (
        "w = tg.tile_reshape(tg.tile_load(x, shape=32, storage='shared'), shape=(8, 4))\n"
        "    r = w[{e}]\n    if n > 1:\n        t = t + r",
        lambda t, x, e: t + np.pad(x, (0, 8))[4 * e : 4 * e + 4],
    ),
    "row in another shape": (
        "r = tg.tile_reshape(tg.tile_load(x, shape=32, storage='shared'), shape=(8, 2, 2))\n"
        "    t = t + tg.tile_reshape(r[{e}], shape=4)",
        lambda t, x, e: t + np.pad(x, (0, 8))[4 * e : 4 * e + 4],
    ),
    "row of a row": (
        "w = tg.tile_reshape(tg.tile_load(x, shape=32, storage='shared'), shape=(2, 4, 4))\n"
        "    r = w[{e} % 2]\n    for q in range(n):\n        if q == 1:\n            t = t + r[{e} % 4]",
        lambda t, x, e: t + np.pad(x, (0, 8)).reshape(2, 4, 4)[e % 2, e % 4],
    ),
}


def program(rng: random.Random, steps: Sequence[str]) -> tuple[Any, Any, tuple[int, ...], int]:
    """A kernel with the named steps or random steps, the expected result from the indices of thread 0, and a launch."""
    dims, block_dim = rng.choice(SHAPES)
    names = ["i", "j", "k"][: len(dims)]
    steps = steps or rng.choices(list(STEPS), k=rng.randrange(1, 5))
    chosen = [(step, expression(rng, names)) for step in steps]
    first_name = names[0]
    for name, length in zip(names[1:], dims[1:], strict=True):
        first_name = f"({first_name}) * {length} + {name}"
    body = "\n    ".join(STEPS[s][0].format(e=e) for s, e in chosen)
    text = (
        "def kernel(x: tg.array1d[float], y: tg.array1d[float], n: int):\n"
        f"    {', '.join(names)} = tg.tid()\n    t = tg.tile_zeros(shape=4, dtype=float)\n    {body}\n"
        f"    tg.tile_store(y, t, offset=({first_name}) * 4)\n"
    )
    scope: dict[str, Any] = {"tg": tg}
    exec(compile(text, "<group operands>", "exec"), scope)

    def compute(x: np.ndarray, y: np.ndarray) -> None:
        total = int(np.prod(dims))
        for first in range(0, total, block_dim):
            indices = dict(zip(names, map(int, np.unravel_index(first, dims)), strict=True))
            t = np.zeros(4, np.float32)
            for s, e in chosen:
                t = STEPS[s][1](t, x, eval(e, {}, indices)).astype(np.float32)
            y[4 * first : 4 * first + 4] = t

    return tg.kernel(scope["kernel"], source=text), compute, dims, block_dim


def check(seed: int, *steps: str) -> None:
    kernel, compute, dims, block_dim = program(random.Random(seed), steps)
    x = np.random.default_rng(seed).integers(-4, 5, N).astype(np.float32)
    y = np.zeros(4 * int(np.prod(dims)), np.float32)
    args = [tg.array(x), tg.array(y), 2]
    agrees(Launch(kernel, args, dims, block_dim))
    actual = agree(kernel, args, dims, block_dim)[1]
    compute(x, y)
    np.testing.assert_array_equal(actual, y)


@pytest.mark.parametrize("seed", range(2))
def test_group_operands_have_the_value_of_thread_0(seed: int) -> None:
    check(seed)


def test_views_with_varying_indices_in_loops_and_branches_agree() -> None:
    check(0, "view in a loop", "view in while", "row in a branch", "row of a row")


def test_reshapes_in_blocks_with_absent_threads_agree() -> None:
    check(2, "row in another shape")


@pytest.mark.parametrize("chunk", chunks(range(25)))
def test_group_operands_of_many_programs_have_the_value_of_thread_0(chunk: int) -> None:
    for seed in range(100 + 8 * chunk, 108 + 8 * chunk):
        check(seed)


@tg.kernel
def uniform_in_roles(x: tg.array1d[float], y: tg.array1d[float]):
    i, j = tg.tid()
    pipe = tg.tile_pipe(shape=(8,), dtype=float, stages=2)
    with tg.ws(0):
        tg.tile_pipe_load(pipe, x, offset=j % 7)
    with tg.ws(1):
        t = tg.tile_pipe_pop(pipe)
        tg.tile_store(y, t * float(tg.group_lane() + 2), offset=(j % 5) * 8 + tg.group_lane())


@pytest.mark.slow
def test_group_operands_of_a_role_have_the_value_of_its_first_thread() -> None:
    """Thread 0 of a role is the role's first thread."""
    x, y = tg.array(np.arange(24, dtype=np.float32)), tg.zeros(64)
    agree(uniform_in_roles, [x, y], (1, 256), 256)


@tg.kernel
def shifted(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    t = tg.tile_load(x, shape=4, offset=i)
    tg.tile_store(y[i:], t * float(i // 64))
    print(t, i)


@pytest.mark.cpu
def test_explain_and_debug_mode_warn_of_varying_group_operands(capsys: pytest.CaptureFixture[str]) -> None:
    """`explain()` lists operands that may differ; debug mode warns once per line of operands that do, and the kernel
    continues."""
    x, y = tg.array(np.arange(64, dtype=np.float32)), tg.zeros(64)
    tg.launch(shifted, dim=40, block_dim=64, inputs=[x, y])
    lines = shifted.explain().splitlines()
    position = lines.index("these operands may differ between threads of a block; thread 0's value is used:")
    first = shifted.definition.function.__code__.co_firstlineno + 1
    assert lines[position + 1 : position + 4] == [
        f"  the offset i of tile_load (line {first + 2})",
        f"  an index of a view (line {first + 3})",
        f"  the value of '*' (line {first + 3})",
    ]
    assert not lines[position + 4].startswith("  ")
    tg.config.mode = "debug"
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tg.launch(shifted, dim=40, block_dim=64, inputs=[x, y])
        with warnings.catch_warnings(record=True) as in_the_interpreter:
            warnings.simplefilter("always")
            print(*interpret(shifted, [x, y], (40,), 64, debug=True), sep="\n")
    finally:
        tg.config.mode = "release"
    for recorded in (caught, in_the_interpreter):
        operands = [(w.lineno - first, str(w.message).split(" differs")[0]) for w in recorded]
        assert sorted(operands) == [(2, "the offset i of tile_load"), (3, "an index of a view")]
        assert all(w.category is tg.DifferingOperand and w.filename == __file__ for w in recorded)
    np.testing.assert_array_equal(y.numpy()[:4], 0.0)
    assert capsys.readouterr().out.count("\n") == 3
