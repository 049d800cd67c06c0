"""Makes the use of lane 0's value explicit, by `lane.uniform`, for lane-varying operands of cooperative ops."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.array import ArrayView
from tegula.ops.buffer import BufReshape, BufView
from tegula.ops.group_operands import group_uniform_operands, operand_description, view_index_name
from tegula.ops.lane import Lanes, LaneUniform
from tegula.passes.runner import GpuCompilation
from tegula.passes.uniformity import Uniformity


def uniform_operands(kernel: Kernel, context: GpuCompilation) -> None:
    """Insert `lane.uniform` before cooperative ops."""
    _region(kernel.body, context.uniformity)


def _region(region: Region, known: Uniformity) -> None:
    out: list[Op] = []
    for op in region.ops:
        if op.COOPERATIVE and not isinstance(op, LaneUniform):
            for k, value in _varying_operands(op, known):
                attrs = {"implicit": operand_description(op, k, value) or True}
                uniform = LaneUniform([value], [value.type], attrs, [], op.loc)
                uniform.parent = region
                out.append(uniform)
                op.set_operand(k, uniform.result)
        elif not isinstance(op, Lanes):
            for nested in op.regions:
                _region(nested, known)
        out.append(op)
    region.ops = out


def group_operands(op: Op, known: Uniformity) -> list[tuple[int, str]]:
    """The operands of an op for which lane 0's value is used although they differ between lanes, with their names in
    messages; none for `tg.uniform`, where this is the user's intention."""
    if not op.COOPERATIVE or (isinstance(op, LaneUniform) and not op.implicit):
        return []
    return [
        (k, text) for k, value in _varying_operands(op, known) if (text := operand_description(op, k, value))
    ]


def _varying_operands(op: Op, known: Uniformity) -> list[tuple[int, Value]]:
    return [(k, value) for k, value in group_uniform_operands(op) if known.varying(value)]


def view_index(value: Value, known: Uniformity) -> str:
    """The name of a view's index that differs between lanes, so that lane 0's index is used; "" if there is none."""
    while isinstance(value.owner, ArrayView | BufView | BufReshape):
        value, *indices = value.owner.operands
        for index in indices:
            if known.varying(index):
                return view_index_name(index)
    return ""
