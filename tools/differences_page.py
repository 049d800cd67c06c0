"""Writes docs/differences.md from docs/differences.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
DATA, PAGE = DOCS / "differences.toml", DOCS / "differences.md"
INTRODUCTION = """# Differences from Warp

<!-- Written by tools/differences_page.py from docs/differences.toml. -->

A kernel of tiles that runs in NVIDIA Warp 1.19 runs in Tegula with the import changed. This is where the result differs
on purpose. Each program is run by the tests of this documentation; they begin with

```python
import numpy as np
import tegula as tg
```
"""


def differences() -> list[dict[str, Any]]:
    """The differences, in the order of the file."""
    return tomllib.loads(DATA.read_text())["difference"]


def page() -> str:
    """The text of the page, by topic."""
    lines = [INTRODUCTION]
    for topic in dict.fromkeys(each["topic"] for each in differences()):
        lines.append(f"\n## {topic}\n")
        for each in (one for one in differences() if one["topic"] == topic):
            lines.append(f"\n**{each['title']}.** There: {each['there']}. Here: {each['here']}.\n")
            lines.append(f"\n```python\n{each['program'].strip()}\n```\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page())
