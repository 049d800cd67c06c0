"""Kernels as GPU code, without a GPU: they assemble without warnings or spills, with the expected instructions."""

from __future__ import annotations

import re

import pytest
from gpu_code import assemble, lower_to_llvm

from support.compiled_kernels import KERNELS
from tegula.backend import ptx
from tegula.ops.control import Yield

ASSEMBLER = bool(ptx.candidates())


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_for_hopper_have_the_expected_instructions_and_no_spills(name: str) -> None:
    kernel, args, dims, threads, registers, barriers, expected = KERNELS[name]
    text, cubin = assemble(lower_to_llvm(kernel, args, dims, threads))
    for part in expected:
        assert part in text, part
    assert ".local" not in text and ".extern .func" not in text
    if barriers is not None:
        assert len(re.findall(r"\bbar(?:rier)?\.sync", text)) == barriers
    if ASSEMBLER:
        assert cubin.spill_bytes == 0 and cubin.registers <= registers


@pytest.mark.parametrize("arch", ["sm_80", "sm_100a"])
@pytest.mark.parametrize("name", ["row_sum", "softmax", "matmul", "lanes", "inclusive_scan"])
def test_kernels_for_other_gpus_assemble_without_spills(name: str, arch: str) -> None:
    kernel, args, dims, threads, *_ = KERNELS[name]
    _, cubin = assemble(lower_to_llvm(kernel, args, dims, threads, arch=arch), arch)
    assert cubin.spill_bytes == 0


def test_every_op_is_lowered_or_emitted() -> None:
    """Every op has a rule in the code generator or is lowered before. Exceptions: ops of kernels that are
    differentiated, and ops of blocks in lanes, which only CPUs have."""
    from tegula.codegen.arrays import _RULES as LANE_RULES
    from tegula.codegen.elements import STRAIGHT
    from tegula.codegen.gpu.kernel import _RULES as RULES
    from tegula.ops import REGISTRY
    from tegula.ops.control import For, If, While
    from tegula.ops.cooperative import CooperativeCall
    from tegula.ops.gradient import Call, Unreplayable
    from tegula.ops.lane import OnGpu
    from tegula.ops.roles import PipeNew
    from tegula.passes.lower_pipes import _RULES as PIPED
    from tegula.passes.lower_tiles import _RULES as LOWERED

    handled = {*RULES, *LANE_RULES, *LOWERED, *PIPED, PipeNew, If, For, While, Yield}
    handled |= {Call, CooperativeCall, Unreplayable, OnGpu}
    unhandled = {op.NAME for op in REGISTRY.values() if op not in handled and not issubclass(op, STRAIGHT)}
    assert unhandled == {"tile.address", *(f"tile.{name}_in_lanes" for name in ("load", "store", "matmul"))}
