"""Matmuls by the tensor cores of warps: each instruction computes 16 rows by 8 columns; K is the outermost loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.gpu.fragments import COLUMNS, ROWS, Elements, Fragments, Matrices, loader, sides
from tegula.codegen.gpu.state import GpuState
from tegula.codegen.text import register_type
from tegula.layout import MmaWarpTile, mma_warp_tile
from tegula.ops.group import SharedMma
from tegula.types import BufType, TileType

if TYPE_CHECKING:
    from tegula.passes.mma_types import MmaTypes

MAX_UNROLLED_STEPS = 8
"""The maximum number of steps of K that are emitted without a loop."""
FLOAT64_DEPTHS = (16, 8)
"""The depths of float64 instructions on Hopper and later, besides depth 4, which all targets have."""
DEEP_FLOAT64 = (9, 0)
"""The first compute capability with `FLOAT64_DEPTHS`."""


def matmul(s: GpuState, op: SharedMma, mma_types: MmaTypes, start: list[str]) -> list[str]:
    """The registers of start + a @ b in the layout `mma_result`."""
    a, result_type = op.a.type, op.result.type
    assert isinstance(a, BufType) and isinstance(result_type, TileType)
    warp_tile = mma_warp_tile((result_type.shape[0], result_type.shape[1]), s.threads // 32)
    length = a.shape[1]
    fragments = Fragments(mma_types.bits, _depth(s, mma_types, length))
    warp = s.first(f"lshr i32 {s.lane32}, 5")
    warp_row, warp_column = (
        s.first(f"{instruction} i32 {warp}, {warp_tile.warps_n}") for instruction in ("udiv", "urem")
    )
    origin = (
        _offset(s, warp_row, ROWS * warp_tile.mmas_m),
        _offset(s, warp_column, COLUMNS * warp_tile.mmas_n),
    )
    left, right = (loader(s, side, fragments) for side in sides(s, op, warp_tile, origin, mma_types))
    if length <= MAX_UNROLLED_STEPS * fragments.depth:
        sums = list(start)
        for k in range(0, length, fragments.depth):
            sums = _step(s, mma_types, fragments, (left, right), str(k), warp_tile, sums)
        return sums
    t = register_type(mma_types.sum, 1)
    carried = [(t, x) for x in start]
    with s.code.loop("0", str(length), str(fragments.depth), carried, s.rolled()) as loop:
        loop.next = _step(s, mma_types, fragments, (left, right), loop.index, warp_tile, loop.values)
    return loop.results


def _depth(s: GpuState, mma_types: MmaTypes, length: int) -> int:
    """The depth of the instructions in elements of K."""
    if mma_types.left != "f64" or s.target.capability < DEEP_FLOAT64:  # type: ignore[attr-defined]
        return mma_types.depth
    return next((n for n in FLOAT64_DEPTHS if length % n == 0), mma_types.depth)


def _offset(s: GpuState, number: str, length: int) -> str:
    return s.first(f"zext nneg i32 {s.first(f'mul i32 {number}, {length}')} to i64")


def _step(
    s: GpuState,
    mma_types: MmaTypes,
    fragments: Fragments,
    operands: tuple[Matrices | Elements, Matrices | Elements],
    k: str,
    warp_tile: MmaWarpTile,
    sums: list[str],
) -> list[str]:
    left, right = (x.load(k) for x in operands)
    accumulators = list(sums)
    for i in range(warp_tile.mmas_m):
        for j in range(warp_tile.mmas_n):
            first = 4 * (j + warp_tile.mmas_n * i)
            accumulators[first : first + 4] = multiply(
                s, mma_types, fragments.depth, left[i], right[j], accumulators[first : first + 4]
            )
    return accumulators


def multiply(
    s: GpuState, mma_types: MmaTypes, depth: int, a: list[str], b: list[str], c: list[str]
) -> list[str]:
    """One instruction of a warp: c + a @ b."""
    if mma_types.bits == 16:
        return _mma_16_bit(s, mma_types, a, b, c)
    if mma_types.left == "f64" and depth == mma_types.depth and s.target.capability < DEEP_FLOAT64:  # type: ignore[attr-defined]
        # Two instructions of 8 rows each.
        shape = f"m{ROWS // 2}n{COLUMNS}k{depth}"
        return [
            *_inline_mma(s, shape, mma_types, a[:1], b, c[:2]),
            *_inline_mma(s, shape, mma_types, a[1:], b, c[2:]),
        ]
    return _inline_mma(s, f"m{ROWS}n{COLUMNS}k{depth}", mma_types, a, b, c)


def _mma_16_bit(s: GpuState, mma_types: MmaTypes, a: list[str], b: list[str], c: list[str]) -> list[str]:
    code = s.code
    if mma_types.left == "bf16":
        name = "mma.m16n8k16.row.col.bf16"
        args = [f"i32 {x}" for x in (*a, *b)]
    else:
        name = "mma.m16n8k16.row.col.f32.f32"
        args = [f"<2 x half> {code.emit(f'bitcast i32 {x} to <2 x half>')}" for x in (*a, *b)]
    args += [f"float {x}" for x in c]
    result = "{ float, float, float, float }"
    values = code.emit(f"call {result} @llvm.nvvm.{name}({', '.join(args)})")
    return [code.emit(f"extractvalue {result} {values}, {k}") for k in range(4)]


REGISTERS = {"float": "f", "i32": "r", "double": "d"}
"""Constraints of inline assembly, by LLVM type."""
SUMS = {"float": "f32", "i32": "s32", "double": "f64"}


def _inline_mma(
    s: GpuState, shape: str, mma_types: MmaTypes, a: list[str], b: list[str], c: list[str]
) -> list[str]:
    sum_type = register_type(mma_types.sum, 1)
    operand_type = "double" if mma_types.left == "f64" else "i32"
    names = iter(range(len(c) + len(a) + len(b) + len(c)))
    groups = [", ".join(f"${next(names)}" for _ in part) for part in (c, a, b, c)]
    types = f"{SUMS[sum_type]}.{mma_types.left}.{mma_types.right}.{SUMS[sum_type]}"
    text = f"mma.sync.aligned.{shape}.row.col.{types} " + ", ".join(f"{{{g}}}" for g in groups) + ";"
    constraints = (
        [f"={REGISTERS[sum_type]}"] * len(c)
        + [REGISTERS[operand_type]] * (len(a) + len(b))
        + [REGISTERS[sum_type]] * len(c)
    )
    args = [f"{operand_type} {x}" for x in (*a, *b)] + [f"{sum_type} {x}" for x in c]
    result = f"{{ {', '.join([sum_type] * len(c))} }}"
    values = s.code.emit(
        f'call {result} asm "{text}", "{",".join(constraints)}"({", ".join(args)}) convergent'
    )
    return [s.code.emit(f"extractvalue {result} {values}, {k}") for k in range(len(c))]
