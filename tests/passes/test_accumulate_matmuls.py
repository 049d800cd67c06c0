"""All ways to write a sum of matmuls in a loop become the same kernel."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tegula as tg
from tegula.ir import LaunchClass
from tegula.ir.text import print_kernel
from tegula.passes.pipeline import prepare
from tegula.runtime.check import PACKED
from tegula.runtime.compile import trace
from tegula.types import ArrayType

S = 16
SUMS = {
    "matmul last": "acc = acc * s + tg.tile_matmul(p, v, dtype=float)",
    "matmul first": "acc = tg.tile_matmul(p, v, dtype=float) + acc * s",
    "in place": "acc = acc * s\n        acc += tg.tile_matmul(p, v, dtype=float)",
    "scaled in place": "acc *= s\n        acc = acc + tg.tile_matmul(p, v, dtype=float)",
}


def prepared(statement: str) -> list[str]:
    """The ops, without their values, of a loop with a statement that scales its sum and adds a matmul."""
    text = f"""
@tg.kernel
def kernel(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], s: float, c: tg.array2d[float]):
    i, _ = tg.tid()
    acc = tg.tile_zeros(shape=(S, S), dtype=float)
    for k in range(0, a.shape[1], S):
        p = tg.tile_load(a, shape=(S, S), offset=(i * S, k))
        v = tg.tile_load(b, shape=(S, S), offset=(k, 0))
        {statement}
    tg.tile_store(c, acc, offset=(i * S, 0))
"""
    scope: dict[str, Any] = {"tg": tg, "S": S}
    tg.exec(text, scope)
    half, single = ArrayType(tg.bfloat16, 2), ArrayType(tg.float32, 2)
    launch = LaunchClass(2, 32, (True, False), True, False)
    kernel = trace(scope["kernel"], [half, half, tg.float32, single], launch, [PACKED, PACKED, None, PACKED])
    prepare(kernel)
    return sorted(re.sub(r"%\d+(\.\w+)?", "%", print_kernel(kernel)).splitlines())


@pytest.mark.parametrize("variant", SUMS)
def test_running_sums_of_matmuls_are_one_kernel(variant: str) -> None:
    expected = prepared("acc = acc * s\n        tg.tile_matmul(p, v, acc)")
    assert sum("tile.matmul" in op for op in expected) == 1 and prepared(SUMS[variant]) == expected
