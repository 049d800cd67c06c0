"""tools/planted_faults.py: faults of one line, determined by their number, and the tests that catch them."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "planted_faults.py"
TEXT = '''"""Doc of 3."""
if TYPE_CHECKING:
    from a import b

def f(x: Literal[5], y):
    assert x < 5, f"{x + 1} is not"
    if x and not y:
        g(
            x,
        )
    z.a = x if é_or(x) else 7  # a number
    return x <= y
'''
FAULTS = {
    ("branch dropped", 7, "if False:"),
    ("and for or", 7, "if (x or not y):"),
    ("negation dropped", 7, "if x and (y):"),
    ("statement dropped", 8, "pass"),
    ("statement dropped", 11, "pass  # a number"),
    ("branch dropped", 11, "z.a = (x)  # a number"),
    ("branch dropped", 11, "z.a = (7)  # a number"),
    ("constant changed", 11, "z.a = x if é_or(x) else (8)  # a number"),
    ("constant changed", 11, "z.a = x if é_or(x) else (6)  # a number"),
    ("comparison changed", 12, "return (x < y)"),
    ("comparison changed", 12, "return (x > y)"),
}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(TOOL.parent)
    spec = importlib.util.spec_from_file_location("planted_faults", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "planted_faults", module)
    spec.loader.exec_module(module)
    return module


def test_planted_faults_of_a_text_are_listed(tool: Any) -> None:
    changes = set()
    for kind, candidate in tool.mutation_sites("a.py", TEXT):
        for instead in candidate.replacements:
            text = tool.replaced(TEXT, candidate, instead)
            ast.parse(text)
            assert len(text.splitlines()) == len(TEXT.splitlines())
            changes.add((kind, candidate.line + 1, text.splitlines()[candidate.line].strip()))
    assert changes == FAULTS


def test_probes_are_at_the_lines_of_planted_faults(tool: Any) -> None:
    """The instrumented text has the same results, and records the executed probes."""
    text = """
def f(x):
    if x > 1 and not x < 0:
        found.append(
            x,
        )
    match x:
        case 3:
            return x == 3
    return False
"""
    by_number = dict(enumerate(tool.mutation_sites("a.py", text)))
    probed = tool.with_probes(
        text, {n: (candidate.span, candidate.is_statement) for n, (_, candidate) in by_number.items()}
    )
    reached_numbers: set[int] = set()
    names: dict[str, Any] = {"__reached__": reached_numbers.add, "found": []}
    exec(probed, names)
    assert names["f"](0) is False and names["found"] == []
    lines = {by_number[n][1].line for n in reached_numbers}
    assert lines == {2, 9}
    assert names["f"](3) is True and names["found"] == [3]
    assert {by_number[n][1].line for n in reached_numbers} == {2, 3, 8, 9}


def test_a_number_selects_one_planted_fault(tool: Any) -> None:
    results = [tool.fault(TOOL.parent.parent / "src" / "tegula" / "interp", 3, 7) for _ in range(2)]
    assert results[0] == results[1] and results[0].before != results[0].after


def test_a_failing_test_catches_a_planted_fault(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test that fails with a fault catches it; afterwards the file is restored."""
    source = tmp_path / "src" / "tegula"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text("limit = 3\n")
    (tmp_path / "test_a.py").write_text(
        f"import sys\nsys.path[:0] = [{str(tmp_path / 'src')!r}]\nimport tegula\n"
        "def test_type(): assert type(tegula.limit) is int\ndef test_value(): assert tegula.limit == 3\n"
    )
    monkeypatch.setattr(tool.Checkout, "__init__", lambda self, path: setattr(self, "path", path))
    checkout = tool.Checkout(tmp_path)
    planted = tool.Fault(0, "__init__.py", 1, "constant changed", "limit = 3", "limit = (4)", "limit = (4)\n")
    assert (
        checkout.judged(planted, [["test_a.py", "-k", "type"], ["test_a.py"]], 60) == "test_a.py::test_value"
    )
    assert checkout.judged(planted, [["test_a.py", "-k", "type"]], 60) == ""
    assert (source / "__init__.py").read_text() == "limit = 3\n"
