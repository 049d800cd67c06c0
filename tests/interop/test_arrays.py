"""Arrays of PyTorch and JAX as arrays of Tegula, and the reverse, on the same memory."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import tegula as tg
from tegula.types import DTYPES, DType

TORCH = [getattr(torch, n) for n in ("bool", "int8", "int64", "uint16", "float16", "bfloat16", "float32")]


@pytest.mark.parametrize("dtype", TORCH, ids=str)
def test_arrays_and_torch_tensors_share_memory(dtype: torch.dtype) -> None:
    t = torch.arange(12).reshape(3, 4).to(dtype)
    for view in (t, t.t(), t[:, 1::2]):
        result = tg.from_torch(view)
        assert result.shape == tuple(view.shape) and tg.dtype_to_torch(result.dtype) == dtype
        assert result.ptr == view.data_ptr() and tg.dtype_from_torch(dtype) == result.dtype
        back = tg.to_torch(result)
        assert back.data_ptr() == view.data_ptr() and torch.equal(back, view)
    tg.from_torch(t)[0, 0] = 1
    assert t[0, 0] == 1


def test_float8_arrays_and_tensors_convert_both_ways() -> None:
    tensor = tg.to_torch(tg.array([1.0, 2.0], dtype=tg.float8_e4m3))
    assert tensor.dtype == torch.float8_e4m3fn and tensor.float().tolist() == [1.0, 2.0]
    assert tg.from_torch(tensor).list() == [1.0, 2.0]


def test_arrays_of_vectors_and_complex_numbers_convert_both_ways() -> None:
    t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    result = tg.from_torch(t, dtype=tg.vec3)
    assert result.shape == (2,) and result.dtype == tg.vec3 and tg.to_torch(result).shape == (2, 3)
    result = tg.from_torch(torch.tensor([1 + 2j]))
    assert result.dtype == tg.vec2f and result.list() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match=r"convert the tensor, t.to\(torch.float64\)"):
        tg.from_torch(t, dtype=tg.float64)
    with pytest.raises(ValueError, match="counterpart"):
        tg.dtype_from_torch(torch.complex64)
    with pytest.raises(TypeError):
        tg.dtype_to_torch(tg.vec3)


def test_gradients_of_arrays_and_tensors_share_memory() -> None:
    t = torch.ones(3, requires_grad=True)
    a = tg.from_torch(t)
    assert a.requires_grad and a.grad is not None and t.grad is not None
    a.grad.fill_(2.0)
    assert t.grad.tolist() == [2.0, 2.0, 2.0]
    assert not tg.from_torch(t, requires_grad=False).requires_grad
    gradient = torch.full((3,), 5.0)
    result = tg.from_torch(t.detach(), grad=gradient).grad
    assert result is not None and result.ptr == gradient.data_ptr()
    b = tg.zeros(2, requires_grad=True)
    result = tg.to_torch(b)
    result.sum().backward()
    assert b.grad is not None and b.grad.list() == [1.0, 1.0]
    assert not tg.to_torch(b, requires_grad=False).requires_grad


@pytest.mark.machine_code
def test_arrays_are_combined_with_tensors() -> None:
    a = tg.array([1.0, 2.0])
    assert (a + torch.tensor([10.0, 20.0])).list() == [11.0, 22.0]
    assert tg.map(lambda x, y: x * y, a, torch.full((20, 2), 3.0)).list() == [[3.0, 6.0]] * 20


@pytest.mark.parametrize("name", ["bool", "int8", "int32", "uint16", "float16", "bfloat16", "float32"])
def test_arrays_of_jax_convert_both_ways(name: str) -> None:
    x = jnp.arange(6).reshape(2, 3).astype(name)
    result = tg.from_jax(x)
    assert result.shape == (2, 3) and result.dtype == DTYPES[name] and not result.writeable
    np.testing.assert_array_equal(result.numpy(), np.asarray(x))
    for a in (result.copy(), result.copy().T):
        back = tg.to_jax(a)
        assert isinstance(back, jax.Array) and back.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(back), a.numpy())
    assert tg.dtype_from_jax(x.dtype) == result.dtype and tg.dtype_to_jax(result.dtype) == x.dtype


def test_complex_numbers_of_jax_convert_both_ways() -> None:
    array = tg.from_jax(jnp.array([1 + 2j], "complex64"))
    assert array.dtype == tg.vec2f and array.list() == [[1.0, 2.0]]
    assert tg.from_jax(jnp.ones((2, 3)), dtype=tg.vec3).shape == (2,)


@pytest.mark.parametrize("dtype", [tg.vec3, tg.mat22], ids=str)
def test_vector_types_have_no_dtype_of_other_libraries(dtype: Any) -> None:
    for convert in (tg.dtype_to_torch, tg.dtype_to_jax):
        with pytest.raises(TypeError, match="is not a scalar type"):
            convert(dtype)


def test_every_scalar_type_has_a_dtype_of_other_libraries() -> None:
    t: DType
    for t in DTYPES.values():
        assert tg.dtype_from_jax(tg.dtype_to_jax(t)) == t
        assert tg.dtype_from_torch(tg.dtype_to_torch(t)) == t


def test_dlpack_capsules_share_memory() -> None:
    a = tg.array([1.0, 2.0])
    t = torch.utils.dlpack.from_dlpack(tg.to_dlpack(a))
    assert t.data_ptr() == a.ptr
    assert pickle.loads(pickle.dumps(tg.from_torch(t))).list() == [1.0, 2.0]
