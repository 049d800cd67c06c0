"""Formatted printing like C's printf, and stops in a debugger."""

from __future__ import annotations

import re

from tegula.ir import TypeRule, Value
from tegula.ops.base import public, require, require_range
from tegula.ops.builder import OpBuilder, Operand, describe
from tegula.ops.debug import Breakpoint, Print
from tegula.types import DType

SPECIFIER = r"%(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|L|j|z|t)?(?P<letter>[a-zA-Z%])|%"
KINDS = {
    **dict.fromkeys("diuoxXc", ("biu", "integer")),
    **dict.fromkeys("eEfFgG", ("f", "float")),
}
"""The kinds of dtypes that each conversion letter of a format prints, and the name of these dtypes in messages."""
MAX_PRINTED = 32


@public("printf")
def printf(b: OpBuilder, fmt: Operand, *args: Operand) -> None:
    """Prints numbers in a format, like C's printf; each thread prints.

    Specifiers begin with `%` and end with one of `d i u o x X c` for integers and `e E f F g G` for floats; widths,
    precisions and flags are as in C, and length modifiers such as the `l` of `%ld` have no effect. `%s` is a string
    that is known when the kernel is compiled, and `%%` is a percent sign. No new line is added.

    Parameters:
        fmt: the format, a string that is known when the kernel is compiled.
        *args: a scalar for each specifier, 32 at most.
    Raises:
        not-constant: `fmt` is not a constant string.
        type-mismatch: an argument is not a scalar of the specifier's kind, or a specifier is unknown.
        out-of-range: there are more or fewer arguments than specifiers, or more than 32.
    Gradient:
        none: the function has no result.
    Source:
        C's printf.
    """
    if not isinstance(fmt, str):
        raise TypeRule("", "", "NotConstant", culprit=fmt, what="the format of printf")
    specifiers = [*re.finditer(SPECIFIER, fmt)]
    expected = sum(specifier["letter"] != "%" for specifier in specifiers)
    require_range(len(args) <= MAX_PRINTED, f"printf takes {MAX_PRINTED} values at most, got {len(args)}")
    message = f"the format of printf has {expected} specifiers for {len(args)} values"
    require_range(expected == len(args), message, "write %% for a percent sign")
    parts: list[str | tuple[str]] = []
    operands: list[Value] = []
    arguments, end = iter(args), 0
    for specifier in specifiers:
        parts.append(fmt[end : specifier.start()])
        end = specifier.end()
        letter = specifier["letter"]
        parts.append(
            "%"
            if letter == "%"
            else _formatted_part(b, specifier["flags"] or "", letter, next(arguments), operands)
        )
    parts.append(fmt[end:])
    b.emit(Print, operands, {"parts": tuple(p for p in parts if p), "end": ""})


def _formatted_part(
    b: OpBuilder, flags: str, letter: str | None, x: Operand, operands: list[Value]
) -> str | tuple[str]:
    """The part of the text for a conversion specifier: a format with an operand, or a constant text."""
    if letter == "s":
        require(
            isinstance(x, str),
            f"'%s' prints a constant string, got {describe(x)}",
            "print numbers with %d or %g",
        )
        return f"%{flags}s" % x
    require(
        letter in KINDS,
        f"printf has no specifier '%{letter or ''}'",
        f"the specifiers are {', '.join(KINDS)} and s",
    )
    kinds, name = KINDS[letter or ""]
    value = b.value(x)
    is_kind = isinstance(value.type, DType) and value.type.kind in kinds
    require(
        is_kind, f"'%{letter}' prints a scalar {name}, got {describe(x)}", "print vectors with print(...)"
    )
    operands.append(value)
    return (f"%{flags}{letter}",)


@public("breakpoint")
def breakpoint_(b: OpBuilder) -> None:
    """Stops each thread that reaches the call in a debugger: on the CPU in a debugger of machine code, on a GPU in
    cuda-gdb. Without a debugger the process ends with a trap signal, or the launch with an error of the GPU. Calls in
    Python and the interpreter breakpoint_ in Python's debugger.

    Raises:
        nothing.
    Gradient:
        none: the function has no result.
    Source:
        CUDA's __brkpt.
    """
    b.emit(Breakpoint, [])
