"""Arguments of public functions of the language: `*` parameters given by name, and errors for wrong arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tegula import errors as E
from tegula.ops.base import STAR_ARGUMENTS


def by_position(
    name: str, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a public function, with the named arguments of its `*` parameter by position."""
    rest = STAR_ARGUMENTS.get(name, ())
    if not any(key in rest for key in kwargs):
        return args, kwargs
    _, *parameters = inspect.signature(function).parameters.values()
    names = [*(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD), *rest]
    # Positional arguments come first, named arguments after them.
    keywords = [n for n in names[min(len(args), len(names) - len(rest)) :] if n in kwargs]
    others = {key: x for key, x in kwargs.items() if key not in keywords}
    return [*args, *(kwargs[n] for n in keywords)], others


def argument_error(
    name: str, function: Callable[..., Any], keywords: Sequence[str], wrong: TypeError
) -> tuple[str, str]:
    """The error message of a call with wrong arguments, and a help text with the signature."""
    _, *known = inspect.signature(function).parameters
    unknown = [key for key in keywords if key not in known]
    call = signature(name, function)
    if not unknown:
        return f"{name}: {wrong}", call
    suggested = E.suggestion(unknown[0], known)
    help = f"{suggested} {call}" if suggested.endswith("?") else call
    return f"{name} has no parameter '{unknown[0]}'", help


def signature(name: str, function: Callable[..., Any]) -> str:
    """A help text with the signature of a function of the language."""
    _, *parameters = inspect.signature(function).parameters.values()
    return f"signature: {name}({', '.join(map(_parameter_text, parameters))})"


def _parameter_text(p: inspect.Parameter) -> str:
    default = getattr(p.default, "__name__", None) or repr(p.default)
    star = "*" if p.kind is p.VAR_POSITIONAL else ""
    return star + p.name + ("" if p.default is p.empty else f"={default}")
