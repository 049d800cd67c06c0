"""Reads of tables, which are read-only data of the compiled code."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.text import Code, constant, memory_type, register_type, vector_of
from tegula.ops.table import TableGet
from tegula.types import DType


def table_elements(code: Code, op: TableGet, at: Sequence[str], width: int) -> str:
    """The elements of a table at `width` indices; an index out of bounds reads the last element of its dimension."""
    dtype: DType = op.type
    wide, flags = vector_of("i64", width), vector_of("i1", width)
    number = ""
    for value, x, n in zip(op.indices, at, op.shape, strict=True):
        t = value.type
        assert isinstance(t, DType)
        i = x if t.bits == 64 else code.emit(
            f"{'sext' if t.is_signed else 'zext'} {register_type(t, width)} {x} to {wide}"
        )  # fmt: skip
        inside = code.emit(f"icmp ult {wide} {i}, {_wide(n, width)}")
        i = code.emit(f"select {flags} {inside}, {wide} {i}, {wide} {_wide(n - 1, width)}")
        number = _added(code, number, i, n, width)
    scalar, space = memory_type(dtype), code.table_space
    table = code.table(dtype, op.elements, lambda: _written(scalar, dtype, op.elements))
    kind = f"ptr {space}".rstrip()
    pointer = f"getelementptr inbounds {scalar}, {kind} {table}, {wide} {number}"
    size = max(1, dtype.bits // 8)
    if width == 1:
        loaded = code.emit(f"load {scalar}, {kind} {code.emit(pointer)}, align {size}, !invariant.load !{{}}")
    else:
        vector = vector_of(scalar, width)
        name = {"half": "f16", "float": "f32", "double": "f64"}.get(scalar, scalar)
        pointers = f"<{width} x ptr> align {size} {code.emit(pointer)}"
        every = f"{flags} splat (i1 true), {vector} poison"
        loaded = code.call("masked.gather", f"v{width}{name}.v{width}p0", vector, f"{pointers}, {every}")
    return (
        code.emit(f"icmp ne {vector_of('i8', width)} {loaded}, zeroinitializer") if dtype.is_bool else loaded
    )


def _wide(n: int, width: int) -> str:
    return str(n) if width == 1 else f"splat (i64 {n})"


def _added(code: Code, number: str, index: str, size: int, width: int) -> str:
    """The row-major index of an element, extended by one dimension."""
    if not number:
        return index
    t = vector_of("i64", width)
    return code.emit(f"add {t} {code.emit(f'mul {t} {number}, {_wide(size, width)}')}, {index}")


def _written(scalar: str, dtype: DType, elements: Sequence[float]) -> str:
    values = ", ".join(f"{scalar} {_element(dtype, x)}" for x in elements)
    return f"[{len(elements)} x {scalar}] [{values}], align 16"


def _element(dtype: DType, x: float) -> str:
    return str(int(bool(x))) if dtype.is_bool else constant(dtype, x)
