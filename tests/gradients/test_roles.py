"""Kernels with roles are differentiated like the same kernels without roles.

The data are small integers, so sums are exact in any order, and so are the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.role_kernels import matmul, persistent, pipeline_of_three_roles


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(np.float64)


def gradient_array(data: np.ndarray) -> Any:
    return tg.array(data, dtype=tg.float32, requires_grad=True)


def adjoint_ir(kernel: Any, grid: Any, inputs: list[Any], output: Any, g: np.ndarray) -> str:
    """Run a kernel on a tape and its adjoint. Returns the IR of the adjoint."""
    with tg.Tape() as tape:
        tg.launch_tiled(kernel, dim=grid, inputs=inputs, outputs=[output])
    tape.backward(grads={output: g})
    (adjoint,) = kernel.adjoints.values()
    return adjoint.ir()


@pytest.mark.machine_code
@pytest.mark.parametrize("grid", [1, 3, 200])
def test_gradients_of_persistent_matmuls_with_roles_are_correct(grid: int) -> None:
    a, b, g = integers(100, 40), integers(40, 90), integers(100, 90)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((100, 90), requires_grad=True)
    text = adjoint_ir(persistent, grid, [5, x, y], c, g)
    np.testing.assert_array_equal(c.numpy(), 2.0 * a @ b)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * g @ b.T)
    np.testing.assert_array_equal(y.grad.numpy(), 2.0 * a.T @ g)
    assert "atomic" not in text and "pipe" not in text and "block.index" not in text


@pytest.mark.machine_code
@pytest.mark.parametrize("n", [0, 1, 2, 3, 7])
def test_gradients_of_matmuls_with_roles_are_correct(n: int) -> None:
    a, b, g = integers(32, 8 * n), integers(8 * n, 48), integers(32, 48)
    x, y, c = gradient_array(a), gradient_array(b), tg.zeros((32, 48), requires_grad=True)
    text = adjoint_ir(matmul, (2, 3), [n, x, y], c, g)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * g @ b.T)
    np.testing.assert_array_equal(y.grad.numpy(), 2.0 * a.T @ g)
    assert "atomic" not in text and "pipe" not in text


@pytest.mark.machine_code
def test_gradients_of_chains_of_roles_are_correct() -> None:
    x, w, g = integers(5, 24), integers(8), integers(5, 24)
    a, s, y = gradient_array(x), gradient_array(w), tg.zeros((5, 24), requires_grad=True)
    adjoint_ir(pipeline_of_three_roles, 5, [a, s], y, g)
    np.testing.assert_array_equal(y.numpy(), x * x * np.tile(w, 3))
    np.testing.assert_array_equal(a.grad.numpy(), 2.0 * x * np.tile(w, 3) * g)
    np.testing.assert_array_equal(s.grad.numpy(), (x * x * g).reshape(5, 3, 8).sum((0, 1)))


@tg.kernel
def triangular(a: tg.array2d[float], y: tg.array2d[float]):
    i = tg.tid()
    pipe = tg.tile_pipe(shape=8, dtype=float, stages=2)
    with tg.role("fetch", warps=1):
        for k in range(i + 1):
            tg.tile_pipe_load(pipe, a[i], offset=k * 8)
    with tg.role("add", warps=1):
        total = tg.tile_zeros(shape=8)
        for _k in range(i + 1):
            t = tg.copy(tg.tile_pipe_pop(pipe))
            total = total + t * t
        tg.tile_store(y[i], total)


@pytest.mark.machine_code
def test_gradients_of_roles_whose_loops_depend_on_the_block_are_correct() -> None:
    a, g = integers(4, 24), integers(4, 8)
    x, y = gradient_array(a), tg.zeros((4, 8), requires_grad=True)
    adjoint_ir(triangular, 4, [x], y, g)
    lower_triangle = np.tril(np.ones((4, 3))).repeat(8, 1)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * a * lower_triangle * np.tile(g, 3))


@tg.kernel
def shifted_ranges(n: int, a: tg.array[float], y: tg.array[float]):
    """The ranges of the loops have the same length and different starts."""
    pipe = tg.tile_pipe(shape=8, dtype=float, stages=2)
    with tg.role("fetch", warps=1):
        for k in range(2, n + 2):
            tg.tile_pipe_load(pipe, a, offset=k * 8 - 16)
    with tg.role("store", warps=1):
        for k in range(-1, n - 1):
            x = tg.tile_pipe_pop(pipe)
            tg.tile_store(y, x * x * float(k), offset=k * 8 + 8)


@pytest.mark.machine_code
@pytest.mark.parametrize("n", [0, 1, 5])
def test_gradients_of_roles_with_shifted_ranges_are_correct(n: int) -> None:
    a, g = integers(40), integers(40, seed=1)
    x, y = gradient_array(a), tg.zeros(40, requires_grad=True)
    adjoint_ir(shifted_ranges, 1, [n, x], y, g)
    factor = (np.arange(40) // 8 - 1) * (np.arange(40) < 8 * n)
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * a * g * factor)


@tg.kernel
def strided_range(a: tg.array[float], y: tg.array[float]):
    """The ranges of the loops differ, although the number of tiles is the same."""
    pipe = tg.tile_pipe(shape=8, dtype=float, stages=2)
    with tg.role("fetch", warps=1):
        for k in range(3):
            tg.tile_pipe_load(pipe, a, offset=k * 8)
    with tg.role("store", warps=1):
        for k in range(0, 24, 8):
            tg.tile_store(y, tg.tile_pipe_pop(pipe), offset=k)


@tg.kernel
def order_dependent(a: tg.array2d[float], y: tg.array2d[float]):
    """The result depends on the order of the tiles."""
    with tg.role("store", warps=1):
        total = tg.tile_zeros(shape=(8, 8))
        for i, j in tg.persistent_tiles((2, 2)):
            total = total + tg.tile_load(a, shape=(8, 8), offset=(i * 8, j * 8))
            tg.tile_store(y, total, offset=(i * 8, j * 8))


@pytest.mark.parametrize(
    "kernel, shape, message",
    [(strided_range, 24, "ranges"), (order_dependent, (16, 16), "carries values between")],
)
def test_gradients_of_roles_that_cannot_be_merged_are_refused(kernel: Any, shape: Any, message: str) -> None:
    x, y = (tg.zeros(shape, requires_grad=True) for _ in range(2))
    with pytest.raises(tg.CompileError, match=message):
        tg.launch_tiled(kernel, 1, inputs=[x], outputs=[y], adjoint=True)
