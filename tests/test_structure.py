"""The shape of the source: which part may import which, what is loaded when, how large a file may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "tegula"

# From the bottom to the top. A part may import from the lines above its own, and never from its own line's other parts.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("dataclass",),
    ("source",),
    ("errors",),
    ("fitting",),
    ("types", "target"),
    ("layout", "ir"),
    ("fields",),
    ("ops",),
    ("verify", "text"),
    ("rewrite",),
    ("stdlib",),
    ("lang", "interp"),
    ("passes",),
    ("check",),
    ("codegen",),
    ("backend",),
    ("runtime",),
    ("tune",),
    ("api",),
    ("__init__",),
    ("testing", "demo", "kernels", "torch", "jax"),
    ("cli",),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}

# Heavy packages, and the only files that may import them.
CONFINED = {
    "llvmlite": {"backend/llvm.py"},
    "cuda": set(),
    "torch": {"torch.py"},
    "jax": {"jax.py"},
    "click": {"cli.py"},
    "rich": {"cli.py", "demo.py", "tune/progress.py"},
}
LIGHT = {"numpy", "ml_dtypes", "tegula"}
LONGEST, MEDIAN = 800, 300
VAGUE = ("util", "utils", "helper", "helpers", "common", "manager", "misc", "impl")


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def part_of(path: Path) -> str:
    """The part of the source a file belongs to: its folder, or its own name."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, module) of every import, also inside functions and by name at run time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield node.lineno, module
            # `from tegula import ir` names a part, not an attribute.
            yield from ((node.lineno, f"tegula.{a.name}") for a in node.names if module == "tegula")
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func).rpartition(".")[2]
            if called in ("import_module", "__import__"):
                yield node.lineno, str(node.args[0].value)


def part_imported(module: str) -> str | None:
    """The part of Tegula that an import asks for; None for other packages."""
    head, _, rest = module.partition(".")
    if head != "tegula":
        return None
    part = rest.partition(".")[0]
    return part if part in LEVEL else "__init__"


def parts_imported(tree: ast.Module) -> Iterator[tuple[int, str]]:
    named = {line for line, module in imported(tree) if (part_imported(module) or "__init__") != "__init__"}
    for line, module in imported(tree):
        part = part_imported(module)
        if part is not None and not (module == "tegula" and line in named):
            yield line, part


def violations(path: Path, tree: ast.Module) -> list[str]:
    """Imports of a file that do not go downward."""
    own = part_of(path)
    return [
        f"{name_of(path)}:{line}: {own} imports {part}"
        for line, part in parts_imported(tree)
        if part != own and LEVEL[part] >= LEVEL[own]
    ]


def test_every_file_has_a_layer() -> None:
    assert {part_of(path) for path in files()} <= set(LEVEL)


def test_imports_go_downward() -> None:
    assert [line for path in files() for line in violations(path, tree_of(path))] == []


@pytest.mark.parametrize(
    ("file", "text", "refused"),
    [
        ("passes/simplify.py", "from tegula.ir import Op", False),
        ("passes/simplify.py", "from tegula.passes.accesses import Access", False),
        ("passes/simplify.py", "from tegula.codegen import kernel", True),
        ("passes/simplify.py", "from tegula import backend", True),
        ("passes/simplify.py", "def f():\n    import tegula.runtime.launch", True),
        ("passes/simplify.py", "import tegula as tg", True),
        ("interp/tiles.py", "from tegula import ops", False),
        ("interp/tiles.py", "from tegula.lang.kernel import trace", True),
        ("types.py", "from tegula import target", True),
        ("demo.py", "import tegula as tg", False),
        ("kernels/gemm.py", "import tegula as tg", False),
        ("demo.py", "import importlib\nimportlib.import_module('tegula.cli')", True),
    ],
)
def test_a_wrong_import_is_seen(file: str, text: str, refused: bool) -> None:
    assert bool(violations(SOURCE / file, ast.parse(text))) is refused


def test_imports_are_absolute() -> None:
    relative = [
        (name_of(p), line) for p in files() for line, module in imported(tree_of(p)) if module[0] == "."
    ]
    assert relative == []


def test_kernels_of_the_library_use_public_names() -> None:
    """They are written as users would: with `tg`, and what other files of the library make with it."""
    for path in sorted((SOURCE / "kernels").glob("*.py")):
        tree = tree_of(path)
        ours = {module for _, module in imported(tree) if part_imported(module) is not None}
        assert {m for m in ours if m != "tegula" and not m.startswith("tegula.kernels.")} == set(), path
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        # Of a named tuple it is public: the underscore keeps it apart from fields.
        assert {name for name in names - {"_replace"} if name.startswith("_")} == set(), path


def test_heavy_packages_stay_in_their_files() -> None:
    found = [
        f"{name_of(path)}:{line}: {module}"
        for path in files()
        for line, module in imported(tree_of(path))
        if name_of(path) not in CONFINED.get(module.partition(".")[0], {name_of(path)})
    ]
    assert found == []


def test_no_other_package_is_imported() -> None:
    known = LIGHT | set(CONFINED) | set(sys.stdlib_module_names)
    found = {module.partition(".")[0] for path in files() for _, module in imported(tree_of(path))}
    assert found <= known


def loaded_by(statement: str) -> set[str]:
    """The packages in sys.modules after a statement in a fresh process."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(made.stdout.split())


def test_import_loads_nothing_heavy() -> None:
    loaded = loaded_by("import tegula")
    assert "tegula" in loaded
    assert loaded.isdisjoint(CONFINED)


def test_command_line_help_loads_no_compiler() -> None:
    loaded = loaded_by("import tegula.cli")
    assert loaded.isdisjoint({"llvmlite", "cuda", "rich"})


def test_no_file_is_long() -> None:
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files()}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}
    assert sorted(lengths.values())[len(lengths) // 2] < MEDIAN


def test_names_say_what_is_inside() -> None:
    parts = {name_of(p): part for p in files() for part in p.relative_to(SOURCE).with_suffix("").parts}
    assert [name for name, part in parts.items() if set(part.split("_")) & set(VAGUE)] == []


def test_every_file_says_what_it_is_for() -> None:
    assert [name_of(path) for path in files() if not ast.get_docstring(tree_of(path))] == []


def test_no_test_imports_another() -> None:
    """Folders have tests of one name, so which would be found is up to the order in which they are named. What tests
    share is in tests/support."""
    tests = Path(__file__).parent
    modules = {path.stem for path in tests.rglob("test_*.py")}
    found = [
        f"{path.relative_to(tests)}: {name}"
        for path in sorted(tests.rglob("*.py"))
        if modules.intersection(re.findall(r"\w+", text := path.read_text()))
        for name in _named(ast.parse(text))
        if modules.intersection(name.split("."))
    ]
    assert found == []


def _named(tree: ast.Module) -> Iterator[str]:
    """The modules that a file imports, by statements and by importlib."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in (
            "import_module",
            "__import__",
        ):
            yield from (str(x.value) for x in node.args[:1] if isinstance(x, ast.Constant))
