"""Subscripts with tiles of indices, masks and None, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

READS = {
    "rows": "t[k]",
    "columns": "t[:, k]",
    "pairs": "t[k, k % 3]",
    "table": "t[square]",
    "columns of a part": "t[1:4, square]",
    "after an index": "t[2, k]",
    "before an index": "t[k, 1]",
    "a column of pairs": "t[k[:, None], k % 3]",
    "a new axis in front": "t[None, 1]",
    "a new axis at the end": "t[:, 2, None]",
    "an outer product": "t[0, :, None] * t[1, None, :]",
    "around a gather": "t[None, k, None, 0:2]",
    "with an ellipsis": "t[..., None]",
    "an array by rows": "a[k, 0:3]",
    "an array by every other column": "a[1:4, k % 3]",
    "an array by pairs": "a[k, k % 3]",
    "an array at an index": "a[n, k % 3]",
    "an array by a table": "a[square, 1:2]",
}
WRITES = {
    "rows": "t[k] = s[k] * 2.0",
    "columns": "t[:, k % 3] = s[:, k]",
    "pairs": "t[k, k % 3] = 7.0",
    "a row": "t[k] = s[0]",
    "a part": "t[1:5, k % 2] = 1.0",
    "repeated": "t[k * 0 + 2] = s[k]",
    "by a table": "t[square % 2, 1] = t[square, 0]",
    "added": "t[k] += s[k]",
    "repeatedly added": "t[k * 0, k % 2] += 1.0",
    "subtracted": "t[:, k % 3] -= s[:, k]",
    "multiplied": "t[k] *= 2.0",
    "under a mask": "t[t > 0.0] = -1.0",
    "selected": "t[t > 0.0] = s",
    "rows of a mask": "t[t[:, 0] > 0.0] = 3.0",
    "added under a mask": "t[t > s] += 1.0",
    "an array by rows": "b[k, 0:3] = s[k, 0:3]",
    "an array by whole rows": "b[k] = s[k]",
    "an array by rows without bounds": "b[k, :] = s[k]",
    "an array by columns without bounds": "b[:, k % 3] += s[:, k]",
    "an array by pairs": "b[k, k % 3] = 5.0",
    "an array added": "b[k, k * 0 + 1] += 1.0",
    "an array subtracted": "b[k * 0, 0:2] -= s[k, 0:2]",
    "an array multiplied": "b[k, 0:4] *= 2.0",
}
TEXT = """def kernel(a: tg.array2d[float], b: tg.array2d[float], at: tg.array1d[int], table: tg.array2d[int],
           y: tg.array{rank}d[float], n: int):
    t, s = tg.tile_load(a, shape=(6, 4)), tg.tile_load(b, shape=(6, 4))
    k, square = tg.tile_load(at, shape=4), tg.tile_load(table, shape=(2, 2))
    {line}
    tg.tile_store(y, {value})
"""
ROWS = {0: [1, 0, 3, 2], 1: [3, 3, 0, 1]}


def arguments(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(-8, 9, (6, 4)).astype(np.float32) for _ in range(2))
    return {
        "a": a,
        "b": b,
        "k": np.array(ROWS[seed], np.int32),
        "square": np.array([[2, 0], [3, 3]], np.int32),
    }


def run_assignment(
    line: str, value: str, inputs: dict[str, Any], shape: tuple[int, ...], block: int
) -> list[np.ndarray]:
    text, names = TEXT.format(line=line, value=value, rank=len(shape)), dict[str, Any](tg=tg)
    exec(text, names)
    args = [tg.array(x) for x in inputs.values()]
    return agree(tg.kernel(source=text)(names["kernel"]), [*args, tg.zeros(shape), 1], 1, block, tiled=True)


def assign_in_numpy(line: str, names: dict[str, Any]) -> None:
    """Run an assignment in NumPy. `+=` adds every value to an element, also for repeated indices."""
    for op, ufunc in (("+=", np.add), ("-=", np.subtract)):
        if op in line and "> " not in line.split(op)[0]:
            target, value = line.split(op)
            name, index = target.strip()[:-1].split("[", 1)
            position, x = eval(f"np.index_exp[{index}]", names), eval(value, names)
            ufunc.at(names[name], position, x)
            return
    if line == WRITES["selected"]:
        line = "t[t > 0.0] = s[t > 0.0]"
    exec(line, names)


@pytest.mark.parametrize("name", READS)
def test_reads_by_subscripts_match_numpy(name: str) -> None:
    inputs = arguments(0)
    names = {**inputs, "t": inputs["a"], "s": inputs["b"], "n": 1, "np": np}
    expected = eval(READS[name], names)
    actual = run_assignment("u = " + READS[name], "u", inputs, expected.shape, 32)[-1]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("seed", ROWS)
def test_writes_by_subscripts_match_numpy(name: str, seed: int) -> None:
    inputs = arguments(seed)
    names = {**{k: v.copy() for k, v in inputs.items()}, "n": 1, "np": np}
    names |= {"t": names["a"].copy(), "s": names["b"].copy()}
    repeats = len(set(ROWS[seed])) < 4
    if repeats and WRITES[name].startswith("b[k") and "+=" not in WRITES[name]:
        inputs["k"] = names["k"] = np.array(
            [1, 0, 3, 2], np.int32
        )  # the order of several writes is not specified
    assign_in_numpy(WRITES[name], names)
    _, b, _, _, t = run_assignment(WRITES[name], "t", inputs, (6, 4), 7 if seed else 32)
    np.testing.assert_array_equal(t, names["t"])
    np.testing.assert_array_equal(b, names["b"])


def test_subscripts_out_of_bounds_count_from_the_end_of_tiles() -> None:
    """Negative indices count from the end of a tile, but are out of bounds in an array."""
    inputs = arguments(0)
    inputs["k"] = np.array([-1, 6, -7, 5], np.int32)
    a = inputs["a"]
    (*_, actual) = run_assignment("u = t[k]", "u", inputs, (4, 4), 32)
    np.testing.assert_array_equal(actual, [a[5], a[0] * 0, a[0] * 0, a[5]])
    (*_, actual) = run_assignment("u = a[k, 0:4]", "u", inputs, (4, 4), 32)
    np.testing.assert_array_equal(actual, [a[0] * 0, a[0] * 0, a[0] * 0, a[5]])
    (*_, actual) = run_assignment("t[k] = 99.0", "t", inputs, (6, 4), 32)
    np.testing.assert_array_equal(actual, [*a[:5], [99.0] * 4])
    _, b, *_ = run_assignment("b[k, 0:4] += 1.0", "t", inputs, (6, 4), 32)
    np.testing.assert_array_equal(b - inputs["b"], [[0.0] * 4] * 5 + [[1.0] * 4])


@tg.kernel
def many_subscripts(indices: tg.array1d[int], y: tg.array1d[int]):
    t = tg.tile_zeros(700, dtype=int)
    k = tg.tile_load(indices, shape=500)
    t[k] = tg.tile_arange(500, dtype=int)
    tg.tile_store(y, t)


def test_the_last_write_by_a_repeated_subscript_wins() -> None:
    indices = np.random.default_rng(0).integers(0, 700, 500).astype(np.int32)
    expected = np.zeros(700, np.int32)
    expected[indices] = np.arange(500)
    _, actual = agree(many_subscripts, [tg.array(indices), tg.zeros(700, dtype=int)], 1, 64, tiled=True)
    np.testing.assert_array_equal(actual, expected)
