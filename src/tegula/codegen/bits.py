"""Values as bits: the components of a value in one vector register, and bits read as another type."""

from __future__ import annotations

from typing import TypeAlias

from tegula.codegen.convert import convert
from tegula.codegen.text import Code, constant, register_type, scalar_type, vector_of
from tegula.types import DTYPES, DType, uint8

Components: TypeAlias = tuple[str, ...]


def packed(code: Code, parts: Components, dtype: DType, n: int) -> str:
    """Components as one vector register."""
    if parts in code.packed:
        return code.packed[parts]
    t = scalar_type(dtype)
    if len(set(parts)) > 1:
        vector, missing = _shuffled(code, parts, t)
        for k in missing:
            vector = code.emit(f"insertelement <{n} x {t}> {vector}, {t} {parts[k]}, i32 {k}")
        return vector
    if not parts[0].startswith("%"):
        return f"splat ({t} {parts[0]})"
    single = code.emit(f"insertelement <{n} x {t}> poison, {t} {parts[0]}, i32 0")
    return code.emit(f"shufflevector <{n} x {t}> {single}, <{n} x {t}> poison, <{n} x i32> zeroinitializer")


def _shuffled(code: Code, parts: Components, t: str) -> tuple[str, list[int]]:
    """A vector register with the components that were extracted from up to two vector registers, by one shuffle, and
    the positions of all other components. LLVM would combine extracts and inserts to one shuffle too, but makes chains
    of inserts of the shuffles of shuffles of a transpose."""
    registers: list[tuple[str, int]] = []
    sources = [code.extracted.get(part) for part in parts]
    for source in sources:
        if source is not None and source[:2] not in registers and len(registers) < 2:
            registers.append(source[:2])
    length = max((count for _, count in registers), default=0)
    mask: list[str] = []
    missing: list[int] = []
    for k, source in enumerate(sources):
        if source is not None and source[:2] in registers:
            mask.append(f"i32 {registers.index(source[:2]) * length + source[2]}")
        else:
            mask.append("i32 poison")
            missing.append(k)
    if not registers:
        return "poison", missing
    a, b = (*(_extended(code, *register, t, length) for register in registers), "poison")[:2]
    mask_text = f"<{len(parts)} x i32> <{', '.join(mask)}>"
    return code.emit(f"shufflevector <{length} x {t}> {a}, <{length} x {t}> {b}, {mask_text}"), missing


def _extended(code: Code, vector: str, count: int, t: str, length: int) -> str:
    """A vector register of `count` components, extended to `length` components."""
    if count == length:
        return vector
    mask = ", ".join(f"i32 {k}" if k < count else "i32 poison" for k in range(length))
    return code.emit(
        f"shufflevector <{count} x {t}> {vector}, <{count} x {t}> poison, <{length} x i32> <{mask}>"
    )


def bitcasts(code: Code, parts: Components, source: DType, to: DType, width: int) -> Components:
    """Reinterpret the bits of a value, whose first component has the lowest bits, as components of another type."""
    if source.bits == to.bits:
        return tuple(bitcast(code, x, source, to, width) for x in parts)
    if width == 1:
        count = len(parts) * source.bits // to.bits
        first, *others = parts
        vector = packed(code, parts, source, len(parts)) if others else first
        source_type, target_type = (
            vector_of(scalar_type(t), n) for t, n in ((source, len(parts)), (to, count))
        )
        result = code.emit(f"bitcast {source_type} {vector} to {target_type}")
        return code.unpacked(scalar_type(to), count, result) if count > 1 else (result,)
    unsigned = {n: DTYPES[f"uint{n}"] for n in (8, 16, 32, 64)}
    wide, narrow = unsigned[max(source.bits, to.bits)], unsigned[min(source.bits, to.bits)]
    t, ratio = register_type(wide, width), wide.bits // narrow.bits
    shifts = [constant(wide, k * narrow.bits, width) for k in range(ratio)]
    words = [bitcast(code, x, source, unsigned[source.bits], width) for x in parts]
    if source.bits > to.bits:
        pieces = [code.emit(f"lshr {t} {x}, {shift}") for x in words for shift in shifts]
        return tuple(bitcast(code, convert(code, x, wide, narrow, width), narrow, to, width) for x in pieces)
    words = [convert(code, x, narrow, wide, width) for x in words]
    results: list[str] = []
    for first in range(0, len(words), ratio):
        total = words[first]
        for x, shift in zip(words[first + 1 : first + ratio], shifts[1:], strict=True):
            total = code.emit(f"or {t} {total}, {code.emit(f'shl {t} {x}, {shift}')}")
        results.append(bitcast(code, total, wide, to, width))
    return tuple(results)


def bitcast(code: Code, x: str, source: DType, to: DType, width: int) -> str:
    """Reinterpret the bits of a value as another type. A bool has the bits of its byte, 0 or 1."""
    if source == to:
        return x
    source_type, target_type = register_type(source, width), register_type(to, width)
    if to.is_bool:
        bits = vector_of("i8", width)
        return code.emit(f"icmp ne {bits} {x}, {constant(uint8, 0, width)}")
    if source.is_bool:
        return code.emit(f"zext {source_type} {x} to {target_type}")
    return x if source_type == target_type else code.emit(f"bitcast {source_type} {x} to {target_type}")
