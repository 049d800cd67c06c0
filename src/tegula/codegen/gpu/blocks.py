"""The loop of a CTA over blocks of the launch."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.gpu.state import GpuState
from tegula.ops.lane import BlockPlace, LogicalBlocks


def logical_blocks(s: GpuState, op: LogicalBlocks) -> None:
    """The bounds of a CTA's loop over blocks, which starts at the CTA's index with the number of CTAs as step."""
    if op.scale:
        end = "1"
        for length in _scaled_grid(s, [*s.dims[:-1]], op.scale, "i64"):
            end = s.code.emit(f"mul i64 {end}, {length}")
    else:
        end = s.code.emit(f"udiv i64 {s.launched}, {s.kernel.launch.block_dim}")
    step = s.code.emit("call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()")
    values = ("%block", end, s.code.emit(f"zext nneg i32 {step} to i64"))
    s.scalars.update(zip(op.results, ((v,) for v in values), strict=True))


def _scaled_grid(s: GpuState, grid: Sequence[str], scale: Sequence[tuple[int, int]], width: str) -> list[str]:
    """The dimensions of the grid of logical blocks, integers of type `width`."""
    found = list[str]()
    for length, (up, down) in zip(grid, scale or ((1, 1),) * len(grid), strict=True):
        parts = _times(s, length, down, width)
        if up > 1:
            parts = s.code.emit(f"add {width} {parts}, {up - 1}")
            parts = s.code.emit(f"udiv {width} {parts}, {up}")
        found.append(parts)
    return found


def _times(s: GpuState, length: str, factor: int, width: str) -> str:
    return s.code.emit(f"mul {width} {length}, {factor}") if factor > 1 else length


def block_place(s: GpuState, op: BlockPlace) -> None:
    """Lower `block.place`: the coordinate of a block in one dimension of the launch. The computation is in 32 bits,
    because launches of kernels with this op have fewer than 2 ** 32 blocks."""
    code, (up, down) = s.code, op.scale[op.dim] if op.scale else (1, 1)
    blocks = [code.emit(f"trunc i64 {n} to i32") for n in s.dims[:-1]]
    place = _coordinate(s, op, _scaled_grid(s, blocks, op.scale, "i32"))
    if (up, down) != (1, 1):
        place = _times(s, place, up, "i32")
        last = code.emit(f"sub i32 {_times(s, blocks[op.dim], down, 'i32')}, {up}")
        place = code.emit(f"call i32 @llvm.umin.i32(i32 {place}, i32 {last})")
    s.scalars[op.result] = (place,)


def _coordinate(s: GpuState, op: BlockPlace, grid: Sequence[str]) -> str:
    """The coordinate of a logical block in a grid of the given lengths."""
    code, dim, raster = s.code, op.dim, op.raster
    across = grid[-1]
    down = grid[-2] if len(grid) > 1 else "1"
    number = code.emit(f"trunc i64 {s.i64(op.block)} to i32")
    if len(grid) > 2:
        each = code.emit(f"mul i32 {down}, {across}")
        if dim == 0:
            return code.emit(f"udiv i32 {number}, {each}")
        number = code.emit(f"urem i32 {number}, {each}")
    # The number of blocks of a group with more rows than the grid may wrap. The number is not used as a divisor, and
    # the remainder is correct modulo 2 ** 32.
    group = code.emit(f"mul i32 {across}, {raster}")
    nth = code.emit(f"udiv i32 {code.emit(f'udiv i32 {number}, {raster}')}, {across}")
    first = code.emit(f"mul i32 {nth}, {raster}")
    rest = code.emit(f"sub i32 {number}, {code.emit(f'mul i32 {nth}, {group}')}")
    below = code.emit(f"sub i32 {down}, {first}")
    height = code.emit(f"call i32 @llvm.umin.i32(i32 {below}, i32 {raster})")
    if dim == len(grid) - 1:
        return code.emit(f"udiv i32 {rest}, {height}")
    return code.emit(f"add i32 {first}, {code.emit(f'urem i32 {rest}, {height}')}")
