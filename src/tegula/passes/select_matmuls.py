"""Selects the matmuls to be lowered to wgmma, and the memory or registers of their operands.

Stages of pipes and of hand-written rings, and their transposes, are read in place. Computed left operands are read from
registers if the instructions allow it. In roles, other operands are copied to stages of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tegula.deferred import deferred_imports
from tegula.ir import Builder, Kernel, MatmulLike, Op, Region, Value, root
from tegula.ir.rewrite import replace, uses, walk_regions
from tegula.layout import wgmma_group_tile
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView
from tegula.ops.group import GroupMma, MmaWait, RegisterMma, SharedMma
from tegula.ops.linear import TileMatmul
from tegula.ops.roles import PipeNew, PipePop
from tegula.ops.tile import TilePermute
from tegula.passes.form_rings import is_by_hand, is_stage
from tegula.passes.groups import group_of, role_of
from tegula.passes.runner import GpuCompilation
from tegula.passes.stage_operands import (
    ANY_ORDER,
    StageSlot,
    group_cuts_boxes,
    is_transpose,
    possible_stage,
    stage_operands,
    stages_fit,
)
from tegula.types import BufType, PipeType, TileType, element_bytes, float32, scalar_of

with deferred_imports():
    from tegula.passes.bulk_access import may_swizzle
    from tegula.passes.byte_operands import is_computed_from_bytes, swizzle_source, transpose_first
    from tegula.passes.mma_types import register_mma_types, shared_mma_types

NO_ROOM = "would need its own stage, which exceeds shared memory"
SIDES = ("left", "right")


def keep_operands(kernel: Kernel, context: GpuCompilation) -> None:
    """Set the attribute `in_registers` (operand 0 or 1) of matmuls of a computed operand with a popped tile if the
    computed operand need not go through shared memory. Right operands stay in registers only if those of all matmuls
    of a role can, because the layout of the results changes."""
    if context.target.tensor_cores != "wgmma":
        return
    threads = context.threads
    matmuls_of_role: dict[Region | None, list[TileMatmul]] = {}
    for op in kernel.walk():
        if not isinstance(op, TileMatmul):
            continue
        matmuls_of_role.setdefault(role_of(op), []).append(op)
        if _popped(op.b) and not _popped(op.a) and _fits_registers(op, 0, threads):
            op.in_registers = 0
    for matmuls in matmuls_of_role.values():
        if all(
            _popped(op.a) and is_computed_from_bytes(op) and _fits_registers(op, 1, threads) for op in matmuls
        ):
            for op in matmuls:
                transpose_first(op)
                op.in_registers = 1


def _fits_registers(op: TileMatmul, k: int, threads: int) -> bool:
    """Whether tensor cores can take operand k from registers."""
    mma_types = shared_mma_types(op)
    narrow = mma_types is not None and mma_types.bits == ANY_ORDER
    return narrow and not _unsupported_reason(op, threads, k == 1) and _rows_fit(op, threads, k == 1)


def _popped(tile: Value) -> bool:
    """Whether a tile, or the tile that it transposes, is a popped tile or in a hand-written ring."""
    if isinstance(tile.owner, TilePermute):
        tile = tile.owner.tile
    if not isinstance(tile.owner, BufRead):
        return False
    source = root(tile.owner.buffer)
    return isinstance(source.owner, PipePop) or is_by_hand(source)


def select_matmuls(kernel: Kernel, context: GpuCompilation) -> None:
    """Set the attribute `unit` of the selected matmuls, and `swizzled` of the pipes from which they read; only selected
    matmuls may read these pipes. If a matmul with an operand in registers is not selected, the operand is stored to
    shared memory. float32 pipes that only tf32 matmuls read hold rounded numbers, attribute `to_tf32`. Matmuls that
    cannot be left in flight get `at_once`; matmuls that are not selected get the reason, `declined`."""
    target, threads = context.target, context.threads
    matmuls = [op for op in kernel.walk() if isinstance(op, GroupMma)]
    candidates: list[GroupMma] = []
    for op in matmuls:
        reason = (
            _unsupported_reason(op, threads)
            if target.tensor_cores == "wgmma"
            else f"{target.arch} has no wgmma"
        )
        if reason:
            op.declined = reason
        else:
            candidates.append(op)
    chosen, staged = _select(kernel, matmuls, candidates, threads, with_stages=True)
    if staged and not stages_fit(kernel, target, list(staged.values())):
        chosen, staged = _select(kernel, matmuls, candidates, threads, with_stages=False)
    for op in chosen:
        op.unit = "wgmma"
        if _narrows(op):
            op.at_once = True
    for op, k in _in_shared_memory(chosen):
        pipe, mma_types = pipe_of(op.sides[k]), shared_mma_types(op)
        if (op, k) not in staged:
            assert mma_types is not None and pipe is not None and isinstance(pipe.owner, PipeNew | BufNew)
            pipe.owner.swizzled = True
            if mma_types.left == "tf32":
                assert isinstance(pipe.owner, PipeNew)
                pipe.owner.to_tf32 = True
    for op in chosen:
        if isinstance(op, RegisterMma):
            swizzle_source(op.register_tile)
    stage_operands(kernel, list(staged.values()))
    if any(not op.wait and (op not in chosen or op.at_once) for op in matmuls):
        _make_synchronous(kernel, matmuls)
    for op in matmuls:
        if op not in chosen:
            _store_register_operand(op)


def _select(
    kernel: Kernel,
    matmuls: Sequence[GroupMma],
    candidates: Sequence[GroupMma],
    threads: int,
    with_stages: bool,
) -> tuple[dict[GroupMma, None], dict[tuple[GroupMma, int], StageSlot]]:
    """The matmuls for warp groups, and the stages of operands that need a stage of their own. A pipe that a matmul
    without wgmma reads stays unswizzled."""
    read_otherwise, in_parts = _read_otherwise(kernel), _used_in_parts(kernel)
    chosen = dict.fromkeys(candidates)
    possible = {(op, k): possible_stage(op, k, threads) for op, k in _in_shared_memory(chosen)}
    while True:
        unswizzled = {pipe_of(v): op for op in matmuls if op not in chosen for v in op.sides} | in_parts
        slots: dict[tuple[GroupMma, int], StageSlot] = {}
        remaining = dict(chosen)
        for op, k in _in_shared_memory(chosen):
            reason = _unreadable_reason(op, k, read_otherwise, threads) or _unswizzled_reason(
                op.sides[k], unswizzled, in_parts
            )
            if not reason:
                continue
            slot = possible[op, k] if with_stages else NO_ROOM
            if isinstance(slot, StageSlot):
                slots[op, k] = slot
                continue
            remaining.pop(op, None)
            op.declined = f"the {SIDES[k]} operand {reason}, and the operand {slot}"
        if remaining == chosen:
            return chosen, slots
        chosen = remaining


def _unswizzled_reason(
    operand: Value, unswizzled: Mapping[Value | None, Op], in_parts: Mapping[Value | None, Op]
) -> str:
    """The reason why an operand's pipe or ring cannot be swizzled; empty if it can."""
    pipe = pipe_of(operand)
    reason = unswizzled.get(pipe)
    if reason is None:
        return ""
    if pipe in in_parts:
        return f"lies in a ring with an access other than to a whole stage (line {reason.loc.line})"
    return f"lies in a pipe that a matmul without wgmma also reads (line {reason.loc.line})"


def _in_shared_memory(matmuls: Iterable[GroupMma]) -> list[tuple[GroupMma, int]]:
    """The operands of matmuls that are buffers."""
    return [(op, k) for op in matmuls for k, v in enumerate(op.sides) if isinstance(v.type, BufType)]


def _unreadable_reason(op: GroupMma, k: int, read_otherwise: set[Value | None], threads: int) -> str:
    """The reason why the instructions cannot read an operand from its pipe in place; empty if they can.
    `read_otherwise`: the
    pipes whose tiles are also read by other ops, so that their numbers must not be rounded to tf32."""
    side, mma_types = op.sides[k], shared_mma_types(op)
    pipe = pipe_of(side)
    if pipe is None:
        part = isinstance(side.type, BufType) and is_by_hand(root(side))
        return "is a part of a stage" if part else "is not a tile of a pipe"
    assert mma_types is not None
    stage = _stage(pipe)
    if not may_swizzle(stage):
        return f"has stages with rows of {stage.shape[-1] * element_bytes(stage.dtype)} bytes"
    if mma_types.left == "tf32" and pipe in read_otherwise:
        return "is rounded to tf32, but its tiles are read by ops other than tf32 matmuls"
    if mma_types.bits != ANY_ORDER and is_transpose(side) != (k == 1):
        return f"of {8 * element_bytes(stage.dtype)} bits does not have K along its rows"
    if group_cuts_boxes(op, k, threads, is_transpose(side)):
        return "has columns of which a warp group would start within a box"
    return ""


def _make_synchronous(kernel: Kernel, matmuls: Sequence[GroupMma]) -> None:
    """Make all matmuls synchronous and remove the waits, because a wait counts matmuls in flight, and some matmuls
    cannot be asynchronous."""
    for op in matmuls:
        op.wait = True
    replacements: dict[Value, Value] = {}
    for region in walk_regions(kernel.body):
        for op in region.ops:
            if isinstance(op, MmaWait):
                replacements.update(zip(op.results, op.sums, strict=True))
        region.ops = [op for op in region.ops if not isinstance(op, MmaWait)]
    replace(kernel.body, replacements)


def _store_register_operand(op: GroupMma) -> None:
    """Replace a matmul with an operand in registers by a matmul that reads the operand from a new shared buffer."""
    if not isinstance(op, RegisterMma):
        return
    region, staged = op.parent, Region()
    assert region is not None
    build = Builder(staged, op.loc)
    t = op.register_tile.type
    assert isinstance(t, TileType)
    buffer = BufNew([op.register_tile], [BufType(t.dtype, t.shape, "shared")], {"storage": "shared"})
    op.set_side(op.register_operand, build.insert(buffer).result)
    matmul = build.insert(SharedMma(op.operands, [op.result.type], op.attrs))
    matmul.results, op.results = op.results, matmul.results
    matmul.result.owner = matmul
    for new in staged.ops:
        new.parent = region
    at = region.ops.index(op)
    region.ops[at : at + 1] = staged.ops


def _used_in_parts(kernel: Kernel) -> dict[Value | None, Op]:
    """The hand-written rings with an access to a view other than a whole stage or its transpose, each with the first
    such access. Copies could not reach such a part of a swizzled stage."""
    users_of_parts: dict[Value | None, Op] = {}
    for op in kernel.walk():
        if isinstance(op, BufView | BufReshape):
            continue
        for v in op.operands:
            if isinstance(v.type, BufType) and is_by_hand(root(v)) and pipe_of(v) is None:
                users_of_parts.setdefault(root(v), op)
    return users_of_parts


def pipe_of(operand: Value) -> Value | None:
    """The pipe from which an operand, or the tile that it transposes, was popped; or the ring of which it is a whole
    stage. None for other operands."""
    if is_transpose(operand) and not is_stage(operand):
        assert isinstance(operand.owner, BufView)
        operand = operand.owner.buffer
    if isinstance(operand.owner, PipePop):
        return operand.owner.pipe
    return root(operand) if isinstance(operand.type, BufType) and is_stage(operand) else None


def _read_otherwise(kernel: Kernel) -> set[Value | None]:
    """The pipes whose popped tiles are also read by ops other than matmuls, and hand-written rings, since
    copies into them do no rounding."""
    pipes: set[Value | None] = {v for op in kernel.body.ops for v in op.results if is_by_hand(v)}
    used = uses(kernel.body)
    for op in kernel.walk():
        is_unused = isinstance(op, BufRead) and op.result not in used
        is_transposed_view = isinstance(op, BufView) and is_transpose(op.result)
        if is_unused or is_transposed_view or isinstance(op, GroupMma):
            continue
        for v in op.operands:
            source = root(v).owner if isinstance(v.type, BufType) else None
            if isinstance(source, PipePop):
                pipes.add(source.pipe)
    return pipes


def _unsupported_reason(op: MatmulLike, threads: int, transposed: bool | None = None) -> str:
    """The reason why warp groups cannot compute a matmul of these types and shapes; empty if they can. `transposed`:
    whether the transposed matmul is computed instead."""
    if transposed is None:
        transposed = isinstance(op, RegisterMma) and op.register_operand == 1
    a, b, out, mma_types = op.a.type, op.b.type, op.result.type, shared_mma_types(op)
    assert (
        isinstance(a, BufType | TileType) and isinstance(b, BufType | TileType) and isinstance(out, TileType)
    )
    groups = group_of(op, threads).warp_groups
    if not groups:
        return "its threads are not whole warp groups"
    if mma_types is None:
        tf32 = ' (precision="tf32" would allow it)' if a.dtype == b.dtype == out.dtype == float32 else ""
        return f"wgmma does not multiply {a.dtype} by {b.dtype} into {out.dtype}{tf32}"
    rows, columns = out.shape[::-1] if transposed else out.shape
    groups_m, groups_n, blocks_m, blocks_n = wgmma_group_tile((rows, columns), groups)
    if (64 * blocks_m * groups_m, 8 * blocks_n * groups_n) != (rows, columns):
        return f"{rows} rows and {columns} columns are not a multiple of 64 by 8 for each of {warp_groups_text(groups)}"
    if a.shape[1] % mma_types.depth:
        return f"K is {a.shape[1]}, which is not a multiple of {mma_types.depth}"
    return ""


def warp_groups_text(groups: int) -> str:
    """The number of warp groups, as text."""
    return "1 warp group" if groups == 1 else f"{groups} warp groups"


def explain_matmuls(kernel: Kernel) -> list[str]:
    """Lines for `explain()`: the source line of each matmul, the unit that computes it, and why it is not wgmma."""
    lines: list[str] = []
    for op in kernel.walk():
        if not isinstance(op, GroupMma):
            continue
        unit = (
            "tensor cores of warps (mma.sync)"
            if register_mma_types(op) is not None
            else "multiply-adds of threads"
        )
        if op.unit == "wgmma":
            instruction = "tensor cores of warp groups (wgmma)"
        else:
            instruction = f"{unit}; not wgmma: {op.declined}" if op.declined else unit
        lines.append(f"  line {op.loc.line}: {instruction}")
    return (["matmuls:"] if lines else []) + list(dict.fromkeys(lines))


def _narrows(op: MatmulLike) -> bool:
    """Whether the accumulators are rounded or truncated to a narrower result type."""
    out, mma_types = op.result.type, shared_mma_types(op)
    assert isinstance(out, TileType) and mma_types is not None
    return scalar_of(out.dtype).bits < mma_types.sum.bits


def _rows_fit(op: MatmulLike, threads: int, transposed: bool) -> bool:
    """Whether each warp group computes whole rows (columns), so that its registers hold the rows of the operand that
    the matmul needs."""
    t = op.result.type
    assert isinstance(t, TileType)
    groups = group_of(op, threads).warp_groups
    return t.shape[int(transposed)] % (64 * groups) == 0


def _stage(pipe: Value) -> PipeType | TileType:
    assert isinstance(pipe.type, PipeType | BufType)
    return pipe.type if isinstance(pipe.type, PipeType) else TileType(pipe.type.dtype, pipe.type.shape[1:])
