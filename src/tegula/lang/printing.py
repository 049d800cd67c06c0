"""Printing in kernels: the texts and values of a call of print."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula import errors as E
from tegula.ir import Value
from tegula.lang.state import describe_type
from tegula.ops.builder import LITERALS
from tegula.ops.debug import Print, PrintTile
from tegula.ops.structs import Fields
from tegula.types import BufType, TileType

if TYPE_CHECKING:
    from tegula.lang.calls import Calls


def build_print(tracer: Calls, args: Sequence[Any], kwargs: Mapping[str, Any], node: ast.AST | None) -> None:
    """Build print(..., sep=, end=): each thread prints, or, if an argument is a tile, thread 0 of the block."""
    texts = {"sep": " ", "end": "\n"}
    for key, x in kwargs.items():
        if key not in texts:
            help = "print in kernels takes sep and end"
            raise E.WrongArguments(tracer.location(node), what=f"print has no parameter '{key}'", help=help)
        if not (x is None or isinstance(x, str)):
            raise E.NotConstant(
                tracer.location(node), what=f"{key} of print", help=f"write a string: {key}=', '"
            )
        texts[key] = texts[key] if x is None else x
    parts: list[str | None] = []
    operands: list[Value] = []
    for k, x in enumerate(args):
        parts += [texts["sep"]] if k else []
        _add(tracer, x, parts, operands)
    tiles = any(isinstance(x.type, TileType) for x in operands)
    elements = tuple(k for k, x in enumerate(operands) if not isinstance(x.type, TileType))
    line, ended, rest = texts["end"].rpartition("\n")
    attrs: dict[str, Any] = {"parts": (*parts, *([line] if line else []))}
    if rest or not ended:
        attrs = {"parts": tuple(parts), "end": texts["end"]}
    if not tiles:
        tracer.builder.emit(Print, operands, attrs)
        return
    for k in elements:
        operands[k] = tracer.builder.full((1,), operands[k])
    tracer.builder.emit(PrintTile, operands, {**attrs, "elements": elements})


def _add(tracer: Calls, x: Any, parts: list[str | None], operands: list[Value]) -> None:
    """Add what one argument prints: literal text, or None and an operand."""
    if isinstance(x, Fields):
        for k, (key, part) in enumerate(zip(x.struct.fields, x, strict=True)):
            parts.append(f"{', ' if k else f'{x.struct}('}{key}=")
            _add(tracer, part, parts, operands)
        parts.append(")" if len(x) else f"{x.struct}()")
    elif isinstance(x, tuple):
        parts.append("(")
        for k, part in enumerate(x):
            parts += [", "] if k else []
            _add(tracer, part, parts, operands)
        parts.append(",)" if len(x) == 1 else ")")
    elif isinstance(x, Value) and isinstance(x.type, TileType | BufType):
        parts.append(None)
        operands.append(tracer.builder.tile(x))
    elif isinstance(x, Value | np.generic | np.ndarray):
        parts.append(None)
        operands.append(tracer.builder.value(tracer.argument(x, None)))
    else:
        parts.append(str(x) if isinstance(x, (str, *LITERALS)) or x is None else describe_type(x))
