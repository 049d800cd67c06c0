"""Printing in kernels: the texts and values of a call of print."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tegula import errors as E
from tegula.dataclass import dataclass
from tegula.ir import TypeRule, Value
from tegula.lang.state import describe_type
from tegula.ops.build_print import KINDS
from tegula.ops.builder import LITERALS
from tegula.ops.debug import Assert, Print, PrintTile
from tegula.ops.structs import Fields
from tegula.types import BufType, DType, TileType

if TYPE_CHECKING:
    from tegula.lang.calls import Calls

Part: TypeAlias = "str | tuple[str] | None"
"""A part of a text: the text itself, or a printf format or None for the next operand."""


@dataclass(frozen=True, slots=True)
class FormattedText:
    """The text of an f-string with values: for each part a value and the format of the value."""

    parts: tuple[tuple[Any, str], ...]

    @classmethod
    def of(cls, parts: Sequence[tuple[Any, str]]) -> FormattedText | str:
        """The text, or the string if all parts are constants."""
        if any(isinstance(x, Value | FormattedText | Fields | tuple) for x, _ in parts):
            return cls(tuple(parts))
        return "".join(x if isinstance(x, str) and not form else format(x, form) for x, form in parts)


FORM = r"(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?P<letter>[diuoxXceEfFgG]?)"


def _format(x: Value, form: str) -> tuple[str]:
    """The printf format that is equivalent to a format of Python."""
    spec, t = re.fullmatch(FORM, form.removeprefix(">")), x.type
    letter = "" if spec is None else spec["letter"] or ("g" if "." in form else "d")
    if spec is None or not isinstance(t, DType) or t.kind not in KINDS.get(letter, ("",))[0]:
        help = "formats are a width, a precision and one of d, x, X, o, c for integers, e, f, g for floats"
        raise TypeRule(f"a {t} cannot be printed in the format '{form}'", help)
    return (f"%{spec['flags']}{letter}",)


def build_assert(tracer: Calls, test: Value, message: str | FormattedText) -> None:
    """Build an assert, whose message may contain values of the thread."""
    if isinstance(message, str):
        tracer.builder.emit(Assert, [test], {"message": message})
        return
    parts: list[Part] = []
    operands: list[Value] = []
    _add_argument(tracer, message, parts, operands)
    template = "".join(part if isinstance(part, str) else "..." for part in parts)
    tracer.builder.emit(Assert, [test, *operands], {"message": template, "parts": tuple(parts)})


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
    parts: list[Part] = []
    operands: list[Value] = []
    for k, x in enumerate(args):
        parts += [texts["sep"]] if k else []
        _add_argument(tracer, x, parts, operands)
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


def _add_argument(tracer: Calls, x: Any, parts: list[Part], operands: list[Value]) -> None:
    """Add the text and the operands of one argument of print."""
    if isinstance(x, FormattedText):
        for part, form in x.parts:
            if form and isinstance(part, Value):
                operands.append(part)
                parts.append(_format(part, form))
            else:
                _add_argument(tracer, format(part, form) if form else part, parts, operands)
        return
    if isinstance(x, Fields):
        for k, (key, part) in enumerate(zip(x.struct.fields, x, strict=True)):
            parts.append(f"{', ' if k else f'{x.struct}('}{key}=")
            _add_argument(tracer, part, parts, operands)
        parts.append(")" if len(x) else f"{x.struct}()")
    elif isinstance(x, tuple):
        parts.append("(")
        for k, part in enumerate(x):
            parts += [", "] if k else []
            _add_argument(tracer, part, parts, operands)
        parts.append(",)" if len(x) == 1 else ")")
    elif isinstance(x, Value) and isinstance(x.type, TileType | BufType):
        parts.append(None)
        operands.append(tracer.builder.tile(x))
    elif isinstance(x, Value | np.generic | np.ndarray):
        parts.append(None)
        operands.append(tracer.builder.value(tracer.argument(x, None)))
    else:
        parts.append(str(x) if isinstance(x, (str, *LITERALS)) or x is None else describe_type(x))
