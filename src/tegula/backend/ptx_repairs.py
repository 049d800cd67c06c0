"""Rewrites of PTX instructions that ptxas or the driver's compiler miscompiles.

The compiler in NVIDIA's driver (580) assumes that `neg` and `abs` of signed integers never overflow: the least 16-bit
integer, negated and widened, and the absolute value of the least 64-bit integer, compared with 0, are wrong. This
compiler and ptxas 13.0 also miscompile a comparison of max(x, 1) with 1 for 16-bit x. Negation by complement and
addition, and extremes of 32 bits, are compiled correctly (docs/design/004)."""

from __future__ import annotations

import re

_NEGATION = re.compile(r"^(\s*)(neg|abs)\.s(16|32|64)\s+(%\w+), (%\w+);", re.MULTILINE)
_EXTREME = re.compile(r"^(\s*)(min|max)\.([su])16\s+(%\w+), ([%\w-]+), ([%\w-]+);", re.MULTILINE)


def repair_ptx(ptx: str) -> str:
    """An equivalent program without `neg` and `abs` of integers, and without `min` and `max` of 16-bit integers."""
    return _EXTREME.sub(_widened, _NEGATION.sub(_replacement, ptx))


def _widened(call_match: re.Match[str]) -> str:
    indent, op, kind, to, *operands = call_match.groups()
    steps = [_wide(kind, name, x) for name, x in zip("ab", operands, strict=True)]
    return f"{indent}{{ .reg .b32 a, b; {' '.join(steps)} {op}.{kind}32 a, a, b; cvt.u16.u32 {to}, a; }}"


def _wide(kind: str, name: str, operand: str) -> str:
    """The instruction that widens a 16-bit register or literal to 32 bits."""
    if operand.startswith("%"):
        return f"cvt.{kind}32.{kind}16 {name}, {operand};"
    value = int(operand) % 65536
    return f"mov.b32 {name}, {value - 65536 if kind == 's' and value >= 32768 else value};"


def _replacement(call_match: re.Match[str]) -> str:
    indent, op, bits, to, source = call_match.groups()
    if op == "neg":
        return f"{indent}not.b{bits} {to}, {source};{indent}add.s{bits} {to}, {to}, 1;"
    return (
        f"{indent}{{ .reg .b{bits} sign; shr.s{bits} sign, {source}, {int(bits) - 1}; "
        f"xor.b{bits} {to}, {source}, sign; sub.s{bits} {to}, {to}, sign; }}"
    )
