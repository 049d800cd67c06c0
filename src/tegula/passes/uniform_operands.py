"""Group operands that differ between lanes become lane 0's values, by an op that says so."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.array import ArrayView
from tegula.ops.base import TileOp
from tegula.ops.buffer import BufReshape, BufView
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
            for k in _differing(op, known):
                attrs = {"implicit": said(op, k) or True}
                picked = LaneUniform([op.operands[k]], [op.operands[k].type], attrs, [], op.loc)
                picked.parent = region
                out.append(picked)
                op.operands[k] = picked.result
        elif not isinstance(op, Lanes):
            for nested in op.regions:
                _region(nested, known)
        out.append(op)
    region.ops = out


def group_operands(op: TileOp, known: Uniformity) -> list[tuple[int, str]]:
    """The operands of an op that mean lane 0's value although lanes have values of their own, and what users know them
    as; none where the user asked for lane 0's by `tg.uniform`."""
    if not op.COOPERATIVE or (isinstance(op, LaneUniform) and not op.attrs.get("implicit")):
        return []
    return [(k, text) for k in _differing(op, known) if (text := said(op, k))]


def _differing(op: TileOp, known: Uniformity) -> list[int]:
    return [
        k
        for k, value in enumerate(op.operands)
        if is_element(value.type) and k not in op.signature.lanes and known.varying(value)
    ]


def said(op: TileOp, k: int) -> str:
    """An operand as users know it; "" for those of prints, which say by whom they are."""
    if isinstance(op, LaneUniform):
        known = op.attrs.get("implicit")
        return known if isinstance(known, str) else ""
    if op.loc.subject == "print":
        return ""
    what = "the offset" if op.signature.is_place(k) else "the value"
    name = op.operands[k].name
    return (
        f"{what} {name} of {op.loc.subject or op.NAME}" if name else f"{what} of {op.loc.subject or op.NAME}"
    )


def view_index(value: Value, known: Uniformity) -> str:
    """The index of a view that means lane 0's where the view is used by the group; "" if there is none."""
    while isinstance(value.owner, ArrayView | BufView | BufReshape):
        view = value.owner
        for index in view.operands[1:]:
            if known.varying(index):
                return said_of_view(index)
        value = view.operands[0]
    return ""


def said_of_view(index: Value) -> str:
    return f"the index {index.name} of a view" if index.name else "an index of a view"
