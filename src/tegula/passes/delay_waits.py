"""Waits one iteration late for wgmma matmuls that add to one accumulator in each iteration, so that the tensor cores
always have a matmul to execute. The stages that they read are released one iteration late as well; the last wait is
after the loop.

A wait is delayed if the loop carries the accumulator for this matmul alone, only releases follow the matmul in the
iteration, and the iteration neither writes its operands nor makes an operand in registers."""

from __future__ import annotations

from tegula.ir import Builder, Carried, Kernel, Op, Region, Value, root
from tegula.ir.rewrite import is_made_in, replace, uses
from tegula.ops import scalar as S
from tegula.ops.control import For, If, Yield
from tegula.ops.group import GroupMma, MmaWait, RegisterMma
from tegula.ops.roles import PipePop, PipeRelease
from tegula.passes.form_rings import is_by_hand
from tegula.passes.release_stages import had_iterations
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, bool_


def delay_waits(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place."""
    for op in list(kernel.walk()):
        if isinstance(op, For):
            matmul = _matmul(op)
            if matmul is not None:
                _delay(op, matmul)


def _matmul(loop: For) -> GroupMma | None:
    """The only matmul of a loop, if it can be delayed."""
    body = loop.body
    matmuls = [op for op in body.walk() if isinstance(op, GroupMma)]
    if len(matmuls) != 1:
        return None
    (matmul,) = matmuls
    at, users = body.ops.index(matmul) if matmul in body.ops else -1, uses(body)
    if at < 0 or matmul.unit != "wgmma" or not matmul.wait or matmul.at_once:
        return None
    if isinstance(matmul, RegisterMma) and is_made_in(matmul.held_tile, body):
        return None
    total = _total(loop, matmul)
    if total is None or total.yielded != (matmul.result,):
        return None
    if any(is_by_hand(root(v)) for v in matmul.sides if isinstance(v.type, BufType)):
        return None  # releases that the user wrote assume the wait that the user wrote
    alone = len(users[matmul.c]) == len(users[matmul.result]) == 1
    factors = matmul.alpha.owner, matmul.beta.owner
    plain = all(isinstance(factor, S.Const) and factor.value == 1 for factor in factors)
    after = [op for op in body.ops[at + 1 :] if not isinstance(op, Yield)]
    return matmul if alone and plain and _only_releases(body, at, after) else None


def _total(loop: For, matmul: GroupMma) -> Carried | None:
    """The carried value of the loop that is the accumulator of the matmul."""
    return next((one for one in loop.carried if matmul.c in one.arguments), None)


def _only_releases(body: Region, at: int, after: list[Op]) -> bool:
    """Whether the ops after a matmul only release, once, the tiles that the iteration has popped."""
    popped = [op.pipe for op in body.ops[:at] if isinstance(op, PipePop)]
    released = [op.pipe for op in after if isinstance(op, PipeRelease)]
    inside = [op for op in body.walk() if isinstance(op, PipePop | PipeRelease)]
    others = (op for op in after if not isinstance(op, PipeRelease))
    pure = all(op.PURE and not op.COOPERATIVE for op in others)
    once = len(inside) == len(popped) + len(released) and len(set(released)) == len(released)
    return pure and once and set(popped) == set(released)


def _delay(loop: For, matmul: GroupMma) -> None:
    """Iteration k waits for the matmul of iteration k - 1 after the start of its own matmul."""
    body, region = loop.body, loop.parent
    assert region is not None
    releases = [op for op in body.ops if isinstance(op, PipeRelease)]
    matmul.wait = False
    made = Region()
    build = Builder(made, matmul.loc)
    build.insert(MmaWait([], [], {"pending": 1}))
    later = build.insert(S.Cmp([loop.index, loop.start], [bool_], {"pred": "ne"})).result
    _released(build, later, releases)
    body.ops = [op for op in body.ops if op not in releases]
    at = body.ops.index(matmul) + 1
    _put(body, at, made)
    _finish(loop, matmul, releases, region)


def _finish(loop: For, matmul: GroupMma, releases: list[PipeRelease], region: Region) -> None:
    """The last matmul is waited for, and its stages are released, if the loop had an iteration."""
    total = _total(loop, matmul)
    assert total is not None
    result, made = total.result, Region()
    build = Builder(made, loc=matmul.loc)
    done = build.insert(MmaWait([result], [result.type], {"pending": 0})).result
    done.name = result.name
    _released(build, had_iterations(build, loop), releases)
    replace(region, {result: done})
    _put(region, region.ops.index(loop) + 1, made)


def _released(build: Builder, condition: Value, releases: list[PipeRelease]) -> None:
    then, other = Region(), Region()
    for op in releases:
        Builder(then, op.loc).insert(PipeRelease([op.pipe], [], op.attrs))
    for branch in (then, other):
        Builder(branch, build.loc).insert(Yield())
    build.insert(If([condition], [], None, [then, other]))


def _put(region: Region, at: int, made: Region) -> None:
    for op in made.ops:
        op.parent = region
    region.ops[at:at] = made.ops
