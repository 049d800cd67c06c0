"""Recipes are short, and the index of the cookbook names all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.tool_modules import tool

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook"
PAGES = [p.name for p in sorted(COOKBOOK.glob("*.md")) if p.name != "index.md"]
LINES = 20


@pytest.mark.parametrize("page", PAGES)
def test_recipes_are_short_and_in_the_index(page: str) -> None:
    index = (COOKBOOK / "index.md").read_text(encoding="utf-8")
    _, *recipes = re.split(r"^## ", (COOKBOOK / page).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert recipes
    for recipe in recipes:
        title = recipe.splitlines()[0]
        anchor = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
        assert f"({page}#{anchor})" in index, title
        code = [block.text for block in tool("pages").blocks(recipe) if block.kind.startswith("python")]
        assert code and all(len(text.splitlines()) <= LINES for text in code), title
