"""Room for deeply nested calls on Python's stack.

Python keeps the frames of functions in chunks of 16 KB, and returns a chunk to the operating system when its first
frame ends. The tracer has hundreds of frames at a time. A function that it calls again and again at the end of a chunk
maps and unmaps a chunk in each call, which takes 6 us instead of 0.1: a fifth of the time of a trace. A frame that is
longer than a chunk gets a longer chunk, whose remainder the frames of nested calls share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
WORDS = 1 << 15
"""The length of the frame: 256 KB, for which Python allocates a chunk of 512 KB. Only the chunk's pages that hold
frames take memory."""


def on_long_stack(function: Callable[P, R]) -> Callable[P, R]:
    """The function with room for the frames of the calls in it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    assert isinstance(call, FunctionType)
    call.__code__ = call.__code__.replace(co_stacksize=WORDS)
    return call
