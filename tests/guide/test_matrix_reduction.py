"""The guide's reduction of a tile of matrices."""

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_DIM = 32


@tg.kernel
def matrix_reduction_kernel(y: tg.array[tg.mat33]):
    i = tg.tid()
    I = tg.identity(3, dtype=tg.float32)  # noqa: E741
    m = tg.float32(i) * I

    t = tg.tile(m, preserve_type=True)
    sum = tg.tile_reduce(tg.add, t)

    tg.tile_store(y, sum)


@tg.kernel
def expanded(v: tg.array2d[float], m: tg.array3d[float]):
    i = tg.tid()
    x = float(i)
    tg.tile_store(v, tg.tile(tg.vec3(x, x + 1.0, x + 2.0)))
    tg.tile_store(m, tg.tile(x * tg.identity(2, dtype=float)))


def test_reduction_of_a_tile_of_matrices_matches_the_guide() -> None:
    y = tg.zeros(shape=1, dtype=tg.mat33)
    tg.launch(matrix_reduction_kernel, dim=TILE_DIM, inputs=[], outputs=[y], block_dim=TILE_DIM)
    assert str(y.numpy()[0]) == "[[496.   0.   0.]\n [  0. 496.   0.]\n [  0.   0. 496.]]"


def test_tiles_of_vectors_and_matrices_expand_without_preserve_type() -> None:
    v, m = tg.zeros((3, 8)), tg.zeros((2, 2, 8))
    tg.launch(expanded, dim=8, inputs=[v, m], block_dim=8)
    i = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(v.numpy(), [i, i + 1, i + 2])
    np.testing.assert_array_equal(m.numpy(), [[i, 0 * i], [0 * i, i]])
