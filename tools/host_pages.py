"""Writes docs/reference/: the reference of the functions and classes of the host, from signatures and docstrings.

Usage: python tools/host_pages.py"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from docstrings import DocumentedObject, host_functions
from ops_pages import ROOT, listed_sections, names

import tegula as tg
from tegula import api, errors
from tegula.types import DTYPES, NAMED_ELEMENTS

FOLDER = ROOT / "docs" / "reference"

TOPICS: dict[str, tuple[str, str, str]] = {
    "kernels": (
        "Kernels and launches",
        "How do I define, launch, tune and inspect kernels?",
        "kernel func func_grad func_native func_replay launch launch_tiled Launch Kernel struct constexpr InOut "
        "overload exec DifferingOperand autotune launch_key over_batches map cooperative Sample Refused Extent Extents "
        "Element Key Real Asked Dtypes adjoint Module get_module load_module force_load get_module_options "
        "set_module_options init config tile",
    ),
    "arrays": (
        "Arrays",
        "How do I make, convert, copy and view arrays?",
        "array array1d array2d array3d array4d indexedarray indexedarray1d indexedarray2d indexedarray3d "
        "indexedarray4d "
        "zeros ones full empty zeros_like ones_like full_like empty_like clone copy from_numpy from_ptr from_dlpack "
        "to_dlpack dtype_from_numpy dtype_to_numpy",
    ),
    "devices": (
        "Devices, streams and graphs",
        "Where does a kernel run, in which order, and how long does it take?",
        "Device get_device set_device get_devices get_preferred_device get_cuda_device get_cuda_devices "
        "get_cuda_device_count is_cpu_available is_cuda_available is_device_available ScopedDevice synchronize "
        "synchronize_device Stream get_stream set_stream ScopedStream synchronize_stream wait_stream Event "
        "record_event "
        "wait_event synchronize_event get_event_elapsed_time Graph ScopedCapture capture_begin capture_end "
        "capture_launch capture_if capture_while ScopedTimer ScopedLogLevel get_suggested_block_size",
    ),
    "gradients": (
        "Gradients and optimisers",
        "How do I differentiate launches and check gradients?",
        "Tape gradcheck GradientMismatch autograd optim",
    ),
    "libraries": (
        "PyTorch and JAX",
        "How do kernels become functions of other libraries?",
        "torch jax from_torch to_torch dtype_from_torch dtype_to_torch device_to_torch stream_from_torch "
        "stream_to_torch from_jax to_jax dtype_from_jax dtype_to_jax",
    ),
    "spatial": (
        "Spatial structures",
        "How do I find nearby objects in kernels?",
        "Bvh BvhQuery BvhQueryTiled HashGrid HashGridQuery Mesh MeshQuery MeshQueryAABB MeshQueryAABBTiled "
        "MeshQueryPoint MeshQueryRay bvh_overlaps is_cubql_available",
    ),
    "algorithms": (
        "Algorithms, kernels of the library and testing",
        "Which functions process whole arrays?",
        "algorithms kernels testing utils",
    ),
    "others": ("Other classes and functions", "Which other names are public?", ""),
    "types": ("Types and constants", "Which dtypes, vectors, matrices and constants are there?", "types"),
}
"""Pages: the title, the reader's question, and the names (for modules: all their names) on the page."""
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
INTERNAL = ("DType", "VecType", "MatType", "PublicNamespace", "StackFunction")
"""Classes of the docstring tool whose objects have public names of their own."""


def topic(name: str) -> str | None:
    """The page of a public name; None for names that only pages of docs/ops have. Names that are not listed are on a
    page of their own."""
    main_name = name.partition(".")[0]
    page_of_name = next(
        (page for page, (*_, members) in TOPICS.items() if main_name in members.split()), None
    )
    if main_name in INTERNAL or (page_of_name is None and main_name in names()):
        return None
    return page_of_name or "others"


@cache
def entries() -> dict[str, list[DocumentedObject]]:
    """The documented functions, classes and methods on each page."""
    by_page: dict[str, list[DocumentedObject]] = {page: [] for page in TOPICS}
    for function in host_functions():
        page = topic(function.name)
        if page is not None:
            by_page[page].append(function)
    for functions in by_page.values():
        functions.sort(key=lambda function: (function.name.lower(), function.name))
    return by_page


@cache
def undocumented_names() -> dict[str, list[str]]:
    """The public names without a docstring of sections, by page: types, constants, modules, annotations."""
    documented = {
        function.name.partition(".")[0] for functions in entries().values() for function in functions
    }
    elsewhere = {*names(), *(name.partition(".")[0] for name in names())}
    by_page: dict[str, list[str]] = {page: [] for page in TOPICS}
    for name in api.public_names():
        value = api.NAMES.get(name)
        is_type = (
            name in DTYPES or name in NAMED_ELEMENTS or name == "bool_" or isinstance(value, int | float)
        )
        if is_type:
            by_page["types"].append(name)
        elif name not in documented and name not in elsewhere and not _is_error(value):
            page = topic(name)
            if page is not None:
                by_page[page].append(name)
    return by_page


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and value.__module__ == errors.__name__ and f"`{value.__name__}`" in ERRORS


def documented_names() -> set[str]:
    """All public names that are on a page: of this tool, of docs/ops, or, for errors, of docs/errors.md."""
    documented = {
        function.name.partition(".")[0] for functions in entries().values() for function in functions
    }
    documented |= {name for functions in undocumented_names().values() for name in functions}
    documented |= {name.partition(".")[0] for name in names()}
    return documented | {name for name in api.public_names() if _is_error(api.NAMES.get(name))} | {"utils"}


@cache
def all_pages() -> dict[str, str]:
    """The texts of the pages by file name."""
    return {"index.md": _index(), **{f"{page}.md": _page(page) for page in _pages()}}


def _pages() -> list[str]:
    return [page for page in TOPICS if entries()[page] or undocumented_names()[page]]


def _page(page: str) -> str:
    title, question, _ = TOPICS[page]
    following = [*_pages(), "index"][_pages().index(page) + 1]
    lines = [f"# {title}", "", "<!-- Written by tools/host_pages.py. -->", "", question, ""]
    lines += _names_table(page)
    for function in entries()[page]:
        lines += _section(function)
    return "\n".join([*lines, f"Next: [{_title(following)}]({following}.md)."]) + "\n"


def _title(page: str) -> str:
    return "all names" if page == "index" else TOPICS[page][0]


def _section(function: DocumentedObject) -> Iterator[str]:
    yield from (
        f"{'###' if _is_method(function) else '##'} {_displayed_name(function.name)}",
        "",
        f"`{_signature(function)}`",
        "",
    )
    yield from listed_sections(inspect.cleandoc(function.text))
    yield ""


def _is_method(function: DocumentedObject) -> bool:
    main_name, _, rest = function.name.partition(".")
    return (
        bool(rest)
        and main_name not in api.MODULES
        and main_name not in ("algorithms", "torch", "jax")
        or "." in rest
    )


def _displayed_name(name: str) -> str:
    return name.replace("algorithms.", "utils.", 1)


def _signature(function: DocumentedObject) -> str:
    result: Any = tg
    try:
        for part in _displayed_name(function.name).split("."):
            result = getattr(result, part)
        parameters = [
            str(p.replace(annotation=p.empty)) for p in inspect.signature(result).parameters.values()
        ]
    except (AttributeError, ValueError, TypeError):
        parameters = [*function.parameters]
    arguments = ", ".join(p for p in parameters if p != "self")
    return (
        f"tg.{_displayed_name(function.name)}({arguments})"
        if not _is_method(function)
        else f"{_displayed_name(function.name).rpartition('.')[2]}({arguments})"
    )


def _names_table(page: str) -> Iterator[str]:
    """A table of names that are not functions."""
    page_names = undocumented_names()[page]
    if page == "types":
        yield from _types(page_names)
        return
    if page_names:
        yield from ("| name | meaning |", "|---|---|")
    for name in page_names:
        text = " ".join((inspect.getdoc(getattr(tg, name)) or "").split("\n\n")[0].split()).replace(
            "|", "\\|"
        )
        yield f"| `tg.{name}` | {text} |"
    if page_names:
        yield ""


def _types(type_names: list[str]) -> Iterator[str]:
    yield "Scalar types; Python's `float`, `int` and `bool` mean float32, int32 and bool in kernels:"
    yield ""
    yield from ("| name | bytes | NumPy |", "|---|---|---|")
    for name in (n for n in type_names if n in DTYPES or n == "bool_"):
        dtype = api.NAMES[name]
        yield f"| `tg.{name}` | {max(dtype.bits // 8, 1)} | `{np.dtype(tg.dtype_to_numpy(dtype))}` |"
    yield from ("", "Vectors, matrices, quaternions and transforms, by the type of their components:", "")
    yield from ("| name | components | of |", "|---|---|---|")
    for name in (n for n in type_names if n in NAMED_ELEMENTS):
        result = api.NAMES[name]()
        yield f"| `tg.{name}` | {' x '.join(map(str, result.shape))} | {np_name(result)} |"
    yield from ("", "Constants:", "", "| name | value |", "|---|---|")
    for name in (n for n in type_names if isinstance(api.NAMES.get(n), int | float)):
        yield f"| `tg.{name}` | {api.NAMES[name]!r} |"
    yield ""
    yield from ("`tg.vector(n, dtype)` and `tg.matrix((rows, columns), dtype)` are types of other sizes.", "")


def np_name(value: Any) -> str:
    """The dtype of a small value's components."""
    return str(np.asarray(value).dtype)


def _index() -> str:
    lines = [
        "# Reference of what Python calls",
        "",
        "<!-- Written by tools/host_pages.py. -->",
        "",
        "Where is a class or function of the host described? What kernels call is in [the reference of kernels]"
        "(../ops/index.md), exceptions in [errors](../errors.md).",
        "",
        "| name | page |",
        "|---|---|",
    ]
    for page in _pages():
        entries_shown = [
            (_displayed_name(function.name), function.name)
            for function in entries()[page]
            if not _is_method(function)
        ]
        for name, _ in entries_shown:
            lines.append(f"| [`tg.{name}`]({page}.md#{name.replace('.', '').lower()}) | {_title(page)} |")
        for name in undocumented_names()[page] if page != "types" else ():
            lines.append(f"| [`tg.{name}`]({page}.md) | {_title(page)} |")
    lines += ["| [dtypes, vectors, matrices, constants](types.md) | Types and constants |", ""]
    lines += [
        "Also generated: [tile functions by declaration](cooperative.md), [their costs](tile_costs.md)."
    ]
    lines += ["", "Next: [kernels and launches](kernels.md)."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the pages."""
    for name, text in all_pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
