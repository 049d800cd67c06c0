"""Sums, inner products, running sums and conversions of whole arrays, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code(some=True)

SHAPES = ((5000,), (70, 30), (4, 5, 3), (3000, 2), (2, 0, 3), (1,))


def numbers(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_array_sums_along_every_axis_match_numpy(shape: tuple[int, ...]) -> None:
    x, y = numbers(shape), numbers(shape, 1)
    a, b = tg.array(x), tg.array(y)
    for axis in range(-len(shape), len(shape)):
        for actual, expected in (
            (tg.utils.array_sum(a, axis=axis), x),
            (tg.utils.array_inner(a, b, axis=axis), x * y),
        ):
            np.testing.assert_allclose(
                actual.numpy(), expected.sum(axis, keepdims=True), rtol=1e-12, atol=1e-11
            )
    assert tg.utils.array_sum(a) == pytest.approx(x.sum(), abs=1e-11)
    assert tg.utils.array_inner(a, b) == pytest.approx((x * y).sum(), abs=1e-11)


def test_array_sum_adds_vectors_by_component() -> None:
    x = numbers((40, 7, 3))
    a = tg.array(x, dtype=tg.vec3d)
    np.testing.assert_allclose(tg.utils.array_sum(a), x.sum((0, 1)), rtol=1e-11)
    np.testing.assert_allclose(tg.utils.array_sum(a, axis=1).numpy(), x.sum(1, keepdims=True), rtol=1e-11)
    np.testing.assert_allclose(tg.utils.array_inner(a, a), (x * x).sum(), rtol=1e-12)
    actual = tg.utils.array_inner(a, a, axis=0)
    np.testing.assert_allclose(actual.numpy(), (x * x).sum((0, 2))[None], rtol=1e-12)


def test_array_sum_accepts_strided_arrays_and_a_result_array() -> None:
    x = numbers((50, 40))
    a, out = tg.array(x)[::2, 3:], tg.zeros((25, 2), dtype=tg.float64)
    assert tg.utils.array_sum(a, axis=1, out=out[:, 1:]).shape == (25, 1)
    np.testing.assert_allclose(out.numpy(), np.stack([np.zeros(25), x[::2, 3:].sum(1)], 1), rtol=1e-11)
    assert tg.utils.array_sum(tg.array(x.reshape(-1)), value_count=3) == pytest.approx(
        x.reshape(-1)[:3].sum()
    )


def test_array_reductions_refuse_mismatched_arguments() -> None:
    a = tg.zeros((3, 4))
    with pytest.raises(IndexError, match="axis 2 is out of bounds"):
        tg.utils.array_sum(a, axis=2)
    with pytest.raises(ValueError, match="one shape"):
        tg.utils.array_inner(a, tg.zeros((4, 3)))
    for out in (tg.zeros(3), tg.zeros((1, 4), dtype=tg.float64)):
        with pytest.raises(RuntimeError, match="out "):
            tg.utils.array_sum(a, axis=0, out=out)
    with pytest.raises(RuntimeError, match="elements"):
        tg.utils.array_scan(a, tg.zeros(3))


def test_gradient_of_array_sum_is_correct() -> None:
    x = numbers((3000,))
    a, out = tg.array(x, requires_grad=True), tg.zeros(1, dtype=tg.float64, requires_grad=True)
    with tg.Tape() as tape:
        tg.utils.array_inner(a, a, out=out)
    tape.backward(out)
    assert a.grad is not None
    np.testing.assert_allclose(a.grad.numpy(), 2 * x, rtol=1e-14)


@pytest.mark.parametrize("size", [1, 1024, 1025, 5000])
def test_array_scan_matches_cumsum(size: int) -> None:
    x = np.random.default_rng(size).integers(-5, 9, size).astype(np.int32)
    a, out = tg.array(x), tg.zeros(size, dtype=tg.int32)
    tg.utils.array_scan(a, out)
    np.testing.assert_array_equal(out.numpy(), np.cumsum(x))
    tg.utils.array_scan(a, a, inclusive=False)
    np.testing.assert_array_equal(a.numpy(), np.cumsum(x) - x)


def test_array_scan_sums_vectors_by_component() -> None:
    x = numbers((2500, 3))
    out = tg.zeros(2500, dtype=tg.vec3d)
    tg.utils.array_scan(tg.array(x, dtype=tg.vec3d), out)
    np.testing.assert_allclose(out.numpy(), np.cumsum(x, 0), rtol=1e-9, atol=1e-10)


def test_array_cast_converts_elements_and_vectors() -> None:
    x = np.array([[1.5, -2.5, 3.0], [4.0, 5.0, 6.75]])
    for out in (tg.zeros((2, 3), dtype=tg.int32), tg.zeros((2, 6), dtype=tg.int32)[:, ::2]):
        tg.utils.array_cast(tg.array(x), out)
        np.testing.assert_array_equal(out.numpy(), [[1, -2, 3], [4, 5, 6]])
    out = tg.zeros(2, dtype=tg.vec3d)
    tg.utils.array_cast(tg.array(x), out)
    np.testing.assert_array_equal(out.numpy(), x)
    part = tg.zeros(6, dtype=tg.float64)
    tg.utils.array_cast(tg.array(x.reshape(-1)), part, count=2)
    assert part.numpy().tolist() == [1.5, -2.5, 0.0, 0.0, 0.0, 0.0]
    for shape, count in (((3, 2), None), ((2, 3), 5)):
        with pytest.raises(RuntimeError):
            tg.utils.array_cast(tg.array(x), tg.zeros(shape, dtype=tg.int32), count=count)
