"""Gradients for Hopper: matmuls of adjoints are scheduled and proved like other matmuls; norms use accesses of 16 bytes
and no atomics."""

from __future__ import annotations

import re
from typing import Any

import pytest
from gpu_code import assemble

import tegula as tg
from support.campaigns import sampled
from tegula.backend import ptx
from tegula.check.schedule import check_schedule
from tegula.codegen.gpu import lower_kernel
from tegula.ir import NO_OVERLAP, READ, AccessClass, Kernel, LaunchOverlap, Op, Value
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation
from tegula.runtime.adjoint import Part, adjoint_of
from tegula.runtime.launch import plan
from tegula.runtime.resolve import requested_specialisation
from tegula.target import get_cuda_target
from tegula.types import ArrayType, BufType, element_bytes, scalar_of

HOPPER = get_cuda_target("sm_90a")
ASSEMBLER = bool(ptx.candidates())
WIDTH = 4096
SECTOR = 32
"""The bytes of a request of the L2 cache. A copy that crosses a sector takes two requests."""
DENSE_ACCESS = AccessClass(align=64, contiguous=True, dense=True, bulk=True)


def gradient_kernels(kernel: Any, shapes: list[Any], dims: tuple[int, ...], block: int) -> list[Part]:
    """The kernels that may be launched for the gradients."""
    args = [tg.zeros(s, dtype=tg.bfloat16, requires_grad=True) for s in shapes]
    adjoint = adjoint_of(kernel, tuple(range(len(args))))
    specialised = requested_specialisation(
        adjoint, plan((*dims, block), block), (*args, *(a.grad for a in args))
    )
    return [p for step in adjoint.steps_for(specialised) for p in (step, *step.shared)]


def run_gpu_passes(part: Part, overlap: LaunchOverlap = NO_OVERLAP) -> tuple[Kernel, GpuCompilation]:
    """The lowered kernel for aligned arrays."""
    ir = part.step.kernel
    access = [DENSE_ACCESS if isinstance(p.type, ArrayType) else None for p in ir.params]
    kernel = part.trace([p.type for p in ir.params], ir.launch, access)
    kernel.overlap = overlap
    prepare(kernel)
    return kernel, for_gpu(kernel, HOPPER)


def compile_to_ptx(part: Part, overlap: LaunchOverlap = NO_OVERLAP) -> str:
    """The PTX of a kernel, after a check of the schedule."""
    kernel, compilation = run_gpu_passes(part, overlap)
    assert check_schedule(kernel, compilation).passed, part.name
    text, code = assemble(lower_kernel(kernel, compilation, HOPPER))
    assert ".local" not in text, part.name
    if ASSEMBLER:
        assert code.spill_bytes == 0, part.name
    return text


def compile_gradients(kernel: Any, shapes: list[Any], dims: tuple[int, ...], block: int) -> dict[str, str]:
    """PTX of every kernel that may be launched for the gradients, by name."""
    texts: dict[str, str] = {}
    for part in gradient_kernels(kernel, shapes, dims, block):
        texts[unique_name(part.name, texts)] = compile_to_ptx(part)
    return texts


def unique_name(name: str, actual: dict[str, str]) -> str:
    """The name of a launch. Two launches may have the same name: a sum of chunks is named after the array of the
    result."""
    return name if name not in actual else f"{name} again"


TM, TN, TK = 128, 256, 64


def matmul(transposed: bool) -> Any:
    """`transposed`: whether the right operand is loaded and transposed, as in linear layers."""

    @tg.kernel
    def gemm(a: tg.array2d[Any], b: tg.array2d[Any], c: tg.array2d[Any]):
        i, j = tg.tid()
        total = tg.tile_zeros(shape=(TM, TN), dtype=tg.float32)
        for k in range(a.shape[1] // TK):
            x = tg.tile_load(a, shape=(TM, TK), offset=(i * TM, k * TK))
            if transposed:
                y = tg.tile_transpose(tg.tile_load(b, shape=(TN, TK), offset=(j * TN, k * TK)))
            else:
                y = tg.tile_load(b, shape=(TK, TN), offset=(k * TK, j * TN))
            tg.tile_matmul(x, y, total)
        tg.tile_store(c, tg.tile_astype(total, tg.bfloat16), offset=(i * TM, j * TN))

    return gemm


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_adjoints_of_matmuls_become_matmul_kernels(transposed: bool) -> None:
    actual = compile_gradients(matmul(transposed), [(512, 512)] * 3, (4, 2), 256)
    for operand in ("a", "b"):
        owner_text, wide_text = (actual[f"gemm_adjoint_of_adj_{operand}{end}"] for end in ("", "_wide"))
        for text in (owner_text, wide_text):
            assert "wgmma.mma_async" in text and "cp.async.bulk.tensor" in text
        shape = re.findall(r"wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16", wide_text)
        assert transposed or set(shape) == {"256"}, "the instructions are as wide as in the forward matmul"
        assert "cp.reduce.async.bulk.tensor" in wide_text and "st.global" not in wide_text, (
            "the result is added by bulk copies"
        )
        prefetches = wide_text.count("cp.async.bulk.prefetch.tensor.2d.L2.global")
        assert prefetches == 128 * 256 // (64 * 64), "the elements that are added to are prefetched"
        assert wide_text.rindex("cp.async.bulk.prefetch") < wide_text.index("wgmma"), (
            "the fetching role prefetches"
        )
    assert not any(re.search(r"\b(red|atom)\.global", text) for text in actual.values())


def test_the_clearing_of_a_gradient_may_start_before_its_readers_end() -> None:
    """The next launch may start once the block that owns tiles has multiplied all of them, and all earlier launches are
    complete."""
    parts_by_name = {
        part.step.kernel.name: part for part in gradient_kernels(matmul(False), [(512, 512)] * 3, (4, 2), 256)
    }
    text = compile_to_ptx(
        parts_by_name["gemm_adjoint_of_adj_b_wide"], LaunchOverlap(waits_at_end=True, next_starts=READ)
    )
    trigger, wait = "griddepcontrol.launch_dependents", "griddepcontrol.wait"
    assert text.count(trigger) == 1 and text.count(wait) == 2
    assert text.rindex("wgmma.wait_group") < text.index(wait) < text.index(trigger) < text.index("cp.reduce")
    assert text.rindex("cp.async.bulk.wait_group") < text.rindex(wait)
    text = compile_to_ptx(parts_by_name["gemm_adjoint"], LaunchOverlap(waits_at_end=True))
    assert text.index(trigger) < text.index("st.global") and text.rindex("st.global") < text.index(wait)


@tg.kernel
def softmax(x: tg.array2d[tg.bfloat16], y: tg.array2d[tg.bfloat16]):
    i = tg.tid()
    t = tg.tile_astype(tg.tile_load(x[i], shape=WIDTH), tg.float32)
    e = tg.exp(t - tg.tile_max(t))
    tg.tile_store(y[i], tg.tile_astype(e / tg.tile_sum(e), tg.bfloat16))


@tg.kernel
def layer_norm(
    x: tg.array2d[tg.bfloat16],
    w: tg.array[tg.bfloat16],
    b: tg.array[tg.bfloat16],
    y: tg.array2d[tg.bfloat16],
):
    i = tg.tid()
    row = tg.tile_astype(tg.tile_load(x[i], shape=WIDTH), tg.float32)
    d = row - tg.tile_sum(row) * (1.0 / float(WIDTH))
    z = d * tg.rsqrt(tg.tile_sum(d * d) * (1.0 / float(WIDTH)) + 1e-5)
    weight = tg.tile_astype(tg.tile_load(w, shape=WIDTH), tg.float32)
    bias = tg.tile_astype(tg.tile_load(b, shape=WIDTH), tg.float32)
    tg.tile_store(y[i], tg.tile_astype(z * weight + bias, tg.bfloat16))


@sampled(2, "kernel, weights", [(softmax, 0), (layer_norm, 2)])
def test_adjoints_of_norms_move_16_bytes_without_atomics(kernel: Any, weights: int) -> None:
    shapes = [(64, WIDTH), *[WIDTH] * weights, (64, WIDTH)]
    actual = compile_gradients(kernel, shapes, (64,), 128)
    assert len(actual) == 1 + (weights > 0), "one launch accumulates the gradients of all weights"
    text = actual[f"{kernel.name}_adjoint"]
    loads = re.findall(r"ld\.global\S*\.v4\.", text) + re.findall(
        r"cp\.async\.cg\.shared\.global \[.*\], 16;", text
    )
    assert len(loads) >= 12, "a thread loads x and two gradients, four accesses each"
    assert len(re.findall(r"st\.global\S*\.v4\.", text)) >= 8
    assert not re.search(r"ld\.shared\.[bu]16", text), "stages are read 16 bytes at a time"
    assert not re.search(r"mov\.b32\s+\{%rs\d+, %rs\d+\}, %r", text), (
        "halves of words are widened without moves"
    )
    assert not any(re.search(r"\b(red|atom)\.global", text) for text in actual.values())


def test_stages_of_rows_are_aligned_to_sectors() -> None:
    partial_sums, sums = gradient_kernels(
        layer_norm, [(64, WIDTH), (WIDTH,), (WIDTH,), (64, WIDTH)], (64,), 128
    )
    for part in (partial_sums, sums):
        _, compilation = run_gpu_passes(part)
        strides = [
            [n * element_bytes(scalar_of(buffer.type.dtype)) for n in allocation.strides[:-1]]
            for buffer, allocation in compilation.shared.allocations.items()
            if isinstance(buffer.type, BufType) and _is_staged(buffer)
        ]
        assert strides and not any(n % SECTOR for stride in strides for n in stride)


def _is_staged(buffer: Value) -> bool:
    return isinstance(buffer.owner, Op) and "stages" in buffer.owner.attrs
