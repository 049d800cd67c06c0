"""Bodies of roles: functions, control flow, element accesses, reductions, reports, views, every scalar type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exact_data import agree, small_integers

import tegula as tg

pytestmark = pytest.mark.machine_code

N = 8


@tg.func
def fetch(pipe: Any, x: Any, n: int):
    for k in range(n):
        tg.tile_pipe_load(pipe, x, offset=(k, 0))


@tg.func
def pop_doubled(pipe: Any):
    return tg.tile_pipe_pop(pipe) * 2.0


@tg.func
def pop_unchanged(pipe: Any):
    return tg.tile_pipe_pop(pipe)


@tg.kernel
def functions(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=3)
    with tg.ws(0):
        fetch(pipe, x, n // 2 * 2)
    with tg.ws(1):
        for k in range(n // 2):
            tg.tile_store(out, pop_doubled(pipe), offset=(2 * k, 0))
            t = pop_unchanged(pipe)
            tg.tile_store(out, t, offset=(2 * k + 1, 0))


def test_functions_take_pipes_and_return_popped_tiles() -> None:
    x = small_integers(10, N)
    _, out = agree(functions, [x, tg.zeros_like(x), 10], 1)
    expected = x.numpy().copy()
    expected[::2] *= 2
    assert np.array_equal(out, expected)


@tg.kernel
def branches(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=3)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            if k % 3 == 0:
                t = tg.tile_pipe_pop(pipe)
                tg.tile_store(out, t + 1.0, offset=(k, 0))
            else:
                u = tg.tile_pipe_pop(pipe)
                if k % 3 == 1:
                    tg.tile_store(out, u * 2.0, offset=(k, 0))


def test_pops_on_every_path_of_a_branch_are_accepted() -> None:
    x = small_integers(10, N)
    agree(branches, [x, tg.zeros_like(x), 10], 1)


@tg.kernel
def bound_in_branches(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=3)
    second_pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=3)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
            tg.tile_pipe_load(second_pipe, x, offset=(n - 1 - k, 0))
    with tg.ws(1):
        for k in range(n):
            a, b = tg.tile_pipe_pop(pipe), tg.tile_pipe_pop(second_pipe)
            if k % 2 == 0:
                c = a
            else:
                c = b
            tg.tile_store(out, c, offset=(k, 0))


def test_popped_tiles_bound_to_one_name_on_two_paths() -> None:
    x = small_integers(10, N)
    agree(bound_in_branches, [x, tg.zeros_like(x), 10], 1)


@tg.kernel(check="bounded")
def while_loops(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        k = 0
        while k < n:
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
            k += 1
    with tg.ws(1):
        k = 0
        while True:
            if k >= n:
                break
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
            k += 1


def test_while_loops_in_roles_agree_on_all_devices() -> None:
    x = small_integers(10, N)
    agree(while_loops, [x, tg.zeros_like(x), 10], 1)


@tg.kernel(check="bounded")
def early_exit(x: tg.array2d[float], out: tg.array2d[float], n: int, stop: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
            if k == stop:
                break
    with tg.ws(1):
        for k in range(n):
            t = tg.tile_pipe_pop(pipe)
            tg.tile_store(out, t, offset=(k, 0))
            if k == stop:
                return
            tg.tile_store(out, t + 1.0, offset=(k, 0))


def test_break_and_return_end_a_role() -> None:
    x = small_integers(10, N)
    agree(early_exit, [x, tg.zeros_like(x), 10, 4], 1)


@tg.kernel
def elements(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(2, N), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(2 * k, 0))
    with tg.ws(1):
        hist = tg.tile_zeros(shape=(8,), dtype=int, storage="shared")
        for k in range(n):
            t = tg.tile_pipe_pop(pipe)
            lane = tg.group_lane()
            if lane < 2 * N:
                v = t[lane // N, lane % N]
                hist[int(v) + 3] += 1
            m = tg.tile_max(t, axis=0)
            s = tg.tile_sum(t)
            first = t[1, 2]
            tg.tile_store(out, tg.tile_reshape(m, (1, N)) + s[0] + first, offset=(k, 0))
        tg.tile_store(out, tg.tile_astype(tg.tile_reshape(hist, (1, 8)), float), offset=(n, 0))


def test_roles_may_access_elements_reduce_and_share_tiles() -> None:
    x = small_integers(10, N)
    agree(elements, [x, tg.zeros((6, N)), 5], 1)


@tg.kernel
def prints(x: tg.array2d[float], n: int):
    i = tg.tid()
    pipe = tg.tile_pipe(shape=(1, 4), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
            if tg.group_lane() == 0:
                print("load", i, k)
    with tg.ws(1):
        for k in range(n):
            t = tg.tile_pipe_pop(pipe)
            print(t)
            assert k < 100


def test_roles_print_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    tg.launch_tiled(prints, dim=2, inputs=[small_integers(3, 4), 3])
    tg.synchronize()
    out = capsys.readouterr().out
    assert out.count("load") == 6 and out.count("[[") == 6


@tg.kernel
def asserts(x: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, 4), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            t = tg.tile_pipe_pop(pipe)
            assert k < 2, "too many"
            tg.tile_store(x, t)


def test_a_failed_assert_in_a_role_is_raised() -> None:
    with pytest.raises(tg.KernelAssertion):
        tg.launch_tiled(asserts, dim=2, inputs=[small_integers(3, 4), 3])
        tg.synchronize()


def test_debug_mode_finds_accesses_outside_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    @tg.kernel
    def unchecked(x: tg.array2d[float], out: tg.array2d[float]):
        pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
        with tg.ws(0):
            tg.tile_pipe_load(pipe, x, offset=(8, 0), bounds_check=False)
        with tg.ws(1):
            tg.tile_store(out, tg.tile_pipe_pop(pipe))

    x, out = small_integers(8, N), tg.zeros((8, N))
    monkeypatch.setattr(tg.config, "mode", "debug")
    with pytest.raises(tg.OutOfBounds, match="leaves 'x'"):
        tg.launch_tiled(unchecked, dim=1, inputs=[x, out])
        tg.synchronize()


@pytest.mark.parametrize("column", [0, 4, 1])
def test_a_pipe_load_with_an_alignment_promise_matches_numpy(column: int) -> None:
    @tg.kernel
    def promised(x: tg.array2d[float], out: tg.array2d[float], column: int):
        pipe = tg.tile_pipe(shape=(2, 8), dtype=float, stages=2)
        with tg.ws(0):
            tg.tile_pipe_load(pipe, x, offset=(1, column), aligned=True)
        with tg.ws(1):
            tg.tile_store(out, tg.tile_pipe_pop(pipe))

    x, out = small_integers(8, 2 * N), tg.zeros((8, 2 * N))
    if column % 4:
        with pytest.raises(tg.BrokenPromise, match="not 16-byte aligned"):
            tg.launch_tiled(promised, dim=1, inputs=[x, out, column])
            tg.synchronize()
        return
    tg.launch_tiled(promised, dim=1, inputs=[x, out, column])
    assert np.array_equal(out.numpy()[:2, :8], x.numpy()[1:3, column : column + 8])


TYPES = [tg.float16, tg.bfloat16, tg.float32, tg.float64, tg.int8, tg.int32, tg.uint64, tg.bool]


@pytest.mark.parametrize("t", TYPES, ids=str)
def test_pipes_of_every_scalar_type_copy_their_tiles(t: Any) -> None:
    @tg.kernel
    def k(x: tg.array2d[t], out: tg.array2d[t], n: int):
        pipe = tg.tile_pipe(shape=(3, 5), dtype=t, stages=3)
        with tg.ws(0):
            for i in range(n):
                tg.tile_pipe_load(pipe, x, offset=(i, -1))
        with tg.ws(1):
            for i in range(n):
                tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(3 * i, 0))

    x = tg.zeros((10, 7), dtype=t)
    x.assign((np.arange(70).reshape(10, 7) % 2).astype(x.numpy().dtype))
    _, out = agree(k, [x, tg.zeros((30, 5), dtype=t), 10], 1)
    assert out.any()


@tg.kernel
def strided(x: tg.array2d[float], out: tg.array1d[float], n: int):
    i = tg.tid()
    col = x[:, 1]
    part = x[1:, ::2]
    pipe = tg.tile_pipe(shape=(4,), dtype=float, stages=2)
    square_pipe = tg.tile_pipe(shape=(2, 2), dtype=float, stages=2)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, col, offset=k)
            tg.tile_pipe_load(square_pipe, part, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            s = tg.tile_sum(tg.tile_pipe_pop(pipe)) + tg.tile_sum(tg.tile_pipe_pop(square_pipe))
            tg.tile_store(out, s, offset=k)


def test_pipe_loads_from_views_of_arrays_match_numpy() -> None:
    agree(strided, [small_integers(10, 7), tg.zeros(9), 9], 1)


@tg.kernel
def global_dependence(x: tg.array2d[float], n: int):
    a = tg.tile_pipe(shape=(1, N), dtype=float, stages=2)
    b = tg.tile_pipe(shape=(1, N), dtype=float, stages=1)
    with tg.ws(0):
        for k in range(n):
            t = tg.tile_load(x, shape=(1, N), offset=(k, 0))
            tg.tile_pipe_push(a, tg.tile_zeros(shape=(1, N)))
            tg.tile_pipe_push(a, tg.tile_zeros(shape=(1, N)))
            tg.tile_pipe_push(a, tg.tile_zeros(shape=(1, N)))
            tg.tile_pipe_push(b, t)
    with tg.ws(1):
        for k in range(n):
            u = tg.tile_pipe_pop(a) + tg.tile_pipe_pop(a)
            tg.tile_store(x, u, offset=(k, 0))
            v = tg.tile_pipe_pop(a)
            tg.tile_store(x, tg.tile_pipe_pop(b) + 1.0 + v, offset=(k, 0))


def test_a_load_is_not_moved_after_a_wait() -> None:
    x = small_integers(4, N)
    (out,) = agree(global_dependence, [x, 4], 1)
    assert np.array_equal(out, x.numpy() + 1)


SQUARES = np.arange(64.0) ** 2


@tg.kernel
def tables(x: tg.array2d[float], out: tg.array2d[float]):
    with tg.ws(0):
        out[0, tg.group_lane() % N] = tg.table(SQUARES, tg.float32)[int(x[0, tg.group_lane() % N])]
    with tg.ws(1):
        out[1, tg.group_lane() % N] = tg.table(SQUARES, tg.float32)[int(x[1, tg.group_lane() % N])]


def test_roles_read_tables() -> None:
    x = tg.array(np.arange(2 * N, dtype=np.float32).reshape(2, N))
    _, out = agree(tables, [x, tg.zeros_like(x)], 1)
    assert np.array_equal(out, x.numpy() ** 2)
