"""Owner blocks of several tiles on CPUs compute the same bits as owner blocks of one tile, for any number of cores."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import rest_slow, sampled

pytestmark = [pytest.mark.cpu, pytest.mark.machine_code]
T = 32


def matmul_kernel(left: bool, right: bool) -> Any:
    """A new matmul kernel whose left and right operands may be transposed in memory."""

    @tg.kernel
    def matmul(iterations: int, a: tg.array2d[Any], b: tg.array2d[Any], c: tg.array2d[Any]):
        i, j = tg.tid()
        total = tg.tile_zeros(shape=(T, T), dtype=c.dtype)
        for k in range(iterations):
            if tg.static(left):
                x = tg.tile_transpose(tg.tile_load(a, shape=(T, T), offset=(k * T, i * T)))
            else:
                x = tg.tile_load(a, shape=(T, T), offset=(i * T, k * T))
            if tg.static(right):
                y = tg.tile_transpose(tg.tile_load(b, shape=(T, T), offset=(j * T, k * T)))
            else:
                y = tg.tile_load(b, shape=(T, T), offset=(k * T, j * T))
            tg.tile_matmul(x, y, total)
        tg.tile_store(c, total, offset=(i * T, j * T))

    return matmul


def gradients_and_kernel_names(
    transposed: tuple[bool, bool],
    data: list[np.ndarray],
    g: np.ndarray,
    cores: int,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[list[np.ndarray], list[str]]:
    """The gradients of both operands, added to ones, and the names of the launched kernels."""
    monkeypatch.setenv("TEGULA_NUM_THREADS", str(cores))
    kernel = matmul_kernel(*transposed)
    a, b = (
        tg.array(x.T.copy() if t else x, requires_grad=True) for x, t in zip(data, transposed, strict=True)
    )
    c = tg.zeros(g.shape, dtype=a.dtype, requires_grad=True)
    for leaf in (a, b):
        leaf.grad.fill_(1.0)
    with tg.Tape() as tape:
        iterations, *grid = (-(-n // T) for n in (data[0].shape[1], *g.shape))
        tg.launch_tiled(kernel, grid, inputs=[iterations, a, b], outputs=[c], block_dim=32)
    tape.backward(grads={c: g})
    result = [x.grad.numpy().T if t else x.grad.numpy() for x, t in zip((a, b), transposed, strict=True)]
    launched = next(iter(kernel.adjoints.values())).launched_parts
    return result, [part.name.removeprefix("matmul_adjoint") for part in launched]


@pytest.mark.parametrize(
    ("size", "dtype"),
    rest_slow(
        product(((256, 256, 256), (170, 230, 290)), (np.float32, np.float64)),
        lambda size, dtype: (size[0] == 256) == (dtype is np.float32),
    ),
)
@sampled(
    3,
    ("transposed", "wide"),
    [
        ((False, False), ["_of_adj_a_wide", "_of_adj_b_wide", ""]),
        ((False, True), ["_of_adj_a", "_of_adj_b_wide", ""]),
        ((True, False), ["_of_adj_a_wide", "_of_adj_b", ""]),
        ((True, True), ["_of_adj_a_wide", "_of_adj_b_wide", ""]),
    ],
)
def test_merged_owners_have_the_bits_of_owners_of_one_tile(
    transposed: tuple[bool, bool],
    wide: list[str],
    size: tuple[int, int, int],
    dtype: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Blocks own several tiles if an operand of the gradient's matmul is transposed in memory."""
    rng, (m, k, n) = np.random.default_rng(1), size
    a, b, g = (rng.standard_normal(s).astype(dtype) for s in ((m, k), (k, n), (m, n)))
    single_core, names = gradients_and_kernel_names(transposed, [a, b], g, 1, monkeypatch)
    assert names == wide
    hundred_cores, names = gradients_and_kernel_names(transposed, [a, b], g, 100, monkeypatch)
    assert names == [name.removesuffix("_wide") for name in wide]
    expected = [g.astype(np.float64) @ b.T + 1.0, a.T.astype(np.float64) @ g + 1.0]
    for x, y, z in zip(single_core, hundred_cores, expected, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_allclose(x, z, rtol=1e-4, atol=1e-4)


def test_chunks_are_used_for_any_number_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks change the order of sums, so their use must not depend on the number of cores."""
    data = [np.ones((96, 96), np.float32) for _ in range(2)]
    for cores in (1, 100):
        _, names = gradients_and_kernel_names((False, False), data, data[0], cores, monkeypatch)
        assert any(name.endswith("_in_chunks") for name in names)
