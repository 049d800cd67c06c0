"""Facts about layouts that barriers and the race check use, compared with an enumeration of threads and registers."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tegula.interp.holders import held_elements, parts
from tegula.layout import (
    Layout,
    blocked,
    canonical_distribution,
    fma_result,
    mma_result,
    over_grid,
    over_lanes,
    replicated,
)


@st.composite
def layouts(draw: st.DrawFn, rank: int | None = None) -> Layout:
    rank = rank or draw(st.integers(1, 3))
    max_extent = 8 if rank == 3 else 20
    shape = tuple(draw(st.lists(st.integers(1, max_extent), min_size=rank, max_size=rank)))
    threads = draw(st.sampled_from([32, 64, 96]))
    constructors = [
        lambda: blocked(shape, threads, draw(st.sampled_from([1, 2, 4]))),
        lambda: over_lanes((*shape[:-1], min(shape[-1], threads)), threads),
        lambda: replicated(shape, threads),
        lambda: over_grid(shape, (threads, *(1 for _ in shape[1:])), threads),
    ]
    if len(shape) == 2:
        constructors += [lambda: mma_result(shape, threads // 32), lambda: fma_result(shape, threads, 4)]
    return draw(st.sampled_from(constructors))()


def elements(layout: Layout, owners: bool) -> dict[int, set[tuple[int, ...]]]:
    """The elements that each thread holds, or with `owners` the elements whose first holder it is."""
    by_owner: dict[int, set[tuple[int, ...]]] = {}
    for index, pairs in layout.owners().items():
        threads = {t for t, _ in pairs}
        for t in {min(threads)} if owners else threads:
            by_owner.setdefault(t, set()).add(index)
    return by_owner


@given(layouts(), st.integers(0, 2), st.sampled_from(["flat", "leading", "trailing"]))
def test_reshaped_layouts_hold_the_same_elements(layout: Layout, ones: int, kind: str) -> None:
    size = prod(layout.shape)
    shapes = {
        "flat": (*(1,) * ones, size),
        "leading": (*(1,) * ones, *layout.shape),
        "trailing": (*layout.shape, *(1,) * ones),
    }
    reshaped = layout.reshaped(shapes[kind])
    if reshaped is None:
        assert any(layout.padded(d) for d in range(len(layout.shape)))
        return
    before, after = (
        {t: {int(np.ravel_multi_index(i, x.shape)) for i in at} for t, at in elements(x, False).items()}
        for x in (layout, reshaped)
    )
    assert before == after


def test_padded_rows_are_reshaped_to_vectors_and_back() -> None:
    vector = over_grid((1009,), (128,), 128)
    row = vector.reshaped((1, 1009))
    assert row is not None and row.reshaped((1009,)) == vector
    assert over_grid((3, 1009), (1, 128), 128).reshaped((3027,)) is None


@given(layouts())
def test_layouts_state_the_holders_of_elements(layout: Layout) -> None:
    pairs = held_elements(layout)
    holders: dict[int, set[tuple[int, ...]]] = {}
    for thread, *index in zip(pairs.threads.tolist(), *pairs.at.tolist(), strict=True):
        holders.setdefault(thread, set()).add(tuple(index))
    assert holders == elements(layout, False)
    owned = pairs.owned
    owners: dict[int, set[tuple[int, ...]]] = {}
    for thread, *index in zip(owned.threads.tolist(), *owned.at.tolist(), strict=True):
        owners.setdefault(thread, set()).add(tuple(index))
    assert owners == elements(layout, True)


@given(st.data(), st.integers(1, 3))
def test_equal_parts_of_layouts_give_threads_the_same_elements(data: st.DataObject, rank: int) -> None:
    a, b = data.draw(layouts(rank)), data.draw(layouts(rank))
    for first in (False, True):
        for second in (False, True):
            if canonical_distribution(a, first) == canonical_distribution(b, second) and a.shape == b.shape:
                assert elements(a, first) == elements(b, second)
        permuted = Layout(a.shape, a.registers[::-1], a.threads)
        assert canonical_distribution(a, first) == canonical_distribution(permuted, first)


@given(layouts(), st.data())
def test_parts_of_reductions_belong_to_warps(layout: Layout, data: st.DataObject) -> None:
    axis = data.draw(st.sampled_from([None, *range(len(layout.shape))]))
    actual = parts(layout, axis)
    bases = layout.parts(axis)[2]
    warps: dict[tuple[int, ...], set[int]] = {}
    for index, pairs in layout.owners().items():
        row = tuple(i for d, i in enumerate(index) if axis is not None and d != axis)
        warps.setdefault((*row, actual[index]), set()).add(min(t for t, _ in pairs) // 32)
    assert all(len(threads) == 1 for threads in warps.values())
    assert actual.max(initial=0) < len(bases)
