"""The guide's division, on either side, for scalars and vectors."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_SIZE = 64


@tg.kernel
def div_example(
    arr: tg.array[float], vec_arr: tg.array[tg.vec3], scalars: tg.array2d[float], vectors: tg.array2d[tg.vec3]
):
    a = tg.tile_load(arr, shape=TILE_SIZE)  # a tile of floats

    # tile / tile (element-wise)
    b = a / a

    # tile / scalar
    c = a / 2.0

    # scalar / tile (divides constant by each element)
    d = 1.0 / a

    # vec3f tile / scalar
    v = tg.tile_load(vec_arr, shape=TILE_SIZE)  # a tile of vec3f
    e = v / 2.0

    # float tile / vec3f constant -> vec3f tile
    f = a / tg.vec3(1.0, 2.0, 4.0)

    # vec3f constant / float tile -> vec3f tile
    g = tg.vec3(1.0, 2.0, 4.0) / a

    tg.tile_store(scalars[0], b)
    tg.tile_store(scalars[1], c)
    tg.tile_store(scalars[2], d)
    tg.tile_store(vectors[0], e)
    tg.tile_store(vectors[1], f)
    tg.tile_store(vectors[2], g)


def test_division_of_tiles_matches_numpy() -> None:
    rng = np.random.default_rng(7)
    a = rng.random(TILE_SIZE, dtype=np.float32) + 1
    v = rng.random((TILE_SIZE, 3), dtype=np.float32)
    arguments = [tg.array(a), tg.array(v, dtype=tg.vec3)]
    arguments += [tg.zeros((3, TILE_SIZE)), tg.zeros((3, TILE_SIZE), dtype=tg.vec3)]
    *_, scalars, vectors = agree(div_example, arguments, 1, 32, tiled=True)
    constant = np.array([1, 2, 4], np.float32)
    np.testing.assert_array_equal(scalars, [a / a, a / 2, 1 / a])
    np.testing.assert_array_equal(vectors, [v / 2, a[:, None] / constant, constant / a[:, None]])
