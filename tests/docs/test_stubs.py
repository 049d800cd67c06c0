"""The stub of the package has the names that the package has."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path
from typing import Any

import pytest

import tegula as tg
from tegula.api import LAZY

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "stubs.py"))


def test_it_is_what_the_declarations_say(tool: dict[str, Any]) -> None:
    """`python tools/stubs.py` writes it."""
    assert tool["PAGE"].read_text(encoding="utf-8") == tool["stub"]()


def test_its_names_are_there(tool: dict[str, Any]) -> None:
    tree = ast.parse(tool["stub"]())
    names = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)} - {
        "__getattr__",
        "tid",
    }
    names |= {a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names} - {
        "Any"
    }
    assert names >= {
        "tile_cholesky",
        "tile_cholesky_inplace",
        "tile_sort",
        "exp",
        "tile_load",
        "launch",
        "fast",
    }
    # Functions for tensors of PyTorch and arrays of JAX are there where these packages are.
    elsewhere = {name for name, module in LAZY.items() if module in ("tegula.torch", "tegula.jax")}
    assert not [name for name in names - elsewhere if name != "fast" and not hasattr(tg, name)]
    (cholesky,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "tile_cholesky")
    assert ast.unparse(cholesky.args) == "a: Any, fill_mode: str='lower'"
