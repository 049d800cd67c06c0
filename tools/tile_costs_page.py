"""Writes docs/reference/tile_costs.md from the results and the reasons of benchmarks/tile_ops.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.tile_ops import NO_DATA, PATH, REASONS, SLOW_RATIO, functions, is_slow

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "tile_costs.md"

INTRODUCTION = """# What tile functions cost

<!-- Written by tools/tile_costs_page.py from benchmarks/results/tile-ops.json. -->

On the CPU: the CPU time of a kernel that loads tiles, calls the function and stores the result, divided by the CPU time
of a kernel that copies as many bytes, measured once. On GPUs: the number of instructions of that kernel, compiled for
sm_90a, and of the copy; instructions in loops count once. For a function that takes more than {slow:g} times the copy,
the last column gives the reason.

| function | CPU | instructions | of the copy | reason |
|---|---|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    rows = json.loads(PATH.read_text())
    lines = [INTRODUCTION.format(slow=SLOW_RATIO)]
    for name in functions():
        if name in NO_DATA:
            lines.append(f"| `{name}` | | | | not measured: {NO_DATA[name]} |\n")
            continue
        if name not in rows:
            lines.append(f"| `{name}` | | | | not measured yet |\n")
            continue
        row = rows[name]
        reason = REASONS[name] if is_slow(row) else ""
        gpu, copy = row["gpu"]["instructions"], row["gpu_copy"]["instructions"]
        lines.append(f"| `{name}` | {row['cpu']:.1f} | {gpu} | {copy} | {reason} |\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
