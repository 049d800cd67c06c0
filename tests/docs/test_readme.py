"""The README explains every dependency."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [
        p for name, packages in project["optional-dependencies"].items() if name != "dev" for p in packages
    ]
    readme = (ROOT / "README.md").read_text()
    table = readme[readme.index("## Dependencies") :]
    names = {re.split(r"[^\w-]", p)[0] for p in (*project["dependencies"], *extras)} - {"tegula"}
    assert names and all(re.search(rf"\| .*\b{name}\b.* \|", table) for name in names), names
