"""Reads of tables, which are read-only data of the compiled code.

Reads at literal indices become literals, so that LLVM needs no values of long tables: on GPUs these are declared only,
with a comment that becomes the definition in PTX (see `tegula.backend.ptx_tables`). On GPUs a table whose indices are
the same in all threads is in constant memory, if it fits: multiply-adds read it without an access of the L1 cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tegula.codegen.text import Code, constant, constants, memory_type, register_type, vector_of
from tegula.ir import Carrier, Op
from tegula.ops.lane import Lanes
from tegula.ops.roles import Roles
from tegula.ops.table import TableGet
from tegula.types import DType, float32, float64, to_numpy

MIN_STRING = 64
"""The minimum number of elements of a table whose definition LLVM reads as a string, or not at all."""
CONSTANT_SPACE = "addrspace(4) "
"""The address space of constant memory, which has 64 KB in a module."""
MAX_CONSTANT_BYTES = 1 << 15
"""The maximum size in bytes of all tables in constant memory."""
WORD = 8
"""The bytes of a word of PTX's definition of a table, which ptxas reads several times faster than bytes."""
ROW_LENGTHS = (2, 4)
"""The lengths of the last dimension for which a GPU reads a whole row by one access."""


def table_elements(code: Code, op: TableGet, registers: Sequence[str], width: int) -> str:
    """The elements of a table at `width` indices; an index out of bounds reads the last element of its dimension."""
    dtype: DType = op.type
    scalar, size = memory_type(dtype), max(1, dtype.bits // 8)
    index_type = vector_of("i64", width)
    indices = [
        _clamped(code, value.type, x, n, width)
        for value, x, n in zip(op.indices, registers, op.shape, strict=True)
    ]
    if all(map(str.isdecimal, indices)):
        return constant(dtype, op.read([*map(int, indices)]), width)
    space = _space(code, op, size)
    pointer_type = f"ptr {space}".rstrip()
    table = code.table(dtype, op.elements, space, lambda: _definition(space, scalar, dtype, op.elements))
    *outer, last = indices
    if (
        code.table_space
        and outer
        and last.isdecimal()
        and op.shape[-1] in ROW_LENGTHS
        and size * op.shape[-1] <= 16
    ):
        row = _row(code, op, pointer_type, table, outer)
        loaded = code.emit(f"extractelement {vector_of(scalar, op.shape[-1])} {row}, i32 {last}")
        return code.emit(f"icmp ne i8 {loaded}, 0") if dtype.is_bool else loaded
    flat_index = _flat_index(code, op, indices, width)
    pointer = f"getelementptr inbounds {scalar}, {pointer_type} {table}, {index_type} {flat_index}"
    if width == 1:
        loaded = code.emit(
            f"load {scalar}, {pointer_type} {code.emit(pointer)}, align {size}, !invariant.load !{{}}"
        )
    else:
        vector = vector_of(scalar, width)
        name = {"half": "f16", "float": "f32", "double": "f64"}.get(scalar, scalar)
        pointers = f"<{width} x ptr> align {size} {code.emit(pointer)}"
        mask_and_default = f"{vector_of('i1', width)} splat (i1 true), {vector} poison"
        loaded = code.call(
            "masked.gather", f"v{width}{name}.v{width}p0", vector, f"{pointers}, {mask_and_default}"
        )
    return (
        code.emit(f"icmp ne {vector_of('i8', width)} {loaded}, zeroinitializer") if dtype.is_bool else loaded
    )


def _space(code: Code, op: TableGet, size: int) -> str:
    """The address space of a table whose elements have `size` bytes."""
    if not code.table_space or any(map(code.varies, op.indices)) or _is_for_elements(op):
        return code.table_space
    key, size = (id(op.elements), op.type), size * len(op.elements)
    others = sum([n for other, n in code.constant_tables.items() if other != key])
    if others + size > MAX_CONSTANT_BYTES:
        return code.table_space
    code.constant_tables[key] = size
    return CONSTANT_SPACE


def _is_for_elements(op: Op) -> bool:
    """Whether an op is in a function of the elements of a tile, which threads run for different elements."""
    region = op.parent
    while region is not None and region.parent is not None:
        if not isinstance(region.parent, (Carrier, Lanes, Roles)):
            return True
        region = region.parent.parent
    return False


def _row(code: Code, op: TableGet, pointer_type: str, table: str, outer: Sequence[str]) -> str:
    """The elements along the last dimension as one vector, which is read once in a basic block."""
    scalar, n = memory_type(op.type), op.shape[-1]
    key = code.block, table, tuple(outer)
    if key not in code.table_rows:
        index = _flat_index(code, op, [*outer, "0"], 1)
        pointer = code.emit(f"getelementptr inbounds {scalar}, {pointer_type} {table}, i64 {index}")
        vector = vector_of(scalar, n)
        align = n * max(1, op.type.bits // 8)
        code.table_rows[key] = code.emit(
            f"load {vector}, {pointer_type} {pointer}, align {align}, !invariant.load !{{}}"
        )
    return code.table_rows[key]


def _clamped(code: Code, t: object, x: str, n: int, width: int) -> str:
    """An index as i64, clamped to the last index of its dimension; a literal index stays a literal."""
    assert isinstance(t, DType)
    if width == 1 and x.lstrip("-").isdecimal():
        return x if 0 <= int(x) < n else str(n - 1)
    index_type = vector_of("i64", width)
    i = x if t.bits == 64 else code.emit(
        f"{'sext' if t.is_signed else 'zext'} {register_type(t, width)} {x} to {index_type}"
    )  # fmt: skip
    in_bounds = code.emit(f"icmp ult {index_type} {i}, {_i64_constant(n, width)}")
    return code.emit(
        f"select {vector_of('i1', width)} {in_bounds}, {index_type} {i}, {index_type} {_i64_constant(n - 1, width)}"
    )


def _flat_index(code: Code, op: TableGet, indices: Sequence[str], width: int) -> str:
    """The row-major index of an element."""
    index = ""
    for i, n in zip(indices, op.shape, strict=True):
        index = _extended_index(code, index, i, n, width)
    return index


def _i64_constant(n: int, width: int) -> str:
    return str(n) if width == 1 else f"splat (i64 {n})"


def _extended_index(code: Code, outer_index: str, index: str, size: int, width: int) -> str:
    """The row-major index of an element, extended by one dimension."""
    if not outer_index:
        return index
    if outer_index.isdecimal() and index.isdecimal():
        return str(int(outer_index) * size + int(index))
    t = vector_of("i64", width)
    return code.emit(f"add {t} {code.emit(f'mul {t} {outer_index}, {_i64_constant(size, width)}')}, {index}")


def _definition(space: str, scalar: str, dtype: DType, elements: Sequence[float]) -> str:
    """The definition of a table of at least `MIN_STRING` floats of 32 or 64 bits as a string, which LLVM parses several
    times faster than numbers, or as words for the assembler; of other tables as numbers."""
    if dtype in (float32, float64) and len(elements) >= MIN_STRING:
        with np.errstate(over="ignore"):
            data = np.array(elements, to_numpy(dtype)).astype(f"<f{dtype.bits // 8}").view(np.uint8)
        if not space:
            return f'private unnamed_addr constant [{len(data)} x i8] c"{_ESCAPED[data].tobytes().decode()}", align 16'
        declaration = f"external {space}constant [{len(elements)} x {scalar}], align 16"
        return f"{declaration} ; {_words(data)}"
    numbers = [str(int(bool(x))) for x in elements] if dtype.is_bool else constants(dtype, elements)
    values = ", ".join([f"{scalar} {x}" for x in numbers])
    array = f"[{len(elements)} x {scalar}] [{values}], align 16"
    return f"private unnamed_addr {space}constant {array}"


def _words(data: np.ndarray) -> str:
    """The words of bytes, padded with zeros, as hexadecimal numbers. The lowest byte of a word is the first."""
    padded = np.zeros(-(-len(data) // WORD) * WORD, np.uint8)
    padded[: len(data)] = data
    words = padded.reshape(-1, WORD)[:, ::-1]
    text = np.empty((len(words), len("0x") + 2 * WORD + len(",")), np.uint8)
    text[:, 0], text[:, 1], text[:, -1] = b"0x,"
    text[:, 2:-1] = _DIGITS[words].reshape(len(words), -1)
    return text.tobytes().decode()[:-1]


# Byte k of a string constant is written as three characters, byte k of a word as two.
_ESCAPED = np.array([list(f"\\{k:02X}".encode()) for k in range(256)], np.uint8)
_DIGITS = np.array([list(f"{k:02x}".encode()) for k in range(256)], np.uint8)
