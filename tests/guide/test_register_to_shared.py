"""Assignments between tiles of different storage in a pipelined matmul: forward, reverse, and both in one loop."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def matmul_pipelined(A: tg.array2d(dtype=float), B: tg.array2d(dtype=float), C: tg.array2d(dtype=float)):
    i, j = tg.tid()

    acc = tg.tile_zeros(shape=(8, 4), dtype=tg.float32)

    a = tg.tile_load(A, shape=(8, 8), offset=(i * 8, 0), storage="register")
    b = tg.tile_load(B, shape=(8, 4), offset=(0, j * 4), storage="register")

    count = int(A.shape[1] / 8)
    for k in range(1, count):
        a_next = tg.tile_load(A, shape=(8, 8), offset=(i * 8, k * 8), storage="register")
        b_next = tg.tile_load(B, shape=(8, 4), offset=(k * 8, j * 4), storage="register")

        tg.tile_matmul(a, b, acc)

        a = a_next
        b = b_next

    tg.tile_matmul(a, b, acc)
    tg.tile_store(C, acc, offset=(i * 8, j * 4))


@tg.kernel
def register_into_shared(A: tg.array2d(dtype=float), B: tg.array2d(dtype=float), C: tg.array2d(dtype=float)):
    i, j = tg.tid()
    acc = tg.tile_zeros(shape=(8, 4), dtype=tg.float32)
    a = tg.tile_load(A, shape=(8, 8), offset=(i * 8, 0), storage="shared")
    b = tg.tile_load(B, shape=(8, 4), offset=(0, j * 4), storage="shared")
    count = int(A.shape[1] / 8)
    for k in range(1, count):
        a_next = tg.tile_load(A, shape=(8, 8), offset=(i * 8, k * 8), storage="register")
        b_next = tg.tile_load(B, shape=(8, 4), offset=(k * 8, j * 4), storage="register")
        tg.tile_matmul(a, b, acc)
        a = a_next
        b = b_next
    tg.tile_matmul(a, b, acc)
    tg.tile_store(C, acc, offset=(i * 8, j * 4))


@tg.kernel
def shared_into_register(A: tg.array2d(dtype=float), B: tg.array2d(dtype=float), C: tg.array2d(dtype=float)):
    i, j = tg.tid()
    acc = tg.tile_zeros(shape=(8, 4), dtype=tg.float32)
    a = tg.tile_load(A, shape=(8, 8), offset=(i * 8, 0), storage="register")
    b = tg.tile_load(B, shape=(8, 4), offset=(0, j * 4), storage="register")
    count = int(A.shape[1] / 8)
    for k in range(1, count):
        a_next = tg.tile_load(A, shape=(8, 8), offset=(i * 8, k * 8), storage="shared")
        b_next = tg.tile_load(B, shape=(8, 4), offset=(k * 8, j * 4), storage="shared")
        tg.tile_matmul(a, b, acc)
        a = a_next
        b = b_next
    tg.tile_matmul(a, b, acc)
    tg.tile_store(C, acc, offset=(i * 8, j * 4))


@tg.kernel
def both(A: tg.array2d(dtype=float), B: tg.array2d(dtype=float), C: tg.array2d(dtype=float)):
    i, j = tg.tid()
    acc = tg.tile_zeros(shape=(8, 4), dtype=tg.float32)
    a = tg.tile_load(A, shape=(8, 8), offset=(i * 8, 0), storage="shared")
    b = tg.tile_load(B, shape=(8, 4), offset=(0, j * 4), storage="register")
    count = int(A.shape[1] / 8)
    for k in range(1, count):
        a_next = tg.tile_load(A, shape=(8, 8), offset=(i * 8, k * 8), storage="register")
        b_next = tg.tile_load(B, shape=(8, 4), offset=(k * 8, j * 4), storage="shared")
        tg.tile_matmul(a, b, acc)
        a = a_next
        b = b_next
    tg.tile_matmul(a, b, acc)
    tg.tile_store(C, acc, offset=(i * 8, j * 4))


KERNELS = (matmul_pipelined, register_into_shared, shared_into_register, both)


@pytest.mark.parametrize("block_dim", [32, 64, 128])
@pytest.mark.parametrize(("M", "N"), [(16, 8), (13, 4), (8, 7), (19, 10)])
@pytest.mark.parametrize("K", [8, 48])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_matmuls_with_tiles_of_mixed_storage_are_exact(
    kernel: object, M: int, N: int, K: int, block_dim: int
) -> None:
    rng = np.random.default_rng(M * N + K)
    A = rng.integers(-8, 8, (M, K)).astype(np.float32)
    B = rng.integers(-8, 8, (K, N)).astype(np.float32)
    grid = (-(-M // 8), -(-N // 4))
    *_, C = agree(kernel, [tg.array(A), tg.array(B), tg.zeros((M, N))], grid, block_dim, tiled=True)
    np.testing.assert_array_equal(C, A @ B)
