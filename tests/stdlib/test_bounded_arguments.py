"""Functions that take fewer instructions where arguments are known not to be large give the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from measured_errors import BOUNDED_ARGUMENTS, LIMITS, STRIDE, applied, numbers

import tegula as tg
from support.campaigns import sampled

pytestmark = pytest.mark.machine_code

SPECIAL = np.array([0.0, -0.0, -np.inf, np.inf, np.nan, -1e-45, -1e30], np.float32)
SUBNORMAL_RESULTS = {
    "exp": (-87.34, -103.28, -103.98),
    "exp2": (-126, -149, -150, -151),
    "exp10": (-37.93, -45.16, -45.31),
}
"""The arguments at which results become subnormal, and 0."""


@pytest.mark.parametrize("expression", BOUNDED_ARGUMENTS)
@sampled(3, "name", LIMITS)
def test_functions_of_bounded_arguments_have_the_same_bits(name: str, expression: str) -> None:
    limit = LIMITS[name]
    ends = np.array([*SUBNORMAL_RESULTS[name], limit], np.float32).view(np.int32)
    neighbours = (ends[:, None] + np.arange(-2000, 2000, dtype=np.int32)).reshape(-1).view(np.float32)
    for x in (SPECIAL, neighbours, *numbers(STRIDE)):
        small = np.fmin(x, np.float32(limit)) if "min" in expression else -np.abs(x)
        actual, expected = applied(name, [x], expression.format(limit=limit)), applied(name, [small])
        is_equal = (actual.view(np.int32) == expected.view(np.int32)) | (
            np.isnan(actual) & np.isnan(expected)
        )
        assert is_equal.all(), x[~is_equal][:3]


@tg.kernel
def unbounded_arguments(x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    y[i] = tg.exp(x[i])


@tg.kernel
def bounded_arguments(x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    y[i] = tg.exp(-tg.abs(x[i]))


def test_functions_of_bounded_arguments_take_fewer_instructions() -> None:
    lengths = []
    for kernel in (unbounded_arguments, bounded_arguments):
        tg.launch(kernel, 4, inputs=[tg.ones(4)], outputs=[tg.zeros(4)])
        lines = kernel.ir("prove_bounds").splitlines()
        lengths.append(sum(" const " not in line for line in lines))
    assert lengths[1] <= lengths[0] - 6 + 2, "the sign takes two"
