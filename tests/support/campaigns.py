"""Parameter sets of tests with many programs or all combinations: which run by default, in slow tests and in
campaigns."""

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
    """Mark all but every EVERY-th slow parameter set of a test as campaigns."""
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
    """The first parameter set of each test, and one in `every` of the others, chosen by the checksum of the name: a
    constant step could always choose the same value of a second parameter."""
    first_of_test: set[tuple[Path, str]] = set()
    sampled_items = []
    for item in items:
        test_key = item.path, item.nodeid.partition("[")[0]
        if test_key not in first_of_test or zlib.crc32(item.nodeid.encode()) % every == 0:
            sampled_items.append(item)
        first_of_test.add(test_key)
    return sampled_items


def chunks(parameter_sets: Iterable[Any], slow: int = 1) -> list[Any]:
    """The parameter sets of a test: the first `slow` are slow tests, the others are campaigns."""
    return [
        pytest.param(parameters, marks=pytest.mark.slow if k < slow else pytest.mark.campaign)
        for k, parameters in enumerate(parameter_sets)
    ]


def sampled(
    every: int, names: str | Sequence[str], parameter_sets: Iterable[Any], slow: int = EVERY, **options: Any
) -> pytest.MarkDecorator:
    """The mark `pytest.mark.parametrize` with these parameter sets. Of the sets that are not marked as slow, every
    `every`-th set, from the first on, is in the default run; of the other sets, every `slow`-th is a slow test."""
    has_several_names = not isinstance(names, str) or "," in names
    result, sampled_indices = [], count()
    for parameters in parameter_sets:
        values = (
            parameters
            if isinstance(parameters, ParameterSet)
            else pytest.param(*parameters)
            if has_several_names
            else pytest.param(parameters)
        )
        is_marked = any(mark.name in ("slow", "campaign") for mark in values.marks)
        marks = [] if is_marked or next(sampled_indices) % every == 0 else [pytest.mark.slow(every=slow)]
        result.append(pytest.param(*values.values, id=values.id, marks=[*values.marks, *marks]))
    return pytest.mark.parametrize(names, result, **options)


def slow_except(long_sets: Collection[Any], parameter_sets: Iterable[Any], slow: int = EVERY) -> list[Any]:
    """The parameter sets of a test; the sets in `long_sets` are slow tests."""
    slow_mark = pytest.mark.slow(every=slow)
    return [
        pytest.param(parameters, marks=slow_mark if parameters in long_sets else ())
        for parameters in parameter_sets
    ]


def latin_part(parameter_sets: Sequence[T], row: int, part: int) -> Iterator[T]:
    """One of PARTS parts of a row of a table, shifted between rows, so that each part has cases of each row and of each
    column."""
    return (parameters for k, parameters in enumerate(parameter_sets) if (k - row - part) % PARTS == 0)


def rest_slow(
    parameter_sets: Iterable[tuple[Any, ...]],
    now: Callable[..., bool],
    slow: Callable[..., bool] = lambda *parameters: True,
) -> list[Any]:
    """The parameter sets of a test: sets for which `now` holds are in the default run, sets for which `slow` holds are
    slow tests, other sets are campaigns."""

    def marks(parameters: tuple[Any, ...]) -> list[pytest.MarkDecorator]:
        if now(*parameters):
            return []
        return [pytest.mark.slow if slow(*parameters) else pytest.mark.campaign]

    return [pytest.param(*parameters, marks=marks(parameters)) for parameters in parameter_sets]
