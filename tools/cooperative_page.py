"""Writes docs/reference/cooperative.md: the cooperative functions of the library, from their declarations.

Usage: python tools/cooperative_page.py"""

from __future__ import annotations

import inspect
import re
import textwrap
from pathlib import Path

import numpy as np

from tegula import testing
from tegula.declaration import Refused, Sample
from tegula.lang.cooperative import CooperativeDef
from tegula.ops.documented import ENTRY_SECTIONS, split
from tegula.runtime.library import documentation, library
from tegula.stdlib.tiles import DECLARED

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "cooperative.md"

UNBROKEN = {"break_long_words": False, "break_on_hyphens": False}

INTRODUCTION = """# Cooperative functions of the library

<!-- Written by tools/cooperative_page.py. -->

All threads of a group call a cooperative function together: in any block size, in roles, on CPUs and GPUs.
[How to write a cooperative function](../cooperative.md).
"""


def names() -> list[str]:
    """The names of the functions that users call."""
    return sorted(name for name in DECLARED if not name.startswith("_"))


def page() -> str:
    """The text of the page."""
    text = "\n".join([INTRODUCTION, *(_section(testing.function_of(name)) for name in names())])
    return re.sub(r"\n{3,}", "\n\n", text)


def _section(f: CooperativeDef) -> str:
    lines = [
        f"## {f.name}",
        "",
        f"`{_signature(f)}`",
        "",
        *_listed_sections(documentation(f)),
    ]
    if f.overwritten is not None:
        assert f.inplace.name in library()
        lines += ["", f"`{f.inplace.name}` overwrites `{f.overwritten}` with the result and returns nothing."]
    rule = "a program of its own" if f.rule is not None else "derived from the program"
    count = len([*f.all_programs])
    lines += ["", f"Programs: {count}. Adjoint: {rule}. Source: `{_source(f)}`.", "", "Tested with:", ""]
    lines += [f"- {_sample_text(s)}" for s in testing.samples(f) if not isinstance(s, Refused)]
    lines += ["", "Refused:", ""]
    lines += [f"- {_sample_text(s)}: {s.code}" for s in testing.samples(f) if isinstance(s, Refused)]
    return "\n".join(lines) + "\n"


def _signature(f: CooperativeDef) -> str:
    defaults = {
        p.name: p.default for p in f.definition.parameters if p.default is not inspect.Parameter.empty
    }
    parameters = [
        f"{name}: {p}" + (f" = {defaults[name]!r}" if name in defaults else "")
        for name, p in f.patterns.items()
    ]
    results = ", ".join(map(str, f.results))
    return (
        f"{f.name}({', '.join(parameters)}) -> {f'({results})' if len(f.results) > 1 else results or 'None'}"
    )


def _listed_sections(text: str) -> list[str]:
    """A docstring with the entries of its sections as lists."""
    before, sections = split(text)
    lines = [before]
    for title, entries in sections.items():
        lines += ["", f"**{title}**", ""]
        for section_entry in entries:
            entry = (
                re.match(r"((?:\w+(?:, )?)+|[a-z-]+): ", section_entry) if title in ENTRY_SECTIONS else None
            )
            section_entry = f"`{entry[1]}`: {section_entry[entry.end() :]}" if entry else section_entry
            prefix = "- " if title in ENTRY_SECTIONS else ""
            lines.append(
                textwrap.fill(prefix + section_entry, 118, subsequent_indent=" " * len(prefix), **UNBROKEN)
            )
    return lines


def _source(f: CooperativeDef) -> str:
    path = Path(f.definition.function.__code__.co_filename).resolve()
    return path.relative_to(ROOT).as_posix()


def _sample_text(sample: Sample) -> str:
    def argument_text(x: object) -> str:
        return f"{x.dtype} {x.shape}" if isinstance(x, np.ndarray) else repr(x)

    parts = [
        *map(argument_text, sample.arguments),
        *(f"{key}={argument_text(x)}" for key, x in sample.named.items()),
    ]
    return ", ".join(parts)


def main() -> None:
    """Write the page."""
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
