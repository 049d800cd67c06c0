"""Quaternions and transforms as GPU code: values in the registers of threads."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree, assert_same_bits
from gpu_code import assemble
from lowering import Launch, agrees
from simt import run_together

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.target import get_cuda_target


@tg.kernel
def transform_points(a: tg.array[tg.quat], x: tg.array[tg.transform], o: tg.array[tg.transform]):
    i = tg.tid()
    rotation = a[i] * tg.quat_inverse(a[i + 1])
    o[i] = tg.transform(tg.quat_rotate(rotation, x[i].p) + tg.vec3(1.0, 2.0, 3.0), rotation) * x[i]


@pytest.mark.machine_code
def test_transforms_of_points_stay_in_registers() -> None:
    rng = np.random.default_rng(0)
    a = tg.array(rng.integers(-3, 4, (33, 4)), dtype=tg.quat)
    x = tg.array(rng.integers(-3, 4, (32, 7)), dtype=tg.transform)
    launch = Launch(transform_points, [a, x, tg.zeros(32, dtype=tg.transform)], (32,), 32)
    expected = agree(transform_points, launch.args, 32, 32)
    lowered_kernel, compilation = agrees(launch)
    code = lower_kernel(lowered_kernel, compilation, get_cuda_target("sm_90a"))
    actual = [tg.clone(argument) for argument in launch.args]
    run_together(code, transform_points, actual, launch.dims, 1)
    assert_same_bits(actual[2].numpy(), expected[2])
    text, cubin = assemble(code)
    assert cubin.spill_bytes == 0 and ".local" not in text
