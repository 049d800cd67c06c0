"""The comparison of results of candidates, with tolerances and special values."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tegula.tune.results import difference, group_agreeing

X = np.random.default_rng(0).standard_normal(10000).astype(np.float32)


def exceeds_tolerance(
    a: np.ndarray, b: np.ndarray, dtype: str = "float32", tolerance: float | None = None
) -> bool:
    return difference([(dtype, a)], [(dtype, b)], tolerance) > 1.0


def with_element(value: float, index: int = 7, x: np.ndarray = X) -> np.ndarray:
    out = x.copy()
    out[index] = value
    return out


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_results_one_rounding_apart_agree(dtype: str) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
    x = np.abs(X) + 1.0
    rounding_error = {"bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
    assert not exceeds_tolerance(x.astype(kind), (x * (1.0 + rounding_error)).astype(kind), dtype)
    assert exceeds_tolerance(x.astype(kind), (x * (1.0 + 16 * rounding_error)).astype(kind), dtype)


def test_a_single_wrong_element_is_a_difference() -> None:
    assert exceeds_tolerance(X, with_element(X[7] + 0.01))
    assert not exceeds_tolerance(X, with_element(X[7] + 1e-5))
    assert not exceeds_tolerance(X, with_element(X[7] + 0.01), tolerance=0.1)


def test_sums_in_another_order_agree() -> None:
    terms = np.random.default_rng(1).standard_normal((4096, 300)).astype(np.float32)
    assert not exceeds_tolerance(terms.sum(0), terms[::-1].cumsum(0)[-1])


def test_special_values_agree_only_with_themselves() -> None:
    nan, inf = float("nan"), float("inf")
    assert not exceeds_tolerance(with_element(nan), with_element(nan)) and not exceeds_tolerance(
        with_element(inf), with_element(inf)
    )
    for first, second in ((nan, 0.0), (inf, -inf), (inf, nan), (nan, inf)):
        assert exceeds_tolerance(with_element(first), with_element(second))
    zeros = np.zeros(5, np.float32)
    assert not exceeds_tolerance(zeros, -zeros) and exceeds_tolerance(zeros, with_element(1e-30, 0, zeros))
    assert not exceeds_tolerance(zeros[:0], zeros[:0])


def test_integer_results_agree_only_if_equal() -> None:
    n = np.arange(10)
    assert not exceeds_tolerance(n, n.copy(), "int64") and exceeds_tolerance(n, n + (n == 3), "int64")


def test_results_are_grouped_by_agreement() -> None:
    results = [[("float32", x)] for x in (X, X * 2, X * 2.00001, X * 3, X * 2)]
    assert group_agreeing(results, None) == [[1, 2, 4], [0], [3]]
