"""The structure of the source: imports between parts, imports at start-up, sizes of files."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from support.folders import FOR_V3, NO_MACHINE_CODE, RULES, follows
from support.tool_modules import tool

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tegula"


# From the bottom to the top. A part may import from preceding lines, and never from its own line's other parts.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("dataclass", "collection", "deferred", "python_stack"),
    ("source",),
    ("errors",),
    ("fitting", "algebra", "evaluation", "handles"),
    ("composite",),
    ("types", "target"),
    ("structs",),
    ("signature", "declaration"),
    ("layout",),
    ("ir",),
    ("ops",),
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
    ("testing", "demo", "kernels", "algorithms", "autograd", "optim", "torch", "jax"),
    ("spatial",),
    ("cli",),
    ("__main__",),
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
STORAGE = {"operands", "args", "attrs"}
"""The storage of operands, arguments and attributes in ops and regions. Classes declare names for these."""
VAGUE = ("util", "utils", "helper", "helpers", "common", "manager", "misc", "impl")


def files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def part_of(path: Path) -> str:
    """The part of the source a file belongs to: its folder, or its own name."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def tree_of(path: Path) -> ast.Module:
    return tool("syntax_trees").tree_of(path)


class Import(NamedTuple):
    """An imported module, and the names imported from it: none for `import module` and for imports at run time."""

    line: int
    module: str
    names: tuple[str, ...] = ()


def imports(tree: ast.AST) -> Iterator[Import]:
    """Every import, also inside functions and by name at run time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (Import(node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield Import(node.lineno, module, tuple(alias.name for alias in node.names))
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                yield Import(node.lineno, str(node.args[0].value))


def modules(actual: Iterable[Import]) -> Iterator[tuple[int, str]]:
    """The line and module of imports, where `from tegula import ir` names a part, not an attribute."""
    for one_import in actual:
        yield one_import.line, one_import.module
        if one_import.module == "tegula":
            yield from ((one_import.line, f"tegula.{name}") for name in one_import.names)


@cache
def imported_by(path: Path) -> tuple[tuple[int, str], ...]:
    return tuple(modules(imports(tree_of(path))))


def part_imported(module: str) -> str | None:
    """The part of Tegula that an import refers to; None for other packages."""
    head, _, rest = module.partition(".")
    if head != "tegula":
        return None
    part = rest.partition(".")[0]
    return part if part in LEVEL else "__init__"


def parts_imported(imported: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    lines_with_parts = {
        line for line, module in imported if (part_imported(module) or "__init__") != "__init__"
    }
    for line, module in imported:
        part = part_imported(module)
        if part is not None and not (module == "tegula" and line in lines_with_parts):
            yield line, part


def violations(path: Path, imported: Iterable[tuple[int, str]]) -> list[str]:
    """The imports of a file from the same or a higher layer."""
    own_part = part_of(path)
    return [
        f"{name_of(path)}:{line}: {own_part} imports {part}"
        for line, part in parts_imported(imported)
        if part != own_part and LEVEL[part] >= LEVEL[own_part]
    ]


def test_every_file_has_a_layer() -> None:
    assert {part_of(path) for path in files()} <= set(LEVEL)


def test_imports_go_downward() -> None:
    assert [line for path in files() for line in violations(path, imported_by(path))] == []


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
def test_an_upward_import_is_reported(file: str, text: str, refused: bool) -> None:
    assert bool(violations(SOURCE / file, list(modules(imports(ast.parse(text)))))) is refused


def test_imports_are_absolute() -> None:
    relative = [(name_of(p), line) for p in files() for line, module in imported_by(p) if module[0] == "."]
    assert relative == []


def test_kernels_of_the_library_use_public_names() -> None:
    """Library kernels are written as users would write them: with `tg`, and names from other files of the library."""
    for path in sorted((SOURCE / "kernels").glob("*.py")):
        tree = tree_of(path)
        own_modules = {module for _, module in imported_by(path) if part_imported(module) is not None}
        assert {m for m in own_modules if m != "tegula" and not m.startswith("tegula.kernels.")} == set(), (
            path
        )
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        # Public for named tuples: the underscore distinguishes the method from fields.
        assert {name for name in names - {"_replace"} if name.startswith("_")} == set(), path


def test_heavy_packages_stay_in_their_files() -> None:
    violating = [
        f"{name_of(path)}:{line}: {module}"
        for path in files()
        for line, module in imported_by(path)
        if name_of(path) not in CONFINED.get(module.partition(".")[0], {name_of(path)})
    ]
    assert violating == []


def test_no_other_package_is_imported() -> None:
    allowed = LIGHT | set(CONFINED) | set(sys.stdlib_module_names)
    packages = {module.partition(".")[0] for path in files() for _, module in imported_by(path)}
    assert packages <= allowed


def loaded_by(statement: str) -> set[str]:
    """The packages in sys.modules after a statement in a fresh process."""
    code = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(process.stdout.split())


def test_import_loads_no_heavy_package() -> None:
    loaded = loaded_by("import tegula")
    assert "tegula" in loaded
    assert loaded.isdisjoint(CONFINED)


def test_public_names_load_neither_tracer_nor_compiler() -> None:
    """The parts that trace, compile and run a kernel are loaded by the first launch."""
    code = "import tegula; tegula.launch; import sys; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lazy_modules = ("tegula.backend.pool", "tegula.codegen.", "tegula.passes.", "tegula.lang.statements")
    assert [m for m in process.stdout.split() if m.startswith(lazy_modules)] == []


def test_command_line_help_loads_no_compiler() -> None:
    loaded = loaded_by("import tegula.cli")
    assert loaded.isdisjoint({"llvmlite", "cuda", "rich"})


def test_no_file_is_long() -> None:
    lengths = {name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in files()}
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}
    assert sorted(lengths.values())[len(lengths) // 2] < MEDIAN


def test_file_names_describe_the_contents() -> None:
    parts = {name_of(p): part for p in files() for part in p.relative_to(SOURCE).with_suffix("").parts}
    assert [name for name, part in parts.items() if set(part.split("_")) & set(VAGUE)] == []


def test_public_classes_have_names_of_their_own() -> None:
    """A name refers to one class. The checker's classes are exempt, because its parts share no code with the code that
    they check; so is Kernel, which users and the compiler have."""
    files_of: dict[str, list[str]] = {}
    for path in files():
        for node in tree_of(path).body if part_of(path) != "check" else ():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                files_of.setdefault(node.name, []).append(name_of(path))
    several = {name: paths for name, paths in files_of.items() if len(paths) > 1}
    assert several == {"Kernel": ["ir/kernel.py", "runtime/kernel.py"]}


def test_every_file_has_a_docstring_of_its_purpose() -> None:
    assert [name_of(path) for path in files() if not ast.get_docstring(tree_of(path))] == []


def by_position(tree: ast.Module) -> list[int]:
    """The lines that read or write a part of an op or region by position instead of by name."""
    reads = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in STORAGE]
    inside = ast.walk(tree) if reads else ()
    parents = {child: node for node in inside for child in ast.iter_child_nodes(node)}
    return [node.lineno for node in reads if not _uses_whole_list(node, parents)]


def _uses_whole_list(node: ast.Attribute, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether an expression uses a list as a whole: iterates, unpacks, passes, searches, compares, or tests whether it
    is empty."""
    match parents[node]:
        case _ if not isinstance(node.ctx, ast.Load):
            return False
        case ast.For(iter=x) | ast.comprehension(iter=x) if x is node:
            return True
        case ast.Starred() | ast.keyword() | ast.Return() | ast.YieldFrom() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Call(args=given):
            return node in given
        case ast.Assign(targets=[ast.Tuple() | ast.List()]):
            return True
        case ast.Compare(ops=ops, comparators=others):
            searched = node in others and all(isinstance(op, ast.In | ast.NotIn) for op in ops)
            return searched or all(isinstance(op, ast.Eq | ast.NotEq) for op in ops)
        # All attributes; or the parameters of a function in Python's syntax tree, which are not a list of arguments.
        case ast.Attribute(attr=name):
            return name == "items" or (node.attr == "args" and name in ast.arguments._fields)
        case ast.BoolOp() as both:
            return isinstance(parent := parents[both], ast.If | ast.While) and parent.test is both
        case _:
            return False


def test_ops_are_read_by_name() -> None:
    """Only code that uses all operands accesses the storage of ops. Parts below `ir` do not use ops."""
    read = {name_of(p): by_position(tree_of(p)) for p in files() if LEVEL[part_of(p)] > LEVEL["ir"]}
    assert {name: lines for name, lines in read.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("for v in op.operands: pass", False),
        ("a = [v for v in region.args if v in op.operands]", False),
        ("a, *b = op.operands", False),
        ("a = [*op.operands]; a.extend(op.operands); b = op.is_same(op.attrs)", False),
        ("if x.operands != y.operands or not x.args: pass", False),
        ("for name, x in op.attrs.items(): pass", False),
        ("if call.args or call.keywords: pass", False),
        ("names = [a.arg for a in tree.args.posonlyargs]", False),
        ("a = op.operands[0]", True),
        ("a = op.operands[1:]", True),
        ("a = op.attrs['axis']", True),
        ("a = op.attrs.get('axis')", True),
        ("a = region.args.index(v)", True),
        ("a = op.operands", True),
        ("a = (op.operands or op.results)[0]", True),
        ("op.operands = [a, b]", True),
        ("op.operands += [a]", True),
        ("region.args.append(v)", True),
        ("del op.attrs['axis']", True),
    ],
)
def test_operands_read_by_position_are_reported(text: str, refused: bool) -> None:
    assert bool(by_position(ast.parse(text))) is refused


def test_tests_listed_as_long_exist() -> None:
    """`python tools/long_tests.py` writes the list."""
    root = Path(__file__).parent
    listed = [line.partition("::") for line in (root / "long_tests.txt").read_text().splitlines()]
    missing = [
        (path, test)
        for path, _, test in listed
        if f"def {test.partition('[')[0].rpartition('::')[2]}(" not in (root.parent / path).read_text()
    ]
    assert listed and missing == []


def test_files_test_for_no_more_op_classes() -> None:
    """Outside its family an op is known by an interface or by a property of its class. `python tools/op_classes.py`
    writes lower numbers."""
    op_classes = tool("op_classes")
    assert op_classes.grown_counts(op_classes.counts(), op_classes.recorded_counts()) == []


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ("from tegula.ops.control import If\nisinstance(op, If)", {"If"}),
        (
            "from tegula.ops.control import For, If, While\nisinstance(op, If | For | While)",
            {"If", "For", "While"},
        ),
        ("from tegula.ops.control import For, If\nLOOPS = (For, If)", {"For", "If"}),
        ("from tegula.ops import control as C\nRULES = {C.For: 1}", {"For"}),
        ("from tegula.ops.control import If as Branch\nsame = type(op) is Branch", {"If"}),
        ("from tegula.ops.control import If\n@rule(If)\ndef f(op): pass", {"If"}),
        ("from tegula.ops.control import If\nb.emit(If, [c])", set()),
        ("import ast\nisinstance(node, ast.If)", set()),
    ],
)
def test_tests_for_op_classes_are_reported(text: str, classes: set[str]) -> None:
    assert tool("op_classes").tested_classes("passes/simplify.py", ast.parse(text)) == classes
    assert tool("op_classes").tested_classes("ops/control.py", ast.parse(text)) == set()


def test_no_test_module_imports_another() -> None:
    """Several folders have tests of one name, so the module that is found would depend on the order of folders. Shared
    code is in tests/support."""
    tests = Path(__file__).parent
    tests_of = {path.stem for path in tests.rglob("test_*.py")}
    violating = [
        f"{path.relative_to(tests)}: {name}"
        for path in sorted(tests.rglob("*.py"))
        if tests_of.intersection(re.findall(r"\w+", text := path.read_text()))
        for one_import in imports(ast.parse(text))
        for name in (one_import.module, *(f"{one_import.module}.{name}" for name in one_import.names))
        if tests_of.intersection(name.split("."))
    ]
    assert violating == []


# Tiers ----------------------------------------------------------------------------------------------------------------


def test_every_folder_of_tests_has_marker_rules() -> None:
    tests = ROOT / "tests"
    assert {path.parent.name for path in tests.glob("*/test_*.py")} == set(RULES)
    marked = {path.parent.name for path in tests.glob("*/test_*.py") if ".machine_code" in path.read_text()}
    assert [folder for folder in sorted(marked) if follows(folder, NO_MACHINE_CODE)] == []
    assert [folder for folder in RULES if follows(folder, FOR_V3) and folder not in marked] == []


def test_files_named_by_test_tiers_exist() -> None:
    space = runpy.run_path(str(ROOT / "run.py"))
    for test_path in (*space["QUICK"], *space["MACHINE_CODE"]):
        path, _, name = test_path.partition("::")
        assert (ROOT / path).exists(), test_path
        assert not name or f"def {name}(" in (ROOT / path).read_text(), test_path
    folders = {
        test_path.removeprefix("tests/") for test_path in space["MACHINE_CODE"] if "::" not in test_path
    }
    assert folders == {folder for folder in RULES if follows(folder, FOR_V3)}
    assert all(arguments in (ROOT / ".ci" / "run").read_text() for arguments in ("test --all", "test --v3"))
