"""The matmul and the attention of the library after each pass: how many ops there are, which were added and removed,
and a digest of the text, so that a change of a pass shows where these kernels begin to differ. The text, with source
locations, is parsed again."""

from __future__ import annotations

import hashlib
import importlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tegula as tg
from tegula.ir import Kernel, LaunchClass
from tegula.ir.text import parse_kernel, print_kernel
from tegula.kernels import gemm, shapes
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.runtime.check import PACKED, argument_types
from tegula.runtime.compile import trace
from tegula.target import get_cuda_target
from tegula.types import ArrayType

attention: Any = importlib.import_module("tegula.kernels.attention")
THREADS = 384
KERNELS = {
    "matmul": gemm.matmul_kernel(tg.bfloat16, shapes.TENSOR_CORES[0], False, gemm.Epilogue(tg.bfloat16)),
    "attention": attention.forward(tg.bfloat16, 128, False, False, False),
}


class Stages:
    """A line for each pass."""

    def __init__(self, kernel: Kernel) -> None:
        self.counts, self.text = op_counts(kernel), print_kernel(kernel)
        self.lines = [f"traced: {self.counts.total()} ops, {digest(self.text)}"]

    def add(self, name: str, kernel: Kernel) -> None:
        counts, text = op_counts(kernel), print_kernel(kernel)
        if text != self.text:
            text_with_locations = print_kernel(kernel, locations=True)
            assert print_kernel(parse_kernel(text_with_locations), locations=True) == text_with_locations
        line = f"{name}: {counts.total()} ops, {digest(text)}" if text != self.text else f"{name}: unchanged"
        if counts != self.counts:
            line += "; " + ", ".join(
                f"{n:+} {op}" for op, n in sorted(difference(self.counts, counts).items())
            )
        self.lines.append(line)
        self.counts, self.text = counts, text


def op_counts(kernel: Kernel) -> Counter[str]:
    return Counter(op.NAME for op in kernel.walk())


def difference(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    return {op: after[op] - before[op] for op in before | after if after[op] != before[op]}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def stages(kernel: Any) -> str:
    types = argument_types(kernel, ())
    access = tuple(PACKED if isinstance(t, ArrayType) else None for t in types)
    traced_kernel = trace(kernel, types, LaunchClass(2, THREADS, (True, False), True, False), access)
    result = Stages(traced_kernel)
    prepare(traced_kernel, result.add)
    for_gpu(traced_kernel, get_cuda_target("sm_90a"), result.add)
    return "\n".join(result.lines) + "\n"


@pytest.mark.parametrize("name", KERNELS)
def test_the_ir_of_library_kernels_after_each_pass_is_as_expected(name: str, update: bool) -> None:
    path = Path(__file__).parent / "stages" / f"{name}.txt"
    actual = stages(KERNELS[name])
    if update:
        path.parent.mkdir(exist_ok=True)
        path.write_text(actual)
    assert actual == path.read_text()
