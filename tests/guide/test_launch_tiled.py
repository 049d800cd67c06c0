"""launch_tiled(dim=[M, N]) is launch(dim=[M, N, block_dim]); tid may be unpacked into fewer components."""

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def two(out: tg.array3d[int]):
    i, j = tg.tid()
    t = tg.tile_full(64, i * 10 + j)
    tg.tile_store(out[i, j], t)


@tg.kernel
def three(out: tg.array3d[int]):
    i, j, t = tg.tid()
    out[i, j, t] = i * 10 + j


def test_launch_tiled_is_equivalent_to_launch_with_threads() -> None:
    M, N = 3, 5
    expected = np.broadcast_to((np.arange(M)[:, None] * 10 + np.arange(N))[..., None], (M, N, 64))
    for kernel in (two, three):
        tiled, plain = tg.zeros((M, N, 64), dtype=int), tg.zeros((M, N, 64), dtype=int)
        tg.launch_tiled(kernel, dim=[M, N], inputs=[tiled], block_dim=64)
        tg.launch(kernel, dim=[M, N, 64], inputs=[plain], block_dim=64)
        np.testing.assert_array_equal(tiled.numpy(), expected)
        np.testing.assert_array_equal(plain.numpy(), expected)
