"""The examples of the pages run in order, as in a notebook."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"


PAGES = [
    ("language", 10),
    ("arrays", 5),
    ("cooperative", 5),
    ("roles", 5),
    ("checker", 1),
    ("tuning", 3),
    ("schedules", 3),
]


@pytest.mark.machine_code(some=True)
@pytest.mark.parametrize(("page", "least"), PAGES)
def test_examples(page: str, least: int) -> None:
    names: dict[str, Any] = {"__name__": page}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.S)
    assert len(blocks) > least
    for k, text in enumerate(blocks):
        cell = f"<{page}.md example {k}>"
        linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
        exec(compile(text, cell, "exec"), names)
