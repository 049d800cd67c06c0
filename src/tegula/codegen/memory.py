"""Loads and stores of elements: single, SIMD, strided, masked."""

from __future__ import annotations

from tegula.codegen.scalar import Components, mangled
from tegula.codegen.storage import View
from tegula.codegen.text import Code, HoistedLoad, constant, memory_type, register_type, vector_of
from tegula.types import DType, ElementType, components, scalar_of


class MemoryEmitter:
    """The emitter of address arithmetic and memory accesses of one function. Indices are i64 registers or integer
    literals."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.sums: dict[str, tuple[str, int]] = {}

    # Integers; literals are folded -----------------------------------------------------------------------------------

    def add(self, a: str, b: str) -> str:
        """The sum of two i64 values, folded if both are literals."""
        if a == "0" or b == "0":
            return b if a == "0" else a
        if _literal(a) and _literal(b):
            return str(int(a) + int(b))
        total = self.code.emit(f"add i64 {a}, {b}")
        if _literal(b):
            self.sums[total] = a, int(b)
        return total

    def mul(self, a: str, b: str) -> str:
        """The product of two i64 values, folded if both are literals."""
        if a == "0" or b == "0":
            return "0"
        if a == "1" or b == "1":
            return b if a == "1" else a
        if _literal(a) and _literal(b):
            return str(int(a) * int(b))
        return self.code.emit(f"mul i64 {a}, {b}")

    def separated_constant(self, index: str) -> tuple[str, int]:
        """A register or literal and a constant whose sum is the index, so that elements at constant distances share a
        computed address."""
        return self.sums.get(index, (index, 0))

    def quotient(self, a: str, divisor: int) -> str:
        """The quotient of a non-negative i64 and a constant, folded for literals."""
        return str(int(a) // divisor) if _literal(a) else self.code.emit(f"udiv i64 {a}, {divisor}")

    def swizzled(self, offset: str, row_bytes: int) -> str:
        """A swizzled byte offset, as tensor maps swizzle: the index of the 16-byte unit within rows of `row_bytes`, xor
        the index of its 128-byte line."""
        mask = row_bytes // 16 - 1
        if _literal(offset):
            return str(int(offset) ^ ((int(offset) >> 7 & mask) << 4))
        unit = self.code.emit(f"and i64 {self.code.emit(f'lshr i64 {offset}, 3')}, {mask << 4}")
        return self.code.emit(f"xor i64 {offset}, {unit}")

    def offset(self, pointer: str, scalars: str, dtype: DType) -> str:
        """The pointer advanced by a number of scalars."""
        return self._advanced(pointer, memory_type(dtype), max(1, dtype.bits // 8), scalars)

    def _advanced(self, pointer: str, type: str, size: int, count: str) -> str:
        """The pointer advanced by a number of objects of a type with a size in bytes."""
        if count == "0":
            return pointer
        address = self.code.emit(f"getelementptr {type}, ptr {pointer}, i64 {count}")
        self.code.contents.advance(address, pointer, int(count) * size if _literal(count) else None)
        return address

    def bytes_offset(self, pointer: str, count: str) -> str:
        """The pointer advanced by a number of bytes."""
        return self._advanced(pointer, "i8", 1, count)

    # Scalars ---------------------------------------------------------------------------------------------------------

    def load(self, pointer: str, dtype: DType, width: int = 1) -> str:
        """Load `width` consecutive scalars, unless the basic block has a register with their value."""
        contents, register = self.code.contents, register_type(dtype, width)
        known = contents.find(pointer, register)
        if known is not None:
            return known
        t = vector_of(memory_type(dtype), width)
        value = self.code.emit(f"load {t}, ptr {pointer}, align {max(1, dtype.bits // 8)}")
        place = contents.places.get(pointer)
        loop = contents.loops[-1] if contents.loops else None
        if place is not None and loop is not None and loop.body == self.code.block and loop.precedes(pointer):
            lines = self.code.lines
            loop.loads.append(HoistedLoad(lines[-1], pointer, place[0], len(lines) - 1, None))
        value = self._to_register(value, dtype, width)
        contents.loaded(pointer, register, max(1, dtype.bits // 8) * width, value)
        return value

    def store(self, pointer: str, value: str, dtype: DType, width: int = 1) -> None:
        """Store a scalar or a vector."""
        t, size = vector_of(memory_type(dtype), width), max(1, dtype.bits // 8)
        self.code.contents.stored(pointer, register_type(dtype, width), size * width, value)
        value = self._to_memory(value, dtype, width)
        self.code.lines.append(f"  store {t} {value}, ptr {pointer}, align {size}{self.code.suffix}")

    def _to_register(self, value: str, dtype: DType, width: int) -> str:
        if not dtype.is_bool:
            return value
        return self.code.emit(f"icmp ne {vector_of('i8', width)} {value}, zeroinitializer")

    def _to_memory(self, value: str, dtype: DType, width: int) -> str:
        if not dtype.is_bool:
            return value
        return self.code.emit(f"zext {vector_of('i1', width)} {value} to {vector_of('i8', width)}")

    def masked_load(self, pointer: str, dtype: DType, width: int, mask: str, fill: str) -> str:
        """Consecutive scalars where the mask holds; elsewhere `fill` (a register)."""
        t = vector_of(memory_type(dtype), width)
        passthru = self._to_memory(fill, dtype, width)
        mangled_type = "i8" if dtype.is_bool else mangled_memory(dtype)
        value = self.code.call(
            "masked.load", f"v{width}{mangled_type}.p0", t,
            f"ptr align {max(1, dtype.bits // 8)} {pointer}, {vector_of('i1', width)} {mask}, {t} {passthru}",
        )  # fmt: skip
        return self._to_register(value, dtype, width)

    def masked_store(self, pointer: str, value: str, dtype: DType, width: int, mask: str) -> None:
        """Store the lanes of a vector whose mask is true."""
        t = vector_of(memory_type(dtype), width)
        value = self._to_memory(value, dtype, width)
        mangled_type = "i8" if dtype.is_bool else mangled_memory(dtype)
        self.code.call(
            "masked.store", f"v{width}{mangled_type}.p0", "void",
            f"{t} {value}, ptr align {max(1, dtype.bits // 8)} {pointer}, {vector_of('i1', width)} {mask}",
        )  # fmt: skip

    def gather(self, pointers: str, dtype: DType, width: int, mask: str) -> str:
        """The scalars at a vector of addresses, 0 in masked lanes."""
        t = vector_of(memory_type(dtype), width)
        mangled_type = "i8" if dtype.is_bool else mangled_memory(dtype)
        value = self.code.call(
            "masked.gather", f"v{width}{mangled_type}.v{width}p0", t,
            f"<{width} x ptr> align {max(1, dtype.bits // 8)} {pointers}, "
            f"{vector_of('i1', width)} {mask}, {t} zeroinitializer",
        )  # fmt: skip
        return self._to_register(value, dtype, width)

    def scatter(self, pointers: str, value: str, dtype: DType, width: int, mask: str) -> None:
        """Store each scalar whose mask is true to its address; the last lane wins if addresses are equal."""
        t = vector_of(memory_type(dtype), width)
        value = self._to_memory(value, dtype, width)
        mangled_type = "i8" if dtype.is_bool else mangled_memory(dtype)
        self.code.call(
            "masked.scatter", f"v{width}{mangled_type}.v{width}p0", "void",
            f"{t} {value}, <{width} x ptr> align {max(1, dtype.bits // 8)} {pointers}, "
            f"{vector_of('i1', width)} {mask}",
        )  # fmt: skip

    # Elements --------------------------------------------------------------------------------------------------------

    def load_element(self, pointer: str, dtype: ElementType, component_stride: int = 1) -> Components:
        """The components of one element."""
        scalar = scalar_of(dtype)
        return tuple(
            self.load(self.offset(pointer, str(c * component_stride), scalar), scalar)
            for c in range(components(dtype))
        )

    def store_element(
        self, pointer: str, value: Components, dtype: ElementType, component_stride: int = 1
    ) -> None:
        """Store the components of an element."""
        scalar = scalar_of(dtype)
        for c, part in enumerate(value):
            self.store(self.offset(pointer, str(c * component_stride), scalar), part, scalar)

    def load_adjacent(self, pointer: str, dtype: ElementType, width: int) -> Components:
        """`width` adjacent elements, one register for each component."""
        scalar, n = scalar_of(dtype), components(dtype)
        return self.separated(self.load(pointer, scalar, width * n), scalar, width, n)

    def store_adjacent(self, pointer: str, value: Components, scalar: DType, width: int) -> None:
        """Store `width` adjacent elements, given as one register for each component."""
        self.store(pointer, self.interleaved(value, scalar, width), scalar, width * len(value))

    def at(self, view: View, index: list[str]) -> str:
        """The address of an element of a view."""
        return view.at(self, index)

    def load_view(self, view: View, index: list[str], width: int) -> Components:
        """`width` elements of a view along its last dimension, from `index` on."""
        pointer = self.at(view, index)
        scalar = scalar_of(view.dtype)
        if width == 1:
            return self.load_element(pointer, view.dtype, view.component_stride)
        if view.adjacent:
            return self.load_adjacent(pointer, view.dtype, width)
        step = view.strides[-1]
        lanes = [
            self.load_element(self.offset(pointer, str(k * step), scalar), view.dtype, view.component_stride)
            for k in range(width)
        ]
        return self.packed(lanes, scalar, width)

    def store_view(self, view: View, index: list[str], value: Components, width: int) -> None:
        """Store an element of a view, or a vector of adjacent elements."""
        pointer = self.at(view, index)
        scalar = scalar_of(view.dtype)
        if width == 1:
            self.store_element(pointer, value, view.dtype, view.component_stride)
        elif view.adjacent:
            self.store_adjacent(pointer, value, scalar, width)
        else:
            for k in range(width):
                parts = tuple(self.lane(part, scalar, width, k) for part in value)
                at = self.offset(pointer, str(k * view.strides[-1]), scalar)
                self.store_element(at, parts, view.dtype, view.component_stride)

    # SIMD ------------------------------------------------------------------------------------------------------------

    def packed(self, lanes: list[Components], dtype: DType, width: int) -> Components:
        """One register per component from `width` separate elements."""
        vector_type, scalar_type = register_type(dtype, width), register_type(dtype, 1)
        vectors: list[str] = []
        for c in range(len(lanes[0])):
            vector = "poison"
            for k, element in enumerate(lanes):
                vector = self.code.emit(
                    f"insertelement {vector_type} {vector}, {scalar_type} {element[c]}, i32 {k}"
                )
            vectors.append(vector)
        return tuple(vectors)

    def shuffled(self, a: str, b: str, scalar: str, width: int, positions: list[int]) -> str:
        """The elements at `positions` of the concatenation of two vectors; -1 stands for any element."""
        t = vector_of(scalar, width)
        mask = ", ".join(f"i32 {k}" if k >= 0 else "i32 poison" for k in positions)
        return self.code.emit(f"shufflevector {t} {a}, {t} {b}, <{len(positions)} x i32> <{mask}>")

    def separated(self, vector: str, dtype: DType, width: int, n: int) -> Components:
        """`width` adjacent elements of n components each, deinterleaved into one register for each component."""
        if n == 1:
            return (vector,)
        t = register_type(dtype, 1)
        return tuple(
            self.shuffled(vector, "poison", t, width * n, [k * n + c for k in range(width)]) for c in range(n)
        )

    def interleaved(self, value: Components, dtype: DType, width: int) -> str:
        """`width` elements interleaved into one vector, from one register for each component."""
        t, n, vector = register_type(dtype, 1), len(value), value[0]
        for c in range(1, n):
            padded = self.shuffled(value[c], "poison", t, width, [*range(width), *[-1] * (width * (c - 1))])
            positions = [*range(width * (c + 1))]
            vector = self.shuffled(vector, padded, t, width * c, positions)
        if n == 1:
            return vector
        return self.shuffled(
            vector, "poison", t, width * n, [c * width + k for k in range(width) for c in range(n)]
        )

    def lane(self, value: str, dtype: DType, width: int, k: int) -> str:
        """One lane of a vector, as a scalar."""
        return self.code.emit(f"extractelement {register_type(dtype, width)} {value}, i32 {k}")

    def splat(self, value: str, dtype: DType, width: int) -> str:
        """A scalar in every element of a vector."""
        if width == 1:
            return value
        if not value.startswith("%"):
            return f"splat ({register_type(dtype, 1)} {value})"
        t = register_type(dtype, width)
        single = self.code.emit(f"insertelement {t} poison, {register_type(dtype, 1)} {value}, i32 0")
        return self.code.emit(f"shufflevector {t} {single}, {t} poison, <{width} x i32> zeroinitializer")

    def iota(self, start: str, width: int) -> str:
        """A vector of start, start + 1, ... as i64."""
        if width == 1:
            return start
        lane_steps = ", ".join(f"i64 {k}" for k in range(width))
        spread = self.splat_i64(start, width)
        return self.code.emit(f"add <{width} x i64> {spread}, <{lane_steps}>")

    def splat_i64(self, value: str, width: int) -> str:
        """An integer of 64 bits in all lanes of a vector."""
        if width == 1:
            return value
        if not value.startswith("%"):
            return f"splat (i64 {value})"
        t = f"<{width} x i64>"
        single = self.code.emit(f"insertelement {t} poison, i64 {value}, i32 0")
        return self.code.emit(f"shufflevector {t} {single}, {t} poison, <{width} x i32> zeroinitializer")


def mangled_memory(dtype: DType) -> str:
    """The spelling of a type in memory in an intrinsic's name: bfloat16 and 8-bit floats are integers."""
    t = memory_type(dtype)
    return {"half": "f16", "float": "f32", "double": "f64"}.get(t, t)


def _literal(x: str) -> bool:
    return not x.startswith("%")


__all__ = ["MemoryEmitter", "constant", "mangled", "mangled_memory"]
