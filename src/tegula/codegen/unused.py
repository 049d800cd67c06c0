"""Removal of instructions whose results nothing reads, before LLVM parses them.

Unrolled loops over lines of tiles compute elements that a select with a constant condition discards. LLVM would remove
most of these instructions, but not shuffles, which LLVM treats as accesses to memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_REMOVABLE = re.compile(
    r"  %[\w.]+ = (?:"
    r"(?:select|[if]cmp|fneg|f?add|f?sub|f?mul|and|or|xor|shl|[la]shr|bitcast|[zs]ext|trunc|fpext|fptrunc|[us]itofp)\b"
    r"|call \w+ @llvm\.(?:fma|fabs|[us]min|[us]max|nvvm\.shfl\.sync)\b)"
)
"""Matches instructions without effects. Shuffles are included: all threads of a warp run the same instructions, so that
no thread of the warp reads the result of an unused shuffle."""
_NAME = re.compile(r"%[\w.]+")


def without_unused(lines: Sequence[str]) -> list[str]:
    """The lines of a function, in order, without instructions whose results no other line reads."""
    uses = Counter(_NAME.findall("\n".join(lines)))
    once = {name for name, count in uses.items() if count == 1}
    used_lines: list[str] = []
    for line in reversed(lines):
        if line[2 : line.find(" ", 2)] in once and _REMOVABLE.match(line):
            names = _NAME.findall(line)
            uses.subtract(names)
            once.update(name for name in names if uses[name] == 1)
        else:
            used_lines.append(line)
    used_lines.reverse()
    return used_lines
