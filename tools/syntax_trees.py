"""Syntax trees of source files. Every file is parsed once in a process, however many checks read its tree."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, which must not be changed."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))
