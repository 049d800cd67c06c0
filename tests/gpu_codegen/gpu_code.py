"""Kernels as GPU code without a GPU: lowered, assembled, and run thread by thread on the processor."""

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
    """The kernel of a launch after all passes."""
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
    return lower_kernel(
        *run_gpu_passes(kernel, args, dims, block_dim, arch), get_cuda_target(arch), lines=lines
    )


def assemble(code: GpuCode, arch: str = "sm_90a") -> tuple[str, ptx.Cubin]:
    """The PTX and the machine code of a launch."""
    text = compile_ptx(code.text, arch)
    cubin = ptx.compile_for_occupancy(text, arch, code.waiting, code.cta_bytes, code.held)
    if not cubin.is_ptx:
        code.check_registers(cubin.registers)
    return text, cubin


REPLACED = (
    (r"^@shared = .*$", ""),
    (
        r"define ptx_kernel void @kernel\(.*$",
        "define void @kernel(ptr %args, i32 %thread, i32 %number, i32 %grid) {",
    ),
    (r"^attributes .*$", ""),
    (r"call (?:range\(.*?\) )?i32 @llvm\.nvvm\.read\.ptx\.sreg\.tid\.x\(\)", "add i32 %thread, 0"),
    (r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.ctaid\.x\(\)", "add i32 %number, 0"),
    (r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.nctaid\.x\(\)", "add i32 %grid, 0"),
    (r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.tid\.y\(\)", "add i32 0, 0"),
    (r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.ntid\.y\(\)", "add i32 1, 0"),
    (r"call i32 @llvm\.nvvm\.shfl\.sync\.idx\.i32\(i32 -1, i32 %own32, i32 0, i32 31\)", "add i32 %own32, 0"),
    (r"addrspacecast ptr addrspace\(3\) @shared to ptr", "inttoptr i64 0 to ptr"),
    (r"addrspacecast (ptr) addrspace\(1\) (%\w+) to ptr", r"getelementptr i8, \1 \2, i64 0"),
    (r"ptr addrspace\(1\)", "ptr"),
    (r"^  call void @llvm\.nvvm\.bar\.warp\.sync\(i32 -1\).*$", ""),
    (r'^  call void asm sideeffect "griddepcontrol\..*$', ""),
    (r"@llvm\.nvvm\.rcp\.approx\.ftz\.", "@reciprocal."),
    (r"@llvm\.nvvm\.rsqrt\.approx\.ftz\.f", "@root"),
)
RECIPROCALS = """
define internal float @flushed(float %x) {
  %size = call float @llvm.fabs.f32(float %x)
  %small = fcmp olt float %size, 0x3810000000000000
  %zero = call float @llvm.copysign.f32(float 0.0, float %x)
  %made = select i1 %small, float %zero, float %x
  ret float %made
}
define internal float @reciprocal.f(float %x) {
  %from = call float @flushed(float %x)
  %over = fdiv float 1.0, %from
  %made = call float @flushed(float %over)
  ret float %made
}
define internal float @root(float %x) {
  %from = call float @flushed(float %x)
  %wide = fpext float %from to double
  %size = call double @llvm.sqrt.f64(double %wide)
  %over = fdiv double 1.0, %size
  %near = fptrunc double %over to float
  %bits = bitcast float %near to i32
  %less = sub i32 %bits, 1
  %below = bitcast i32 %less to float
  %infinite = fcmp oeq float %near, 0x7FF0000000000000
  %number = fcmp ogt float %near, 0.0
  %stays = xor i1 %number, true
  %same = or i1 %infinite, %stays
  %made = select i1 %same, float %near, float %below
  ret float %made
}
define internal double @reciprocal.d(double %x) {
  %over = fdiv double 1.0, %x
  %bits = bitcast double %over to i64
  %high = and i64 %bits, -4294967296
  %made = bitcast i64 %high to double
  ret double %made
}
"""
"""Approximate instructions with their largest error: float32 without subnormal numbers, the upper half of a float64,
and roots too small by a unit in the last place."""


def run_serially(code: GpuCode, kernel: Any, args: Sequence[Any], dims: Sequence[int], blocks: int) -> None:
    """Run all threads of all blocks one by one, for a kernel without exchanges between threads. `dims`: the dimensions
    of the launch, threads included; `blocks`: the number of CTAs."""
    text = code.text
    for pattern, new in REPLACED:
        text = re.sub(pattern, new, text, flags=re.MULTILINE)
    assert "nvvm" not in text, "the threads of this kernel communicate"
    total = 1
    for n in dims:
        total *= n
    packed = b"".join(pack(a)[1] for pack, a in zip(kernel.packers, args, strict=True))
    packed += b"".join(n.to_bytes(8, "little") for n in (*dims, total, 0))
    machine_code = load(compile_object(text + RECIPROCALS, get_target()))
    function = ctypes.CFUNCTYPE(None, ctypes.c_char_p, *[ctypes.c_int32] * 3)(machine_code.address("kernel"))
    for block in range(blocks):
        for thread in range(code.threads):
            function(packed, thread, block, blocks)
