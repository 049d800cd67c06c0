"""Exact conversion of 8-bit numbers to wider floats, several at once.

A conversion of a single integer takes an instruction of a slow unit. Here a byte becomes the lowest bits of a float
with known other bits, and arithmetic on both halves of a register completes the conversion. 8-bit floats are converted
by hardware instructions, two at once."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.codegen.convert import convert, float_bits
from tegula.codegen.text import Code, constant, float_literal, register_type
from tegula.target import CudaTarget
from tegula.types import DType, bfloat16, float8_e4m3, float8_e5m2, float16, float32, int8, uint8

BYTES_PER_REGISTER = 4


def widens_together(target: CudaTarget, source: DType, to: DType) -> bool:
    """Whether `widened` converts between these types. Before Hopper, PTX has no conversions of 8-bit floats."""
    narrow = (int8, uint8, float8_e4m3, float8_e5m2) if target.capability >= (9, 0) else (int8, uint8)
    return source in narrow and to in (float16, bfloat16, float32)


def widened(code: Code, numbers: Sequence[str], source: DType, to: DType) -> list[str]:
    """The conversion of 8-bit numbers to floats of type `to`."""
    floats: list[str] = []
    for first in range(0, len(numbers), BYTES_PER_REGISTER):
        chunk = numbers[first : first + BYTES_PER_REGISTER]
        widen = _floats_to_floats if source.is_float else _integers_to_floats
        floats += widen(code, *_in_one_register(code, chunk), source, to)[: len(chunk)]
    return floats


def _in_one_register(code: Code, numbers: Sequence[str]) -> tuple[str, Sequence[int]]:
    """A vector of four bytes that contains the given bytes, and their positions. Bytes that were extracted from one
    vector stay in this vector, because otherwise LLVM might keep a permutation before the permutation of
    `_interleaved`."""
    sources = [code.bytes_of.get(x, ("", 0)) for x in numbers]
    vectors = {vector for vector, _ in sources}
    if len(numbers) == BYTES_PER_REGISTER and len(vectors) == 1 and "" not in vectors:
        return sources[0][0], [k for _, k in sources]
    packed = "zeroinitializer"
    for k, x in enumerate(numbers):
        packed = code.emit(f"insertelement <4 x i8> {packed}, i8 {x}, i32 {k}")
    return packed, range(BYTES_PER_REGISTER)


# Integers ------------------------------------------------------------------------------------------------------------


def _integers_to_floats(
    code: Code, packed: str, positions: Sequence[int], source: DType, to: DType
) -> list[str]:
    """The bytes at four positions as floats. A signed n is handled as the unsigned n + 128, whose bits differ from n
    only in the sign bit."""
    if source.is_signed:
        packed = code.emit(f"xor <4 x i8> {packed}, splat (i8 -128)")
    bias = 128 if source.is_signed else 0
    if to is float32:
        return [_byte_to_float32(code, packed, k, bias) for k in positions]
    convert_pair = _two_halves if to is float16 else _two_bfloats
    return [x for k in (0, 2) for x in convert_pair(code, packed, positions[k], positions[k + 1], bias)]


def _byte_to_float32(code: Code, packed: str, k: int, bias: int) -> str:
    """Byte k as a float32: between 2^23 and 2^24 the unit in the last place is 1."""
    bits = _interleaved(code, packed, (k, None, None, None), (0, 0, 0, 0x4B))
    number = code.emit(f"bitcast <4 x i8> {bits} to float")
    return code.emit(f"fsub float {number}, {float_literal(float((1 << 23) + bias), float32)}")


def _two_halves(code: Code, packed: str, j: int, k: int, bias: int) -> list[str]:
    """Bytes j and k as float16: between 1024 and 2048 the unit in the last place is 1."""
    bits = _interleaved(code, packed, (j, None, k, None), (0, 0x64, 0, 0x64))
    numbers = code.emit(f"bitcast <4 x i8> {bits} to <2 x half>")
    return _unpack_pair(
        code, code.emit(f"fsub <2 x half> {numbers}, {constant(float16, 1024 + bias, 2)}"), float16
    )


def _two_bfloats(code: Code, packed: str, j: int, k: int, bias: int) -> list[str]:
    """Bytes j and k as bfloat16. The seven mantissa bits of a bfloat16 are too few for a byte, but the lower eight
    bits have the unit 2^-133 if the upper bits are 0, for subnormal and normal numbers alike."""
    pair, bits = "<2 x bfloat>", _interleaved(code, packed, (j, None, k, None), (0, 0, 0, 0))
    numbers = code.emit(f"bitcast <4 x i8> {bits} to {pair}")
    larger = code.emit(f"fmul {pair} {numbers}, {_bfloats(2.0**127)}")
    scale, negative_bias = _bfloats(2.0**6), _bfloats(-float(bias))
    scaled_pair = code.call("fma", "v2bf16", pair, f"{pair} {larger}, {pair} {scale}, {pair} {negative_bias}")
    return _unpack_pair(code, code.emit(f"bitcast {pair} {scaled_pair} to <2 x i16>"), bfloat16)


def _bfloats(value: float) -> str:
    """A bfloat literal in both elements of a vector."""
    return f"splat (bfloat 0xR{float_bits(value) >> 16:04X})"


# Floats --------------------------------------------------------------------------------------------------------------


def _floats_to_floats(
    code: Code, packed: str, positions: Sequence[int], source: DType, to: DType
) -> list[str]:
    """The bytes at four positions as floats of type `to`."""
    packed = _interleaved(code, packed, positions, (0, 0, 0, 0))
    convert_pair = _two_e5m2_to_float16 if source is float8_e5m2 else _two_e4m3_to_float16
    halves = [x for k in (0, 2) for x in _unpack_pair(code, convert_pair(code, packed, k), float16)]
    return [convert(code, x, float16, to, 1) for x in halves]


def _two_e5m2_to_float16(code: Code, packed: str, k: int) -> str:
    """Two e5m2 floats as float16: an e5m2 float is the upper half of the equal float16."""
    bits = _interleaved(code, packed, (None, k, None, k + 1), (0, 0, 0, 0))
    return code.emit(f"bitcast <4 x i8> {bits} to <2 x half>")


def _two_e4m3_to_float16(code: Code, packed: str, k: int) -> str:
    pairs = code.emit(f"bitcast <4 x i8> {packed} to <2 x i16>")
    pair = code.emit(f"extractelement <2 x i16> {pairs}, i32 {k // 2}")
    return code.emit(f"call <2 x half> @llvm.nvvm.e4m3x2.to.f16x2.rn(i16 {pair})")


# Parts of registers --------------------------------------------------------------------------------------------------


def _interleaved(code: Code, packed: str, selected: Sequence[int | None], constants: Sequence[int]) -> str:
    """A vector of four bytes: byte `selected[k]` of `packed`, or the constant `constants[k]` if `selected[k]` is
    None."""
    constant_bytes = ", ".join(f"i8 {n}" for n in constants)
    mask = ", ".join(f"i32 {4 + position if k is None else k}" for position, k in enumerate(selected))
    return code.emit(f"shufflevector <4 x i8> {packed}, <4 x i8> <{constant_bytes}>, <4 x i32> <{mask}>")


def _unpack_pair(code: Code, pair: str, dtype: DType) -> list[str]:
    scalar_type = register_type(dtype, 1)
    return [code.emit(f"extractelement <2 x {scalar_type}> {pair}, i32 {k}") for k in (0, 1)]
