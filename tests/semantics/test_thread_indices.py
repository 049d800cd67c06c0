"""The thread index is the same everywhere in a kernel: in branches, loops, functions, roles and after returns."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from agreement import agree, interpret

import tegula as tg

pytestmark = pytest.mark.machine_code

CONSTRUCTS = {
    "if": ["if n > {k}:"],
    "else": ["if n < -{k}:", "    o[0, 0] = 99", "else:"],
    "for": ["for a{k} in range(n):"],
    "unrolled": ["for b{k} in (1, 2):"],
    "while": ["c{k} = n", "while c{k} > 0:", "    c{k} -= 1"],
    "after return": ["if o[row, 0] < 0:", "    return", "if n >= 0:"],
    "after break": ["for d{k} in range(5):", "    if d{k} == n:", "        break"],
    "lanes": ["if o[row, tg.tid()] < 4:"],
}
"""The constructs around a statement; k distinguishes the names in nested constructs."""
ROW = 24


class Index(int):
    """The result of `tg.tid()` in Python: the first component, or one component for each unpacked name."""

    parts: tuple[int, ...]

    def __iter__(self) -> Iterator[int]:
        return iter(self.parts)


def functions(positions: Sequence[Sequence[str]], names: int) -> list[str]:
    """A function for each path of constructs; each function increments elements of one row of o."""
    indices = "i" if names == 1 else "i, j"
    index = "i" if names == 1 else "i * 8 + j"
    out: list[str] = []
    for row, construct_path in enumerate(positions):
        lines, indent = [f"def f{row}(o: tg.array2d[int], row: int, n: int):"], "    "
        for k, kind in enumerate(construct_path):
            lines += [indent + line.format(k=k) for line in CONSTRUCTS[kind]]
            indent += "    "
        lines += [f"{indent}{indices} = tg.tid()", f"{indent}o[row, {index}] += 1 + tg.tid()"]
        out.append("\n".join(lines) + "\n")
    return out


def compare(positions: Sequence[Sequence[str]], dims: tuple[int, ...], block_dim: int, n: int) -> None:
    """The kernel that calls all functions matches the same text in Python, thread by thread."""
    texts = functions(positions, len(dims))
    calls = "\n".join(f"    f{k}(o, {k}, n)" for k in range(len(positions)))
    kernel = f"def kernel(o: tg.array2d[int], n: int):\n{calls}\n"
    space: dict[str, Any] = {"tg": tg}
    for k, text in enumerate(texts):
        exec(text, space)
        space[f"f{k}"] = tg.func(source=text)(space[f"f{k}"])
    exec(kernel, space)
    o = tg.zeros((len(positions), ROW), dtype=int)
    (actual,) = agree(tg.kernel(source=kernel)(space["kernel"]), [o, n], dims, block_dim)

    thread_index = Index()
    python_names: dict[str, Any] = {"tg": SimpleNamespace(tid=lambda: thread_index, array2d={int: None})}
    exec("".join(texts) + kernel, python_names)
    expected = np.zeros((len(positions), ROW), np.int32)
    for index in itertools.product(*map(range, dims)):
        thread_index = Index(index[0])
        thread_index.parts = index
        python_names["kernel"](expected, n)
    np.testing.assert_array_equal(actual, expected)


CONSTRUCT_PAIRS = list(itertools.product(CONSTRUCTS, repeat=2))


@pytest.mark.parametrize(
    ("dims", "block_dim", "n"),
    [((20,), 8, 2), ((3, 8), 8, 3), ((3, 7), 4, 1)],
    ids=["one dimension", "uniform rows", "partial blocks"],
)
def test_thread_indices_are_evaluated_in_each_expression(
    dims: tuple[int, ...], block_dim: int, n: int
) -> None:
    compare([(kind,) for kind in CONSTRUCTS], dims, block_dim, n)


@pytest.mark.slow
@pytest.mark.parametrize("first", CONSTRUCTS)
@pytest.mark.parametrize(("dims", "block_dim"), [((20,), 8), ((3, 8), 8), ((3, 7), 4)])
def test_thread_indices_are_evaluated_in_nested_expressions(
    first: str, dims: tuple[int, ...], block_dim: int
) -> None:
    compare([pair for pair in CONSTRUCT_PAIRS if pair[0] == first], dims, block_dim, 2)


@tg.kernel
def indices_in_roles(o: tg.array2d[int], n: int):
    with tg.role("one", warp_groups=1):
        for _ in range(n):
            if n > 1:
                i, j = tg.tid()
                o[i, j] += j
    with tg.role("other", warp_groups=1):
        m = n
        while m > 0:
            m -= 1
            i, j = tg.tid()
            o[i, j] += 2 * j


def test_thread_indices_are_evaluated_in_roles() -> None:
    expected = 2 * np.arange(256) * np.where(np.arange(256) < 128, 1, 2)
    for run in (run_in_interpreter, run_on_device):
        assert run().tolist() == [expected.tolist()] * 2


def run_in_interpreter() -> np.ndarray:
    o = tg.zeros((2, 256), dtype=int, device="cpu")
    interpret(indices_in_roles, [o, 2], (2, 256), 256)
    return o.numpy()


def run_on_device() -> np.ndarray:
    o = tg.zeros((2, 256), dtype=int)
    tg.launch(indices_in_roles, (2, 256), inputs=[o, 2], block_dim=256)
    return o.numpy()
