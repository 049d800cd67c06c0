"""The guide's array-wide sum of squares with one atomic per thread."""

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def reduce_array_simt(
    a: tg.array2d[tg.float64],
    result: tg.array[tg.float64],
):
    i, j = tg.tid()

    local_val = a[i, j] * a[i, j]

    tg.atomic_add(result, 0, local_val)


def test_sum_of_squares_by_threads_matches_float64() -> None:
    values = np.random.default_rng(42).random((256, 300), dtype=np.float64)
    result = tg.zeros((1,), dtype=tg.float64)
    tg.launch(reduce_array_simt, (256, 300), inputs=[tg.array(values, dtype=tg.float64)], outputs=[result])
    np.testing.assert_allclose(result.numpy()[0], (values * values).sum(), rtol=1e-12)


def test_sum_of_squares_by_threads_of_integers_is_exact() -> None:
    values = np.random.default_rng(43).integers(-9, 9, (33, 65)).astype(np.float64)
    result = tg.zeros((1,), dtype=tg.float64)
    tg.launch(reduce_array_simt, (33, 65), inputs=[tg.array(values)], outputs=[result])
    assert result.numpy()[0] == (values * values).sum()
