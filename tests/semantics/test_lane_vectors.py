"""Vectorised lanes compute the interpreter's results bit for bit: for each target, for block sizes with and without a
remainder, and with absent lanes. GPUs run the kernels whose lanes write different elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg
from tegula.target import get_target

pytestmark = pytest.mark.machine_code

NARROW = pytest.param("x86-64-v3", marks=pytest.mark.cpu)
TARGETS = [NARROW, "native"] if get_target().vector_bytes > 32 else ["native"]
SIZES = ((64, 16), (75, 25), (40, 32))
RNG = np.random.default_rng(3)


@pytest.fixture(params=TARGETS, autouse=True)
def target(request: pytest.FixtureRequest) -> Iterator[None]:
    previous = tg.config.cpu_target
    tg.config.cpu_target = request.param
    yield
    tg.config.cpu_target = previous


def floats(*shape: int, dtype: Any = np.float32) -> tg.array:
    """Multiples of a quarter: sums and products of them are exact, contracted or not."""
    return tg.array((RNG.integers(-32, 32, shape) / 4).astype(dtype))


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> tg.array:
    return tg.array(RNG.integers(low, high, shape).astype(dtype))


@tg.kernel
def branches(x: tg.array[Any], y: tg.array[Any]):
    i = tg.tid()
    v = x[i]
    if v > 0.0:
        y[i] = v * y[i] + tg.sqrt(v)
        if v > 2.0:
            y[i] -= v
    elif v < -3.0:
        y[i] = -v


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_branches_run_under_masks(dtype: str, size: tuple[int, int]) -> None:
    agree(branches, [floats(size[0], dtype=dtype), floats(size[0], dtype=dtype)], *size)


@tg.kernel
def heavy_branches(x: tg.array[float], y: tg.array[float], k: int):
    i = tg.tid()
    if x[i] > 0.0:
        y[i] = tg.max(tg.exp(x[i]), tg.sin(x[i])) - y[k]
    else:
        y[i] = tg.log(1.0 - x[i])


@pytest.mark.parametrize("size", SIZES)
def test_long_branches_that_no_lane_takes_are_skipped(size: tuple[int, int]) -> None:
    n = size[0]
    agree(heavy_branches, [floats(n), floats(n + 1), n], *size)
    agree(heavy_branches, [tg.full(n, -1.0, dtype=tg.float32), floats(n), 1 << 30], *size)


@tg.kernel
def loops(x: tg.array[int], y: tg.array[int]):
    i = tg.tid()
    n = x[i]
    steps = 0
    while n > 1:
        steps += 1
        if steps > 20:
            break
        if n % 2 == 0:
            n = n // 2
            continue
        n = 3 * n + 1
    total = 0
    for k in range(x[i] % 7, x[i] % 13, 2):
        for m in range(k):
            total += k * m
    for k in range(x[i] % 9, x[i] % 5 - 3, -1):
        total = total * 3 + k
    y[i] = total * 100 + steps


@pytest.mark.parametrize("size", SIZES)
def test_divergent_loops_run_until_no_lane_is_active(size: tuple[int, int]) -> None:
    agree(loops, [integers(0, 1000, size[0]), integers(0, 1, size[0])], *size)


@tg.kernel
def dynamic_step(x: tg.array[int], y: tg.array[int]):
    i = tg.tid()
    total = 0
    for k in range(-10, 10, x[i]):
        total = total * 3 + k
    y[i] = total


@pytest.mark.parametrize("size", SIZES)
def test_steps_may_differ_between_lanes(size: tuple[int, int]) -> None:
    agree(dynamic_step, [integers(1, 6, size[0]), integers(0, 1, size[0])], *size)


@tg.kernel
def returns(x: tg.array[int], y: tg.array[int]):
    i = tg.tid()
    if x[i] < 0:
        return
    for k in range(x[i]):
        if k * k > 50:
            y[i] = k
            return
        y[i] += k


@pytest.mark.parametrize("size", SIZES)
def test_lanes_that_returned_have_no_effects(size: tuple[int, int]) -> None:
    agree(returns, [integers(-4, 12, size[0]), integers(0, 5, size[0])], *size)


@tg.kernel
def permute(index: tg.array[int], x: tg.array[Any], y: tg.array[Any], z: tg.array[Any]):
    i = tg.tid()
    y[index[i]] = x[i]
    if index[i] > 3:
        z[i] = x[index[i]]


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "int32", "float32", "int64", "float64"]
)
@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.cpu
def test_scatters_to_one_element_store_the_last_lane(dtype: str, size: tuple[int, int]) -> None:
    n, t = size[0], getattr(tg, dtype)
    x = tg.array(RNG.integers(0, 2 if dtype == "bool" else 100, n).astype(np.float32), dtype=t)
    agree(permute, [integers(0, size[1], n), x, tg.zeros(n, dtype=t), tg.zeros(n, dtype=t)], n, n)


def test_gathers_and_scatters_of_permutations_match_the_interpreter() -> None:
    n = 75
    index = tg.array(RNG.permutation(n).astype(np.int32))
    agree(permute, [index, floats(n), floats(n), floats(n)], n, n)


@tg.kernel
def stencil(x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    n = x.shape[0]
    y[i] = x[tg.max(i - 1, 0)] + 2.0 * x[i] + x[tg.min(i + 1, n - 1)]
    if i > 0 and i < n - 1:
        y[i] += x[i + 1] - x[i - 1]


@tg.kernel
def unsigned(x: tg.array[float], y: tg.array[float]):
    i = tg.uint32(tg.tid())
    unit = tg.uint32(1)
    if i > tg.uint32(0):
        y[i] = x[i - unit]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kernel", [stencil, unsigned])
def test_neighbours_end_at_borders(kernel: Any, size: tuple[int, int]) -> None:
    agree(kernel, [floats(size[0]), floats(size[0])], *size)


@tg.kernel
def guarded_offset(x: tg.array[float], y: tg.array[float], offset: int, unreached: int):
    i = tg.tid()
    if i + offset < x.shape[0] and i + offset > 0:
        y[i] = x[i + offset]
    if i > unreached:
        y[i] = x[unreached] + y[unreached]


@pytest.mark.parametrize("offset", [5, -5, 2**31 - 12, -(2**31) + 3])
def test_inactive_lanes_access_no_element(offset: int) -> None:
    agree(guarded_offset, [floats(64), floats(64), offset, 1 << 30], 64, 32)


@tg.kernel
def plane(x: tg.array2d[float], y: tg.array2d[float], z: tg.array[int]):
    i, j = tg.tid()
    y[i, j] = x[i, j] * 2.0 + y[i, j]
    if x[i, j] > 0.0:
        z[i * x.shape[1] + j] = i * 1000 + j


@tg.kernel
def matmul(a: tg.array2d[float], b: tg.array2d[float], c: tg.array2d[float], v: tg.array[tg.vec3]):
    """A matmul with one element per lane; whole rows of `v` are loaded per lane."""
    i, j = tg.tid()
    if i % 3 != 1:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total + v[i // 2][1]


@tg.kernel
def volume(x: tg.array3d[float], y: tg.array3d[float]):
    i, j, k = tg.tid()
    y[i, j, k] = x[i, j, k] + float(i * 100 + j * 10 + k)


@pytest.mark.parametrize("shape", [(3, 50), (7, 5), (2, 64), (40, 1)])
@pytest.mark.parametrize("block_dim", [16, 32])
def test_rows_may_end_between_lanes(shape: tuple[int, int], block_dim: int) -> None:
    n = shape[0] * shape[1]
    agree(plane, [floats(*shape), floats(*shape), integers(0, 1, n)], shape, block_dim)
    small = tg.array(RNG.integers(-4, 4, (shape[0], 5)).astype(np.float32))
    wide = tg.array(RNG.integers(-4, 4, (5, shape[1])).astype(np.float32))
    points = tg.array(RNG.integers(-4, 4, (shape[0], 3)).astype(np.float32), dtype=tg.vec3)
    agree(matmul, [small, wide, floats(*shape), points], shape, block_dim)
    agree(volume, [floats(2, *shape), floats(2, *shape)], (2, *shape), block_dim)


@tg.kernel
def vectors(p: tg.array[Any], q: tg.array[Any]):
    i = tg.tid()
    v = p[i]
    q[i] = v + q[i]
    if i % 3 > 0:
        q[i] = v * 2.0


@pytest.mark.parametrize("t", [tg.vec2, tg.vec3, tg.vec4, tg.vec3d, tg.mat22, tg.mat33])
@pytest.mark.parametrize("size", SIZES)
def test_components_of_vectors_are_extracted_per_lane(t: Any, size: tuple[int, int]) -> None:
    n = size[0]
    shape = (n, t.length) if hasattr(t, "length") else (n, t.rows, t.cols)
    wide = np.float64 if t is tg.vec3d else np.float32
    arguments = [tg.array((RNG.standard_normal(shape) * 4).astype(wide), dtype=t) for _ in range(2)]
    agree(vectors, arguments, *size)


@tg.kernel
def matrix_vectors(p: tg.array2d[float], q: tg.array[float]):
    i = tg.tid()
    row = p[i]
    part = p[i, 1:4]
    total = 0.0
    for k in range(row.shape[0]):
        total = total * 0.5 + row[k]
    q[i] = total + part[i % 3]


@pytest.mark.parametrize("size", SIZES)
def test_views_that_differ_between_lanes_match_the_interpreter(size: tuple[int, int]) -> None:
    agree(matrix_vectors, [floats(size[0], 5), floats(size[0])], *size)


@tg.kernel
def atomics(x: tg.array[int], slots: tg.array[int], old: tg.array[int], y: tg.array[float]):
    i = tg.tid()
    v = x[i] * 3 + 1
    v = v ^ (v >> 2) ^ (v << 1)
    w = v * v + v // 3 + v % 11 + tg.abs(v - 40) * 2
    if x[i] % 3 != 0:
        old[i] = tg.atomic_add(slots, x[i] % 4, w)
        old[i] += tg.atomic_cas(slots, 5 + x[i] % 3, 0, w)
    tg.atomic_add(y, 0, tg.float32(w) * 0.1 + 1.0)
    tg.atomic_max(slots, 4, w - v)


@pytest.mark.cpu
def test_atomics_execute_lanes_in_order() -> None:
    for n in (16, 32, 75):
        agree(atomics, [integers(0, 100, n), integers(0, 1, 8), integers(0, 1, n), floats(1)], n, n)


@tg.kernel
def shared_tiles(x: tg.array[float], y: tg.array[float]):
    i, j = tg.tid()
    t = tg.tile_zeros(32, dtype=float, storage="shared")
    counts = tg.tile_zeros(4, dtype=int, storage="shared")
    t[j] = x[i * 32 + j]
    counts[j % 4] += j
    k = 16
    while k > 0:
        if j < k:
            t[j] += t[j + k]
        k //= 2
    y[i * 32 + j] = t[j - 1] + float(counts[3 - j % 4])


def test_elements_of_tiles_match_the_interpreter() -> None:
    agree(shared_tiles, [floats(64), floats(64)], 2, 32, tiled=True)


@tg.kernel
def vector_between_reductions(x: tg.array[float], y: tg.array[float], z: tg.array[tg.vec3]):
    i = tg.tid()
    v = x[i] * 2.0
    p = tg.vec3(v, v + 1.0, v * v)
    positive = v > 0.0
    total = tg.tile_sum(tg.tile(v))
    count = tg.tile_max(tg.tile(i))
    if positive:
        p = p * total[0]
    y[i] = v + float(count[0])
    z[i] = p


@pytest.mark.parametrize("size", [(64, 16), (32, 32), (40, 32)])
def test_values_stay_live_between_lane_loops(size: tuple[int, int]) -> None:
    n = size[0]
    x = tg.array(RNG.integers(-8, 8, n).astype(np.float32))
    agree(vector_between_reductions, [x, floats(n), tg.zeros(n, dtype=tg.vec3)], *size)


@tg.kernel
def integer_divisions(a: tg.array[Any], b: tg.array[Any], y: tg.array[Any]):
    i = tg.tid()
    u = a[i]
    v = b[i]
    w = u // v + u % v
    w = w + u / v
    if v > w:
        w = (w << (v & v)) + (w >> v)
    y[i] = w


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_vectorised_integers_divide_and_shift_like_the_interpreter(dtype: str) -> None:
    info = np.iinfo(dtype)
    a = RNG.integers(info.min, info.max, 75, dtype=dtype, endpoint=True)
    b = RNG.integers(max(info.min, -4), 5, 75).astype(dtype)
    a[:3], b[:3] = info.min, (-1 if info.min else 1, 0, 1)
    agree(integer_divisions, [tg.array(a), tg.array(b), tg.zeros(75, dtype=getattr(tg, dtype))], 75, 25)


@tg.kernel
def iterations(x: tg.array[float], y: tg.array[float], n: int):
    i, j = tg.tid()
    t = tg.tile_zeros(32, dtype=float, storage="shared")
    hits = tg.tile_zeros(2, dtype=int, storage="shared")
    t[j] = x[i * 32 + j]
    accumulator = 0.0
    for k in range(n):
        t[(j + k) % 32] = t[j] + 1.0
        accumulator = accumulator * 0.5 + t[31 - j]
    for k in range(n):
        hits[0] = hits[0] + 1
        accumulator += float(k)
    if n > 2:
        if accumulator > 3.0:
            accumulator -= 1.0
        hits[1] += 1
    while accumulator < 8.0 and n < 5:
        accumulator += 1.0
    y[i * 32 + j] = accumulator + t[j] + float(hits[0] + hits[1])


@pytest.mark.parametrize("n", [0, 3, 6])
def test_uniform_loops_match_the_interpreter(n: int) -> None:
    agree(iterations, [floats(64), floats(64), n], 2, 32, tiled=True)
