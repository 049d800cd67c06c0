"""Texts of errors: operands as the user wrote them, their types, and the cast that makes them agree."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tegula.ir import ConstantLike, Op, TypeRule, Value
from tegula.ops.base import wider
from tegula.ops.buffer import BufRead
from tegula.ops.builder import LITERALS
from tegula.source import Location
from tegula.types import (
    BufType,
    DType,
    MatType,
    TileType,
    VecType,
    bool_,
    float32,
    from_numpy,
    int32,
    is_element,
    scalar_of,
)

Written = Sequence[tuple[ast.expr, Any]]
"""Operands as the user wrote them, each with its binding."""

MAX_QUOTED = 24
"""Source text of up to this many characters is quoted in a message."""


def scalar(x: Any) -> DType | None:
    """The scalar type of a number, vector, matrix or tile, or of a type of these; None for other bindings."""
    if isinstance(x, LITERALS):
        return bool_ if isinstance(x, bool) else int32 if isinstance(x, int) else float32
    if isinstance(x, np.generic):
        return from_numpy(x.dtype)
    if is_element(x):
        return scalar_of(x)
    if not isinstance(x, Value):
        return None
    t = x.type.dtype if isinstance(x.type, TileType | BufType) else x.type
    return scalar_of(t) if is_element(t) else None


def is_constant(x: Any) -> bool:
    """Whether an operand is a constant of one type, such as an element of a NumPy array that the kernel captures."""
    return isinstance(x, np.generic) or (isinstance(x, Value) and isinstance(x.owner, ConstantLike))


def quoted(node: ast.AST) -> str:
    """The node's source text if it is short, else '...'."""
    text = ast.unparse(node)
    return text if len(text) <= MAX_QUOTED else "..."


def _primary(node: ast.AST) -> str:
    """The node's source text as the left side of an attribute or a subscript: operators are in parentheses."""
    text = quoted(node)
    is_operator = isinstance(
        node, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Lambda
    )
    return f"({text})" if is_operator and text != "..." else text


def _name(t: DType) -> str:
    """The name of a type as users write it."""
    return {"float32": "float", "int32": "int", "bool": "bool"}.get(t.name, f"tg.{t}")


def cast_text(node: ast.AST, x: Any, to: DType) -> str:
    """The source text of an expression that converts the node's value."""
    name = _name(to)
    if type(x) is int and to.is_float and x.bit_length() < 1000:
        return str(float(x))
    if isinstance(x, Value) and isinstance(x.type, TileType | BufType):
        return f"tg.tile_astype({quoted(node)}, {name})"
    return f"{name}({quoted(node)})"


def mixed_types(written: Written, inplace: bool = False) -> tuple[dict[str, DType], str] | None:
    """The types of the first two adjacent operands with different types, and the cast to write; None if all types are
    equal. `inplace`: the first operand keeps its type."""
    typed_operands = [(node, x, t) for node, x in written if (t := scalar(x)) is not None]
    for (first, a, left), (second, b, right) in pairwise(typed_operands):
        if left == right:
            continue
        to = left if inplace else wider(left, right)
        if not inplace and left.is_float and right.is_float and is_constant(a) != is_constant(b):
            to = right if is_constant(a) else left  # NumPy constants are float64 by default
        node, x = (second, b) if to == left else (first, a)
        alternative = (
            f", or make {first.id} {right} from the start"
            if inplace and isinstance(first, ast.Name) and not is_rounded_matmul(node, x, to)
            else ""
        )
        return {"left": left, "right": right}, conversion(node, x, to) + alternative
    return None


def is_rounded_matmul(node: ast.AST, x: Any, to: DType) -> bool:
    """Whether the node is a matmul by `@` whose result is rounded to a narrower type than `to`."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) and isinstance(x, Value)):
        return False
    t = scalar(x)
    return isinstance(x.type, TileType) and t is not None and to.is_float and wider(t, to) == to


def conversion(node: ast.AST, x: Any, to: object) -> str:
    """A help text with the conversion of a value to the expected type."""
    if isinstance(to, DType) and isinstance(x, Value) and isinstance(x.type, VecType | MatType):
        part = f"{_primary(node)}.x" if isinstance(x.type, VecType) else f"{_primary(node)}[0, 0]"
        return f"take a component, as in {part}"
    if isinstance(to, DType) and scalar(x) == to and isinstance(x, Value) and isinstance(x.type, TileType):
        element = f"{_primary(node)}[{', '.join('0' for _ in x.type.shape)}]"
        return f"take an element, as in {element}; tg.tile_store stores a whole tile"
    if not isinstance(to, DType) or scalar(x) in (None, to):
        return ""
    if isinstance(node, ast.BinOp) and is_rounded_matmul(node, x, to):
        a, b = quoted(node.left), quoted(node.right)
        return f"sum in {to}: tg.tile_matmul({a}, {b}, dtype={_name(to)})"
    text = cast_text(node, x, to)
    return f"write {text}" if type(x) is int else f"cast the value: {text}"


def culprit(rule: TypeRule) -> tuple[ast.expr, Any] | None:
    """The operand of an error, as the user wrote it; the last operand if the error only states the expected type."""
    if rule.culprit is None:
        return rule.written[-1] if rule.expected is not None and rule.written else None
    for node, x in rule.written:
        parts = [(node, x)]
        if isinstance(x, tuple):
            nodes = node.elts if isinstance(node, ast.Tuple | ast.List) else [node] * len(x)
            parts += zip(nodes, x, strict=False)
        for part in parts:
            if part[1] is rule.culprit:
                return part
    return None


ACCEPTED_OPERANDS: dict[type[ast.AST], str] = {
    ast.Subscript: "arrays, tiles, vectors, matrices and tuples are indexed, with integers and slices",
    ast.BinOp: "operators combine numbers, vectors, matrices and tiles",
    ast.UnaryOp: "operators work on numbers, vectors, matrices and tiles",
    ast.Compare: "numbers and tiles are compared with each other, types and strings with == and !=",
    ast.Assign: "a value that is assigned to an element must have the element type",
    ast.AugAssign: "a value that is added to an element must have the element type",
}


def remedy(rule: TypeRule, node: ast.AST | None) -> str:
    """A help text for an operand that does not fit a kind of expression or statement; "" if the error names an operand
    or an expected type."""
    if node is None or rule.error != "TypeMismatch" or rule.culprit is not None or rule.expected is not None:
        return ""
    return ACCEPTED_OPERANDS.get(type(node), "")


def definition_location(x: Any) -> Location | None:
    """The location where a value was created; for a tile object, where its name was bound."""
    while isinstance(x, Value) and isinstance(x.owner, BufRead):
        x = x.owner.buffer
    return x.owner.loc if isinstance(x, Value) and isinstance(x.owner, Op) else None


def shape_notes(written: Written) -> list[tuple[Location, str]]:
    """Notes with the locations where the tiles of a shape mismatch were created, and their shapes."""
    out: list[tuple[Location, str]] = []
    for _, x in written:
        at = definition_location(x)
        if isinstance(x, Value) and isinstance(x.type, TileType | BufType) and at is not None:
            out.append((at, f"shape {x.type.shape}"))
    return out
