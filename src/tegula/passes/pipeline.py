"""The pipelines of passes for all targets and for CPUs."""

from __future__ import annotations

from tegula.deferred import deferred_imports
from tegula.ir import Kernel, LoopLike, MatmulLike, TargetQuery
from tegula.ops.buffer import BufNew
from tegula.ops.control import For, While
from tegula.ops.gradient import Call
from tegula.ops.linear import TileMatmulWait
from tegula.ops.roles import Roles
from tegula.ops.scalar import NeverAbove
from tegula.ops.tile import TileLoad, TileStore
from tegula.passes.contract_fma import contract_fma, keep_rounded
from tegula.passes.runner import Analysis, Compilation, CpuCompilation, Observer, Pass, run
from tegula.passes.simplify import simplify
from tegula.passes.split_lanes import split_lanes
from tegula.passes.uniformity import Uniformity, analyse_lanes, check_cooperation

with deferred_imports():
    from tegula.passes.accumulate_matmuls import accumulate_matmuls
    from tegula.passes.choose_target import choose_target
    from tegula.passes.complete_matmuls import complete_matmuls
    from tegula.passes.count_whiles import count_whiles
    from tegula.passes.delay_releases import delay_releases
    from tegula.passes.inline_calls import inline_calls
    from tegula.passes.normalise_lane_loops import normalise_lane_loops
    from tegula.passes.orient_tiles import orient_tiles
    from tegula.passes.promote_buffers import promote_buffers
    from tegula.passes.prove_bounds import prove_bounds
    from tegula.passes.release_stages import release_stages
    from tegula.passes.unroll_late import unroll_late

CHECK = (Pass(normalise_lane_loops, acts_on=(For,)), Analysis(check_cooperation))

PREPARE = (
    Pass(count_whiles, acts_on=(While,)),
    Pass(normalise_lane_loops, acts_on=(For,)),
    Analysis(check_cooperation),
    Pass(promote_buffers, acts_on=(BufNew,)),
    Pass(release_stages, acts_on=(Roles,)),
    Pass(simplify),
    Pass(prove_bounds, acts_on=(NeverAbove,)),
    Pass(accumulate_matmuls, acts_on=(MatmulLike,)),
    Pass(contract_fma),
    Pass(inline_calls, acts_on=(Call,)),
)
"""The passes for all targets: `while` loops that count become counted loops, loops that start at the lane index get
uniform trip counts, cooperative ops are checked for divergence, objects are promoted to values, popped tiles are
released, arithmetic is simplified, specialised to the known ranges of operands, and contracted, matmuls add to the
tiles that their results are added to, and calls are inlined."""

FIX_ROUNDING = (
    Pass(count_whiles, acts_on=(While,)),
    Pass(promote_buffers, acts_on=(BufNew,)),
    Pass(simplify),
    Pass(prove_bounds, acts_on=(NeverAbove,)),
    Pass(accumulate_matmuls, acts_on=(MatmulLike,)),
    Pass(contract_fma),
    Pass(keep_rounded),
)
"""The passes before differentiation, which fix the rounding as `PREPARE` does, so that ops that the adjoint recomputes
give bitwise equal results and take the same branches. Ops that `contract_fma` does not fuse here are marked and not
fused later."""


def _orients(context: CpuCompilation) -> bool:
    return context.orients


FOR_CPU = (
    Pass(choose_target, acts_on=(TargetQuery,)),
    Pass(complete_matmuls, acts_on=(MatmulLike, TileMatmulWait)),
    Pass(delay_releases, acts_on=(Roles,)),
    Analysis(analyse_lanes),
    Pass(split_lanes),
    Pass(orient_tiles, when=_orients, acts_on=(TileLoad, TileStore)),
    Pass(unroll_late, acts_on=(LoopLike,)),
)
"""The passes for CPUs: matmuls become synchronous, releases are delayed, lane-varying code is split into lane loops,
tiles of arrays in column-major order are computed along columns."""


def check(kernel: Kernel) -> None:
    """Raise an error for a cooperative op in divergent control flow."""
    run(CHECK, kernel, Compilation())


def prepare(kernel: Kernel, observe: Observer | None = None) -> None:
    """Run the passes that all targets begin with."""
    run(PREPARE, kernel, Compilation(), observe)


def fix_rounding(kernel: Kernel) -> None:
    """Run the passes that fix the rounding of a kernel before it is differentiated."""
    run(FIX_ROUNDING, kernel, Compilation())


def for_cpu(kernel: Kernel, observe: Observer | None = None, debug: bool = False) -> Uniformity:
    """Run the passes for the CPU. Returns the uniformity of values. `debug`: whether reports show the shapes and the
    offsets of accesses."""
    orients = not debug and any(access is not None and access.columns for access in kernel.access)
    return run(FOR_CPU, kernel, CpuCompilation(orients), observe, is_last=True).uniformity
