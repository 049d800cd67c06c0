"""Vectors of 8 and 16 components that loops carry and branches yield: vector registers where ops compute the whole
vector, components where they change one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code
FLOATS, INTEGERS = tg.vector(8, float), tg.vector(16, int)


@tg.kernel
def carried_totals(a: tg.array[FLOATS], out: tg.array[FLOATS], n: int):
    t = tg.tid()
    total, largest = FLOATS(), a[t]
    for i in range(t, n):
        total += a[i]
        if a[i][0] > 0.5:
            largest = total
        else:
            largest = FLOATS(1.0)
    i = t
    while i < n and total[1] < 1000.0:
        total = total + largest
        i += 1
    out[2 * t], out[2 * t + 1] = total, largest


@tg.kernel
def changed_components(a: tg.array[INTEGERS], out: tg.array[INTEGERS], n: int):
    t = tg.tid()
    last, mixed = INTEGERS(), INTEGERS(3)
    for i in range(n):
        # The next value of `last` is read in a register, the next value of `mixed` has a changed component.
        mixed = mixed + last
        mixed[(i + t) % 16] = i
        last = a[i]
        for k in range(2):
            last[k] = last[k] + mixed[5]
    out[2 * t], out[2 * t + 1] = last, mixed


def numpy_result(a: np.ndarray, t: int) -> list[np.ndarray]:
    total, largest = np.zeros(8, np.float32), a[t]
    for row in a[t:]:
        total = total + row
        largest = total if row[0] > 0.5 else np.ones(8, np.float32)
    for _ in a[t:]:
        total = total + largest if total[1] < 1000.0 else total
    return [total, largest]


def test_whole_vectors_stay_in_vector_registers() -> None:
    a = np.random.default_rng(0).random((9, 8)).astype(np.float32)
    out = tg.zeros(6, dtype=FLOATS)
    tg.launch(carried_totals, 3, [tg.array(a, dtype=FLOATS), out, len(a)])
    np.testing.assert_array_equal(out.numpy(), np.concatenate([numpy_result(a, t) for t in range(3)]))
    text = carried_totals.llvm()
    assert text.count("phi <8 x float>") >= 3 and "phi float" not in text


def test_vectors_with_changed_components_are_correct() -> None:
    a = np.random.default_rng(1).integers(0, 99, (5, 16)).astype(np.int32)
    out = tg.zeros(4, dtype=INTEGERS)
    tg.launch(changed_components, 2, [tg.array(a, dtype=INTEGERS), out, len(a)])
    expected: list[Any] = []
    for t in range(2):
        last, mixed = np.zeros(16, np.int32), np.full(16, 3, np.int32)
        for i, row in enumerate(a):
            mixed = mixed + last
            mixed[(i + t) % 16] = i
            last = row.copy()
            last[:2] += mixed[5]
        expected += [last, mixed]
    np.testing.assert_array_equal(out.numpy(), expected)


@tg.kernel
def selected_vectors(a: tg.array[FLOATS], out: tg.array[FLOATS]):
    t = tg.tid()
    x, y = a[t], a[t + 1]
    mixed = FLOATS(x[0], y[0], x[1], y[1], x[4], y[4], 7.0, y[5])
    out[t] = tg.where(x[2] < y[2], mixed, FLOATS(2.0))


def test_vectors_made_of_components_of_vector_registers_are_vector_registers() -> None:
    a = np.random.default_rng(2).random((9, 8)).astype(np.float32)
    out = tg.zeros(8, dtype=FLOATS)
    tg.launch(selected_vectors, 8, [tg.array(a, dtype=FLOATS), out])
    x, y = a[:-1], a[1:]
    expected = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1], x[:, 4], y[:, 4], np.full(8, 7), y[:, 5]], 1)
    np.testing.assert_array_equal(out.numpy(), np.where(x[:, 2:3] < y[:, 2:3], expected, 2))
    assert "float %" not in "".join(line for line in selected_vectors.llvm().splitlines() if "select" in line)
