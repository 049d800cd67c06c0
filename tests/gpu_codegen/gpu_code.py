"""Kernels as GPU code without a GPU: lowered, assembled, and run thread by thread on the CPU."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

import tegula as tg
from tegula.backend import ptx
from tegula.backend.llvm import compile_object, compile_ptx
from tegula.backend.loader import load
from tegula.codegen.gpu import GpuCode, lower_kernel
from tegula.ir import Kernel
from tegula.passes.pipeline import prepare
from tegula.passes.pipeline_gpu import for_gpu
from tegula.passes.runner import GpuCompilation
from tegula.runtime.compile import trace
from tegula.runtime.description import SPECIALISATIONS
from tegula.runtime.launch import plan
from tegula.runtime.resolve import overlaps, specialisation
from tegula.target import get_cuda_target, get_target


def run_gpu_passes(
    kernel: Any, args: Sequence[Any], dims: tuple[int, ...], block_dim: int, arch: str = "sm_90a"
) -> tuple[Kernel, GpuCompilation]:
    """The kernel of a launch after all passes for a GPU."""
    arrays = [tg.array(a) if isinstance(a, np.ndarray) else a for a in args]
    specialisations = [SPECIALISATIONS[pack(a)[0]] for pack, a in zip(kernel.packers, arrays, strict=True)]
    specialised = specialisation(
        specialisations, plan((*dims, block_dim), block_dim).launch, overlaps(tuple(arrays))
    )
    traced_kernel = trace(kernel, specialised.types, specialised.launch, specialised.access)
    prepare(traced_kernel)
    return traced_kernel, for_gpu(traced_kernel, get_cuda_target(arch))


def lower_to_llvm(
    kernel: Any,
    args: Sequence[Any],
    dims: tuple[int, ...],
    block_dim: int,
    lines: bool = False,
    arch: str = "sm_90a",
) -> GpuCode:
    """The LLVM IR of a launch. `lines`: with the source lines of instructions."""
    return lower_kernel(
        *run_gpu_passes(kernel, args, dims, block_dim, arch), get_cuda_target(arch), lines=lines
    )


def assemble(code: GpuCode, arch: str = "sm_90a") -> tuple[str, ptx.Cubin]:
    """The PTX and the machine code of a launch."""
    text = compile_ptx(code.text, arch)
    cubin = ptx.compile_for_occupancy(text, arch, code.occupancy_threads, code.cta_bytes, code.tile_registers)
    if not cubin.is_ptx:
        code.check_registers(cubin.registers)
    return text, cubin


def define_tables(text: str) -> str:
    """LLVM's text with definitions of the tables that it declares."""

    def defined(match: re.Match[str]) -> str:
        words = match[2].split(",")
        numbers = ", ".join(f"i64 u{word}" for word in words)
        return f"{match[1]} = private unnamed_addr constant [{len(words)} x i64] [{numbers}], align 16"

    return re.sub(r"^(@table\d+) = external [^;\n]*; (.*)$", defined, text, flags=re.MULTILINE)


CPU_REPLACEMENTS = (
    (r'"=[fd],0"', '"=x,0"'),  # registers of floats
    (r"^@shared = .*$", ""),
    (
        r"define ptx_kernel void @kernel\(.*$",
        "define void @kernel(ptr %args, i32 %thread, i32 %block_index, i32 %grid) {",
    ),
    (r"^attributes .*$", ""),
    (r"call (?:range\(.*?\) )?i32 @llvm\.nvvm\.read\.ptx\.sreg\.tid\.x\(\)", "add i32 %thread, 0"),
    (r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.ctaid\.x\(\)", "add i32 %block_index, 0"),
    (r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.nctaid\.x\(\)", "add i32 %grid, 0"),
    (r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.tid\.y\(\)", "add i32 0, 0"),
    (r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.ntid\.y\(\)", "add i32 1, 0"),
    (r"call i32 @llvm\.nvvm\.shfl\.sync\.idx\.i32\(i32 -1, i32 %own32, i32 0, i32 31\)", "add i32 %own32, 0"),
    (r"addrspacecast ptr addrspace\(3\) @shared to ptr", "inttoptr i64 0 to ptr"),
    (r"addrspacecast (ptr) addrspace\(1\) (%\w+) to ptr", r"getelementptr i8, \1 \2, i64 0"),
    (r"ptr addrspace\([14]\)", "ptr"),
    (r"^  call void @llvm\.nvvm\.bar\.warp\.sync\(i32 -1\).*$", ""),
    (r'^  call void asm sideeffect "griddepcontrol\..*$', ""),
    (r"@llvm\.nvvm\.rcp\.approx\.ftz\.", "@reciprocal."),
    (r"@llvm\.nvvm\.rsqrt\.approx\.ftz\.f", "@reciprocal_root"),
)
APPROXIMATIONS = """
define internal float @flush_subnormals(float %x) {
  %magnitude = call float @llvm.fabs.f32(float %x)
  %subnormal = fcmp olt float %magnitude, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %x)
  %result = select i1 %subnormal, float %zero, float %x
  ret float %result
}
define internal float @reciprocal.f(float %x) {
  %flushed = call float @flush_subnormals(float %x)
  %inexact = fdiv float 1.0, %flushed
  %result = call float @flush_subnormals(float %inexact)
  ret float %result
}
define internal float @reciprocal_root(float %x) {
  %flushed = call float @flush_subnormals(float %x)
  %wide = fpext float %flushed to double
  %magnitude = call double @llvm.sqrt.f64(double %wide)
  %exact = fdiv double 1.0, %magnitude
  %nearest = fptrunc double %exact to float
  %bits = bitcast float %nearest to i32
  %bits.below = sub i32 %bits, 1
  %nearest.below = bitcast i32 %bits.below to float
  %is.infinite = fcmp oeq float %nearest, 0x7FF0000000000000
  %is.positive = fcmp ogt float %nearest, 0.0
  %not.positive = xor i1 %is.positive, true
  %keeps.nearest = or i1 %is.infinite, %not.positive
  %result = select i1 %keeps.nearest, float %nearest, float %nearest.below
  ret float %result
}
define internal double @reciprocal.d(double %x) {
  %exact = fdiv double 1.0, %x
  %bits = bitcast double %exact to i64
  %high = and i64 %bits, -4294967296
  %result = bitcast i64 %high to double
  ret double %result
}
"""
"""Emulations of approximate instructions, with the largest error of the PTX manual: float32 without subnormal numbers,
the upper half of a float64, and reciprocal square roots one ulp too small."""


def run_serially(code: GpuCode, kernel: Any, args: Sequence[Any], dims: Sequence[int], blocks: int) -> None:
    """Run all threads of all blocks one by one, for a kernel whose threads do not communicate. `dims`: the dimensions
    of the launch, including threads; `blocks`: the number of CTAs."""
    text = define_tables(code.text)
    for pattern, new in CPU_REPLACEMENTS:
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    assert "nvvm" not in text, "the threads of this kernel communicate"
    total = 1
    for n in dims:
        total *= n
    packed = b"".join(pack(a)[1] for pack, a in zip(kernel.packers, args, strict=True))
    packed += b"".join(n.to_bytes(8, "little") for n in (*dims, total, 0))
    machine_code = load(compile_object(text + APPROXIMATIONS, get_target()))
    function = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[ctypes.c_int32] * 3)(machine_code.address("kernel"))
    for block in range(blocks):
        for thread in range(code.threads):
            function(packed, thread, block, blocks)
