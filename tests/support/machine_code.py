"""Checks the marker `machine_code`: exactly the marked tests run code that is compiled for this processor. Code of
child processes is ignored."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any

import pytest

from tegula.backend import loader
from tegula.runtime import compile

NAME = "machine_code"
UNMARKED = "it runs machine code: mark it with @pytest.mark.machine_code"
MARKED = "it runs no machine code, and is marked as if it did (where only some parameters do: machine_code(some=True))"

ran = False
"""Whether this test has loaded machine code, or launched a kernel for the CPU that was loaded before."""


def pytest_configure() -> None:
    """Record the loading and running of code for this processor. Code of the thread pool, which has its own name for
    `load`, is not recorded."""
    loads, launches = loader.load, compile.Compiled.launch

    def load(data: bytes) -> loader.LoadedObject:
        global ran
        result = loads(data)
        ran = True
        return result

    @wraps(launches)
    def launch(*args: Any, **kwargs: Any) -> None:
        global ran
        ran = True
        launches(*args, **kwargs)

    loader.load = compile.load = load
    compile.Compiled.launch = launch


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    global ran
    ran = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A passing test with a wrong marker fails. On a GPU its kernels run there."""
    yield
    wrong = marker_error(item.get_closest_marker(NAME), ran)
    if wrong and item.get_closest_marker("gpu") is None:
        pytest.fail(wrong, pytrace=False)


def marker_error(mark: pytest.Mark | None, has_run: bool) -> str | None:
    """The error about a test's marker, if it is wrong."""
    if mark is None:
        return UNMARKED if has_run else None
    return None if has_run or mark.kwargs.get("some") else MARKED
