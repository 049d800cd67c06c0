"""Integer divisions: operands with known bounds need no tests and no rounding towards minus infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def digits(out: tg.array2d[tg.int32], divisor: tg.int32):
    i = tg.tid()
    known = 3 + i % 5
    out[i, 0] = i // 7 + i % 7
    out[i, 1] = i // known + i % known
    out[i, 2] = (i - 9) // divisor + (i - 9) % divisor


def test_divisions_of_thread_indices_are_unsigned_and_without_tests() -> None:
    tg.launch(digits, dim=40, inputs=[tg.zeros((40, 3), dtype=tg.int32), 2])
    text = digits.llvm()
    # Quotients and remainders of the last lanes share divisions; only the divisor that is an argument is tested.
    assert (text.count("udiv i32"), text.count("sdiv i32"), text.count("icmp eq i32")) == (3, 1, 2)


@pytest.mark.parametrize("divisor", (-4, -1, 0, 1, 3))
def test_divisions_are_those_of_python_with_quotients_of_zero_for_zero(divisor: int) -> None:
    out = tg.zeros((40, 3), dtype=tg.int32)
    tg.launch(digits, dim=40, inputs=[out, divisor])
    i = np.arange(40)
    known, low = 3 + i % 5, i - 9
    expected = [i // 7 + i % 7, i // known + i % known]
    truncated = low - (np.trunc(low / divisor) * divisor if divisor else low)
    expected.append((low // divisor if divisor else 0 * i) + truncated)
    np.testing.assert_array_equal(out.numpy(), np.stack(expected, axis=1))


@pytest.mark.parametrize("dtype", (np.uint8, np.uint32, np.uint64, np.int64))
def test_divisions_by_the_largest_number_are_those_of_numpy(dtype: type) -> None:
    largest = np.iinfo(dtype).max

    @tg.kernel
    def divided(x: tg.array1d[Any], out: tg.array2d[Any]):
        i = tg.tid()
        out[i, 0] = x[i] // largest
        out[i, 1] = x[i] % largest
        out[i, 2] = largest // x[i]

    x = np.array([0, 1, 2, 100, largest - 1, largest] * 7, dtype)
    out = tg.zeros((len(x), 3), dtype=dtype)
    tg.launch(divided, dim=len(x), inputs=[tg.array(x), out])
    inverse = np.where(x == 0, 0, largest // np.maximum(x, 1)).astype(dtype)
    np.testing.assert_array_equal(
        out.numpy(), np.stack([x // dtype(largest), x % dtype(largest), inverse], axis=1)
    )
