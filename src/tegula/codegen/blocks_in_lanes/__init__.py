"""Vectorisation over blocks: the body of a kernel computes one block per SIMD lane."""

from tegula.codegen.blocks_in_lanes.differences import Differences, OneByOne
from tegula.codegen.blocks_in_lanes.widen import SideBySide, blocks_in_lanes

__all__ = ["Differences", "OneByOne", "SideBySide", "blocks_in_lanes"]
