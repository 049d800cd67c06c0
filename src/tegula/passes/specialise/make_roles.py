"""Warp specialisation: kernels with matmuls of loaded tiles get a producer role, which loads tiles into pipes, and a
consumer role, which multiplies.

The pass generates the ops that users write in hand-made schedules, so that all later passes (barriers, bulk copies,
tensor cores) and the checker treat both alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tegula.dataclass import replace
from tegula.deferred import deferred_imports
from tegula.errors import CompileError, CompileErrors
from tegula.ir import Builder, Kernel, Op, Region
from tegula.ops.control import For, Yield
from tegula.ops.roles import PipeNew, Roles
from tegula.ops.tile import TileLoad
from tegula.passes.overlap import array_root
from tegula.passes.runner import Compilation, Pass, run
from tegula.passes.specialise.branches import predicate_trip_counts
from tegula.passes.specialise.build_roles import RolePipe, clone_body, fetch_role, multiply_role
from tegula.passes.specialise.declined import Declined, NoRegisters
from tegula.passes.specialise.find_matmuls import (
    LoadedMatmul,
    OperandDef,
    can_be_issued_early,
    find_matmuls,
    is_repeated,
    other_loads,
    pipe_load,
    source_loads,
)
from tegula.passes.specialise.lane_code import check_lane_code
from tegula.passes.specialise.late_loads import copy_late_loads
from tegula.passes.specialise.launch_checks import hoist_launch_checks
from tegula.passes.specialise.plan import Items, keep_converted, make_plan
from tegula.passes.specialise.registers import FETCH_REGISTERS
from tegula.passes.specialise.scale_blocks import costs_of_scales, scale_blocks
from tegula.passes.specialise.schedule import BlockCosts, Choice, RolePlan, Schedule
from tegula.source import UNKNOWN
from tegula.target import CudaTarget
from tegula.types import PipeType, TileType

with deferred_imports():
    from tegula.passes.bulk_access import bulk_loadable
    from tegula.passes.release_stages import release_stages
    from tegula.passes.specialise.make_persistent import make_persistent
    from tegula.passes.specialise.overlap_chains import overlap_chains
    from tegula.passes.specialise.split_depth import split_depth

if TYPE_CHECKING:
    from tegula.passes.specialise.overlap_chains import PeeledLoads

WARPS = 4
"""The number of warps of a warp group."""
ENOUGH_STAGES = 3
"""The number of stages with which a producer stays ahead of its consumers; iterations are split to reach this
number."""
SPLITS = (2, 4)
RELEASE = (Pass(release_stages),)


def roles_of_matmuls(kernel: Kernel, target: CudaTarget, choice: Choice | None = None) -> Schedule:
    """`make_roles` for a kernel with matmuls."""
    if choice is not None:
        return _with_stages(kernel, target, choice)
    choice = Choice(**kernel.schedule)
    if kernel.launch.scale and choice.persistent is not False:
        schedule = _with_stages(kernel, target, replace(choice, scale=kernel.launch.scale))
        if schedule.plan is not None:
            return schedule
    return _with_stages(kernel, target, choice)


def _with_stages(kernel: Kernel, target: CudaTarget, choice: Choice) -> Schedule:
    """The schedule of one choice, with iterations split if whole iterations leave too few stages."""
    before, schedule = kernel.body.ops, _make_schedule(kernel, target, choice)
    if choice.split > 1 or (
        schedule.plan is not None and (choice.stages or max(schedule.plan.stages) >= ENOUGH_STAGES)
    ):
        return schedule
    for split in SPLITS:
        ops, kernel.body.ops = kernel.body.ops, before
        finer = _make_schedule(kernel, target, replace(choice, split=split))
        if finer.plan is not None and max(finer.plan.stages) >= ENOUGH_STAGES:
            return finer
        if finer.plan is not None and schedule.plan is None:
            schedule = finer
        else:
            kernel.body.ops = ops
    return schedule


def _make_schedule(kernel: Kernel, target: CudaTarget, choice: Choice) -> Schedule:
    """The schedule of one choice; the kernel is rewritten or unchanged accordingly."""
    before = kernel.body.ops
    try:
        return Schedule(_specialise(kernel, target, choice), before=tuple(before), choice=choice)
    except Declined as e:
        kernel.body.ops = before
        if isinstance(e, NoRegisters) and choice.overlap:
            return _make_schedule(kernel, target, replace(choice, overlap=False))
        return Schedule(None, e.reason, e.loc)


def costs_of_blocks(kernel: Kernel, target: CudaTarget) -> BlockCosts:
    """`block_costs` for a kernel with matmuls."""
    before = kernel.body.ops
    try:
        choice = Choice(**kernel.schedule)
        _check_target(kernel, target, choice)
        _prepare(kernel)
        return costs_of_scales(kernel, lambda scale: _has_plan(kernel, target, replace(choice, scale=scale)))
    except Declined:
        return BlockCosts()
    finally:
        kernel.body.ops = before


def _has_plan(kernel: Kernel, target: CudaTarget, choice: Choice) -> bool:
    """Whether the kernel, which is not changed, gets roles."""
    try:
        matmuls = find_matmuls(kernel)
        make_plan(kernel, target, matmuls, _groups(kernel, target, matmuls, []), choice)
    except Declined:
        return False
    return True


def _prepare(kernel: Kernel) -> list[Op]:
    """Replace the kernel's body by a copy without asserts about the launch, branches and late loads. Returns the
    asserts and the ops that compute their conditions."""
    kernel.body.ops = clone_body(kernel)
    checks = hoist_launch_checks(kernel)
    check_lane_code(kernel)
    predicate_trip_counts(kernel)
    copy_late_loads(kernel)
    return checks


def _check_target(kernel: Kernel, target: CudaTarget, choice: Choice) -> None:
    if not choice.specialize or any(isinstance(op, For) and not op.specialize for op in kernel.walk()):
        raise Declined("specialize=False")
    if target.tensor_cores != "wgmma" or not target.bulk_copies:
        raise Declined(f"{target.arch} has no matmuls of warp groups")


def _specialise(kernel: Kernel, target: CudaTarget, choice: Choice) -> RolePlan:
    _check_target(kernel, target, choice)
    checks = _prepare(kernel)
    scale_blocks(kernel, choice.scale)
    if choice.split > 1 and not split_depth(kernel, choice.split):
        raise Declined("the iterations of its loops cannot be split")
    find_matmuls(kernel)
    peeled_loads = overlap_chains(kernel.body) if choice.overlap else []
    matmuls = keep_converted(kernel, target, find_matmuls(kernel), choice)
    groups = _groups(kernel, target, matmuls, peeled_loads)
    plan = make_plan(kernel, target, matmuls, groups, choice)
    _check_copies(kernel, target, matmuls)
    _clear_requested_stages(kernel)
    pipes = {g: RolePipe(_pipe(g[0], n).result, g) for g, n in zip(groups, plan.stages, strict=True)}
    roles = _roles(kernel, target, list(pipes.values()))
    if plan.persistent:
        roles = [make_persistent(kernel, role, plan.raster, plan.scale) for role in roles]
    _replace_body(kernel, checks, list(pipes.values()), roles, plan)
    return replace(plan, overlaps=bool(peeled_loads))


def _roles(kernel: Kernel, target: CudaTarget, pipes: Sequence[RolePipe]) -> list[Region]:
    """The producer and the consumer role."""
    fetched = [p for p in pipes if isinstance(p.items[0], TileLoad)]
    return [fetch_role(kernel, target, fetched), multiply_role(kernel, pipes)]


def _clear_requested_stages(kernel: Kernel) -> None:
    """Remove the stages that loops request, because pipes replace the loops' rings."""
    for op in kernel.walk():
        if isinstance(op, For):
            del op.stages


def _groups(
    kernel: Kernel, target: CudaTarget, matmuls: Sequence[LoadedMatmul], peeled_loads: PeeledLoads
) -> list[Items]:
    """The ops that fill each pipe, in program order: the ops that define an operand, the loads from which operands are
    computed, and other loads that can be issued ahead. Peeled loads share a pipe with the loads of the loop."""
    order: dict[Op, int] = {op: position for position, op in enumerate(kernel.walk())}
    operands = _merge_groups([s for p in matmuls for s in (p.left, p.right) if s], peeled_loads)
    known = {op for g in operands for op in g}
    computed = [
        sorted(g, key=order.__getitem__) for g in operands if not all(isinstance(op, TileLoad) for op in g)
    ]
    sources = [{*loads} for g in computed for loads in zip(*map(source_loads, g), strict=False)]
    raw = _merge_groups(
        [tuple(g) for g in sources if all(_can_be_fetched(kernel, target, op) for op in g - known)], []
    )
    others = [(op,) for op in other_loads(kernel, matmuls) if _copyable(kernel, target, op, False)]
    groups = [*operands, *(g for g in raw if not g & known), *_merge_groups(others, peeled_loads)]
    return sorted((tuple(sorted(g, key=order.__getitem__)) for g in groups), key=lambda g: order[g[-1]])


NO_BULK_COPY = "no tensor map describes the array of this load, or its tiles may not be aligned to 16 bytes"


def _check_copies(kernel: Kernel, target: CudaTarget, matmuls: Sequence[LoadedMatmul]) -> None:
    """Raise Declined for operands that no bulk copy can fetch."""
    for op in (op for p in matmuls for op in (*p.left, *p.right)):
        loads, swizzled = source_loads(op), isinstance(op, TileLoad)
        if is_repeated(op) and loads and not any(_copyable(kernel, target, load, swizzled) for load in loads):
            raise Declined(NO_BULK_COPY, loads[0].loc)


def _can_be_fetched(kernel: Kernel, target: CudaTarget, load: TileLoad) -> bool:
    return can_be_issued_early(kernel, load) and _copyable(kernel, target, load, False)


def _copyable(kernel: Kernel, target: CudaTarget, load: TileLoad, swizzled: bool) -> bool:
    return bulk_loadable(kernel, target, pipe_load(_pipe(load, 1).result, load), swizzled)


def _merge_groups(groups: Sequence[Items], peeled_loads: PeeledLoads) -> list[set[OperandDef]]:
    """The groups, merged where they have an op in common, or one contains the peeled load of another."""
    known = {op for g in groups for op in g}
    merged: list[set[OperandDef]] = []
    for g in (*groups, *(pair for pair in peeled_loads if known.intersection(pair))):
        joined = set(g).union(*(m for m in merged if m.intersection(g)))
        merged = [m for m in merged if not m.intersection(joined)] + [joined]
    return merged


def _pipe(item: OperandDef, stages: int) -> PipeNew:
    t = item.result.type
    assert isinstance(t, TileType)
    pipe_type = PipeType(t.dtype, t.rows.shape, stages)
    new = PipeNew([], [pipe_type], {"type": pipe_type}, [], item.loc)
    names = [array_root(load.array).name for load in source_loads(item)]
    new.result.name = next(filter(None, (item.result.name, *names)), "")
    return new


def _replace_body(
    kernel: Kernel, checks: Sequence[Op], pipes: Sequence[RolePipe], roles: Sequence[Region], plan: RolePlan
) -> None:
    """Replace the kernel's body by the launch checks, the pipes and the roles, and insert releases of popped tiles."""
    attrs = {
        "names": ("fetch", "multiply"),
        "warps": ((0, WARPS), (WARPS, plan.consumers * WARPS)),
        "registers": (FETCH_REGISTERS if plan.registers else 0, plan.registers),
    }
    body = Region()
    for op in checks:
        body.append(op)
    for p in pipes:
        assert isinstance(p.value.owner, Op)
        body.append(p.value.owner)
    build = Builder(body, kernel.loc)
    build.insert(Roles([], [], attrs, roles))
    build.insert(Yield())
    kernel.body.ops = body.ops
    for op in body.ops:
        op.parent = kernel.body
    try:
        run(RELEASE, kernel, Compilation())
    except CompileErrors as errors:
        raise Declined(errors.errors[0].message, errors.errors[0].loc or UNKNOWN) from None
    except CompileError as error:
        raise Declined(error.message, error.loc or UNKNOWN) from None
