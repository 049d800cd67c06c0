"""The examples of docs/interop.md run in order, as in a notebook."""

from __future__ import annotations

import linecache
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "interop.md"


@pytest.mark.machine_code
def test_examples() -> None:
    names: dict[str, Any] = {"__name__": "interop"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 4
    for k, text in enumerate(blocks):
        cell = f"<interop.md example {k}>"
        linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
        exec(compile(text, cell, "exec"), names)
