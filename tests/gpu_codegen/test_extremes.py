"""Extremes of NaNs, infinities and zeros of both signs as GPU code, run thread by thread, and as lowered programs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import assemble, lower_to_llvm
from lowering import agrees, tiled
from simt import run_together

import tegula as tg
from support.campaigns import chunks
from support.extremes import arguments, assert_same_numbers, extreme_index, running_extremes


def expected(args: list[Any]) -> list[Any]:
    x = args[0].numpy().astype(np.float64)
    elements = x.reshape(-1).tolist()
    indices = [extreme_index(elements, k) for k in (True, False)]
    rows, columns = ([[r[extreme_index(r, k)] for r in a.tolist()] for k in (True, False)] for a in (x, x.T))
    return [
        indices,
        *(running_extremes(elements, k) for k in (True, False)),
        [elements[k] for k in indices],
        rows,
        columns,
    ]


def check(seed: int) -> None:
    kernel, args, threads = arguments(seed)
    agrees(tiled(kernel, args, (1,), threads))
    expected_results = expected(args)
    code = lower_to_llvm(kernel, args, (1,), threads)
    run_together(code, kernel, args, (1, threads), 1)
    for result, reference in zip(args[1:], expected_results, strict=True):
        assert_same_numbers(result.numpy(), reference)
    text, _ = assemble(code)
    instructions = set(re.findall(r"\b(?:min|max)(?:\.\w+)*\.b?f\d+", text))
    dtype_suffix = "f64" if args[0].dtype == tg.float64 else "f32"
    several = len(args[0].numpy().reshape(-1)) > 1
    assert instructions == ({f"min.{dtype_suffix}", f"max.{dtype_suffix}"} if several else set()), (
        "min and max without .NaN and .ftz, which order zeros and ignore NaNs"
    )


@pytest.mark.machine_code
@pytest.mark.parametrize("seed", [3])
def test_extremes_order_nan_and_zeros_as_the_interpreter(seed: int) -> None:
    check(seed)


@pytest.mark.machine_code
@pytest.mark.parametrize("seed", chunks(range(40), slow=20))
def test_extremes_of_many_programs_order_nan_and_zeros_as_the_interpreter(seed: int) -> None:
    check(seed)


@tg.kernel
def scan_sums(x: tg.array1d[tg.bfloat16], y: tg.array1d[tg.bfloat16]):
    tg.tile_store(y, tg.tile_scan_inclusive(tg.tile_load(x, shape=320)))


@pytest.mark.machine_code
def test_sums_of_narrow_floats_are_rounded_at_the_end() -> None:
    args = [tg.ones(320, dtype=tg.bfloat16), tg.zeros(320, dtype=tg.bfloat16)]
    run_together(lower_to_llvm(scan_sums, args, (1,), 64), scan_sums, args, (1, 64), 1)
    numpy_dtype = args[0].numpy().dtype
    np.testing.assert_array_equal(args[1].numpy(), np.arange(1, 321).astype(numpy_dtype))


@tg.kernel
def determinant_kernel(x: tg.array2d[float], y: tg.array2d[float]):
    i = tg.tid()
    y[0, i] = tg.diff_of_products(x[0, i], x[1, i], x[2, i], x[3, i])
    y[1, i] = x[0, i] * x[1, i] - x[2, i] * x[3, i]


def test_diff_of_products_is_not_fused() -> None:
    """The expression becomes one fma; the function has a separate subtraction."""
    text, _ = assemble(
        lower_to_llvm(
            determinant_kernel, [np.zeros((4, 64), np.float32), np.zeros((2, 64), np.float32)], (1,), 64
        )
    )
    assert len(re.findall(r"\bfma\.rn\.f32\b", text)) == 1
    assert len(re.findall(r"\bmul\.rn\.f32\b", text)) == 3
    assert len(re.findall(r"\bsub\.rn\.f32\b", text)) == 1
