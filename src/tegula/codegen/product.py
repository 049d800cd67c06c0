"""The matrix product of tiles in memory: one function per shape and type, register-blocked."""

from __future__ import annotations

from dataclasses import dataclass

from tegula.codegen.text import Code, constant, register_type
from tegula.types import DType


@dataclass(frozen=True, slots=True)
class Product:
    """C (m, n) += A (m, k) @ B (k, n), all of one scalar type. Strides in scalars: A's may be any, B's and C's rows are
    contiguous."""

    m: int
    n: int
    k: int
    dtype: DType
    a_strides: tuple[int, int]
    b_stride: int
    c_stride: int

    @property
    def name(self) -> str:
        parts = (self.m, self.n, self.k, self.dtype, *self.a_strides, self.b_stride, self.c_stride)
        return "product_" + "_".join(map(str, parts)).replace("-", "m")


def register_block(m: int, vectors: int, registers: int) -> tuple[int, int]:
    """Rows and vectors of C held in registers: as many multiply-adds per load as fit, rows that divide m if they cost
    nothing."""
    best = (1, 1)
    for across in range(1, min(vectors, 4) + 1):
        rows = min(m, (registers - across - 1) // across)
        if rows < 1:
            continue
        tall = max(range(max(1, rows - 2), rows + 1), key=lambda r: (m % r == 0, r))
        if _merit(tall, across) > _merit(*best):
            best = (tall, across)
    return best


def _merit(rows: int, across: int) -> float:
    return rows * across / (rows + across)


def emit_product(p: Product, vector_bytes: int) -> tuple[str, set[str]]:
    """The text of `@name(ptr %a, ptr %b, ptr %c)` and the intrinsics it needs."""
    code = Code()
    width = max(1, vector_bytes // (p.dtype.bits // 8))
    while width > p.n:
        width //= 2
    registers = 32 if vector_bytes == 64 else 16
    column = 0
    while column < p.n:
        while width > p.n - column:
            width //= 2
        vectors = (p.n - column) // width
        rows, across = register_block(p.m, vectors, registers)
        groups = vectors // across
        for _ in range(groups):
            _column_block(code, p, column, rows, across, width)
            column += across * width
        if vectors % across:
            _column_block(code, p, column, register_block(p.m, vectors % across, registers)[0], vectors % across, width)
            column += vectors % across * width
    body = "\n".join(code.lines)
    head = f"define internal void @{p.name}(ptr noalias %a, ptr noalias %b, ptr noalias %c) #1 {{\nentry:\n"
    return f"{head}{body}\n  ret void\n}}\n", code.declared


def _column_block(code: Code, p: Product, column: int, rows: int, across: int, width: int) -> None:
    """All rows of `across` vectors of columns, `rows` at a time."""
    whole = p.m // rows
    if whole > 1:
        with code.loop("0", str(whole * rows), str(rows)) as loop:
            _block(code, p, loop.index, column, rows, across, width)
    elif whole == 1:
        _block(code, p, "0", column, rows, across, width)
    if p.m % rows:
        _block(code, p, str(whole * rows), column, p.m % rows, across, width)


def _block(code: Code, p: Product, row: str, column: int, rows: int, across: int, width: int) -> None:
    t, one = register_type(p.dtype, width), register_type(p.dtype, 1)
    size = p.dtype.bits // 8
    a = code.emit(f"getelementptr {one}, ptr %a, i64 {code.emit(f'mul i64 {row}, {p.a_strides[0]}')}")
    c = code.emit(f"getelementptr {one}, ptr %c, i64 {code.emit(f'mul i64 {row}, {p.c_stride}')}")
    places = [
        code.emit(f"getelementptr {one}, ptr {c}, i64 {r * p.c_stride + column + v * width}")
        for r in range(rows)
        for v in range(across)
    ]
    sums = [code.emit(f"load {t}, ptr {at}, align {size}") for at in places]
    if p.k <= 16:
        for k in range(p.k):
            sums = _step(code, p, a, str(k), column, rows, across, width, sums)
    else:
        with code.loop("0", str(p.k), "1", [(t, x) for x in sums]) as loop:
            loop.next = _step(code, p, a, loop.index, column, rows, across, width, loop.values)
        sums = loop.results
    for at, x in zip(places, sums, strict=True):
        code.line(f"store {t} {x}, ptr {at}, align {size}")


def _step(
    code: Code, p: Product, a: str, k: str, column: int, rows: int, across: int, width: int, sums: list[str]
) -> list[str]:
    """One value of k: a row of B times a column of A."""
    t, one = register_type(p.dtype, width), register_type(p.dtype, 1)
    size = p.dtype.bits // 8
    base = code.emit(f"mul i64 {k}, {p.b_stride}")
    brow = code.emit(f"getelementptr {one}, ptr %b, i64 {base}")
    b = [
        code.emit(f"load {t}, ptr {code.emit(f'getelementptr {one}, ptr {brow}, i64 {column + v * width}')}, align {size}")
        for v in range(across)
    ]
    along = code.emit(f"mul i64 {k}, {p.a_strides[1]}")
    acol = code.emit(f"getelementptr {one}, ptr {a}, i64 {along}")
    out: list[str] = []
    for r in range(rows):
        at = code.emit(f"getelementptr {one}, ptr {acol}, i64 {r * p.a_strides[0]}")
        x = _splat(code, code.emit(f"load {one}, ptr {at}, align {size}"), one, width)
        out += [_multiply_add(code, p.dtype, x, b[v], sums[r * across + v], width) for v in range(across)]
    return out


def _splat(code: Code, x: str, one: str, width: int) -> str:
    if width == 1:
        return x
    t = f"<{width} x {one}>"
    made = code.emit(f"insertelement {t} poison, {one} {x}, i32 0")
    return code.emit(f"shufflevector {t} {made}, {t} poison, <{width} x i32> zeroinitializer")


def _multiply_add(code: Code, dtype: DType, a: str, b: str, c: str, width: int) -> str:
    t = register_type(dtype, width)
    if dtype.is_float:
        suffix = f"f{dtype.bits}" if width == 1 else f"v{width}f{dtype.bits}"
        return code.call("fma", suffix, t, f"{t} {a}, {t} {b}, {t} {c}")
    return code.emit(f"add {t} {code.emit(f'mul {t} {a}, {b}')}, {c}")


__all__ = ["Product", "constant", "emit_product"]
