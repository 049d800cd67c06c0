"""Source text that is in no file: text typed at the Python prompt, from the line history, and text passed to
`tg.exec`."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import sys
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement, count, islice
from types import CodeType, FunctionType
from typing import Any

from tegula.source import Text

PROMPTS = ("<stdin>", "<console>")
"""The file names that Python gives to typed code."""
NUMBERED_PROMPTS = ("<stdin>-", "<python-input-")
"""The beginnings of these names from Python 3.13 on, where Python keeps the text."""
MAX_DECORATOR_LINES = 40
"""The maximum number of lines between the first decorator and the function."""
MAX_COMPLETED = 500
"""The maximum number of attempts to restore lines that the history omits."""
_numbers = count(1)

MatchesFunction = Callable[[Text], bool]


def typed_text(function: FunctionType, fits: MatchesFunction) -> Text | None:
    """The text of a function that was typed at Python's prompt, from the line history, the latest matching text; None
    if there is none. Lines have the numbers that Python gave them."""
    code = function.__code__
    if code.co_filename not in PROMPTS:
        return None
    lines = history()
    head = re.compile(rf"\s*def\s+{re.escape(code.co_name)}\s*\(")
    for at in reversed(range(len(lines))):
        if head.match(lines[at]):
            first = _first_line(lines, at)
            block = _block([line + "\n" for line in lines[first:]], at - first)
            above = [line + "\n" for line in lines[max(0, first + 1 - code.co_firstlineno) : first]]
            padding = ["\n"] * (code.co_firstlineno - 1 - len(above))
            for body in _completed(block, code):
                text = Text(code.co_filename, [*padding, *above, *body])
                if fits(text):
                    return text
    return None


def is_typed(file: str) -> bool:
    """Whether a file name denotes code typed at the prompt."""
    return file in PROMPTS or file.startswith(NUMBERED_PROMPTS)


def history() -> list[str]:
    """The lines that were typed at the prompt; none if Python does not keep them."""
    readline = sys.modules.get("readline")
    if readline is None:
        return []
    return [readline.get_history_item(k + 1) or "" for k in range(readline.get_current_history_length())]


def _first_line(lines: Sequence[str], at: int) -> int:
    """The first line of the decorators of the function whose `def` is at a given line."""
    first = at
    for k in reversed(range(max(0, at - MAX_DECORATOR_LINES), at)):
        part = textwrap.dedent("\n".join(lines[k:at])) + "\ndef f(): pass"
        try:
            body = ast.parse(part).body
        except SyntaxError:  # within a decorator of several lines
            continue
        if len(body) > 1 or not isinstance(body[0], ast.FunctionDef):
            break
        first = k
    return first


def _block(lines: list[str], head: int) -> list[str]:
    """The lines of the definition at the start of `lines`; `head`: the index of the line with its `def`."""
    try:
        return [*lines[:head], *inspect.getblock(lines[head:])]
    except (SyntaxError, tokenize.TokenError):
        return lines


def _completed(block: list[str], code: CodeType) -> Iterator[list[str]]:
    """The block, followed by variants with repeated lines if the block is too short, because the history merges equal
    consecutive lines."""
    missing = max(lines_of(code)) - code.co_firstlineno + 1 - len(block)
    if missing <= 0:
        yield block
        return
    for positions in islice(combinations_with_replacement(range(len(block)), missing), MAX_COMPLETED):
        yield [line for k, line in enumerate(block) for _ in range(1 + positions.count(k))]


def lines_of(code: CodeType) -> Iterator[int]:
    """The line numbers of a code object."""
    yield code.co_firstlineno
    for _, _, line in code.co_lines():
        if line is not None:
            yield line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from lines_of(constant)


def execute(text: str, namespace: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs Python text as exec does, and stores the text, so that kernels can be defined in it.

    Parameters:
        text: the text, a string.
        namespace: the dictionary of the text's names; a new dictionary by default.
    Returns:
        the namespace.
    Raises:
        SyntaxError: the text is not Python.
    """
    names: dict[str, Any] = {"__name__": "__main__"} if namespace is None else namespace
    file = f"<tegula text {next(_numbers)}>"
    lines = text.splitlines(keepends=True)
    linecache.cache[file] = (len(text), None, lines, file)
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names
