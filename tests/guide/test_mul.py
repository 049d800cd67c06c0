"""The guide's multiplication: tile by tile, by scalar, by vector constant, on either side."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_SIZE = 64


@tg.kernel
def mul_example(arr: tg.array[float], scalars: tg.array2d[float], vectors: tg.array2d[tg.vec3]):
    a = tg.tile_load(arr, shape=TILE_SIZE)  # a tile of floats

    # tile * tile (element-wise)
    b = a * a

    # tile * scalar
    c = a * 2.0

    # scalar * tile
    d = 2.0 * a

    # float tile * vec3f constant -> vec3f tile
    e = a * tg.vec3(1.0, 2.0, 3.0)

    # vec3f constant * float tile -> vec3f tile
    f = tg.vec3(1.0, 2.0, 3.0) * a

    tg.tile_store(scalars[0], b)
    tg.tile_store(scalars[1], c)
    tg.tile_store(scalars[2], d)
    tg.tile_store(vectors[0], e)
    tg.tile_store(vectors[1], f)


@tg.kernel
def promotions(
    scalars: tg.array[float],
    vectors: tg.array[tg.vec3],
    matrices: tg.array[tg.mat33],
    out_v: tg.array2d[tg.vec3],
    out_m: tg.array2d[tg.mat33],
):
    s = tg.tile_load(scalars, shape=8)
    v = tg.tile_load(vectors, shape=8)
    m = tg.tile_load(matrices, shape=8)
    tg.tile_store(out_v[0], v * 2.0)
    tg.tile_store(out_v[1], s * v)
    tg.tile_store(out_m[0], m * 2.0)
    tg.tile_store(out_m[1], s * tg.identity(3, dtype=tg.float32))
    tg.tile_store(out_m[2], m * s)


def test_multiplication_of_tiles_matches_numpy() -> None:
    x = np.random.default_rng(5).random(TILE_SIZE, dtype=np.float32)
    arguments = [tg.array(x), tg.zeros((3, TILE_SIZE)), tg.zeros((2, TILE_SIZE), dtype=tg.vec3)]
    _, scalars, vectors = agree(mul_example, arguments, 1, 32, tiled=True)
    constant = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(scalars, [x * x, x * 2, x * 2])
    np.testing.assert_array_equal(vectors, [x[:, None] * constant] * 2)


def test_multiplication_promotes_scalars_vectors_and_matrices() -> None:
    rng = np.random.default_rng(6)
    s, v, m = (rng.integers(-9, 9, (8, *inner)).astype(np.float32) for inner in ((), (3,), (3, 3)))
    arguments = [tg.array(s), tg.array(v, dtype=tg.vec3), tg.array(m, dtype=tg.mat33)]
    arguments += [tg.zeros((2, 8), dtype=tg.vec3), tg.zeros((3, 8), dtype=tg.mat33)]
    *_, out_v, out_m = agree(promotions, arguments, 1, 4, tiled=True)
    column = s[:, None, None]
    np.testing.assert_array_equal(out_v, [v * 2, v * s[:, None]])
    np.testing.assert_array_equal(out_m, [m * 2, column * np.eye(3, dtype=np.float32), m * column])
