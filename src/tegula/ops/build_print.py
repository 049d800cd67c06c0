"""Printing with a format, as C does it, and stops in a debugger."""

from __future__ import annotations

import re

from tegula.ir import TypeRule, Value
from tegula.ops.base import public, require, require_range
from tegula.ops.builder import OpBuilder, Operand, describe
from tegula.ops.debug import Breakpoint, Print
from tegula.types import DType

SPECIFIER = re.compile(r"%(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|L|j|z|t)?(?P<letter>[a-zA-Z%])|%")
KINDS = {
    **dict.fromkeys("diuoxXc", ("biu", "integer")),
    **dict.fromkeys("eEfFgG", ("f", "float")),
}
"""What a letter of a format prints: the kinds of dtypes, and their name."""
MOST_PRINTED = 32


@public("printf")
def printf(b: OpBuilder, fmt: Operand, *args: Operand) -> None:
    """Prints numbers in a format, as C does it; each thread prints.

    Specifiers begin with `%` and end with one of `d i u o x X c` for integers and `e E f F g G` for floats; widths,
    precisions and flags are as in C, and lengths such as the `l` of `%ld` change nothing. `%s` is a string that is
    known when the kernel is compiled, and `%%` a percent sign. No new line is added.

    Parameters:
        fmt: the format, a string that is known when the kernel is compiled.
        *args: a scalar for each specifier, 32 at most.
    Raises:
        not-constant: `fmt` is no constant string.
        type-mismatch: an argument is no scalar of the specifier's kind, or a specifier is unknown.
        out-of-range: there are more or fewer arguments than specifiers, or more than 32.
    Gradient:
        none: the function has no result.
    Source:
        C's printf.
    """
    if not isinstance(fmt, str):
        raise TypeRule("", "", "NotConstant", culprit=fmt, what="the format of printf")
    found = [*SPECIFIER.finditer(fmt)]
    wanted = sum(each["letter"] != "%" for each in found)
    require_range(len(args) <= MOST_PRINTED, f"printf takes {MOST_PRINTED} values at most, got {len(args)}")
    what = f"the format of printf has {wanted} places for {len(args)} values"
    require_range(wanted == len(args), what, "write %% for a percent sign")
    parts: list[str | tuple[str]] = []
    operands: list[Value] = []
    given, end = iter(args), 0
    for each in found:
        parts.append(fmt[end : each.start()])
        end = each.end()
        letter = each["letter"]
        parts.append("%" if letter == "%" else _placed(b, each["flags"] or "", letter, next(given), operands))
    parts.append(fmt[end:])
    b.emit(Print, operands, {"parts": tuple(p for p in parts if p), "end": ""})


def _placed(
    b: OpBuilder, flags: str, letter: str | None, x: Operand, operands: list[Value]
) -> str | tuple[str]:
    """The part of the text that a specifier stands for: a format with an operand, or a constant text."""
    if letter == "s":
        require(
            isinstance(x, str),
            f"'%s' prints a constant string, got {describe(x)}",
            "print numbers with %d or %g",
        )
        return f"%{flags}s" % x
    require(letter in KINDS, f"printf has no specifier '%{letter or ''}'", f"it has {', '.join(KINDS)} and s")
    kinds, name = KINDS[letter or ""]
    value = b.value(x)
    is_kind = isinstance(value.type, DType) and value.type.kind in kinds
    require(
        is_kind, f"'%{letter}' prints a scalar {name}, got {describe(x)}", "print vectors with print(...)"
    )
    operands.append(value)
    return (f"%{flags}{letter}",)


@public("breakpoint")
def stop(b: OpBuilder) -> None:
    """Stops in a debugger, each thread that gets here: on the CPU in one of machine code, on a GPU in cuda-gdb.

    Without a debugger the process ends by the signal of a trap, or the launch by an error of the GPU. Calls in Python
    and the interpreter stop in Python's debugger.

    Raises:
        nothing.
    Gradient:
        none: the function has no result.
    Source:
        CUDA's __brkpt.
    """
    b.emit(Breakpoint, [])
