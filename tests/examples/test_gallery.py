"""Examples are short, and take the options that docs/gallery.md promises."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(p.stem for p in EXAMPLES.glob("*.py") if "import show" in p.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_runs_by_its_name(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) < 120
    assert f"python examples/{name}.py [--device cuda:0] [--size " in ast.get_docstring(ast.parse(text))
