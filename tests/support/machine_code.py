"""Checks the marker `machine_code`: exactly the marked tests run code that is compiled for this processor. Code that
child processes run is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any

import pytest

from tegula.backend import loader, pool
from tegula.runtime import compile

NAME = "machine_code"
UNMARKED = "the test runs machine code: mark the test with @pytest.mark.machine_code"
MARKED = (
    "the test runs no machine code: remove its mark, or use machine_code(some=True) if only some parameters run "
    "machine code"
)

ran = False
"""Whether the current test has loaded machine code, or launched a kernel for the CPU that an earlier test loaded."""


def pytest_configure() -> None:
    """Record when code for this processor is loaded and run. The thread pool has imported `load` under its own name, so
    that its code is not recorded."""
    original_load, original_launch = loader.load, compile.Compiled.launch
    assert pool.load is original_load

    def load(data: bytes) -> loader.LoadedObject:
        global ran
        result = original_load(data)
        ran = True
        return result

    @wraps(original_launch)
    def launch(*args: Any, **kwargs: Any) -> None:
        global ran
        ran = True
        original_launch(*args, **kwargs)

    loader.load = compile.load = load
    compile.Compiled.launch = launch


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    global ran
    ran = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a passing test with a wrong marker. Tests marked `gpu` run their kernels on the GPU and are not checked."""
    yield
    wrong = marker_error(item.get_closest_marker(NAME), ran)
    if wrong and item.get_closest_marker("gpu") is None:
        pytest.fail(wrong, pytrace=False)


def marker_error(mark: pytest.Mark | None, has_run: bool) -> str | None:
    """The error about the marker of a test, or None if the marker is correct."""
    if mark is None:
        return UNMARKED if has_run else None
    return None if has_run or mark.kwargs.get("some") else MARKED
