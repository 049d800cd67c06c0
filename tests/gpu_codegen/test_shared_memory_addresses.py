"""Addresses in shared memory: elements at constant distances share one computed address."""

from __future__ import annotations

import re

import pytest

from tegula.backend.llvm import compile_ptx
from tegula.codegen.gpu.memory import GpuMemory
from tegula.codegen.storage import FAR, SwizzledView, View
from tegula.codegen.text import Code
from tegula.types import bfloat16, float32

KERNEL = """
@shared = external addrspace(3) global [0 x i8], align 128
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @k(ptr %out) {{
  %base = addrspacecast ptr addrspace(3) @shared to ptr
  %tid = call range(i32 0, 128) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %low = and i32 %tid, 15
  %high = lshr i32 %tid, 4
  %column = zext i32 %low to i64
  %first = shl i32 %high, 3
  %row = zext i32 %first to i64
{body}
  ret void
}}
"""


def test_elements_of_a_column_share_an_address() -> None:
    """The row is a multiple of 8 and the stride a power of two, so that LLVM turns the sums into bitwise ors."""
    code = Code()
    memory = GpuMemory(code)
    view = View("%base", float32, (64, 64), (64, 1))
    for k in range(8):
        for column in (0, 16, 32, 48):
            address = view.at(memory, [memory.add("%row", str(k)), memory.add(str(column), "%column")])
            code.line(f"store volatile float 0.0, ptr {address}")
    text = compile_ptx(KERNEL.format(body="\n".join(code.lines)), "sm_90a")
    addresses = re.findall(r"\tst\.volatile\.shared\.\S+ \s*\[(%rd?\d+)", text)
    assert len(addresses) == 32 and len(set(addresses)) == 1, sorted(set(addresses))


class NumericAddresses(GpuMemory):
    """Addresses as numbers. Multiples of `unit` in an index count as the constant part of the index."""

    unit = 1

    def add(self, a: str, b: str) -> str:
        return str(int(a) + int(b))

    def separated_constant(self, index: str) -> tuple[str, int]:
        value, unit = int(index), self.unit
        return str(value % unit), value - value % unit

    def bytes_offset(self, pointer: str, count: str) -> str:
        return str(int(pointer) + int(count))


@pytest.mark.parametrize("unit", [1, 3, 4, 8, 64])
@pytest.mark.parametrize("row_bytes", [32, 64, 128])
def test_constants_of_rows_do_not_change_swizzled_addresses(row_bytes: int, unit: int) -> None:
    memory = NumericAddresses(Code())
    memory.unit = unit
    root = (2, 32, 128)
    view = SwizzledView("0", bfloat16, root, (FAR, FAR, 1), 1, root, row_bytes)
    for stage, row, column in ((s, i, j) for s in (0, 1) for i in range(32) for j in range(0, 128, 7)):
        box, byte = divmod(2 * column, row_bytes)
        unswizzled = ((stage * (256 // row_bytes) + box) * 32 + row) * row_bytes + byte
        expected = unswizzled ^ (unswizzled >> 7 & row_bytes // 16 - 1) << 4
        assert int(view.at(memory, [str(stage), str(row), str(column)])) == expected, (stage, row, column)
