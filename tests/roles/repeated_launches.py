"""Schedules launched repeatedly: `python repeated_launches.py CASE DEVICE LAUNCHES`, a separate process for each case,
because a wrong schedule may never end. Every launch has fresh buffers and its own data, so that values of an earlier
launch are noticed. A wrong result ends the process with an AssertionError that names the variant and the launch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from two_consumer_attention import BM, BN, attention

import tegula as tg
from support.pipe_kernels import COLUMNS, N, four_roles, three_roles, two_producers, two_roles
from support.small_matmuls import KERNELS as SMALL_MATMULS

LONG_TRIP_COUNT = 1000
Arrays = list[np.ndarray]


@dataclass
class Variant:
    """A kernel with scalars after its arrays. `data`: the inputs of a seed; `expected`: the results of inputs."""

    name: str
    kernel: Any
    dim: int | tuple[int, ...]
    data: Callable[[np.random.Generator], Arrays]
    expected: Callable[[Arrays], np.ndarray]
    scalars: tuple[int, ...]
    dtypes: tuple[Any, ...] = ()
    """The dtypes of inputs without a NumPy type."""
    out: Any = tg.float32


def small(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-2, 3, shape).astype(np.float32)


# Trip counts ----------------------------------------------------------------------------------------------------------


def trips(chain: Callable[[int], Any]) -> Iterator[Variant]:
    for stages in range(1, 9):
        kernel = chain(stages)
        for n in sorted({0, 1, stages - 1, stages, stages + 1, LONG_TRIP_COUNT}):
            yield Variant(
                f"{stages} stages, {n} items",
                kernel,
                2,
                lambda rng, n=n: [small(rng, n + 1, N)],
                lambda x, n=n: np.concatenate([x[0][:n] + 2, np.full((1, N), 7.0, np.float32)]),
                (n,),
            )


def producers() -> Iterator[Variant]:
    """Two roles fetch, each into its own pipe; a third role multiplies."""
    for stages in range(2, 7):
        kernel = two_producers(stages)
        for rows in (1, 2, 3, 7, 128):
            yield Variant(
                f"{stages} stages, {rows} rows",
                kernel,
                1,
                lambda rng, rows=rows: [small(rng, rows, COLUMNS), small(rng, rows, COLUMNS)],
                lambda x: x[0] * x[1],
                (rows,),
            )


# Matmuls --------------------------------------------------------------------------------------------------------------

TM, TN, TK, STEPS = 128, 128, 64, 9
HALF = tg.bfloat16


@tg.kernel
def one_consumer(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    left = tg.tile_pipe(shape=(TM, TK), dtype=HALF, stages=3)
    right = tg.tile_pipe(shape=(TK, TN), dtype=HALF, stages=3)
    with tg.ws(0, registers=24):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(i * TM, k * TK))
            tg.tile_pipe_load(right, b, offset=(k * TK, j * TN))
    with tg.ws(1, registers=240):
        total = tg.tile_zeros(shape=(TM, TN))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * TM, j * TN))


@tg.kernel
def separate_consumers(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    upper = tg.tile_pipe(shape=(TM // 2, TK), dtype=HALF, stages=3)
    lower = tg.tile_pipe(shape=(TM // 2, TK), dtype=HALF, stages=3)
    right = tg.tile_pipe(shape=(TK, TN), dtype=HALF, stages=3)
    with tg.ws(0, registers=24):
        for k in range(n):
            tg.tile_pipe_load(upper, a, offset=(i * TM, k * TK))
            tg.tile_pipe_load(lower, a, offset=(i * TM + TM // 2, k * TK))
            tg.tile_pipe_load(right, b, offset=(k * TK, j * TN))
    with tg.ws(1, registers=240):
        total = tg.tile_zeros(shape=(TM // 2, TN))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(upper), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * TM, j * TN))
    with tg.ws(2, registers=240):
        total = tg.tile_zeros(shape=(TM // 2, TN))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(lower), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * TM + TM // 2, j * TN))


@tg.kernel
def merged_two(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    left = tg.tile_pipe(shape=(TM, TK), dtype=HALF, stages=3)
    right = tg.tile_pipe(shape=(TK, TN), dtype=HALF, stages=3)
    with tg.ws(0, registers=24):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(i * TM, k * TK))
            tg.tile_pipe_load(right, b, offset=(k * TK, j * TN))
    with tg.ws(1, 2, registers=240):
        total = tg.tile_zeros(shape=(TM, TN))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * TM, j * TN))


@tg.kernel
def merged_three(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], n: int):
    i, j = tg.tid()
    left = tg.tile_pipe(shape=(TM + TM // 2, TK), dtype=HALF, stages=2)
    right = tg.tile_pipe(shape=(TK, TN), dtype=HALF, stages=2)
    with tg.role("fetch", warps=1, registers=32):
        for k in range(n):
            tg.tile_pipe_load(left, a, offset=(i * (TM + TM // 2), k * TK))
            tg.tile_pipe_load(right, b, offset=(k * TK, j * TN))
    with tg.role("multiply", warp_groups=3, registers=152):
        total = tg.tile_zeros(shape=(TM + TM // 2, TN))
        for _k in range(n):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total, offset=(i * (TM + TM // 2), j * TN))


MATMULS = (one_consumer, separate_consumers, merged_two, merged_three)


def matmuls() -> Iterator[Variant]:
    """Matmuls by wgmma, in whole tiles and at the edges of arrays, and by mma."""
    for kernel in MATMULS:
        rows = TM + TM // 2 if kernel is merged_three else TM
        for m, n in ((2 * rows, TN), (rows + 8, TN + 8)):
            yield Variant(
                f"{kernel.name} of {m} x {n}",
                kernel,
                (-(-m // rows), -(-n // TN)),
                lambda rng, m=m, n=n: [small(rng, m, STEPS * TK), small(rng, STEPS * TK, n)],
                lambda x: x[0] @ x[1],
                (STEPS,),
                (HALF, HALF),
            )
    for kernel in SMALL_MATMULS:
        yield Variant(
            f"small {kernel.name}",
            kernel,
            (2, 2),
            lambda rng: [small(rng, 64, 72), small(rng, 72, 32)],
            lambda x: x[0] @ x[1],
            (9,),
        )


# Tiles of single consumers --------------------------------------------------------------------------------------------


def consumers_with_own_tiles(depth: int) -> Any:
    """Two consumers, each of which multiplies its own tile in shared memory by the tile that both pop."""

    @tg.kernel
    def kernel(p: tg.array2d[tg.float16], v: tg.array2d[tg.float16], o: tg.array2d[float], n: int):
        values = tg.tile_pipe(shape=(128, depth), dtype=tg.float16, stages=2)
        with tg.ws(0):
            for j in range(n):
                tg.tile_pipe_load(values, v, offset=(j * 128, 0))
        with tg.ws(1):
            total = tg.tile_zeros(shape=(64, depth))
            for j in range(n):
                own_tile = tg.tile_load(p, shape=(64, 128), offset=(0, j * 128), storage="shared")
                tg.tile_matmul(own_tile, tg.tile_pipe_pop(values), total)
            tg.tile_store(o, total, offset=(0, 0))
        with tg.ws(2):
            total = tg.tile_zeros(shape=(64, depth))
            for j in range(n):
                own_tile = tg.tile_load(p, shape=(64, 128), offset=(64, j * 128), storage="shared")
                tg.tile_matmul(own_tile, tg.tile_pipe_pop(values), total)
            tg.tile_store(o, total, offset=(64, 0))

    return kernel


def masked_attention(x: Arrays) -> np.ndarray:
    q, k, v = x
    return (q @ k.T > 0).astype(np.float32) @ v


def launches_of_separate_tiles() -> Iterator[Variant]:
    for depth in (64, 128):
        kernel = consumers_with_own_tiles(depth)
        for n in (1, 2, 3, 4, 9):
            yield Variant(
                f"depth {depth}, {n} iterations",
                kernel,
                1,
                lambda rng, n=n, depth=depth: [small(rng, 128, 128 * n), small(rng, 128 * n, depth)],
                lambda x: x[0] @ x[1],
                (n,),
                (tg.float16, tg.float16),
            )
        for shared in ("shared", "register"):
            yield Variant(
                f"attention of depth {depth}, weights {shared}",
                attention(depth, shared),
                2,
                lambda rng, depth=depth: [small(rng, rows, depth) for rows in (4 * BM, 5 * BN, 5 * BN)],
                masked_attention,
                (5,),
                (tg.float16,) * 3,
            )


def chained() -> Iterator[Variant]:
    """A role squares popped tiles and pushes them to tensor cores."""

    @tg.kernel
    def squares(a: tg.array2d[HALF], b: tg.array2d[HALF], c: tg.array2d[float], n: int):
        raw = tg.tile_pipe(shape=(TM, TK), dtype=HALF, stages=2)
        left = tg.tile_pipe(shape=(TM, TK), dtype=HALF, stages=2)
        right = tg.tile_pipe(shape=(TK, TN), dtype=HALF, stages=3)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(raw, a, offset=(0, k * TK))
                tg.tile_pipe_load(right, b, offset=(k * TK, 0))
        with tg.ws(1):
            for _k in range(n):
                tile = tg.tile_pipe_pop(raw)
                tg.tile_pipe_push(left, tile * tile)
        with tg.ws(2):
            total = tg.tile_zeros(shape=(TM, TN))
            for _k in range(n):
                tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
            tg.tile_store(c, total)

    for n in (1, 2, 3, 12):
        yield Variant(
            f"{n} iterations",
            squares,
            1,
            lambda rng, n=n: [small(rng, TM, TK * n), small(rng, TK * n, TN)],
            lambda x: (x[0] * x[0]) @ x[1],
            (n,),
            (HALF, HALF),
        )


CASES: dict[str, Callable[[], Iterator[Variant]]] = {
    "two roles": lambda: trips(two_roles),
    "three roles": lambda: trips(three_roles),
    "four roles": lambda: trips(four_roles),
    "two producers": producers,
    "matmuls": matmuls,
    "tiles of concurrent roles": launches_of_separate_tiles,
    "a chain with tensor cores": chained,
}


def repeat(variant: Variant, launches: int) -> None:
    """Run a number of launches; AssertionError at the first wrong one."""
    for launch in range(launches):
        data = variant.data(np.random.default_rng(launch))
        expected = variant.expected(data)
        arrays = [
            tg.array(x, dtype=t)
            for x, t in zip(data, variant.dtypes or (tg.float32,) * len(data), strict=True)
        ]
        out = tg.full(expected.shape, 7.0, dtype=variant.out)
        tg.launch_tiled(variant.kernel, dim=variant.dim, inputs=arrays, outputs=[out, *variant.scalars])
        actual = out.numpy()
        wrong = np.argwhere(actual != expected)
        assert not len(wrong), f"{variant.name}, launch {launch}: {len(wrong)} wrong, the first at {wrong[0]}"


if __name__ == "__main__":
    case, device, count = sys.argv[1:]
    with tg.ScopedDevice(device):
        for variant in CASES[case]():
            repeat(variant, int(count))
            print(variant.name, flush=True)
