"""The choice of the size of logical blocks for the grid of a launch on a GPU (`passes.specialise.scale_blocks`).

The costs of all sizes depend on the kernel alone, and are computed once. The choice depends on the grid, and only the
choice is part of the key of compiled code, so that launches of many grids share a few forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.backend.cache import Entry
from tegula.dataclass import replace
from tegula.ir import MatmulLike, Scale
from tegula.lang.captures import unchanged
from tegula.runtime.config import config
from tegula.runtime.store import disk_cache

if TYPE_CHECKING:
    from tegula.ir import Kernel as KernelIR
    from tegula.passes.specialise import BlockCosts
    from tegula.runtime.kernel import Kernel, Specialisation
    from tegula.target import CudaTarget


def with_scale(kernel: Kernel, requested: Specialisation) -> Specialisation:
    """The specialisation of a launch with the scale for its grid instead of the grid."""
    if not requested.grid:
        return requested
    any_grid = replace(requested, grid=())
    scale = _costs(kernel, any_grid).best(requested.grid, requested.device.sm_count)
    return replace(any_grid, launch=replace(requested.launch, scale=scale))


def scale_for(kernel: KernelIR, target: CudaTarget, grid: Sequence[int], multiprocessors: int) -> Scale:
    """The scale of a prepared kernel for a grid."""
    from tegula.passes.specialise import block_costs

    return block_costs(kernel, target).best(grid, multiprocessors)


def _costs(kernel: Kernel, requested: Specialisation) -> BlockCosts:
    """The costs of a kernel's blocks, from memory if the kernel's captures are unchanged."""
    known = kernel.block_costs.setdefault((requested, config.code), [])
    for captured, costs in known:
        if all(map(unchanged, captured)):
            return costs
    from tegula.runtime.compile import trace

    traced = trace(kernel, requested.types, requested.launch, requested.access)
    known.append((traced.captured, _costs_of(traced, requested.device.ordinal)))
    return known[-1][1]


def _costs_of(traced: KernelIR, ordinal: int) -> BlockCosts:
    """The costs of a traced kernel's blocks, from the disk cache if present."""
    from tegula.passes.pipeline import prepare
    from tegula.passes.specialise import BlockCosts, block_costs
    from tegula.runtime.compile import cache_text
    from tegula.runtime.cuda.context import target

    made_for, store, debug = target(ordinal), disk_cache(), config.mode == "debug"
    if debug or not any(isinstance(op, MatmulLike) for op in traced.walk()):
        return BlockCosts()
    name = "" if store is None else store.key([cache_text(traced, debug), made_for.key, "block costs"])
    entry = None if store is None else store.get(name)
    if entry is not None:
        return BlockCosts.from_json(entry.metadata)
    prepare(traced)
    costs = block_costs(traced, made_for)
    if store is not None:
        store.put(name, Entry(costs.json(), b""))
    return costs
