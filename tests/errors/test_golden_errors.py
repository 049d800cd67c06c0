"""Golden tests of all errors: the whole text of the error of an invalid program."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import golden
import pytest
from internal_names import INTERNAL

import tegula as tg
from tegula import errors

WITHOUT_HELP = {errors.KernelAssertion}
"""Errors whose help is in the user's own text."""


@pytest.mark.machine_code(some=True)
@pytest.mark.parametrize("name", golden.names())
def test_each_program_has_its_expected_error_text_and_help(name: str) -> None:
    error = golden.failure(name)
    assert golden.printed(error) == golden.expected(name).read_text()
    for one_error in error.errors if isinstance(error, errors.CompileErrors) else [error]:
        assert type(one_error) in WITHOUT_HELP or one_error.help, str(one_error)


def test_no_expected_text_has_names_of_the_compiler() -> None:
    texts = {name: golden.expected(name).read_text() for name in golden.names()}
    assert {name: match[0] for name, text in texts.items() if (match := INTERNAL.search(text))} == {}
    assert INTERNAL.search("got buf<int32,[4],register>") and INTERNAL.search("got a FuncDef")


def concrete(cls: type) -> list[type]:
    """The error classes with a code, which are raised; CompileErrors represents its combinations."""
    subclasses = [c for sub in cls.__subclasses__() if cls is not errors.CompileErrors for c in concrete(sub)]
    return [*([cls] if getattr(cls, "CODE", "") else []), *subclasses]


def test_each_error_class_has_a_program() -> None:
    """A text with several errors belongs to the class CompileErrors."""
    codes = [re.findall(r"error\[([\w-]+)\]", golden.expected(name).read_text()) for name in golden.names()]
    documented = {errors.CompileErrors.CODE if len(code) > 1 else code[0] for code in codes}
    assert {cls.CODE for cls in concrete(tg.TegulaError)} == documented


def test_each_program_describes_its_fault_in_its_docstring() -> None:
    for name in golden.names():
        text = ast.get_docstring(ast.parse(golden.source(name).read_text()))
        assert text is not None and text.endswith("."), name


def test_each_expected_text_has_a_program() -> None:
    assert sorted(p.stem for p in Path(golden.PROGRAMS).glob("*.txt")) == golden.names()
