"""Source locations and excerpts."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable

from tegula.dataclass import dataclass, field


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a user's file: 1-based line, 0-based column as Python's ast counts, and where it was inlined.

    `subject`: what stands there, as error messages call it: the name of a called function, or an operator."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""
    caller: Location | None = None
    subject: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    def text(self) -> str:
        """The source line, without its newline; empty where the source is gone."""
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


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """The parsed definition of a Python function."""

    tree: ast.FunctionDef
    file: str
    name: str
    first_line: int
    indent: int

    def location(self, node: ast.AST, caller: Location | None = None) -> Location:
        line = getattr(node, "lineno", 1) + self.first_line - 1
        column = getattr(node, "col_offset", 0) + self.indent
        end = getattr(node, "end_col_offset", column) or column
        same_line = getattr(node, "end_lineno", None) == getattr(node, "lineno", None)
        end = end + self.indent if same_line else len(linecache.getline(self.file, line).rstrip())
        return Location(self.file, line, column, end, self.name, caller, subject_of(node))


_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
    ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not", ast.And: "and", ast.Or: "or", ast.Lt: "<",
    ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip


def subject_of(node: ast.AST) -> str:
    """What a user would call the node: `tile_sum` for `tg.tile_sum(t)`, `'+'` for `a + b`, `'+='` for `a += b`."""
    if isinstance(node, ast.Call):
        return node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    if isinstance(node, ast.Compare):
        return f"'{_OPERATORS[type(node.ops[0])]}'" if type(node.ops[0]) in _OPERATORS else ""
    if isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp):
        return f"'{_OPERATORS[type(node.op)]}'"
    return f"'{_OPERATORS[type(node.op)]}='" if isinstance(node, ast.AugAssign) else ""


def parse_function(function: Callable[..., object], source: str | None = None) -> FunctionSource:
    """Parse a Python function's definition.

    `source` is the text of the definition where Python does not keep it (exec); OSError if it cannot be found."""
    code = function.__code__
    file = code.co_filename
    if source is None:
        lines, first = inspect.getsourcelines(function)
        text = "".join(lines)
    else:
        text, first = source, 1
        file = f"<source of {function.__name__}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    dedented = textwrap.dedent(text)
    stripped = text.split("\n", 1)[0]
    indent = len(stripped) - len(stripped.lstrip())
    for node in ast.parse(dedented).body:
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            return FunctionSource(node, file, function.__name__, first, indent)
    raise OSError(f"the source of {function.__name__} does not hold its definition")
