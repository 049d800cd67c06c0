"""Counts the op classes that each file tests for by name; writes tests/op_classes.json, whose numbers may only fall.

Usage: python tools/op_classes.py

A file tests for a class in `isinstance`, in a comparison, as a key of a table or of a rule, or in a constant tuple of
classes. The class's own file, builders of ops, the event table (ops/events.py), code generation and the interpreter may
do so; other files should use an interface (src/tegula/ir/interfaces.py) or a property of the op. Files whose number has
grown are printed and keep their old number; if there is no JSON file, all numbers are written."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from syntax_trees import tree_of

from tegula.ops import REGISTRY

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tegula"
COUNTS_FILE = ROOT / "tests" / "op_classes.json"
FREE = ("codegen/", "interp/", "ops/build", "ops/events.py")
CLASSES = {
    (cls.__module__, cls.__name__) for cls in REGISTRY.values() if cls.__module__.startswith("tegula.ops.")
}


def tested_classes(name: str, tree: ast.Module) -> set[str]:
    """The op classes that a file tests for and does not define. `name`: its path in the source folder."""
    imported = dict(_imported(tree))
    named = (
        _resolved(node, imported) for expression in _tested_expressions(tree) for node in _members(expression)
    )
    own_module = "tegula." + name.removesuffix(".py").replace("/", ".")
    return {cls for module, cls in CLASSES.intersection(named) if module != own_module}


def counts() -> dict[str, int]:
    """The number of classes that each file tests for; files that test for none, or may test for any, are left out."""
    by_file: dict[str, int] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        number = 0 if name.startswith(FREE) else len(tested_classes(name, tree_of(path)))
        if number:
            by_file[name] = number
    return by_file


def recorded_counts() -> dict[str, int]:
    return json.loads(COUNTS_FILE.read_text(encoding="utf-8"))


def grown_counts(now: dict[str, int], before: dict[str, int]) -> list[str]:
    """The files that test for more classes than before."""
    return [f"{name}: {n}, not {before.get(name, 0)}" for name, n in now.items() if n > before.get(name, 0)]


def _imported(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each imported name with its module and its name there, which is empty for a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                module = f"{node.module}.{alias.name}" if node.module == "tegula.ops" else node.module
                imported = "" if node.module == "tegula.ops" else alias.name
                yield alias.asname or alias.name, (module, imported)


def _resolved(node: ast.expr, imported: dict[str, tuple[str, str]]) -> tuple[str, str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return imported.get(node.value.id, ("", ""))[0], node.attr
    return imported.get(node.id, ("", "")) if isinstance(node, ast.Name) else ("", "")


def _tested_expressions(tree: ast.Module) -> Iterator[ast.expr]:
    """The expressions that classes are tested in."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            yield from node.args[1:]
        elif isinstance(node, ast.Compare):
            yield from node.comparators
        elif isinstance(node, ast.Dict):
            yield from filter(None, node.keys)
        elif isinstance(node, ast.FunctionDef):
            yield from (x for rule in node.decorator_list if isinstance(rule, ast.Call) for x in rule.args)
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            yield node.value


def _members(node: ast.expr) -> Iterator[ast.expr]:
    """The classes of an expression: one, or the elements of a tuple, list or set."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        for element in node.elts:
            yield from _members(element)
    elif isinstance(node, ast.Starred):
        yield from _members(node.value)
    elif isinstance(node, ast.BinOp):
        yield from (*_members(node.left), *_members(node.right))
    elif isinstance(node, ast.Call):
        for argument in node.args:
            yield from _members(argument)
    else:
        yield node


def main() -> int:
    now = counts()
    before = recorded_counts() if COUNTS_FILE.exists() else now
    lowered_counts = {name: min(n, before[name]) for name, n in now.items() if name in before}
    COUNTS_FILE.write_text(json.dumps(lowered_counts, indent=2) + "\n", encoding="utf-8")
    grown_files = grown_counts(now, before)
    print(f"{sum(lowered_counts.values())} classes in {len(lowered_counts)} files", *grown_files, sep="\n")
    return 1 if grown_files else 0


if __name__ == "__main__":
    sys.exit(main())
