"""The layout algebra: elements have owners, reductions and broadcasts agree with brute force, equal maps are equal."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tegula.layout import (
    COPY,
    Layout,
    Mode,
    bank_conflicts,
    blocked,
    fma_result,
    mma_result,
    over_grid,
    over_lanes,
    replicated,
)

EXTENTS = st.sampled_from([1, 2, 3, 5, 8, 16, 20, 33])
THREADS = st.sampled_from([32, 64, 96, 128])


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    threads = draw(THREADS)
    kind = draw(st.sampled_from(["blocked", "lanes", "replicated", "rows", "mma", "fma"]))
    if kind in ("mma", "fma"):
        shape = (draw(EXTENTS), draw(EXTENTS))
        return mma_result(shape, threads // 32) if kind == "mma" else fma_result(shape, threads, 4)
    if kind == "rows":
        return over_grid((draw(EXTENTS), draw(EXTENTS)), (threads, 1), threads)
    shape = tuple(draw(EXTENTS) for _ in range(draw(st.integers(1, 2))))
    if kind == "lanes":
        return over_lanes((*shape[:-1], threads), threads)
    if kind == "replicated":
        return replicated(shape[:2], threads)
    return blocked(shape, threads, draw(st.sampled_from([1, 2, 4, 8])))


@settings(max_examples=60)
@given(layouts())
def test_each_element_of_a_layout_has_the_declared_number_of_owners(layout: Layout) -> None:
    owners = layout.owners()
    copies = prod(m.size for m in layout.threads if m.dim == COPY)
    assert len(owners) == prod(layout.shape)
    assert {len(owner_list) for owner_list in owners.values()} == {copies}
    assert layout.owns_once == (copies == 1)


@settings(max_examples=40)
@given(layouts(), st.data())
def test_a_reduction_leaves_copies_in_all_threads_that_shared_a_row(
    layout: Layout, data: st.DataObject
) -> None:
    axis = data.draw(st.integers(0, len(layout.shape) - 1))
    reduced_layout, owners = layout.without((axis,), keepdims=True), layout.owners()
    for index, owner_list in reduced_layout.owners().items():
        assert index[axis] == 0
        threads = {t for t, _ in owner_list}
        for i in range(layout.shape[axis]):
            element = (*index[:axis], i, *index[axis + 1 :])
            assert {t for t, _ in owners[element]} <= threads


@settings(max_examples=40)
@given(layouts(), st.data())
def test_parts_of_a_layout_cover_each_element_once(layout: Layout, data: st.DataObject) -> None:
    """Each warp reduces its elements; then each thread reads all parts. A part starts at the coordinates of its
    base."""
    axis = data.draw(st.one_of(st.none(), st.integers(0, len(layout.shape) - 1)))
    partial_layout, total_parts, bases = layout.parts(axis)
    index, owners = axis or 0, layout.owners()
    assert partial_layout.shape == total_parts.shape and partial_layout.shape[index] == len(bases)
    assert len(partial_layout.owners()) == prod(partial_layout.shape)
    lanes_of: dict[int, set[int]] = {}
    for coordinates, part_owners in partial_layout.owners().items():
        lanes_of.setdefault(coordinates[index], set()).update(t // 32 for t, _ in part_owners)
    for part, base in enumerate(bases):
        if all(i < n for i, n in zip(base, layout.shape, strict=True)):
            assert any(t // 32 in lanes_of[part] for t, _ in owners[base])


def linear_index(coordinates: tuple[int, ...], shape: tuple[int, ...]) -> int | None:
    """The index of an element in row-major order; None outside the tile."""
    if any(i >= n for i, n in zip(coordinates, shape, strict=True)):
        return None
    return sum(i * prod(shape[d + 1 :]) for d, i in enumerate(coordinates))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(layouts(), st.data())
def test_reshaped_layouts_keep_the_elements_of_each_thread(layout: Layout, data: st.DataObject) -> None:
    size = prod(layout.shape)
    rows = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    reshaped = layout.reshaped((rows, size // rows))
    for thread in range(layout.thread_count if reshaped is not None else 0):
        for register in range(layout.register_count):
            assert reshaped is not None
            before, after = (x.coordinates(thread, register) for x in (layout, reshaped))
            assert linear_index(before, layout.shape) == linear_index(after, reshaped.shape)


def test_layouts_in_row_major_order_reshape_to_any_shape_of_whole_runs() -> None:
    assert blocked((32, 32), 32, 4).reshaped((1024,)) == blocked((1024,), 32, 4)
    assert blocked((1024,), 128, 4).reshaped((8, 4, 32)) == blocked((8, 4, 32), 128, 4)
    assert Layout((40,), (Mode(5, 0),), (Mode(8, 0, 5),)).reshaped((8, 5)) == Layout(
        (8, 5), (Mode(5, 1),), (Mode(8, 0),)
    )
    assert blocked((20, 7), 64, 1).reshaped((140,)) is None


@given(layouts())
def test_permuting_the_dimensions_of_a_layout_twice_restores_the_layout(layout: Layout) -> None:
    order = tuple(reversed(range(len(layout.shape))))
    permuted = layout.permuted(order)
    assert permuted.permuted(order) == layout
    assert permuted.coordinates(5, 0) == layout.coordinates(5, 0)[::-1]


def test_layouts_with_equal_maps_are_equal() -> None:
    a = Layout((8, 4), (Mode(2, 1), Mode(2, 1, 2), Mode(1, 0)), (Mode(4, 0), Mode(2, 0, 4), Mode(4, COPY)))
    b = Layout((8, 4), (Mode(4, 1),), (Mode(8, 0), Mode(2, COPY), Mode(2, COPY)))
    assert a == b and a.vector == 4


@pytest.mark.parametrize(("rows", "columns"), [(128, 32), (128, 64), (32, 128), (64, 256)])
def test_padded_rows_of_16_bit_operands_have_no_bank_conflicts(rows: int, columns: int) -> None:
    """Eight threads that each name a row of 16 bytes, as ldmatrix does, and the copies that fill the rows."""
    stride = columns + 8
    matrix = Layout((rows, columns), (Mode(8, 1),), (Mode(8, 0), Mode(4, 1, 8)))
    assert bank_conflicts(matrix, (stride, 1), 2, 8) == 1
    assert bank_conflicts(matrix, (columns, 1), 2, 8) > 1
    assert bank_conflicts(blocked((rows, columns), 128, 8), (stride, 1), 2, 8) == (1 if columns >= 64 else 2)
