"""The kernels that add one gradient to another on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import traced

import tegula as tg
from tegula.backend.llvm import compile_ptx
from tegula.codegen.gpu import lower_kernel
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.runtime.adding_kernels import ADDING
from tegula.runtime.addition import add
from tegula.target import get_cuda_target

SHAPES = [(5,), (2, 1, 3, 2)]


def random_array(dtype: Any, shape: tuple[int, ...], seed: int) -> tg.array:
    array = tg.zeros(shape, dtype=dtype)
    array.assign(np.random.default_rng(seed).uniform(-1, 1, array.numpy().shape).astype(np.float32))
    return array


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [tg.bfloat16, tg.vec3f])
def test_gradients_of_any_shape_are_added(dtype: Any) -> None:
    for shape in SHAPES:
        x, y = random_array(dtype, shape, 1), random_array(dtype, shape, 2)
        expected = y.numpy() + x.numpy()
        copied = tg.clone(y)
        tg.launch(ADDING[len(shape) - 1], shape, [x], [y])
        add(copied, x)
        assert np.array_equal(y.numpy(), expected) and np.array_equal(copied.numpy(), expected)


@pytest.mark.machine_code
def test_gradients_are_added_to_views_in_place() -> None:
    x, y = random_array(tg.float32, (3, 2), 1), tg.zeros((4, 3))
    expected = np.zeros((4, 3), np.float32)
    expected[::-2, 1:] += x.numpy()[:2]
    tg.launch(ADDING[1], (2, 2), [x[:2]], [y[::-2, 1:]])
    assert np.array_equal(y.numpy(), expected)


@pytest.mark.cpu
@pytest.mark.parametrize("dtype", [tg.float16, tg.vec3f])
def test_kernels_that_add_gradients_compile_for_a_gpu(dtype: Any) -> None:
    target = get_cuda_target("sm_90a")
    for shape in SHAPES:
        x = tg.zeros(shape, dtype=dtype)
        kernel = traced(ADDING[len(shape) - 1], [x, tg.zeros_like(x)], shape, 256)
        prepare(kernel)
        code = lower_kernel(kernel, for_gpu(kernel, target), target)
        assert "st.global" in compile_ptx(code.text, "sm_90a")
