"""Functions of the standard library with a derivative of their own are traced once for each list of argument types; the
ops of each call still have the location of that call."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg
from tegula.ir import Kernel, LaunchClass
from tegula.ops.gradient import Call
from tegula.runtime.compile import trace
from tegula.types import float32


def traced(kernel: object) -> Kernel:
    return trace(kernel, (float32, float32), LaunchClass(1, 64, (True,), True, False), (None, None))  # type: ignore[arg-type]


@tg.kernel
def two_calls(a: float, b: float):
    x = tg.exp(a)
    y = tg.exp(b)
    tg.print(x + y)


def test_later_traced_calls_have_their_own_location() -> None:
    first, second = (op for op in traced(two_calls).walk() if isinstance(op, Call))
    assert first.loc.line + 1 == second.loc.line
    first_locations, second_locations = ([op.loc for op in call.function.walk()] for call in (first, second))
    assert len(first_locations) > 3
    for first_op, second_op in zip(first_locations, second_locations, strict=True):
        *inner, last_location = first_op.chain()
        *inner_of_copy, last_of_copy = second_op.chain()
        assert (last_location.line, last_of_copy.line) == (first.loc.line, second.loc.line)
        assert [location.line for location in inner] == [location.line for location in inner_of_copy]


@pytest.mark.machine_code
def test_calls_with_other_constants_and_types_are_traced_again() -> None:
    @tg.kernel
    def kernel(x: tg.array1d[tg.float64], y: tg.array1d[float], out: tg.array1d[tg.float64]):
        out[0] = tg.exp(x[0]) + tg.float64(tg.exp(y[0])) + tg.exp(x[1]) + tg.float64(tg.exp(y[1]))

    x, y = np.array([0.5, -1.25]), np.array([0.75, 2.0], np.float32)
    out = tg.zeros(1, dtype=tg.float64)
    tg.launch(kernel, dim=1, inputs=[tg.array(x), tg.array(y), out])
    assert out.numpy()[0] == pytest.approx(np.exp(x).sum() + np.exp(y.astype(np.float64)).sum(), rel=1e-7)
