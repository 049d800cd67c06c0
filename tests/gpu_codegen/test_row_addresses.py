"""Addresses of accesses in a row of an array: the first address of the row plus constants."""

from __future__ import annotations

import re

from gpu_code import lower_to_llvm

import tegula as tg
from tegula.backend.llvm import compile_ptx


@tg.kernel
def multiply_add(A: tg.array2d[tg.bfloat16], B: tg.array2d[tg.bfloat16], C: tg.array2d[tg.bfloat16]):
    i = tg.tid()
    a = tg.tile_load(A, shape=(64, 64), offset=(i * 64, 0))
    b = tg.tile_load(B, shape=(64, 64))
    c = tg.tile_load(C, shape=(64, 64), offset=(i * 64, 0))
    sum = tg.tile_astype(c, tg.float32)
    tg.tile_matmul(a, b, sum)
    tg.tile_store(C, tg.tile_astype(sum, tg.bfloat16), offset=(i * 64, 0))


def test_stores_of_tiles_compute_one_address_for_each_row() -> None:
    arguments = [tg.zeros((64, 64), dtype=tg.bfloat16) for _ in range(3)]
    text = compile_ptx(lower_to_llvm(multiply_add, arguments, (1,), 128).text, "sm_90a")
    addresses = re.findall(r"\tst\.global\.b(?:16|32) \s*\[(%rd\d+)", text)
    assert len(addresses) >= 32 and len(set(addresses)) <= 8, sorted(set(addresses))
