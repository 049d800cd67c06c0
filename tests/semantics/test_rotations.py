"""Quaternions, transforms and spatial vectors: values, gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import interpret
from rotations import ARGUMENTS, QUATERNIONS, SPATIAL, TRANSFORMS, drawn, expected, kernel, named

import tegula as tg

FAMILIES = {"quaternions": QUATERNIONS, "transforms": TRANSFORMS, "spatial vectors": SPATIAL}


def arrays(samples: dict[str, np.ndarray], suffix: str, **options: Any) -> list[Any]:
    return [
        tg.array(samples[name], dtype=getattr(tg, named(t) + suffix), **options)
        for name, t in ARGUMENTS.items()
    ]


@pytest.mark.machine_code
@pytest.mark.parametrize("family", FAMILIES)
def test_values(family: str) -> None:
    table, samples = FAMILIES[family], drawn(12)
    made, count = kernel(table)
    args, other = ([*arrays(samples, "d"), tg.zeros((12, count), dtype=tg.float64)] for _ in range(2))
    tg.launch(made, 12, inputs=args, block_dim=4)
    interpret(made, other, (12,), 4)
    for run in (args, other):
        np.testing.assert_allclose(run[-1].numpy(), expected(table, samples), rtol=1e-12, atol=1e-12)


@pytest.mark.machine_code
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients(family: str) -> None:
    made, count = kernel(FAMILIES[family])
    out = tg.zeros((5, count), dtype=tg.float64, requires_grad=True)
    tg.gradcheck(made, 5, arrays(drawn(5, 1), "d", requires_grad=True), [out], block_dim=5)
