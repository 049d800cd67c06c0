"""Source locations and excerpts."""

from __future__ import annotations

import ast
import linecache
import os
import time
import tokenize
from collections.abc import Mapping
from typing import Any

from tegula.dataclass import dataclass, field

# A file that changes twice within a tick of the file system's clock keeps its time stamp, so recently changed files are
# read again.
STABLE_NS = 50 * 10**6


class Text:
    """One version of a file or notebook cell: its lines, with newlines. Versions of a file with equal lines are one
    object. `changed_ns`: the time of a file's last change, by the file system's clock."""

    __slots__ = ("changed_ns", "file", "lines")

    def __init__(self, file: str, lines: list[str], changed_ns: int | None = None) -> None:
        self.file = file
        self.lines = lines
        self.changed_ns = changed_ns


_latest: dict[str, tuple[object, Text]] = {}
_versions: dict[str, list[Text]] = {}


def versions(file: str) -> list[Text]:
    """The versions of a file read so far, latest first."""
    return _versions.get(file, [])[::-1]


def current_text(file: str, module: Mapping[str, Any]) -> Text | None:
    """The current text of a file, or the text that Python's linecache has for code that is in no file; None if there is
    none. `module`: the names of the code's module. A file is read again only if it has changed."""
    remembered = linecache.cache.get(file)
    if remembered is not None and len(remembered) == 4 and remembered[1] is None:
        return _latest_version(file, id(remembered[2]), remembered[2])
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        lines = linecache.getlines(file, dict(module) if "__loader__" in module else None)
        return _latest_version(file, None, lines) if lines else None
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_dev, status.st_ino)
    known = _latest.get(file)
    if known is not None and known[0] == stamp:
        return known[1]
    settled = changed < time.time_ns() - STABLE_NS
    try:
        with tokenize.open(file) as stream:
            lines = stream.readlines()
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
    return _latest_version(file, stamp if settled else None, lines, changed)


def _latest_version(file: str, stamp: object, lines: list[str], changed_ns: int | None = None) -> Text:
    """The version of a file with the given lines, which is the latest version until the time stamp changes."""
    known = _versions.setdefault(file, [])
    existing = next((text for text in known if text.lines is lines or text.lines == lines), None)
    if existing is None:
        existing = Text(file, lines, changed_ns)
    else:
        known.remove(existing)
    known.append(existing)
    _latest[file] = (stamp, existing) if stamp is not None else (object(), existing)
    return existing


@dataclass(frozen=True, slots=True)
class Location:
    """A location in a user's file: 1-based line, 0-based column as in Python's ast, and the call site of inlined code.

    `subject`: the name of the called function or the operator at the location, for error messages. `written`: the
    compiled text, from which the current file may differ."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""
    caller: Location | None = None
    subject: str = field(default="", compare=False)
    written: Text | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    def text(self) -> str:
        """The source line, without its newline; empty if the source is not available."""
        if self.written is not None:
            return line_of(self.written, self.line)
        return linecache.getline(self.file, self.line).rstrip("\n")

    def chain(self) -> list[Location]:
        """This location and the call sites it was inlined at, innermost first."""
        out: list[Location] = []
        at: Location | None = self
        while at is not None:
            out.append(at)
            at = at.caller
        return out


UNKNOWN = Location("<unknown>", 0)


def line_of(text: Text, line: int) -> str:
    """The line with a 1-based number, without its newline; "" for a number out of range."""
    return text.lines[line - 1].rstrip("\n") if 0 < line <= len(text.lines) else ""


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """The parsed definition of a Python function. Line n of the tree is line n + `above` of the text."""

    tree: ast.FunctionDef
    text: Text
    name: str
    above: int

    @property
    def file(self) -> str:
        """The file that the function is in."""
        return self.text.file

    def location(self, node: ast.AST, caller: Location | None = None) -> Location:
        """The location of a node of the function in its file."""
        line = getattr(node, "lineno", 1) + self.above
        column = getattr(node, "col_offset", 0)
        end = getattr(node, "end_col_offset", column) or column
        if getattr(node, "end_lineno", None) != getattr(node, "lineno", None):
            end = len(line_of(self.text, line).rstrip())
        return Location(self.file, line, column, end, self.name, caller, subject_of(node), self.text)


_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not", ast.And: "and", ast.Or: "or", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def subject_of(node: ast.AST) -> str:
    """The name of a node in messages: `tile_sum` for `tg.tile_sum(t)`, `'+'` for `a + b`, `'+='` for `a += b`."""
    if isinstance(node, ast.Call):
        f = node.func
        return f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else ast.unparse(f)
    if isinstance(node, ast.Compare):
        return f"'{_OPERATORS[type(node.ops[0])]}'" if type(node.ops[0]) in _OPERATORS else ""
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.BoolOp)):
        return f"'{_OPERATORS[type(node.op)]}'"
    return f"'{_OPERATORS[type(node.op)]}='" if isinstance(node, ast.AugAssign) else ""
