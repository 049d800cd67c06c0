"""The source text of a Python function, found and checked against its code.

Files change while a program runs, and code may be compiled under the name of another file. Text is therefore accepted
only if it compiles to the function's code, possibly as rewritten by an import hook."""

from __future__ import annotations
import __future__

import ast
import dis
import inspect
import linecache
import sys
import time
import tokenize
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import attrgetter
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tegula.errors import GENERATED
from tegula.lang.prompt_text import typed_text
from tegula.source import FunctionSource, Text, current_text, versions

BEGIN_NS = time.time_ns()
"""The start time: unchanged files since then contain the source of modules, even if import hooks rewrote their code."""
FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
KIND_FLAGS = (
    inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)  # fmt: skip


EMPTY_BODY = ("RESUME", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "NOP", "COPY_FREE_VARS")
"""The instructions of empty functions."""


class SourceChanged(OSError):
    """Raised if the only source text is that of another version of the function."""


def source_from_text(function: FunctionType, source: str) -> FunctionSource:
    """The definition in text that the user passes. OSError if the text defines another function, unless the given
    function has no body and is a placeholder for the text."""
    file = function.__code__.co_filename
    name = file if file.startswith(GENERATED) else f"<source of {function.__name__}>"
    text = Text(name, source.splitlines(keepends=True))
    linecache.cache[text.file] = (len(source), None, text.lines, text.file)
    for candidate in _anywhere(text, function.__code__):
        if compiled_from(candidate, function) or _is_placeholder_for(candidate, function.__code__):
            return candidate
    raise SourceChanged(function.__name__)


def _is_placeholder_for(source: FunctionSource, code: CodeType) -> bool:
    """Whether code belongs to a function with an empty body and the parameters of a definition."""
    compiled = _compiled(source, code, ())
    empty = all(op.opname in EMPTY_BODY for op in dis.get_instructions(code))
    parameters = code.co_varnames[: _parameters(code)]
    return empty and compiled is not None and compiled.co_varnames[: _parameters(compiled)] == parameters


def text_of(function: FunctionType) -> Text | None:
    """The current text of a function's file, or the typed text, stored until the function is parsed."""

    def fits(text: Text) -> bool:
        return any(
            compiled_from(candidate, function) for candidate in _at_function_line(text, function.__code__)
        )

    return typed_text(function, fits) or current_text(function.__code__.co_filename, function.__globals__)


def source_of_function(function: FunctionType, text: Text | None) -> FunctionSource:
    """The definition of a function. `text`: the text of its file when the function was decorated. If the function was
    not compiled from this text, other versions of the file are tried. OSError if there is no text; Changed if no text
    matches."""
    code = function.__code__
    tried: list[Text] = []
    for version in _candidates(function, text):
        if version is None or version in tried or _is_of_other_text(version, code):
            continue
        tried.append(version)
        for candidate in _at_function_line(version, code):
            if compiled_from(candidate, function):
                return candidate
    for version in tried:
        for candidate in _anywhere(version, code):
            if compiled_from(candidate, function, instrumented=False):
                return candidate
    raise SourceChanged(code.co_filename) if tried else OSError(code.co_filename)


def source_of_library_function(function: FunctionType) -> FunctionSource:
    """The definition at the line of a function of Tegula itself. OSError if there is none."""
    text = text_of(function)
    source = None if text is None else next(_at_function_line(text, function.__code__), None)
    if source is None:
        raise OSError(function.__code__.co_filename)
    return source


def _candidates(function: FunctionType, text: Text | None) -> Iterator[Text | None]:
    file = function.__code__.co_filename
    yield text
    yield text_of(function)
    yield from versions(file)
    if file == "<string>" and "-c" in sys.orig_argv[:-1]:
        yield Text(file, sys.orig_argv[sys.orig_argv.index("-c") + 1].splitlines(keepends=True))


def _is_of_other_text(text: Text, code: CodeType) -> bool:
    """Whether the text is from `python -c`, which Python 3.13 keeps, and the code from exec; both have the same file
    name."""
    return text.file == "<string>" and not any(_anywhere(text, code))


def _at_function_line(text: Text, code: CodeType) -> Iterator[FunctionSource]:
    """The definition that begins at the function's line, if it has the function's name."""
    lines = text.lines[code.co_firstlineno - 1 :]
    if not lines:
        return
    indented = lines[0][:1] in " \t\f"
    try:
        body = _statements(lines, indented)
    except (SyntaxError, tokenize.TokenError, ValueError):
        return
    first: Any = body[0].body[0] if indented and body else body[0] if body else None  # type: ignore[attr-defined]
    if isinstance(first, ast.FunctionDef) and first.name == code.co_name:
        yield FunctionSource(first, text, code.co_name, code.co_firstlineno - 1 - indented)


MAX_ATTEMPTS = 16
"""The maximum number of lines that are tried as the end of a definition before the text is tokenised."""

CONTINUES = "#)]}"
"""The first characters of lines that begin no statement."""


def _statements(lines: Sequence[str], indented: bool) -> list[ast.stmt]:
    """The definition that begins with the first line, parsed. The definition ends at the first line after `def` with at
    most its indentation at which the text is complete; such lines also occur in signatures and strings."""
    start, margin = "if 1:\n" if indented else "", _indentation(lines[0])
    head = next((k for k, line in enumerate(lines) if line.lstrip().startswith("def ")), 0)
    ends = (
        k
        for k, line in enumerate(lines)
        if k > head and line.strip() and line.lstrip()[0] not in CONTINUES and _indentation(line) <= margin
    )
    for end in islice(chain(ends, [len(lines)]), MAX_ATTEMPTS):
        with suppress(SyntaxError):
            return ast.parse(start + "".join(lines[:end])).body
    return ast.parse(start + "".join(inspect.getblock(lines))).body


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _anywhere(text: Text, code: CodeType) -> Iterator[FunctionSource]:
    """All definitions of the function's name."""
    full_text = "".join(text.lines)
    first = next((line for line in text.lines if line.strip() and line.lstrip()[0] != "#"), "")
    indented = first[:1] in " \t\f"
    try:
        tree = ast.parse("if 1:\n" + full_text if indented else full_text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            yield FunctionSource(node, text, code.co_name, -int(indented))


# Text and code --------------------------------------------------------------------------------------------------------


def compiled_from(source: FunctionSource, function: FunctionType, instrumented: bool = True) -> bool:
    """Whether a function was compiled from a definition. `instrumented`: whether the code may also be the definition
    rewritten by an import hook."""
    code = function.__code__
    modules = [n for n, x in function.__globals__.items() if isinstance(x, ModuleType)]
    try:
        compiled = _compiled(source, code, modules)
    except (SyntaxError, ValueError):
        return False
    if compiled is None:
        return False
    if code_key(compiled) == code_key(code) or code_key(compiled, _operations) == code_key(code, _operations):
        return True
    if (
        not instrumented
        or compiled.co_varnames[: _parameters(compiled)] != code.co_varnames[: _parameters(code)]
    ):
        return False
    if any(name.startswith("@py") for name in (*code.co_names, *code.co_varnames)):
        return _equal_except_asserts(source.tree, compiled, code)
    changed = source.text.changed_ns
    return changed is not None and changed < BEGIN_NS


def _parameters(code: CodeType) -> int:
    return code.co_argcount + code.co_kwonlyargcount


def _first_line(tree: ast.FunctionDef) -> int:
    return min([tree.lineno, *(d.lineno for d in tree.decorator_list)])


def _compiled(source: FunctionSource, code: CodeType, modules: Sequence[str]) -> CodeType | None:
    """The code of a definition inside a function, and a class if the function is of one, that bind its free names.
    `modules`: names of modules, for which calls of attributes compile differently."""
    tree, above = source.tree, source.above
    assert tree.end_lineno is not None
    block = "".join(source.text.lines[_first_line(tree) - 1 + above : tree.end_lineno + above])
    indent = block[: len(block) - len(block.lstrip(" \t\f"))]
    owner = code.co_qualname.split(".")[-2:-1]
    bound = "".join(f"{name} = " for name in code.co_freevars) + "None"
    path = ["outer"] if indent else []
    if owner and owner[0] != "<locals>" and len(indent) > 1:
        path.append(owner[0])
        block = f"def outer():\n{indent[:1]}{bound}\n{indent[:1]}class {owner[0]}:\n{block}"
    elif indent:
        block = f"def outer():\n{indent}{bound}\n{block}"
    imports = "".join(f"import {name}\n" for name in modules if name.isidentifier())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python issued these warnings when it compiled the function.
        compiled = compile(
            imports + block, code.co_filename, "exec", flags=code.co_flags & FUTURE, dont_inherit=True
        )
    for name in (*path, tree.name):
        compiled = next(
            (c for c in compiled.co_consts if isinstance(c, CodeType) and c.co_name == name), None
        )
        if compiled is None:
            return None
    return compiled


def _nested(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _nested(constant)


def code_key(code: CodeType, body: Callable[[CodeType], Any] = attrgetter("co_code")) -> tuple[Any, ...]:
    """A key of code without source positions, for comparisons. `body`: the function that returns the instructions."""
    return (
        *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & KIND_FLAGS),
        *(body(code), code.co_names, code.co_varnames, code.co_cellvars, code.co_freevars),
        *(_constant(x, body) for x in code.co_consts),
    )


def _operations(code: CodeType) -> list[tuple[str, Any]]:
    """The instructions, without the differences in attribute calls between imported and other names."""
    instructions = [
        op
        for op in dis.get_instructions(code)
        if op.opname not in ("PUSH_NULL", "EXTENDED_ARG", "CACHE", "NOP")
    ]
    starts = [op.offset for op in instructions]
    operations: list[tuple[str, Any]] = []
    for op in instructions:
        jumps = op.opcode in dis.hasjrel or op.opcode in dis.hasjabs
        value = (
            bisect_left(starts, op.argval)
            if jumps
            else "code"
            if isinstance(op.argval, CodeType)
            else op.argval
        )
        operations.append((op.opname.replace("LOAD_METHOD", "LOAD_ATTR"), repr(value)))
    return operations


def _constant(x: Any, body: Callable[[CodeType], Any]) -> Any:
    if isinstance(x, CodeType):
        return code_key(x, body)
    if isinstance(x, tuple):
        return (tuple, *(_constant(part, body) for part in x))
    return (frozenset, x) if isinstance(x, frozenset) else (type(x), repr(x))


def _equal_except_asserts(tree: ast.FunctionDef, compiled: CodeType, code: CodeType) -> bool:
    """Whether all lines without an assert have the same meaning; pytest's import hook rewrites asserts."""
    asserts = {
        line - tree.lineno
        for n in ast.walk(tree)
        if isinstance(n, ast.Assert)
        for line in range(n.lineno, (n.end_lineno or n.lineno) + 1)
    }
    first = _first_line(tree) - tree.lineno
    return _lines(compiled, first, asserts) == _lines(code, first, asserts)


def _lines(code: CodeType, first: int, without: set[int]) -> dict[int, list[Any]]:
    """The operations of each line of a function, by its distance from the `def`."""
    lines: dict[int, dict[Any, None]] = {}
    for nested_code in (code, *_nested(code)):
        line = 0
        for op in dis.get_instructions(nested_code):
            line = op.starts_line if type(op.starts_line) is int else getattr(op, "line_number", line) or line
            distance = line - code.co_firstlineno + first
            values = op.argval if isinstance(op.argval, tuple) else (op.argval,)
            if distance in without or op.opcode in dis.hasjrel or op.opcode in dis.hasjabs:
                continue
            if op.opname.startswith(("BINARY_OP", "COMPARE_OP", "UNARY")):
                lines.setdefault(distance, {})[op.opname, op.argrepr] = None
            elif op.opname.startswith(("LOAD", "STORE")):
                lines.setdefault(distance, {}).update(
                    dict.fromkeys(map(repr, filter(_distinguished, values)))
                )
    return {distance: list(words) for distance, words in lines.items() if words}


def _distinguished(x: Any) -> bool:
    return x is not None and not isinstance(x, CodeType)
