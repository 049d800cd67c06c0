"""The program of each documented difference from Warp has the result on the page."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
OUT_OF_SCOPE = {
    "queries of meshes, volumes and textures are not in the language",
    "asks for internals of the package, its libraries or its generated source",
    "replaces functions of the package's library",
    "reads the package's memory by address",
}
"""Reasons that are not differences in the meaning of programs."""


def page_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("differences_page", ROOT / "tools" / "differences_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = page_tool()
DIFFERENCES: list[dict[str, Any]] = TOOL.differences()


@pytest.mark.parametrize("difference", DIFFERENCES, ids=[each["title"] for each in DIFFERENCES])
def test_each_difference_is_shown_by_an_assertion(difference: dict[str, Any]) -> None:
    """The page's blocks are run by test_pages.py."""
    assert "assert" in difference["program"]


def test_the_page_of_differences_is_generated_from_the_data() -> None:
    assert TOOL.PAGE.read_text() == TOOL.page()


def test_every_reason_to_exclude_a_public_test_is_listed() -> None:
    lines = (ROOT / "tests" / "compat" / "excluded.txt").read_text().splitlines()
    reasons = {line.partition(": ")[2] for line in lines if not line.startswith("#")}
    listed = [reason for difference in DIFFERENCES for reason in difference.get("tests", ())]
    assert sorted(listed) == sorted(reasons - OUT_OF_SCOPE)
