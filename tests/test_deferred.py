"""Functions whose modules are loaded when the functions are first called."""

from __future__ import annotations

import ast
import builtins
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from support.tool_modules import tool
from tegula.deferred import DeferredFunction, deferred_imports

SOURCE = Path(__file__).parent.parent / "src" / "tegula"

with deferred_imports():
    from colorsys import hsv_to_rgb, rgb_to_hsv
    from colorsys import rgb_to_yiq as converted


def test_a_deferred_function_replaces_itself_when_it_is_called() -> None:
    table = {"to_hsv": rgb_to_hsv}
    assert all(isinstance(f, DeferredFunction) for f in (hsv_to_rgb, rgb_to_hsv, converted))
    assert (rgb_to_hsv.__module__, rgb_to_hsv.__name__) == ("colorsys", "rgb_to_hsv")
    assert table["to_hsv"](0, 0, 4) == (2 / 3, 1, 4)
    assert isinstance(rgb_to_hsv, FunctionType)
    assert table["to_hsv"](0, 0, b=4) == (2 / 3, 1, 4)
    assert converted(0, 0, 0) == (0, 0, 0) and isinstance(converted, FunctionType)
    assert isinstance(hsv_to_rgb, DeferredFunction)


def test_only_the_imports_of_a_block_are_deferred() -> None:
    """Not those of functions that run in the meantime, on any thread."""
    other: dict[str, Any] = {"imported": []}
    exec("def import_here():\n from textwrap import dedent\n imported.append(dedent)", other)
    before = builtins.__import__
    with deferred_imports():
        other["import_here"]()
        thread = threading.Thread(target=other["import_here"])
        thread.start()
        thread.join()
    assert [type(x) for x in other["imported"]] == [FunctionType] * 2
    assert builtins.__import__ is before
    with pytest.raises(ZeroDivisionError), deferred_imports():
        raise ZeroDivisionError
    assert builtins.__import__ is before


def test_a_block_refuses_imports_of_modules() -> None:
    with pytest.raises(AssertionError, match="import functions of textwrap by name"):
        exec("with deferred_imports():\n import textwrap", {"deferred_imports": deferred_imports})


def deferred(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """The module, the name there and the name here of each deferred import of a file."""
    for block in tree.body:
        if isinstance(block, ast.With) and "deferred_imports" in ast.unparse(block.items[0]):
            for statement in block.body:
                assert isinstance(statement, ast.ImportFrom) and statement.module
                for alias in statement.names:
                    yield statement.module, alias.name, alias.asname or alias.name


def other_uses(tree: ast.Module, names: set[str]) -> list[str]:
    """The names that a file uses otherwise than as functions: in tests of classes or for an attribute, where a
    placeholder would differ from what it stands for."""
    uses: list[str] = []
    tests = ("isinstance", "issubclass")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in tests:
            inner = list(ast.walk(node))
        elif isinstance(node, ast.Attribute | ast.Compare | ast.BinOp | ast.ClassDef | ast.MatchClass):
            inner = list(ast.iter_child_nodes(node))
        else:
            continue
        uses += [f"{x.id}, line {x.lineno}" for x in inner if isinstance(x, ast.Name) and x.id in names]
    return sorted(uses)


FILES = {
    path.relative_to(SOURCE).as_posix(): names
    for path in sorted(SOURCE.rglob("*.py"))
    if (names := list(deferred(tool("syntax_trees").tree_of(path))))
}


@pytest.mark.parametrize("file", FILES)
def test_deferred_names_exist_and_are_used_as_functions(file: str) -> None:
    for module, name, _ in FILES[file]:
        assert callable(getattr(import_module(module), name)), f"{module}.{name}"
    tree = tool("syntax_trees").tree_of(SOURCE / file)
    assert other_uses(tree, {here for _, _, here in FILES[file]}) == []


def test_uses_that_need_the_object_itself_are_reported() -> None:
    text = "isinstance(x, A)\nA.y\nx is A\nclass C(A): pass\nA(1)\ntable = {1: A}\nf(A)"
    assert other_uses(ast.parse(text), {"A"}) == ["A, line 1", "A, line 2", "A, line 3", "A, line 4"]


def test_forks_wait_for_blocks_of_other_threads() -> None:
    program = (
        "import os, signal, threading\n"
        "from tegula import deferred\n"
        "from tegula.backend import tools\n"
        "held, release = threading.Event(), threading.Event()\n"
        "def hold(lock):\n"
        "    with lock:\n"
        "        held.set()\n"
        "        release.wait(1)\n"
        "for lock in (deferred._block, tools._computing):\n"
        "    held.clear()\n"
        "    release.clear()\n"
        "    threading.Thread(target=hold, args=(lock,)).start()\n"
        "    held.wait()\n"
        "    threading.Timer(0.1, release.set).start()\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        signal.alarm(10)\n"
        "        os._exit(7 if lock.acquire(timeout=5) else 1)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert completed.stdout.split() == ["7", "7"], completed.stderr
