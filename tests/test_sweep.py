"""The points of the neighbourhood sweep, at reduced sizes on the CPU, and their results against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from benchmarks.compile_report.forms import forms
from benchmarks.measure import TOLERANCE
from benchmarks.sweep import attention, gemm, rows
from benchmarks.sweep.point import NUMPY, Array, Launch, Point, inputs, results
from benchmarks.sweep.points import COMPILED_GRADIENTS, points

import tegula as tg
from tegula.runtime.description import Description
from tegula.runtime.device import CPU

POINTS = points()
GRADIENT_TOLERANCE = 2e-2
"""Of derivatives along a few directions; a matmul of the adjoint takes gradients rounded to bfloat16."""
DIRECTIONS, STEP = 3, 1e-5


def test_every_point_has_a_name_of_its_own_and_a_form_in_the_compile_report() -> None:
    results = [gemm.points(), attention.points(), rows.points()]
    assert [len(result) for result in results] == [35, 21, 11] and len(POINTS) == 67
    compiled = forms()
    assert all(f"sweep: {name}" in compiled for name in POINTS)
    assert all(f"sweep: {name}, gradients" in compiled for name in COMPILED_GRADIENTS)
    assert {p.name for p in POINTS.values() if p.gradient_target} <= set(COMPILED_GRADIENTS)


@pytest.mark.parametrize("name", POINTS)
def test_reduced_sizes_launch_the_same_form_of_the_kernel(name: str) -> None:
    p = POINTS[name]
    assert list(map(access, p.full.arrays)) == list(map(access, p.small.arrays))


def access(a: Array) -> Any:
    """The layout in memory that a kernel is specialised for."""
    size = np.dtype(NUMPY[a.dtype]).itemsize
    strides = tuple(size * int(np.prod(a.shape[k + 1 :])) for k in range(len(a.shape)))
    return Description(getattr(tg, a.dtype), a.shape, strides, 0, True, CPU).access


def argument_values(launch: Launch, seed: int = 0) -> list[Any]:
    """Values for all arguments."""
    return [a.numpy(seed + k) if isinstance(a, Array) else a for k, a in enumerate(launch.arguments)]


def reference_in_float64(launch: Launch, values: list[Any]) -> list[Any]:
    """The values with floats in float64."""
    pairs = zip(launch.arguments, values, strict=True)
    return [v.astype(np.float64) if isinstance(a, Array) and a.differentiable else v for a, v in pairs]


def launched(p: Point, values: list[Any]) -> list[Any]:
    """The arguments on the CPU after a launch."""
    args = [tg.array(v) if isinstance(v, np.ndarray) else v for v in values]
    tg.launch_tiled(p.kernel, p.small.grid, args, block_dim=p.threads)
    return args


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.parametrize("name", POINTS)
def test_results_of_the_sweep_match_float64(name: str) -> None:
    p = POINTS[name]
    values = argument_values(p.small)
    arrays = results(p.small, launched(p, values))
    actual = [a.numpy().astype(np.float64) for a in arrays]
    difference, norm = ([0.0] * len(actual) for _ in range(2))
    for n, index, expected in p.exact(np, *inputs(p.small, reference_in_float64(p.small, values))):
        difference[n] += np.sum((actual[n][index] - expected) ** 2)
        norm[n] += np.sum(expected**2)
    for n, a in enumerate(arrays):
        assert difference[n] <= (p.tolerance or TOLERANCE[str(a.dtype)]) ** 2 * norm[n]


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.parametrize("name", [p.name for p in POINTS.values() if p.gradient])
def test_gradients_of_the_sweep_match_float64_along_some_directions(name: str) -> None:
    p = POINTS[name]
    values = argument_values(p.small)
    args = launched(p, values)
    grads: list[Any] = []
    for k, a in enumerate(p.small.arguments):
        if not isinstance(a, Array) or not a.differentiable:
            grads.append(None)
        elif a.result:
            grads.append(tg.array(Array(a.shape, a.dtype).numpy(100 + k)))
        else:
            grads.append(tg.zeros(a.shape, dtype=getattr(tg, a.dtype)))
    seeds = [g.numpy().astype(np.float64) for g in results(p.small, grads)]
    dims = (*p.small.grid, p.threads)
    tg.launch(p.kernel, dims, args, [], grads, [], adjoint=True, block_dim=p.threads)
    values_in_float64, random = reference_in_float64(p.small, values), np.random.default_rng(7)

    def loss(k: int, step: np.ndarray) -> float:
        moved = inputs(
            p.small, [*values_in_float64[:k], values_in_float64[k] + step, *values_in_float64[k + 1 :]]
        )
        return sum(float(np.sum(value * seeds[n][index])) for n, index, value in p.exact(np, *moved))

    for k, a in enumerate(p.small.arguments):
        if isinstance(a, Array) and a.differentiable and not a.result:
            directions = [random.standard_normal(a.shape) for _ in range(DIRECTIONS)]
            expected = [(loss(k, STEP * d) - loss(k, -STEP * d)) / (2 * STEP) for d in directions]
            actual = [np.sum(grads[k].numpy().astype(np.float64) * d) for d in directions]
            error = np.linalg.norm(np.subtract(actual, expected)) / np.linalg.norm(expected)
            assert error <= GRADIENT_TOLERANCE, f"argument {k}"
