"""Kernels with structs, and arrays of structs for their launches."""

from __future__ import annotations

from typing import Any

import numpy as np

import tegula as tg

N = 24


@tg.struct
class Body:
    mass: float
    position: tg.vec3
    kind: tg.int8


@tg.struct
class Pair:
    first: Body
    weight: tg.float64
    rotation: tg.mat22
    count: int


@tg.struct
class World:
    step: float
    wind: tg.vec3
    heights: tg.array[float]
    pair: Pair


def bodies(count: int = N, seed: int = 0, **options: Any) -> tg.array:
    """Bodies whose fields are small integers, so that sums are exact."""
    random = np.random.default_rng(seed)
    data = np.zeros(count, Body.numpy_dtype())
    data["mass"] = random.integers(-9, 9, count)
    data["position"] = random.integers(-9, 9, (count, 3))
    data["kind"] = random.integers(-9, 9, count)
    return tg.array(data, dtype=Body, **options)


def pairs(count: int = N, seed: int = 0, **options: Any) -> tg.array:
    """Pairs whose fields are small integers."""
    random = np.random.default_rng(seed)
    data = np.zeros(count, Pair.numpy_dtype())
    data["first"] = bodies(count, seed).numpy()
    data["weight"] = random.integers(-9, 9, count)
    data["rotation"] = random.integers(-9, 9, (count, 2, 2))
    data["count"] = random.integers(0, 4, count)
    return tg.array(data, dtype=Pair, **options)


def world() -> Any:
    """A world with N heights."""
    instance = World()
    instance.step, instance.wind, instance.heights = 0.5, (1, 2, 3), tg.array(np.arange(N, dtype=np.float32))
    instance.pair.weight, instance.pair.rotation, instance.pair.first.mass = 3, [[1, 2], [3, 4]], 8
    return instance


@tg.func
def move(b: Body, displacement: tg.vec3) -> Body:
    b.position += displacement
    b.position[1] = 7.0
    return b


@tg.func
def larger_mass(a: Body, b: Body):
    if a.mass >= b.mass:
        return a
    return b


@tg.func
def swap_fields(p: Pair) -> Pair:
    result = Pair()
    result.first.mass = p.first.position[0]
    result.first.position = tg.vec3(p.first.mass, 1.0, p.first.position[2])
    result.first.kind = p.first.kind
    result.weight, result.rotation, result.count = (
        p.weight * tg.float64(2.0),
        tg.transpose(p.rotation),
        p.count + 1,
    )
    return result


@tg.func
def merge(a: Body, b: Body) -> Body:
    return Body(mass=a.mass + b.mass, position=tg.max(a.position, b.position), kind=tg.min(a.kind, b.kind))


@tg.kernel
def fields(world: World, a: tg.array[Pair], out: tg.array[Pair]):
    i = tg.tid()
    local = world.pair
    local.first.mass += world.heights[i] * world.step
    local.first.position[2] = world.wind.y
    a[i].count += 3
    a[i].first.position[0] = 5.0
    a[i].first.position.y += 2.0
    copied = local
    local.count = a[i].count
    out[i] = local
    out[i].first = move(copied.first, a[i].first.position)
    out[i].rotation[0, 1] = 4.0


@tg.kernel
def control_flow(a: tg.array[Pair], out: tg.array[Pair]):
    i = tg.tid()
    p = a[i]
    best = Body(0.0, tg.vec3(), tg.int8(1))
    for k in range(a.shape[0]):
        q = a[k]
        if q.count == p.count:
            best = larger_mass(best, q.first)
            if best.mass > 6.0:
                break
    n = 0
    while n < p.count:
        p.first.position = best.position if n % 2 == 0 else p.first.position
        p.rotation[1, 0] += 1.0
        n += 1
    if p.weight > tg.float64(0.0):
        p.first = best
    out[i] = p


@tg.kernel
def tiles(a: tg.array[Pair], out: tg.array[Pair], flat: tg.array2d[Pair], sums: tg.array[Body]):
    i = tg.tid()
    t = tg.tile_load(a, shape=8, offset=i * 8, storage="shared")
    u = tg.tile_map(swap_fields, t)
    u += t
    u[3] = t[1]
    u[2] -= t[2]
    tg.tile_store(out, u, offset=i * 8)
    tg.tile_store(flat, tg.tile_transpose(tg.tile_reshape(u, shape=(2, 4))), offset=(i * 4, 0))
    b = tg.tile_load(a, shape=8, offset=i * 8)
    first = tg.tile_map(first_body, b)
    total = tg.tile_sum(first)
    merged_body = tg.tile_reduce(merge, first)
    tg.tile_store(sums, total, offset=3 * i)
    tg.tile_store(sums, merged_body, offset=3 * i + 1)
    tg.tile_atomic_add(sums, tg.tile_view(first, offset=(5,), shape=(1,)), offset=3 * i + 2)


@tg.func
def first_body(p: Pair) -> Body:
    return p.first


@tg.kernel
def threads(a: tg.array[Body], out: tg.array[Body], counts: tg.array[int]):
    i, lane = tg.tid()
    value = a[i * 8 + lane]
    broadcast = tg.tile_from_thread(shape=4, value=value, thread_idx=3)
    tg.tile_store(out, broadcast, offset=i * 32)
    result = tg.tile_zeros(8, dtype=Body, storage="shared")
    result[lane] = larger_mass(value, a[0])
    tg.tile_scatter_add(result, 0, value, lane % 2 == 0)
    tg.tile_store(out, result, offset=i * 32 + 8)
    stack = tg.tile_stack(capacity=8, dtype=Body)
    slot = tg.tile_stack_push(stack, value, lane > 2)
    counts[i * 8 + lane] = slot + 10 * tg.tile_stack_count(stack)
    popped, popped_index = tg.tile_stack_pop(stack)
    if popped_index >= 0:
        out[i * 32 + 16 + lane] = popped
    keys = tg.tile_arange(8, 0, -1, dtype=int)
    values = tg.tile_load(a, shape=8, offset=i * 8)
    tg.tile_sort(keys, values)
    tg.tile_store(out, tg.tile_map(tg.where, keys > 4, values, result), offset=i * 32 + 24)


@tg.kernel
def loops(a: tg.array[Body], out: tg.array[Body]):
    i = tg.tid()
    t = tg.tile_load(a, shape=8, offset=i * 8)
    for k in range(3):
        if k != 1:
            t = tg.tile_map(move, t, tg.vec3(1.0, 2.0, 3.0))
        else:
            t[k] = Body(mass=1.0, position=tg.vec3(4.0), kind=tg.int8(3))
        t += t
    row = t[2:6:2]
    row[1] = t[0]
    tg.tile_store(out, t, offset=i * 8)
