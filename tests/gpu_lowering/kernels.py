"""Kernels whose barriers are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
from lowering import Launch, tiled

import tegula as tg

THREADS = 64


@tg.kernel
def row_sum(a: tg.array2d[float], out: tg.array2d[float]):
    i = tg.tid()
    tg.tile_store(out[i], tg.tile_sum(tg.tile_load(a[i], 256)))


@tg.kernel
def softmax(a: tg.array2d[float], out: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a[i], 256)
    e = tg.tile_map(tg.exp, x - tg.tile_max(x))
    tg.tile_store(out[i], e / tg.tile_sum(e))


@tg.kernel
def gemm(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(8, 4), dtype=float)
    for k in range(int(a.shape[1] / 8)):
        x = tg.tile_load(a, shape=(8, 8), offset=(i * 8, k * 8))
        y = tg.tile_load(b, shape=(8, 4), offset=(k * 8, j * 4))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * 8, j * 4))


@tg.kernel
def gemm_ahead(a: tg.array2d[tg.float16], b: tg.array2d[tg.float16], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(32, 16), dtype=float)
    for k in tg.pipelined(a.shape[1] // 16, stages=3):
        x = tg.tile_load(a, shape=(32, 16), offset=(i * 32, k * 16))
        y = tg.tile_load(b, shape=(16, 16), offset=(k * 16, j * 16))
        tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * 32, j * 16))


@tg.kernel
def gemm_rows_ahead(a: tg.array2d[tg.float16], b: tg.array2d[tg.float16], c: tg.array2d[float]):
    j = tg.tid()
    for i in range(2):
        total = tg.tile_zeros(shape=(32, 16), dtype=float)
        for k in tg.pipelined(a.shape[1] // 16, stages=2):
            x = tg.tile_load(a, shape=(32, 16), offset=(i * 32, k * 16))
            y = tg.tile_load(b, shape=(16, 16), offset=(k * 16, j * 16))
            tg.tile_matmul(x, y, total)
        tg.tile_store(c, total, offset=(i * 32, j * 16))


@tg.kernel
def transposed(a: tg.array2d[float], out: tg.array2d[float]):
    i, j = tg.tid()
    t = tg.tile_load(a, shape=(16, 32), offset=(i * 16, j * 32), storage="shared")
    tg.tile_store(out, tg.tile_transpose(t), offset=(j * 32, i * 16))


@tg.kernel
def scan(a: tg.array2d[int], out: tg.array2d[int]):
    i = tg.tid()
    tg.tile_store(out[i], tg.tile_scan_inclusive(tg.tile_load(a[i], 100)))


@tg.kernel
def argmin(a: tg.array2d[float], out: tg.array2d[int]):
    i = tg.tid()
    tg.tile_store(out[i], tg.tile_argmin(tg.tile_load(a[i], 200)))


@tg.kernel
def stack(a: tg.array2d[int], out: tg.array2d[int], slots: tg.array2d[int]):
    i, j = tg.tid()
    s = tg.tile_stack(capacity=48, dtype=int)
    for k in range(2):
        tg.tile_stack_push(s, a[i, j] + k, a[i, j] % 2 == 0)
    n = tg.tile_stack_count(s)
    value, slot = tg.tile_stack_pop(s)
    out[i, j] = value * n
    slots[i, j] = slot


@tg.kernel
def gather(a: tg.array2d[float], index: tg.array2d[int], out: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile_load(a[i], 128)
    tg.tile_store(out[i], t[tg.tile_load(index[i], 64)])


@tg.kernel
def lanes_and_tiles(a: tg.array2d[float], out: tg.array2d[float]):
    i, j = tg.tid()
    t = tg.tile(a[i, j])
    out[i, j] = tg.untile(t * 2.0 + tg.tile_broadcast(tg.tile_sum(t), (THREADS,)))


@tg.kernel
def scattered_updates(a: tg.array2d[int], out: tg.array2d[int]):
    i, j = tg.tid()
    t = tg.tile_zeros(8, dtype=int, storage="shared")
    t[a[i, j] & 7] += 1
    tg.tile_store(out[i], t)


@tg.kernel
def tree(a: tg.array2d[int], out: tg.array2d[int]):
    i, j = tg.tid()
    t = tg.tile_load(a[i], THREADS, storage="shared")
    k = THREADS // 2
    while k > 0:
        if j < k:
            t[j] += t[j + k]
        k //= 2
    out[i, 0] = t[0]


@tg.kernel
def register_to_shared(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(8, 4), dtype=float)
    x = tg.tile_load(a, shape=(8, 8), offset=(i * 8, 0), storage="register")
    y = tg.tile_load(b, shape=(8, 4), offset=(0, j * 4), storage="register")
    for k in range(1, int(a.shape[1] / 8)):
        x_next = tg.tile_load(a, shape=(8, 8), offset=(i * 8, k * 8), storage="register")
        y_next = tg.tile_load(b, shape=(8, 4), offset=(k * 8, j * 4), storage="register")
        tg.tile_matmul(x, y, total)
        x = x_next
        y = y_next
    tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * 8, j * 4))


@tg.kernel
def register_into_shared(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(8, 4), dtype=float)
    x = tg.tile_load(a, shape=(8, 8), offset=(i * 8, 0), storage="shared")
    y = tg.tile_load(b, shape=(8, 4), offset=(0, j * 4), storage="shared")
    for k in range(1, int(a.shape[1] / 8)):
        x_next = tg.tile_load(a, shape=(8, 8), offset=(i * 8, k * 8), storage="register")
        y_next = tg.tile_load(b, shape=(8, 4), offset=(k * 8, j * 4), storage="register")
        tg.tile_matmul(x, y, total)
        x = x_next
        y = y_next
    tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * 8, j * 4))


@tg.kernel
def shared_into_register(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(8, 4), dtype=float)
    x = tg.tile_load(a, shape=(8, 8), offset=(i * 8, 0), storage="register")
    y = tg.tile_load(b, shape=(8, 4), offset=(0, j * 4), storage="register")
    for k in range(1, int(a.shape[1] / 8)):
        x_next = tg.tile_load(a, shape=(8, 8), offset=(i * 8, k * 8), storage="shared")
        y_next = tg.tile_load(b, shape=(8, 4), offset=(k * 8, j * 4), storage="shared")
        tg.tile_matmul(x, y, total)
        x = x_next
        y = y_next
    tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * 8, j * 4))


@tg.kernel
def mixed(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float]):
    i, j = tg.tid()
    total = tg.tile_zeros(shape=(8, 4), dtype=float)
    x = tg.tile_load(a, shape=(8, 8), offset=(i * 8, 0), storage="shared")
    y = tg.tile_load(b, shape=(8, 4), offset=(0, j * 4), storage="register")
    for k in range(1, int(a.shape[1] / 8)):
        x_next = tg.tile_load(a, shape=(8, 8), offset=(i * 8, k * 8), storage="register")
        y_next = tg.tile_load(b, shape=(8, 4), offset=(k * 8, j * 4), storage="shared")
        tg.tile_matmul(x, y, total)
        x = x_next
        y = y_next
    tg.tile_matmul(x, y, total)
    tg.tile_store(c, total, offset=(i * 8, j * 4))


@tg.kernel
def stored_then_loaded(a: tg.array2d[float], out: tg.array2d[float]):
    i, j = tg.tid()
    out[i, THREADS - 1 - j] = a[i, j]
    t = tg.tile_load(out[i], THREADS)
    tg.tile_store(out[i], tg.tile_sum(t), offset=7)
    a[i, j] = out[i, 7]


@tg.func
def halved(x: float):
    return tg.abs(x) * 0.5


@tg.kernel
def pipelined(a: tg.array2d[float], out: tg.array2d[float]):
    t = tg.tile_load(a, shape=(1, 256), offset=(0, 0), storage="register")
    for i in range(1, 5):
        ahead = tg.tile_load(a, shape=(1, 256), offset=(i, 0), storage="register")
        t = tg.tile_map(halved, t)
        tg.tile_store(out, t, offset=(i - 1, 0))
        t = ahead
    tg.tile_store(out, tg.tile_map(halved, t), offset=(4, 0))


@tg.kernel
def broadcast_elements(a: tg.array2d[float], out: tg.array2d[float]):
    i, j = tg.tid()
    first = tg.tile_from_thread(shape=(THREADS,), value=a[i, j], thread_idx=5, storage="register")
    out[i, j] = tg.untile(first) + tg.uniform(a[i, j])


@tg.kernel
def sequential_transposes(a: tg.array2d[float], b: tg.array2d[float], out: tg.array2d[float]):
    i = tg.tid()
    x = tg.tile_load(a, shape=(64, 64), offset=(i * 64, 0), storage="shared")
    tg.tile_store(out, tg.tile_transpose(x), offset=(0, i * 64))
    y = tg.tile_load(b, shape=(64, 64), offset=(i * 64, 0), storage="shared")
    tg.tile_store(out, tg.tile_transpose(y), offset=(64, i * 64))


@tg.kernel
def concatenated(a: tg.array2d[float], out: tg.array2d[float]):
    i = tg.tid()
    t = tg.tile_load(a[i], 128)
    tg.tile_store(out[i], tg.tile_concat((t, t * 2.0)))


@tg.kernel
def in_place(a: tg.array2d[float], out: tg.array2d[float]):
    for i in range(a.shape[0]):
        tg.tile_store(a[i], tg.tile_load(a[i], 256) * 2.0)
    for i in range(a.shape[0] // 2):
        tg.tile_store(out, tg.tile_load(a, shape=(2, 256), offset=(2 * i, 64)), offset=(2 * i, 0))


@tg.kernel
def stores_on_a_grid(a: tg.array2d[float], out: tg.array2d[float]):
    for i in range(a.shape[0]):
        tile = i % 2 + i // 2
        tg.tile_store(out, tg.tile_load(a, shape=(1, 256), offset=(i, 0)), offset=(0, 256 * tile))
        tg.tile_store(out, tg.tile_load(a, shape=(1, 256), offset=(i, 0)) * 2.0, offset=(1, 256 * tile + 256))


@tg.kernel
def overlapping_stores(a: tg.array2d[float], out: tg.array2d[float]):
    for i in range(a.shape[0]):
        tile = i % 2 + i // 2
        tg.tile_store(out, tg.tile_load(a, shape=(1, 256), offset=(i, 0)), offset=(0, 128 * tile))


@tg.kernel
def atomic_tickets(count: tg.array[int], out: tg.array2d[int]):
    _i, j = tg.tid()
    first = tg.tile_atomic_add(count, tg.tile_full(shape=1, value=5, dtype=int), offset=0)
    # Blocks run in any order; each block fills the row of its ticket.
    out[first[0] // 5, j] = first[0] + j


@tg.kernel
def mixed_updates(a: tg.array2d[int], out: tg.array2d[int]):
    i, j = tg.tid()
    t = tg.tile_load(a[i], 8, storage="shared")
    t[j % 8] |= j
    t[j % 8] -= 1
    t[j % 4] += 2
    tg.tile_store(out[i], t)


@tg.kernel
def views_of_lanes(a: tg.array2d[int], out: tg.array2d[int]):
    i, j = tg.tid()
    t = tg.tile_load(a[i], 64, storage="shared")
    w = tg.tile_view(t, offset=j % 2, shape=32)
    w[j // 4] = j % 2 + j // 4
    out[i, j] = w[j // 8] + t[63 - j]


ASSIGNED = (register_to_shared, register_into_shared, shared_into_register, mixed)
NAMES = sorted(name for name, value in globals().items() if isinstance(value, tg.Kernel))


def numbers(rng: np.random.Generator, *shape: int, dtype: Any = tg.float32) -> Any:
    return tg.array(rng.integers(-8, 9, shape), dtype=dtype)


def matmuls(rng: np.random.Generator) -> list[Any]:
    return [numbers(rng, 13, 32), numbers(rng, 32, 7), tg.zeros((13, 7))]


def launches() -> dict[str, Launch]:
    """The kernels with their arguments."""
    rng = np.random.default_rng(0)
    ints = {"dtype": tg.int32}
    grid, rows = (2, 2), (2,)
    half = {"dtype": tg.float16}
    odd = [numbers(rng, 40, 48, **half), numbers(rng, 48, 24, **half), tg.zeros((40, 24))]
    wide = [
        numbers(rng, 40, 64, dtype=tg.float16),
        numbers(rng, 64, 24, dtype=tg.float16),
        tg.zeros((40, 24)),
    ]
    line = [numbers(rng, 2, THREADS), tg.zeros((2, THREADS))]
    block_args = [numbers(rng, 2, THREADS, **ints), tg.zeros((2, THREADS), **ints)]
    index = tg.array(rng.integers(-9, 140, (2, 64)), **ints)
    results = [
        tiled(row_sum, [numbers(rng, 2, 256), tg.zeros((2, 1))], rows, THREADS),
        tiled(softmax, [tg.zeros((2, 256)), tg.zeros((2, 256))], rows, THREADS),
        tiled(gemm, matmuls(rng), grid, THREADS),
        tiled(gemm_ahead, wide, grid, THREADS),
        tiled(gemm_rows_ahead, odd, rows, THREADS),
        tiled(transposed, [numbers(rng, 32, 64), tg.zeros((64, 32))], grid, THREADS),
        tiled(scan, [numbers(rng, 2, 100, **ints), tg.zeros((2, 100), **ints)], rows, THREADS),
        tiled(argmin, [numbers(rng, 2, 200), tg.zeros((2, 1), **ints)], rows, THREADS),
        tiled(stack, [*block_args, tg.zeros_like(block_args[1])], rows, THREADS),
        tiled(gather, [numbers(rng, 2, 128), index, tg.zeros((2, 64))], rows, THREADS),
        tiled(lanes_and_tiles, line, rows, THREADS),
        tiled(scattered_updates, [block_args[0], tg.zeros((2, 8), **ints)], rows, THREADS),
        tiled(mixed_updates, [block_args[0], tg.zeros((2, 8), **ints)], rows, THREADS),
        tiled(views_of_lanes, block_args, rows, THREADS),
        tiled(tree, block_args, rows, THREADS),
        tiled(stored_then_loaded, line, rows, THREADS),
        tiled(pipelined, [numbers(rng, 5, 256), tg.zeros((5, 256))], (1,), 256),
        tiled(broadcast_elements, line, rows, THREADS),
        tiled(
            sequential_transposes,
            [numbers(rng, 128, 64), numbers(rng, 128, 64), tg.zeros((128, 128))],
            rows,
            THREADS,
        ),
        tiled(atomic_tickets, [tg.zeros(1, **ints), block_args[1]], rows, THREADS),
        tiled(concatenated, [numbers(rng, 2, 128), tg.zeros((2, 256))], rows, THREADS),
        tiled(stores_on_a_grid, [numbers(rng, 4, 256), tg.zeros((2, 1024))], (1,), THREADS),
        tiled(overlapping_stores, [numbers(rng, 4, 256), tg.zeros((1, 512))], (1,), THREADS),
        tiled(in_place, [numbers(rng, 4, 256), tg.zeros((4, 256))], (1,), THREADS),
    ]
    results += [tiled(k, matmuls(rng), grid, THREADS) for k in ASSIGNED]
    return {launch.kernel.name: launch for launch in results}
