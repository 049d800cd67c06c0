"""Vectorised blocks have the bits of single blocks, and other blocks have a reason in `explain()`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula import kernels
from tegula.runtime.over_batches import over_batches

pytestmark = [pytest.mark.usefixtures("unoptimised"), pytest.mark.machine_code]
Kernel = Any
N, BLOCKS = 6, 37


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of BLOCKS blocks fill the lanes of two threads, on machines of any number of cores."""
    monkeypatch.setenv("TEGULA_NUM_THREADS", "2")


@tg.kernel
def factor(a: tg.array3d[float], out: tg.array3d[float]):
    """Arithmetic, selects by rows and columns, sums along both axes, a matmul."""
    i = tg.tid()
    t = tg.tile_load(a[i], shape=(N, N))
    for k in range(N):
        t = t - tg.tile_reshape(t[:, k], (N, 1)) * 0.125 + tg.tile_sum(t)[0] * 0.01
    t = (
        t @ t
        + tg.tile_reshape(tg.tile_sum(t, axis=1), (N, 1))
        - tg.tile_reshape(tg.tile_max(t, axis=0), (1, N))
    )
    tg.tile_store(out[i], tg.where(t > 0.0, tg.exp(-t), tg.tile_transpose(t)))


@tg.kernel
def sorted_rows(a: tg.array3d[float], out: tg.array3d[float]):
    """Rows exchanged at block-varying indices, and elements written one after another."""
    i = tg.tid()
    t = tg.tile_load(a[i], shape=(N, N))
    result = tg.tile_zeros(shape=(N, N), dtype=float)
    for k in range(N):
        p = tg.tile_argmin(t[:, 0])[0]
        result[k, 0] = t[p, 0]
        result[k, 1] = float(i) + float(p)
        rows = tg.tile_reshape(tg.tile_arange(N, dtype=int), (N, 1))
        t = tg.where(rows == p, 100.0, t)
    tg.tile_store(out[i], result)


@tg.kernel
def roots(a: tg.array3d[float], out: tg.array3d[float]):
    """A loop with a block-varying trip count, and a block-varying branch."""
    i = tg.tid()
    t = tg.abs(tg.tile_load(a[i], shape=(N, N))) + 0.5
    x, steps = t, 0
    while tg.tile_max(tg.abs(x * x - t))[0] > 1e-3 and steps < 30:
        x = 0.5 * (x + t / x)
        steps += 1
    if tg.tile_sum(t)[0] > 40.0:
        x = -x
    tg.tile_store(out[i], x + float(steps))


def run(kernel: Kernel, a: np.ndarray, step: int) -> np.ndarray:
    """The results of all blocks, in launches of `step` blocks."""
    out = np.zeros_like(a)
    for index in range(0, len(a), step):
        part = tg.array(a[index : index + step])
        array = tg.zeros(part.shape, dtype=tg.float32)
        tg.launch_tiled(kernel, dim=[part.shape[0]], inputs=[part, array], block_dim=1)
        out[index : index + step] = array.numpy()
    return out


@tg.kernel
def halved(a: tg.array3d[float], out: tg.array3d[float]):
    """Tiles that only some blocks change: whole, in rows, columns and elements, in a loop and in a branch."""
    i = tg.tid()
    t = tg.tile_zeros(shape=(N, N), dtype=float)
    t[:, :] = tg.abs(tg.tile_load(a[i], shape=(N, N)))
    while tg.tile_sum(t)[0] > 4.0:
        for k in range(N):
            t[k, :] = t[k, :] * 0.75
            t[:, k] = t[:, k] - 0.01 * t[k, k]
            t[k, 0] = 0.5 * t[0, k]
            if t[0, 0] > 0.1:
                t[0, 0] = t[0, 0] * 0.5
            else:
                t[1, 1] = t[1, 1] + 0.125
    tg.tile_store(out[i], t)


def matrices(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((BLOCKS, N, N)).astype(np.float32)


@pytest.mark.parametrize("kernel", (factor, roots, pytest.param(halved, marks=pytest.mark.slow)))
def test_vectorised_blocks_have_the_bits_of_single_blocks(kernel: Kernel) -> None:
    a = matrices()
    vectorised = run(kernel, a, BLOCKS)
    assert "blocks side by side" in kernel.explain()
    np.testing.assert_array_equal(vectorised, run(kernel, a, 1))


def test_arrays_are_transposed_into_lanes_whatever_their_strides_and_bounds() -> None:
    @tg.kernel
    def powers(a: tg.array3d[float], out: tg.array3d[float]):
        i = tg.tid()
        t = tg.tile_load(a[i], shape=(7, 9), offset=(1, 2))
        for _ in range(9):
            t = t * 0.5 + tg.tile_reshape(t[:, 0], (7, 1))
        tg.tile_store(out[i], t, offset=(1, 2))

    full_array = np.random.default_rng(0).standard_normal((BLOCKS, 24, 40)).astype(np.float32)
    for a in (
        full_array,
        full_array[:, ::2, :20],
        full_array[:, :, ::3],
        full_array[:, :6, :10],
        full_array[::-1],
        full_array[:, :8, :11],
    ):
        expected = np.zeros((a.shape[0], 10, 14), np.float32)
        part = expected[:, 1:8, 2:11]
        actual = a[:, 1:8, 2:11]
        part[:, : actual.shape[1], : actual.shape[2]] = actual
        for _ in range(9):
            part[:] = part * np.float32(0.5) + part[:, :, :1]
        for shape in ((10, 14), (8, 11), (5, 13)):
            out = tg.zeros((BLOCKS, *shape), dtype=tg.float32)
            tg.launch_tiled(powers, dim=[BLOCKS], inputs=[tg.array(a, copy=False), out], block_dim=1)
            np.testing.assert_array_equal(out.numpy(), expected[:, : shape[0], : shape[1]])
    assert "blocks side by side" in powers.explain()


@pytest.mark.parametrize("is_packed", (True, pytest.param(False, marks=pytest.mark.slow)))
def test_single_blocks_at_edges_have_one_version_of_each_access(is_packed: bool) -> None:
    n, width = 18, 16

    @tg.kernel
    def shifted(a: tg.array3d[float], out: tg.array3d[float]):
        i = tg.tid()
        t = tg.tile_load(a[i], shape=(width, width), offset=(i % 4, i % 4))
        tg.tile_store(out[i], tg.tile_cholesky(t), offset=(i % 4, i % 4))

    x = np.random.default_rng(0).standard_normal((BLOCKS, n, n)).astype(np.float32)
    full_array = np.repeat(x @ x.swapaxes(1, 2) + n * np.eye(n, dtype=np.float32), 2, axis=2)
    a = full_array[:, :, ::2].copy() if is_packed else full_array[:, :, ::2]
    out = tg.zeros(a.shape)
    tg.launch_tiled(shifted, dim=[BLOCKS], inputs=[tg.array(a, copy=False), out], block_dim=1)
    for i, (matrix, result) in enumerate(zip(a, out.numpy(), strict=True)):
        part, expected = slice(i % 4, i % 4 + width), np.zeros_like(matrix)
        expected[part, part] = np.linalg.cholesky(matrix[part, part])
        np.testing.assert_allclose(result, expected, atol=1e-5)
    # A tile with gaps between elements can be in bounds in this branch.
    assert len(re.findall(r"^edge", shifted.llvm(), re.M)) == int(not is_packed)
    assert "blocks side by side" in shifted.explain()


@tg.kernel
def factors_of_sums(a: tg.array3d[float], out: tg.array3d[float], count: int):
    i = tg.tid()
    t = tg.tile_zeros(shape=(N, N), dtype=float)
    for _ in range(count):
        t = t @ t + tg.tile_load(a[i], shape=(N, N))
    tg.tile_store(out[i], t)


def test_tiles_of_the_next_blocks_are_prefetched_unless_loops_load_them() -> None:
    a = matrices()
    run(factor, a, BLOCKS)
    out = tg.zeros(a.shape)
    tg.launch_tiled(factors_of_sums, dim=[BLOCKS], inputs=[tg.array(a), out, 2], block_dim=1)
    np.testing.assert_allclose(out.numpy(), a @ a + a, rtol=1e-4, atol=1e-4)
    for kernel, accesses in ((factor, {"0", "1"}), (factors_of_sums, {"1"})):
        prefetches = re.findall(r"call void @llvm\.prefetch\.p0\(ptr %\w+, i32 (\d)", kernel.llvm())
        assert set(prefetches) == accesses


def test_block_varying_indices_have_correct_results() -> None:
    a = matrices()
    result = run(sorted_rows, a, BLOCKS)
    order = np.argsort(a[:, :, 0], axis=1)
    np.testing.assert_array_equal(result[:, :, 0], np.sort(a[:, :, 0], axis=1))
    np.testing.assert_array_equal(result[:, :, 1], np.arange(BLOCKS)[:, None] + order)
    assert not result[:, :, 2:].any()


def test_vectorised_loops_end_separately_for_each_block() -> None:
    a = matrices()
    a[3] *= 1000
    t = np.abs(a) + np.float32(0.5)
    result = run(roots, a, BLOCKS)
    steps = np.round(np.abs(result) - np.sqrt(t)).astype(int)
    assert len(np.unique(steps[:, 0, 0])) > 2
    sign = np.where(t.sum((1, 2), keepdims=True) > 40.0, -1, 1)
    np.testing.assert_allclose(sign * np.sqrt(t), result - np.round(result - sign * np.sqrt(t)), rtol=1e-3)


@pytest.mark.parametrize("n", (3, pytest.param(8, marks=pytest.mark.slow)))
@pytest.mark.parametrize("dtype", (np.float32, pytest.param(np.float64, marks=pytest.mark.slow)))
def test_decompositions_in_vectorised_blocks_have_the_bits_of_single_blocks(n: int, dtype: Any) -> None:
    rng = np.random.default_rng(n)
    a = rng.standard_normal((35, n, n)).astype(dtype)
    definite = a @ np.swapaxes(a, 1, 2) + np.eye(n, dtype=dtype)
    definite[5, 1, 1] = np.nan
    calls: list[tuple[Any, tuple[np.ndarray, ...]]] = [
        (kernels.cholesky, (definite,)),
        (kernels.lu, (a,)),
        (kernels.solve, (a, rng.standard_normal((35, n)).astype(dtype))),
    ]
    calls += [(kernels.qr, (a,)), (kernels.eigh, (a,)), (kernels.svd, (a,))] if n > 3 else []
    for call, arguments in calls:
        vectorised = call(*arguments)
        parts = [call(*(x[k : k + 3] for x in arguments)) for k in range(0, 35, 3)]
        for k, result in enumerate(vectorised if isinstance(vectorised, tuple) else (vectorised,)):
            single_results = [(p if isinstance(p, tuple) else (p,))[k].numpy() for p in parts]
            np.testing.assert_array_equal(result.numpy(), np.concatenate(single_results))


@pytest.mark.parametrize("n", [4, 12, 20])
def test_factors_of_blocks_in_registers_have_a_nan_from_the_first_pivot_that_is_not_positive(n: int) -> None:
    rng = np.random.default_rng(n)
    a = rng.standard_normal((35, n, n))
    definite = a @ np.swapaxes(a, 1, 2) + np.eye(n)
    definite[3, n - 2, n - 2] = -1.0
    arrays = [tg.array((np.tril(definite) + np.triu(np.full((n, n), np.nan), 1)).astype(np.float32))]
    batched = over_batches("tile_cholesky", arrays, {"info": True})
    factor, info = (tg.zeros(shape, dtype=dtype) for shape, dtype in batched.results)
    tg.launch_tiled(batched.kernel, batched.dim, arrays, [factor, info], block_dim=batched.block_dim)
    assert "blocks side by side" in batched.kernel.explain()
    expected = np.linalg.cholesky(np.where(np.arange(35)[:, None, None] == 3, np.eye(n), definite))
    good = np.arange(35) != 3
    np.testing.assert_allclose(factor.numpy()[good], expected[good], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(info.numpy()[:, 0], np.where(good, 0, n - 1))
    is_nan = np.isnan(factor.numpy()[3])
    assert not is_nan[: n - 2].any() and is_nan[n - 2 :, n - 2].all() and is_nan[n - 1, n - 1]


def test_blocks_that_are_not_vectorised_have_a_reason() -> None:
    @tg.kernel
    def counts(a: tg.array3d[float], out: tg.array3d[float]):
        i = tg.tid()
        t = tg.tile_load(a[i], shape=(N, N))
        for _ in range(i):
            t = t + 1.0
        tg.tile_store(out[i], t)

    @tg.kernel
    def reads(a: tg.array3d[float], out: tg.array3d[float]):
        i = tg.tid()
        t = tg.tile_load(a[i], shape=(N, N))
        if t[0, 0] > 0.0:
            t = tg.tile_load(a[0], shape=(N, N))
        tg.tile_store(out[i], t)

    @tg.kernel
    def adds(a: tg.array3d[float], out: tg.array3d[float]):
        i = tg.tid()
        tg.tile_atomic_add(out[0], tg.tile_load(a[i], shape=(N, N)))

    @tg.kernel
    def copies(a: tg.array3d[float], out: tg.array3d[float]):
        i = tg.tid()
        tg.tile_store(out[i], tg.tile_load(a[i], shape=(N, N)))

    reasons = (
        (counts, "the number of iterations of a loop differs between blocks"),
        (reads, "arrays are accessed in code that only some blocks execute"),
        (adds, "tile.atomic runs for one block at a time"),
        (copies, "a loop over single blocks is faster"),
    )
    for kernel, reason in reasons:
        run(kernel, matrices(), BLOCKS)
        assert f"blocks run one by one: {reason}" in kernel.explain()


@tg.kernel
def squared_in_place(a: tg.array3d[float], count: tg.array1d[float]):
    """Two updates of an array in place, and an element that is read after it was written."""
    i = tg.tid()
    t = tg.tile_load(a[i], shape=(N, N))
    for _ in range(N):
        t = t @ t * 0.1
    tg.tile_store(a[i], t)
    t = tg.tile_load(a[i], shape=(N, N)) * 2.0
    count[i] = count[i] + 1.0
    tg.tile_store(a[i], t + count[i])


@pytest.mark.parametrize("blocks", (16, 17, 23, 31))
def test_lanes_beyond_the_last_block_change_no_array_twice(blocks: int) -> None:
    a = matrices()[:blocks] * np.float32(0.5)
    changed, count = tg.array(a), tg.array(np.arange(blocks + 3, dtype=np.float32))
    tg.launch_tiled(squared_in_place, dim=[blocks], inputs=[changed, count], block_dim=1)
    single = tg.array(a)
    for k in range(blocks):
        number = tg.array(np.full(1, k, np.float32))
        tg.launch_tiled(squared_in_place, dim=[1], inputs=[single[k : k + 1], number], block_dim=1)
    assert "blocks side by side" in squared_in_place.explain()
    np.testing.assert_array_equal(changed.numpy(), single.numpy())
    ones = np.where(np.arange(blocks + 3) < blocks, 1.0, 0.0)
    np.testing.assert_array_equal(count.numpy(), np.arange(blocks + 3) + ones)


def test_a_form_for_few_blocks_is_compiled_only_for_launches_of_few_blocks() -> None:
    @tg.kernel
    def solved(a: tg.array3d[float], out: tg.array3d[float]):
        i = tg.tid()
        t = tg.tile_load(a[i], shape=(N, N))
        for k in range(N):
            t = t - tg.tile_reshape(t[:, k], (N, 1)) * 0.125
        tg.tile_store(out[i], t)

    a = matrices()
    few = run(solved, a, 1)
    (form,) = solved.compiled
    assert form.other is None
    many = run(solved, a, BLOCKS)
    assert solved.compiled == [form]
    assert form.other is not None
    assert form.is_for_many is not form.other.is_for_many
    np.testing.assert_array_equal(few, many)
