"""With `tg.config.line_info` machine code has the Python line of each instruction."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
from gpu_code import assemble, lower_to_llvm

import tegula as tg
from support.campaigns import sampled
from support.compiled_kernels import KERNELS, ones

BF16 = ml_dtypes.bfloat16


@tg.func
def square_root(x: float):
    return tg.sqrt(x)


@tg.kernel
def call_function(x: tg.array1d[float], y: tg.array1d[float]):
    i = tg.tid()
    y[i] = square_root(x[i]) + 1.0


@tg.kernel
def with_roles(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[float]):
    left = tg.tile_pipe(shape=(64, 64), dtype=tg.bfloat16, stages=2)
    right = tg.tile_pipe(shape=(64, 64), dtype=tg.bfloat16, stages=2)
    with tg.ws(0):
        for k in range(a.shape[1] // 64):
            tg.tile_pipe_load(left, a, offset=(0, k * 64))
            tg.tile_pipe_load(right, b, offset=(k * 64, 0))
    with tg.ws(1):
        total = tg.tile_zeros(shape=(64, 64), dtype=float)
        for k in range(a.shape[1] // 64):
            tg.tile_matmul(tg.tile_pipe_pop(left), tg.tile_pipe_pop(right), total)
        tg.tile_store(c, total)


def line_containing(text: str) -> int:
    """The first line of this file that contains a text."""
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if text in line)


def lines_of_instruction(ptx: str, instruction: str) -> set[int]:
    """The source lines that the PTX gives for an instruction."""
    source_line, result = 0, set[int]()
    for line in ptx.splitlines():
        location = re.match(r"\s*\.loc\s+\d+ (\d+)", line)
        source_line = int(location[1]) if location else source_line
        if re.search(instruction, line):
            result.add(source_line)
    return result


def test_instructions_have_the_lines_of_their_statements() -> None:
    code = lower_to_llvm(call_function, (ones(64), ones(64)), (64,), 64, lines=True)
    text, cubin = assemble(code)
    assert lines_of_instruction(text, r"sqrt\.rn\.f32") == {line_containing("return tg.sqrt(x)")}
    assert lines_of_instruction(text, r"st\.global") == {line_containing("y[i] = square_root")}
    assert re.search(r'\.file\s+1 ".*test_line_info\.py"', text)
    assert cubin.is_ptx or b"debug_line" in cubin.code


def test_roles_and_matmuls_have_line_information() -> None:
    args = (ones(64, 128, dtype=BF16), ones(128, 64, dtype=BF16), ones(64, 64))
    text, _ = assemble(lower_to_llvm(with_roles, args, (1,), 256, lines=True))
    assert lines_of_instruction(text, r"wgmma\.mma_async") == {
        line_containing("tg.tile_matmul(tg.tile_pipe_pop(left)")
    }
    copies = {line_containing("tg.tile_pipe_load(left"), line_containing("tg.tile_pipe_load(right")}
    assert lines_of_instruction(text, r"cp\.async\.bulk\.tensor.*shared::cluster\.global") == copies
    assert lines_of_instruction(text, r"cp\.async\.bulk\.tensor.*global\.shared::cta") == {
        line_containing("tg.tile_store(c")
    }


@sampled(3, "name", KERNELS)
def test_line_information_changes_no_instruction(name: str) -> None:
    kernel, args, dims, threads, *_ = KERNELS[name]

    def instructions(lines: bool) -> Any:
        text, _ = assemble(lower_to_llvm(kernel, args, dims, threads, lines=lines))
        code_lines = re.sub(
            r"^\$L__(func|tmp).*\n|^\s*\.(loc|file).*\n|^\s*//.*\n|^\s*\.section.*\n", "", text, flags=re.M
        )
        return [line for line in code_lines.splitlines() if line.strip() not in ("", "{", "}")]

    assert instructions(True) == instructions(False)


def test_without_the_option_code_has_no_line_information() -> None:
    text, _ = assemble(lower_to_llvm(call_function, (ones(64), ones(64)), (64,), 64))
    assert ".loc" not in text
