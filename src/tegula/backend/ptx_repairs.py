"""Rewrites of PTX instructions that ptxas or the driver's compiler miscompiles.

The compiler in NVIDIA's driver (580) assumes that `neg` and `abs` of signed integers never overflow: programs that
negate and widen the minimum 16-bit integer, or compare the absolute value of the minimum 64-bit integer with 0, compute
wrong results. This compiler and ptxas 13.0 also miscompile a comparison of max(x, 1) with 1 for 16-bit x. Negation by
complement and addition, and `min` and `max` of 32 bits, are compiled correctly (docs/design/004)."""

from __future__ import annotations

import re

_NEGATION = re.compile(r"^(\s*)(neg|abs)\.s(16|32|64)\s+(%\w+), (%\w+);", re.MULTILINE)
_EXTREME = re.compile(r"^(\s*)(min|max)\.([su])16\s+(%\w+), ([%\w-]+), ([%\w-]+);", re.MULTILINE)


def repair_ptx(ptx: str) -> str:
    """An equivalent program without `neg` and `abs` of integers, and without `min` and `max` of 16-bit integers."""
    return _EXTREME.sub(_replace_extreme, _NEGATION.sub(_replace_negation, ptx))


def _replace_extreme(match: re.Match[str]) -> str:
    indent, op, signedness, target, *operands = match.groups()
    steps = [_widen_operand(signedness, name, x) for name, x in zip("ab", operands, strict=True)]
    return f"{indent}{{ .reg .b32 a, b; {' '.join(steps)} {op}.{signedness}32 a, a, b; cvt.u16.u32 {target}, a; }}"


def _widen_operand(signedness: str, name: str, operand: str) -> str:
    """The instruction that widens a 16-bit register or literal to 32 bits."""
    if operand.startswith("%"):
        return f"cvt.{signedness}32.{signedness}16 {name}, {operand};"
    value = int(operand) % 65536
    return f"mov.b32 {name}, {value - 65536 if signedness == 's' and value >= 32768 else value};"


def _replace_negation(match: re.Match[str]) -> str:
    indent, op, bits, target, source = match.groups()
    if op == "neg":
        return f"{indent}not.b{bits} {target}, {source};{indent}add.s{bits} {target}, {target}, 1;"
    return (
        f"{indent}{{ .reg .b{bits} sign; shr.s{bits} sign, {source}, {int(bits) - 1}; "
        f"xor.b{bits} {target}, {source}, sign; sub.s{bits} {target}, {target}, sign; }}"
    )
