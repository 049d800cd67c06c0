"""Each public name is on a page of the reference, with an example that runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tegula as tg
from support.tool_modules import tool
from tegula.ops import PUBLIC
from tegula.ops.documented import documentation

OPS, HOST, CONSTRUCTS = tool("ops_pages"), tool("host_pages"), tool("constructs_page")
FIGURES, SWITCHES = tool("figures"), tool("configuration_page")
ROOT: Path = OPS.ROOT


def test_every_public_name_is_on_a_page() -> None:
    names = {name for name in dir(tg) if not name.startswith("__")}
    assert names - HOST.documented_names() == set()
    assert [name for name in names if name.startswith("_")] == []


def test_every_function_of_kernels_has_an_example_that_calls_the_function() -> None:
    without_example = []
    for name in OPS.names():
        example = OPS.data()["shown"].get(name, "").partition("#")[0]
        text = (ROOT / "docs" / example).read_text(encoding="utf-8") if example else OPS.example(name) or ""
        if not re.search(rf"\b{re.escape(name)}\(", text):
            without_example.append(name)
    assert without_example == [], "add examples to docs/ops/examples.toml"


def test_pages_of_kernels_have_the_docstrings_of_kernels() -> None:
    """Functions of the host with the same name have other docstrings."""
    for page, functions in OPS.ops_by_family().items():
        text = OPS.all_pages()[f"{page}.md"]
        for name in (name for name in functions if name in PUBLIC):
            first = documentation(name).partition("\n\n")[0]
            assert first in text.partition(f"\n## {name}\n")[2].partition("\n## ")[0], name


def test_examples_and_names_in_other_libraries_belong_to_functions() -> None:
    data = OPS.data()
    documented = {*OPS.names()}
    for table in (data["examples"], data["elsewhere"], data["shown"], data["warp"]["names"]):
        assert {*table} - documented == set()


def test_names_in_numpy_exist() -> None:
    import numpy as np

    for name, entry in OPS.data()["elsewhere"].items():
        value = np
        for part in entry.get("numpy", "").split(".") if entry.get("numpy") else ():
            value = getattr(value, part, None)
        assert value is not None or entry["numpy"] == "bitwise_count", name


def test_pages_of_kernels_are_up_to_date() -> None:
    """`python tools/ops_pages.py` writes them."""
    for page, text in OPS.all_pages().items():
        actual = (OPS.FOLDER / page).read_text(encoding="utf-8")
        assert OPS.without_output(actual) == OPS.without_output(text), page


def test_pages_of_the_host_are_up_to_date() -> None:
    """`python tools/host_pages.py` writes them."""
    for page, text in HOST.all_pages().items():
        assert (HOST.FOLDER / page).read_text(encoding="utf-8") == text, page


def test_supported_and_refused_constructs_match_the_page() -> None:
    """`python tools/constructs_page.py` writes it."""
    assert CONSTRUCTS.PAGE.read_text(encoding="utf-8") == CONSTRUCTS.page()


@pytest.mark.parametrize("page", FIGURES.PAGES)
def test_figures_equal_the_measurements(page: str) -> None:
    """`python tools/figures.py` writes them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert FIGURES.TABLE.search(text) and FIGURES.with_tables(text) == text


@pytest.mark.parametrize("page", ["configuration.md", "cli.md"])
def test_switches_and_commands_exist_in_the_code(page: str) -> None:
    """`python tools/configuration_page.py` writes them."""
    assert (ROOT / "docs" / page).read_text(encoding="utf-8") == SWITCHES.all_pages()[page]


def test_every_environment_variable_is_on_the_page() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    source = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "src" / "tegula").rglob("*.py"))
    read = set(re.findall(r"environ(?:\.get)?[\[(]\"(\w+)\"", source))
    assert read and {name for name in read - {"PYTHONPATH"} if f"`{name}`" not in page} == set()
