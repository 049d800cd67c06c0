"""Calls at the end of a chunk of Python's stack map no memory."""

from __future__ import annotations

from resource import RUSAGE_SELF, getrusage
from threading import Thread

from tegula.python_stack import on_long_stack

DEPTHS, CALLS = 400, 100


def _callee() -> None:
    pass


def _call_at(depth: int) -> int:
    """The page faults of many calls at a depth."""
    if depth:
        return _call_at(depth - 1)
    before = getrusage(RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        _callee()
    return getrusage(RUSAGE_SELF).ru_minflt - before


def _most_faults() -> int:
    return max(_call_at(depth) for depth in range(DEPTHS))


def test_calls_at_any_depth_map_no_memory() -> None:
    results: list[int] = []
    for function in (_most_faults, on_long_stack(_most_faults)):
        thread = Thread(target=lambda f=function: results.append(f()))  # whose stack is empty
        thread.start()
        thread.join()
    assert results[0] >= CALLS, "Python's stack has no short chunks any more"
    assert results[1] < CALLS // 2
