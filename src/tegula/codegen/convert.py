"""Conversions between scalar types. `ops/convert.py` defines the semantics."""

from __future__ import annotations

import struct

from tegula.codegen.text import Code, constant, register_type, vector_of
from tegula.dataclass import dataclass
from tegula.types import DType, bfloat16, float8_e4m3, float8_e5m2, float16, float32, float64


def convert(code: Code, x: str, source: DType, to: DType, width: int) -> str:
    """The conversion of x from type `source` to type `to`, for `width` scalars at once."""
    if source == to:
        return x
    if to.is_bool:
        return _to_bool(code, x, source, width)
    if source.is_float and to.is_float:
        return _float_to_float(code, x, source, to, width)
    if source.is_float:
        return _float_to_int(code, x, source, to, width)
    if to.is_float:
        return _int_to_float(code, x, source, to, width)
    return _int_to_int(code, x, source, to, width)


def _cast(code: Code, op: str, x: str, source: str, to: str, width: int) -> str:
    return code.emit(f"{op} {vector_of(source, width)} {x} to {vector_of(to, width)}")


def _register_type(dtype: DType) -> str:
    return register_type(dtype, 1)


def _to_bool(code: Code, x: str, source: DType, width: int) -> str:
    if source.is_float:
        intermediate = source if source.bits >= 32 else float32
        x = convert(code, x, source, intermediate, width)
        return code.emit(
            f"fcmp une {register_type(intermediate, width)} {x}, {constant(intermediate, 0.0, width)}"
        )
    return code.emit(f"icmp ne {register_type(source, width)} {x}, {constant(source, 0, width)}")


def _int_to_int(code: Code, x: str, source: DType, to: DType, width: int) -> str:
    source_bits = 1 if source.is_bool else source.bits
    if source_bits == to.bits:
        return x
    if width == 1 and x.isdecimal() and int(x) < 1 << (to.bits - 1):
        return x
    op = "trunc" if source_bits > to.bits else "sext" if source.kind == "i" else "zext"
    return _cast(code, op, x, _register_type(source), _register_type(to), width)


def _int_to_float(code: Code, x: str, source: DType, to: DType, width: int) -> str:
    intermediate = to if to.bits >= 32 else float32
    if (
        to is bfloat16 and source.bits >= 32
    ):  # A conversion through float32 would round twice; the range of other narrow floats is too small.
        intermediate = float64
        x = _int_rounded_to_odd(code, x, source, width) if source.bits == 64 else x
    converted = _cast(
        code,
        "sitofp" if source.kind == "i" else "uitofp",
        x,
        _register_type(source),
        _register_type(intermediate),
        width,
    )
    return convert(code, converted, intermediate, to, width)


def _int_rounded_to_odd(code: Code, x: str, source: DType, width: int) -> str:
    """A 64-bit integer rounded to odd to one that float64 represents exactly, so that the following rounding is
    correct: the lowest kept bit is set if any dropped bit was set."""
    ints = _Ints(code, 64, width)
    low_bits = ints.op("and", x, 0x7FF)
    high_bits = ints.op("and", x, -0x800)
    odd = ints.select(ints.test("ne", low_bits, 0), ints.op("or", high_bits, 0x800), high_bits)
    if source.kind == "i":
        is_small = ints.test("ult", ints.op("add", ints.op("ashr", x, 53), 1), 2)
    else:
        is_small = ints.test("eq", ints.op("lshr", x, 53), 0)
    return ints.select(is_small, x, odd)


def _float_to_int(code: Code, x: str, source: DType, to: DType, width: int) -> str:
    """The saturating truncation of a float to an integer; NaN becomes 0. LLVM's saturating conversions are not used,
    because x86 lowers them element by element."""
    if source.bits < 32:
        x, source = convert(code, x, source, float32, width), float32
    floats, flag = register_type(source, width), vector_of("i1", width)
    signed = to.kind == "i"
    smallest = constant(source, -(2.0 ** (to.bits - 1)) if signed else 0.0, width)
    above = code.emit(f"fcmp ogt {floats} {x}, {smallest}")
    too_large = code.emit(f"fcmp oge {floats} {x}, {constant(source, 2.0 ** (to.bits - signed), width)}")
    clamped = code.emit(f"select {flag} {above}, {floats} {x}, {floats} {smallest}")
    clamped = code.emit(f"select {flag} {too_large}, {floats} {smallest}, {floats} {clamped}")
    converted = truncated(code, clamped, source, to, width)
    ints = _Ints(code, to.bits, width)
    largest = (1 << (to.bits - 1)) - 1 if signed else -1
    converted = ints.select(too_large, largest, converted)
    return ints.select(code.emit(f"fcmp uno {floats} {x}, {x}"), 0, converted) if signed else converted


def truncated(code: Code, x: str, source: DType, to: DType, width: int) -> str:
    """A float32 or float64 in the range of integer type `to`, truncated."""
    if to.bits >= 32:
        name = "fptosi" if to.kind == "i" else "fptoui"
        return _cast(code, name, x, _register_type(source), _register_type(to), width)
    converted = _cast(code, "fptosi", x, _register_type(source), "i32", width)
    return _cast(code, "trunc", converted, "i32", _register_type(to), width)


def _mangled(dtype: DType, width: int) -> str:
    base = f"f{dtype.bits}" if dtype.is_float else f"i{dtype.bits}"
    return base if width == 1 else f"v{width}{base}"


def _float_to_float(code: Code, x: str, source: DType, to: DType, width: int) -> str:
    if source.bits < 32:
        return convert(code, _widen(code, x, source, width), float32, to, width)
    if to.bits >= 32:
        return _cast(
            code,
            "fpext" if to.bits > source.bits else "fptrunc",
            x,
            _register_type(source),
            _register_type(to),
            width,
        )
    if source is float64:
        x = _round_to_odd(code, x, width)
    return _narrow(code, x, to, width)


@dataclass(frozen=True, slots=True)
class _Ints:
    """A builder of integer arithmetic on vectors."""

    code: Code
    bits: int
    width: int

    @property
    def type(self) -> str:
        return vector_of(f"i{self.bits}", self.width)

    def k(self, value: int) -> str:
        return str(value) if self.width == 1 else f"splat (i{self.bits} {value})"

    def op(self, name: str, a: str, b: str | int) -> str:
        return self.code.emit(f"{name} {self.type} {a}, {self.k(b) if isinstance(b, int) else b}")

    def test(self, pred: str, a: str, b: str | int) -> str:
        return self.code.emit(f"icmp {pred} {self.type} {a}, {self.k(b) if isinstance(b, int) else b}")

    def select(self, condition: str, a: str | int, b: str | int) -> str:
        flag = vector_of("i1", self.width)
        left, right = (self.k(v) if isinstance(v, int) else v for v in (a, b))
        return self.code.emit(f"select {flag} {condition}, {self.type} {left}, {self.type} {right}")

    def of(self, x: str, source: str) -> str:
        return self.code.emit(f"bitcast {vector_of(source, self.width)} {x} to {self.type}")

    def to(self, x: str, target: str) -> str:
        return self.code.emit(f"bitcast {self.type} {x} to {vector_of(target, self.width)}")


def _round_to_odd(code: Code, x: str, width: int) -> str:
    """float64 to float32, rounded to odd, so that the following rounding is correct."""
    nearest = _cast(code, "fptrunc", x, "double", "float", width)
    widened = _cast(code, "fpext", nearest, "float", "double", width)
    ints = _Ints(code, 32, width)
    bits = ints.of(nearest, "float")
    intermediate = vector_of("double", width)
    inexact = code.emit(f"fcmp one {intermediate} {widened}, {x}")
    magnitudes = [
        code.call("fabs", _mangled(float64, width), intermediate, f"{intermediate} {v}") for v in (widened, x)
    ]
    larger = code.emit(f"fcmp ogt {intermediate} {', '.join(magnitudes)}")
    odd = ints.op("or", ints.select(larger, ints.op("sub", bits, 1), bits), 1)
    return ints.to(ints.select(inexact, odd, bits), "float")


def constant_true(width: int) -> str:
    """The text of a mask whose lanes are all true."""
    return "true" if width == 1 else "splat (i1 true)"


def _widen(code: Code, x: str, source: DType, width: int) -> str:
    """A 16- or 8-bit float as float32, which is exact."""
    if source is float16:
        return _cast(code, "fpext", x, "half", "float", width)
    ints = _Ints(code, 32, width)
    bits = _cast(code, "zext", x, f"i{source.bits}", "i32", width)
    if source is bfloat16:
        return ints.to(ints.op("shl", bits, 16), "float")
    if source is float8_e5m2:
        half = _cast(code, "trunc", ints.op("shl", bits, 8), "i32", "i16", width)
        return _cast(code, "fpext", _Ints(code, 16, width).to(half, "half"), "half", "float", width)
    assert source is float8_e4m3
    magnitude = ints.op("and", bits, 0x7F)
    sign = ints.op("shl", ints.op("and", bits, 0x80), 24)
    floats = vector_of("float", width)
    tiny = ints.to(ints.op("shl", magnitude, 20), "float")
    scaled = code.emit(f"fmul {floats} {tiny}, {constant(float32, 2.0**120, width)}")
    value = ints.op("or", ints.of(scaled, "float"), sign)
    nan = ints.op("or", sign, 0x7FC00000)
    return ints.to(ints.select(ints.test("eq", magnitude, 0x7F), nan, value), "float")


def narrow_exact(code: Code, x: str, to: DType, width: int) -> str:
    """A float32 as a 16- or 8-bit float that represents it exactly; only a NaN's payload may change."""
    if to is not bfloat16:
        return _narrow(code, x, to, width)
    ints = _Ints(code, 32, width)
    return _cast(code, "trunc", ints.op("lshr", ints.of(x, "float"), 16), "i32", "i16", width)


def _narrow(code: Code, x: str, to: DType, width: int) -> str:
    """A float32 rounded to the nearest 16- or 8-bit float, ties to even."""
    if to is float16:
        return _cast(code, "fptrunc", x, "float", "half", width)
    ints = _Ints(code, 32, width)
    bits = ints.of(x, "float")
    if to is bfloat16 and code.rounds_bfloat16:
        return _Ints(code, 16, width).of(_cast(code, "fptrunc", x, "float", "bfloat", width), "bfloat")
    if to is bfloat16:
        lsb = ints.op("and", ints.op("lshr", bits, 16), 1)
        rounded = ints.op("lshr", ints.op("add", ints.op("add", bits, 0x7FFF), lsb), 16)
        quiet = ints.op("or", ints.op("lshr", bits, 16), 0x40)
        is_nan = ints.test("ugt", ints.op("and", bits, 0x7FFFFFFF), 0x7F800000)
        return _cast(code, "trunc", ints.select(is_nan, quiet, rounded), "i32", "i16", width)
    return _narrow_to_8(code, ints, bits, to)


def _narrow_to_8(code: Code, ints: _Ints, bits: str, to: DType) -> str:
    """The rounding to 8-bit floats. e4m3 has no infinity: numbers that round past 448 become NaN. Numbers of e5m2 past
    57344 become infinite."""
    mantissa, bias, largest, overflow = (3, 7, 0x7E, 0x7F) if to is float8_e4m3 else (2, 15, 0x7B, 0x7C)
    drop = 23 - mantissa
    sign = ints.op("and", ints.op("lshr", bits, 24), 0x80)
    magnitude = ints.op("and", bits, 0x7FFFFFFF)
    lsb = ints.op("and", ints.op("lshr", magnitude, drop), 1)
    rounded = ints.op("lshr", ints.op("add", ints.op("add", magnitude, (1 << (drop - 1)) - 1), lsb), drop)
    normal = ints.op("sub", rounded, (127 - bias) << mantissa)
    normal = ints.select(ints.test("ugt", normal, largest), overflow, normal)
    magic = 2.0 ** (1 - bias - mantissa + 23)
    floats = vector_of("float", ints.width)
    total = code.emit(f"fadd {floats} {ints.to(magnitude, 'float')}, {constant(float32, magic, ints.width)}")
    subnormal = ints.op("sub", ints.of(total, "float"), float_bits(magic))
    is_subnormal = ints.test("ult", magnitude, (127 + 1 - bias) << 23)
    value = ints.select(is_subnormal, subnormal, normal)
    value = ints.select(ints.test("ugt", magnitude, 0x7F800000), 0x7F if to is float8_e4m3 else 0x7E, value)
    return _cast(code, "trunc", ints.op("or", value, sign), "i32", "i8", ints.width)


def float_bits(value: float) -> int:
    """The float32 bits of a value."""
    return struct.unpack("<I", struct.pack("<f", value))[0]
