"""Vectorisation over blocks: the body of a kernel computes one block per SIMD lane."""

from tegula.codegen.blocks_in_lanes.vectorised import VectorisedKernel
from tegula.deferred import deferred_imports

with deferred_imports():
    from tegula.codegen.blocks_in_lanes.widen import blocks_in_lanes

__all__ = ["VectorisedKernel", "blocks_in_lanes"]
