"""Exchanges between lanes: the interpreter, the CPU, the lowered program and the GPU's code agree."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from agreement import agree, assert_same_bits, interpret
from gpu_code import assemble
from lowering import Launch, agrees, lowered, tiled
from simt import run_together

import tegula as tg
from support.segment_kernels import SHAPES, across_warps, arguments, within_warps
from tegula.codegen.gpu import lower_kernel
from tegula.target import get_cuda_target

SHAPE_PARAMETERS = [SHAPES[0], *(pytest.param(shape, marks=pytest.mark.slow) for shape in SHAPES[1:])]


def check(launch: Launch) -> str:
    """The PTX of a kernel, after a check that all devices agree."""
    (threads,), block = launch.dims, launch.block_dim
    args = launch.args
    expected = agree(launch.kernel, args, threads, block)
    kernel, compilation = agrees(launch)
    code = lower_kernel(kernel, compilation, get_cuda_target())
    actual = [tg.clone(a) for a in args]
    run_together(code, launch.kernel, actual, launch.dims, -(-threads // block))
    for a, b in zip(actual, expected, strict=True):
        assert_same_bits(a.numpy(), b)
    return assemble(code)[0]


@pytest.mark.machine_code
@pytest.mark.parametrize("shape", SHAPE_PARAMETERS, ids=str)
def test_lane_exchanges_in_segments_of_a_warp_match_the_interpreter(shape: tuple[int, int]) -> None:
    threads, block = shape
    text = check(Launch(within_warps, arguments(within_warps, threads), (threads,), block))
    assert "bar.sync" not in text and "barrier" not in text and ".shared" not in text
    instructions_used = set(re.findall(r"(?:shfl|redux|match|vote)\.[\w.]+", text))
    expected = {"shfl.sync.idx.b32", "shfl.sync.bfly.b32", "redux.sync.add.s32", "vote.sync.ballot.b32"}
    assert instructions_used >= expected | {"match.any.sync.b32", "match.any.sync.b64"}


@pytest.mark.machine_code
@pytest.mark.parametrize("shape", SHAPE_PARAMETERS, ids=str)
def test_lane_exchanges_across_warps_match_the_interpreter(shape: tuple[int, int]) -> None:
    threads, block = shape
    check(Launch(across_warps, arguments(across_warps, threads), (threads,), block))


@pytest.mark.parametrize("kernel", [within_warps, across_warps], ids=["in_warps", "wider"])
def test_lane_exchanges_assemble_for_earlier_gpus(kernel: Any) -> None:
    launch = Launch(kernel, arguments(kernel, 96), (96,), 96)
    target = get_cuda_target("sm_80")
    _, cubin = assemble(lower_kernel(*lowered(launch), target), "sm_80")
    assert cubin.registers


@tg.kernel
def extremes_of_lanes(a: tg.array[Any], o: tg.array2d[Any]):
    i = tg.tid()
    o[0, i] = tg.lane_max(a[i], 4)
    o[1, i] = tg.lane_min(a[i], 4)
    o[2, i] = a.dtype(tg.lane_argmax(a[i], 4))
    o[3, i] = a.dtype(tg.lane_argmin(a[i], 4))


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.float32, tg.bfloat16], ids=str)
def test_lane_extremes_of_nan_and_zeros_match_the_interpreter(dtype: Any) -> None:
    nan = float("nan")
    x = [0.0, -0.0, nan, -0.0, nan, nan, nan, nan, nan, 2.0, 2.0, 1.0]
    o = agree(extremes_of_lanes, [tg.array(x, dtype=dtype), tg.zeros((4, 12), dtype=dtype)], 12, 32)[1]
    high, low, last, first = o.astype(np.float64)[:, ::4]
    np.testing.assert_array_equal(high, [0.0, nan, 2.0])
    assert not np.signbit(high[0]) and np.signbit(low[0])
    assert last.tolist() == [0, 0, 1] and first.tolist() == [1, 0, 3]


def square_kernel(shape: tuple[int, ...], grid: tuple[int, ...]) -> Any:
    """A kernel that squares each thread's elements of a tile."""
    array = f"tg.array{len(shape)}d[float]"
    text = f"""def kernel(a: {array}, o: {array}):
    v = tg.tile_local(tg.tile_load(a, shape={shape}), {grid})
    tg.tile_store(o, tg.tile_from_local(tg.cw_mul(v, v), {grid}, {shape}))
"""
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    return tg.kernel(source=text)(space["kernel"])


GRIDS = [((16, 16), (4, 8)), ((7, 13), (4, 8)), ((2, 7, 5), (2, 4, 4)), ((40,), (64,)), ((5, 9), (2, 8))]


@pytest.mark.machine_code
@pytest.mark.parametrize(("shape", "grid"), GRIDS, ids=str)
def test_tiles_over_grids_of_threads_match_the_interpreter(
    shape: tuple[int, ...], grid: tuple[int, ...]
) -> None:
    block = int(np.prod(grid))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    launch = tiled(square_kernel(shape, grid), [tg.array(x), tg.zeros(shape)], (1,), block)
    result = agree(launch.kernel, launch.args, 1, block, tiled=True)[1]
    np.testing.assert_array_equal(result, x * x)
    kernel, compilation = agrees(launch)
    code = lower_kernel(kernel, compilation, get_cuda_target())
    assert not compilation.shared.allocations and "shared" not in code.text.partition("start:")[2]
    actual = [tg.clone(a) for a in launch.args]
    run_together(code, launch.kernel, actual, launch.dims, 1)
    np.testing.assert_array_equal(actual[1].numpy(), x * x)


def test_threads_of_a_grid_own_their_elements_of_a_tile() -> None:
    @tg.kernel
    def store_local(a: tg.array2d[float], o: tg.array2d[float]):
        b, t = tg.tid()
        v = tg.tile_local(tg.tile_load(a, shape=(6, 10)), (4, 8))
        for r, c in ((0, 0), (0, 1), (1, 0), (1, 1)):
            o[t, 2 * r + c] = v[r, c]

    x = np.arange(1, 61, dtype=np.float32).reshape(6, 10)
    o = np.zeros((32, 4), np.float32)
    interpret(store_local, [x, o], (1, 32), 32)
    padded = np.pad(x, ((0, 2), (0, 6)))
    for t in range(32):
        np.testing.assert_array_equal(o[t].reshape(2, 2), padded[t // 8 :: 4, t % 8 :: 8])


REFUSED_EXPRESSIONS = {
    "tg.tile_local(tg.tile_load(a, shape=8), 4)": ("type-mismatch", "the grid has 4 threads, the group 8"),
    "tg.tile_local(tg.tile_load(a, shape=8), (2, 4))": (
        "type-mismatch",
        "the grid has 2 dimensions, the tile 1",
    ),
    "tg.tile_from_local(x, 8, 16)": ("type-mismatch", "takes vec"),
    "tg.lane_sum(x, 24)": ("out-of-range", "power of two up to 1024, got 24"),
    "tg.lane_ballot(x > 0.0, 64)": ("out-of-range", "power of two up to 32, got 64"),
    "tg.lane_sum(x, n)": ("not-constant", "the width of a segment"),
    "tg.lane_xor(x, 0.5)": ("type-mismatch", "the mask must be an integer"),
    "tg.match_any(x)": ("type-mismatch", "tg.bitcast(x, tg.uint32)"),
    "tg.lane_max(tg.tile(x))": ("type-mismatch", "tg.untile"),
    "tg.lane_sum(x > 0.0)": ("type-mismatch", "tg.bit_count(tg.lane_ballot(x))"),
    "tg.lane_sum(x) if i > 3 else 0.0": ("divergent-cooperative-op", "lane_sum"),
}


@pytest.mark.parametrize("expression", REFUSED_EXPRESSIONS)
def test_invalid_lane_exchanges_are_refused(expression: str) -> None:
    text = f"def kernel(a: tg.array[float], n: int):\n    i = tg.tid()\n    x = a[i]\n    y = {expression}\n"
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    code, message = REFUSED_EXPRESSIONS[expression]
    with pytest.raises(tg.CompileError) as raised:
        tg.launch(tg.kernel(source=text)(space["kernel"]), 8, [tg.zeros(8), 3], block_dim=8)
    assert raised.value.CODE == code and message in str(raised.value)


def test_grids_of_threads_with_more_rows_need_whole_warps() -> None:
    @tg.kernel
    def copy_rows(x: tg.array2d[float]):
        row = tg.tile_local(tg.tile_load(x, shape=(34, 4)), (33, 1))
        tg.tile_store(x, tg.tile_from_local(row, (33, 1), (34, 4)))

    with pytest.raises(tg.CompileError) as raised:
        tg.launch_tiled(copy_rows, 1, [tg.zeros((34, 4))], block_dim=33)
    assert "the threads of a grid of 33 threads are not whole warps" in str(raised.value)
    assert "make the grid's first dimension at least as long as the tile's" in str(raised.value)
