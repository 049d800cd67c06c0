"""Scalar operands of cooperative ops, for which lane 0's value is used, and their names in messages."""

from __future__ import annotations

from tegula.ir import Op, Value
from tegula.ops.lane import LaneUniform
from tegula.types import is_element


def group_uniform_operands(op: Op) -> list[tuple[int, Value]]:
    """The positions and values of the operands of a cooperative op for which lane 0's value is used."""
    lanes = op.signature.lanes
    return [(k, v) for k, v in enumerate(op.operands) if is_element(v.type) and k not in lanes]


def operand_description(op: Op, k: int, value: Value) -> str:
    """The name of operand `k` in messages; "" for operands of prints, whose messages name the thread."""
    if isinstance(op, LaneUniform):
        known = op.implicit
        return known if isinstance(known, str) else ""
    if op.loc.subject == "print":
        return ""
    operand = "the offset" if op.signature.is_index(k) else "the value"
    description = f"{operand} {value.name}" if value.name else operand
    return f"{description} of {op.loc.subject or op.NAME}"


def view_index_name(index: Value) -> str:
    """The name of a view's index in messages."""
    return f"the index {index.name} of a view" if index.name else "an index of a view"
