"""The passes for GPUs, in order, after those that every target shares.

They are apart from the others because compiling for a CPU does without loading them."""

from __future__ import annotations

from tegula.dataclass import dataclass
from tegula.ir import Kernel
from tegula.ops.roles import Roles, block_threads
from tegula.passes.assign_layouts import Layouts, assign_layouts
from tegula.passes.combine_blocks import combine_blocks
from tegula.passes.convert_layouts import convert_layouts
from tegula.passes.delay_waits import delay_waits
from tegula.passes.fetch_rounds import fetch_rounds
from tegula.passes.form_rings import check_copies, form_rings
from tegula.passes.insert_barriers import insert_barriers
from tegula.passes.load_early import load_early
from tegula.passes.lower_pipes import lower_pipes
from tegula.passes.lower_tiles import WARP, lower_tiles
from tegula.passes.pipeline import Observer, gather_lanes, passed
from tegula.passes.pipeline_loops import pipeline_loops
from tegula.passes.place_shared import SharedMemory, place_shared
from tegula.passes.reduce_together import reduce_together
from tegula.passes.select_products import keep_operands, select_products
from tegula.passes.settle_products import settle_products
from tegula.passes.share_copies import share_copies
from tegula.passes.sink_conversions import sink_conversions
from tegula.passes.specialise import Schedule, specialise
from tegula.passes.stage_stores import stage_stores
from tegula.passes.uniform_operands import uniform_operands
from tegula.passes.uniformity import Uniformity
from tegula.passes.unroll_and_jam import unroll_and_jam
from tegula.target import CudaTarget


@dataclass(slots=True)
class Distribution:
    """A kernel spread over the threads of a GPU block: uniformity, the layouts of tile values, shared memory,
    the number of threads, and the automatic schedule."""

    known: Uniformity
    layouts: Layouts
    shared: SharedMemory
    threads: int
    schedule: Schedule = Schedule()


def for_gpu(
    kernel: Kernel,
    target: CudaTarget,
    observe: Observer | None = None,
    debug: bool = False,
    schedule: Schedule | None = None,
) -> Distribution:
    """Products of loaded tiles get roles, unless there is a `schedule` already, and short blocks are combined, except
    for `debug`, whose reports tell lanes and blocks apart; lane-varying code is gathered, tiles are spread over the
    threads, and barriers order what they share."""
    if schedule is None:
        schedule = Schedule(reason="debug mode") if debug else specialise(kernel, target)
        passed("specialise", kernel, observe)
    if not debug:
        combine_blocks(kernel)
        passed("combine_blocks", kernel, observe)
    known = gather_lanes(kernel, observe)
    threads = _threads(kernel)
    uniform_operands(kernel, known)
    passed("uniform_operands", kernel, observe)
    sink_conversions(kernel)
    passed("sink_conversions", kernel, observe)
    form_rings(kernel)
    passed("form_rings", kernel, observe)
    keep_operands(kernel, target, threads)
    lower_tiles(kernel, threads, debug)
    passed("lower_tiles", kernel, observe)
    if not debug:
        fetch_rounds(kernel, target)
        passed("fetch_rounds", kernel, observe)
        load_early(kernel, threads)
        passed("load_early", kernel, observe)
    pipeline_loops(kernel)
    passed("pipeline_loops", kernel, observe)
    if not debug:
        reduce_together(kernel, threads)
        passed("reduce_together", kernel, observe)
    select_products(kernel, target, threads)
    check_copies(kernel, target)
    delay_waits(kernel)
    lower_pipes(kernel, target, threads)
    passed("lower_pipes", kernel, observe)
    if not debug:
        share_copies(kernel, target)
        passed("share_copies", kernel, observe)
        unroll_and_jam(kernel, threads)
        passed("unroll_and_jam", kernel, observe)
    layouts = assign_layouts(kernel, threads)
    convert_layouts(kernel, layouts, threads)
    settle_products(kernel)
    passed("convert_layouts", kernel, observe)
    stage_stores(kernel, target, layouts, threads)
    passed("stage_stores", kernel, observe)
    shared = place_shared(kernel)
    insert_barriers(kernel, layouts, shared.places)
    passed("insert_barriers", kernel, observe)
    return Distribution(known, layouts, shared, threads, schedule)


def _threads(kernel: Kernel) -> int:
    """Of a block: whole warps for its lanes, unless roles say how many."""
    roles = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
    return -(-kernel.launch.block_dim // WARP) * WARP if roles is None else block_threads(roles)
