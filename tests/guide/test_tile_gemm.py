"""The guide's GEMM."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

TILE_M = tg.constant(8)
TILE_N = tg.constant(4)
TILE_K = tg.constant(8)
TILE_THREADS = 64


@tg.kernel
def tile_gemm(A: tg.array2d[float], B: tg.array2d[float], C: tg.array2d[float]):
    i, j = tg.tid()

    sum = tg.tile_zeros(shape=(TILE_M, TILE_N), dtype=tg.float32)

    M = A.shape[0]
    N = B.shape[1]
    K = A.shape[1]

    count = int(K / TILE_K)

    for k in range(0, count):
        a = tg.tile_load(A, shape=(TILE_M, TILE_K), offset=(i * TILE_M, k * TILE_K))
        b = tg.tile_load(B, shape=(TILE_K, TILE_N), offset=(k * TILE_K, j * TILE_N))

        # sum += a*b
        tg.tile_matmul(a, b, sum)

    tg.tile_store(C, sum, offset=(i * TILE_M, j * TILE_N))


def test_tile_gemm_matches_numpy() -> None:
    M = TILE_M * 7
    K = TILE_K * 6
    N = TILE_N * 5
    rng = np.random.default_rng(42)
    A = rng.random((M, K), dtype=np.float32)
    B = rng.random((K, N), dtype=np.float32)
    C = np.zeros((M, N), dtype=np.float32)
    A_tg, B_tg, C_tg = tg.array(A), tg.array(B), tg.array(C)
    tg.launch_tiled(
        tile_gemm,
        dim=(int(M / TILE_M), int(N / TILE_N)),
        inputs=[A_tg, B_tg, C_tg],
        block_dim=TILE_THREADS,
    )
    np.testing.assert_allclose(C_tg.numpy(), A @ B, rtol=1e-5)


@pytest.mark.parametrize("block_dim", [1, 32, 64, 128])
def test_tile_gemm_of_integers_is_exact(block_dim: int) -> None:
    rng = np.random.default_rng(3)
    A = rng.integers(-8, 8, (24, 24)).astype(np.float32)
    B = rng.integers(-8, 8, (24, 12)).astype(np.float32)
    *_, C = agree(tile_gemm, [tg.array(A), tg.array(B), tg.zeros((24, 12))], (3, 3), block_dim, tiled=True)
    np.testing.assert_array_equal(C, A @ B)
