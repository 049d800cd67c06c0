"""The measurements of the sweep, without their timing: on the CPU, at reduced sizes, against peers that run there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from benchmarks.burst import BurstTimes, Call
from benchmarks.sweep import cases, peers
from benchmarks.sweep.point import inputs
from benchmarks.sweep.points import COMPILED_GRADIENTS, points

POINTS = points()
GPU_POINTS = ("float8",)
"""Points all of whose peers need a GPU."""
ADJOINTS = (
    *COMPILED_GRADIENTS,
    "matmul, float32 result",
    "matmul, QKV",
    "matmul, A.T @ A, lower half",
    "rows, column sums",
)
UNSUPPORTED = "does not support backward on CPU"
"""PyTorch's error for gradients of flex attention."""


def untimed(calls: Mapping[str, Call], sets: int, iterations: int = 1) -> dict[str, BurstTimes]:
    """Call each implementation once for each set of inputs."""
    for call in calls.values():
        for k in range(sets):
            call(k)
    return {name: BurstTimes(call, [1.0], 1, 0.0) for name, call in calls.items()}


def math_backend(backends: Any) -> Any:
    """PyTorch's math backend of attention, which CPUs have."""
    return torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)


@pytest.fixture(autouse=True)
def measure_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "DEVICE", "cpu")
    monkeypatch.setattr(cases, "bursts", untimed)
    monkeypatch.setattr(peers, "sdpa_kernel", math_backend)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)


def row(case: Callable[[Any], Any], name: str) -> Any:
    """The row of a point with its reduced launch."""
    point = POINTS[name]
    (measured_row,) = case(replace(point, full=point.small))
    assert not measured_row.failure and measured_row.error < 1.0
    return measured_row


@pytest.mark.machine_code
@pytest.mark.parametrize("name", POINTS)
def test_points_of_the_sweep_and_their_peers_have_equal_results(name: str) -> None:
    actual = row(cases.forward, name)
    assert "something else" not in actual.note
    if not name.endswith(GPU_POINTS):
        assert actual.peer and actual.ratio == 1.0


@pytest.mark.machine_code
@pytest.mark.parametrize("name", ADJOINTS)
def test_adjoints_of_the_sweep_and_their_peers_have_equal_results(name: str) -> None:
    actual = row(cases.gradients, name)
    assert "something else" not in actual.note
    if UNSUPPORTED not in actual.note:
        assert actual.peer and actual.ratio == 1.0


def test_attention_with_and_without_pages_of_keys_is_equal() -> None:
    launch = POINTS["attention, paged decode"].small
    arguments = inputs(launch, cases.tensors(launch, 0))
    paged, gathered = (make(*arguments)(*arguments) for make in (peers.paged, peers.gathered))
    torch.testing.assert_close(paged, gathered, atol=2e-2, rtol=2e-2)


@pytest.mark.machine_code
def test_a_wrong_result_of_the_sweep_is_an_error() -> None:
    point = POINTS["matmul, base"]
    wrong = replace(point, full=point.small, exact=lambda xp, a, b: iter([(0, ..., 2.0 * (a @ b))]))
    with pytest.raises(AssertionError, match="relative error"):
        list(cases.forward(wrong))


def test_inputs_have_the_shapes_and_dtypes_of_their_point() -> None:
    for point in POINTS.values():
        for a in point.small.arrays:
            result = cases.tensor(a, 0)
            assert tuple(result.shape) == a.shape and result.dtype is cases.DTYPES[a.dtype]
