"""Writes docs/accuracy.md: the measured error of every function, `python tools/accuracy_page.py [arguments each]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "accuracy.md"
sys.path.insert(0, str(ROOT / "tests" / "stdlib"))

EXHAUSTIVE_ERRORS = ROOT / "tests" / "stdlib" / "every_float.json"
STRIDE = 61

INTRODUCTION = """# Accuracy of the mathematical functions

<!-- Written by tools/accuracy_page.py. -->

The largest measured error, in units in the last place of the exact result; half a unit is a correctly rounded result.
The documented bound is in brackets. Results are the same, bit for bit, on every target.

Each number is the largest over {count} arguments, against multiprecision arithmetic: random bits, numbers spread evenly
over several ranges, and numbers close to the ends of the ranges; for `sin`, `cos` and `tan` also the numbers next to
multiples of pi / 2 in all of their range. For float32 functions of one argument it is also the
largest over every {stride}st float32, against the float64 function; with an asterisk over all of them, as
tools/every_float.py found it.

float16 and bfloat16 results are float32 results, rounded once more. `round`, `sign` and `mod` are exact.

| function | float32 | | float64 | |
|---|---|---|---|---|
"""


def main() -> None:
    from measured_errors import CASES, measure, sweep

    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    lines = []
    exhaustive = json.loads(EXHAUSTIVE_ERRORS.read_text()) if EXHAUSTIVE_ERRORS.exists() else {}
    for name, case in CASES.items():
        result = [measure(name, kind, count, seed=3)[0] for kind in (np.float32, np.float64)]
        if not case.second:
            result[0] = max(result[0], sweep(name, STRIDE)[0])
        figures = [f"{e:.2f}" for e in result]
        if name in exhaustive:
            figures[0] = f"{max(result[0], exhaustive[name]['float32']):.2f}*"
        cells = " | ".join(f"{e} | ({b:g})" for e, b in zip(figures, case.bounds, strict=True))
        lines.append(f"| `{name}` | {cells} |\n")
    PAGE.write_text(INTRODUCTION.format(count=f"{count:,}", stride=STRIDE) + "".join(lines))


if __name__ == "__main__":
    main()
