"""Loops over `tg.unrolled`: one body in the IR, a copy for each index in the code, with equal results on all
targets."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from agreement import agree, assert_same_bits, traced
from gpu_code import assemble, lower_to_llvm
from lowering import Launch, agrees, lowered
from simt import run_together

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.ir import LoopLike
from tegula.passes.pipeline import prepare
from tegula.target import get_cuda_target


@tg.kernel
def sort_network(a: tg.array[float], o: tg.array[float]):
    """Sorts the elements of each warp."""
    i = tg.tid()
    x, lane = a[i], tg.group_lane()
    for k in tg.unrolled(1, 6):
        for j in tg.unrolled(5):
            if j < k:
                step = 1 << (k - 1 - j)
                partner = tg.lane_xor(x, step)
                is_lower = (lane & step) == 0
                if k < 5:
                    is_lower = is_lower == ((lane & (1 << k)) == 0)
                x = tg.where(is_lower, tg.min(x, partner), tg.max(x, partner))
    o[i] = x


@tg.kernel
def carry_tiles(a: tg.array[float], o: tg.array[float]):
    """The loop carries vectors, register tiles and tiles in shared memory."""
    i = tg.tid()
    v = tg.vector(length=8, dtype=float)
    for k in tg.unrolled(8):
        v[k] = a[i] * float(k)
    s, t = 0.0, tg.tile_zeros(shape=32)
    for k in tg.unrolled(7, -1, -2):
        s = s * 2.0 + v[k] + v[(k + 1) % 8]
        t = t + tg.tile(s)
        u = tg.tile_load(a, shape=32, storage="shared")
        s += u[31 - tg.group_lane()]
    o[i] = s + tg.untile(t)


@tg.kernel
def scan_warps(a: tg.array[float], o: tg.array[float]):
    """Running sums of each warp. Each copy of the branch diverges at another lane."""
    i, lane = tg.tid(), tg.group_lane()
    total = a[i]
    for k in tg.unrolled(5):
        partner = tg.lane_shuffle(total, lane - (1 << k))
        if lane >= 1 << k:
            total += partner
    o[i] = total


KERNELS = [(sort_network, 64), (carry_tiles, 32), (scan_warps, 64)]


@pytest.mark.machine_code
@pytest.mark.parametrize(("kernel", "threads"), KERNELS, ids=["sort_network", "carry_tiles", "scan_warps"])
def test_unrolled_loops_agree_on_all_targets(kernel: Any, threads: int) -> None:
    x = np.random.default_rng(1).integers(-50, 50, threads).astype(np.float32)
    launch = Launch(kernel, [tg.array(x), tg.zeros(threads)], (threads,), 32)
    expected = agree(kernel, launch.args, threads, 32)[1]
    code = lower_kernel(*agrees(launch), get_cuda_target())
    actual = [tg.clone(a) for a in launch.args]
    run_together(code, kernel, actual, launch.dims, threads // 32)
    assert_same_bits(actual[1].numpy(), expected)
    if kernel is sort_network:
        np.testing.assert_array_equal(expected.reshape(2, 32), np.sort(x.reshape(2, 32), axis=1))
    if kernel is scan_warps:
        np.testing.assert_array_equal(expected.reshape(2, 32), x.reshape(2, 32).cumsum(axis=1))


def test_code_of_unrolled_loops_has_constants_and_no_loop() -> None:
    launch = Launch(sort_network, [tg.zeros(64), tg.zeros(64)], (64,), 32)
    text = assemble(lower_kernel(*lowered(launch), get_cuda_target()))[0]
    steps = [int(n) for n in re.findall(r"shfl\.sync\.bfly\S+\s+\S+ \S+ (\d+), 31", text)]
    assert steps == [1 << k for size in range(1, 6) for k in reversed(range(size))]
    assert len(re.findall(r"\bbra\b", text)) == 1, "warps without a block end"


def test_passes_see_one_body_of_an_unrolled_loop() -> None:
    launch = Launch(sort_network, [tg.zeros(64), tg.zeros(64)], (64,), 32)
    kernel = traced(sort_network, launch.args, launch.dims, 32)
    prepare(kernel)
    loops = [op for op in kernel.walk() if isinstance(op, LoopLike)]
    assert [op.unrolled for op in loops] == [range(1, 6), range(5)]
    assert sum(op.NAME == "lane.xor" for op in kernel.walk()) == 1


@pytest.mark.parametrize(
    ("loop_text", "code"),
    [
        ("for k in tg.unrolled(n): pass", "not-constant"),
        ("for k in tg.unrolled(5000): pass", "unrolled-too-far"),
        ("for k in tg.unrolled(8):\n        if k > n:\n            break", "unsupported-python"),
    ],
)
def test_invalid_unrolled_loops_are_refused(loop_text: str, code: str) -> None:
    text = f"def kernel(a: tg.array[float], n: int):\n    i = tg.tid()\n    {loop_text}\n"
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    with pytest.raises(tg.CompileError) as raised:
        tg.launch(tg.kernel(source=text)(space["kernel"]), 8, [tg.zeros(8), 3], block_dim=8)
    assert raised.value.CODE == code


def sum_repeatedly(width: int) -> Any:
    @tg.kernel
    def kernel(a: tg.array2d[float], o: tg.array2d[float]):
        i = tg.tid()
        t = tg.tile_load(a[i], shape=width)
        for k in range(16):
            t = t + tg.tile_sum(t)[0] * float(k)
        tg.tile_store(o[i], t)

    return kernel


@pytest.mark.parametrize(("width", "body_kind"), [(64, "full"), (4096, "disable")])
def test_llvm_unrolls_loops_only_if_the_code_stays_short(width: int, body_kind: str) -> None:
    launch = Launch(sum_repeatedly(width), [tg.zeros((2, width)), tg.zeros((2, width))], (2, 32), 32)
    text = lower_kernel(*lowered(launch), get_cuda_target()).text
    assert re.findall(r"llvm\.loop\.unroll\.(\w+)", text) == [body_kind]


@tg.kernel
def weighted_sums(a: tg.array[float], n: int, o: tg.array[float]):
    i = tg.tid()
    total = 0.0
    for k in range(4):
        total += a[k]
    for k in range(4):
        for j in range(n):
            total += a[j] * float(k)
    o[i] = total


def test_loops_around_other_loops_are_not_unrolled() -> None:
    code = lower_to_llvm(weighted_sums, [tg.zeros(8), 3, tg.zeros(64)], (64,), 64)
    assert code.text.count("llvm.loop.unroll.full") == 1
    assert code.text.count("llvm.loop.unroll.disable") == 2
