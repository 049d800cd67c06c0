"""The wrong programs of `programs/` and their messages. Run this file to rewrite the expected texts."""

from __future__ import annotations

import runpy
from pathlib import Path

import tegula as tg

PROGRAMS = Path(__file__).parent / "programs"


def names() -> list[str]:
    return sorted(p.stem for p in PROGRAMS.glob("*.py"))


def source(name: str) -> Path:
    return PROGRAMS / f"{name}.py"


def expected(name: str) -> Path:
    return PROGRAMS / f"{name}.txt"


def failure(name: str) -> tg.TegulaError:
    """The error with which a program ends; AssertionError if it ends without one."""
    mode = tg.config.mode
    try:
        runpy.run_path(str(source(name)))
    except tg.TegulaError as error:
        return error
    finally:
        tg.config.mode = mode
    raise AssertionError(f"{name} did not fail")


def printed(error: tg.TegulaError) -> str:
    """The error's text with paths shortened."""
    return str(error).replace(f"{PROGRAMS}/", "") + "\n"


if __name__ == "__main__":
    for each in names():
        expected(each).write_text(printed(failure(each)))
