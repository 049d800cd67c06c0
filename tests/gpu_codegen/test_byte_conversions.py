"""Conversions of several 8-bit numbers at once: all numbers, compared with the interpreter."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import lower_to_llvm
from simt import run_together

import tegula as tg
from support.campaigns import sampled
from tegula.backend.llvm import compile_ptx
from tegula.codegen.gpu.widen import widened
from tegula.codegen.text import Code
from tegula.ops.convert import convert
from tegula.types import to_numpy

NARROW = (tg.int8, tg.uint8, tg.float8_e4m3, tg.float8_e5m2)
WIDE = (tg.float16, tg.bfloat16, tg.float32)
THREADS = 32


def cast(to: Any, n: int) -> Any:
    @tg.kernel
    def cast(x: tg.array1d[Any], y: tg.array1d[Any]):
        tg.tile_store(y, tg.tile_astype(tg.tile_load(x, n), to))

    return cast


@pytest.mark.machine_code
@pytest.mark.parametrize("to", WIDE, ids=str)
@pytest.mark.parametrize("source", NARROW, ids=str)
@sampled(3, "n", [256, 96, 33])
def test_conversions_of_every_8_bit_number_match_the_interpreter(source: Any, to: Any, n: int) -> None:
    """Threads convert four numbers, three numbers, or two numbers and padding."""
    for first in range(0, 256, n):
        bits = np.arange(first, first + n).astype(np.uint8)
        x, y = bits.view(to_numpy(source)), np.zeros(n, to_numpy(to))
        kernel, args = cast(to, n), [tg.array(x, copy=False), tg.array(y, copy=False)]
        run_together(lower_to_llvm(kernel, args, (1,), THREADS), kernel, args, (1, THREADS), 1)
        expected = convert(x, to_numpy(to))
        np.testing.assert_array_equal(y.astype(np.float32), expected.astype(np.float32))
        np.testing.assert_array_equal(np.signbit(y), np.signbit(expected))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_8_bit_numbers_are_converted_in_vectors(arch: str) -> None:
    args = [tg.zeros(256, dtype=tg.int8), tg.zeros(256, dtype=tg.bfloat16)]
    text = compile_ptx(lower_to_llvm(cast(tg.bfloat16, 256), args, (1,), THREADS, arch=arch).text, arch)
    assert not re.findall(r"\bcvt\.r\S+", text)
    assert len(re.findall(r"(?:fma|mul)\.rn\.bf16x2", text)) == 2 * 8 // 2


@pytest.mark.machine_code
def test_conversions_with_arithmetic_match_the_interpreter() -> None:
    """A map that converts several numbers at once computes its other ops for each number."""

    @tg.kernel
    def scale_and_offset(x: tg.array1d[tg.int8], s: tg.array1d[float], y: tg.array1d[float]):
        tg.tile_store(y, tg.tile_astype(tg.tile_load(x, 256), float) * s[0] + 1.0)

    x, y = np.arange(256).astype(np.int8), np.zeros(256, np.float32)
    args = [tg.array(x, copy=False), tg.full(1, 0.5), tg.array(y, copy=False)]
    run_together(
        lower_to_llvm(scale_and_offset, args, (1,), THREADS), scale_and_offset, args, (1, THREADS), 1
    )
    np.testing.assert_array_equal(y, x.astype(np.float32) * 0.5 + 1.0)


@pytest.mark.parametrize("to", WIDE, ids=str)
def test_bytes_of_one_word_are_not_permuted_twice(to: Any) -> None:
    code, order = Code(), (0, 2, 1, 3)
    for k in order:
        code.bytes_of[f"%b{k}"] = "%four", k
    widened(code, [f"%b{k}" for k in order], tg.int8, to)
    selectors = [re.findall(r"i32 ([0-3])\b", line) for line in code.lines if "shufflevector" in line]
    assert [int(k) for selector in selectors for k in selector] == list(order)
    assert not any("insertelement <4 x i8>" in line for line in code.lines)
