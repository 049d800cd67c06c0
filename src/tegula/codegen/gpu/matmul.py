"""Matmuls of operands in shared memory, by tensor cores or by fused multiply-adds."""

from __future__ import annotations

from tegula.codegen.convert import convert
from tegula.codegen.gpu import mma, wgmma
from tegula.codegen.gpu.access import vector_load
from tegula.codegen.gpu.fragments import rounded
from tegula.codegen.gpu.state import GpuState
from tegula.codegen.scalar import elementwise
from tegula.codegen.storage import View
from tegula.codegen.text import constant, register_type
from tegula.ir import Op, Value
from tegula.layout import Layout
from tegula.ops import scalar as S
from tegula.ops.group import RegisterMma, SharedMma
from tegula.passes.mma_types import register_mma_types
from tegula.types import DType, TileType, float32, scalar_of

UNROLL = 4
"""Steps of K in one iteration of the loop."""
UNROLLED = 8
"""The maximum trip count of a loop over K that LLVM may unroll."""


def matmul(s: GpuState, op: RegisterMma | SharedMma) -> None:
    """Lower a matmul: alpha * a @ b + beta * c in the layout of c."""
    t = op.result.type
    assert isinstance(t, TileType)
    out = scalar_of(t.dtype)
    mma_types = register_mma_types(op)
    work = mma_types.sum if mma_types is not None else float32 if out.is_float and out.bits < 32 else out
    converted_sums = [convert(s.code, parts[0], out, work, 1) for parts in s.held[op.c]]
    plain = _is_one(op.alpha) and _is_one(op.beta)
    zero = constant(work, 0)
    start = converted_sums if plain else [zero] * len(converted_sums)
    layout = s.layouts[op.result]
    if op.unit == "wgmma":
        sums = wgmma.matmul(s, op, start)
    else:
        assert isinstance(op, SharedMma)
        a, b = (s.buffers[v] for v in (op.a, op.b))
        sums = (
            _fma(s, a, b, layout, work, start) if mma_types is None else mma.matmul(s, op, mma_types, start)
        )
    if not plain:
        alpha, beta = (convert(s.code, s.scalar(v), out, work, 1) for v in (op.alpha, op.beta))
        sums = [
            _apply(s, S.Add, work, _scaled(s, work, alpha, x), _scaled(s, work, beta, c))
            for x, c in zip(sums, converted_sums, strict=True)
        ]
    s.held[op.result] = [(convert(s.code, x, work, out, 1),) for x in sums]


def _apply(s: GpuState, kind: type[Op], dtype: DType, a: str, b: str) -> str:
    return elementwise(s.code, kind([], []), dtype, [a, b], 1)


def _scaled(s: GpuState, work: DType, factor: str, x: str) -> str:
    """factor * x; 0 for a factor of 0, also if x is NaN or infinite."""
    scaled = _apply(s, S.Mul, work, factor, x)
    if not work.is_float:
        return scaled
    zero, t = constant(work, 0), register_type(work, 1)
    without = s.code.emit(f"fcmp oeq {t} {factor}, {zero}")
    return s.code.emit(f"select i1 {without}, {t} {zero}, {t} {scaled}")


def _is_one(value: Value) -> bool:
    return isinstance(value.owner, S.Const) and value.owner.value == 1


# Fused multiply-adds -------------------------------------------------------------------------------------------------


def _fma(s: GpuState, a: View, b: View, layout: Layout, work: DType, start: list[str]) -> list[str]:
    """A loop over K of fused multiply-adds. Each thread reads its rows of a, several steps of K at a time, and its
    columns of b, by vectors of adjacent columns."""
    depth = a.shape[1]
    step = next(n for n in (UNROLL, 2, 1) if depth % n == 0)
    offsets = [layout.register_offsets(r) for r in range(layout.register_count)]
    rows = sorted({i for i, _ in offsets})
    columns = sorted({j for _, j in offsets})
    base = s.base(layout)
    row_at = [_clamped(s, base[0], i, layout, 0) for i in rows]
    carried = [(register_type(work, 1), x) for x in start]
    with s.code.loop("0", str(depth), str(step), carried, s.rolled(depth // step <= UNROLLED)) as loop:
        left = {i: _along(s, a, [at, loop.index], step, work) for i, at in zip(rows, row_at, strict=True)}
        sums = list(loop.values)
        for k in range(step):
            depth_at = s.memory.add(loop.index, str(k))
            right = _row(s, b, depth_at, base[1], columns, layout, work)
            for r, (i, j) in enumerate(offsets):
                sums[r] = _multiply_add(s, work, left[i][k], right[j], sums[r])
        loop.next = sums
    return loop.results


def _clamped(s: GpuState, base: str, offset: int, layout: Layout, dim: int) -> str:
    """A coordinate, or 0 in the layout's padding."""
    at = s.memory.add(base, str(offset))
    if not layout.padded(dim):
        return at
    inside = s.code.emit(f"icmp ult i64 {at}, {layout.shape[dim]}")
    return s.code.emit(f"select i1 {inside}, i64 {at}, i64 0")


def _along(s: GpuState, view: View, at: list[str], count: int, work: DType) -> list[str]:
    """`count` adjacent elements of a row, converted to the type of the arithmetic, `work`."""
    dtype = scalar_of(view.dtype)
    pointer = s.memory.at(view, at)
    wide = view.contiguous and count > 1 and view.strides[0] % count == 0 and count * dtype.bits <= 128
    if wide:
        values = vector_load(s, pointer, dtype, count)
    else:
        values = [
            s.memory.load(s.memory.offset(pointer, str(k * view.strides[1]), dtype), dtype)
            for k in range(count)
        ]
    return [convert(s.code, v, dtype, work, 1) for v in values]


def _row(
    s: GpuState, b: View, depth: str, base: str, columns: list[int], layout: Layout, work: DType
) -> dict[int, str]:
    """The elements of row `depth` of b at a thread's columns, by column."""
    dtype = scalar_of(b.dtype)
    width = layout.vector
    while width > 1 and (width * dtype.bits > 128 or b.strides[0] % width or not b.contiguous):
        width //= 2
    if layout.padded(1) and layout.shape[1] % width:
        width = 1
    pointers: dict[int, str] = {}
    for j in columns[::width] if width > 1 else columns:
        at = [depth, _clamped(s, base, j, layout, 1)]
        pointers.update(zip(range(j, j + width), _along(s, b, at, width, work), strict=True))
    return pointers


def _multiply_add(s: GpuState, work: DType, a: str, b: str, c: str) -> str:
    if work.is_float:
        return elementwise(s.code, S.Fma([], []), work, [a, b, c], 1)
    return _apply(s, S.Add, work, _apply(s, S.Mul, work, a, b), c)


def to_tf32(s: GpuState, x: str) -> str:
    """A float32 rounded to tf32."""
    word = s.code.emit(f"bitcast float {x} to i32")
    return s.code.emit(f"bitcast i32 {rounded(s, word)} to float")
