"""Lowering to LLVM IR for NVIDIA GPUs: a lane is a thread of the block, and tiles are distributed over the registers of
all threads."""

from tegula.codegen.gpu.kernel import GpuCode, lower_kernel

__all__ = ["GpuCode", "lower_kernel"]
