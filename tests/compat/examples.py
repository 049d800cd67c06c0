"""The examples in the docstrings of the package's builtins, as modules with their documented output."""

from __future__ import annotations

import ast
import doctest
import re
import textwrap
import unittest
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from compat.harness import StdOutCapture

DECLARED = "warp/_src/builtins.py"
"""The file that declares the builtins, which is parsed and not imported."""
HEADER = "import numpy as np\nimport warp as wp\n\n"
OPTION = re.compile(r"\A( *:\w+:.*\n)+")
"""The first line of a block that another tool skips."""
BLOCK = re.compile(r"^( *)\.\. (testcode|testoutput)::.*\n((?:\1 +\S.*\n|\s*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class DocstringProgram:
    """A program of a docstring. `name`: of the builtin, with a number from its second example on."""

    name: str
    program: str
    output: str


def examples(root: Path) -> list[DocstringProgram]:
    """The examples whose output is documented, in the order of the file.

    Parameters:
        root: the directory of the package's files.
    """
    result: list[DocstringProgram] = []
    counts: Counter[str] = Counter()
    for name, text in docstrings(ast.parse((root / DECLARED).read_text())):
        blocks = [
            (kind, OPTION.sub("", textwrap.dedent(body))) for _, kind, body in BLOCK.findall(text + "\n")
        ]
        program = "".join(body for kind, body in blocks if kind == "testcode")
        if program:
            counts[name] += 1
            numbered = name if counts[name] == 1 else f"{name}_{counts[name]}"
            output = "".join(body.strip("\n") + "\n" for kind, body in blocks if kind == "testoutput")
            result.append(DocstringProgram(numbered, program, output))
    return result


def docstrings(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The docstring of each declaration of a builtin, by its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "add_builtin":
            for keyword in node.keywords:
                if keyword.arg == "doc" and isinstance(keyword.value, ast.Constant):
                    yield ast.unparse(node.args[0]).strip("'"), str(keyword.value.value)


def test_case(example: DocstringProgram, into: Path) -> unittest.TestCase:
    """A test that an example prints its documented output.

    Parameters:
        example: the example.
        into: a directory for its file: kernels are read from files.
    """
    path = into / f"example_{example.name}.py"
    path.write_text(HEADER + example.program)

    def run() -> None:
        spec = spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        capture = StdOutCapture()
        capture.begin()
        try:
            spec.loader.exec_module(module_from_spec(spec))
        finally:
            printed = capture.end()
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if example.output and not doctest.OutputChecker().check_output(example.output, printed, flags):
            raise AssertionError(f"printed {printed!r}, documented {example.output!r}")

    return unittest.FunctionTestCase(run)
