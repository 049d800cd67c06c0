"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from tegula.dataclass import dataclass
from tegula.errors import CompileErrors
from tegula.ir import Kernel
from tegula.passes.assign_layouts import Layouts, assign_layouts
from tegula.passes.contract_fma import contract_fma
from tegula.passes.convert_layouts import convert_layouts
from tegula.passes.insert_barriers import insert_barriers
from tegula.passes.lower_tiles import WARP, lower_tiles
from tegula.passes.pipeline_loops import pipeline_loops
from tegula.passes.place_shared import SharedMemory, place_shared
from tegula.passes.promote_buffers import promote_buffers
from tegula.passes.simplify import simplify
from tegula.passes.split_lanes import split_lanes
from tegula.passes.uniform_operands import uniform_operands
from tegula.passes.uniformity import Uniformity, analyse, check_cooperation
from tegula.verify import verify

Observer = Callable[[str, Kernel], None]


def check(kernel: Kernel) -> None:
    """Errors for cooperative ops that only some threads of a block reach."""
    verify(kernel)
    errors = check_cooperation(kernel, analyse(kernel))
    if errors:
        raise errors[0] if len(errors) == 1 else CompileErrors(errors)


def prepare(kernel: Kernel, observe: Observer | None = None) -> None:
    """What every target shares: cooperation is checked, objects become values, arithmetic is simplified and fused."""
    check(kernel)
    for step in (promote_buffers, simplify, contract_fma):
        step(kernel)
        _seen(step.__name__, kernel, observe)


def for_cpu(kernel: Kernel, observe: Observer | None = None) -> Uniformity:
    """Lane-varying code is gathered into lane loops."""
    known = analyse(kernel)
    errors = split_lanes(kernel, known)
    if errors:
        raise errors[0] if len(errors) == 1 else CompileErrors(errors)
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


def for_gpu(kernel: Kernel, observe: Observer | None = None) -> Distribution:
    """Lane-varying code is gathered, tiles are spread over the threads, and barriers order what they share."""
    known = for_cpu(kernel, observe)
    threads = -(-kernel.launch.block_dim // WARP) * WARP
    uniform_operands(kernel, known)
    _seen("uniform_operands", kernel, observe)
    lower_tiles(kernel, threads)
    _seen("lower_tiles", kernel, observe)
    pipeline_loops(kernel)
    _seen("pipeline_loops", kernel, observe)
    layouts = assign_layouts(kernel, threads)
    convert_layouts(kernel, layouts, threads)
    _seen("convert_layouts", kernel, observe)
    shared = place_shared(kernel)
    insert_barriers(kernel, layouts, shared.places)
    _seen("insert_barriers", kernel, observe)
    return Distribution(known, layouts, shared, threads)


def _seen(name: str, kernel: Kernel, observe: Observer | None) -> None:
    try:
        verify(kernel)
    except Exception as error:
        error.add_note(f"after pass {name}")
        raise
    if observe is not None:
        observe(name, kernel)
