"""The memory plan of a block: allocations with overlapping lifetimes have disjoint bytes, other allocations may share
bytes."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.passes.plan_memory import Interval, MemoryMap, concurrent, plan_memory, simultaneously_live
from tegula.source import Location


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    start = draw(st.integers(0, 40))
    branch = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), max_size=2))
    return Interval(
        "t", start, start + draw(st.integers(1, 20)), draw(st.integers(1, 5000)), draw(st.sampled_from((16, 64, 1024))),
        draw(st.sampled_from((0, 320))), branch=tuple(branch),
    )  # fmt: skip


def check(plan: MemoryMap) -> None:
    allocated = list(zip(plan.intervals, plan.offsets, strict=True))
    for i, offset in allocated:
        assert offset % i.align == 0
        assert 0 <= offset <= plan.total - i.size
    for (a, x), (b, y) in combinations(allocated, 2):
        if simultaneously_live(a, b):
            assert x + a.size <= y or y + b.size <= x, (a, x, b, y)


def first_fit_by_size(allocations: list[Interval]) -> int:
    """The total size of a first-fit plan by size."""
    allocated: list[tuple[Interval, int]] = []
    for i in sorted(allocations, key=lambda i: (-i.reserved, i.start)):
        offset = 0
        for neighbour, start in sorted(
            (p for p in allocated if simultaneously_live(p[0], i)), key=lambda p: p[1]
        ):
            if offset + i.reserved <= start:
                break
            offset = max(offset, -(-(start + neighbour.reserved) // i.align) * i.align)
        allocated.append((i, offset))
    return max((offset + i.reserved for i, offset in allocated), default=0)


@settings(max_examples=200, deadline=None)
@given(st.lists(intervals(), max_size=14))
def test_allocations_live_at_once_share_no_bytes(allocations: list[Interval]) -> None:
    plan = plan_memory(allocations)
    check(plan)
    assert plan.total <= sum(i.reserved + i.align for i in allocations)
    assert plan.total <= first_fit_by_size(allocations)


@settings(max_examples=100, deadline=None)
@given(st.lists(intervals(), max_size=10))
def test_a_memory_plan_never_exceeds_the_sum_of_its_allocations(allocations: list[Interval]) -> None:
    unaligned = [Interval("t", i.start, i.end, i.size, branch=i.branch) for i in allocations]
    assert plan_memory(unaligned).total <= sum(i.reserved for i in unaligned)


def test_allocations_with_disjoint_lifetimes_reuse_memory() -> None:
    plan = plan_memory([Interval("a", 0, 2, 128), Interval("b", 2, 4, 128), Interval("c", 3, 9, 64)])
    assert plan.total == 192
    assert plan.offsets[0] == plan.offsets[1]


def test_another_allocation_order_is_tried_where_largest_first_wastes_memory() -> None:
    allocations = [
        *(Interval("a", 0, 4, 128), Interval("b", 3, 7, 128), Interval("c", 6, 10, 64)),
        *(Interval("d", 0, 10, 64), Interval("e", 9, 12, 192)),
    ]
    plan = plan_memory(allocations)
    check(plan)
    assert plan.total == 320


@pytest.mark.parametrize(
    ("a", "b", "is_concurrent"),
    [
        ((), ((0, 1),), False),
        (((0, 0),), ((0, 1),), True),
        (((0, 0),), ((0, 0),), False),
        (((0, 0),), ((1, 1),), False),
        (((0, 0), (1, 0)), ((0, 0), (1, 1)), True),
    ],
)
def test_allocations_of_concurrent_branches_share_no_bytes(a: tuple, b: tuple, is_concurrent: bool) -> None:
    assert concurrent(a, b) is is_concurrent
    shared = plan_memory([Interval("x", 0, 1, 64, branch=a), Interval("y", 5, 6, 64, branch=b)])
    assert shared.total == (128 if is_concurrent else 64)


def test_the_table_of_a_memory_plan_has_names_sizes_and_lines() -> None:
    first, last = Location("k.py", 8), Location("k.py", 13)
    plan = plan_memory([Interval("x", 0, 9, 4096, loc=first, until=last), Interval("y", 1, 2, 64, loc=first)])
    head, x, _ = plan.table()
    assert head.split() == ["offset", "bytes", "lines", "tile"]
    assert x.split() == ["0", "4,096", "8-13", "x"]
    assert [i.name for i in plan.peak()] == ["x", "y"]


def test_padding_separates_neighbouring_allocations() -> None:
    plan = plan_memory([Interval(n, 0, 1, 4096, pad=320) for n in "ab"])
    assert sorted(plan.offsets) == [0, 4096 + 320]


def test_plans_of_many_allocations_take_little_time() -> None:
    allocations = [Interval("t", k, k + 3, 64 * (1 + k % 5)) for k in range(1000)]
    plan = plan_memory(allocations)
    assert plan.total <= 64 * 5 * 3
