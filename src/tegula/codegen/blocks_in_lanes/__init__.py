"""Blocks side by side: the body of a kernel for as many blocks at once as a SIMD register has lanes."""

from tegula.codegen.blocks_in_lanes.differences import Differences, OneByOne
from tegula.codegen.blocks_in_lanes.widen import SideBySide, blocks_in_lanes

__all__ = ["Differences", "OneByOne", "SideBySide", "blocks_in_lanes"]
