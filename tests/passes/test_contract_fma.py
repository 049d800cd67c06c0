"""Contraction of products with a 0 that is preserved: results do not change."""

from __future__ import annotations

import numpy as np
import pytest

from tegula import interp
from tegula.ir import Kernel
from tegula.ir.text import parse_kernel
from tegula.ir.verify import verify
from tegula.passes.contract_fma import contract_fma
from tegula.passes.runner import Compilation

HEAD = """kernel "k" {
  launch [block_dim = 8, last_is_block = true, ndim = 1, partial = false, uniform = (false,)]
  param "a" %0.a: array<float32,1> [aliases = (), align = 64, contiguous = true, dense = true]
  param "x" %1.x: float32
  param "y" %2.y: float32
  %3: int32 = const [type = int32, value = 0]
"""


def kernel(*lines: str) -> Kernel:
    result = parse_kernel(HEAD + "".join(f"  {line}\n" for line in (*lines, "yield")) + "}\n")
    verify(result)
    return result


def names(k: Kernel) -> list[str]:
    """The ops of the kernel in order, without constants and ends of regions."""
    return [op.NAME for op in k.walk() if op.NAME not in ("const", "yield")]


PRESERVED_ZERO = (
    "%4: float32 = mul %1, %2",
    "%5: float32 = const [type = float32, value = 0.0]",
    '%6: bool = cmp %1, %5 [pred = "eq"]',
    "%7: float32 = select %6, %1, %4",
)
"""A product that is 0 if its first factor is, whatever the second factor is."""


@pytest.mark.parametrize(
    ("lines", "op_names"),
    [
        (["%8: float32 = add %7, %2"], ["select", "fma"]),
        (["%8: float32 = sub %7, %2"], ["neg", "select", "fma"]),
        (["%8: float32 = sub %2, %7"], ["neg", "select", "fma"]),
        (["%9: float32 = mul %2, %2", "%8: float32 = add %7, %9"], ["mul", "select", "fma"]),
        (["%8: float32 = add %7, %7"], ["mul", "select", "add"]),
        (["%9: float32 = add %7, %2", "%8: float32 = add %9, %4"], ["mul", "select", "add", "add"]),
    ],
)
@pytest.mark.parametrize("values", [(0.0, np.inf), (-0.0, np.nan), (3.0, 5.0), (3.0, np.inf)], ids=str)
def test_a_product_with_a_preserved_0_is_fused(
    lines: list[str], op_names: list[str], values: tuple[float, float]
):
    k, uncontracted = (kernel(*PRESERVED_ZERO, *lines, "array.store %0, %8, %3") for _ in range(2))
    contract_fma(k, Compilation())
    verify(k)
    assert [name for name in names(k) if name != "cmp"] == [*op_names, "array.store"]
    results = []
    for variant in (k, uncontracted):
        out = np.zeros(4, np.float32)
        interp.run(variant, [out, *map(np.float32, values)], (8,), 8, print)
        results.append(out[0])
    np.testing.assert_array_equal(*results)
