"""The PTX of kernels with roles agrees with their lowered IR, and changed PTX does not."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from equivalent_rewrites import kernel as kernel_from_text
from idioms import RIGHT
from schedules import chain, gemm, two_producers
from schedules import lowered as lowered_matmul

import tegula as tg
from support import handwritten_schedules, hopper_roles, role_kernels
from support.attacks.attack import right_attack
from support.attacks.judge import kernel_of
from support.attacks.judge import lowered as lowered_roles
from tegula.backend.llvm import compile_ptx
from tegula.check.emitted import Code, disagreement
from tegula.codegen.gpu.kernel import lower_kernel
from tegula.ir import Kernel, numbered
from tegula.kernels import gemm as matmuls
from tegula.kernels import shapes
from tegula.ops.group import GroupMma
from tegula.target import get_cuda_target

attention: Any = importlib.import_module("tegula.kernels.attention")
HOPPER = get_cuda_target("sm_90a")


def emitted(lowered_kernel: Any) -> tuple[Kernel, str]:
    kernel, compilation = lowered_kernel
    return kernel, compile_ptx(lower_kernel(kernel, compilation, HOPPER, False).text, "sm_90a")


def library(tile: int, transposed: bool) -> Any:
    return lowered_matmul(
        matmuls.matmul_kernel(
            tg.bfloat16, shapes.TENSOR_CORES[tile], transposed, matmuls.Epilogue(tg.bfloat16), "default"
        )
    )


KERNEL_MAKERS: dict[str, Callable[[], Any]] = {
    "matmul": lambda: library(0, False),
    "small matmul": lambda: library(-1, True),
    "attention": lambda: lowered_matmul(attention.forward(tg.bfloat16, 128, False, False, False), 2),
    "causal attention": lambda: lowered_matmul(attention.forward(tg.bfloat16, 64, True, True, True), 4),
    **{f.__name__: lambda f=f: lowered_matmul(f()) for f in (gemm, two_producers, chain)},
    **{
        k.name: lambda k=k: lowered_roles(k)
        for k in (hopper_roles.pushed_operand, hopper_roles.chained_matmuls)
    },
    **{
        k.name: lambda k=k: lowered_roles(k)
        for k in (
            handwritten_schedules.staged_out,
            handwritten_schedules.alternating_roles,
            role_kernels.persistent,
        )
    },
    "of another block": lambda: lowered_roles(kernel_of(right_attack(21).text)),
}


@pytest.mark.parametrize("name", KERNEL_MAKERS)
def test_ptx_of_kernels_agrees_with_their_lowered_ir(name: str) -> None:
    kernel, ptx = emitted(KERNEL_MAKERS[name]())
    actual = disagreement(ptx, kernel)
    assert actual is None, actual
    assert {step.number for step in Code(ptx).steps} == set(range(len(numbered(kernel.body))))


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_ptx_of_idioms_agrees_with_their_lowered_ir(name: str) -> None:
    kernel, ptx = emitted(lowered_roles(kernel_from_text(RIGHT[name], None, 3)))
    assert disagreement(ptx, kernel) is None


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 30))
def test_ptx_of_generated_schedules_agrees_with_their_lowered_ir(first: int) -> None:
    compared = 0
    for attack in map(right_attack, range(first, first + 30)):
        if attack.mutation is not None:
            continue
        try:
            lowered = lowered_roles(kernel_of(attack.text))
        except tg.CompileError:
            continue
        kernel, ptx = emitted(lowered)
        assert disagreement(ptx, kernel) is None, f"{attack.seed}\n{attack.text}"
        compared += 1
    assert compared > 10


# Changed PTX ----------------------------------------------------------------------------------------------------------


def assemblies(ptx: str) -> list[tuple[int, int, int]]:
    """The first line, last line and op number of each piece of inline assembly that names an op."""
    lines, out, begin = ptx.splitlines(), [], 0
    for k, line in enumerate(lines):
        if "// begin inline asm" in line:
            begin = k
        elif "// end inline asm" in line:
            op_comment = re.search(r"// op (\d+)", "\n".join(lines[begin:k]))
            if op_comment:
                out.append((begin, k, int(op_comment[1])))
    return out


@pytest.fixture(scope="module", params=["matmul", "attention", "staged_out"])
def emitted_kernel(request: pytest.FixtureRequest) -> tuple[Kernel, str]:
    return emitted(KERNEL_MAKERS[request.param]())


def test_a_missing_instruction_of_any_op_is_reported(emitted_kernel: tuple[Kernel, str]) -> None:
    kernel, ptx = emitted_kernel
    parts, lines = assemblies(ptx), ptx.splitlines()
    for op, number in numbered(kernel.body).items():
        removed = [(a, b) for a, b, n in parts if n == number]
        remaining = [x for k, x in enumerate(lines) if not any(a <= k <= b for a, b in removed)]
        assert disagreement("\n".join(remaining), kernel) is not None, op.NAME


def test_reordered_instructions_are_reported(emitted_kernel: tuple[Kernel, str]) -> None:
    """Two different adjacent ops in straight-line code are exchanged, except ops that one thread runs."""
    kernel, ptx = emitted_kernel
    ops, lines, swapped = list(numbered(kernel.body)), ptx.splitlines(), 0
    parts = assemblies(ptx)
    for (a, b, n), (c, d, m) in pairwise(parts):
        between = "\n".join(lines[b:c])
        if n == m or ":" in between.replace("::", "") or "bra" in between:
            continue
        changed = [*lines[:a], *lines[c : d + 1], *lines[b + 1 : c], *lines[a : b + 1], *lines[d + 1 :]]
        assert disagreement("\n".join(changed), kernel) is not None, (ops[n].NAME, ops[m].NAME)
        swapped += 1
    assert swapped or not any(isinstance(op, GroupMma) for op in ops)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"// op 4\b", "// op 5"),
        (r" // op 4\b", ""),
        (r"// op 4\b", "// op 4000"),
        (r"(wait_group(\.sync\.aligned|\.read)?) (\d)(; // op)", r"\1 7\4"),
        (r"mbarrier\.try_wait\.parity", "mbarrier.test_wait.parity"),
        (r"fence\.proxy\.async\.shared::cta", "fence.proxy.async.global"),
    ],
)
def test_changed_instructions_and_constants_are_reported(
    emitted_kernel: tuple[Kernel, str], old: str, new: str
) -> None:
    kernel, ptx = emitted_kernel
    changed, count = re.subn(old, new, ptx, count=1)
    if count:
        assert disagreement(changed, kernel) is not None


def test_added_jumps_after_an_op_are_reported(emitted_kernel: tuple[Kernel, str]) -> None:
    """The label of a loop moves after the first op of its block, so that later iterations omit the op."""
    kernel, ptx = emitted_kernel
    ops, lines, code, tried = list(numbered(kernel.body)), ptx.splitlines(), Code(ptx), 0
    single = [n for n, count in Counter(step.number for step in code.steps).items() if count == 1]
    for label, block in code.blocks.items():
        first = block.steps[0].number if block.steps and label.startswith("$") else -1
        if first not in single or ops[first].is_single_thread:
            continue
        position = lines.index(f"{label}:")
        end = next(b for a, b, _ in assemblies(ptx) if a > position)
        changed = [*lines[:position], *lines[position + 1 : end + 1], f"{label}:", *lines[end + 1 :]]
        assert disagreement("\n".join(changed), kernel) is not None, label
        tried += 1
    assert tried
