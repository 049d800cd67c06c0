"""An importer that makes Tegula importable under the package's name; only test files are imported from the package."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import tegula

PACKAGE = "warp"
INTERNALS = ("_src",)
"""Parts of the package that only its own tests import."""


class AbsentModule(ModuleType):
    """A module of the package without a counterpart: any name can be imported from it, but not called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return InternalName(f"{self.__name__}.{name}")


class InternalName:
    """A name of the package's internals, whose use is an error."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "wp_is_mathdx_enabled":  # read by tests on every device, to skip tests of a library
            return bool
        return InternalName(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{self._name} is internal to the package")


class ExistingModuleLoader(Loader):
    """Loads an existing module, or a module without a file."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        pass


class StatementLoader(SourceFileLoader):
    """Loads a test file statement by statement, so that a failing statement affects only the tests that use its
    names."""

    def exec_module(self, module: ModuleType) -> None:
        tree = ast.parse(self.get_data(self.path), self.path)
        failed = module.__dict__.setdefault("__failed__", {})
        future = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module == "__future__"]
        for node in tree.body:
            code = compile(ast.Module([*future, node], []), self.path, "exec", dont_inherit=True)
            try:
                exec(code, module.__dict__)
            except Exception as error:
                failed.update(dict.fromkeys(bound(node), error))


def bound(node: ast.stmt) -> list[str]:
    """The names that a statement of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    return [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


class AliasFinder(MetaPathFinder):
    """Finds modules under the package's name: Tegula's, the test files, and the harness that they import."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        head, *rest = fullname.split(".")
        if head != PACKAGE:
            return None
        if rest[:1] == ["tests"]:
            return self.of_tests(fullname, rest[1:])
        if rest[0] in INTERNALS:
            return ModuleSpec(fullname, ExistingModuleLoader(AbsentModule(fullname)), is_package=True)
        return ModuleSpec(fullname, ExistingModuleLoader(namespace(rest)), is_package=True)

    def of_tests(self, fullname: str, rest: list[str]) -> ModuleSpec:
        """The loader of a module of the tests."""
        if rest == ["unittest_utils"]:
            from compat import harness

            return ModuleSpec(fullname, ExistingModuleLoader(harness))
        if rest and rest[-1].startswith("test_"):
            path = str(self.root.joinpath(PACKAGE, "tests", *rest).with_suffix(".py"))
            spec = spec_from_file_location(fullname, path, loader=StatementLoader(fullname, path))
            assert spec is not None
            return spec
        module = AbsentModule(fullname) if rest and rest[-1].startswith("aux_") else ModuleType(fullname)
        module.__path__ = []
        return ModuleSpec(fullname, ExistingModuleLoader(module), is_package=True)


def namespace(names: list[str]) -> ModuleType:
    """The namespace of Tegula with the name of a module of the package.

    Raises:
        ModuleNotFoundError: Tegula has none.
    """
    result: Any = tegula
    try:
        for name in names:
            result = getattr(result, name)
    except AttributeError:
        raise ModuleNotFoundError(f"tegula has no namespace {'.'.join(names)}") from None
    if isinstance(result, ModuleType):
        return result
    module = ModuleType(".".join(names))
    module.__getattr__ = lambda name: getattr(result, name)
    return module


def install(root: Path) -> None:
    """Makes the package's name an alias from now on.

    Parameters:
        root: the directory of the package's files.
    """
    sys.modules[PACKAGE] = tegula
    sys.meta_path.insert(0, AliasFinder(root))
    for name in INTERNALS:
        __import__(f"{PACKAGE}.{name}.context")
