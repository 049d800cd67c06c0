"""The guide's block-wise SIMT reduction: true blocks on the CPU."""

import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_DIM = 4


@tg.kernel
def tile_reduce_blockwise_simt_kernel(output: tg.array[int]):
    i = tg.tid()

    t = tg.tile(i)
    s = tg.tile_sum(t)

    tg.tile_store(output, s, offset=i)


def test_tile_reduction_of_threads_stores_the_sum_of_each_block(capsys: pytest.CaptureFixture[str]) -> None:
    N = TILE_DIM * 3

    output = tg.zeros(shape=N, dtype=int)

    tg.launch(tile_reduce_blockwise_simt_kernel, dim=N, outputs=[output], block_dim=TILE_DIM)

    print(output.numpy())
    assert capsys.readouterr().out == "[ 6  0  0  0 22  0  0  0 38  0  0  0]\n"


def test_tile_reduction_in_blocks_of_one_thread_stores_every_value() -> None:
    output = tg.zeros(shape=12, dtype=int)
    tg.launch(tile_reduce_blockwise_simt_kernel, dim=12, outputs=[output], block_dim=1)
    assert output.list() == list(range(12))
