"""Docstrings of kernel functions, assembled from the function's own docstring and shared texts.

A parameter that many functions share is described once, by its kind: `axis: Axis` in a signature adds the kind's text
and the errors that wrong arguments raise. Sections that functions of a family have in common, the gradient for example,
are written once in the family: `@public("store_wait", HAND_WRITTEN)`. The function's own text replaces shared text,
except for errors, where both are listed."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, get_args

from tegula.dataclass import dataclass, field
from tegula.ops.base import FAMILIES, PUBLIC

TITLES = ("Parameters", "Returns", "Raises", "Gradient", "Source")
"""The sections of a docstring, in order."""
ENTRY_SECTIONS = ("Parameters", "Raises")
"""The sections in which each entry begins on a new line; the other sections are prose."""
WIDTH = 112


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of parameter. `text`: the valid arguments; `raises`: for each error code, the reason of errors for invalid
    arguments, where `{name}` is replaced by the parameter's name."""

    text: str
    raises: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Family:
    """The shared text of several functions' docstrings: sections by title, and errors by code."""

    sections: Mapping[str, str] = field(default_factory=dict[str, str])
    raises: Mapping[str, str] = field(default_factory=dict[str, str])


@cache
def documentation(name: str) -> str:
    """The whole docstring of a public function of kernels."""
    build = PUBLIC[name]
    _, *parameters = inspect.signature(build).parameters.values()
    kinds = [(_kind(build, p.annotation), _parameter_text(p)) for p in parameters]
    return completed(build.__doc__ or "", group_parameters(kinds), FAMILIES.get(name))


Row: TypeAlias = tuple[Kind | None, list[str]]
"""The names of adjacent parameters of one kind, or of one parameter without a kind."""


def completed(text: str, rows: Iterable[Row], family: Family | None = None) -> str:
    """A docstring completed by the texts of the parameters' kinds and of the family."""
    before, sections = split(inspect.cleandoc(text))
    entries, reasons = _parameter_entries(rows, sections.get("Parameters", []))
    shared: list[Mapping[str, str]] = [*reasons, *([family.raises] if family is not None else [])]
    sections["Parameters"] = entries
    sections["Raises"] = joined(sections.get("Raises", []), shared)
    for title, text in family.sections.items() if family is not None else ():
        sections.setdefault(title, [text])
    return assembled(before, sections)


def assembled(before: str, sections: Mapping[str, Sequence[str]]) -> str:
    """A docstring from a text and the entries of its sections; sections without entries are left out."""
    lines = [before.rstrip()]
    if any(sections.values()):
        lines.append("")
    for title in sorted(filter(sections.get, sections), key=_title_order):
        lines += [f"{title}:", *(_wrapped_entry(entry, title in ENTRY_SECTIONS) for entry in sections[title])]
    return "\n".join(lines)


def split(text: str) -> tuple[str, dict[str, list[str]]]:
    """The text before the sections of a docstring, and the entries of each section, one line each."""
    before: list[str] = []
    sections: dict[str, list[str]] = {}
    title, entries = "", None
    for line in text.splitlines():
        if line.endswith(":") and line[:1].isupper() and line[:-1].isalnum():
            title = line[:-1]
            entries = sections.setdefault(title, [])
        elif entries is None:
            before.append(line)
        elif entries and (line.startswith("     ") or title not in ENTRY_SECTIONS):
            entries[-1] += f" {line.strip()}"
        elif line.strip():
            entries.append(line.strip())
    return "\n".join(before), sections


def _title_order(title: str) -> int:
    return TITLES.index(title) if title in TITLES else len(TITLES)


def _wrapped_entry(entry: str, hanging: bool) -> str:
    return textwrap.fill(
        entry,
        WIDTH,
        initial_indent="    ",
        subsequent_indent="        " if hanging else "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _parameter_entries(
    rows: Iterable[Row], function_entries: Sequence[str]
) -> tuple[list[str], list[Mapping[str, str]]]:
    """The entries of parameters, one for adjacent parameters of one kind, and the errors of their kinds."""
    documented = {name: entry for entry in function_entries for name in entry.partition(": ")[0].split(", ")}
    entries: list[str] = []
    reasons: list[Mapping[str, str]] = []
    for kind, names in rows:
        if kind is not None:
            joined = " or ".join(f"`{name}`" for name in names)
            reasons.append({code: text.format(name=joined) for code, text in kind.raises.items()})
        undocumented = [name for name in names if name not in documented]
        entries += dict.fromkeys(documented[name] for name in names if name in documented)
        if undocumented and kind is not None:
            entries.append(f"{', '.join(undocumented)}: {kind.text}")
    return [*dict.fromkeys(entries)], reasons


def group_parameters(parameters: Iterable[tuple[Kind | None, str]]) -> list[Row]:
    """The kinds of parameters, each with the names of the adjacent parameters of this kind."""
    rows: list[Row] = []
    for kind, name in parameters:
        if kind is not None and rows and rows[-1][0] is kind:
            rows[-1][1].append(name)
        else:
            rows.append((kind, [name]))
    return rows


def _parameter_text(p: inspect.Parameter) -> str:
    return {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name


def _kind(build: Callable[..., Any], annotation: object) -> Kind | None:
    """The kind in an annotation, which may be a string; None if the annotation has no kind."""
    named = getattr(build, "__globals__", {}).get(annotation) if isinstance(annotation, str) else annotation
    return next((x for x in get_args(named)[1:] if isinstance(x, Kind)), None)


def joined(function_entries: Sequence[str], shared: Sequence[Mapping[str, str]]) -> list[str]:
    """The entries of an error section: for each code the function's own reason, then the shared reasons."""
    reasons: dict[str, list[str]] = {}
    for entry in function_entries:
        code, colon, text = entry.partition(": ")
        if not colon:
            return list(function_entries)
        reasons[code] = [text.removesuffix(".")]
    for code, text in (pair for each in shared for pair in each.items()):
        texts_of_code = reasons.setdefault(code, [])
        if not any(text in each for each in texts_of_code):
            texts_of_code.append(text)
    return [f"{code}: {'; '.join(texts)}." for code, texts in reasons.items()]
