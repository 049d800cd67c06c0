"""Kernels in float64 that use each op with a gradient, and their launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tegula as tg

lang: Any = tg
D = tg.float64
Shape = tuple[int, ...]


@dataclass
class Case:
    """A kernel with inputs, uniformly distributed from `low` to `high`, and one output, launched in blocks of `block`
    threads."""

    kernel: Any
    inputs: Sequence[Shape]
    output: Shape
    dims: Shape
    block: int
    low: float
    high: float
    dtypes: Sequence[Any]

    def arguments(self, seed: int = 0) -> tuple[list[Any], Any]:
        rng = np.random.default_rng(seed)
        inputs = [
            tg.array(rng.uniform(self.low, self.high, (*s, *_element_shape(t))), dtype=t, requires_grad=True)
            for s, t in zip(self.inputs, self.dtypes, strict=True)
        ]
        return inputs, tg.zeros(
            self.output, dtype=self.dtypes[-1] if self.output == () else D, requires_grad=True
        )


def _element_shape(t: Any) -> Shape:
    return tuple(t().shape) if t is not D else ()


CASES: dict[str, Case] = {}


def case(
    *inputs: Shape,
    out: Shape,
    dims: Shape = (1,),
    block: int = 8,
    tiled: bool = True,
    low: float = -1.0,
    high: float = 1.0,
    dtypes: Sequence[Any] = (),
) -> Callable[[Any], Any]:
    """Register a kernel as a case; `tiled`: the launch has one block for each element of `dims`."""

    def register(function: Any) -> Any:
        launch_dims = (*dims, block) if tiled else dims
        input_dtypes = list(dtypes) or [D] * len(inputs)
        CASES[function.__name__] = Case(
            tg.kernel(function), inputs, out, launch_dims, block, low, high, input_dtypes
        )
        return function

    return register


@case((2, 8), (2, 8), out=(2, 8), dims=(2,), low=0.1)
def arithmetic(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    i = tg.tid()
    p, q = tg.tile_load(a[i], shape=8), tg.tile_load(b[i], shape=8)
    tg.tile_store(
        y[i], p * q - p / (q + 3.0) + tg.sqrt(p + 2.0) * 2.0 - tg.abs(q - 0.5) + (-p) // 2.0 + p**1.5
    )


@case((8,), (8,), (8,), out=(8,))
def selections(a: tg.array[D], b: tg.array[D], c: tg.array[D], y: tg.array[D]):
    p, q, r = tg.tile_load(a, shape=8), tg.tile_load(b, shape=8), tg.tile_load(c, shape=8)
    s = tg.max(p, q) * tg.min(q, r) + tg.clamp(r, -0.5, 0.5) + tg.copysign(p, q) + tg.fma(p, q, r)
    s += tg.diff_of_products(p, q, r, 0.5) * tg.diff_of_products(q, q, p, r)
    tg.tile_store(y, tg.where(p > q * 0.5, s, s * s) + tg.where(p[0] > 0.0, q, r))


@tg.func
def branch_and_loop(x: D, y: D, z: D):
    t = x * y
    if x > y:
        t = tg.sin(t) * z
    for _ in range(3):
        t = t * z + x
    return t


@case((8,), (8,), out=(8,), dims=(1,))
def maps(a: tg.array[D], b: tg.array[D], y: tg.array[D]):
    p, q = tg.tile_load(a, shape=8), tg.tile_load(b, shape=8)
    s = tg.tile_sum(p)[0]
    tg.tile_store(y, tg.tile_map(branch_and_loop, p, q, s) + tg.tile_map(branch_and_loop, D(0.5), p, p))


@case((2, 8), out=(1,))
def sums(a: tg.array2d[D], y: tg.array[D]):
    p = tg.tile_load(a, shape=(2, 8))
    s = tg.tile_sum(p * p, axis=0) * tg.tile_sum(p) + tg.tile_sum(p, axis=1)[1]
    tg.tile_store(y, tg.tile_sum(s * tg.tile_sum(p, axis=0, keepdims=True)) + tg.tile_dot(p, p * 2.0))


@case((4, 6), out=(4, 6))
def extremes(a: tg.array2d[D], y: tg.array2d[D]):
    p = tg.tile_load(a, shape=(4, 6))
    low, high = tg.tile_min(p, axis=0), tg.tile_max(p, axis=1, keepdims=True)
    tg.tile_store(y, p * low * high + tg.tile_max(p) * p - tg.tile_min(p) / (p + 3.0))


@case((8, 6), (6, 4), (8, 4), out=(8, 4))
def matmuls(a: tg.array2d[D], b: tg.array2d[D], c: tg.array2d[D], y: tg.array2d[D]):
    p, q, acc = tg.tile_load(a, shape=(8, 6)), tg.tile_load(b, shape=(6, 4)), tg.tile_load(c, shape=(8, 4))
    tg.tile_matmul(p, q, acc, alpha=a[0, 0], beta=b[0, 1])
    tg.tile_store(y, acc + p @ q * 2.0)


@case((4, 6), out=(6, 4))
def shapes(a: tg.array2d[D], y: tg.array2d[D]):
    t = tg.tile_load(a, shape=(4, 6))
    u = tg.tile_reshape(t, (6, 4)) * tg.tile_transpose(t)
    v = tg.tile_concat((u[:3], u[0:3] * 2.0), axis=0)
    w = tg.tile_broadcast(v[1], (6, 4)) * v[::-1]
    tg.tile_store(y, w * tg.tile_broadcast(tg.tile_squeeze(w[:, 1:2]), (4, 6)).T)


@case((4, 6), out=(4, 6))
def scans(a: tg.array2d[D], y: tg.array2d[D]):
    t = tg.tile_load(a, shape=(4, 6))
    s = tg.tile_scan_inclusive(t * t) + tg.tile_scan_exclusive(t) * t
    tg.tile_store(y, s + tg.tile_scan_max_inclusive(t) * t + tg.tile_scan_min_inclusive(t))


@case((86,), out=(86,), block=43)
def scans_of_two_warps(a: tg.array[D], y: tg.array[D]):
    """The second warp has 11 threads."""
    t = tg.tile_load(a, shape=86)
    s = tg.tile_scan_inclusive(t * t) * 0.01 + tg.tile_scan_exclusive(t) * t
    tg.tile_store(y, s + tg.tile_scan_max_inclusive(t) * t + tg.tile_scan_min_inclusive(t))


@case((4, 6), out=(5, 6))
def gathers(a: tg.array2d[D], y: tg.array2d[D]):
    t = tg.tile_load(a, shape=(4, 6))
    rows, cols = tg.tile_arange(5, dtype=int) // 2 * 3 - 1, tg.tile_arange(6, dtype=int) // 2
    tg.tile_store(y, (t * t)[rows, :] * t[1][cols])


@case((3,), out=(8,))
def fills(a: tg.array[D], y: tg.array[D]):
    t = tg.tile_full(8, a[0] * a[1], dtype=D) * tg.tile_arange(8, dtype=D)
    tg.tile_store(y, t * t + tg.tile_ones(8, dtype=D) * a[2])


@case((8,), out=(8,), dims=(8,), tiled=False)
def lanes(a: tg.array[D], y: tg.array[D]):
    j = tg.tid()
    x = a[j] * a[7 - j]
    t = tg.tile(x)
    f = tg.tile_from_thread(8, x * a[0], 3)
    y[j] = tg.untile(t * tg.tile_sum(t) * f) + x * tg.uniform(x) + a[1]


@case((11,), out=(11,), dims=(11,), tiled=False)
def partial_blocks(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    t = tg.tile(a[i])
    s = t * t - tg.tile_sum(t) * tg.tile_max(t)
    y[i] = tg.untile(s * tg.tile_scan_inclusive(t)) * a[2]


@case((3, 8), out=(4,), dims=(8,), tiled=False)
def vectors_of_lanes(a: tg.array2d[D], y: tg.array[D]):
    j = tg.tid()
    v = tg.vec3d(a[0, j], a[1, j], a[2, j])
    t = tg.tile(v)
    w = tg.untile(t * t)
    u = tg.tile(v, preserve_type=True)
    s = tg.tile_sum(u)[0]
    tg.atomic_add(y, j % 4, tg.dot(w, s))


@case((4,), out=(1,), dims=(4,), block=4, tiled=False)
def vectors(a: tg.array[D], y: tg.array[D]):
    j = tg.tid()
    v = tg.vec3d(a[0], a[1], a[2]) * (1.0 + D(j))
    m = tg.outer(v, tg.vec3d(a[3]))
    w = tg.normalize(m * v + tg.cross(v, tg.vec3d(a[1], a[2], a[0])) + tg.vec3d(D(1.0)))
    w[1] = w[0] * a[2]
    w[j] = v[2 - j % 3] * 0.5
    tg.atomic_add(y, 0, tg.dot(w, v) + tg.length(v + w) + w.y + tg.trace(m * m) + tg.transpose(m)[0, 1])


@case((5,), (5,), out=(5,), dtypes=(tg.vec3d, tg.mat33d))
def composites(a: tg.array[tg.vec3d], b: tg.array[tg.mat33d], y: tg.array[D]):
    v, m = tg.tile_load(a, shape=5), tg.tile_load(b, shape=5)
    w = tg.tile_map(scaled_transform, m, v)
    s = tg.tile_sum(w)[0]
    w[1] = w[0] * s[1]
    w[2, 1] = s[0] * v[3, 2]
    t = tg.tile_zeros(5, dtype=D)
    t[0] = s[0]
    t[1] += 0.125 * tg.dot(w[2], v[4])
    tg.tile_store(y, t + tg.tile_map(tg.length_sq, w * 0.5))


@tg.func
def scaled_transform(m: tg.mat33d, v: tg.vec3d):
    return m * v + v * m[0, 1]


@case((8, 6), out=(8, 6), dims=(2, 2))
def windows(a: tg.array2d[D], y: tg.array2d[D]):
    i, j = tg.tid()
    t = tg.tile_load(a, shape=(5, 4), offset=(i * 4, j * 4), fill=2.0)
    u = tg.tile_load(a[::-1, ::2], shape=(4, 3))
    tg.tile_store(y, t[0:4] * t[1:5] * tg.tile_sum(u * u), offset=(i * 4, j * 4))


@case((4, 6), out=(2, 3), dims=(3,))
def accumulations(a: tg.array2d[D], y: tg.array2d[D]):
    i = tg.tid()
    t = tg.tile_load(a, shape=(2, 3), offset=(i, i))
    tg.tile_atomic_add(y, t * t)
    tg.atomic_sub(y, 0, 1, 0.125 * a[i, 0] * a[i, 1])


@case((6, 5), out=(7, 6))
def tile_offsets(a: tg.array2d[D], y: tg.array2d[D]):
    i = tg.tid()
    rows = tg.tile_arange(4, dtype=int) * 2 - i
    t = tg.tile_load_indexed(a, rows, shape=(4, 3), offset=(0, i), other=2.0)
    tg.tile_store_indexed(y, tg.tile_arange(3, dtype=int) * 2 + i, t * t, axis=1)
    tg.tile_atomic_add_indexed(y, rows % 3, t * t * t, offset=(4, 1 + i))
    u = tg.tile_load(a, shape=(2, 6), offset=(i, 1), mask=tg.tile_arange(6) > 2.0, other=a[0, 0])
    tg.tile_store(
        y, u * u, offset=(i * 5, 0), mask=tg.tile_reshape(tg.tile_arange(2, dtype=int), (2, 1)) == i
    )


@case((6, 4), (6, 4), out=(6, 4))
def indexed_tiles(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    t, s = tg.tile_load(a, shape=(6, 4)), tg.tile_load(b, shape=(6, 4))
    k = tg.tile_arange(4, dtype=int) * 2 % 5
    t[k] = s[k] * t[0:4]
    t[:, k % 3] += s[:, k] * s[:, 0, None]
    t[s > 0.0] = t * s
    t[k, k % 4] = s[k % 2, k % 4] * a[k, k % 3]
    y[k, 1:4] = t[k % 2, 0:3]
    y[k * 0, 0:2] += s[k, 2:4] * t[k, 0:2]


@case((6, 6), (6,), out=(6, 6))
def subtiles(a: tg.array2d[D], d: tg.array[D], y: tg.array2d[D]):
    t, e = tg.tile_load(a, shape=(6, 6)), tg.tile_load(d, shape=6)
    u = tg.tile_diag_add(t, e * e)
    v = tg.tile_pad(u[1:5, 1:5], 1, 0.5)
    tg.tile_assign(u, v[0:2, 0:3] * 2.0, offset=(2, 1))
    u[0:2, :] = u[2:4, :] * t[0:2, :]
    tg.tile_axpy(e[1], t, u)
    tg.tile_store(y, u * v)


@case((8,), out=(8,))
def elements(a: tg.array[D], y: tg.array[D]):
    t = tg.tile_load(a, shape=8, storage="shared")
    u = t
    t[3] = t[1] * t[2]
    u[2] += 0.125 * t[3]
    t[7] -= 0.125 * u[2] * u[2]
    s = t[3] * u[2]
    t *= t
    tg.tile_store(y, u * s)


@case((8,), out=(8,), dims=(8,), tiled=False)
def scatters(a: tg.array[D], y: tg.array[D]):
    j = tg.tid()
    t = tg.tile_zeros(8, dtype=D, storage="shared")
    tg.tile_scatter_add(t, j // 2, a[j] * a[j], j != 3)
    tg.tile_scatter_masked(t, 7 - j, a[j] * t[7 - j], j % 2 == 0)
    if j == 5:
        t[0] = a[1] * a[j]
    tg.tile_store(y, t * t)


@case((8,), out=(8,), dims=(8,), tiled=False)
def tree(a: tg.array[D], y: tg.array[D]):
    j = tg.tid()
    t = tg.tile_load(a, shape=8, storage="shared")
    k = 4
    while k > 0:
        if j < k:
            t[j] += t[j + k] * t[j]
        k //= 2
    tg.tile_store(y, t)


@case((12,), out=(12,), dims=(12,), tiled=False)
def control_flow(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    if i == 11:
        return
    x = a[i]
    for k in range(8):
        if k > i:
            break
        if k % 3 == 1:
            continue
        x = tg.sin(x * a[k] + 1.0) if x > 0.0 else x * x + a[0]
    y[i] = x


@case((2, 8), out=(2,), dims=(2,))
def uniform_scalars(a: tg.array2d[D], y: tg.array[D]):
    i = tg.tid()
    s = a[i, 2] * a[i, 3]
    if s > 0.0:
        s = s * s + a[0, 0]
    p = tg.tile_load(a[i], shape=8) * s
    y[i] = tg.tile_sum(p * p)[0] * s


@case((4,), out=(4,), dims=(4,), block=1, tiled=False)
def stores_over_stores(a: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = a[i] * 3.0
    tg.atomic_add(y, i, a[i] * a[i])
    y[i] = a[i] * a[3 - i]


@case((4,), (4,), out=(4,), dims=(4,), block=4, tiled=False, low=0.2)
def powers(a: tg.array[D], b: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = tg.pow(a[i], b[3 - i]) - tg.hypot(a[0], -b[i]) * -a[i] + tg.atan2(a[i], b[i])


@case((6,), out=(2,))
def element_of_tiles(a: tg.array[D], y: tg.array[D]):
    t = tg.tile_load(a, shape=6)
    u = t * t
    s = u[1] * t[5] - u[1]
    for k in range(3):
        s = s * u[k + 2] + t[k]
    tg.tile_store(y, tg.tile_full(2, s, dtype=D) * u[4:6])


@case((8, 6), (6, 4), out=(8, 4))
def matmuls_in_flight(a: tg.array2d[D], b: tg.array2d[D], y: tg.array2d[D]):
    p, q = tg.tile_load(a, shape=(8, 6)), tg.tile_load(b, shape=(6, 4))
    acc = tg.tile_zeros(shape=(8, 4), dtype=D)
    tg.tile_matmul(p, q, acc, wait=False)
    tg.tile_matmul(p, q, acc, wait=False)
    tg.tile_matmul_wait()
    tg.tile_store(y, acc * acc)


@case((7,), (7,), out=(7,), dims=(7,), block=4, tiled=False)
def absent_lanes(a: tg.array[D], b: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    t, u = tg.tile(a[i]), tg.tile(b[i] * a[i])
    s = tg.tile_load(a, shape=4) * t + u
    u += tg.tile_load(b, shape=4)
    tg.tile_assign(t, tg.tile_load(b, shape=4) * tg.tile_load(a, shape=4))
    m = tg.tile_broadcast(tg.tile_reshape(s, (4, 1)), (4, 4)) @ tg.tile_broadcast(u, (4, 4))
    y[i] = tg.untile(tg.tile_sum(m, axis=1) * s + tg.tile_scan_inclusive(u) * t)


@case((2, 12), out=(3, 12), dims=(12,), tiled=False)
def segments(a: tg.array2d[D], y: tg.array2d[D]):
    j = tg.tid()
    x = a[0, j] * a[1, j]
    v = tg.lane_xor(tg.vector(x, a[1, j]), 3, 4)
    y[0, j] = tg.lane_shuffle(x, j * 3 + 1, 8) * a[0, j] + v[0] * v[1]
    y[1, j] = tg.lane_sum(x * x, 4) * x + tg.lane_shuffle(x, 2, 4) * a[1, j]
    y[2, j] = tg.lane_max(x, 8) * tg.lane_min(a[0, j], 16) + tg.lane_sum(a[0, 0]) * x
    y[2, j] += tg.lane_collect(x, j * j, 8) * x


@case((70,), out=(70,), dims=(70,), block=128, tiled=False)
def wide_segments(a: tg.array[D], y: tg.array[D]):
    j = tg.tid()
    x = a[j]
    s = tg.lane_sum(x * x, 64) + tg.lane_max(x, 128)
    y[j] = s * tg.lane_shuffle(x, j * 5, 128) + tg.lane_xor(x, 32, 64)


@case((12,), out=(12,), dims=(12,), tiled=False)
def spilled_values(a: tg.array[D], y: tg.array[D]):
    j = tg.tid()
    pair = lang._spill(tg.vector(a[j] * a[j], tg.sin(a[j])))
    s = a[j]
    for _ in range(3):
        reloaded = lang._reload(pair)
        s = s * reloaded[0] + reloaded[1]
    y[j] = s * lang._reload(pair)[1]


@case((5, 9), (2, 4, 4), out=(5, 9), block=16)
def local_tiles(a: tg.array2d[D], b: tg.array3d[D], y: tg.array2d[D]):
    v = tg.tile_local(tg.tile_load(a, shape=(5, 9)), (2, 8))
    w = tg.tile_local(tg.tile_load(b, shape=(2, 4, 4)), (2, 2, 4))
    tg.tile_store(y, tg.tile_from_local(tg.cw_mul(v, v) * tg.lane_sum(w[1, 0], 8), (2, 8), (5, 9)))


@case((3, 3), (3, 2), (3,), out=(3, 2), low=0.5)
def cooperative_calls(a: tg.array2d[D], b: tg.array2d[D], c: tg.array[D], y: tg.array2d[D]):
    p, r = tg.tile_load(a, shape=(3, 3)), tg.tile_load(b, shape=(3, 2))
    for _ in range(2):
        r = r * tg.tile_lower_solve(p * p, r)
    t = tg.tile_lower_solve(p, tg.tile_load(c, shape=3))
    tg.tile_store(y, r + tg.tile_reshape(t, (3, 1)))


WEIGHTS = np.linspace(-1.0, 1.0, 100)


@case((8,), (8, 4), out=(8,), dims=(8,), tiled=False)
def vector_slices_and_tables(a: tg.array[D], b: tg.array2d[D], y: tg.array[D]):
    j = tg.tid()
    s = tg.tile_load(b, shape=(8, 4), storage="shared")
    v = tg.vector(s[7 - j, :3])
    v[1:] = v[0:2] * a[j]
    w = tg.outer(v, v)[1:, :2]
    y[j] = WEIGHTS[j * 12] * tg.dot(v[0:2], w[:, 0]) + w[1, 1]


@case((8,), out=(8,), dims=(8,), tiled=False)
def unrolled(a: tg.array[D], y: tg.array[D]):
    j = tg.tid()
    v, s = tg.vector(a[j], a[0], a[7 - j]), D(0.0)
    for k in tg.unrolled(3):
        s = s * v[k] + v[(k + 1) % 3] * tg.lane_xor(a[j], k, 4)
        v[k] = s
    y[j] = s * v[1]
