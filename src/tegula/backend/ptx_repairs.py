"""PTX that assemblers translate as it is meant.

The compiler in NVIDIA's driver (580) takes `neg` and `abs` of signed integers to be free of overflow: the least 16-bit
integer negated and widened, or the least 64-bit one's absolute value compared with 0, come out wrong
(docs/design/004). The same results by complement and addition are right."""

from __future__ import annotations

import re

_NEGATION = re.compile(r"^(\s*)(neg|abs)\.s(16|32|64)\s+(%\w+), (%\w+);", re.MULTILINE)


def repaired(ptx: str) -> str:
    """The same program without `neg` and `abs` of integers."""
    return _NEGATION.sub(_replacement, ptx)


def _replacement(found: re.Match[str]) -> str:
    indent, op, bits, to, source = found.groups()
    if op == "neg":
        return f"{indent}not.b{bits} {to}, {source};{indent}add.s{bits} {to}, {to}, 1;"
    return (
        f"{indent}{{ .reg .b{bits} sign; shr.s{bits} sign, {source}, {int(bits) - 1}; "
        f"xor.b{bits} {to}, {source}, sign; sub.s{bits} {to}, {to}, sign; }}"
    )
