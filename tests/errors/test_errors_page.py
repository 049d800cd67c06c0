"""docs/errors.md shows every error as it is printed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent.parent


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("errors_page", ROOT / "tools" / "errors_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_errors_is_up_to_date() -> None:
    assert (ROOT / "docs" / "errors.md").read_text() == tool().page()
