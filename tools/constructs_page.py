"""Writes docs/constructs.md: which constructs of Python kernels may have, by trying them, with the compiler's advice.

Usage: python tools/constructs_page.py"""

from __future__ import annotations

import math
import textwrap
import tomllib
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tegula as tg
from tegula.errors import CompileError
from tegula.ir import LaunchClass
from tegula.runtime.library import library
from tegula.types import ArrayType, float32, int32

DOCS = Path(__file__).resolve().parent.parent / "docs"
DATA, PAGE = DOCS / "constructs.toml", DOCS / "constructs.md"
INTRODUCTION = """# Constructs of Python in kernels

<!-- Written by tools/constructs_page.py from docs/constructs.toml. -->

Which constructs of Python may I write in a kernel, and what do I write instead of refused constructs?

What is refused is an error when the kernel is compiled, at its line, with the advice that is shown here. Nothing is
silently ignored. Each row has been tried. What constructs mean exactly: [semantics](semantics.md).
"""


def undecorated(x: float) -> float:
    return x


@tg.func
def recursive(x: float):
    return recursive(x)


NAMES = {
    **{"tg": tg, "np": np, "math": math, "undecorated": undecorated, "recursive": recursive},
    **{"NUMBER": 3.0, "WEIGHTS": np.ones(4), "ARRAY": tg.ones(4)},
}
"""The names of the module of the programs."""


def constructs() -> list[dict[str, str]]:
    """The constructs, in the order of the file."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))["construct"]


def refusal(program: str) -> str | None:
    """The advice with which the compiler refuses the body of a kernel; None if it accepts the body."""
    text = f"def k(a: tg.array[float], n: int):\n{textwrap.indent(program, '    ')}\n"
    names: dict[str, Any] = dict(NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(text, names)
    launch = LaunchClass(1, 64, (False,), False, False)
    try:
        tg.kernel(source=text)(names["k"]).trace([ArrayType(float32, 1), int32], launch, (), library())
    except CompileError as error:
        first = getattr(error, "errors", [error])[0]
        return first.help or str(error).splitlines()[0]
    return None


@cache
def page() -> str:
    """The text of the page."""
    lines = [INTRODUCTION]
    for topic in dict.fromkeys(entry["topic"] for entry in constructs()):
        lines += [f"\n## {topic}\n", "\n| construct | in kernels | note, or advice |\n|---|---|---|\n"]
        for entry in (construct for construct in constructs() if construct["topic"] == topic):
            advice = refusal(entry["program"])
            cells = ("yes", entry.get("note", "")) if advice is None else ("refused", advice)
            lines.append(f"| {entry['shown']} | {cells[0]} | {cells[1]} |\n")
    lines.append("\nNext: [parameters, control flow and functions in use](language.md).\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
