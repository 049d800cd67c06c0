"""Named expressions, lambdas and thread-local arrays match NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg
from tegula.errors import CompileError


@tg.func
def apply_twice(f, x):
    return f(x) + f(x, by=0.5)


@tg.kernel
def named_expressions(a: tg.array[float], out: tg.array2d[float]):
    i = tg.tid()
    if (x := a[i]) > 0.0:
        out[i, 0] = x
    elif (y := x * x) > 1.0:
        out[i, 0] = y
    total, k = 0.0, 0
    while (k := k + 1) < 5 and total < 3.0:
        total += tg.abs(x) + (step := 0.25) * step
        if total > 2.0:
            continue
    out[i, 1] = total
    out[i, 2] = float(k)
    out[i, 3] = (z := x + 1.0) * z
    out[i, 4] = apply_twice(lambda value, by=2.0: (scaled := value * by) + scaled, x)


@pytest.mark.machine_code
def test_expressions_that_bind_names_match_numpy() -> None:
    a = np.array([0.5, -0.25, -2.0, 3.0], np.float32)
    _, out = agree(named_expressions, [tg.array(a), tg.zeros((4, 5))], 4, 32)
    for x, row in zip(a.astype(np.float64), out, strict=True):
        total, k = 0.0, 0
        while (k := k + 1) < 5 and total < 3.0:
            total += abs(x) + 0.0625
        first = x if x > 0 else x * x if x * x > 1 else 0.0
        np.testing.assert_allclose(row, [first, total, k, (x + 1) ** 2, 5 * x], rtol=1e-6)


REFUSED = {
    "if a[0] > 0.0 and (x := a[1]) > 0.0:\n        a[2] = x": "':=' binds 'x' in an operand of 'and'",
    "a[0] = a[1] if a[2] > 0.0 else (x := a[3])": "which may not be evaluated",
    "x = tg.zeros((2, 2, 2), dtype=float)": "one or two dimensions of scalars, or one of vectors",
    "x = tg.zeros(2, dtype=tg.quat)": "one or two dimensions of scalars, or one of vectors",
    "x = tg.zeros(int(a[0]), dtype=float)": "must be a compile-time constant",
    "t = tg.tile_load(a, 4)\n    u = tg.tile_matmul(t, t, dtype=tg.vec3)": "dtype of a matmul must be a scalar type",
    "t = tg.tile_zeros((2, 2))\n    tg.tile_matmul(t, t, t, dtype=float)": "has the dtype of the tile",
    "t = tg.tile_where(True, 1.0, 2.0)": "expected a tile",
}


@pytest.mark.parametrize("text", REFUSED)
def test_invalid_expressions_are_refused(text: str) -> None:
    source = f"def kernel(a: tg.array[float]):\n    {text}\n"
    names = dict[str, Any](tg=tg)
    exec(source, names)
    with pytest.raises(CompileError) as raised:
        tg.launch_tiled(tg.kernel(source=source)(names["kernel"]), 1, inputs=[tg.zeros(4)], block_dim=32)
    assert REFUSED[text] in str(raised.value)


@tg.func
def count_in_bin(values: tg.InOut[tg.types.vector(5, int)], k: int):
    values[k % 5] += k
    return values[0]


@tg.kernel
def thread_arrays(a: tg.array2d[float], out: tg.array2d[float], n: int):
    i = tg.tid()
    line = tg.zeros(8, dtype=float)
    square = tg.zeros(shape=(2, 3), dtype=float)
    points = tg.zeros(4, dtype=tg.vec3)
    bins = tg.zeros(shape=(5,), dtype=int)
    first = 0
    for k in range(n):
        line[(k * 3) % 8] = a[i, k] * a[i, k]
        square[k % 2, k % 3] += a[i, k]
        points[k % 4] += tg.vec3(a[i, k], float(k), 1.0)
        first = count_in_bin(bins, k)
    values = line
    for k in range(n):
        line[k] = line[n - 1 - k] * a[i, k]
    for k in range(n):
        out[i, 0] += line[k] * float(k)
    out[i, 1] = values[n - 2] + float(len(line) + square.shape[1] + first + bins[n - 4])
    out[i, 2] = square[1, 2] + points[n - 5].y * points[2].x
    out[i, 3] = float(a.size) + line.dtype(0.5)


@pytest.mark.machine_code
def test_arrays_of_a_thread_match_numpy() -> None:
    a = np.random.default_rng(2).integers(-3, 4, (3, 8)).astype(np.float32)
    _, out = agree(thread_arrays, [tg.array(a), tg.zeros((3, 4)), 8], 3, 32)
    for x, row in zip(a.astype(np.float64), out, strict=True):
        line, square, points, bins = np.zeros(8), np.zeros((2, 3)), np.zeros((4, 3)), np.zeros(5)
        for k in range(8):
            line[k * 3 % 8] = x[k] ** 2
            square[k % 2, k % 3] += x[k]
            points[k % 4] += [x[k], k, 1]
            bins[k % 5] += k
        copied_line = line.copy()
        for k in range(8):
            line[k] = line[7 - k] * x[k]
        expected = [
            line @ np.arange(8),
            copied_line[6] + 8 + 3 + bins[0] + bins[4],
            square[1, 2] + points[3, 1] * points[2, 0],
            24.5,
        ]
        np.testing.assert_array_equal(row, expected)


@pytest.mark.machine_code
def test_gradients_through_arrays_of_a_thread_are_correct() -> None:
    a = np.random.default_rng(5).standard_normal((1, 8))
    out = tg.zeros((1, 4), requires_grad=True)
    inputs = tg.array(a, dtype=float, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(thread_arrays, 1, inputs=[inputs, out, 8])
    seed = tg.zeros((1, 4))
    seed[:1, :1].fill_(1.0)
    tape.backward(grads={out: seed})

    def reference(x: np.ndarray) -> float:
        line = np.zeros(8)
        for k in range(8):
            line[k * 3 % 8] = x[k] ** 2
        for k in range(8):
            line[k] = line[7 - k] * x[k]
        return line @ np.arange(8)

    steps = 1e-6 * np.eye(8)
    expected = [(reference(a[0] + d) - reference(a[0] - d)) / 2e-6 for d in steps]
    assert inputs.grad is not None
    np.testing.assert_allclose(inputs.grad.numpy()[0], expected, rtol=1e-4, atol=1e-4)


@tg.func
def fill(a: tg.array[float], x: float):
    for k in range(a.shape[0]):
        a[k] = x * float(k)


@tg.func
def increment_last(a):
    a[a.shape[0] - 1] += 1.0


@tg.func
def increment_repeatedly(a, count: int):
    for _ in range(count):
        increment_last(a)


@tg.func
def fill_with_indices(a: tg.array2d[int]):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            a[i][j] = i * a.shape[1] + j


@tg.func
def increment_first(a):
    a[0] = a[0] + 1.0
    return a[0]


@tg.func
def new_array(n: tg.constexpr, x: float):
    a = tg.zeros(n, dtype=float)
    fill(a, x)
    return a


@tg.kernel
def modify_thread_arrays(x: tg.array[float], out: tg.array2d[float], count: int):
    i = tg.tid()
    line, square, copied = tg.zeros(4, dtype=float), tg.zeros((2, 3), dtype=int), tg.vec4(0.0)
    if x[i] > 0.0:
        fill(line, x[i])
    values = line
    for _ in range(count):
        increment_repeatedly(a=line, count=2)
        increment_last(copied)
    fill_with_indices(square)
    while increment_first(line) < 3.0:
        out[i, 3] += 1.0
    out[i, 0] = line[3]
    out[i, 1] = values[3] + copied[3]
    out[i, 2] = float(square[1, 2]) + new_array(3, x[i])[2]


@pytest.mark.machine_code
def test_functions_change_arrays_of_a_thread() -> None:
    """Functions modify the array of the caller, also in loops and branches; they do not modify a copy, or a vector,
    which is a value."""
    x = np.array([0.5, -1.5, 2.0], np.float32)
    _, out = agree(modify_thread_arrays, [tg.array(x), tg.zeros((3, 4)), 3], 3, 32)
    filled = np.where(x > 0, 3 * x, 0)
    np.testing.assert_array_equal(out, np.stack([filled + 6, filled, 5 + 2 * x, np.full(3, 2)], axis=1))


@pytest.mark.machine_code
def test_gradients_of_functions_that_change_arrays_of_a_thread_are_correct() -> None:
    x = tg.array([0.5, -1.5, 2.0], requires_grad=True)
    out = tg.zeros((3, 4), requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(modify_thread_arrays, 3, inputs=[x, out, 3])
    tape.backward(grads={out: tg.ones_like(out)})
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [8.0, 2.0, 8.0]


@tg.kernel
def normal_tile(out: tg.array2d[float], seed: int):
    tg.tile_store(out, tg.tile_randn((40, 50), tg.rand_init(seed)))


@pytest.mark.machine_code
def test_random_normal_tiles_have_mean_and_variance() -> None:
    (out,) = agree(normal_tile, [tg.zeros((40, 50)), 42], 1, 64, tiled=True)
    states = (tg.rand_init(42) + np.arange(2000)) & 0xFFFFFFFF
    expected = [tg.randn(tg.rand_init(int(s) - 2**32 * (s >= 2**31))) for s in states[:5]]
    np.testing.assert_array_equal(out.ravel()[:5], np.array(expected, np.float32))
    assert abs(out.mean()) < 0.1 and abs(out.std() - 1) < 0.1


@tg.kernel
def one_element_tiles(a: tg.array2d[float], out: tg.array[float]):
    t = tg.tile_load(a, (2, 4))
    total = t.sum()
    out[0] = total
    if total > 4.0 and not (t < 0.0).any():
        out[1] = tg.tile_sum(t * t, axis=(0, 1), keepdims=True)
    steps = 0
    while t.max() > 1.0:
        t -= 1.0
        steps += 1
    out[2] = float(steps) if t.sum() < 0.0 else 100.0
    part = tg.tile_zeros(2)
    part[1] = total * 2.0
    out[3] = part[1] + tg.matrix(pos=tg.vec3(1.0), rot=tg.quat_identity(), scale=tg.vec3(2.0))[2, 3]


@pytest.mark.machine_code
def test_a_tile_of_one_element_is_a_number() -> None:
    a = np.array([[0, 1, 2, 3], [0, 2, 0, 1]], np.float32)
    _, out = agree(one_element_tiles, [tg.array(a), tg.zeros(4)], 1, 32, tiled=True)
    np.testing.assert_array_equal(out, [9, 19, 2, 19])
    array, input_array = tg.array(a, requires_grad=True), tg.zeros(4, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(one_element_tiles, 1, inputs=[array, input_array], block_dim=32)
    tape.backward(grads={input_array: tg.array([0.0, 1.0, 0.0, 1.0])})
    assert array.grad is not None
    np.testing.assert_array_equal(array.grad.numpy(), 2 * a + 2)
