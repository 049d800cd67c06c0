"""LLVM IR for NVIDIA GPUs: one thread of a block per lane, tiles spread over the registers of all."""

from tegula.codegen.gpu.kernel import GpuCode, lower_kernel

__all__ = ["GpuCode", "lower_kernel"]
