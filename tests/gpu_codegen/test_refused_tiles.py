"""Tiles that do not fit a block or a thread of a GPU are refused before code is generated; checks of promises in debug
mode are code that LLVM accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_code import SPECIALISATIONS, overlaps, plan, specialisation, trace

import tegula as tg
from tegula.errors import SharedMemoryExceeded, TileTooLarge
from tegula.passes.pipeline import prepare
from tegula.runtime.automatic import Built, build
from tegula.target import get_cuda_target


def built(kernel: Any, shapes: list[tuple[int, ...]], block_dim: int, debug: bool = False) -> Built:
    """A launch of one block with float32 arrays, compiled for sm_90a."""
    arrays = [tg.array(np.zeros(shape, np.float32)) for shape in shapes]
    leaves = [SPECIALISATIONS[pack(a)[0]] for pack, a in zip(kernel.packers, arrays, strict=True)]
    form = specialisation(leaves, plan((1, block_dim), block_dim).launch, overlaps(tuple(arrays)))
    traced_kernel = trace(kernel, form.types, form.launch, form.access)
    prepare(traced_kernel)
    return build(traced_kernel, get_cuda_target("sm_90a"), debug)


@tg.kernel
def copied_by_shared_memory(a: tg.array2d[float], out: tg.array2d[float]):
    t = tg.tile_load(a, shape=(8192, 8192), storage="shared")
    t[0, 0] = 1.0
    tg.tile_store(out, t)


@tg.kernel
def doubled_in_registers(a: tg.array2d[float], out: tg.array2d[float]):
    tg.tile_store(out, 2.0 * tg.tile_load(a, shape=(360, 360)))


def test_a_shared_tile_of_67_million_elements_is_refused_before_code_is_generated() -> None:
    with pytest.raises(SharedMemoryExceeded, match=r"but sm_90a has 232,448"):
        built(copied_by_shared_memory, [(8, 8), (8, 8)], 64)


def test_a_tile_that_fills_the_registers_of_a_thread_many_times_is_refused() -> None:
    with pytest.raises(TileTooLarge, match=r"a thread's part of a tile .* more than 1,024") as caught:
        built(doubled_in_registers, [(8, 8), (8, 8)], 64)
    assert "use more threads" in caught.value.help


@tg.kernel
def promises(a: tg.array2d[float], out: tg.array2d[float]):
    i, _ = tg.tid()
    t = tg.tile_load(a, shape=(4, 8), offset=(4 * i, 0), bounds_check=False)
    packed = tg.tile_load(a, shape=(4, 8), offset=(4 * i + 4, 0), aligned=True)
    tg.tile_store(out, t + packed, offset=(4 * i, 0), aligned=True)
    tg.tile_atomic_add(out, t, offset=(4 * i, 0), bounds_check=False)


@pytest.mark.parametrize("block_dim", [8, 32, 128])
def test_promises_are_checked_in_debug_mode(block_dim: int) -> None:
    """The first lane checks; accesses of all lanes follow, which need what is known of bounds again."""
    sites = built(promises, [(16, 8), (16, 8)], block_dim, debug=True).code.sites
    assert [s.kind for s in sites].count("tile bounds") == 4
