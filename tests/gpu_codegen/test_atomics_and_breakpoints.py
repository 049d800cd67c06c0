"""Atomics of vectors, additions to components, and breakpoints, compiled for a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from gpu_code import assemble
from lowering import Launch
from lowering import lowered as lower_to_threads

import tegula as tg
from tegula.codegen.gpu import lower_kernel
from tegula.target import get_cuda_target


@tg.kernel
def swap_and_add(a: tg.array[tg.vec3], k: int):
    i = tg.tid()
    tg.atomic_cas(a, (i,), tg.vec3(1.0), tg.vec3(2.0))
    a[i][k] += 1.0


@tg.kernel
def break_at(a: tg.array[tg.vec3], k: int):
    if tg.tid() == k:
        tg.breakpoint()


def compile_to_ptx(kernel: Any) -> str:
    launch = Launch(kernel, [tg.array(np.ones((64, 3)), dtype=tg.vec3), 1], (64,), 64)
    return assemble(lower_kernel(*lower_to_threads(launch), get_cuda_target()))[0]


def test_atomics_of_vectors_access_each_component() -> None:
    text = compile_to_ptx(swap_and_add)
    assert text.count(".cas.b32") == 3 and text.count(".add.f32") >= 3, text


def test_a_breakpoint_is_one_instruction() -> None:
    assert compile_to_ptx(break_at).count("brkpt;") == 1
