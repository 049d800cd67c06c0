"""The types with which tensor cores compute a matmul, by their names in the PTX manual.

Operands in shared memory keep their type; operands in registers may be widened to a type that represents all their
values. float32 is rounded to tf32 only if the matmul's precision allows it."""

from __future__ import annotations

from tegula.dataclass import dataclass
from tegula.ir import MatmulLike
from tegula.types import (
    BufType,
    DType,
    TileType,
    bfloat16,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int32,
    scalar_of,
    uint8,
)

STEP_BITS = 256
"""The bits along K of an operand row of one instruction."""
NAMES: dict[DType, str] = {
    float16: "f16",
    bfloat16: "bf16",
    float8_e4m3: "e4m3",
    float8_e5m2: "e5m2",
    int8: "s8",
    uint8: "u8",
    float64: "f64",
}
BYTES = ("s8", "u8")


@dataclass(frozen=True, slots=True)
class MmaTypes:
    """The types of a matmul. `left`, `right`: the element types of the operands; `bits`: the width of an element;
    `sum`: the type of the accumulators."""

    left: str
    right: str
    bits: int
    sum: DType

    @property
    def depth(self) -> int:
        """The extent along K of one MMA instruction."""
        return STEP_BITS // self.bits


def shared_mma_types(op: MatmulLike) -> MmaTypes | None:
    """The types of a matmul whose operands tensor cores read from shared memory; None if the types have no
    instruction."""
    a, b, out = _types(op)
    if out.is_float and out.bits <= 32:
        if a == b == float32 and _rounds(op):
            return MmaTypes("tf32", "tf32", 32, float32)
        if a in NAMES and b in NAMES and a.is_float and (a == b or a.bits == b.bits == 8) and a.bits <= 16:
            return MmaTypes(NAMES[a], NAMES[b], a.bits, float32)
    # One signed and one unsigned operand need a later PTX version than Hopper's.
    if _is_integer(out) and a == b and NAMES.get(a) in BYTES:
        return MmaTypes(NAMES[a], NAMES[b], 8, int32)
    return None


def register_mma_types(op: MatmulLike) -> MmaTypes | None:
    """The types of a matmul whose operands are in registers, widened if needed; None if no type represents all values
    of both operands."""
    a, b, out = _types(op)
    if out is float64:
        return MmaTypes("f64", "f64", 64, float64)
    if out.is_float:
        if float64 in (a, b) or (float32 in (a, b) and not _rounds(op)):
            return None
        for t in (float16, bfloat16):
            if all(x is t or x.bits == 8 for x in (a, b)):
                return MmaTypes(NAMES[t], NAMES[t], 16, float32)
        return MmaTypes("tf32", "tf32", 32, float32)
    if _is_integer(out) and NAMES.get(a) in BYTES and NAMES.get(b) in BYTES:
        return MmaTypes(NAMES[a], NAMES[b], 8, int32)
    return None


def _types(op: MatmulLike) -> tuple[DType, DType, DType]:
    """The scalar types of the operands and of the result."""
    a, b, out = op.a.type, op.b.type, op.result.type
    assert isinstance(a, BufType | TileType) and isinstance(b, BufType | TileType)
    assert isinstance(out, TileType)
    return scalar_of(a.dtype), scalar_of(b.dtype), scalar_of(out.dtype)


def _rounds(op: MatmulLike) -> bool:
    return op.precision == "tf32"


def _is_integer(t: DType) -> bool:
    """Whether a type is an integer type whose modular sums equal sums in int32, truncated to the type."""
    return not t.is_float and not t.is_bool and t.bits <= 32
