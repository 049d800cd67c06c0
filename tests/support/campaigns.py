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
"""Of the slow parameter sets of a test each twelfth is among the slow tests, or as `slow(every=...)` says."""


def leave_to_campaigns(items: Iterable[pytest.Item]) -> None:
    """Mark all other slow parameter sets as campaigns."""
    places: Counter[tuple[Path, str]] = Counter()
    for item in items:
        slow, name = item.get_closest_marker("slow"), getattr(item, "originalname", "")
        if slow is None or item.get_closest_marker("campaign") is not None:
            continue
        place = places[item.path, name]
        places[item.path, name] += 1
        if place % slow.kwargs.get("every", EVERY):
            item.add_marker("campaign")


def sample_parameter_sets(items: Iterable[pytest.Item], every: int) -> list[pytest.Item]:
    """The first parameter set of each test, and of the others one of `every`, chosen by their names' checksum: in equal
    steps one value of a second parameter would be chosen each time."""
    seen: set[tuple[Path, str]] = set()
    kept = []
    for item in items:
        place = item.path, item.nodeid.partition("[")[0]
        if place not in seen or zlib.crc32(item.nodeid.encode()) % every == 0:
            kept.append(item)
        seen.add(place)
    return kept


def chunks(of: Iterable[Any], slow: int = 1) -> list[Any]:
    """The parameters of such a test, of which the first `slow` are slow tests."""
    return [
        pytest.param(one, marks=pytest.mark.slow if k < slow else pytest.mark.campaign)
        for k, one in enumerate(of)
    ]


def sampled(
    every: int, names: str | Sequence[str], of: Iterable[Any], slow: int = EVERY, **more: Any
) -> pytest.MarkDecorator:
    """Parameters of a test as `pytest.mark.parametrize` takes them: of the sets that are not marked as slow, each
    `every`-th set, from the first on, is in the default run, and each `slow`-th of the other sets is a slow test."""
    several = not isinstance(names, str) or "," in names
    result, places = [], count()
    for one in of:
        values = (
            one if isinstance(one, ParameterSet) else pytest.param(*one) if several else pytest.param(one)
        )
        held_back = any(mark.name in ("slow", "campaign") for mark in values.marks)
        marks = [] if held_back or next(places) % every == 0 else [pytest.mark.slow(every=slow)]
        result.append(pytest.param(*values.values, id=values.id, marks=[*values.marks, *marks]))
    return pytest.mark.parametrize(names, result, **more)


def slow_except(long: Collection[Any], of: Iterable[Any], slow: int = EVERY) -> list[Any]:
    """Parameters of a test, of which the parameters in `long` take long and are slow tests."""
    marks = pytest.mark.slow(every=slow)
    return [pytest.param(one, marks=marks if one in long else ()) for one in of]


def latin_part(of: Sequence[T], row: int, number: int) -> Iterator[T]:
    """One of PARTS parts of the cases in each row of a table, shifted between rows, so that one part has cases of each
    row and of each column."""
    return (one for k, one in enumerate(of) if (k - row - number) % PARTS == 0)


def rest_slow(
    of: Iterable[tuple[Any, ...]], now: Callable[..., bool], slow: Callable[..., bool] = lambda *one: True
) -> list[Any]:
    """Parameters of a test: sets for which `now` holds are in the default run, sets for which `slow` holds are slow
    tests, other sets are campaigns."""

    def marks(one: tuple[Any, ...]) -> list[pytest.MarkDecorator]:
        if now(*one):
            return []
        return [pytest.mark.slow if slow(*one) else pytest.mark.campaign]

    return [pytest.param(*one, marks=marks(one)) for one in of]
