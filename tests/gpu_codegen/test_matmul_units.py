"""The unit of each matmul in `explain()`, and the reason if it is not wgmma."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import run_gpu_passes

import tegula as tg
from support.group_roles import roles
from support.small_integers import numbers
from tegula.ops.group import RegisterMma, SharedMma
from tegula.passes.pipeline import prepare
from tegula.passes.select_matmuls import explain_matmuls
from tegula.runtime.compile import trace
from tegula.runtime.description import SPECIALISATIONS
from tegula.runtime.inspection import inspect_for_gpu
from tegula.runtime.launch import block_size, plan
from tegula.runtime.resolve import overlaps, specialisation
from tegula.target import get_cuda_target

WARP_GROUP_UNIT = "tensor cores of warp groups (wgmma)"
WARP_UNIT = "tensor cores of warps (mma.sync); not wgmma: "
HALF = tg.bfloat16


def matmul_units(kernel: Any, args: list[Any], arch: str = "sm_90a") -> list[str]:
    """The text about each matmul, without the line number. Every matmul that does not use wgmma has a reason."""
    lowered_kernel, _ = run_gpu_passes(kernel, args, (1,), block_size(kernel, None, args), arch)
    for op in lowered_kernel.walk():
        if isinstance(op, SharedMma | RegisterMma):
            assert (op.attrs.get("unit") == "wgmma") != bool(op.attrs.get("declined"))
    head, *lines = explain_matmuls(lowered_kernel)
    assert head == "matmuls:"
    return [line.split(": ", 1)[1] for line in lines]


def explain_lines(kernel: Any, args: list[Any]) -> list[str]:
    """The lines of `explain()` on a GPU."""
    specialisations = [SPECIALISATIONS[pack(a)[0]] for pack, a in zip(kernel.packers, args, strict=True)]
    threads = block_size(kernel, None, args)
    specialised = specialisation(specialisations, plan((1, threads), threads).launch, overlaps(tuple(args)))
    traced_kernel = trace(kernel, specialised.types, specialised.launch, specialised.access)
    prepare(traced_kernel)
    return (
        inspect_for_gpu(kernel, specialised, traced_kernel, get_cuda_target("sm_90a"), {}).text().splitlines()
    )


def pipe_matmul_units(
    shape: tuple[int, int, int],
    a: Any,
    b: Any,
    c: Any,
    transposed: tuple[bool, bool],
    groups: int = 1,
    arch: str = "sm_90a",
) -> list[str]:
    m, n, k = shape
    x, y = (
        numbers(*((k, m) if transposed[0] else (m, k)), dtype=a),
        numbers(*((n, k) if transposed[1] else (k, n)), dtype=b),
    )
    return matmul_units(roles(shape, a, b, c, transposed, groups), [x, y, tg.zeros((m, n), dtype=c), 1], arch)


ROW_MAJOR, TRANSPOSED = (False, False), (True, True)
PIPE_MATMULS = [
    ((64, 32, 64), HALF, HALF, ROW_MAJOR, 1, WARP_GROUP_UNIT),
    ((64, 32, 8), HALF, HALF, ROW_MAJOR, 1, f"{WARP_UNIT}K is 8, which is not a multiple of 16"),
    ((64, 20, 64), HALF, HALF, ROW_MAJOR, 1,
     f"{WARP_UNIT}64 rows and 20 columns are not a multiple of 64 by 8 for each of 1 warp group"),
    ((64, 32, 64), HALF, tg.float16, ROW_MAJOR, 1,
     f"{WARP_UNIT}wgmma does not multiply bfloat16 by float16 into float32"),
    ((256, 256, 64), tg.float32, tg.float32, TRANSPOSED, 2,
     f"{WARP_UNIT}the left operand of 32 bits does not have K along its rows, and the operand would need its own "
     "stage, which exceeds shared memory"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "a", "b", "transposed", "groups", "unit"), PIPE_MATMULS, ids=range(len(PIPE_MATMULS))
)
def test_explain_states_the_unit_of_matmuls_of_pipes(
    shape: tuple[int, int, int], a: Any, b: Any, transposed: tuple[bool, bool], groups: int, unit: str
) -> None:
    assert pipe_matmul_units(shape, a, b, tg.float32, transposed, groups) == [unit]


def test_explain_states_that_earlier_gpus_have_no_wgmma() -> None:
    assert pipe_matmul_units((64, 32, 64), HALF, HALF, tg.float32, ROW_MAJOR, arch="sm_80") == [
        f"{WARP_UNIT}sm_80 has no wgmma"
    ]


@tg.kernel
def split_matmul(x: tg.array2d[HALF], y: tg.array2d[HALF], z: tg.array2d[tg.float32], steps: int):
    left = tg.tile_empty(shape=(2, 64, 64), dtype=HALF, storage="shared")
    right = tg.tile_empty(shape=(2, 64, 32), dtype=HALF, storage="shared")
    full, empty = tg.mbarrier(1, stages=2), tg.mbarrier(4, stages=2)
    with tg.ws(0):
        if tg.elect():
            for k in range(steps):
                s, phase = k % 2, k // 2 & 1
                tg.mbarrier_wait(empty, s, phase ^ 1)
                tg.mbarrier_expect_bytes(full, s, 64 * 64 * 2 + 64 * 32 * 2)
                tg.tile_load_async(x, left[s, 0:32], offset=(0, k * 64), barrier=full, stage=s)
                tg.tile_load_async(x, left[s, 32:64], offset=(32, k * 64), barrier=full, stage=s)
                tg.tile_load_async(y, right[s], offset=(k * 64, 0), barrier=full, stage=s)
    with tg.ws(1):
        total = tg.tile_zeros(shape=(64, 32), dtype=tg.float32)
        for k in range(steps):
            s, phase = k % 2, k // 2 & 1
            tg.mbarrier_wait(full, s, phase)
            tg.tile_matmul(left[s], right[s], total)
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
        tg.tile_store(z, total)


def test_explain_states_the_unit_of_matmuls_of_partially_filled_stages() -> None:
    """The message names the line of the first part."""
    args = [numbers(64, 64, dtype=HALF), numbers(64, 32, dtype=HALF), tg.zeros((64, 32), dtype=tg.float32), 1]
    (actual,) = matmul_units(split_matmul, args)
    line = split_matmul.definition.location.line + 11
    assert actual == (
        f"{WARP_UNIT}the left operand lies in a ring with an access other than to a whole stage (line {line}), and the "
        "operand is in a hand-written ring, which is never copied to a swizzled stage"
    )
    assert f"  line {line + 8}: {actual}" in explain_lines(split_matmul, args)


@tg.kernel
def single_matmul(x: tg.array2d[HALF], y: tg.array2d[HALF], z: tg.array2d[tg.float32]):
    total = tg.tile_load(z, shape=(64, 32))
    tg.tile_matmul(tg.tile_load(x, shape=(64, 64)), tg.tile_load(y, shape=(64, 32)), total)
    tg.tile_store(z, total)


def test_explain_states_the_unit_of_matmuls_without_roles() -> None:
    args = [
        tg.array(np.zeros(s, np.float32), dtype=t)
        for s, t in (((64, 64), HALF), ((64, 32), HALF), ((64, 32), tg.float32))
    ]
    kernel, _ = run_gpu_passes(single_matmul, args, (1,), 128)
    (line,) = explain_matmuls(kernel)[1:]
    assert "is not a tile of a pipe, and the operand is outside of roles" in line
