"""Every pass as text: its effect on small kernels, kernels that it does not change, and kernels that it refuses."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pass_files
import pytest
from pass_files import Kind

from tegula.errors import CompileError, CompileErrors
from tegula.ir.text import parse_kernel, print_kernel
from tegula.passes.runner import Analysis

MIN_FILES = 3
TESTED_BY_OTHER_FILES = {
    "fetch_iterations",
    "hoist_loads",
    "pipeline_loops",
    "group_reductions",
    "unroll_and_jam",
    "place_waits",
}
"""Passes that are tested by the resulting kernels: tests/gpu_lowering, tests/gpu_codegen, tests/check."""


@pytest.mark.parametrize("path", pass_files.files(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_the_ir_after_a_pass_is_as_expected(path: Path, update: bool) -> None:
    if update:
        pass_files.update(path)
    expected, actual = pass_files.result(path)
    assert actual == expected
    if actual.startswith("kernel "):
        assert print_kernel(parse_kernel(actual)) == actual.partition("\n// ")[0].rstrip("\n") + "\n"


PASSES = {
    step.name: step
    for pipelines in pass_files.PIPELINES.values()
    for pipeline in pipelines
    for step in pipeline
    if step.name not in TESTED_BY_OTHER_FILES
}


@pytest.mark.parametrize("name", sorted(PASSES))
def test_every_pass_has_tests(name: str) -> None:
    """A pass has at least one file in which the pass acts and one in which it does not; an analysis has a file with a
    result, a check has a refusal."""
    actual = kinds_of(name)
    assert len(actual) >= MIN_FILES
    if pass_files.sets_a_field(PASSES[name]):
        assert set(actual) == {Kind.FINDS}
    else:
        acts = Kind.REFUSES if isinstance(PASSES[name], Analysis) else Kind.ACTS
        assert acts in actual and {Kind.LEAVES, Kind.FINDS} & set(actual)


def test_passes_that_refuse_have_a_test_of_the_error() -> None:
    """A module of passes that raises users' errors has a pass with a test of one."""
    modules: dict[str, list[Kind]] = {}
    for name, step in PASSES.items():
        modules.setdefault(step.run.__module__, []).extend(kinds_of(name))
    for module, kinds in modules.items():
        assert (Kind.REFUSES in kinds) == any(map(is_user_error, vars(import_module(module)).values())), (
            module
        )


def test_every_folder_has_the_name_of_a_pass() -> None:
    assert {path.parent.name for path in pass_files.files()} <= set(PASSES)


def kinds_of(name: str) -> list[Kind]:
    """The kinds of results in the files of a pass."""
    return [pass_files.kind(path) for path in sorted((pass_files.FOLDER / name).glob("*.ir"))]


def is_user_error(value: object) -> bool:
    """Whether a name in a module is a single class of compile errors."""
    several = CompileError, CompileErrors
    return isinstance(value, type) and issubclass(value, CompileError) and value not in several
