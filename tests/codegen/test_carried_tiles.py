"""Tiles carried by loops swap buffers instead of being copied. Tiles that are not live together share memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code

N = tg.constant(512)


@tg.func
def shifted(x: float):
    return x * 2.0 + 1.0


@tg.kernel
def pipeline(x: tg.array2d[float], n: int, out: tg.array2d[float]):
    a = tg.tile_load(x, shape=(1, N), offset=(0, 0))
    for i in range(1, n):
        a_next = tg.tile_load(x, shape=(1, N), offset=(i, 0))
        tg.tile_store(out, a * 2.0 + 1.0, offset=(i - 1, 0))
        a = a_next
    tg.tile_store(out, a * 2.0 + 1.0, offset=(n - 1, 0))


@tg.kernel
def matmul(A: tg.array2d[float], B: tg.array2d[float], C: tg.array2d[float]):
    i, j = tg.tid()
    acc = tg.tile_zeros(shape=(8, 4), dtype=float)
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


def launch(body: Any, x: np.ndarray, n: int, rows: int) -> np.ndarray:
    out = tg.zeros((rows, x.shape[1]))
    tg.launch_tiled(body, dim=[1], inputs=[tg.array(x), n, out], block_dim=32)
    return out.numpy()


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(3).integers(-9, 9, (6, 64)).astype(np.float32)


def copies(kernel: Any) -> int:
    (line,) = [t for t in kernel.explain().split("\n") if t.startswith("tiles copied")]
    return int(line.split(":")[1].split()[0])


def test_a_pipeline_copies_no_tile(x: np.ndarray) -> None:
    np.testing.assert_array_equal(launch(pipeline, x, 6, 6), x * 2 + 1)
    assert copies(pipeline) == 0
    assert "4,096 bytes of" in pipeline.explain()


def test_the_operands_of_a_pipelined_matmul_are_not_copied() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((16, 40), (40, 8)))
    out = tg.zeros((16, 8))
    tg.launch_tiled(matmul, dim=[2, 2], inputs=[tg.array(a), tg.array(b), out], block_dim=32)
    np.testing.assert_array_equal(out.numpy(), a @ b)
    assert copies(matmul) == 0


@tg.kernel
def rotated(x: tg.array2d[float], n: int, out: tg.array2d[float]):
    a = tg.tile_load(x, shape=(1, N), offset=(0, 0))
    b = tg.tile_load(x, shape=(1, N), offset=(1, 0))
    c = tg.tile_load(x, shape=(1, N), offset=(2, 0))
    for i in range(n):
        a, b, c = b, c, a
    tg.tile_store(out, a, offset=(0, 0))
    tg.tile_store(out, b, offset=(1, 0))
    tg.tile_store(out, c, offset=(2, 0))


@pytest.mark.parametrize("n", range(5))
def test_swapped_tiles_exchange_their_addresses_only(x: np.ndarray, n: int) -> None:
    np.testing.assert_array_equal(launch(rotated, x, n, 3), np.roll(x[:3], -n, 0))
    assert copies(rotated) == 0


@tg.kernel
def update_in_place(x: tg.array2d[float], n: int, out: tg.array2d[float]):
    a = tg.tile_load(x, shape=(1, N), offset=(0, 0))
    for i in range(n):
        a = tg.tile_map(shifted, a) + tg.tile_load(x, shape=(1, N), offset=(i, 0))
    tg.tile_store(out, a, offset=(0, 0))


def test_elementwise_updates_of_carried_tiles_are_in_place(x: np.ndarray) -> None:
    expected = x[0]
    for i in range(4):
        expected = expected * 2 + 1 + x[i]
    np.testing.assert_array_equal(launch(update_in_place, x, 4, 1)[0], expected)
    assert copies(update_in_place) == 0
    assert "2,048 bytes of" in update_in_place.explain()


@tg.kernel
def crossed(x: tg.array2d[float], n: int, out: tg.array2d[float]):
    a = tg.tile_load(x, shape=(8, 8), offset=(0, 0))
    b = tg.tile_load(x, shape=(8, 8), offset=(0, 8))
    for i in range(n):
        a, b = tg.tile_transpose(b), tg.tile_transpose(a) + b
    tg.tile_store(out, a, offset=(0, 0))
    tg.tile_store(out, b, offset=(0, 8))


@tg.kernel
def doubled(x: tg.array2d[float], n: int, out: tg.array2d[float]):
    a = tg.tile_load(x, shape=(8, 8), offset=(0, 0))
    b = tg.tile_load(x, shape=(8, 8), offset=(0, 8))
    for i in range(n):
        c = a + b
        a, b = c, c
    tg.tile_store(out, a, offset=(0, 0))
    tg.tile_store(out, b, offset=(0, 8))


@tg.kernel
def nested(x: tg.array2d[float], n: int, out: tg.array2d[float]):
    a = tg.tile_load(x, shape=(8, 8), offset=(0, 0))
    b = tg.tile_load(x, shape=(8, 8), offset=(0, 8))
    for i in range(n):
        for j in range(i + 1):
            a, b = b, a
        if i % 2 == 0:
            for j in range(n):
                a, b = b + 1.0, a
        b = b * 2.0
    tg.tile_store(out, a, offset=(0, 0))
    tg.tile_store(out, b, offset=(0, 8))


def expected_crossed(a: Any, b: Any, i: int, n: int) -> Any:
    return b.T, a.T + b


def expected_doubled(a: Any, b: Any, i: int, n: int) -> Any:
    return a + b, a + b


def expected_nested(a: Any, b: Any, i: int, n: int) -> Any:
    for _ in range(i + 1):
        a, b = b, a
    for _ in range(n if i % 2 == 0 else 0):
        a, b = b + 1, a
    return a, b * 2


@pytest.mark.parametrize(
    ("body", "step"),
    [(crossed, expected_crossed), (doubled, expected_doubled), (nested, expected_nested)],
    ids=("crossed", "doubled", "nested"),
)
@pytest.mark.parametrize("n", range(5))
def test_carried_tiles_are_read_before_any_is_replaced(body: Any, step: Any, n: int) -> None:
    values = np.random.default_rng(5).integers(-9, 9, (8, 16)).astype(np.float32)
    a, b = values[:, :8], values[:, 8:]
    for i in range(n):
        a, b = step(a, b, i, n)
    np.testing.assert_array_equal(launch(body, values, n, 8), np.hstack([a, b]))


@tg.kernel
def stages(x: tg.array2d[float], n: int, out: tg.array2d[float]):
    a = tg.tile_load(x, shape=(32, 32), storage="shared")
    b = tg.tile_matmul(a, tg.tile_transpose(a))
    c = tg.tile_matmul(b, tg.tile_transpose(b))
    d = tg.tile_matmul(c, tg.tile_transpose(c))
    tg.tile_store(out, d)


def test_carried_tiles_with_disjoint_lifetimes_share_memory() -> None:
    x = np.random.default_rng(2).integers(-1, 2, (32, 32)).astype(np.float32)
    expected = x
    for _ in range(3):
        expected = expected @ expected.T
    np.testing.assert_array_equal(launch(stages, x, 0, 32), expected)
    (line,) = [t for t in stages.explain().split("\n") if t.startswith("scratch memory")]
    assert int(line.split(":")[1].split()[0].replace(",", "")) <= 3 * (32 * 32 * 4 + 512)


@tg.kernel
def large(x: tg.array2d[float], n: int, out: tg.array2d[float]):
    a = tg.tile_load(x, shape=(4096, 4096), storage="shared")
    b = tg.tile_load(x, shape=(4096, 4096), offset=(1, 0), storage="shared")
    a[0, 0] += 1.0  # once for each lane
    b[0, 0] += a[4095, 4095]
    tg.tile_store(out, a + b)


def test_two_carried_tiles_of_64_mib_are_correct() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    expected = x + np.vstack([x[1:], np.zeros((1, 4), np.float32)])
    expected[0, 0] += 32
    np.testing.assert_array_equal(launch(large, x, 0, 3), expected)
