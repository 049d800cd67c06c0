"""Docstrings of functions of kernels, put together from what each says and what several share.

The docstring of a build function says what is its own. What a parameter takes that many functions have, and the errors
that other arguments end in, are said once, by the kind of the parameter: `axis: Axis` in a signature stands for both.
What functions of one family share, their gradient say, is said once by the family: `@public("store_wait", BY_HAND)`.
What a docstring says itself counts in the place of either, but errors, which are joined."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from tegula.dataclass import dataclass, field
from tegula.ops.base import FAMILIES, PUBLIC

TITLES = ("Parameters", "Returns", "Raises", "Gradient", "Source")
"""The sections of a docstring, in their order."""
WIDTH = 112


@dataclass(frozen=True, slots=True)
class Kind:
    """What parameters of a kind take, and why other arguments are errors, by code; `{name}` is the parameter."""

    text: str
    raises: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Family:
    """What the docstrings of several functions share: sections by title, and errors by code."""

    sections: Mapping[str, str] = field(default_factory=dict)
    raises: Mapping[str, str] = field(default_factory=dict)


@cache
def documentation(name: str) -> str:
    """The whole docstring of a public function of kernels."""
    build, family = PUBLIC[name], FAMILIES.get(name)
    before, sections = split(inspect.cleandoc(build.__doc__ or ""))
    _, *parameters = inspect.signature(build).parameters.values()
    entries, reasons = _parameters(build, parameters, sections.get("Parameters", []))
    shared: list[Mapping[str, str]] = [*reasons, *([family.raises] if family is not None else [])]
    sections["Parameters"] = entries
    sections["Raises"] = joined(sections.get("Raises", []), shared)
    for title, text in family.sections.items() if family is not None else ():
        sections.setdefault(title, [text])
    return assembled(before, sections)


def assembled(before: str, sections: Mapping[str, Sequence[str]]) -> str:
    """A docstring of a text and the entries of its sections, those without entries left out."""
    lines = [before.rstrip()]
    if any(sections.values()):
        lines.append("")
    for title in sorted(filter(sections.get, sections), key=_place):
        lines += [f"{title}:", *map(_filled, sections[title])]
    return "\n".join(lines)


def split(text: str) -> tuple[str, dict[str, list[str]]]:
    """The text in front of the sections of a docstring, and the entries of each section, one line each."""
    before: list[str] = []
    sections: dict[str, list[str]] = {}
    entries: list[str] | None = None
    for line in text.splitlines():
        if line.endswith(":") and line[:1].isupper() and line[:-1].isalnum():
            entries = sections.setdefault(line[:-1], [])
        elif entries is None:
            before.append(line)
        elif line.startswith("     ") and entries:
            entries[-1] += f" {line.strip()}"
        elif line.strip():
            entries.append(line.strip())
    return "\n".join(before), sections


def _place(title: str) -> int:
    return TITLES.index(title) if title in TITLES else len(TITLES)


def _filled(entry: str) -> str:
    indents = {"initial_indent": "    ", "subsequent_indent": "        "}
    return textwrap.fill(entry, WIDTH, break_long_words=False, break_on_hyphens=False, **indents)


def _parameters(
    build: Callable[..., Any], parameters: Sequence[inspect.Parameter], own: Sequence[str]
) -> tuple[list[str], list[Mapping[str, str]]]:
    """An entry for each parameter, or for several in a row of one kind, and the errors of their kinds."""
    told = {name: entry for entry in own for name in entry.partition(": ")[0].split(", ")}
    entries: list[str] = []
    reasons: list[Mapping[str, str]] = []
    for kind, names in _in_rows(build, parameters):
        if kind is not None:
            joined = " or ".join(f"`{name}`" for name in names)
            reasons.append({code: text.format(name=joined) for code, text in kind.raises.items()})
        untold = [name for name in names if name not in told]
        entries += dict.fromkeys(told[name] for name in names if name in told)
        if untold and kind is not None:
            entries.append(f"{', '.join(untold)}: {kind.text}")
    return [*dict.fromkeys(entries)], reasons


def _in_rows(
    build: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> Iterator[tuple[Kind | None, list[str]]]:
    """The kinds of the parameters of a function, each with the names of those in a row that have it."""
    last: Kind | None = None
    names: list[str] = []
    for p in parameters:
        kind = _kind(build, p.annotation)
        if names and (kind is None or kind is not last):
            yield last, names
            names = []
        last = kind
        names.append({p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name)
    if names:
        yield last, names


def _kind(build: Callable[..., Any], annotation: object) -> Kind | None:
    """The kind that an annotation names, if it names one: annotations are the texts that the source has."""
    named = getattr(build, "__globals__", {}).get(annotation) if isinstance(annotation, str) else annotation
    return next((x for x in get_args(named)[1:] if isinstance(x, Kind)), None)


def joined(own: Sequence[str], shared: Sequence[Mapping[str, str]]) -> list[str]:
    """The entries of a section of errors: for each code the function's own reason, then those that it shares."""
    reasons: dict[str, list[str]] = {}
    for entry in own:
        code, colon, text = entry.partition(": ")
        if not colon:
            return list(own)
        reasons[code] = [text.removesuffix(".")]
    for code, text in (pair for each in shared for pair in each.items()):
        known = reasons.setdefault(code, [])
        if not any(text in each for each in known):
            known.append(text)
    return [f"{code}: {'; '.join(texts)}." for code, texts in reasons.items()]
