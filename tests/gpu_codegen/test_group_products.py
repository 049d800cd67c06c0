"""Products of warp groups as GPU code, run by the model of tests/gpu_codegen/simt.py: descriptors, swizzles, copies,
memory barriers. bfloat16, which has run on a GPU, shows that the model is right."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import assembled, lowered
from simt import run_together
from test_products import numbers, wide

import tegula as tg
from tegula.backend import ptx
from tegula.runtime.launch import block_size

ASSEMBLER = bool(ptx.candidates())


def roles(shape: tuple[int, int, int], a: Any, b: Any, c: Any, turns: tuple[bool, bool], groups: int) -> Any:
    """A sum over tiles that one role fetches and others multiply. Turned operands lie with K along the columns, if
    left, or along the rows, if right."""
    m, n, k = shape
    left, right = ((k, m) if turns[0] else (m, k)), ((n, k) if turns[1] else (k, n))
    turn_left, turn_right = turns

    @tg.kernel
    def multiply(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any], steps: int):
        p = tg.tile_pipe(shape=left, dtype=a, stages=2)
        q = tg.tile_pipe(shape=right, dtype=b, stages=2)
        with tg.role("fetch", warps=4):
            for i in range(steps):
                if turn_left:
                    tg.tile_pipe_load(p, x, offset=(i * k, 0))
                else:
                    tg.tile_pipe_load(p, x, offset=(0, i * k))
                if turn_right:
                    tg.tile_pipe_load(q, y, offset=(0, i * k))
                else:
                    tg.tile_pipe_load(q, y, offset=(i * k, 0))
        with tg.role("multiply", warp_groups=groups):
            total = tg.tile_zeros(shape=(m, n), dtype=c)
            for _i in range(steps):
                s, t = tg.tile_pipe_pop(p), tg.tile_pipe_pop(q)
                if turn_left:
                    s = tg.tile_transpose(s)
                if turn_right:
                    t = tg.tile_transpose(t)
                tg.tile_matmul(s, t, total, precision="tf32")
            tg.tile_store(z, total)

    return multiply


def run(kernel: Any, args: list[Any], blocks: int = 1) -> str:
    """The PTX of a kernel that the model has run."""
    threads = block_size(kernel, None, args)
    code = lowered(kernel, args, (blocks,), threads)
    for piece, at in zip(code.shared.intervals, code.shared.offsets, strict=True):
        assert at % piece.align == 0, f"{piece.name} lies at {at}"
    run_together(code, kernel, args, (blocks, threads), blocks)
    text, made = assembled(code)
    assert not ASSEMBLER or made.spill_bytes == 0
    return text


def check(shape: tuple[int, int, int], a: Any, b: Any, c: Any, turns: tuple[bool, bool], groups: int = 1,
          steps: int = 3, ragged: int = 16) -> list[str]:  # fmt: skip
    """The shapes and types of the instructions of a product that the model finds right. `ragged`: elements of K that
    the last tile lacks; if odd, threads copy the arrays."""
    m, n, k = shape
    long = k * steps - ragged
    x = numbers(*((long, m) if turns[0] else (m, long)), dtype=a)
    y = numbers(*((n, long) if turns[1] else (long, n)), dtype=b, seed=1)
    z = tg.zeros((m, n), dtype=c)
    text = run(roles(shape, a, b, c, turns, groups), [x, y, z, steps])
    wanted = (wide(x).T if turns[0] else wide(x)) @ (wide(y).T if turns[1] else wide(y))
    np.testing.assert_array_equal(wide(z), wanted)
    return re.findall(r"wgmma\.mma_async\.sync\.aligned\.(\S+)", text)


@pytest.mark.parametrize("turns", [(False, False), (True, True), (False, True)], ids=str)
def test_sixteen_bits_in_every_order(turns: tuple[bool, bool]) -> None:
    assert check((64, 32, 64), tg.bfloat16, tg.bfloat16, tg.float32, turns) == ["m64n32k16.f32.bf16.bf16"] * 4


@pytest.mark.parametrize(
    ("a", "b", "c", "k", "name"),
    [
        (tg.float8_e4m3, tg.float8_e4m3, tg.float32, 128, "m64n48k32.f32.e4m3.e4m3"),
        (tg.float8_e5m2, tg.float8_e4m3, tg.float32, 64, "m64n48k32.f32.e5m2.e4m3"),
        (tg.int8, tg.int8, tg.int32, 128, "m64n48k32.s32.s8.s8"),
        (tg.uint8, tg.uint8, tg.uint32, 32, "m64n48k32.s32.u8.u8"),
        (tg.float32, tg.float32, tg.float32, 32, "m64n48k8.f32.tf32.tf32"),
        (tg.float32, tg.float32, tg.float32, 16, "m64n48k8.f32.tf32.tf32"),
    ],
    ids=str,
)
def test_rows_along_k(a: Any, b: Any, c: Any, k: int, name: str) -> None:
    for ragged in (min(16, k // 2), 5):
        found = check((64, 48, k), a, b, c, (False, True), ragged=ragged)
        assert found == [name] * (k * a.bits // 256)
