"""Atomics of vectors, additions to components, and breakpoints, compiled for a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from gpu_code import assemble
from lowering import Launch
from lowering import lowered as for_threads

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.target import get_cuda_target


@tg.kernel
def swapped(a: tg.array[tg.vec3], k: int):
    i = tg.tid()
    tg.atomic_cas(a, (i,), tg.vec3(1.0), tg.vec3(2.0))
    a[i][k] += 1.0


@tg.kernel
def stopped(a: tg.array[tg.vec3], k: int):
    if tg.tid() == k:
        tg.breakpoint()


def ptx(kernel: Any) -> str:
    launch = Launch(kernel, [tg.array(np.ones((64, 3)), dtype=tg.vec3), 1], (64,), 64)
    return assemble(lower_kernel(*for_threads(launch), get_cuda_target()))[0]


def test_atomics_of_vectors_access_each_component() -> None:
    text = ptx(swapped)
    assert text.count(".cas.b32") == 3 and text.count(".add.f32") >= 3, text


def test_a_breakpoint_is_one_instruction() -> None:
    assert ptx(stopped).count("brkpt;") == 1
