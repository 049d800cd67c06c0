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


def with_scale(kernel: Kernel, specialisation: Specialisation) -> Specialisation:
    """The specialisation of a launch with the scale for its grid instead of the grid."""
    if not specialisation.grid:
        return specialisation
    any_grid = replace(specialisation, grid=())
    scale = _costs(kernel, any_grid).best(specialisation.grid, specialisation.device.sm_count)
    return replace(any_grid, launch=replace(specialisation.launch, scale=scale))


def scale_for(kernel: KernelIR, target: CudaTarget, grid: Sequence[int], multiprocessors: int) -> Scale:
    """The scale of a prepared kernel for a grid."""
    from tegula.passes.specialise import block_costs

    return block_costs(kernel, target).best(grid, multiprocessors)


def _costs(kernel: Kernel, specialisation: Specialisation) -> BlockCosts:
    """The costs of a kernel's blocks; costs in memory are reused if the kernel's captures are unchanged."""
    cached = kernel.block_costs.setdefault((specialisation, config.code), [])
    for captured, costs in cached:
        if all(map(unchanged, captured)):
            return costs
    from tegula.runtime.compile import trace

    device = specialisation.device
    traced = trace(kernel, specialisation.types, specialisation.launch, specialisation.access, device)
    cached.append((traced.captured, _costs_of(traced, device.ordinal)))
    return cached[-1][1]


def _costs_of(traced: KernelIR, ordinal: int) -> BlockCosts:
    """The costs of a traced kernel's blocks, from the disk cache if present."""
    from tegula.passes.pipeline import prepare
    from tegula.passes.specialise import BlockCosts, block_costs
    from tegula.runtime.compile import cache_text
    from tegula.runtime.cuda.context import target

    device_target, store, debug = target(ordinal), disk_cache(), config.mode == "debug"
    if debug or not any(isinstance(op, MatmulLike) for op in traced.walk()):
        return BlockCosts()
    name = "" if store is None else store.key([cache_text(traced, debug), device_target.key, "block costs"])
    entry = None if store is None else store.get(name)
    if entry is not None:
        return BlockCosts.from_json(entry.metadata)
    prepare(traced)
    costs = block_costs(traced, device_target)
    if store is not None:
        store.put(name, Entry(costs.json(), b""))
    return costs
