"""Data-dependent work: `tg.capture_if` and `tg.capture_while` branch and loop on an element of an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.types import int32

if TYPE_CHECKING:
    from tegula.runtime.cuda.graph import Graph
    from tegula.runtime.cuda.stream import Stream


def capture_if(
    condition: array,
    on_true: Callable[..., object] | Graph | None = None,
    on_false: Callable[..., object] | Graph | None = None,
    stream: Stream | None = None,
    **kwargs: Any,
) -> None:
    """Runs one of two functions or graphs, selected by an element of an array; on a GPU the host waits for the element.

    Parameters:
        condition: an array (1,) of int32.
        on_true: a function, or a graph, for an element that is not 0; None for nothing.
        on_false: a function, or a graph, for an element that is 0; None for nothing.
        stream: the stream of a CUDA device to which the work is submitted; this thread's stream by default.
        **kwargs: the arguments of the functions.
    Raises:
        TypeError: `condition` is not an array (1,) of int32.
        launch: launches are being recorded: a graph has no branches.
        RuntimeError: an error of kernels in the stream (tg.RunError).
    Gradient:
        of the launches of the functions, recorded by tapes.
    """
    work = on_true if _is_true(condition, stream, "capture_if") else on_false
    if work is not None:
        _run_work(work, stream, kwargs)


def capture_while(
    condition: array, while_body: Callable[..., object] | Graph, stream: Stream | None = None, **kwargs: Any
) -> None:
    """Repeats a function or graph as long as an element of an array is not 0; on a GPU the host waits for the element
    before each iteration.

    Parameters:
        condition: an array (1,) of int32, which the work eventually sets to 0.
        while_body: a function, or a graph.
        stream: the stream of a CUDA device to which the work is submitted; this thread's stream by default.
        **kwargs: the arguments of the function.
    Raises:
        TypeError: `condition` is not an array (1,) of int32.
        launch: launches are being recorded: a graph has no loops.
        RuntimeError: an error of kernels in the stream (tg.RunError).
    Gradient:
        of the launches of the function, recorded by tapes.
    """
    while _is_true(condition, stream, "capture_while"):
        _run_work(while_body, stream, kwargs)


def _is_true(condition: Any, stream: Stream | None, name: str) -> bool:
    if type(condition) is not array or condition.dtype != int32 or condition.size != 1:
        raise TypeError(f"{name}: the condition must be an array of one int32, got {_type_text(condition)}")
    if condition.device.is_cpu:
        return bool(condition.numpy().any())
    from tegula.runtime.cuda.graph import recording
    from tegula.runtime.cuda.stream import ScopedStream

    if recording.active:
        help = "record the work before and after as separate graphs, and branch between their launches"
        raise LaunchError(f"{name}: launches are being recorded, and a graph has no branches or loops", help)
    if stream is None:
        return bool(condition.numpy().any())
    with ScopedStream(stream):
        return bool(condition.numpy().any())


def _type_text(x: Any) -> str:
    return f"shape {x.shape} of {x.dtype}" if type(x) is array else f"a value of type {type(x).__name__}"


def _run_work(work: Any, stream: Stream | None, kwargs: dict[str, Any]) -> None:
    if callable(work):
        if stream is None:
            work(**kwargs)
            return
        from tegula.runtime.cuda.stream import ScopedStream

        with ScopedStream(stream):
            work(**kwargs)
        return
    from tegula.runtime.cuda.graph import Graph, capture_launch

    if not isinstance(work, Graph):
        raise TypeError(f"expected a function or a graph, got {type(work).__name__}")
    capture_launch(work, stream)
