"""Writes docs/ops/: the reference of kernel functions, by family, and an index with the names of other libraries.

Usage: python tools/ops_pages.py        writes the pages, runs their examples and writes the output

Signatures and texts are taken from the declarations; examples and names are in docs/ops/examples.toml. Functions of
numbers and cooperative functions need no entry there: their examples are built from their types of arguments and from
samples."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pages
from cooperative_page import UNBROKEN
from stubs import _signature

import tegula as tg
from tegula import testing
from tegula.declaration import Refused
from tegula.lang.capture import SPECIAL
from tegula.lang.cooperative import CooperativeDef, Inplace
from tegula.ops import PUBLIC
from tegula.ops.documented import ENTRY_SECTIONS, documentation, split
from tegula.runtime.library import library

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "ops"
DATA = FOLDER / "examples.toml"
COSTS = ROOT / "benchmarks" / "results" / "tile-ops.json"
ARGUMENTS: tuple[tuple[Any, ...], ...] = ((0.5,), (0.5, 2.0), (0.5, 2.0, 0.25), (6,), (6, 4))
"""Arguments for examples of functions of numbers; the first that a function accepts are shown."""

FAMILIES: dict[str, tuple[str, str, str]] = {
    "creation": (
        "Making tiles",
        "How do I make a tile that is not loaded?",
        "build_tile build_like build_random",
    ),
    "memory": (
        "Loads, stores and atomics",
        "How do elements get from arrays into tiles and back?",
        "",
    ),
    "views": (
        "Views and shapes",
        "How do I slice, reshape, transpose, join or convert tiles?",
        "build_views build_parts",
    ),
    "reductions": (
        "Reductions, maps and scans",
        "How do I combine the elements of a tile?",
        "build_reduce scan cumsum argmax argmin",
    ),
    "sorting": (
        "Sorting and counting",
        "How do I order or count elements?",
        "sort argsort topk median histogram searches",
    ),
    "linear-algebra": (
        "Linear algebra of tiles",
        "How do I multiply, factor and solve?",
        "build_matmul cholesky cholesky_solve lower_solve upper_solve lu lu_solve solve lstsq qr "
        "svd eigh inverse determinant slogdet jacobi",
    ),
    "fourier": (
        "Fourier transforms",
        "How do I transform tiles between time and frequency?",
        "fft fft2 rfft dct fourier convolution",
    ),
    "arithmetic": (
        "Arithmetic",
        "Which operators and conversions are there?",
        "build_math build_operators",
    ),
    "functions": (
        "Mathematical functions",
        "Which functions of numbers are there?",
        "elementary error_function exponential inverse_erfc inverse_trigonometry logarithm softsign "
        "trigonometry blends",
    ),
    "vectors": (
        "Vectors and matrices",
        "How do I compute with small vectors and matrices of one thread?",
        "build_vector small_matrices norms decompositions",
    ),
    "geometry": (
        "Quaternions, transforms and spatial vectors",
        "How do I rotate and move points?",
        "build_algebra quaternions transforms spatial",
    ),
    "spatial": (
        "Spatial queries",
        "How do I find nearby objects, or the objects that a ray hits?",
        "geometry/ segments hash_grids",
    ),
    "random": (
        "Random numbers and noise",
        "How do I draw random numbers?",
        "random noise",
    ),
    "lanes": (
        "Threads of a block",
        "How do threads exchange values?",
        "build_lane build_exchange",
    ),
    "roles": (
        "Roles, pipes and barriers",
        "How do groups of warps do different work?",
        "build_roles build_schedule",
    ),
    "debugging": (
        "Printing and checking",
        "How do I look into a kernel?",
        "build_print expectations",
    ),
}
"""Pages: the title, the reader's question, and the modules and folders/ whose functions are on the page. A module that
is not listed has its own page."""
PAGE_OF_FUNCTION = {
    **dict.fromkeys(
        ("tile_load", "tile_store", "tile_atomic_add", "tile_atomic_min", "tile_atomic_max"), "memory"
    ),
    **dict.fromkeys(("tile_atomic_cas", "tile_atomic_exch", "fence"), "memory"),
    **dict.fromkeys((name for name in PUBLIC if name.startswith("atomic_")), "memory"),
    **dict.fromkeys(("tile_slice_indexed", "tile_scatter_add", "tile_scatter_masked", "table"), "memory"),
    **dict.fromkeys(("tile_load_indexed", "tile_store_indexed", "tile_atomic_add_indexed"), "memory"),
    **dict.fromkeys(("tile_where",), "reductions"),
    **dict.fromkeys(("untile", "tile_local", "tile_extract", "tile_from_local"), "views"),
    **dict.fromkeys((name for name in PUBLIC if name.startswith("group_")), "lanes"),
    **dict.fromkeys((name for name in SPECIAL if name != "print"), "forms"),
    "print": "debugging",
}
"""Functions that are on another page than others of their module."""
FORMS = ("Forms of the language", "What do the keywords of the language mean?", "")
COST = {
    "creation": "It makes the tile in registers, without access to memory.",
    "memory": "It moves the bytes of the elements; see [performance](../performance.md).",
    "arithmetic": "One operation for each element, in registers.",
    "functions": "Some ten operations for each element, in registers; [accuracy](../accuracy.md).",
    "vectors": "It is computed by each thread, in registers.",
    "geometry": "It is computed by each thread, in registers.",
    "spatial": "It is computed by each thread, and reads the memory of the structure, if the function has one.",
    "random": "A hash of some 15 integer operations for each number.",
    "lanes": "Up to 32 threads exchange in registers, more through shared memory.",
    "roles": "[Roles](../roles.md) states the cost of each step.",
    "debugging": "It makes a kernel slower; it is meant for debugging.",
    "forms": "It has no cost itself.",
    "sorting": "It is computed by each thread, in registers.",
}
"""The cost of the functions of a page, unless it has been measured."""


@cache
def data() -> dict[str, Any]:
    """The examples by name, and the names in other libraries."""
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


@cache
def names() -> list[str]:
    """The names of all functions that kernels call."""
    return sorted({name for name in (*PUBLIC, *library(), *SPECIAL) if not name.startswith("_")})


def family(name: str) -> str:
    """The page of a function."""
    if name in PAGE_OF_FUNCTION:
        return PAGE_OF_FUNCTION[name]
    result = PUBLIC[name] if name in PUBLIC else library()[name]
    if isinstance(result, Inplace):
        result = result.of
    function = result if inspect.isfunction(result) else result.definition.function
    path = Path(function.__code__.co_filename)
    modules = {path.stem, f"{path.parent.name}/"}
    return next((page for page, (*_, members) in FAMILIES.items() if modules & {*members.split()}), path.stem)


@cache
def ops_by_family() -> dict[str, list[str]]:
    """The names on each page, in the order of the pages."""
    by_page: dict[str, list[str]] = {page: [] for page in FAMILIES}
    for name in names():
        by_page.setdefault(family(name), []).append(name)
    return by_page


@cache
def all_pages() -> dict[str, str]:
    """The texts of all pages by file name."""
    result = {f"{page}.md": _page(page, members) for page, members in ops_by_family().items()}
    return {"index.md": _index(), **result}


def _page(page: str, members: list[str]) -> str:
    title, question, _ = FORMS if page == "forms" else FAMILIES.get(page, (page.capitalize(), "", ""))
    question = question or f"What is there for {page}?"
    page_order = [*ops_by_family()]
    next_page = page_order[(page_order.index(page) + 1) % len(page_order)]
    lines = [f"# {title}", "", "<!-- Written by tools/ops_pages.py. -->", "", question, ""]
    lines += [*_links(members), ""]
    lines += [
        "The examples begin with",
        "",
        "```python",
        "import numpy as np",
        "import tegula as tg",
        "```",
        "",
    ]
    lines += [text for name in members for text in _section(name, page)]
    lines += [f"Next: [{_title(next_page)}]({next_page}.md), or [all names](index.md)."]
    return "\n".join(lines) + "\n"


def _links(members: list[str]) -> list[str]:
    text = ", ".join(f"[{name}](#{_anchor(name)})" for name in members) + "."
    return textwrap.wrap(text, 118, **UNBROKEN)


def _anchor(name: str) -> str:
    return name.replace(".", "").lower()


def _title(page: str) -> str:
    return (FORMS if page == "forms" else FAMILIES.get(page, (page.capitalize(),)))[0]


def _section(name: str, page: str) -> Iterator[str]:
    yield from (f"## {name}", "", f"`tg.{name}({', '.join(_parameters(name))})`", "")
    yield from listed_sections(_documentation(name))
    yield from ("", f"**Cost**: {cost(name, page)}", "")
    elsewhere = " · ".join(f"{library} `{equivalent}`" for library, equivalent in _elsewhere(name))
    if elsewhere:
        yield from (f"**Elsewhere**: {elsewhere}", "")
    if name in data()["shown"]:
        target = data()["shown"][name]
        yield from (f"In use: [{target.partition('#')[0]}](../{target}).", "")
        return
    program = example(name)
    if program is not None:
        yield from ("```python", *program.splitlines(), "```", "")
        if "print(" in program or "printf(" in program:
            yield from ("```text", "?", "```", "")


def listed_sections(text: str) -> list[str]:
    """A docstring with the entries of its sections as lists."""
    before, sections = split(text)
    lines = [before.strip()]
    for title, entries in sections.items():
        if title not in ENTRY_SECTIONS:
            lines += ["", *textwrap.wrap(f"**{title}**: {' '.join(entries)}", 118, **UNBROKEN)]
            continue
        lines += ["", f"**{title}**", ""]
        for entry_text in entries:
            entry = re.match(r"((?:\*{0,2}\w+(?:, )?)+|[a-z-]+|\w+): ", entry_text)
            line = f"`{entry[1]}`: {entry_text[entry.end() :]}" if entry else entry_text
            if entry and title == "Raises" and re.fullmatch("[a-z-]+", entry[1]):
                line = f"[`{entry[1]}`](../errors.md#{entry[1]}): {entry_text[entry.end() :]}"
            lines += textwrap.wrap(f"- {line}", 118, subsequent_indent="  ", **UNBROKEN)
    return lines


def _documentation(name: str) -> str:
    """The docstring of a kernel function whose name a host function has too."""
    return documentation(name) if name in PUBLIC else inspect.getdoc(_object(name)) or ""


def _object(name: str) -> Any:
    result: Any = tg
    for part in name.split("."):
        result = getattr(result, part)
    return result


def _parameters(name: str) -> list[str]:
    if name in SPECIAL:
        if name == "print":
            return ["*values", 'sep=" "', r'end="\n"']
        if name == "range":
            return ["start", "stop", "step"]
        arguments = [
            str(p.replace(annotation=p.empty)) for p in inspect.signature(_object(name)).parameters.values()
        ]
        return arguments
    return [re.sub(r": \w+", "", p).replace(" = ", "=") for p in _signature(name)[0]]


def cost(name: str, page: str) -> str:
    """The cost note of a function: the measured cost, or the note of the function's page."""
    row = measured().get(name)
    if row is None:
        return COST.get(page, "See [what tile functions cost](../reference/tile_costs.md).")
    gpu, copy = row["gpu"]["instructions"], row["gpu_copy"]["instructions"]
    times = f"{row['cpu']:.1f} times the CPU time of a copy of its bytes"
    return f"{times}; {gpu} instructions on sm_90a, a copy has {copy} ([how](../reference/tile_costs.md))."


@cache
def measured() -> dict[str, Any]:
    """The costs that benchmarks/tile_ops.py measured, by name."""
    return json.loads(COSTS.read_text(encoding="utf-8"))


def _elsewhere(name: str) -> Iterator[tuple[str, str]]:
    for package, prefix in (("NumPy", "np."), ("Warp", "wp."), ("Triton", "tl.")):
        result = data()["elsewhere"].get(name, {}).get(package.lower())
        if result is None and package == "Warp" and name in data()["warp"]["names"]:
            result = name
        if result:
            yield package, result if result[0] in "@~" or " " in result else prefix + result


def example(name: str) -> str | None:
    """The program of a function's example; None if the function has no example."""
    if name in data()["examples"]:
        return _program(data()["examples"][name])
    result = library().get(name)
    if isinstance(result, CooperativeDef):
        return _example_of_sample(result)
    if isinstance(result, Inplace):
        return _example_of_sample(result.of, result.name)
    return _example_of_numbers(name)


def _program(text: str) -> str:
    """A whole program, expressions of Python (lines that begin with >>>), or the body of a kernel in a launch."""
    text = text.strip()
    if text.startswith(">>>"):
        return "\n".join(f"print({line.removeprefix('>>>').strip()})" for line in text.splitlines())
    if text.startswith("@") or "tg.launch" in text or "import" in text:
        return text
    body = textwrap.indent(text, "    ")
    launch = "tg.launch_tiled(example, 1, block_dim=32)" if "tile" in text else "tg.launch(example, 4)"
    return f"@tg.kernel\ndef example():\n{body}\n\n\n{launch}"


def _example_of_numbers(name: str) -> str | None:
    for arguments in ARGUMENTS:
        try:
            result = _object(name)(*arguments)
        except Exception:
            continue
        if isinstance(result, np.generic | float | int | bool):
            return f"print(tg.{name}({', '.join(map(repr, arguments))}))"
    return None


def _example_of_sample(result: CooperativeDef, called_name: str = "") -> str | None:
    """An example of the smallest sample of a cooperative function with at least four elements."""
    accepted = [s for s in testing.samples(result) if not isinstance(s, Refused) and _is_plain(s)]
    if not accepted:
        return None
    sample = min(accepted, key=lambda s: (_size(s) < 4, _size(s)))
    arguments = testing.arguments(result, sample)
    arrays = {k: x for k, x in arguments.items() if isinstance(x, np.ndarray)}
    lines = [f"{k} = np.array({np.round(x, 2).tolist()}, np.{x.dtype})" for k, x in arrays.items()]
    parameter_texts = ", ".join(f"{k}: tg.array{x.ndim}d[tg.{x.dtype}]" for k, x in arrays.items())
    loads = [f"    {k} = tg.tile_load({k}, shape={x.shape})" for k, x in arrays.items()]
    default = {p.name: p.default for p in result.definition.parameters}
    argument_texts = [
        k if k in arrays else f"{k}={x!r}" for k, x in arguments.items() if k in arrays or x != default[k]
    ]
    call = f"tg.{called_name or result.name}({', '.join(argument_texts)})"
    call_lines = (
        [f"    {call}", f"    print({result.overwritten})"] if called_name else [f"    print({call})"]
    )
    if not called_name and not result.results:
        call_lines = [f"    {call}", f"    print({', '.join(arrays)})"]
    if not called_name and len(result.results) > 1:
        parts = [f"part{k}" for k in range(len(result.results))]
        call_lines = [f"    {', '.join(parts)} = {call}", f"    print({', '.join(parts)})"]
    return "\n".join(
        [
            *lines,
            "",
            "",
            "@tg.kernel",
            f"def example({parameter_texts}):",
            *loads,
            *call_lines,
            "",
            "",
            f"tg.launch_tiled(example, 1, inputs=[{', '.join(arrays)}], block_dim=32)",
        ]
    )


def _is_plain(sample: Any) -> bool:
    """Whether a sample has tiles of finite numbers and arguments that can be written down."""
    values = [*sample.arguments, *sample.named.values()]
    arrays = [x for x in values if isinstance(x, np.ndarray)]
    has_literal_arguments = all(
        isinstance(x, np.ndarray | int | float | str | tuple) or x is None for x in values
    )
    has_short_numbers = all(x.dtype in (np.float32, np.int32) and (np.abs(x) < 1000).all() for x in arrays)
    return bool(arrays) and has_literal_arguments and has_short_numbers


def _size(sample: Any) -> int:
    return sum(x.size for x in (*sample.arguments, *sample.named.values()) if isinstance(x, np.ndarray))


def _index() -> str:
    lines = [
        "# All functions of kernels",
        "",
        "<!-- Written by tools/ops_pages.py. -->",
        "",
        "What is a function called in Tegula, and where is it described? Functions that kernels call, with the names",
        "that NumPy, Warp and Triton use for the same. Functions of the host: [reference of Python]"
        "(../reference/index.md).",
        "",
        "| page | functions |",
        "|---|---|",
        *(f"| [{_title(page)}]({page}.md) | {len(members)} |" for page, members in ops_by_family().items()),
        "",
        "| Tegula | description | NumPy | Warp | Triton |",
        "|---|---|---|---|---|",
    ]
    for name in names():
        sentence = re.match(r"(.*?[.:])(\s|$)", _documentation(name).replace("\n", " "))
        summary = (sentence[1] if sentence else "").rstrip(".:").replace("|", "\\|")
        elsewhere = dict(_elsewhere(name))
        cells = [f"`{elsewhere[x]}`" if x in elsewhere else "" for x in ("NumPy", "Warp", "Triton")]
        link = f"{family(name)}.md#{_anchor(name)}"
        lines.append(f"| [`{name}`]({link}) | {summary} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", "Next: [the forms of the language](forms.md)."]) + "\n"


def without_output(text: str) -> str:
    """A page without the output of its examples, which a run of the examples checks."""
    return re.sub(r"```text\n.*?```", "```text\n```", text, flags=re.DOTALL)


def main() -> None:
    """Write the pages."""
    result = all_pages()
    for path in FOLDER.glob("*.md"):
        if path.name not in result:
            path.unlink()
    for name, text in result.items():
        path = FOLDER / name
        if path.exists() and without_output(path.read_text(encoding="utf-8")) == without_output(text):
            continue
        path.write_text(text, encoding="utf-8")
        page = f"docs/ops/{name}"
        actual = pages.outcome_in_child(page)
        pages.update(page, actual)
        print(*pages.outcome_in_child(page).faults, sep="\n")


if __name__ == "__main__":
    main()
