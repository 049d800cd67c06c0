"""Removal of instructions whose results nothing reads, before LLVM parses them.

Unrolled loops over lines of tiles compute elements that a selection with a constant condition drops. LLVM would remove
most of the instructions, but not shuffles, which it takes for accesses to memory."""

from __future__ import annotations

import re
from collections.abc import Sequence

_REMOVABLE = re.compile(
    r"  %[\w.]+ = (?:"
    r"(?:select|[if]cmp|fneg|f?add|f?sub|f?mul|and|or|xor|shl|[la]shr|bitcast|[zs]ext|trunc|fpext|fptrunc|[us]itofp)\b"
    r"|call \w+ @llvm\.(?:fma|fabs|[us]min|[us]max|nvvm\.shfl\.sync)\b)"
)
"""Instructions without effects. All threads of a warp run the same instructions, so that a shuffle whose result no
thread reads has none."""
_NAME = re.compile(r"%[\w.]+")


def without_unused(lines: Sequence[str]) -> list[str]:
    """The lines of a function, in order, without instructions whose results no other line reads."""
    names = [_NAME.findall(line) for line in lines]
    left: dict[str, int] = {}
    for found in names:
        for name in found:
            left[name] = left.get(name, 0) + 1
    kept: list[str] = []
    for line, found in zip(reversed(lines), reversed(names), strict=True):
        if found and left[found[0]] == 1 and _REMOVABLE.match(line):
            for name in found:
                left[name] -= 1
        else:
            kept.append(line)
    kept.reverse()
    return kept
