"""Places the waits for wgmma matmuls that add to sums of a loop: one iteration late, so that the tensor cores never
idle.

An iteration may have any number of such matmuls, each with its own accumulator or all with one. All are started before
their wait, which leaves this iteration's matmuls in flight and covers those of the iteration before. The stages that
matmuls read are released after the wait that covers them; the last wait is after the loop.

The wait for a matmul is delayed if the loop uses its accumulator in such matmuls only, and if no operand is computed in
registers. All other ops of the iteration may overlap with these matmuls: the stages that they read are written only
after their release. Pipes of one stage are released in their iteration, since the next iteration waits for that
stage."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import Builder, Carried, ConstantLike, Kernel, Region, Value
from tegula.ir.rewrite import is_defined_in, replace, uses
from tegula.ops import scalar as S
from tegula.ops.control import For, If, Yield
from tegula.ops.group import GroupMma, MmaWait, RegisterMma
from tegula.ops.roles import PipePop, PipeRelease, pipe_type
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, PipeType, bool_

with deferred_imports():
    from tegula.passes.release_stages import had_iterations
    from tegula.passes.select_matmuls import pipe_of


def place_waits(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place."""
    for op in list(kernel.walk()):
        if isinstance(op, For):
            delayed = _delayed(op)
            if delayed is not None:
                _delay(op, delayed)


@dataclass(frozen=True, slots=True)
class _DelayedWaits:
    """The matmuls of an iteration whose waits are delayed, their carried accumulators, and the releases after the first
    matmul."""

    matmuls: list[GroupMma]
    sums: list[Carried]
    releases: list[PipeRelease]


def _delayed(loop: For) -> _DelayedWaits | None:
    """The matmuls of a loop, if the waits for all of them can be delayed."""
    body = loop.body
    matmuls = [op for op in body.walk() if isinstance(op, GroupMma)]
    if not matmuls or any(isinstance(op, MmaWait) for op in body.walk()):
        return None
    if not all(_may_stay_in_flight(op, body) for op in matmuls):
        return None
    sums, pipes = _accumulators(loop, matmuls), {pipe_of(v) for op in matmuls for v in op.sides}
    releases = [op for op in body.ops if isinstance(op, PipeRelease) and op.pipe in pipes]
    return (
        _DelayedWaits(matmuls, sums, releases) if sums and _are_released_once(body, pipes, releases) else None
    )


def _may_stay_in_flight(op: GroupMma, body: Region) -> bool:
    """Whether the instructions of a matmul may be in flight when its iteration ends."""
    if op.parent is not body or op.unit != "wgmma" or not op.wait or op.at_once:
        return False
    if isinstance(op, RegisterMma) and is_defined_in(op.register_tile, body):
        return False
    if not all(_is_popped(v) for v in op.sides if isinstance(v.type, BufType)):
        return False
    return all(isinstance(v.owner, ConstantLike) and v.owner.value == 1 for v in (op.alpha, op.beta))


def _is_popped(operand: Value) -> bool:
    """Whether an operand is a stage of a pipe, which is not written before its release. Stages of a ring of a
    hand-written schedule are released by the kernel itself, and threads write other operands without a release."""
    pipe = pipe_of(operand)
    return pipe is not None and isinstance(pipe.type, PipeType)


def _accumulators(loop: For, matmuls: Sequence[GroupMma]) -> list[Carried] | None:
    """The carried values that are accumulators of matmuls and have no other use in the loop; None if a matmul adds to
    another value."""
    users = uses(loop.body)
    matmul_of = {op.c: op for op in matmuls}
    sums: list[Carried] = []
    unmatched = set(matmuls)
    for carried in loop.carried:
        (value,) = carried.arguments
        while value in matmul_of and [op for op, _ in users[value]] == [matmul_of[value]]:
            unmatched.discard(matmul_of[value])
            value = matmul_of[value].result
        if value is not carried.arguments[0]:
            if carried.yielded != (value,) or len(users[value]) != 1:
                return None
            sums.append(carried)
    return sums if not unmatched else None


def _are_released_once(
    body: Region, pipes: Collection[Value | None], releases: Sequence[PipeRelease]
) -> bool:
    """Whether each pipe that matmuls read and the loop pops has several stages and is popped and released once in an
    iteration, not in a nested region."""
    released = [op.pipe for op in releases]
    popped = [op.pipe for op in body.ops if isinstance(op, PipePop) and op.pipe in pipes]
    all_ops = [op for op in body.walk() if isinstance(op, PipePop | PipeRelease) and op.pipe in pipes]
    released_once = len(set(released)) == len(released) and len(all_ops) == len(released) + len(popped)
    have_stages = all(pipe_type(p.type).stages > 1 for p in popped)
    return released_once and have_stages and sorted(released, key=id) == sorted(popped, key=id)


def _delay(loop: For, delayed: _DelayedWaits) -> None:
    """Make iteration k wait for the matmuls of iteration k - 1 after starting its own matmuls."""
    body, region = loop.body, loop.parent
    assert region is not None
    for op in delayed.matmuls:
        op.wait = False
    last = delayed.matmuls[-1]
    region_after = Region()
    build = Builder(region_after, last.loc)
    build.insert(MmaWait([], [], {"pending": len(delayed.matmuls)}))
    is_not_first = build.insert(S.Cmp([loop.index, loop.start], [bool_], {"pred": "ne"})).result
    _insert_releases(build, is_not_first, delayed.releases)
    body.ops = [op for op in body.ops if op not in delayed.releases]
    _insert(body, body.ops.index(last) + 1, region_after)
    _insert_epilogue(loop, delayed, region)


def _insert_epilogue(loop: For, delayed: _DelayedWaits, region: Region) -> None:
    """Wait for the matmuls of the last iteration and release their stages, if the loop had an iteration."""
    results, region_after = [carried.result for carried in delayed.sums], Region()
    build = Builder(region_after, loc=delayed.matmuls[-1].loc)
    completed = build.insert(MmaWait(results, [v.type for v in results], {"pending": 0})).results
    for before, after in zip(results, completed, strict=True):
        after.name = before.name
    _insert_releases(build, had_iterations(build, loop), delayed.releases)
    replace(region, dict(zip(results, completed, strict=True)))
    _insert(region, region.ops.index(loop) + 1, region_after)


def _insert_releases(build: Builder, condition: Value, releases: Sequence[PipeRelease]) -> None:
    then, otherwise = Region(), Region()
    for op in releases:
        Builder(then, op.loc).insert(PipeRelease([op.pipe], [], op.attrs))
    for branch in (then, otherwise):
        Builder(branch, build.loc).insert(Yield())
    build.insert(If([condition], [], None, [then, otherwise]))


def _insert(region: Region, position: int, region_after: Region) -> None:
    for op in region_after.ops:
        op.parent = region
    region.ops[position:position] = region_after.ops
