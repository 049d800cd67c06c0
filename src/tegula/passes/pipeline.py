"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tegula.dataclass import dataclass
from tegula.errors import CompileError, CompileErrors
from tegula.ir import Kernel
from tegula.passes.assign_layouts import Layouts, assign_layouts
from tegula.passes.combine_blocks import combine_blocks
from tegula.passes.complete_products import complete_products
from tegula.passes.contract_fma import contract_fma
from tegula.passes.convert_layouts import convert_layouts
from tegula.passes.delay_releases import delay_releases
from tegula.passes.delay_waits import delay_waits
from tegula.passes.insert_barriers import insert_barriers
from tegula.passes.lower_pipes import lower_pipes
from tegula.passes.lower_tiles import WARP, lower_tiles
from tegula.passes.pipeline_loops import pipeline_loops
from tegula.passes.place_shared import SharedMemory, place_shared
from tegula.passes.promote_buffers import promote_buffers
from tegula.passes.release_stages import release_stages
from tegula.passes.select_products import keep_left_operands, select_products
from tegula.passes.simplify import simplify
from tegula.passes.sink_conversions import sink_conversions
from tegula.passes.split_lanes import split_lanes
from tegula.passes.stage_stores import stage_stores
from tegula.passes.uniform_operands import uniform_operands
from tegula.passes.uniformity import Uniformity, analyse, check_cooperation
from tegula.target import CudaTarget
from tegula.verify import verify

Observer = Callable[[str, Kernel], None]


def check(kernel: Kernel) -> None:
    """Errors for cooperative ops that only some threads of a block reach."""
    verify(kernel)
    _raise(check_cooperation(kernel, analyse(kernel)))


def prepare(kernel: Kernel, observe: Observer | None = None) -> None:
    """What every target shares: cooperation is checked, objects become values, popped tiles are released, arithmetic is
    simplified and fused."""
    check(kernel)
    promote_buffers(kernel)
    _seen("promote_buffers", kernel, observe)
    _raise(release_stages(kernel))
    _seen("release_stages", kernel, observe)
    for step in (simplify, contract_fma):
        step(kernel)
        _seen(step.__name__, kernel, observe)


def for_cpu(kernel: Kernel, observe: Observer | None = None) -> Uniformity:
    """Products are complete at once, reads copy nothing; lane-varying code is gathered into lane loops."""
    for step in (complete_products, delay_releases):
        step(kernel)
        _seen(step.__name__, kernel, observe)
    return gather_lanes(kernel, observe)


def gather_lanes(kernel: Kernel, observe: Observer | None = None) -> Uniformity:
    """Lane-varying code is gathered into lane loops."""
    known = analyse(kernel)
    _raise(split_lanes(kernel, known))
    _seen("split_lanes", kernel, observe)
    return known


@dataclass(slots=True)
class Distribution:
    """A kernel spread over the threads of a GPU block: uniformity, the layouts of tile values, shared memory,
    the number of threads."""

    known: Uniformity
    layouts: Layouts
    shared: SharedMemory
    threads: int


def for_gpu(
    kernel: Kernel, target: CudaTarget, observe: Observer | None = None, debug: bool = False
) -> Distribution:
    """Short blocks are combined, except for `debug`, whose reports tell blocks apart; lane-varying code is gathered,
    tiles are spread over the threads, and barriers order what they share."""
    if not debug:
        combine_blocks(kernel)
        _seen("combine_blocks", kernel, observe)
    known = gather_lanes(kernel, observe)
    threads = -(-kernel.launch.block_dim // WARP) * WARP
    uniform_operands(kernel, known)
    _seen("uniform_operands", kernel, observe)
    sink_conversions(kernel)
    _seen("sink_conversions", kernel, observe)
    keep_left_operands(kernel, target, threads)
    lower_tiles(kernel, threads)
    _seen("lower_tiles", kernel, observe)
    pipeline_loops(kernel)
    _seen("pipeline_loops", kernel, observe)
    select_products(kernel, target, threads)
    delay_waits(kernel)
    lower_pipes(kernel, target, threads)
    _seen("lower_pipes", kernel, observe)
    layouts = assign_layouts(kernel, threads)
    convert_layouts(kernel, layouts, threads)
    _seen("convert_layouts", kernel, observe)
    stage_stores(kernel, target, layouts, threads)
    _seen("stage_stores", kernel, observe)
    shared = place_shared(kernel)
    insert_barriers(kernel, layouts, shared.places)
    _seen("insert_barriers", kernel, observe)
    return Distribution(known, layouts, shared, threads)


def _raise(errors: Sequence[CompileError]) -> None:
    if errors:
        raise errors[0] if len(errors) == 1 else CompileErrors(errors)


def _seen(name: str, kernel: Kernel, observe: Observer | None) -> None:
    try:
        verify(kernel)
    except Exception as error:
        error.add_note(f"after pass {name}")
        raise
    if observe is not None:
        observe(name, kernel)
