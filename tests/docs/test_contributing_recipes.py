"""The recipes of CONTRIBUTING.md: their files equal the files in the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
RECIPES = re.findall(
    r"```diff\n--- /dev/null\n\+\+\+ b/(\S+)\n@@ -0,0 \+1,(\d+) @@\n(.*?)```",
    (ROOT / "CONTRIBUTING.md").read_text(),
    re.S,
)


GENERATORS = {"tile_families.py", "smooth_families.py"}
"""Files that generate programs with functions of the library."""


def test_recipes_exist_for_both_kinds_of_functions() -> None:
    assert [path for path, _, _ in RECIPES] == [
        "src/tegula/stdlib/tiles/median.py",
        "src/tegula/stdlib/softsign.py",
    ]


@pytest.mark.parametrize(("path", "count", "lines"), RECIPES)
def test_a_recipe_is_the_whole_file(path: str, count: str, lines: str) -> None:
    text = "".join(line.removeprefix("+") for line in lines.splitlines(keepends=True))
    assert (ROOT / path).read_text() == text and len(text.splitlines()) == int(count)


@pytest.mark.parametrize("path", [path for path, _, _ in RECIPES])
def test_no_other_source_names_the_additions_of_a_recipe(path: str) -> None:
    """One file is enough: no other source file or test names the function, but for generators of programs."""
    name = {"median": "tile_median", "softsign": "softsign"}[Path(path).stem]
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    mentions = {f for f in files if re.search(rf"\b{name}\b", f.read_text(encoding="utf-8"))}
    assert {f for f in mentions if f.name not in GENERATORS} == {ROOT / path, Path(__file__)}
