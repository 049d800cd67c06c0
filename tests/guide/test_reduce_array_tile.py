"""The guide's array-wide sum of squares with one atomic per block."""

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def reduce_array_tile(
    a: tg.array2d[tg.float64],
    result: tg.array[tg.float64],
):
    i, j = tg.tid()

    local_val = a[i, j] * a[i, j]

    t = tg.tile(local_val)
    s = tg.tile_sum(t)

    tg.tile_atomic_add(result, s)


def test_sum_of_squares_by_tiles_matches_float64() -> None:
    values = np.random.default_rng(42).random((512, 512), dtype=np.float64)
    data = tg.array(values, dtype=tg.float64)
    result = tg.zeros((1,), dtype=tg.float64)
    tg.launch(reduce_array_tile, (512, 512), inputs=[data], outputs=[result])
    np.testing.assert_allclose(result.numpy()[0], (values * values).sum(), rtol=1e-12)


@pytest.mark.parametrize("block_dim", [1, 7, 128, 256])
def test_sum_of_squares_by_tiles_is_exact_for_partial_blocks(block_dim: int) -> None:
    values = np.random.default_rng(43).integers(-9, 9, (33, 65)).astype(np.float64)
    result = tg.zeros((1,), dtype=tg.float64)
    tg.launch(reduce_array_tile, (33, 65), inputs=[tg.array(values)], outputs=[result], block_dim=block_dim)
    assert result.numpy()[0] == (values * values).sum()
