"""Matmuls by the tensor cores of warp groups (wgmma), of operands in swizzled stages of shared memory.

An instruction multiplies 64 rows by 8 to 256 columns, 32 bytes deep along K. A descriptor specifies an operand: the
address, the distance between groups of eight rows, the distance between boxes, and the swizzle. Only 16-bit operands
may be MN-major. From the PTX manual, "wgmma"."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from tegula.codegen.gpu.schedule import shared_address
from tegula.codegen.gpu.state import GpuState
from tegula.codegen.storage import SwizzledView
from tegula.codegen.text import constant, register_type
from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.errors import InternalError
from tegula.ir import Op, Value
from tegula.layout import wgmma_group_tile
from tegula.ops.buffer import BufView
from tegula.ops.group import MmaWait, RegisterMma, SharedMma
from tegula.types import TileType, element_bytes, float32, scalar_of

with deferred_imports():
    from tegula.passes.bulk_access import cuts_boxes
    from tegula.passes.mma_types import shared_mma_types
    from tegula.passes.stage_operands import is_transpose

if TYPE_CHECKING:
    from tegula.passes.mma_types import MmaTypes

ROWS = 64
COLUMNS = tuple(range(256, 0, -8))
INTEGER_COLUMNS = (*range(256, 32, -16), 32, 24, 16, 8)
"""The column counts of integer instructions, largest first; `COLUMNS`: the column counts of float instructions."""
SWIZZLES = {128: 1, 64: 2, 32: 3}
ADDRESS_MASK = 0x3FFFF
"""The bits of a shared address in a descriptor; the higher bits are the CTA rank in a cluster."""


@dataclass(frozen=True, slots=True)
class WgmmaOperand:
    """An operand in shared memory. `start`: the i32 address of the stage. `row_bytes`: the swizzle width. `size`: the
    bytes per element. `depth_first`: whether K runs along the rows of the stage (K-major). `across`: the length of the
    other dimension. `depth`: the length of K."""

    start: str
    row_bytes: int
    size: int
    depth_first: bool
    across: int
    depth: int

    def step(self, position: int, depth: int) -> int:
        """The byte offset of an element from the start. `position`: the index along the other dimension, a multiple of
        8; `depth`: the index along K, a multiple of 32 bytes."""
        row, column = (position, depth) if self.depth_first else (depth, position)
        rows = self.across if self.depth_first else self.depth
        box, offset_in_row = divmod(column * self.size, self.row_bytes)
        return box * rows * self.row_bytes + row * self.row_bytes + offset_in_row

    @property
    def high_word(self) -> int:
        """The upper half of a descriptor: the distance between groups of eight rows, which are adjacent, and the
        swizzle."""
        return 8 * self.row_bytes >> 4 | SWIZZLES[self.row_bytes] << 30

    @property
    def box_bytes(self) -> int:
        """The bytes from one box to the next of an MN-major operand."""
        return self.depth * self.row_bytes


def operand(s: GpuState, value: Value, right: bool) -> WgmmaOperand:
    """The operand for a stage or the transpose of a stage. A left operand that is not transposed and a right operand
    that is transposed are K-major."""
    transposed = is_transpose(value)
    stage = value.owner.buffer if transposed and isinstance(value.owner, BufView) else value
    view = s.buffers[stage]
    assert isinstance(view, SwizzledView)
    start = shared_address(s, view.at(s.memory, ["0", "0"]))
    depth_first = transposed == right
    across, depth = view.shape if depth_first else view.shape[::-1]
    return WgmmaOperand(start, view.row_bytes, element_bytes(view.dtype), depth_first, across, depth)


def matmul(s: GpuState, op: RegisterMma | SharedMma, start: list[str]) -> list[str]:
    """The registers of start + a @ b in each thread. The code waits for the result unless the op's attribute `wait` is
    off; then no instruction may access these registers until a wait that covers the matmul. If b is in registers, the
    tensor cores compute start.T + b.T @ a.T."""
    t = op.result.type
    assert isinstance(t, TileType)
    transposed = op.computes_transposed
    rows, columns = t.shape[::-1] if transposed else t.shape
    _, groups_n, mmas_m, mmas_n = wgmma_group_tile((rows, columns), s.group.warp_groups)
    warp_group = s.warp_group
    b = operand(s, (op.a if transposed else op.b), right=not transposed)
    low_b = _address_field(
        s, _warp_group_address(s, b, s.first(f"urem i32 {warp_group}, {groups_n}"), 8 * mmas_n)
    )
    mma_types = shared_mma_types(op)
    assert mma_types is not None
    sum_type = register_type(mma_types.sum, 1)
    starts_at_zero = all(x == constant(mma_types.sum, 0) for x in start)
    asm = _Assembly([sum_type] * len(start), [] if starts_at_zero else start)
    if isinstance(op, RegisterMma):
        left: _Left = _Registers(s, op.register_tile, b.depth, asm)
    else:
        a = operand(s, op.a, right=False)
        left = _Memory(
            a,
            _address_field(
                s, _warp_group_address(s, a, s.first(f"udiv i32 {warp_group}, {groups_n}"), ROWS * mmas_m)
            ),
            asm,
        )
    asm.add("wgmma.fence.sync.aligned;")
    for k in range(0, b.depth, mma_types.depth):
        for i in range(mmas_m):
            for j, count in _column_parts(8 * mmas_n, mma_types):
                first = 4 * (j + mmas_n * i)
                registers = ", ".join(f"${r}" for r in range(first, first + 4 * count))
                right = asm.descriptor(low_b, b.step(8 * j, k), _descriptor_fields(b, 8 * count))
                settings = [str(int(k > 0 or not starts_at_zero))]
                if mma_types.sum.is_float:
                    settings += ["1", "1"]
                if mma_types.bits == MN_MAJOR_BITS:
                    settings += [*left.transpose, str(int(not b.depth_first))]
                asm.add(
                    f"wgmma.mma_async.sync.aligned.{_shape(8 * count, mma_types)} {{{registers}}}, "
                    f"{left.operand_text(i, k)}, {right}, {', '.join(settings)};"
                )
    asm.add("wgmma.commit_group.sync.aligned;")
    if op.wait:
        asm.add("wgmma.wait_group.sync.aligned 0;")
    return asm.emit(s)


MN_MAJOR_BITS = 16
"""The element width in bits of operands that may be MN-major."""


def _shape(columns: int, mma_types: MmaTypes) -> str:
    """The shape and type suffix of an instruction."""
    total = "f32" if mma_types.sum.is_float else "s32"
    return f"m{ROWS}n{columns}k{mma_types.depth}.{total}.{mma_types.left}.{mma_types.right}"


def mma_wait(s: GpuState, op: MmaWait) -> None:
    """Lower `group.mma_wait`. The accumulators are operands of the wait, so that no access is moved before the wait,
    except the accumulators of matmuls that stay in flight. Values computed while matmuls were in flight are operands
    too, so that their computation is not sunk below the wait."""
    in_flight = _last_accumulators(op, op.pending)
    pairs = [(v, r) for v, r in zip(op.operands, op.results, strict=True) if v not in in_flight]
    overlapped_values = _computed_in_flight(op)
    pairs += [(v, v) for v in overlapped_values]
    accumulators = [[x for parts in s.held[v] for x in parts] for v, _ in pairs]
    types = [t for v, _ in pairs for t in s.types(v)]
    asm = _Assembly(types, [x for registers in accumulators for x in registers])
    if op.overlapped:
        asm.add(_order_before_wait(accumulators, len(accumulators) - len(overlapped_values)))
    asm.add(f"wgmma.wait_group.sync.aligned {op.pending};")
    values = iter(asm.emit(s))
    for (_, result), registers in zip(pairs, accumulators, strict=True):
        s.bind(result, [next(values) for _ in registers])
    for v, result in zip(op.operands, op.results, strict=True):
        if v in in_flight:
            s.held[result] = s.held[v]


MATMULS = (SharedMma, RegisterMma)
MAX_NARROW_REGISTERS = 4
"""The maximum number of registers of a tile on which a wait is made to depend, so that the tile is computed before the
wait. Such tiles are small results of many inputs."""
IMPROBABLE_BITS = 0x7FABCDEF
"""An improbable bit pattern; a match would only cause a pause."""


def _order_before_wait(accumulators: list[list[str]], first: int) -> str:
    """Instructions before a wait that depend on narrow tiles from `first` on, because ptxas hoists a wait above
    independent code, so that no computation would overlap with the matmuls."""
    first_registers = [sum(map(len, accumulators[:k])) for k in range(len(accumulators))]
    computed = [
        first_registers[k] + r
        for k in range(first, len(accumulators))
        if len(accumulators[k]) <= MAX_NARROW_REGISTERS
        for r in range(len(accumulators[k]))
    ]
    if not computed:
        return ""
    combined = " ".join(f"mov.b32 X, ${k}; or.b32 A, A, X;" for k in computed)
    test = f"setp.eq.b32 P, A, {IMPROBABLE_BITS}; @P nanosleep.u32 0;"
    return f"{{ .reg .b32 A, X; .reg .pred P; mov.b32 A, 0; {combined} {test} }}"


def _computed_in_flight(wait: Op) -> list[Value]:
    """The float32 tiles that are computed between the preceding matmul or wait and this wait, and used afterwards."""
    assert wait.parent is not None
    ops = wait.parent.ops
    position = ops.index(wait)
    start = max(
        (k for k, op in enumerate(ops[:position]) if isinstance(op, (*MATMULS, MmaWait))), default=position
    )
    used_later = {v for op in ops[position + 1 :] for inner in op.walk() for v in inner.operands}
    results = (v for op in ops[start + 1 : position] for v in op.results)
    return [
        v for v in results if v in used_later and isinstance(v.type, TileType) and v.type.dtype is float32
    ]


def _last_accumulators(wait: Op, count: int) -> set[Value]:
    """The accumulators of the last `count` asynchronous matmuls before a wait in its region."""
    assert wait.parent is not None
    ops = wait.parent.ops
    before = [op for op in ops[: ops.index(wait)] if isinstance(op, MATMULS)]
    return {op.result for op in (before[-count:] if count else []) if not op.wait}


class _Memory:
    """A left operand in shared memory."""

    def __init__(self, a: WgmmaOperand, low: str, asm: _Assembly) -> None:
        self.a, self.low, self.asm = a, low, asm
        self.transpose = [str(int(not a.depth_first))]

    def operand_text(self, i: int, k: int) -> str:
        return self.asm.descriptor(self.low, self.a.step(ROWS * i, k), _descriptor_fields(self.a, ROWS))


class _Registers:
    """A left operand in registers in the layout of a result, which equals the fragment layout: four registers of two
    values each for 64 rows by 16 of K."""

    def __init__(self, s: GpuState, value: Value, depth: int, asm: _Assembly) -> None:
        self.s, self.registers, self.depth, self.asm = s, s.held[value], depth, asm
        self.type = register_type(scalar_of(value.type.dtype), 1)  # type: ignore[union-attr]
        self.transpose: list[str] = []

    def operand_text(self, i: int, k: int) -> str:
        first = self.depth // 2 * i + k // 2
        pairs = [self._pair(r) for r in range(first, first + 8, 2)]
        return "{" + ", ".join(self.asm.input("r", "i32", x) for x in pairs) + "}"

    def _pair(self, r: int) -> str:
        code, t = self.s.code, self.type
        pair = code.emit(f"insertelement <2 x {t}> poison, {t} {self.registers[r][0]}, i32 0")
        pair = code.emit(f"insertelement <2 x {t}> {pair}, {t} {self.registers[r + 1][0]}, i32 1")
        return code.emit(f"bitcast <2 x {t}> {pair} to i32")


_Left: TypeAlias = _Memory | _Registers


def _column_parts(columns: int, mma_types: MmaTypes) -> list[tuple[int, int]]:
    """The column ranges of the instructions, (first, count) in units of 8, each as wide as possible."""
    allowed = COLUMNS if mma_types.sum.is_float else INTEGER_COLUMNS
    parts: list[tuple[int, int]] = []
    column = 0
    while column < columns:
        count = next(n for n in allowed if n <= columns - column)
        parts.append((column // 8, count // 8))
        column += count
    return parts


def _warp_group_address(s: GpuState, x: WgmmaOperand, number: str, length: int) -> str:
    """The address of a warp group's part of an operand: part `number`, of `length` rows or columns."""
    if x.across == length:
        return x.start
    if not x.depth_first and cuts_boxes(x.across, x.size, length):
        raise InternalError(f"parts of {length} columns start within a box of {x.row_bytes} bytes")
    step = s.first(f"mul i32 {number}, {x.step(length, 0)}")
    return s.code.emit(f"add i32 {x.start}, {step}")


def _address_field(s: GpuState, address: str) -> str:
    """The address field of a descriptor, in 16-byte units."""
    return s.code.emit(f"lshr i32 {s.code.emit(f'and i32 {address}, {ADDRESS_MASK}')}, 4")


def _descriptor_fields(x: WgmmaOperand, length: int) -> tuple[int, int]:
    """The other fields of a descriptor: the value to add to the lower half, and the upper half. The distance between
    boxes is used only for MN-major operands that span several boxes."""
    boxes = not x.depth_first and length * x.size > x.row_bytes
    distance = x.box_bytes >> 4 if boxes else 1
    return distance << 16, x.high_word


CONSTRAINTS = {"float": "f", "i32": "r"}
"""The assembly constraint of an accumulator, by its LLVM type."""


class _Assembly:
    """One block of inline assembly that updates accumulators, or defines them. A whole matmul is one block, so that no
    other instruction is scheduled within it."""

    def __init__(self, types: list[str], accumulators: list[str]) -> None:
        """`types`: the LLVM types of the accumulators; `accumulators`: their registers, or none where the block defines
        them."""
        self.types, self.accumulators, self.count = types, accumulators, len(types)
        self.lines: list[str] = []
        self.names: dict[tuple[str, int, tuple[int, int]], str] = {}
        self.inputs: dict[str, tuple[str, str, str]] = {}

    def add(self, line: str) -> None:
        self.lines.append(line)

    def input(self, constraint: str, type: str, register: str) -> str:
        """The placeholder of an input operand in the text."""
        if register not in self.inputs:
            number = self.count + len(self.accumulators) + len(self.inputs)
            self.inputs[register] = (constraint, type, f"${number}")
        return self.inputs[register][2]

    def descriptor(self, low: str, offset: int, words: tuple[int, int]) -> str:
        self.input("r", "i32", low)
        key = low, offset, words
        if key not in self.names:
            self.names[key] = f"D{len(self.names)}"
        return self.names[key]

    def emit(self, s: GpuState) -> list[str]:
        """Emit the block. Returns the registers of the accumulators after the block."""
        n, code, declarations = self.count, s.code, list[str]()
        if not n:
            code.line(
                f'call void asm sideeffect "{" ".join(self.lines)}{s.noted}", "~{{memory}}"() convergent'
            )
            return []
        if self.names:
            declarations.append(f".reg .b32 L; .reg .b64 {', '.join(self.names.values())};")
        for (address, offset, (low_increment, high_word)), name in self.names.items():
            declarations.append(f"add.u32 L, {self.inputs[address][2]}, {(offset >> 4) + low_increment};")
            declarations.append(f"mov.b64 {name}, {{L, {high_word}}};")
        text = "\\0A".join([f"{{{s.noted}", *declarations, *self.lines, "}"])
        result = f"{{ {', '.join(self.types)} }}"
        tied_operands = [str(k) for k in range(len(self.accumulators))]
        outputs = [("=" if tied_operands else "=&") + CONSTRAINTS[t] for t in self.types]
        constraints = ",".join(
            [*outputs, *tied_operands, *(c for c, _, _ in self.inputs.values()), "~{memory}"]
        )
        arguments = [f"{t} {x}" for t, x in zip(self.types, self.accumulators, strict=False)]
        arguments += [f"{t} {x}" for x, (_, t, _) in self.inputs.items()]
        struct = code.emit(
            f'call {result} asm sideeffect "{text}", "{constraints}"({", ".join(arguments)}) convergent'
        )
        return [code.emit(f"extractvalue {result} {struct}, {k}") for k in range(n)]
