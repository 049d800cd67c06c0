"""The cost model of warp specialisation, which chooses a few numbers that the user can override."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.dataclass import replace
from tegula.deferred import deferred_imports
from tegula.ir import Kernel
from tegula.layout import wgmma_group_tile
from tegula.ops.control import For
from tegula.ops.tile import TileAtomic, TileLoad, TileStore
from tegula.passes.select_matmuls import ANY_ORDER
from tegula.passes.specialise.declined import Declined, NoRegisters
from tegula.passes.specialise.find_matmuls import (
    LoadedMatmul,
    OperandDef,
    is_in_loop,
    source_loads,
    transposes,
)
from tegula.passes.specialise.launch_indices import bounds_vary, launch_indices
from tegula.passes.specialise.schedule import Choice, RolePlan
from tegula.target import CudaTarget
from tegula.types import TileType, element_bytes, scalar_of

with deferred_imports():
    from tegula.passes.bulk_access import cuts_boxes, may_swizzle
    from tegula.passes.byte_operands import is_computed_from_bytes, transpose_first
    from tegula.passes.mma_types import shared_mma_types
    from tegula.passes.specialise.costs import iteration_cycles
    from tegula.passes.specialise.registers import available_registers, needed_registers

Items = tuple[OperandDef, ...]
"""The ops whose tiles fill one pipe: loads, or conversions."""
ROWS, COLUMNS = 64, 8
"""The number of rows of a wgmma instruction, and the granularity of its number of columns."""
MAX_GROUPS, MAX_STAGES, MIN_STAGES = 3, 6, 2
STAGING_BYTES = 64 * 128 * 2
"""The size in bytes of the staging buffers through which one warp group stores its results."""
BARRIER_BYTES = 1024
RASTER = 8
"""The number of rows of output tiles in one group of the raster order, whose left operands stay in the L2 cache."""


def make_plan(
    kernel: Kernel,
    target: CudaTarget,
    matmuls: Sequence[LoadedMatmul],
    pipe_items: Sequence[Items],
    choice: Choice,
) -> RolePlan:
    """The plan for a kernel. `pipe_items`: for each pipe the ops whose tiles fill it. Declined if no plan fits."""
    groups = _groups(kernel, target, matmuls, choice)
    persistent = _persistent(kernel, choice)
    if choice.scale and not persistent:
        raise Declined("only persistent blocks may have another size than the blocks of the launch")
    if any(numerator < denominator for numerator, denominator in choice.scale) and groups < 2:
        raise Declined("smaller blocks leave matmuls for one warp group")
    stages = _stages(kernel, target, matmuls, pipe_items, groups, persistent, choice)
    raster = choice.raster or (RASTER if _reuses_along_both_dims(kernel, pipe_items) else 1)
    cycles = iteration_cycles(matmuls)
    return RolePlan(
        groups,
        stages,
        choice.registers or 0,
        persistent,
        raster if persistent else 1,
        cycles=cycles,
        split=choice.split,
        scale=choice.scale,
    )


def _persistent(kernel: Kernel, choice: Choice) -> bool:
    """Whether CTAs are persistent. If loop bounds differ between blocks they are not, because the hardware scheduler
    balances the load better."""
    possible = kernel.launch.last_is_block and kernel.launch.ndim > 1 and not bounds_vary(kernel)
    return possible and choice.persistent is not False


def _reuses_along_both_dims(kernel: Kernel, pipe_items: Sequence[Items]) -> bool:
    """Whether neighbouring blocks load some tiles in common along each of the last two block dimensions."""
    last = kernel.launch.ndim - 2
    repeated = [load for items in pipe_items for op in items if is_in_loop(op) for load in source_loads(op)]
    used = [launch_indices((load.array, *load.offset)) for load in repeated]
    return last > 0 and any(last not in u for u in used) and any(last - 1 not in u for u in used)


# Converted operands ---------------------------------------------------------------------------------------------------


def keep_converted(
    kernel: Kernel, target: CudaTarget, matmuls: Sequence[LoadedMatmul], choice: Choice
) -> Sequence[LoadedMatmul]:
    """The matmuls, changed to convert their right operands from bytes in registers if all of them can; they are then
    computed as transposed matmuls."""
    if not all(p.left and _converted(p) for p in matmuls):
        return matmuls
    converted = [
        replace(p, right=tuple(load for op in p.right for load in source_loads(op)), in_registers=True)
        for p in matmuls
    ]
    if not _with_enough_registers(kernel, target, converted, _possible_groups(converted, choice)):
        return matmuls
    for p in converted:
        transpose_first(p.op)
    return converted


def _converted(p: LoadedMatmul) -> bool:
    """Whether a right operand is a conversion of bytes of its own iteration, or the transpose of one."""
    return len(p.right) == 1 and not isinstance(p.right[0], TileLoad) and is_computed_from_bytes(p.op)


# Warp groups ----------------------------------------------------------------------------------------------------------


def _groups(kernel: Kernel, target: CudaTarget, matmuls: Sequence[LoadedMatmul], choice: Choice) -> int:
    """The number of consumer warp groups: two if their tiles fit in registers, so that one multiplies while the other
    computes or stores its results; else the fewest whose tiles fit."""
    possible = _possible_groups(matmuls, choice)
    if not possible:
        raise Declined(_unsupported_reason(matmuls, choice), matmuls[0].op.loc)
    fitting = _with_enough_registers(kernel, target, matmuls, possible)
    if not fitting:
        needed = needed_registers(kernel.body, matmuls, possible[-1])
        raise NoRegisters(
            f"the tiles at its matmuls take {needed} registers a thread in {possible[-1]} warp groups",
            matmuls[0].op.loc,
        )
    return 2 if 2 in fitting else fitting[0]


def _possible_groups(matmuls: Sequence[LoadedMatmul], choice: Choice) -> list[int]:
    """The numbers of warp groups between which all matmuls can be split."""
    possible = [n for n in range(1, MAX_GROUPS + 1) if all(_fits(p, n) for p in matmuls)]
    return possible if choice.consumers is None else [n for n in possible if n == choice.consumers]


def _with_enough_registers(
    kernel: Kernel, target: CudaTarget, matmuls: Sequence[LoadedMatmul], possible: Sequence[int]
) -> list[int]:
    """The numbers of warp groups, among `possible`, whose registers hold the tiles."""
    return [
        n for n in possible if needed_registers(kernel.body, matmuls, n) <= available_registers(target, n)
    ]


def _fits(p: LoadedMatmul, groups: int) -> bool:
    """Whether warp groups can split a matmul, each with whole instructions."""
    a, c = p.op.a.type, p.op.c.type
    assert isinstance(a, TileType) and isinstance(c, TileType)
    rows, columns = c.shape[::-1] if p.in_registers else c.shape
    if columns % COLUMNS or not _operands_fit(p, a.shape[1]):
        return False
    groups_m, groups_n, blocks_m, blocks_n = wgmma_group_tile((rows, columns), groups)
    is_exact = (ROWS * blocks_m * groups_m, COLUMNS * blocks_n * groups_n) == (rows, columns)
    right = p.op.a if p.in_registers else p.op.b
    along_rows = bool(transposes(right.owner)) == p.in_registers
    if along_rows and cuts_boxes(columns, element_bytes(a.dtype), COLUMNS * blocks_n):
        return False
    return is_exact and (bool(p.left) and not p.in_registers or rows % (ROWS * groups) == 0)


def _operands_fit(p: LoadedMatmul, depth: int) -> bool:
    """Whether tensor cores can read the operands in their stages."""
    mma_types = shared_mma_types(p.op)
    out = p.op.result.type
    assert isinstance(out, TileType)
    if mma_types is None or scalar_of(out.dtype).bits != mma_types.sum.bits or depth % mma_types.depth:
        return False
    transposed = [transposes(v.owner) for v in (p.op.a, p.op.b)]
    loads = [op.result.type for op in (*p.left, *p.right)]
    ordered = mma_types.bits == ANY_ORDER or (bool(p.left) and transposed == [False, True])
    return ordered and all(isinstance(t, TileType) and may_swizzle(t.rows) for t in loads)


def _unsupported_reason(matmuls: Sequence[LoadedMatmul], choice: Choice) -> str:
    for p in matmuls:
        a, b, c = p.op.a.type, p.op.b.type, p.op.c.type
        assert isinstance(a, TileType) and isinstance(b, TileType) and isinstance(c, TileType)
        shapes = f"{a.dtype} {_shape_text(a)} times {b.dtype} {_shape_text(b)} to {c.dtype} {_shape_text(c)}"
        if not any(_fits(p, n) for n in range(1, MAX_GROUPS + 1)):
            return (
                f"warp groups do not multiply {shapes}: docs/schedules.md lists the matmuls that they support"
            )
    if choice.consumers is not None:
        return f"consumers={choice.consumers} warp groups cannot split the matmuls of this kernel"
    return "no number of warp groups fits all matmuls of this kernel"


def _shape_text(t: TileType) -> str:
    return "x".join(map(str, t.shape))


# Stages ---------------------------------------------------------------------------------------------------------------


def _stages(
    kernel: Kernel,
    target: CudaTarget,
    matmuls: Sequence[LoadedMatmul],
    pipe_items: Sequence[Items],
    groups: int,
    persistent: bool,
    choice: Choice,
) -> tuple[int, ...]:
    """The number of stages of each pipe: one for tiles loaded outside of loops, two for converted tiles; pipes of tiles
    loaded in loops all get the same number, as large as shared memory allows. One stage is enough if several matmuls of
    a loop read separate pipes: one pipe is filled while a matmul reads another. Shared memory that remains gives pipes
    of one stage a second one, in the order of `_pipes_by_need`."""
    fixed = [_fixed_stages(items) for items in pipe_items]
    sizes = [_bytes(items[0]) for items in pipe_items]
    fixed_bytes = sum(n * size for n, size in zip(fixed, sizes, strict=True))
    stage_bytes = sum(size for n, size in zip(fixed, sizes, strict=True) if not n)
    staging = STAGING_BYTES * groups * len(_stored(kernel))
    available = target.shared_per_block - staging - BARRIER_BYTES - fixed_bytes
    requested = choice.stages or max(
        (_requested_stages(op) for items in pipe_items for op in items), default=0
    )
    count = min(available // stage_bytes, requested or MAX_STAGES)
    min_stages = 1 if sum(is_in_loop(p.op) for p in matmuls) > 1 else MIN_STAGES
    if count < min(min_stages, requested or min_stages):
        stages = "a stage" if min_stages == 1 else f"{min_stages} stages"
        raise Declined(
            f"{stages} of its tiles take {min_stages * stage_bytes + fixed_bytes + staging:,} bytes of shared memory, "
            f"more than the {target.shared_per_block:,} of a block",
            pipe_items[0][-1].loc,
        )
    stages, spare = [n or count for n in fixed], available - count * stage_bytes
    for k in _pipes_by_need(pipe_items, matmuls):
        may_grow = persistent if fixed[k] else not requested
        if stages[k] == 1 and may_grow and sizes[k] <= spare:
            stages[k], spare = 2, spare - sizes[k]
    return tuple(stages)


def _pipes_by_need(pipe_items: Sequence[Items], matmuls: Sequence[LoadedMatmul]) -> list[int]:
    """The pipes, in the order of their need for a second stage: operands of matmuls in loops, the last matmul first,
    because its operands are released last; other tiles of loops; tiles from outside of loops, whose stages the next
    block of a persistent CTA fills."""
    operands = {op: k for k, p in enumerate(matmuls) for op in (*p.left, *p.right)}

    def need(k: int) -> tuple[bool, int]:
        return not any(map(is_in_loop, pipe_items[k])), -max(operands.get(op, -1) for op in pipe_items[k])

    return sorted(range(len(pipe_items)), key=need)


def _fixed_stages(items: Items) -> int:
    """The number of stages of a pipe if it does not depend on shared memory, else 0. Converted tiles have two stages,
    so that the conversion of a tile is overlapped with the matmul of the previous tile."""
    if not isinstance(items[0], TileLoad):
        return MIN_STAGES
    return 0 if any(map(is_in_loop, items)) else 1


def _requested_stages(load: OperandDef) -> int:
    """The number of stages that the loop around a load requests; 0 without a request."""
    region = load.parent
    while region is not None and region.parent is not None:
        if isinstance(region.parent, For) and region.parent.requested:
            return region.parent.stages
        region = region.parent.parent
    return 0


def _stored(kernel: Kernel) -> set[tuple[int, ...]]:
    """The element sizes of stored tiles; each needs staging buffers of its own."""
    tiles = (op.tile.type for op in kernel.walk() if isinstance(op, TileStore | TileAtomic))
    return {(element_bytes(t.dtype),) for t in tiles if isinstance(t, TileType) and len(t.shape) >= 2}


def _bytes(load: OperandDef) -> int:
    t = load.result.type
    assert isinstance(t, TileType)
    return t.size * element_bytes(t.dtype)
