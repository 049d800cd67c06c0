"""The loop of a CTA over blocks of the launch."""

from __future__ import annotations

from tegula.codegen.gpu.state import GpuState
from tegula.ir import Op
from tegula.ops.lane import BlockPlace


def logical_blocks(s: GpuState, op: Op) -> None:
    """The bounds of a CTA's loop over blocks, which starts at the CTA's index with the number of CTAs as step."""
    end = s.code.emit(f"udiv i64 {s.launched}, {s.kernel.launch.block_dim}")
    step = s.code.emit("call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()")
    values = ("%block", end, s.code.emit(f"zext nneg i32 {step} to i64"))
    s.scalars.update(zip(op.results, ((v,) for v in values), strict=True))


def block_place(s: GpuState, op: BlockPlace) -> None:
    """Lower `block.place`: the coordinate of a block in one dimension of the launch. The computation is in 32 bits,
    because launches of kernels with this op have fewer than 2 ** 32 blocks."""
    code, dim, raster = s.code, op.dim, op.raster
    grid = [code.emit(f"trunc i64 {n} to i32") for n in s.dims[:-1]]
    across = grid[-1]
    down = grid[-2] if len(grid) > 1 else "1"
    number = code.emit(f"trunc i64 {s.i64(op.block)} to i32")
    if len(grid) > 2:
        each = code.emit(f"mul i32 {down}, {across}")
        if dim == 0:
            s.scalars[op.result] = (code.emit(f"udiv i32 {number}, {each}"),)
            return
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
        place = code.emit(f"udiv i32 {rest}, {height}")
    else:
        place = code.emit(f"add i32 {first}, {code.emit(f'urem i32 {rest}, {height}')}")
    s.scalars[op.result] = (place,)
