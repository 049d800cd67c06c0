"""The pipeline of passes for GPUs, which follows the passes of every target.

The pipeline has a separate module so that compiling for a CPU need not import these passes."""

from __future__ import annotations

from tegula.deferred import deferred_imports
from tegula.ir import Kernel, LoopLike, TargetQuery
from tegula.ops.buffer import BufNew
from tegula.ops.control import For
from tegula.ops.exchange import Exchange
from tegula.ops.group import GroupMma, RegisterMma
from tegula.ops.linear import TileMatmul
from tegula.ops.roles import PipeNew, Roles
from tegula.ops.schedule import BulkLoad, BulkPut, MbarrierNew, StageOp
from tegula.ops.tile import TileAtomic, TileLoad, TileReduce, TileStore
from tegula.passes.assign_layouts import assign_layouts
from tegula.passes.convert_layouts import convert_layouts
from tegula.passes.groups import count_threads
from tegula.passes.insert_barriers import insert_barriers
from tegula.passes.lower_tiles import lower_tiles
from tegula.passes.place_shared import place_shared
from tegula.passes.reuse_shared import reuse_shared
from tegula.passes.runner import Analysis, GpuCompilation, Observer, Pass, run
from tegula.passes.sink_conversions import sink_conversions
from tegula.passes.specialise import Schedule, specialise
from tegula.passes.split_lanes import split_lanes
from tegula.passes.uniformity import analyse_lanes
from tegula.target import CudaTarget

with deferred_imports():
    from tegula.passes.choose_target import choose_target
    from tegula.passes.combine_blocks import combine_blocks
    from tegula.passes.fetch_iterations import fetch_iterations
    from tegula.passes.form_rings import check_copies, form_rings
    from tegula.passes.group_reductions import group_reductions
    from tegula.passes.hoist_loads import hoist_loads
    from tegula.passes.lower_pipes import lower_pipes
    from tegula.passes.multicast_copies import multicast_copies
    from tegula.passes.pipeline_loops import pipeline_loops
    from tegula.passes.place_waits import place_waits
    from tegula.passes.reload_operands import reload_operands
    from tegula.passes.select_matmuls import keep_operands, select_matmuls
    from tegula.passes.separate_barriers import separate_barriers
    from tegula.passes.sink_reads import sink_reads
    from tegula.passes.stage_stores import stage_stores
    from tegula.passes.uniform_operands import uniform_operands
    from tegula.passes.unroll_and_jam import unroll_and_jam
    from tegula.passes.unroll_late import unroll_late
    from tegula.passes.wait_for_register_operands import wait_for_register_operands
    from tegula.passes.wide_segments import wide_segments


def optimises(context: GpuCompilation) -> bool:
    """Whether the pipeline includes optimisations: not in debug mode."""
    return not context.debug


def reloads(context: GpuCompilation) -> bool:
    """Whether operands are loaded again, because they did not fit into shared memory together."""
    return context.reload


FOR_GPU = (
    Pass(choose_target, acts_on=(TargetQuery,)),
    Pass(specialise),
    Pass(combine_blocks, when=optimises, acts_on=(TileAtomic,)),
    Analysis(analyse_lanes),
    Pass(split_lanes),
    Pass(uniform_operands),
    Pass(sink_conversions),
    Pass(sink_reads, when=optimises, acts_on=(BufNew,)),
    Pass(form_rings, acts_on=(Roles,)),
    Analysis(count_threads),
    Pass(wide_segments, acts_on=(Exchange,)),
    Pass(keep_operands, acts_on=(TileMatmul,)),
    Pass(reload_operands, when=reloads),
    Pass(lower_tiles),
    Pass(fetch_iterations, when=optimises, acts_on=(For,)),
    Pass(hoist_loads, when=optimises, acts_on=(TileLoad,)),
    Pass(pipeline_loops, acts_on=(For,)),
    Pass(group_reductions, when=optimises, acts_on=(TileReduce,)),
    Pass(select_matmuls, acts_on=(GroupMma,)),
    Analysis(check_copies, acts_on=(BulkLoad, BulkPut)),
    Pass(place_waits, acts_on=(GroupMma,)),
    Pass(lower_pipes, acts_on=(PipeNew, MbarrierNew)),
    Pass(separate_barriers, acts_on=(StageOp,)),
    Pass(multicast_copies, when=optimises, acts_on=(Roles,)),
    Pass(unroll_and_jam, when=optimises, acts_on=(For,)),
    Analysis(assign_layouts),
    Pass(convert_layouts),
    Pass(wait_for_register_operands, acts_on=(RegisterMma,)),
    Pass(stage_stores, acts_on=(TileStore, TileAtomic)),
    Analysis(place_shared),
    Analysis(reuse_shared),
    Pass(insert_barriers),
    Pass(unroll_late, acts_on=(LoopLike,)),
)
"""The passes for GPUs: warp specialisation, merging of short blocks, splitting of lane-varying code, layouts of tiles,
allocation of shared memory, and barriers."""


def for_gpu(
    kernel: Kernel,
    target: CudaTarget,
    observe: Observer | None = None,
    debug: bool = False,
    schedule: Schedule | None = None,
    reload: bool = False,
) -> GpuCompilation:
    """Run the passes for a GPU and return their context. `schedule`: the schedule to use, if one has been selected for
    the kernel already; `reload`: whether operands of matmuls are loaded again to save shared memory."""
    return run(FOR_GPU, kernel, GpuCompilation(target, debug, schedule, reload), observe, is_last=True)
