"""Runs compiled matmuls of warp groups on the SIMT model."""

from __future__ import annotations

from typing import Any

from gpu_code import assemble, run_gpu_passes
from simt import run_together

from tegula.backend import ptx
from tegula.check.schedule import check_schedule
from tegula.codegen.gpu import lower_kernel
from tegula.runtime.launch import block_size
from tegula.target import get_cuda_target

ASSEMBLER = bool(ptx.candidates())


def run(kernel: Any, args: list[Any], blocks: int = 1) -> str:
    """Run a kernel on the model, check that its schedule is proved, and return its PTX."""
    threads = block_size(kernel, None, args)
    lowered_kernel, compilation = run_gpu_passes(kernel, args, (blocks,), threads)
    verdict = check_schedule(lowered_kernel, compilation)
    assert verdict.passed, verdict.message
    code = lower_kernel(lowered_kernel, compilation, get_cuda_target())
    for interval, offset in zip(code.shared.intervals, code.shared.offsets, strict=True):
        assert offset % interval.align == 0, f"{interval.name} is misaligned: offset {offset}"
    run_together(code, kernel, args, (blocks, threads), blocks)
    text, cubin = assemble(code)
    assert not ASSEMBLER or cubin.spill_bytes == 0
    return text
