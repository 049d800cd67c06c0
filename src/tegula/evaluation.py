"""Calls in Python of what kernels call. A layer above, which can trace and run programs, provides how."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

Evaluate = Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]
_provided: list[Evaluate] = []


def provide(how: Evaluate) -> Evaluate:
    """Make a function the one that evaluates calls."""
    _provided[:] = [how]
    return how


def evaluate(callee: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None = None) -> Any:
    """The result that a call has in a kernel, as a value of the host. `callee`: a function of the language or of the
    user, or the name of an operator of the language."""
    if not _provided:
        _ = sys.modules["tegula"].kernel  # the package loads all layers when it is asked for a name
    return _provided[0](callee, args, kwargs or {})
