"""Operand fragments of the tensor core instructions of a warp: the elements of each register, and loads from shared
memory.

From the PTX manual, "Matrix Fragments for mma". One rule covers all types: a register holds as many elements along K as
fit 32 bits; four lanes are adjacent along K, then eight lanes along rows or columns. The next register of a left
operand is eight rows further; then, in both operands, four lanes' elements further along K."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tegula.codegen.convert import convert
from tegula.codegen.gpu.access import is_aligned
from tegula.codegen.gpu.state import GpuState
from tegula.codegen.storage import SwizzledView, View
from tegula.codegen.text import memory_type
from tegula.dataclass import dataclass
from tegula.ir import Value
from tegula.layout import MmaWarpTile
from tegula.ops.group import SharedMma
from tegula.types import DType, bfloat16, element_bytes, float16, float32, float64, scalar_of

if TYPE_CHECKING:
    from tegula.passes.mma_types import MmaTypes

LANES_ALONG = 4
"""The number of lanes that are adjacent along K."""
ROWS, COLUMNS = 16, 8
"""The rows and columns of an instruction's result."""
WORD = 32
"""The bits of a register that holds narrow elements."""
UNIT_BYTES = 16
"""The number of bytes along K that one register of four lanes holds, a row of an ldmatrix matrix."""


@dataclass(frozen=True, slots=True)
class Fragments:
    """The registers of a lane for an instruction that is `depth` elements of `bits` bits deep. Positions are relative
    to the lane's first element: row or column lane / 4, and element (lane mod 4) * `elements_per_register` of K."""

    bits: int
    depth: int

    @property
    def elements_per_register(self) -> int:
        """The number of elements in a register."""
        return max(1, WORD // self.bits)

    @property
    def stride(self) -> int:
        """The distance in elements from one register to the next along K."""
        return LANES_ALONG * self.elements_per_register

    @property
    def left_sides(self) -> list[tuple[int, int]]:
        """For each register of a left operand, the (row, index along K) of its first element."""
        return [(row, k) for k in range(0, self.depth, self.stride) for row in (0, ROWS // 2)]

    @property
    def right(self) -> list[int]:
        """For each register of a right operand, the index along K of its first element."""
        return list(range(0, self.depth, self.stride))


@dataclass(frozen=True, slots=True)
class FragmentSide:
    """An operand of a matmul: its value and its view. `along`: the dimension of the view that is K. `origin`: the first
    row of the warp (or column, for a right operand). `count`: the number of blocks of `unit` rows. `name`: the element
    type in PTX."""

    value: Value
    view: View
    along: int
    origin: str
    unit: int
    count: int
    name: str

    @property
    def across(self) -> int:
        """The dimension of the view that is not K."""
        return 1 - self.along

    @property
    def dtype(self) -> DType:
        """The scalar type of the operand's elements."""
        return scalar_of(self.view.dtype)

    def at(self, row: str, k: str) -> list[str]:
        """The index into the view of the element at a row and a position along K."""
        return [row, k] if self.along else [k, row]


def sides(
    s: GpuState, op: SharedMma, warp_tile: MmaWarpTile, origin: tuple[str, str], mma_types: MmaTypes
) -> tuple[FragmentSide, FragmentSide]:
    """Both operands of a matmul in shared memory."""
    a, b = op.a, op.b
    left = FragmentSide(a, s.buffers[a], 1, origin[0], ROWS, warp_tile.mmas_m, mma_types.left)
    right = FragmentSide(b, s.buffers[b], 0, origin[1], COLUMNS, warp_tile.mmas_n, mma_types.right)
    return left, right


def loader(s: GpuState, side: FragmentSide, fragments: Fragments) -> Matrices | Elements:
    """The loader of an operand: ldmatrix if 16 bytes along K (or, for 16-bit elements, along the other dimension) are
    contiguous and aligned, and K is a multiple of the instruction's depth; otherwise a loader of single elements."""
    view, size = side.view, element_bytes(side.view.dtype)
    is_full = view.shape[side.along] % fragments.depth == 0
    needs_no_conversion = size * 8 == fragments.bits and fragments.bits <= WORD and not _widens(side)
    elements_per_unit = UNIT_BYTES // size
    if is_full and needs_no_conversion and is_aligned(s, side.value):
        if _is_contiguous_along(view, side.along, size):
            return Matrices(s, side, fragments, transposed=False)
        if (
            size == 2
            and _is_contiguous_along(view, side.across, size)
            and view.shape[side.across] % elements_per_unit == 0
        ):
            return Matrices(s, side, fragments, transposed=True)
    return Elements(s, side, fragments)


def _widens(side: FragmentSide) -> bool:
    """Whether elements are converted to the instruction's type."""
    names = {"f16": float16, "bf16": bfloat16, "tf32": float32, "f64": float64}
    return side.name in names and side.dtype is not names[side.name]


def _is_contiguous_along(view: View, dim: int, size: int) -> bool:
    """Whether a dimension is contiguous, in rows that are aligned to 16 bytes."""
    if isinstance(view, SwizzledView):
        return view.dims[dim] == 2 and view.steps[dim] == 1 and view.shape[dim] * size % UNIT_BYTES == 0
    return view.strides[dim] == 1 and view.strides[1 - dim] * size % UNIT_BYTES == 0


class Matrices:
    """Loads an operand by ldmatrix, four registers at a time: each lane provides the address of a row of 16 bytes. Rows
    out of bounds only affect results out of bounds, and are replaced by the last rows. `transposed`: whether rows of
    16-bit elements are along the dimension that is not K."""

    def __init__(self, s: GpuState, side: FragmentSide, fragments: Fragments, transposed: bool) -> None:
        self.s, self.side, self.fragments, self.transposed = s, side, fragments, transposed
        lane = s.first(f"and i32 {s.lane32}, 31")
        matrix = s.first(f"lshr i32 {lane}, 3")
        row = s.first(f"and i32 {lane}, 7")
        first, second = s.first(f"and i32 {matrix}, 1"), s.first(f"lshr i32 {matrix}, 1")
        # Registers of a left operand are ordered along the rows first, registers of two right operands along K first.
        along_rows, deep = (first, second) if side.unit == ROWS else (second, first)
        along_rows, deep = s.first(f"shl i32 {along_rows}, 3"), s.first(f"mul i32 {deep}, {fragments.stride}")
        if transposed:
            deep = s.first(f"add i32 {deep}, {row}")
        else:
            along_rows = s.first(f"add i32 {along_rows}, {row}")
        self.over, self.deep = (s.first(f"zext nneg i32 {x} to i64") for x in (along_rows, deep))

    def load(self, k: str) -> list[list[str]]:
        """The registers of each block, from index k along K on."""
        blocks_per_load = ROWS // self.side.unit
        fragments_loaded: list[list[str]] = []
        for block in range(0, self.side.count, blocks_per_load):
            words = self._four(k, block * self.side.unit)
            fragments_loaded += [words] if blocks_per_load == 1 else [words[:2], words[2:]]
        return fragments_loaded[: self.side.count]

    def _four(self, k: str, offset: int) -> list[str]:
        s, code, side = self.s, self.s.code, self.side
        row = s.memory.add(s.memory.add(side.origin, str(offset)), self.over)
        length = side.view.shape[side.across]
        last = length - COLUMNS if self.transposed else length - 1
        row = code.emit(f"call i64 @llvm.umin.i64(i64 {row}, i64 {last})")
        address = s.memory.at(side.view, side.at(row, s.memory.add(self.deep, k)))
        pointer = code.emit(f"addrspacecast ptr {address} to ptr addrspace(3)")
        t, form = "{ i32, i32, i32, i32 }", ".trans" if self.transposed else ""
        name = f"@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{form}.b16.p3"
        loaded = code.emit(f"call {t} {name}(ptr addrspace(3) {pointer})")
        words = [code.emit(f"extractvalue {t} {loaded}, {n}") for n in range(4)]
        return [rounded(s, x) for x in words] if side.name == "tf32" else words


class Elements:
    """Loads an operand element by element; elements out of bounds are 0."""

    def __init__(self, s: GpuState, side: FragmentSide, fragments: Fragments) -> None:
        self.s, self.side, self.fragments = s, side, fragments
        lane = s.first(f"and i32 {s.lane32}, 31")
        self.row = s.first(f"zext nneg i32 {s.first(f'lshr i32 {lane}, 2')} to i64")
        along = s.first(f"mul i32 {s.first(f'and i32 {lane}, 3')}, {fragments.elements_per_register}")
        self.along = s.first(f"zext nneg i32 {along} to i64")

    def load(self, k: str) -> list[list[str]]:
        """The registers of each block, from index k along K on."""
        add, side = self.s.memory.add, self.side
        start, deep = add(side.origin, self.row), add(self.along, k)
        registers = self.fragments.left_sides if side.unit == ROWS else [(0, d) for d in self.fragments.right]
        return [
            [
                self._register(add(start, str(block * side.unit + row)), add(deep, str(d)))
                for row, d in registers
            ]
            for block in range(side.count)
        ]

    def _register(self, row: str, k: str) -> str:
        """One register: its elements packed, the first in the lowest bits."""
        s, code, bits = self.s, self.s.code, self.fragments.bits
        parts = [
            self._element(row, s.memory.add(k, str(n))) for n in range(self.fragments.elements_per_register)
        ]
        if len(parts) == 1:
            return parts[0]
        word = ""
        for n, part in enumerate(parts):
            widened = code.emit(f"zext i{bits} {part} to i32")
            if n:
                widened = code.emit(f"shl i32 {widened}, {bits * n}")
            word = code.emit(f"or i32 {word}, {widened}") if word else widened
        return word

    def _element(self, row: str, k: str) -> str:
        """One element in the operand type of the instruction: a double, an i32 of tf32, or bits."""
        s, code, side = self.s, self.s.code, self.side
        ok = "true"
        shape = side.view.shape
        for x, n, may_exceed in (
            (row, shape[side.across], True),
            (k, shape[side.along], self._exceeds_depth()),
        ):
            if may_exceed:
                test = code.emit(f"icmp ult i64 {x}, {n}")
                ok = test if ok == "true" else code.emit(f"and i1 {ok}, {test}")
        row, k = (code.emit(f"select i1 {ok}, i64 {x}, i64 0") for x in (row, k))
        value = s.memory.load(s.memory.at(side.view, side.at(row, k)), side.dtype)
        value, t = self._converted(value)
        return code.emit(f"select i1 {ok}, {t} {value}, {t} {'0.0' if t == 'double' else '0'}")

    def _exceeds_depth(self) -> bool:
        """Whether the last instruction extends past the end of K."""
        return self.side.view.shape[self.side.along] % self.fragments.depth != 0

    def _converted(self, value: str) -> tuple[str, str]:
        """The value converted to the instruction's type, and its LLVM type."""
        s, code, name, dtype = self.s, self.s.code, self.side.name, self.side.dtype
        if name == "f64":
            return convert(code, value, dtype, float64, 1), "double"
        if name == "tf32":
            in_float32 = convert(code, value, dtype, float32, 1)
            bits = code.emit(f"bitcast float {in_float32} to i32")
            return (rounded(s, bits) if dtype is float32 else bits), "i32"
        if name in ("f16", "bf16"):
            to = float16 if name == "f16" else bfloat16
            value = convert(code, value, dtype, to, 1)
            t = memory_type(to)
            return (value if t == "i16" else code.emit(f"bitcast {t} {value} to i16")), "i16"
        return value, "i8"


def rounded(s: GpuState, word: str) -> str:
    """The bits of a float32 rounded to the closest tf32, ties away from zero."""
    x = s.code.emit(f"bitcast i32 {word} to float")
    return s.code.emit(f'call i32 asm "cvt.rna.tf32.f32 $0, $1;", "=r,f"(float {x})')
