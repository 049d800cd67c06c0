"""Names, objects and functions of tiles."""

from __future__ import annotations

import numpy as np
import pytest
from traced_kernels import launched, ops_named, traced, zeros

import tegula as tg
from tegula import errors as E
from tegula.lang import array1d, array2d, func, tile
from tegula.lang.decorators import kernel

M, N = 4, 8


def data(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_row_sums_match_numpy() -> None:
    @kernel
    def rows(a: array2d[float], out: array2d[float]):
        i = tg.tid()
        t = tg.tile_load(a[i], N)
        tg.tile_store(out[i], tg.tile_sum(t))

    a, out = data(6, N), zeros(6, 1)
    launched(rows, a, out, dims=(6, 4))
    np.testing.assert_array_equal(out[:, 0], a.sum(axis=1))


def test_rotated_tiles_of_a_pipelined_loop_match_numpy() -> None:
    @kernel
    def rotate(a: array2d[float], out: array2d[float]):
        t = tg.tile_load(a, shape=(1, N), offset=(0, 0))
        u = tg.tile_load(a, shape=(1, N), offset=(1, 0))
        for i in range(2, 6):
            following = tg.tile_load(a, shape=(1, N), offset=(i, 0))
            tg.tile_store(out, t * 2.0, offset=(i - 2, 0))
            t = u
            u = following
        tg.tile_store(out, t, offset=(4, 0))
        tg.tile_store(out, u, offset=(5, 0))

    a, out = data(6, N), zeros(6, N)
    launched(rotate, a, out)
    expected = a.copy()
    expected[:4] *= 2
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("storage", ["register", "shared"])
def test_a_second_name_of_a_tile_is_the_same_tile(storage: str) -> None:
    @kernel
    def names(out: array2d[float]):
        a = tg.tile_zeros(shape=N, storage=storage)
        b = a
        b += 1.0
        a[2] = 5.0
        tg.tile_store(out[0], a)
        tg.tile_store(out[1], b)

    out = zeros(2, N)
    launched(names, out)
    ones = np.ones(N)
    if storage == "shared":
        ones[2] = 5
        assert (out == ones).all()
    else:
        assert out[0].tolist() == [0, 0, 5, 0, 0, 0, 0, 0]
        assert (out[1] == 1).all()


@pytest.mark.parametrize("storage", ["register", "shared"])
def test_swapped_tiles_exchange_names(storage: str) -> None:
    @kernel
    def swap(out: array2d[float]):
        a = tg.tile_full(shape=N, value=1.0, storage=storage)
        b = tg.tile_full(shape=N, value=2.0, storage=storage)
        a, b = b, a
        for _ in range(3):
            a, b = b, a
            a += 10.0
        tg.tile_store(out[0], a)
        tg.tile_store(out[1], b)

    out = zeros(2, N)
    launched(swap, out)
    a, b = 2, 1
    for _ in range(3):
        a, b = b, a
        a += 10
    assert out[:, 0].tolist() == [a, b]


@func
def add_bias(t: tile[float, N]):
    t += 5.0
    t = t * 100.0


@func
def scaled(t):
    r = t * 2.0
    return r


@pytest.mark.parametrize("storage", ["register", "shared"])
def test_tile_parameters_are_references(storage: str) -> None:
    @kernel
    def k(out: array1d[float]):
        t = tg.tile_zeros(shape=N, storage=storage)
        for _ in range(3):
            add_bias(t)
        tg.tile_store(out, scaled(t))

    out = zeros(N)
    launched(k, out)
    assert (out == 30).all()


def test_tile_views_alias_their_tile() -> None:
    @kernel
    def k(out: array2d[float]):
        t = tg.tile_zeros(shape=(M, N))
        v = t[1]
        v += 3.0
        t[2, 0:4] = 7.0
        tg.tile_store(out, t)

    out = zeros(M, N)
    launched(k, out)
    assert (out[1] == 3).all()
    assert (out[2, :4] == 7).all()
    assert out.sum() == 3 * N + 28


def test_accumulated_tiles_are_not_carried_by_loops() -> None:
    @kernel
    def k(a: array2d[float], out: array1d[float]):
        acc = tg.tile_zeros(shape=N)
        for i in range(5):
            acc += tg.tile_load(a[i], N)
        tg.tile_store(out, acc)

    a, out = data(5, N), zeros(N)
    launched(k, a, out)
    np.testing.assert_array_equal(out, a.sum(axis=0))
    (loop,) = ops_named(traced(k, a, out), "for")
    assert not loop.results


def test_branches_merge_register_tiles() -> None:
    @kernel
    def k(out: array2d[float]):
        i = tg.tid()
        t = tg.tile_zeros(shape=N)
        if i == 1:
            t = tg.tile_ones(shape=N)
        elif i == 2:
            t += 4.0
        u = t if i > 0 else t - 1.0
        t += 1.0
        tg.tile_store(out[i], t + u)

    out = zeros(3, N)
    launched(k, out, dims=(3, 4))
    assert out[:, 0].tolist() == [0, 3, 9]


def test_shared_tiles_in_branches_without_other_uses_are_accepted() -> None:
    @kernel
    def k(out: array1d[float], n: int):
        t = tg.tile_zeros(shape=N, storage="shared")
        if n > 0:
            t = tg.tile_ones(shape=N, storage="shared")
        t += 1.0
        tg.tile_store(out, t)

    out = zeros(N)
    launched(k, out, 1)
    assert (out == 2).all()


def test_merged_shared_tiles_are_refused() -> None:
    @kernel
    def k(out: array1d[float], n: int):
        a = tg.tile_zeros(shape=N, storage="shared")
        b = tg.tile_ones(shape=N, storage="shared")
        if n > 0:
            t = a
        else:
            t = b
        t += 1.0
        tg.tile_store(out, a)

    with pytest.raises(E.MergedSharedTiles) as info:
        traced(k, zeros(N), 1)
    assert info.value.loc is not None and "t += 1.0" in info.value.loc.text()


def test_aliases_created_in_a_loop_are_refused() -> None:
    @kernel
    def k(out: array1d[float], n: int):
        a = tg.tile_zeros(shape=N, storage="shared")
        b = tg.tile_ones(shape=N, storage="shared")
        for _ in range(n):
            b = a
            a[0] = 1.0
            b = b + 0.0
        t = b
        for _ in range(n):
            t[1] = 3.0
            t = a
        tg.tile_store(out, a)

    with pytest.raises(E.MergedSharedTiles):
        traced(k, zeros(N), 1)


def test_tile_map_and_reduce_take_functions() -> None:
    @func
    def twice(x: float):
        return x * 2.0

    @kernel
    def k(a: array1d[float], out: array1d[float]):
        def shifted(x):
            return twice(x) + 1.0

        t = tg.tile_map(shifted, tg.tile_load(a, N))
        tg.tile_store(out, tg.tile_reduce(tg.max, t))

    out = zeros(1)
    launched(k, data(N), out)
    assert out[0] == 15


def test_tile_and_untile_are_inverse() -> None:
    @kernel
    def k(out: array1d[int]):
        i = tg.tid()
        t = tg.tile(i * 2)
        total = tg.tile_sum(t)[0]
        out[i] = tg.untile(t) + total

    out = zeros(10, dtype=np.int32)
    launched(k, out, dims=(10,))
    assert out.tolist() == [12 + 2 * i for i in range(4)] + [44 + 2 * i for i in range(4, 8)] + [50, 52]


def test_assigned_vectors_are_copies() -> None:
    @kernel
    def k(out: array2d[float]):
        i = tg.tid()
        v = tg.vec3(1.0, 2.0, 3.0)
        w = v
        for c in range(3):
            v[c] = v[c] * 2.0
        v.y += 1.0
        w[0] -= 4.0
        out[i, 0] = v[0] + v.y * 10.0 + v[2] * 100.0
        out[i, 1] = w.x

    out = zeros(2, 2)
    launched(k, out, dims=(2,), block_dim=2)
    assert out[0].tolist() == [2 + 50 + 600, -3]


def test_tile_shapes_may_be_named_constants() -> None:
    @kernel
    def k(out: array1d[float]):
        n = N // 2
        m = n * 2
        t = tg.tile_ones(shape=m)
        tg.tile_store(out, t[0:n], offset=(n,))

    out = zeros(N)
    launched(k, out)
    assert out.tolist() == [0] * 4 + [1] * 4


def test_functions_may_return_tiles_early() -> None:
    @func
    def selected(a, i: int):
        if i == 0:
            return a * 2.0
        for k in range(3):
            if k == i:
                return a + 1.0
        return a

    @kernel
    def k(out: array2d[float]):
        i = tg.tid()
        t = selected(tg.tile_ones(shape=N), i)
        t += 10.0
        tg.tile_store(out[i], t)

    out = zeros(4, N)
    launched(k, out, dims=(4, 4))
    assert out[:, 0].tolist() == [12, 12, 12, 11]
