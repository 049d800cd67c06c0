"""Arithmetic, indexing and conversions of arrays on the host match NumPy, and are differentiated by tapes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.types import DType, to_numpy

BINARY: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod]
SHAPES = [((5,), (5,)), ((2, 3), (3,)), ((2, 1, 3), (4, 1)), ((1,), (2, 2)), ((2, 1, 2, 1), (3, 1, 4))]


def random_array(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> np.ndarray:
    result = np.random.default_rng(seed).uniform(0.5, 4.0, shape)
    return result.astype(to_numpy(dtype))


@pytest.mark.machine_code
@pytest.mark.parametrize("f", BINARY)
def test_operators_of_two_arrays_match_numpy(f: Callable[[Any, Any], Any]) -> None:
    for shapes in SHAPES[:3] if f is operator.add else SHAPES[1:2]:
        a, b = random_array(shapes[0], tg.float64), random_array(shapes[1], tg.float64, 1)
        array = f(tg.array(a), tg.array(b))
        assert array.dtype == tg.float64
        np.testing.assert_allclose(array.numpy(), f(a, b), rtol=1e-14)
        np.testing.assert_allclose(f(a, tg.array(b)).numpy(), f(a, b), rtol=1e-14)


@pytest.mark.machine_code
@pytest.mark.parametrize("f", BINARY)
def test_operators_of_an_array_and_a_number_match_numpy(f: Callable[[Any, Any], Any]) -> None:
    a = random_array((2, 3), tg.float32)
    for number in (2, 1.5):
        np.testing.assert_allclose(f(tg.array(a), number).numpy(), f(a, np.float32(number)), rtol=1e-6)
        np.testing.assert_allclose(f(number, tg.array(a)).numpy(), f(np.float32(number), a), rtol=1e-6)


@pytest.mark.machine_code
def test_operators_of_integer_arrays_agree_with_kernels() -> None:
    a = np.array([-7, 8, 9], np.int32)
    for f in (operator.add, operator.mul, operator.floordiv):
        array = f(tg.array(a), 2)
        assert array.dtype == tg.int32
        np.testing.assert_array_equal(array.numpy(), f(a, 2))
    assert (tg.array(a) % 4).list() == [-3, 0, 1]
    assert (tg.array(a) / 2).list() == [-3, 4, 4]
    assert (tg.array(np.array([250], np.uint8)) + 10).list() == [4]


@pytest.mark.machine_code
@pytest.mark.parametrize("f", IN_PLACE)
def test_in_place_operators_match_numpy(f: Callable[[Any, Any], Any]) -> None:
    a, b = random_array((3, 4), tg.float64), random_array((4,), tg.float64, 1)
    array = tg.array(a)
    assert f(array, tg.array(b)) is array
    np.testing.assert_allclose(array.numpy(), f(a.copy(), b), rtol=1e-14)


@pytest.mark.machine_code
def test_in_place_operators_on_overlapping_parts_match_numpy() -> None:
    a = tg.array(np.arange(8, dtype=np.float32))
    a[1:] += a[:-1]
    assert a.list() == [0, 1, 3, 5, 7, 9, 11, 13]
    a[::-1][:4] -= a[:4]
    assert a.list() == [0, 1, 3, 5, 2, 6, 10, 13]
    with pytest.raises(tg.LaunchError, match="shape"):
        a[:2] += tg.zeros((2, 2))


@pytest.mark.machine_code
def test_unary_operators_of_arrays_match_numpy() -> None:
    a = tg.array([-1.5, 2.0])
    assert (-a).list() == [1.5, -2.0] and abs(a).list() == [1.5, 2.0]
    assert (+a).list() == a.list() and +a is not a


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.float32, tg.float64, tg.float16, tg.int32], ids=str)
def test_matmul_operator_matches_numpy(dtype: DType) -> None:
    a, b = random_array((33, 40), tg.float64) * 2, random_array((40, 5), tg.float64, 1)
    a, b = a.astype(to_numpy(dtype)), b.astype(to_numpy(dtype))
    expected = a.astype(np.float64) @ b.astype(np.float64)
    left_array, right_array = tg.array(a), tg.array(b)
    np.testing.assert_allclose(
        (left_array @ right_array).numpy(), expected, rtol=2e-3 if dtype == tg.float16 else 1e-5
    )
    assert (left_array @ right_array[:, 0]).shape == (33,) and (left_array[0] @ right_array).shape == (5,)
    assert (left_array[0] @ left_array[1]).shape == (1,) and (a @ right_array).shape == (33, 5)
    with pytest.raises(tg.LaunchError, match="columns"):
        _ = right_array @ left_array


@pytest.mark.machine_code
def test_operators_of_arrays_of_vectors_and_matrices_match_numpy() -> None:
    v = np.arange(6, dtype=np.float32).reshape(2, 3)
    m = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    points, matrices = tg.array(v, dtype=tg.vec3), tg.array(m, dtype=tg.mat33)
    np.testing.assert_array_equal((points * 2 + tg.vec3(1.0, 2.0, 3.0)).numpy(), v * 2 + [1, 2, 3])
    np.testing.assert_array_equal((tg.array([1.0, 2.0]) * points).numpy(), v * [[1], [2]])
    np.testing.assert_allclose((matrices @ points).numpy(), np.einsum("nij,nj->ni", m, v))
    assert points.sum().list() == [[3.0, 5.0, 7.0]] and points.sum().dtype == tg.vec3
    np.testing.assert_array_equal(points[1].item(), [3, 4, 5])


@pytest.mark.machine_code
def test_operators_refuse_operands_that_do_not_fit() -> None:
    a, i = tg.zeros(3), tg.array([1, 2, 3])
    for operation in (lambda: a + i, lambda: i + np.zeros(3), lambda: a * tg.zeros(2), lambda: i * 2.5):
        with pytest.raises((tg.LaunchError, ValueError), match=r"astype|broadcast"):
            operation()
    for operand in ("x", None, {}, object()):
        with pytest.raises(TypeError):
            _ = a + operand
    with pytest.raises(TypeError):
        _ = a == a + 1


# Elements and parts ---------------------------------------------------------------------------------------------------


def test_one_element_arrays_convert_to_numbers() -> None:
    a = tg.array([[1.5, 2.0], [0.0, 4.0]])
    assert float(a[0, 0]) == 1.5 and int(a[1, 1]) == 4 and a[0, 1].item() == 2.0 and complex(a[0, 0]) == 1.5
    assert a[0, 0] and not a[1, 0]
    assert type(a[0, 0].item()) is float and a.tolist() == [[1.5, 2.0], [0.0, 4.0]]
    for conversion in (a.item, lambda: float(a), lambda: bool(a)):
        with pytest.raises(ValueError):
            conversion()


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "index",
    [0, -1, (1, 2), slice(None), (slice(None), 1), (..., 0), (slice(None, None, -2), slice(1, 3)), (None, 1)],
    ids=str,
)
def test_assignment_to_parts_of_arrays_matches_numpy(index: Any) -> None:
    expected = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = tg.array(expected)
    np.testing.assert_array_equal(array[index].numpy(), np.atleast_1d(expected[index]))
    for value in (7.0, np.full_like(expected[index], 3.0) * 2):
        array[index] = value
        expected[index] = value
        np.testing.assert_array_equal(array.numpy(), expected)
    array[index] += 1
    expected[index] += 1
    np.testing.assert_array_equal(array.numpy(), expected)


def test_invalid_indices_of_arrays_are_refused() -> None:
    a = tg.zeros((2, 3))
    for index in (2, (0, 0, 0), 0.5, "x", (..., ...), True, [0, 1]):
        with pytest.raises(IndexError):
            _ = a[index]
        with pytest.raises(IndexError):
            a[index] = 1.0


def test_copies_and_views_of_arrays_match_numpy() -> None:
    a = tg.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    np.testing.assert_array_equal(a.T.numpy(), a.numpy().T)
    assert a.contiguous() is a and a.T.contiguous().is_contiguous
    copy = a.copy()
    copy[0] = 9.0
    assert a.list()[0] == [0, 1, 2] and a.nbytes == 24 and a[1].nbytes == 12


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.int32, tg.float64, tg.float16, tg.int8, tg.bool], ids=str)
def test_astype_matches_numpy(dtype: DType) -> None:
    a = np.array([-1.75, 0.0, 2.5], np.float32)
    array = tg.array(a).astype(dtype)
    assert array.dtype == dtype
    np.testing.assert_array_equal(array.numpy(), a.astype(to_numpy(dtype)))
    assert tg.array([1.0]).astype(int).dtype == tg.int32
    assert tg.zeros(2, dtype=tg.vec3).astype(tg.float64).dtype == tg.vec3d
    with pytest.raises(ValueError, match="cannot become"):
        tg.zeros(2).astype(tg.vec3)


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.float32, tg.float64, tg.float16, tg.int8, tg.uint16, tg.bool], ids=str)
def test_sums_of_arrays_match_numpy(dtype: DType) -> None:
    for shape in ((1,), (7, 3), (5000,), (0, 3)):
        a = (np.arange(np.prod(shape)) % 3 == 1).reshape(shape).astype(to_numpy(dtype))
        array = tg.array(a).sum()
        assert array.shape == (1,) and array.item() == a.sum() and to_numpy(array.dtype) == a.sum().dtype
        assert tg.array(a).T.sum().item() == a.sum()


# Gradients ------------------------------------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_gradients_of_array_arithmetic_are_correct() -> None:
    x = tg.array([0.5, 1.5, 2.5], dtype=tg.float64, requires_grad=True)
    c = tg.array([[2.0], [3.0]], dtype=tg.float64, requires_grad=True)
    with tg.Tape() as tape:
        y = (c * x - x / c) ** 2.0
        y += x
        loss = (y.T @ y).sum()
    tape.backward(loss)

    def value(x: np.ndarray, c: np.ndarray) -> float:
        y = (c * x - x / c) ** 2.0 + x
        return (y.T @ y).sum()

    values = {"x": x.numpy().copy(), "c": c.numpy().copy()}
    for name, a in (("x", x), ("c", c)):
        expected = np.zeros(a.shape)
        for k in np.ndindex(*a.shape):
            step = np.zeros(a.shape)
            step[k] = 1e-6
            expected[k] = (
                value(**{**values, name: values[name] + step})
                - value(**{**values, name: values[name] - step})
            ) / 2e-6
        assert a.grad is not None
        np.testing.assert_allclose(a.grad.numpy(), expected, rtol=1e-6)


@pytest.mark.machine_code
def test_gradients_of_parts_of_arrays_are_correct() -> None:
    x = tg.array([1.0, 2.0, 3.0], requires_grad=True)
    with tg.Tape() as tape:
        y = tg.ones(4, requires_grad=True)
        y[1:] = x * x
        y[1] = 5.0
        y[2:] *= 10.0
        loss = y.sum()
    tape.backward(loss)
    assert x.grad is not None and x.grad.list() == [0.0, 40.0, 60.0]


@pytest.mark.machine_code
def test_gradients_that_would_be_lost_are_refused() -> None:
    x = tg.array([1.0, 2.0], requires_grad=True)
    with tg.Tape() as tape:
        y = x * 2.0
        y *= y
        loss = y.sum()
    with pytest.raises(tg.CompileError, match="overwrites"):
        tape.backward(loss)
    with tg.Tape() as tape:
        y = tg.zeros((2, 2), requires_grad=True)
        y[:] = x
        loss = y.sum()
    with pytest.raises(tg.LaunchError, match="would be a sum"):
        tape.backward(loss)


@pytest.mark.machine_code
def test_conversions_of_floats_have_a_gradient() -> None:
    x = tg.array([1.0, 2.0], requires_grad=True)
    with tg.Tape() as tape:
        loss = (x.astype(tg.float64).contiguous() * x.astype(int).astype(tg.float64)).sum()
    tape.backward(loss)
    assert x.grad is not None and x.grad.list() == [1.0, 2.0]
