"""Lowered kernels have the kernels' results with the fewest barriers: without any one barrier, threads race."""

from __future__ import annotations

import pytest
from lowering import agrees, barriers, lowered, run_lowered

import kernels
from support.campaigns import sampled
from tegula.interp import DataRace
from tegula.passes import place_shared

LAUNCHES = kernels.launches()
COUNTS = {
    "row_sum": 1,
    "softmax": 2,
    "gemm": 2,
    "gemm_ahead": 1,
    "gemm_rows_ahead": 2,
    "transposed": 1,
    "scan": 1,
    "argmin": 1,
    "stack": 5,
    "gather": 1,
    "lanes_and_tiles": 1,
    "scattered_updates": 2,
    "mixed_updates": 3,
    "views_of_lanes": 2,
    "tree": 2,
    "stored_then_loaded": 3,
    "pipelined": 0,
    "broadcast_elements": 2,
    "sequential_transposes": 3,
    "atomic_tickets": 1,
    "concatenated": 1,
    "in_place": 1,
    "stores_on_a_grid": 0,
    "overlapping_stores": 1,
    "register_to_shared": 3,
    "register_into_shared": 3,
    "shared_into_register": 3,
    "mixed": 3,
}
"""Barriers if every buffer has its own bytes."""
TIGHT = {"softmax": 3, "broadcast_elements": 3} | {k.name: 4 for k in kernels.ASSIGNED}
"""The numbers of barriers that are larger where buffers share bytes."""


def test_barrier_counts_cover_all_kernels() -> None:
    assert set(LAUNCHES) == set(COUNTS)


@sampled(2, "name", COUNTS)
def test_kernels_have_the_expected_number_of_barriers(name: str, memory: str) -> None:
    kernel, _ = agrees(LAUNCHES[name])
    actual = barriers(kernel)
    expected = TIGHT.get(name, COUNTS[name]) if memory == "tight" else COUNTS[name]
    assert len(actual) == expected
    assert all(b.attrs["reason"] for b in actual)


@pytest.mark.parametrize("name", [name for name, n in COUNTS.items() if n])
def test_kernels_race_without_any_one_barrier(name: str, memory: str) -> None:
    kernel, compilation = lowered(LAUNCHES[name])
    for barrier in barriers(kernel):
        region = barrier.parent
        assert region is not None
        position = region.ops.index(barrier)
        region.ops.remove(barrier)
        with pytest.raises(DataRace):
            run_lowered(kernel, compilation, LAUNCHES[name])
        region.ops.insert(position, barrier)


def test_large_buffers_reuse_shared_memory() -> None:
    _, compilation = lowered(LAUNCHES["sequential_transposes"])
    first, second = compilation.shared.allocations.values()
    assert first.offset < second.offset + second.size and second.offset < first.offset + first.size


def test_rows_of_staged_operands_are_padded() -> None:
    """Eight rows that a matmul reads together fall on different banks."""
    _, compilation = lowered(LAUNCHES["gemm_ahead"])
    rows = [
        2 * allocation.strides[1]
        for allocation in compilation.shared.allocations.values()
        if len(allocation.strides) == 3
    ]
    assert rows == [48, 48]


@pytest.mark.parametrize("block_dim", [1, 32, 33, 100])
@sampled(3, "name", ["row_sum", "softmax", "gemm", "transposed", "scan", "argmin", "gather"])
def test_lowered_kernels_of_other_block_sizes_match_the_interpreter(
    name: str, block_dim: int, memory: str
) -> None:
    launch = LAUNCHES[name]
    agrees(kernels.tiled(launch.kernel, launch.args, launch.dims[:-1], block_dim))


def test_small_buffers_do_not_reuse_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exchange of one reduction need not wait for the readers of the previous one."""
    monkeypatch.setattr(place_shared, "NO_REUSE_BYTES", 0)
    kernel, _ = agrees(LAUNCHES["softmax"])
    assert len(barriers(kernel)) == COUNTS["softmax"]
