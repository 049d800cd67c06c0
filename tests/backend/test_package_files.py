"""The stand-in for `importlib.resources` while llvmlite is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module, resources
from pathlib import Path

import pytest

from tegula.backend.package_files import NAME, PackageFiles, package_files


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> PackageFiles:
    """The stand-in of a context, as a module that is imported in it has it."""
    monkeypatch.delitem(sys.modules, NAME)
    with package_files():
        module = import_module(NAME)
    assert isinstance(module, PackageFiles) and NAME not in sys.modules
    return module


def test_a_file_of_a_package_is_found_without_the_module(stand_in: PackageFiles) -> None:
    with stand_in.as_file(stand_in.files("json") / "tool.py") as path:
        assert str(path) == str(resources.files("json") / "tool.py")
        assert Path(path).read_text() == (resources.files("json") / "tool.py").read_text()
    assert NAME not in sys.modules


def test_all_else_is_done_by_the_module(stand_in: PackageFiles) -> None:
    file = stand_in.files("json") / "tool.py"
    assert file.name == "tool.py" and file.is_file()
    assert stand_in.Package is import_module(NAME).Package
    assert stand_in.files(json).joinpath("tool.py") == resources.files(json) / "tool.py"
    assert not hasattr(stand_in, "absent")
    with pytest.raises(FileNotFoundError), stand_in.as_file(stand_in.files("json") / "absent.py") as path:
        Path(path).read_text()


def test_the_module_takes_the_place_of_the_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, NAME)
    with package_files():
        first = import_module(NAME)
        assert isinstance(first, PackageFiles) and first.contents is import_module(NAME).contents
        second = sys.modules[NAME]
        assert not isinstance(second, PackageFiles)
    assert sys.modules[NAME] is second
    with package_files():
        assert sys.modules[NAME] is second


def test_a_first_compile_loads_no_modules_for_zip_files() -> None:
    text = """
import sys
from tegula.backend.llvm import compile_object
from tegula.target import baseline
assert compile_object("define i32 @f() {\\n ret i32 0\\n}", baseline())
print(*sorted({"importlib.resources", "pathlib", "tempfile", "zipfile"} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == ""
