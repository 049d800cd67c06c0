"""Kernels with loops, for tests of their gradients."""

from __future__ import annotations

import tegula as tg

D = tg.float64


@tg.kernel
def reassigned(a: tg.array2d[D], b: tg.array2d[D], c: tg.array2d[D]):
    i, j = tg.tid()
    acc = tg.tile_zeros(shape=(8, 4), dtype=D)
    x = tg.tile_load(a, shape=(8, 8), offset=(i * 8, 0), storage="register")
    y = tg.tile_load(b, shape=(8, 4), offset=(0, j * 4), storage="register")
    count = int(a.shape[1] / 8)
    for k in range(1, count):
        x_next = tg.tile_load(a, shape=(8, 8), offset=(i * 8, k * 8), storage="register")
        y_next = tg.tile_load(b, shape=(8, 4), offset=(k * 8, j * 4), storage="register")
        tg.tile_matmul(x, y, acc)
        x = x_next
        y = y_next
    tg.tile_matmul(x, y, acc)
    tg.tile_store(c, acc, offset=(i * 8, j * 4))


@tg.kernel
def pipelined(a: tg.array2d[D], b: tg.array2d[D], c: tg.array2d[D]):
    i, j = tg.tid()
    acc = tg.tile_zeros(shape=(8, 4), dtype=D)
    for k in tg.pipelined(a.shape[1] // 8, stages=3):
        x = tg.tile_load(a, shape=(8, 8), offset=(i * 8, k * 8))
        y = tg.tile_load(b, shape=(8, 4), offset=(k * 8, j * 4))
        tg.tile_matmul(x, y, acc)
    tg.tile_store(c, acc, offset=(i * 8, j * 4))


@tg.kernel
def recurrent(w: tg.array2d[D], b: tg.array2d[D], n: int, c: tg.array2d[D]):
    m, h = tg.tile_load(w, shape=(8, 8)), tg.tile_load(b, shape=(8, 4))
    s = w[0, 0]
    for _ in range(n):
        h = tg.tanh(m @ h * 0.2) + h * 0.5 * s
        s = tg.sin(s + 1.0)
    tg.tile_store(c, h)


@tg.kernel
def trip_counts_in_while(a: tg.array2d[D], n: int, c: tg.array[D]):
    i = tg.tid()
    x = a[0, i]
    k = 0
    while k < n + i:
        x = tg.sin(x + a[1, i] * 0.3 * x)
        k += 1
    if x > 0.0:
        for _ in range(n):
            x = x * 0.9 + tg.sin(x) * 0.1
    c[i] = x


@tg.kernel
def loop_until_small(a: tg.array2d[D], n: int, c: tg.array[D]):
    i = tg.tid()
    t = tg.tile_load(a[i], shape=4)
    s = tg.tile_sum(t * t)[0] * D(n)
    while s > 0.01:
        t = t * 0.7 + tg.sin(t) * 0.1
        s = tg.tile_sum(t * t)[0]
    tg.tile_store(c, t, offset=i * 4)


@tg.kernel
def updates_in_place(a: tg.array2d[D], n: int, c: tg.array[D]):
    j = tg.tid()
    t = tg.tile_load(a[0], shape=8, storage="shared")
    u = t[2:6]
    for k in range(n):
        t[k % 8] = tg.sin(t[(k + 1) % 8] * 1.5)
        t[j] += 0.0625 * t[j] * t[j]
        u *= tg.tile_load(a[1], shape=4)
        tg.tile_assign(t, tg.sin(t))
        for q in range(k % 3):
            u += 0.1 * t[q] * u
    tg.tile_store(c, t)


@tg.kernel
def nested(a: tg.array2d[D], n: int, c: tg.array[D]):
    t = tg.tile_load(a[0], shape=4)
    for k in range(n):
        u = t * 0.5
        for q in range(k % 4):
            if q == 2:
                break
            u = tg.sin(u * tg.tile_load(a[k % 4], shape=4, offset=q)) + t * 0.1
        t = u if k % 2 == 0 else u * u + 0.3
    tg.tile_store(c, t)


@tg.kernel
def trip_counts_per_lane(a: tg.array2d[D], n: int, c: tg.array[D]):
    i = tg.tid()
    x = a[0, i]
    for _ in range(i % 4 * n):
        x = tg.sin(x * 0.9 + a[1, i])
    x += tg.tile_sum(tg.tile(x))[0] * 0.1
    for _ in range(n):
        x = tg.sin(x * 0.9 + a[0, i])
    c[i] = x


@tg.kernel
def trip_counts_shared_by_some_lanes(a: tg.array2d[D], n: int, c: tg.array[D]):
    i, j = tg.tid()
    for p in range(j % 3):
        x = a[1, p]
        y = a[0, 1]
        for _ in range(n):
            x = tg.sin(x * x + 0.5)
            y = tg.sin(y * y + 0.5)
        c[i * 8 + j] = x * a[0, j] + y
