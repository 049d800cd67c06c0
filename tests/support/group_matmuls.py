"""Runs the compiled code of matmuls of warp groups."""

from __future__ import annotations

from typing import Any

from gpu_code import assembled, distributed
from simt import run_together

from tegula.backend import ptx
from tegula.check.schedule import check_schedule
from tegula.codegen.gpu import lower_kernel
from tegula.runtime.launch import block_size
from tegula.target import get_cuda_target

ASSEMBLER = bool(ptx.candidates())


def run(kernel: Any, args: list[Any], blocks: int = 1) -> str:
    """The PTX of a kernel that the model has run, and whose schedule is proved."""
    threads = block_size(kernel, None, args)
    lowered_kernel, parts = distributed(kernel, args, (blocks,), threads)
    verdict = check_schedule(lowered_kernel, parts)
    assert verdict.passed, verdict.message
    code = lower_kernel(lowered_kernel, parts, get_cuda_target())
    for piece, offset in zip(code.shared.intervals, code.shared.offsets, strict=True):
        assert offset % piece.align == 0, f"{piece.name} lies at {offset}"
    run_together(code, kernel, args, (blocks, threads), blocks)
    text, lowered_kernel = assembled(code)
    assert not ASSEMBLER or lowered_kernel.spill_bytes == 0
    return text
