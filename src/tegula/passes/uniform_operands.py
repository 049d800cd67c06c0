"""Group operands that differ between lanes become lane 0's values, by an op that says so."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Region
from tegula.ops.base import TileOp
from tegula.ops.lane import Lanes, LaneUniform
from tegula.passes.uniformity import Uniformity
from tegula.types import is_element


def uniform_operands(kernel: Kernel, known: Uniformity) -> None:
    """Insert `lane.uniform` before cooperative ops; `known` goes on holding."""
    _region(kernel.body, known)


def _region(region: Region, known: Uniformity) -> None:
    out: list[Op] = []
    for op in region.ops:
        assert isinstance(op, TileOp)
        if op.COOPERATIVE and not isinstance(op, LaneUniform):
            for k, value in enumerate(op.operands):
                if is_element(value.type) and k not in op.LANE_OPERANDS and known.varying(value):
                    picked = LaneUniform([value], [value.type], {"implicit": True}, [], op.loc)
                    picked.parent = region
                    out.append(picked)
                    op.operands[k] = picked.result
        elif not isinstance(op, Lanes):
            for nested in op.regions:
                _region(nested, known)
        out.append(op)
    region.ops = out
