"""The blocks of the launch that a CTA computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tegula.codegen.gpu.control import for_warps
from tegula.codegen.gpu.state import GpuState
from tegula.ir import Contents, Kernel, Op
from tegula.ops.lane import BlockCoordinate, LogicalBlocks
from tegula.ops.roles import WARP, Roles
from tegula.ops.schedule import ClusterEnd, ClusterPeer, LaunchNext, ScheduleOp
from tegula.passes.lanes_of_blocks import lanes_in_use
from tegula.passes.runner import GpuCompilation

MAX_WARPS_PER_CTA = 8
"""The maximum number of warps of a CTA that run separate blocks."""
MAX_SHARED_BYTES = 48 << 10
"""The maximum number of bytes of shared memory of a CTA that runs several blocks."""
ALIGNMENT, SWIZZLE_ALIGNMENT = 128, 1024
"""The alignment in bytes of a block's part of shared memory, without and with swizzled buffers."""


def blocks_together(kernel: Kernel, parts: GpuCompilation, contents: Contents) -> tuple[int, int, int]:
    """The maximum number of warps in a CTA that run separate blocks, the lanes of each block, and the bytes of shared
    memory of one block. Blocks of one warp share a CTA, because starting a CTA takes as long as running a small block.
    Blocks with hardware barriers, bulk copies or roles have a CTA each."""
    shared_bytes = parts.shared.plan.total
    if parts.threads != WARP or any(map(_needs_cta, contents.of(*_OF_A_CTA))):
        return 1, WARP, shared_bytes
    lanes = lanes_in_use(kernel, parts)
    alignment = (
        SWIZZLE_ALIGNMENT
        if any(allocation.row_bytes for allocation in parts.shared.allocations.values())
        else ALIGNMENT
    )
    part_bytes, warps = -(-shared_bytes // alignment) * alignment, MAX_WARPS_PER_CTA
    if lanes < WARP:
        # Blocks of one warp access the same offsets of their parts, which must be in different banks.
        part_bytes += ALIGNMENT * lanes // WARP
    while warps > 1 and warps * part_bytes * (WARP // lanes) > MAX_SHARED_BYTES:
        warps //= 2
    return (warps, lanes, part_bytes) if warps > 1 else (1, WARP, shared_bytes)


def thread_and_block(s: GpuState) -> list[str]:
    """The instructions that compute the index of a thread in its block, the number of the block, and the start of the
    block's shared memory."""
    number = "  %block32 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()"
    if s.together == 1:
        return [
            "  %lane32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
            "  %lane = zext nneg i32 %lane32 to i64",
            number,
            "  %block = zext nneg i32 %block32 to i64",
            "  %shared = addrspacecast ptr addrspace(3) @shared to ptr",
        ]
    # The range lets LLVM remove code that no thread of a warp executes, such as the corner above a diagonal.
    lines = [
        f"  %thread32 = call range(i32 0, {WARP}) i32 @llvm.nvvm.read.ptx.sreg.tid.x()",
        f"  %lane32 = and i32 %thread32, {s.block_lanes - 1}",
        "  %lane = zext nneg i32 %lane32 to i64",
        number,
        "  %own32 = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()",
        # A shuffle makes the warp index warp-uniform for ptxas.
        "  %row32 = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %own32, i32 0, i32 31)",
        "  %rows32 = call i32 @llvm.nvvm.read.ptx.sreg.ntid.y()",
        "  %row = zext nneg i32 %row32 to i64",
        "  %rows = zext nneg i32 %rows32 to i64",
        "  %cta = zext nneg i32 %block32 to i64",
        "  %first = mul nuw nsw i64 %cta, %rows",
        "  %warp = add nuw nsw i64 %first, %row",
        "  %memory = addrspacecast ptr addrspace(3) @shared to ptr",
    ]
    per_warp = WARP // s.block_lanes
    if per_warp == 1:
        lines += ["  %block = add nuw nsw i64 %warp, 0", "  %place = add nuw nsw i64 %row, 0"]
    else:
        lines += [
            f"  %nth32 = udiv i32 %thread32, {s.block_lanes}",
            "  %nth = zext nneg i32 %nth32 to i64",
            f"  %leading = mul nuw nsw i64 %warp, {per_warp}",
            "  %own = add nuw nsw i64 %leading, %nth",
            f"  %row.start = mul nuw nsw i64 %row, {per_warp}",
            "  %place = add nuw nsw i64 %row.start, %nth",
        ]
    return [
        *lines,
        f"  %part = mul nuw nsw i64 %place, {s.part_bytes}",
        "  %shared = getelementptr inbounds i8, ptr %memory, i64 %part",
    ]


def for_blocks(s: GpuState, act: Callable[[], None]) -> None:
    """Emit the code of a block. The last CTA of a launch may have more warps than remaining blocks; the surplus warps
    end immediately."""
    if s.together == 1:
        act()
        return
    threads = s.kernel.launch.block_dim
    count = s.first(f"udiv i64 {s.first(f'add i64 {s.thread_count}, {threads - 1}')}, {threads}")
    if s.block_lanes == WARP:
        for_warps(s, s.first(f"icmp ult i64 %block, {count}"), act)
        return
    # Lanes without a block recompute the last block.
    last = s.first(f"sub i64 {count}, 1")
    s.code.entry.append(f"  %block = call i64 @llvm.umin.i64(i64 %own, i64 {last})")
    for_warps(s, s.first(f"icmp ult i64 %leading, {count}"), act)


def _needs_cta(op: Op) -> bool:
    if isinstance(op, LogicalBlocks):
        return bool(op.scale)
    return not isinstance(op, LaunchNext)


_OF_A_CTA = (LogicalBlocks, Roles, ClusterPeer, ClusterEnd, ScheduleOp)
"""The classes of the ops of which blocks may need a CTA each."""


def logical_blocks(s: GpuState, op: LogicalBlocks) -> None:
    """The bounds of a loop over blocks, which starts at the block's index; the step is the number of concurrent
    blocks."""
    if op.scale:
        end = "1"
        for length in _scaled_grid(s, [*s.dims[:-1]], op.scale, "i64"):
            end = s.code.emit(f"mul i64 {end}, {length}")
    else:
        end = s.code.emit(f"udiv i64 {s.thread_count}, {s.kernel.launch.block_dim}")
    ctas = s.code.emit("call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()")
    step = s.code.emit(f"zext nneg i32 {ctas} to i64")
    if s.together > 1:
        step = s.code.emit(f"mul i64 {step}, %rows")
    values = ("%block", end, step)
    s.scalars.update(zip(op.results, ((v,) for v in values), strict=True))


def _scaled_grid(s: GpuState, grid: Sequence[str], scale: Sequence[tuple[int, int]], width: str) -> list[str]:
    """The dimensions of the grid of logical blocks, integers of type `width`."""
    lengths = list[str]()
    for length, (numerator, denominator) in zip(grid, scale or ((1, 1),) * len(grid), strict=True):
        parts = _times(s, length, denominator, width)
        if numerator > 1:
            parts = s.code.emit(f"add {width} {parts}, {numerator - 1}")
            parts = s.code.emit(f"udiv {width} {parts}, {numerator}")
        lengths.append(parts)
    return lengths


def _times(s: GpuState, length: str, factor: int, width: str) -> str:
    return s.code.emit(f"mul {width} {length}, {factor}") if factor > 1 else length


def block_place(s: GpuState, op: BlockCoordinate) -> None:
    """Lower `block.coordinate`: the coordinate of a block in one dimension of the launch. The computation is in 32
    bits, because launches of kernels with this op have fewer than 2 ** 32 blocks."""
    code, (numerator, denominator) = s.code, op.scale[op.dim] if op.scale else (1, 1)
    blocks = [code.emit(f"trunc i64 {n} to i32") for n in s.dims[:-1]]
    coordinate = _coordinate(s, op, _scaled_grid(s, blocks, op.scale, "i32"))
    if (numerator, denominator) != (1, 1):
        coordinate = _times(s, coordinate, numerator, "i32")
        last_coordinate = code.emit(f"sub i32 {_times(s, blocks[op.dim], denominator, 'i32')}, {numerator}")
        coordinate = code.emit(f"call i32 @llvm.umin.i32(i32 {coordinate}, i32 {last_coordinate})")
    s.scalars[op.result] = (coordinate,)


def _coordinate(s: GpuState, op: BlockCoordinate, grid: Sequence[str]) -> str:
    """The coordinate of a logical block in a grid of the given lengths."""
    code, dim, raster = s.code, op.dim, op.raster
    columns = grid[-1]
    rows = grid[-2] if len(grid) > 1 else "1"
    number = code.emit(f"trunc i64 {s.i64(op.block)} to i32")
    if len(grid) > 2:
        plane = code.emit(f"mul i32 {rows}, {columns}")
        if dim == 0:
            return code.emit(f"udiv i32 {number}, {plane}")
        number = code.emit(f"urem i32 {number}, {plane}")
    # The number of blocks of a group with more rows than the grid may wrap. The number is not used as a divisor, and
    # the remainder is correct modulo 2 ** 32.
    group = code.emit(f"mul i32 {columns}, {raster}")
    group_index = code.emit(f"udiv i32 {code.emit(f'udiv i32 {number}, {raster}')}, {columns}")
    first_row = code.emit(f"mul i32 {group_index}, {raster}")
    index_in_group = code.emit(f"sub i32 {number}, {code.emit(f'mul i32 {group_index}, {group}')}")
    remaining_rows = code.emit(f"sub i32 {rows}, {first_row}")
    group_rows = code.emit(f"call i32 @llvm.umin.i32(i32 {remaining_rows}, i32 {raster})")
    if dim == len(grid) - 1:
        return code.emit(f"udiv i32 {index_in_group}, {group_rows}")
    return code.emit(f"add i32 {first_row}, {code.emit(f'urem i32 {index_in_group}, {group_rows}')}")
