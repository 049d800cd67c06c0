"""The stub of the package has the names that the package has."""

from __future__ import annotations

import ast
import inspect
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

import tegula as tg
from tegula.api import LAZY, MODULES, OPTIONAL
from tegula.lang.definition import PublicFunction

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "tools" / "stubs.py"))


def test_the_stub_follows_the_declarations(tool: dict[str, Any]) -> None:
    """The stub file is up to date; `python tools/stubs.py` writes it."""
    assert tool["PAGE"].read_text(encoding="utf-8") == tool["stub"]()


def test_the_stub_has_exactly_the_public_names(tool: dict[str, Any]) -> None:
    """Each public name is declared once, apart from overloads, and each declared name exists."""
    tree = ast.parse(tool["stub"]())
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    overloads = {n.name for n in functions if n.decorator_list}
    names = [n.name for n in tree.body if isinstance(n, ast.ClassDef)]
    names += [*(n.name for n in functions if not n.decorator_list), *overloads]
    names += [a.asname or a.name for n in tree.body if isinstance(n, ast.ImportFrom) for a in n.names]
    names += [
        n.target.id for n in tree.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    ]
    names += [
        t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
    ]
    declared = [name for name in names if name not in ("Any", "TypeAlias") and not name.startswith("_")]
    assert len(set(names)) == len(names)
    optional_names = {name for name, module in LAZY.items() if module.removeprefix("tegula.") in OPTIONAL}
    names_of_stub = {name for name in dir(tg) if not name.startswith("__") and name not in OPTIONAL}
    assert set(declared) == names_of_stub | optional_names
    assert not [name for name in names_of_stub if not hasattr(tg, name)]
    (cholesky,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "tile_cholesky")
    assert ast.unparse(cholesky.args) == "a: Any, fill_mode: str='lower', info: bool=False"


def test_overloads_have_the_order_of_their_parameters(tool: dict[str, Any]) -> None:
    declared = re.findall(r"def lower_bound\(([^)]*)\)", tool["stub"]())
    assert declared == ["arr: Any, value: Any", "arr: Any, arr_begin: Any, arr_end: Any, value: Any"]
    assert str(inspect.signature(tg.lower_bound)) == "(arr, *, value, arr_begin=None, arr_end=None)"


def test_the_error_of_a_misspelt_name_suggests_a_similar_name() -> None:
    """Python searches the object that the error names for a similar name."""
    completed = subprocess.run(
        [sys.executable, "-c", "import tegula as tg; tg.tile_laod"], capture_output=True, text=True
    )
    assert "tegula has no name 'tile_laod'. Did you mean: 'tile_load'?" in completed.stderr


def test_dir_has_no_internal_name() -> None:
    """All functions of the library, only public modules, no tables, and a docstring and a signature for each
    callable."""
    names = [name for name in dir(tg) if not name.startswith("__")]
    assert {"sin", "exp", "tile_sort", "tid", "array", "constexpr", "fast"} <= set(names)
    values = {name: getattr(tg, name) for name in names}
    assert {name for name, x in values.items() if isinstance(x, ModuleType)} - set(OPTIONAL) == set(MODULES)
    assert not [name for name, x in values.items() if isinstance(x, dict | list | tuple | set)]
    functions = {name: x for name, x in values.items() if isinstance(x, PublicFunction | FunctionType)}
    assert not [name for name, x in functions.items() if not x.__doc__]
    assert [*inspect.signature(tg.tile_load).parameters][:3] == ["a", "shape", "offset"]
    assert not [name for name, x in functions.items() if inspect.signature(x) is None]
    assert tg.fast.exp2.__doc__


USES = """
from typing import Any, Literal
import tegula as tg

@tg.func
def f(x: tg.float32, n: tg.constexpr[int] = 3) -> tg.float32:
    return tg.float32(x) + n

@tg.kernel(block_dim=64)
def k(a: tg.array2d[float], b: tg.array[tg.vec3, Literal[2]], c: tg.array, d: tg.array[Any], N: tg.constexpr):
    i, j = tg.tid()
    t = tg.tile_load(a, shape=(N, N), offset=(i, j))
    tg.tile_store(a, tg.tile_map(tg.sin, t) @ t)
    if tg.bool(c):
        tg.print(f(1.0), tg.fast.exp2(1.0), tg.vec3(1.0), tg.PI, d[0])
    for _ in tg.range(3):
        b[0, 0] += tg.vec3(1.0)
    for row in range(tg.int64(2), c.shape[0]):
        b[row, 0] = tg.vec3(1.0)

def g(t: tg.tile[float, 16, 16]):
    return t + 1.0

@tg.struct
class Body:
    mass: float
    place: tg.vec3
    data: tg.array[float]
    gathered: tg.indexedarray[float]

@tg.kernel
def accelerate(b: Body, bodies: tg.array[Body], rows: tg.indexedarray2d[float], out: tg.array[float]):
    i = tg.tid()
    out[i] = b.mass * b.data[i] + rows[i, 0] + b.gathered[i] + bodies[i].place.x
    bodies[i].mass += 1.0

body = Body()
body.mass, body.data = 3.0, tg.zeros(3)
body.gathered = tg.indexedarray(tg.zeros(3), [[1, 0]])
out = tg.zeros(3, requires_grad=True)
with tg.Tape() as tape:
    tg.launch(accelerate, 3, [body, tg.zeros(3, dtype=Body), tg.indexedarray2d(tg.zeros((3, 3)), [[1], None]), out])
tape.backward(grads={out: out})
mass: float = tg.zeros(3, dtype=Body)[0].item().mass
number: float = out[0].item()
tg.map(lambda x: x * 2.0, out)
tg.launch(k, 4, {"a": tg.zeros((4, 4))}, [1]);
tg.launch(k.bind(N=3), 4, [], record_cmd=True).launch()
tg.WRONG
"""


@pytest.mark.slow
@pytest.mark.cpu
def test_type_checkers_accept_kernels_and_the_examples(tmp_path: Path) -> None:
    """pyright with the stub as it is installed: the only finding is a name that does not exist."""
    (tmp_path / "uses.py").write_text(USES, encoding="utf-8")
    for example in (ROOT / "examples").glob("*.py"):
        (tmp_path / example.name).write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    settings = {"extraPaths": [str(ROOT / "src")], "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pyright",
        "-p",
        str(tmp_path),
        "--pythonpath",
        sys.executable,
        "--outputjson",
    ]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    record = [
        x["message"] for x in json.loads(completed.stdout)["generalDiagnostics"] if x["severity"] == "error"
    ]
    assert record == ['"WRONG" is not a known attribute of module "tegula"']
    assert (ROOT / "src" / "tegula" / "py.typed").exists()
