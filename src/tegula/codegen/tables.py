"""Reads of tables, which are read-only data of the compiled code."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.text import Code, constant, memory_type, register_type, vector_of
from tegula.ops.table import TableGet
from tegula.types import DType

ROWS = (2, 4)
"""The lengths of last dimensions that one access of a GPU reads."""


def table_elements(code: Code, op: TableGet, at: Sequence[str], width: int) -> str:
    """The elements of a table at `width` indices; an index out of bounds reads the last element of its dimension."""
    dtype: DType = op.type
    scalar, space = memory_type(dtype), code.table_space
    wide = vector_of("i64", width)
    table = code.table(dtype, op.elements, lambda: _written(scalar, dtype, op.elements))
    kind, size = f"ptr {space}".rstrip(), max(1, dtype.bits // 8)
    indices = [
        _clamped(code, value.type, x, n, width) for value, x, n in zip(op.indices, at, op.shape, strict=True)
    ]
    *outer, last = indices
    if code.table_space and outer and last.isdecimal() and op.shape[-1] in ROWS and size * op.shape[-1] <= 16:
        row = _row(code, op, table, outer)
        loaded = code.emit(f"extractelement {vector_of(scalar, op.shape[-1])} {row}, i32 {last}")
        return code.emit(f"icmp ne i8 {loaded}, 0") if dtype.is_bool else loaded
    pointer = f"getelementptr inbounds {scalar}, {kind} {table}, {wide} {_number(code, op, indices, width)}"
    if width == 1:
        loaded = code.emit(f"load {scalar}, {kind} {code.emit(pointer)}, align {size}, !invariant.load !{{}}")
    else:
        vector = vector_of(scalar, width)
        name = {"half": "f16", "float": "f32", "double": "f64"}.get(scalar, scalar)
        pointers = f"<{width} x ptr> align {size} {code.emit(pointer)}"
        every = f"{vector_of('i1', width)} splat (i1 true), {vector} poison"
        loaded = code.call("masked.gather", f"v{width}{name}.v{width}p0", vector, f"{pointers}, {every}")
    return (
        code.emit(f"icmp ne {vector_of('i8', width)} {loaded}, zeroinitializer") if dtype.is_bool else loaded
    )


def _row(code: Code, op: TableGet, table: str, outer: Sequence[str]) -> str:
    """The elements along the last dimension as one vector, which is read once in a basic block."""
    scalar, n = memory_type(op.type), op.shape[-1]
    key = code.block, table, tuple(outer)
    if key not in code.table_rows:
        number = _number(code, op, [*outer, "0"], 1)
        kind = f"ptr {code.table_space}".rstrip()
        pointer = code.emit(f"getelementptr inbounds {scalar}, {kind} {table}, i64 {number}")
        vector = vector_of(scalar, n)
        align = n * max(1, op.type.bits // 8)
        code.table_rows[key] = code.emit(
            f"load {vector}, {kind} {pointer}, align {align}, !invariant.load !{{}}"
        )
    return code.table_rows[key]


def _clamped(code: Code, t: object, x: str, n: int, width: int) -> str:
    """An index as i64, at most the last one of its dimension; the number itself if the index is known."""
    assert isinstance(t, DType)
    if width == 1 and x.lstrip("-").isdecimal():
        return x if 0 <= int(x) < n else str(n - 1)
    wide = vector_of("i64", width)
    i = x if t.bits == 64 else code.emit(
        f"{'sext' if t.is_signed else 'zext'} {register_type(t, width)} {x} to {wide}"
    )  # fmt: skip
    inside = code.emit(f"icmp ult {wide} {i}, {_wide(n, width)}")
    return code.emit(f"select {vector_of('i1', width)} {inside}, {wide} {i}, {wide} {_wide(n - 1, width)}")


def _number(code: Code, op: TableGet, indices: Sequence[str], width: int) -> str:
    """The row-major index of an element."""
    number = ""
    for i, n in zip(indices, op.shape, strict=True):
        number = _added(code, number, i, n, width)
    return number


def _wide(n: int, width: int) -> str:
    return str(n) if width == 1 else f"splat (i64 {n})"


def _added(code: Code, number: str, index: str, size: int, width: int) -> str:
    """The row-major index of an element, extended by one dimension."""
    if not number:
        return index
    if number.isdecimal() and index.isdecimal():
        return str(int(number) * size + int(index))
    t = vector_of("i64", width)
    return code.emit(f"add {t} {code.emit(f'mul {t} {number}, {_wide(size, width)}')}, {index}")


def _written(scalar: str, dtype: DType, elements: Sequence[float]) -> str:
    values = ", ".join(f"{scalar} {_element(dtype, x)}" for x in elements)
    return f"[{len(elements)} x {scalar}] [{values}], align 16"


def _element(dtype: DType, x: float) -> str:
    return str(int(bool(x))) if dtype.is_bool else constant(dtype, x)
