"""16-bit gradients that are sums of thousands of terms, of iterations, lanes and blocks, are rounded once. A sum of
ones that is rounded after each addition stops growing at 256 or 2048."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula import kernels

pytestmark = pytest.mark.machine_code

ROWS, COLUMNS = 4096, 8
VECTOR_TYPES = {tg.bfloat16: tg.types.vector(2, tg.bfloat16), tg.float16: tg.types.vector(2, tg.float16)}


@cache
def forms(dt: Any) -> dict[str, tuple[tg.Kernel, tuple[int, ...], int]]:
    """Kernels that compute y = x + w for each row, with their grids and threads per block; `w` has more elements than a
    row."""
    vec = VECTOR_TYPES[dt]

    @tg.kernel
    def lanes(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        i, j = tg.tid()
        y[i, j] = x[i, j] + w[j]

    @tg.kernel
    def tiles(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        i, _ = tg.tid()
        tg.tile_store(y[i], tg.tile_load(x[i], shape=8) + tg.tile_load(w, shape=8))

    @tg.kernel
    def iterations_of_lanes(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        j = tg.tid()
        for i in range(x.shape[0]):
            y[i, j] = x[i, j] + w[j]

    @tg.kernel
    def iterations_of_tiles(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        for i in range(x.shape[0]):
            tg.tile_store(y[i], tg.tile_load(x[i], shape=8) + tg.tile_load(w, shape=8))

    @tg.kernel
    def updates_of_lanes(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        i, j = tg.tid()
        y[i, j] = x[i, j] + w[j]
        if i == 0:
            w[8 + j] = w[8 + j] + w[8 + j]

    @tg.kernel
    def updates_of_tiles(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        i, _ = tg.tid()
        t = tg.tile_load(w, shape=8)
        tg.tile_store(y[i], tg.tile_load(x[i], shape=8) + t)
        if i == 0:
            old = tg.tile_load(w, shape=8, offset=8)
            tg.tile_store(w, old + old, offset=8)

    @tg.kernel
    def two_parameters(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        i, j = tg.tid()
        if i % 2 == 0:
            y[i, j] = x[i, j] + w[j]
        else:
            y[i, j] = x[i, j] + v[j]

    @tg.kernel
    def tiles_of_two_parameters(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        i, _ = tg.tid()
        t = tg.tile_load(x[i], shape=8)
        half = (tg.tile_load(w, shape=8) + tg.tile_load(v, shape=8)) * tg.cast(0.5, dt)
        tg.tile_store(y[i], t + half)

    @tg.kernel
    def vectors(x: tg.array2d[dt], w: tg.array1d[vec], v: tg.array1d[vec], y: tg.array2d[dt]):
        i, j = tg.tid()
        y[i, j] = x[i, j] + w[j // 2][j % 2]

    grid, blocks = (ROWS, COLUMNS), (ROWS, 32)
    return {
        "lanes": (lanes, grid, 256),
        "tiles": (tiles, blocks, 32),
        "iterations of lanes": (iterations_of_lanes, (COLUMNS,), 8),
        "iterations of tiles": (iterations_of_tiles, (1, 32), 32),
        "updates of lanes": (updates_of_lanes, grid, 256),
        "updates of tiles": (updates_of_tiles, blocks, 32),
        "two parameters": (two_parameters, grid, 256),
        "tiles of two parameters": (tiles_of_two_parameters, blocks, 32),
        "vectors": (vectors, grid, 256),
    }


DEFAULT_RUN_CASES = ("iterations of lanes", "two parameters", "vectors")
NAMES = [
    name if name in DEFAULT_RUN_CASES else pytest.param(name, marks=pytest.mark.slow)
    for name in forms(tg.bfloat16)
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dt", [tg.bfloat16, pytest.param(tg.float16, marks=pytest.mark.slow)])
def test_gradient_sums_of_narrow_floats_are_rounded_once(dt: Any, name: str) -> None:
    kernel, grid, threads = forms(dt)[name]
    x = tg.zeros((ROWS, COLUMNS), dtype=dt, requires_grad=True)
    y = tg.zeros((ROWS, COLUMNS), dtype=dt, requires_grad=True)
    uses_vectors = name == "vectors"
    w = tg.zeros(
        8 if uses_vectors else 16, dtype=VECTOR_TYPES[dt] if uses_vectors else dt, requires_grad=True
    )
    w.grad.fill_(3.0)
    with tg.Tape() as tape:
        tg.launch(
            kernel,
            grid,
            [x, w, w if "parameters" in name else tg.zeros_like(w, requires_grad=False)],
            [y],
            block_dim=threads,
        )
    seed = np.random.default_rng(0).integers(1, 9, (ROWS, COLUMNS)) / 16
    extra_seeds = {w: tg.full(16, 3.0, dtype=dt)} if "updates" in name else {}
    tape.backward(grads={y: seed, **extra_seeds})
    actual = w.grad.numpy().astype(np.float64).reshape(-1)
    expected = seed.sum(0) + 3.0
    roundings = (
        3 if "parameters" in name else 2
    )  # a sum for each parameter, and the addition to the previous gradient
    np.testing.assert_allclose(
        actual[:8], expected, rtol=roundings * {"bfloat16": 2**-9, "float16": 2**-12}[str(dt)] * 2
    )
    assert actual[8:].tolist() == ([6.0] * 8 if "updates" in name else [3.0] * 8)
    assert np.array_equal(x.grad.numpy().astype(np.float64), seed)


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["silu", None])
def test_gradients_of_weights_are_sums_over_all_blocks(activation: str | None) -> None:
    """The sums of blocks are not rounded before they are added, also for a matmul with an activation."""
    a = tg.ones((4096, 16), dtype=tg.bfloat16, requires_grad=True)
    b = tg.full((16, 16), 1 / 16, dtype=tg.bfloat16, requires_grad=True)
    with tg.Tape() as tape:
        c = kernels.matmul(a, b, activation=activation)
    # The sum of 128 rows is 129/128 of a power of two, which rounds down; the sum of all rows is 32 times that.
    seed = np.ones((4096, 16))
    seed[::128] += 1.0
    tape.backward(grads={c: seed})
    s = 1 / (1 + np.exp(-1.0))
    slope = s + s * (1 - s) if activation else 1.0
    expected = slope * seed.sum(0)
    np.testing.assert_allclose(
        b.grad.numpy().astype(np.float64), np.broadcast_to(expected, (16, 16)), rtol=2**-7
    )


@cache
def updating_kernels(dt: Any) -> dict[str, tuple[tg.Kernel, tuple[int, ...], int]]:
    """Kernels that read the first elements of w, and update elements of v, which may alias w."""

    @tg.kernel
    def lanes(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        i, j = tg.tid()
        y[i, j] = x[i, j] + w[j] + v[1]
        if i == 0:
            v[8 + j] = v[8 + j] + v[8 + j]

    @tg.kernel
    def tiles(x: tg.array2d[dt], w: tg.array1d[dt], v: tg.array1d[dt], y: tg.array2d[dt]):
        i, _ = tg.tid()
        t = tg.tile_load(x[i], shape=8) + tg.tile_load(w, shape=8)
        tg.tile_store(y[i], t + v[1])
        if i == 0:
            old = tg.tile_load(v, shape=8, offset=8)
            tg.tile_store(v, old + old, offset=8)

    return {"lanes": (lanes, (ROWS, COLUMNS), 256), "tiles": (tiles, (ROWS, 32), 32)}


@pytest.mark.parametrize("name", ["lanes", "tiles"])
@pytest.mark.parametrize(
    ("first", "step"), [(0, 1), (4, 1), (39, -1)], ids=["one array", "ahead", "backwards"]
)
def test_sums_of_arrays_that_share_elements_are_rounded_once(name: str, first: int, step: int) -> None:
    """v is w, starts some elements later, or is reversed. The gradient of an updated array is read and written."""
    dt = tg.bfloat16
    kernel, grid, threads = updating_kernels(dt)[name]
    x, y = (tg.zeros((ROWS, COLUMNS), dtype=dt, requires_grad=True) for _ in range(2))
    total = tg.zeros(40, dtype=dt, requires_grad=True)
    total.grad.fill_(3.0)
    w, v = total[:16], total[first : None if step < 0 else first + 16 : step]
    seed = np.random.default_rng(0).integers(1, 9, (ROWS, COLUMNS)) / 16
    expected = np.zeros(40)
    expected[:8] += seed.sum(0)
    expected[first + step] += seed.sum()
    updated_indices = [first + step * (8 + j) for j in range(8)]
    expected[[p for p in range(40) if p not in updated_indices]] += 3.0
    expected[updated_indices] += 6.0
    with tg.Tape() as tape:
        tg.launch(kernel, grid, [x, w, v], [y], block_dim=threads)
    tape.backward(grads={y: seed, total: tg.full(40, 3.0, dtype=dt)})
    actual = total.grad.numpy().astype(np.float64)
    np.testing.assert_allclose(actual, expected, rtol=2**-8)
