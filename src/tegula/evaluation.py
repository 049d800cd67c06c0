"""Calls of kernel functions from Python. The evaluator is set by a higher layer, which traces and runs programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

Evaluate = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]
_evaluator: list[Evaluate] = []


def set_evaluator(evaluator: Evaluate) -> Evaluate:
    """Set the function that evaluates calls."""
    _evaluator[:] = [evaluator]
    return evaluator


def evaluate(callee: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
    """The result of a call as in a kernel, as a host value. `callee`: a function of the language or of the user, or the
    name of an operator of the language."""
    if not _evaluator:
        _ = sys.modules["tegula"].kernel  # the package loads all layers on access to a name
    return _evaluator[0](callee, args, kwargs or {})
