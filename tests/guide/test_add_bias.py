"""The guide's function that changes its tile parameter, for both storages."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_M = 8
TILE_N = 16


@tg.func
def add_bias(t: tg.tile[float, TILE_M, TILE_N]):
    t += tg.tile_ones(dtype=float, shape=(TILE_M, TILE_N), storage="register") * 5.0


@tg.kernel(enable_backward=False)
def compute(input: tg.array2d[float], out: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile_load(input, shape=(TILE_M, TILE_N), offset=(0, 0), storage="shared")
    add_bias(t)  # modifies t in place — caller sees the change
    tg.tile_store(out, t)  # t now contains input + 5.0


@tg.kernel
def compute_register(input: tg.array2d[float], out: tg.array2d[float]):
    t = tg.tile_load(input, shape=(TILE_M, TILE_N), storage="register")
    add_bias(t)
    add_bias(t)
    tg.tile_store(out, t)


@pytest.mark.parametrize(("kernel", "bias"), [(compute, 5), (compute_register, 10)])
def test_add_bias_changes_the_tile_of_the_caller(kernel: object, bias: int) -> None:
    values = np.random.default_rng(10).integers(-9, 9, (TILE_M, TILE_N)).astype(np.float32)
    _, out = agree(kernel, [tg.array(values), tg.zeros((TILE_M, TILE_N))], 1, 64, tiled=True)
    np.testing.assert_array_equal(out, values + bias)
