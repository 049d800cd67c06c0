"""The constructors of arrays: memory, layouts, vectors and matrices in the last dimensions, complex numbers."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula.types import ElementType, VecType, element_shape

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        ((3,), tg.vec3, (1,)),
        ((6,), tg.vec3, (2,)),
        ((4, 2), tg.vec2, (4,)),
        ((4, 8), tg.vec2, (4, 4)),
        ((2, 5, 6), tg.vec3, (2, 5, 2)),
        ((3, 3), tg.mat33, (1,)),
        ((9,), tg.mat33, (1,)),
        ((2, 9), tg.mat33, (2,)),
        ((2, 27), tg.mat33, (2, 3)),
        ((4, 2, 2), tg.mat22, (4,)),
    ],
)
def test_vectors_and_matrices_take_the_last_dimensions(
    data: tuple[int, ...], dtype: ElementType, shape: tuple[int, ...]
) -> None:
    source = np.arange(np.prod(data), dtype=np.float32).reshape(data)
    for copy in (True, False):
        array = tg.array(source, dtype=dtype, copy=copy)
        assert array.shape == shape and array.dtype == dtype
        np.testing.assert_array_equal(array.numpy(), source.reshape(*shape, *element_shape(dtype)))
        assert np.shares_memory(array.numpy(), source) is not copy


@pytest.mark.parametrize(
    ("data", "dtype", "words"),
    [
        ((4,), tg.vec3, "multiple of 3"),
        ((2, 5), tg.mat22, "multiple of 4"),
        ((0, 5), tg.vec2, "multiple of 2"),
    ],
)
def test_other_lengths_of_vectors_and_matrices_are_refused(
    data: tuple[int, ...], dtype: ElementType, words: str
) -> None:
    with pytest.raises(RuntimeError, match=words):
        tg.array(np.zeros(data, np.float32), dtype=dtype)


@pytest.mark.parametrize(("dtype", "element_type"), [(np.complex64, tg.vec2f), (np.complex128, tg.vec2d)])
def test_complex_numbers_become_vectors_of_two(dtype: Any, element_type: ElementType) -> None:
    source = (np.arange(6) + 1j * np.arange(6, 0, -1)).astype(dtype).reshape(2, 3)
    for data in (source, source.T, source[:, ::2]):
        array = tg.array(data)
        assert array.dtype == element_type and array.shape == data.shape
        np.testing.assert_array_equal(array.numpy(), np.stack([np.real(data), np.imag(data)], -1))
    shared = tg.from_numpy(source)
    shared[0, 0] = (7, 8)
    assert source[0, 0] == 7 + 8j
    assert tg.array([1 + 2j]).dtype == tg.vec2f
    assert tg.array(source, dtype=tg.vec2d).dtype == tg.vec2d
    with pytest.raises(ValueError, match="number"):
        tg.array(source, dtype=tg.float32)


def test_arrays_wrap_memory_at_an_address() -> None:
    memory, freed = np.arange(12, dtype=np.float32), []
    address = memory.ctypes.data
    a = tg.array(
        ptr=address + 4,
        shape=(2, 3),
        strides=(16, 8),
        dtype=float,
        capacity=40,
        deleter=lambda p, n: freed.append((p, n)),
    )
    np.testing.assert_array_equal(a.numpy(), memory[1:].reshape(-1)[[[0, 2, 4], [4, 6, 8]]])
    row = a[1]
    row[0] = 50.0
    assert memory[5] == 50 and a.capacity == 36
    del a
    gc.collect()
    assert freed == [] and float(row[1]) == 7
    del row
    gc.collect()
    assert freed == [(address + 4, 40)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"ptr": 64, "shape": 4, "capacity": 15}, "extends 16 bytes from ptr"),
        ({"ptr": 0, "shape": 4}, "ptr is 0"),
        ({"ptr": 66, "shape": 4}, "not aligned"),
        ({"shape": (2, 3), "strides": (12,)}, "do not fit"),
        ({"shape": 3, "strides": (6,)}, "do not fit"),
        ({"data": [1.0], "ptr": 64}, "without data"),
        ({"data": [1.0], "strides": (4,)}, "without data"),
        ({"data": [1.0], "retain_grad": True}, "retain_grad needs a gradient"),
        ({"data": [1.0], "grad": tg.zeros(2)}, "shape"),
    ],
)
def test_invalid_descriptions_of_memory_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tg.array(dtype=float, **arguments)


@pytest.mark.parametrize("strides", [(16, 4), (4, 8), (-12, 4), (0, 4)])
def test_new_arrays_have_the_given_strides(strides: tuple[int, int]) -> None:
    array = tg.array(shape=(2, 3), dtype=int, strides=strides)
    assert array.strides == strides
    array[1] = [1, 2, 3]
    assert array.list()[1] == [1, 2, 3]


def test_arrays_accept_a_gradient_array() -> None:
    grad = tg.zeros(2)
    a = tg.array([1.0, 2.0], grad=grad)
    assert a.requires_grad and a.grad is grad


CONSTRUCTORS: list[Callable[..., tg.array]] = [
    lambda **k: tg.array(shape=3, dtype=float, **k),
    lambda **k: tg.zeros(3, **k),
    lambda **k: tg.ones(3, **k),
    lambda **k: tg.full(3, 1.0, **k),
    lambda **k: tg.empty(3, **k),
    lambda **k: tg.zeros_like(tg.zeros(3), **k),
    lambda **k: tg.ones_like(tg.zeros(3), **k),
    lambda **k: tg.full_like(tg.zeros(3), 1.0, **k),
    lambda **k: tg.empty_like(tg.zeros(3), **k),
    lambda **k: tg.clone(tg.zeros(3), **k),
]


@pytest.mark.parametrize("make", CONSTRUCTORS)
def test_every_constructor_takes_pinned_and_retain_grad(make: Callable[..., tg.array]) -> None:
    result = make(pinned=True, requires_grad=True, retain_grad=True)
    assert result.shape == (3,) and result.retain_grad and result.requires_grad
    assert result.pinned == tg.is_cuda_available() and not make().pinned


def test_full_takes_the_type_of_the_value() -> None:
    values = [7, 1.5, True, np.float16(2), tg.vec3(1.0, 2.0, 3.0), [1, 2], np.eye(2, dtype=np.float32)]
    types = [tg.int32, tg.float32, tg.bool, tg.float16, tg.vec3, VecType(2, tg.int32), tg.mat22]
    for value, t in zip(values, types, strict=True):
        array = tg.full(2, value)
        assert array.dtype == t and array.shape == (2,)
        np.testing.assert_array_equal(array.numpy()[1], np.asarray(value))
    assert tg.full(2, 7, dtype=float).dtype == tg.float32


def test_constructors_by_number_of_dimensions() -> None:
    for n, make in enumerate([tg.array1d, tg.array2d, tg.array3d, tg.array4d], 1):
        array = make(np.ones((2,) * n), dtype=float)
        assert type(array) is tg.array and array.ndim == n and array.dtype == tg.float32
        assert make(shape=(1,) * n, dtype=int).shape == (1,) * n
        for annotation in (make(dtype=float), make(float), make[float]):
            assert str(annotation) == f"array{n}d[float32]"
        with pytest.raises(ValueError, match="dimensions"):
            make(np.ones((2,) * (n + 1)), dtype=float)
    assert tg.array1d([1, 2]).list() == [1, 2]


@tg.kernel
def squares(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    y[i] = x[i] * x[i]


@pytest.mark.machine_code
@pytest.mark.parametrize("retains", [False, True])
def test_retain_grad_keeps_gradients_of_intermediate_arrays(retains: bool) -> None:
    x = tg.array([1.0, 2.0], requires_grad=True)
    y, z = tg.zeros(2, requires_grad=True, retain_grad=retains), tg.zeros(2, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(squares, 2, [x], [y])
        tg.launch(squares, 2, [x], [y])
        tg.launch(squares, 2, [y], [z])
    assert x.grad is not None and y.grad is not None
    for _ in range(2):
        tape.zero()
        tape.backward(grads={z: tg.ones(2)})
        assert y.grad.list() == ([2.0, 8.0] if retains else [0.0, 0.0])
        assert x.grad.list() == [4.0, 32.0]


def test_copy_copies_parts_of_arrays() -> None:
    dest, src = tg.zeros((2, 3)), tg.array([1.0, 2.0, 3.0, 4.0])
    tg.copy(dest, src, dest_offset=2, src_offset=1, count=2)
    assert dest.list() == [[0, 0, 2], [3, 0, 0]]
    tg.copy(tg.zeros(6), dest)
    tg.copy(dest, src, 1)
    assert dest.list() == [[0, 1, 2], [3, 4, 0]]
    with pytest.raises(ValueError, match="elements 3 to 7"):
        tg.copy(dest, src, 3)
    with pytest.raises(ValueError, match="src has 4"):
        tg.copy(dest, src, count=5)


def test_gradients_of_copied_parts_are_correct() -> None:
    dest, src = tg.ones(4, requires_grad=True), tg.array([1.0, 2.0, 3.0], requires_grad=True)
    with tg.Tape() as tape:
        tg.copy(dest, src, 1, 1)
    tape.backward(grads={dest: tg.array([1.0, 2.0, 3.0, 4.0])})
    assert src.grad is not None and src.grad.list() == [0.0, 2.0, 3.0]


def test_numpy_arrays_become_arrays() -> None:
    data = np.arange(6, dtype=np.float32)
    result = tg.from_numpy(data, shape=(2, 3), device="cpu", requires_grad=True)
    assert result.shape == (2, 3) and result.requires_grad and np.shares_memory(result.numpy(), data)
    assert tg.from_numpy(data, tg.vec2).shape == (3,)


def test_arrays_wrap_memory_of_other_libraries_by_address() -> None:
    memory = np.arange(6, dtype=np.float32)
    assert tg.from_ptr(memory.ctypes.data, 6).list() == memory.tolist()
    assert tg.from_ptr(memory.ctypes.data, dtype=tg.vec3, shape=(2,), device="cpu").dtype == tg.vec3
    with pytest.raises(TypeError, match="length or a shape"):
        tg.from_ptr(memory.ctypes.data)


def test_dlpack_capsules_are_consumed_once() -> None:
    memory = np.arange(6, dtype=np.float32)
    for capsule in (tg.to_dlpack(tg.from_numpy(memory)), memory.__dlpack__()):
        result = tg.from_dlpack(capsule)
        assert np.shares_memory(result.numpy(), memory) and result.dtype == tg.float32
        with pytest.raises(ValueError, match="not used before"):
            tg.from_dlpack(capsule)
    assert tg.from_dlpack(memory.__dlpack__(), dtype=tg.vec2).shape == (3,)
