"""Lowering of ops on the four bytes of a uint32, at any SIMD width."""

from __future__ import annotations

from tegula.codegen.text import Code, constant, register_type, vector_of
from tegula.ir import Op
from tegula.types import DType


def permute_bytes(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    """The instruction of GPUs, or shifts of both integers in one of 64 bits."""
    if code.approximates:
        return code.emit(f"call i32 @llvm.nvvm.prmt(i32 {xs[0]}, i32 {xs[1]}, i32 {xs[2]})")
    narrow, wide = vector_of("i32", width), vector_of("i64", width)

    def number(x: int) -> str:
        return str(x) if width == 1 else f"splat (i64 {x})"

    def binary(name: str, x: str, y: str) -> str:
        return code.emit(f"{name} {wide} {x}, {y}")

    a, b, selector = (code.emit(f"zext {narrow} {x} to {wide}") for x in xs)
    both, result = binary("or", a, binary("shl", b, number(32))), number(0)
    for k in range(4):
        index = binary("and", binary("lshr", selector, number(4 * k)), number(7))
        byte = binary("and", binary("lshr", both, binary("shl", index, number(3))), number(255))
        sign = binary("mul", binary("lshr", byte, number(7)), number(255))
        digit = binary("and", selector, number(8 << 4 * k))
        is_byte = code.emit(f"icmp eq {wide} {digit}, {number(0)}")
        byte = code.emit(f"select {vector_of('i1', width)} {is_byte}, {wide} {byte}, {wide} {sign}")
        result = binary("or", result, binary("shl", byte, number(8 * k)))
    return code.emit(f"trunc {wide} {result} to {narrow}")


def dot_bytes(code: Code, op: Op, dtype: DType, xs: list[str], width: int) -> str:
    """The instruction of GPUs, or four multiplications."""
    a, b, total = xs
    if code.approximates:
        return code.emit(f"call i32 @llvm.nvvm.idp4a.s.u(i32 {a}, i32 {b}, i32 {total})")
    t = register_type(dtype, width)

    def binary(name: str, x: str, y: str | int) -> str:
        return code.emit(f"{name} {t} {x}, {constant(dtype, y, width) if isinstance(y, int) else y}")

    for k in range(4):
        signed = binary("ashr", binary("shl", a, 24 - 8 * k), 24)
        unsigned = binary("and", binary("lshr", b, 8 * k), 255)
        total = binary("add", total, binary("mul", signed, unsigned))
    return total
