"""The guide's addition and subtraction, completed by stores."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_SIZE = 64


@tg.kernel
def add_sub_example(arr_a: tg.array[float], arr_b: tg.array[float], out: tg.array2d[float]):
    a = tg.tile_load(arr_a, shape=TILE_SIZE)
    b = tg.tile_load(arr_b, shape=TILE_SIZE)

    c = a + b  # element-wise addition
    d = a - b  # element-wise subtraction
    e = -a  # element-wise negation

    tg.tile_store(out[0], c)
    tg.tile_store(out[1], d)
    tg.tile_store(out[2], e)
    c += a
    d -= b
    tg.tile_store(out[3], c)
    tg.tile_store(out[4], d)


def test_addition_and_subtraction_of_tiles_match_numpy() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.random((2, TILE_SIZE), dtype=np.float32)
    *_, out = agree(add_sub_example, [tg.array(a), tg.array(b), tg.zeros((5, TILE_SIZE))], 1, 32, tiled=True)
    for actual, expected in zip(out, (a + b, a - b, -a, a + b + a, a - b - b), strict=True):
        np.testing.assert_array_equal(actual, expected)
