"""Vectorisation over blocks: the body of a kernel computes one block per SIMD lane."""

from tegula.codegen.blocks_in_lanes.differences import Differences, NotVectorisable
from tegula.codegen.blocks_in_lanes.widen import VectorisedKernel, blocks_in_lanes

__all__ = ["Differences", "NotVectorisable", "VectorisedKernel", "blocks_in_lanes"]
