"""Tests of many programs or of all pairs: the parts for the default run, for slow tests and for campaigns."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

T = TypeVar("T")
PARTS = 5
EVERY = 12
"""Every twelfth slow parameter set of a test is among the slow tests; `slow(every=...)` sets another interval."""


def leave_to_campaigns(items: Iterable[pytest.Item]) -> None:
    """Mark all other slow parameter sets as campaigns."""
    counts_by_test: Counter[tuple[Path, str]] = Counter()
    for item in items:
        slow, name = item.get_closest_marker("slow"), getattr(item, "originalname", "")
        if slow is None or item.get_closest_marker("campaign") is not None:
            continue
        position = counts_by_test[item.path, name]
        counts_by_test[item.path, name] += 1
        if position % slow.kwargs.get("every", EVERY):
            item.add_marker("campaign")


def sample_parameter_sets(items: Iterable[pytest.Item], every: int) -> list[pytest.Item]:
    """The first parameter set of each test, and of the others one of `every`, chosen by their names' checksum: in equal
    steps one value of a second parameter would be chosen each time."""
    first_of_test: set[tuple[Path, str]] = set()
    sampled_items = []
    for item in items:
        test_key = item.path, item.nodeid.partition("[")[0]
        if test_key not in first_of_test or zlib.crc32(item.nodeid.encode()) % every == 0:
            sampled_items.append(item)
        first_of_test.add(test_key)
    return sampled_items


def chunks(parameter_sets: Iterable[Any], slow: int = 1) -> list[Any]:
    """The parameters of such a test, of which the first `slow` are slow tests."""
    return [
        pytest.param(parameters, marks=pytest.mark.slow if k < slow else pytest.mark.campaign)
        for k, parameters in enumerate(parameter_sets)
    ]


def sampled(
    every: int, names: str | Sequence[str], parameter_sets: Iterable[Any], slow: int = EVERY, **more: Any
) -> pytest.MarkDecorator:
    """Parameters of a test as `pytest.mark.parametrize` takes them: of the sets that are not marked as slow, each
    `every`-th set, from the first on, is in the default run, and each `slow`-th of the other sets is a slow test."""
    several = not isinstance(names, str) or "," in names
    result, sampled_indices = [], count()
    for parameters in parameter_sets:
        values = (
            parameters
            if isinstance(parameters, ParameterSet)
            else pytest.param(*parameters)
            if several
            else pytest.param(parameters)
        )
        held_back = any(mark.name in ("slow", "campaign") for mark in values.marks)
        marks = [] if held_back or next(sampled_indices) % every == 0 else [pytest.mark.slow(every=slow)]
        result.append(pytest.param(*values.values, id=values.id, marks=[*values.marks, *marks]))
    return pytest.mark.parametrize(names, result, **more)


def slow_except(long: Collection[Any], parameter_sets: Iterable[Any], slow: int = EVERY) -> list[Any]:
    """Parameters of a test, of which the parameters in `long` take long and are slow tests."""
    marks = pytest.mark.slow(every=slow)
    return [
        pytest.param(parameters, marks=marks if parameters in long else ()) for parameters in parameter_sets
    ]


def latin_part(parameter_sets: Sequence[T], row: int, number: int) -> Iterator[T]:
    """One of PARTS parts of the cases in each row of a table, shifted between rows, so that one part has cases of each
    row and of each column."""
    return (parameters for k, parameters in enumerate(parameter_sets) if (k - row - number) % PARTS == 0)


def rest_slow(
    parameter_sets: Iterable[tuple[Any, ...]],
    now: Callable[..., bool],
    slow: Callable[..., bool] = lambda *one: True,
) -> list[Any]:
    """Parameters of a test: sets for which `now` holds are in the default run, sets for which `slow` holds are slow
    tests, other sets are campaigns."""

    def marks(one: tuple[Any, ...]) -> list[pytest.MarkDecorator]:
        if now(*one):
            return []
        return [pytest.mark.slow if slow(*one) else pytest.mark.campaign]

    return [pytest.param(*parameters, marks=marks(parameters)) for parameters in parameter_sets]
