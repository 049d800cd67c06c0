"""The guide's SIMT reduction with tile_atomic_add: the same sum for every block size."""

import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_DIM = 4


@tg.kernel
def tile_reduce_simt_kernel(output: tg.array[int]):
    i = tg.tid()

    t = tg.tile(i)
    s = tg.tile_sum(t)

    # update global sum
    tg.tile_atomic_add(output, s)


@pytest.mark.parametrize("block_dim", [TILE_DIM, 1, 5, 12, 64])
def test_tile_reduction_of_threads_sums_all_blocks(block_dim: int) -> None:
    N = TILE_DIM * 3
    output = tg.zeros(shape=1, dtype=int)
    tg.launch(tile_reduce_simt_kernel, dim=N, outputs=[output], block_dim=block_dim)
    assert f"{output.numpy()}" == "[66]"
