"""Writes docs/errors.md from the classes of errors.py and the wrong programs of tests/errors."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from tegula import errors
from tegula.runtime import gradcheck

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "errors.md"
PROGRAMS = ROOT / "tests" / "errors" / "programs"

INTRODUCTION = """# Errors

<!-- Written by tools/errors_page.py; edit the classes in src/tegula/errors.py or the programs in tests/errors. -->

An error names the location in your source, underlines the expression, adds a note for every other location involved,
and ends with the remedy. All errors of a kernel are reported at once. A kernel with errors is not launched.

- `tg.CompileError`: the kernel is wrong; raised by the launch that compiles it.
- `tg.LaunchError`: the arguments of a launch do not fit the kernel.
- `tg.RunError`: an error that a kernel detected while it ran. Some checks are made in debug mode only
  (`tg.config.mode = "debug"`).

All are subclasses of `tg.TegulaError`, and in `tegula.errors`. An error is an exception of Python's own classes too, so
that `except ValueError` catches it as in other Python code. Several errors of one kernel are reported together, in an
exception of the classes of all of them but `NameError`.

"""


def tree(cls: type = errors.TegulaError, depth: int = 0) -> list[str]:
    """The tree of error classes, each with the built-in exceptions that its parent does not have."""
    parents = {base for parent in cls.__bases__ for base in parent.__mro__}
    added = [b.__name__ for b in cls.__mro__ if b.__module__ == "builtins" and b not in parents | {*HIDDEN}]
    added += [b.__name__ for b in cls.__bases__ if b.__module__ == "builtins" and b not in HIDDEN]
    line = "    " * depth + f"- `{cls.__name__}`" + (f" ({', '.join(dict.fromkeys(added))})" if added else "")
    subclasses = (
        [] if cls is errors.CompileErrors else [c for c in cls.__subclasses__() if c.__module__ in PUBLIC]
    )
    return [line, *(text for sub in subclasses for text in tree(sub, depth + 1))]


HIDDEN = (Exception, BaseException, object)
PUBLIC = (errors.__name__, gradcheck.__name__)
"""The modules whose errors users see."""


def classes(cls: type = errors.TegulaError) -> list[type]:
    """The classes with a code, in the order of the source."""
    subclass_codes = [
        c for sub in cls.__subclasses__() if cls is not errors.CompileErrors for c in classes(sub)
    ]
    return [*([cls] if getattr(cls, "CODE", "") else []), *subclass_codes]


def programs() -> dict[str, list[str]]:
    """The names of the programs, by the code of their error."""
    names_by_code: dict[str, list[str]] = {}
    for path in sorted(PROGRAMS.glob("*.txt")):
        codes = re.findall(r"error\[([a-z-]+)\]:", path.read_text())
        names_by_code.setdefault(codes[0] if len(codes) == 1 else errors.CompileErrors.CODE, []).append(
            path.stem
        )
    return names_by_code


def page() -> str:
    """The text of the page."""
    names_by_code = programs()
    return "\n".join(
        [
            INTRODUCTION + "\n".join(tree()) + "\n",
            *(_section(cls, names_by_code.get(cls.CODE, [])) for cls in classes()),
        ]
    )  # type: ignore[attr-defined]


def _section(cls: type, names: list[str]) -> str:
    """The section of an error class: the first program with its message, and the messages of other programs."""
    title = "Several errors" if cls is errors.CompileErrors else cls.CODE  # type: ignore[attr-defined]
    lines = [f"## {title}", "", f"`{cls.__name__}`. {_sentence(cls)}".strip(), ""]
    for k, name in enumerate(names):
        text = (PROGRAMS / f"{name}.py").read_text()
        tree = ast.parse(text)
        lines += [ast.get_docstring(tree) or "", ""]
        if k == 0:
            body = "".join(text.splitlines(keepends=True)[tree.body[1].lineno - 1 :])
            lines += [f"```python file {path(name, 'py')}", body.strip(), "```", ""]
        lines += [
            f"```text file {path(name, 'txt')}",
            (PROGRAMS / f"{name}.txt").read_text().strip(),
            "```",
            "",
        ]
    return "\n".join(lines)


def path(name: str, suffix: str) -> str:
    """The file of a program or of its message, in the repository."""
    return (PROGRAMS / f"{name}.{suffix}").relative_to(ROOT).as_posix()


def _sentence(cls: type) -> str:
    return " ".join((cls.__doc__ or "").split()) if cls.__doc__ and "__doc__" in vars(cls) else ""


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0 if PAGE.read_text() == page() else "docs/errors.md is out of date: run tools/errors_page.py"
        )
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
