"""Bulk copies start at multiples of 16 bytes in the rows of an array. Threads copy tiles whose offset has no proven
alignment."""

from __future__ import annotations

from typing import Any

import pytest
from gpu_code import assemble, lower_to_llvm

import tegula as tg
from tegula.runtime.launch import block_size

half = tg.float16
N = 16
OFFSETS_IN_ROWS: dict[str, tuple[str, bool]] = {
    "a constant": ("24", True),
    "a constant between multiples": ("20", False),
    "an argument": ("column", False),
    "a multiple of an argument": ("column * 8", True),
    "half a unit times an argument": ("column * 4", False),
    "a shifted argument": ("(column << 3) + 8", True),
    "the index of a loop": ("k", True),
    "a multiple of the index of a loop": ("column * k + 16", True),
    "a carried value": ("carried", True),
    "the minimum of two multiples": ("tg.min(k, column * 16)", True),
    "a quotient": ("column * 8 // 2", False),
    "a quotient of a multiple": ("column * 16 // 2", True),
    "the length of a row of 64 bytes and multiples": ("x.shape[1] - 16", True),
    "half of the length of a row": ("x.shape[1] // 2", True),
    "an eighth of the length of a row": ("x.shape[1] // 8", False),
    "the number of rows": ("x.shape[0] - 2", False),
}
TEXT = """def copy_rows(x: tg.array2d[half], y: tg.array2d[half], column: int):
    pipe = tg.tile_pipe(shape=(2, N), dtype=half, stages=2)
    with tg.ws(0):
        carried = 8
        for k in range(0, 64, 8):
            tg.tile_pipe_load(pipe, x, offset=(0, {offset}){promise})
            carried += 16
    with tg.ws(1):
        for k in range(0, 64, 8):
            tg.tile_store(y, tg.tile_pipe_pop(pipe))
"""


def code(offset_text: str, promise: str = "") -> str:
    text, names = TEXT.format(offset=offset_text, promise=promise), dict[str, Any](tg=tg, half=half, N=N)
    exec(text, names)
    kernel = tg.kernel(source=text)(names["copy_rows"])
    args = [tg.zeros((2, 128), dtype=half), tg.zeros((2, N), dtype=half), 3]
    return assemble(lower_to_llvm(kernel, args, (1,), block_size(kernel, None, args)))[0]


@pytest.mark.parametrize("name", OFFSETS_IN_ROWS)
def test_the_offset_in_a_row_decides_whether_bulk_copies_are_used(name: str) -> None:
    offset_text, bulk = OFFSETS_IN_ROWS[name]
    assert ("cp.async.bulk.tensor" in code(offset_text)) == bulk


def test_an_alignment_promise_allows_bulk_copies_at_aligned_offsets() -> None:
    text = code("column", ", aligned=True")
    assert "cp.async.bulk.tensor" in text
    assert "-8;" in text  # the offset is truncated to a multiple of 8 elements
