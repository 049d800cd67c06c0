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
from tegula.deferred import deferred_imports
from tegula.ir import Op, Value
from tegula.layout import Layout
from tegula.ops import scalar as S
from tegula.ops.group import RegisterMma, SharedMma
from tegula.types import DType, TileType, float32, scalar_of

with deferred_imports():
    from tegula.passes.mma_types import register_mma_types

DEPTH_STEP = 4
"""Steps of K in one iteration of the loop."""
MAX_UNROLLED_TRIPS = 8
"""The maximum trip count of a loop over K that LLVM may unroll."""


def matmul(s: GpuState, op: RegisterMma | SharedMma) -> None:
    """Lower a matmul: alpha * a @ b + beta * c in the layout of c."""
    t = op.result.type
    assert isinstance(t, TileType)
    result_dtype = scalar_of(t.dtype)
    mma_types = register_mma_types(op)
    compute_dtype = (
        mma_types.sum
        if mma_types is not None
        else float32
        if result_dtype.is_float and result_dtype.bits < 32
        else result_dtype
    )
    converted_sums = [convert(s.code, parts[0], result_dtype, compute_dtype, 1) for parts in s.held[op.c]]
    is_unscaled = _is_one(op.alpha) and _is_one(op.beta)
    zero = constant(compute_dtype, 0)
    start = converted_sums if is_unscaled else [zero] * len(converted_sums)
    layout = s.layouts[op.result]
    if op.unit == "wgmma":
        sums = wgmma.matmul(s, op, start)
    else:
        assert isinstance(op, SharedMma)
        a, b = (s.buffers[v] for v in (op.a, op.b))
        sums = (
            _fma(s, a, b, layout, compute_dtype, start)
            if mma_types is None
            else mma.matmul(s, op, mma_types, start)
        )
    if not is_unscaled:
        alpha, beta = (
            convert(s.code, s.scalar(v), result_dtype, compute_dtype, 1) for v in (op.alpha, op.beta)
        )
        sums = [
            _apply(
                s,
                S.Add,
                compute_dtype,
                _scaled(s, compute_dtype, alpha, x),
                _scaled(s, compute_dtype, beta, c),
            )
            for x, c in zip(sums, converted_sums, strict=True)
        ]
    s.held[op.result] = [(convert(s.code, x, compute_dtype, result_dtype, 1),) for x in sums]


def _apply(s: GpuState, kind: type[Op], dtype: DType, a: str, b: str) -> str:
    return elementwise(s.code, kind([], []), dtype, [a, b], 1)


def _scaled(s: GpuState, compute_dtype: DType, factor: str, x: str) -> str:
    """factor * x; 0 for a factor of 0, even if x is NaN or infinite."""
    scaled = _apply(s, S.Mul, compute_dtype, factor, x)
    if not compute_dtype.is_float:
        return scaled
    zero, t = constant(compute_dtype, 0), register_type(compute_dtype, 1)
    is_zero = s.code.emit(f"fcmp oeq {t} {factor}, {zero}")
    return s.code.emit(f"select i1 {is_zero}, {t} {zero}, {t} {scaled}")


def _is_one(value: Value) -> bool:
    return isinstance(value.owner, S.Const) and value.owner.value == 1


# Fused multiply-adds -------------------------------------------------------------------------------------------------


def _fma(s: GpuState, a: View, b: View, layout: Layout, compute_dtype: DType, start: list[str]) -> list[str]:
    """A loop over K of fused multiply-adds. Each thread reads its rows of a, several steps of K at a time, and its
    columns of b, by vectors of adjacent columns."""
    depth = a.shape[1]
    step = next(n for n in (DEPTH_STEP, 2, 1) if depth % n == 0)
    offsets = [layout.register_offsets(r) for r in range(layout.register_count)]
    rows = sorted({i for i, _ in offsets})
    columns = sorted({j for _, j in offsets})
    base = s.base(layout)
    row_indices = [_clamp_to_layout(s, base[0], i, layout, 0) for i in rows]
    carried = [(register_type(compute_dtype, 1), x) for x in start]
    with s.code.loop(
        "0", str(depth), str(step), carried, s.rolled(depth // step <= MAX_UNROLLED_TRIPS)
    ) as loop:
        left = {
            i: _adjacent_elements(s, a, [at, loop.index], step, compute_dtype)
            for i, at in zip(rows, row_indices, strict=True)
        }
        sums = list(loop.values)
        for k in range(step):
            depth_at = s.memory.add(loop.index, str(k))
            right = _row(s, b, depth_at, base[1], columns, layout, compute_dtype)
            for r, (i, j) in enumerate(offsets):
                sums[r] = _multiply_add(s, compute_dtype, left[i][k], right[j], sums[r])
        loop.next = sums
    return loop.results


def _clamp_to_layout(s: GpuState, base: str, offset: int, layout: Layout, dim: int) -> str:
    """A coordinate, or 0 in the layout's padding."""
    coordinate = s.memory.add(base, str(offset))
    if not layout.padded(dim):
        return coordinate
    is_in_bounds = s.code.emit(f"icmp ult i64 {coordinate}, {layout.shape[dim]}")
    return s.code.emit(f"select i1 {is_in_bounds}, i64 {coordinate}, i64 0")


def _adjacent_elements(
    s: GpuState, view: View, index: list[str], count: int, compute_dtype: DType
) -> list[str]:
    """`count` adjacent elements of a row, converted to the type of the arithmetic, `compute_dtype`."""
    dtype = scalar_of(view.dtype)
    pointer = s.memory.at(view, index)
    is_vector_load = (
        view.contiguous and count > 1 and view.strides[0] % count == 0 and count * dtype.bits <= 128
    )
    if is_vector_load:
        values = vector_load(s, pointer, dtype, count)
    else:
        values = [
            s.memory.load(s.memory.offset(pointer, str(k * view.strides[1]), dtype), dtype)
            for k in range(count)
        ]
    return [convert(s.code, v, dtype, compute_dtype, 1) for v in values]


def _row(
    s: GpuState, b: View, depth: str, base: str, columns: list[int], layout: Layout, compute_dtype: DType
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
        index = [depth, _clamp_to_layout(s, base, j, layout, 1)]
        pointers.update(
            zip(range(j, j + width), _adjacent_elements(s, b, index, width, compute_dtype), strict=True)
        )
    return pointers


def _multiply_add(s: GpuState, compute_dtype: DType, a: str, b: str, c: str) -> str:
    if compute_dtype.is_float:
        return elementwise(s.code, S.Fma([], []), compute_dtype, [a, b, c], 1)
    return _apply(s, S.Add, compute_dtype, _apply(s, S.Mul, compute_dtype, a, b), c)


def to_tf32(s: GpuState, x: str) -> str:
    """A float32 rounded to tf32."""
    word = s.code.emit(f"bitcast float {x} to i32")
    return s.code.emit(f"bitcast i32 {rounded(s, word)} to float")
