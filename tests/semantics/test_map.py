"""`tg.map` applies functions of elements to arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

factor = 2.0


@tg.func
def sum_and_comparison(x: float, y: float):
    return x + y, x > y


def scaled_square(v, s):
    return tg.dot(v, v) * s


def add_offset(a: tg.array, offset: float) -> tg.array:
    return tg.map(lambda x: x + offset, a)


def cast(a: tg.array, t: Any) -> tg.array:
    return tg.map(lambda x: t(x), a)


def no_result(x):
    tg.abs(x)


@pytest.mark.machine_code
def test_map_accepts_functions_of_every_kind() -> None:
    a, b = np.array([1.0, 4.0, 9.0], np.float32), np.array([[1.0], [2.0]], np.float32)
    x, y = tg.array(a), tg.array(b)
    np.testing.assert_allclose(tg.map(tg.sqrt, x).numpy(), [1, 2, 3])
    np.testing.assert_allclose(tg.map(lambda p, q: p + 2.0 * q, x, y).numpy(), a + 2 * b)
    np.testing.assert_allclose(tg.map(tg.clamp, x, 2, 5.0).numpy(), [2, 4, 5])
    np.testing.assert_allclose(tg.map(abs, -x).numpy(), a)
    np.testing.assert_allclose(
        tg.map(tg.add, x, tg.array(np.ones((2, 3, 3), np.float32))).numpy(), a + np.ones((2, 3, 3))
    )
    array = tg.map(scaled_square, tg.array([[1.0, 2.0, 2.0]], dtype=tg.vec3), 2.0)
    assert array.list() == [18.0]


@pytest.mark.machine_code
def test_map_returns_several_results() -> None:
    total, greater = tg.map(sum_and_comparison, tg.array([1.0, 4.0]), tg.array([3.0, 2.0]))
    assert total.list() == [4.0, 6.0] and greater.list() == [False, True] and greater.dtype == tg.bool


@pytest.mark.machine_code
def test_map_returns_results_of_other_types() -> None:
    a = tg.array([1.5, 2.5])
    assert tg.map(lambda x: int(x), a).dtype == tg.int32
    assert tg.map(lambda x: tg.vec3(x, x, 0.0), a).dtype == tg.vec3
    assert tg.map(lambda x: 1, a).list() == [1, 1]
    assert tg.map(tg.add, tg.array([1.0], dtype=tg.float64), 0.1).list() == [1.1]
    assert tg.map(lambda x, y: x * y, tg.array([1.0], dtype=tg.float64), 0.1).dtype == tg.float64


@pytest.mark.machine_code
def test_map_follows_captured_variables() -> None:
    global factor
    a, scaled = tg.array([1.0, 2.0]), lambda x: x * factor
    assert tg.map(scaled, a).list() == [2.0, 4.0]
    factor = 3.0
    assert tg.map(scaled, a).list() == [3.0, 6.0]
    factor = tg.constant(2.0)
    assert add_offset(a, 1.0).list() == [2.0, 3.0] and add_offset(a, 2.0).list() == [3.0, 4.0]
    for t in (tg.int32, tg.float64):
        assert cast(a, t).dtype == t


@pytest.mark.machine_code
def test_map_writes_results_to_out_arrays() -> None:
    a, out = tg.array([1.0, 4.0]), tg.zeros(2)
    assert tg.map(tg.sqrt, a, out=out) is out and out.list() == [1.0, 2.0]
    assert tg.map(tg.clamp, a, 2.0, 3.0, out=a) is a and a.list() == [2.0, 3.0]
    flags = tg.zeros(2, dtype=bool)
    assert tg.map(sum_and_comparison, a, a, out=[out, flags]) == [out, flags]
    with pytest.raises(tg.LaunchError, match="shape"):
        tg.map(tg.sqrt, a, out=tg.zeros(3))


@pytest.mark.machine_code
def test_map_returns_its_kernel() -> None:
    kernel = tg.map(lambda x, y: x * y, tg.zeros((2, 3)), 1.0, return_kernel=True)
    out = tg.zeros((4, 5))
    tg.launch(kernel, out.shape, [tg.ones((4, 5)), 3.0], [out])
    assert out.list() == [[3.0] * 5] * 4


@pytest.mark.machine_code
def test_gradients_of_map_are_correct() -> None:
    x, c = tg.array([1.0, 2.0, 3.0], requires_grad=True), tg.array([2.0], requires_grad=True)
    with tg.Tape() as tape:
        y = tg.map(lambda x, c: tg.sin(x) * c, x, c)
        loss = y.sum()
    assert y.requires_grad and not tg.map(lambda x: x > 0.0, x).requires_grad
    tape.backward(loss)
    assert x.grad is not None and c.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.cos([1, 2, 3]), rtol=1e-6)
    np.testing.assert_allclose(c.grad.numpy(), [np.sin([1, 2, 3]).sum()], rtol=1e-6)


def test_map_of_empty_arrays_is_empty() -> None:
    assert tg.map(tg.sin, tg.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.sin, tg.zeros(2)), "cannot apply sin"),
        ((tg.sin, 1.0), "needs an array"),
        ((tg.add, tg.zeros(3), tg.zeros(2)), "broadcast"),
        ((no_result, tg.zeros(3)), "no value"),
        ((tg.add, tg.zeros(3), "x"), "cannot take 'x'"),
        ((sum_and_comparison, tg.zeros(3)), "argument"),
        ((tg.vec3, tg.zeros(3)), "cannot apply"),
    ],
)
def test_invalid_maps_are_refused(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises((tg.LaunchError, tg.CompileError), match=words):
        tg.map(*arguments)
