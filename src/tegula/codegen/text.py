"""Building LLVM IR as text."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tegula.errors import InternalError
from tegula.ir import Value
from tegula.ops.convert import convert
from tegula.ops.integer_ranges import IntegerRanges
from tegula.types import DTYPES, DType, float16, float32, to_numpy

# The permitted intrinsics: LLVM aborts the process on an intrinsic that it cannot lower.
INTRINSICS = frozenset(
    {
        *("fabs", "sqrt", "floor", "ceil", "trunc", "roundeven", "fma", "copysign"),
        *("smin", "smax", "umin", "umax", "minimumnum", "maximumnum", "arithmetic.fence"),
        *("minimum", "maximum", "ctpop", "ctlz", "bitreverse"),
        *("masked.load", "masked.store", "masked.gather", "masked.scatter", "prefetch"),
    }
)

PURE = (
    *(
        "getelementptr ",
        "mul ",
        "add ",
        "sub ",
        "shl ",
        "and ",
        "or ",
        "xor ",
        "sext ",
        "zext ",
        "trunc ",
        "icmp ",
    ),
    *(
        "insertelement ",
        "shufflevector ",
        "extractelement ",
        "select ",
        "fcmp ",
        "fmul ",
        "fadd ",
        "fsub ",
        "fneg ",
    ),
    *("inttoptr ", "ptrtoint ", "sdiv ", "udiv ", "srem ", "urem ", "ashr ", "lshr ", "fdiv ", "bitcast "),
)
"""The beginnings of instructions whose result depends on the operands only."""
PURE_CALL = re.compile(
    r"@llvm\.(?:fma|fabs|sqrt|smin|smax|umin|umax|maximumnum|minimumnum|arithmetic\.fence)\."
)
"""Matches a call whose result depends on the operands only."""
NEUTRAL = re.compile(r"(?:(?:add|sub)(?: nsw| nuw)* i\d+ ([^ ,]+), 0|mul i\d+ ([^ ,]+), 1)$")
"""Matches integer arithmetic whose result is the first operand, which is the last group."""

ADDRESS = ("getelementptr ", "mul i64 ", "add i64 ", "sext ")
"""The beginnings of instructions that compute addresses."""
OPERAND = re.compile(r"%\w+")
"""Matches a register."""

_SCALARS = {t.name: f"i{t.bits}" for t in DTYPES.values()}
_SCALARS |= {"bool": "i1", "float16": "half", "float32": "float", "float64": "double"}


def scalar_type(dtype: DType) -> str:
    """The LLVM type of one scalar in a register. bfloat16 and 8-bit floats are held as their bits."""
    return _SCALARS[dtype.name]


def vector_of(scalar: str, width: int) -> str:
    """The type of a vector of `width` lanes; the scalar type for a width of 1."""
    return scalar if width == 1 else f"<{width} x {scalar}>"


def register_type(dtype: DType, width: int) -> str:
    """The LLVM type of `width` scalars in a register."""
    scalar = _SCALARS[dtype.name]
    return scalar if width == 1 else f"<{width} x {scalar}>"


def memory_type(dtype: DType) -> str:
    """The LLVM type of one scalar in memory: as in a register, but bools are bytes."""
    return "i8" if dtype.is_bool else scalar_type(dtype)


def constant(dtype: DType, value: float, width: int = 1) -> str:
    """A literal, splat to a vector. Integers wrap; floats are rounded and may overflow to infinity."""
    text = _literal(dtype, value)
    return text if width == 1 else f"splat ({scalar_type(dtype)} {text})"


def constants(dtype: DType, values: Sequence[float]) -> list[str]:
    """The literals of many numbers."""
    if not dtype.is_float or dtype.bits < 32:
        return [_literal(dtype, value) for value in values]
    with np.errstate(over="ignore"):
        numbers = np.array(values, to_numpy(dtype))
    digits = numbers.astype(">f8").tobytes().hex().upper()
    return [f"0x{digits[k : k + 16]}" for k in range(0, len(digits), 16)]


def _literal(dtype: DType, value: float) -> str:
    kind = dtype.kind
    if kind == "b":
        return "true" if value else "false"
    if kind != "f":
        return str(wrapped(int(value), dtype))
    if dtype.bits >= 32:
        return float_literal(float(value), dtype)
    bits = int.from_bytes(convert(np.array(value, np.float64), to_numpy(dtype)).tobytes(), "little")
    return f"0xH{bits:04X}" if dtype is float16 else str(bits)


def wrapped(value: int, dtype: DType) -> int:
    """An integer reduced modulo 2**bits into the type's range."""
    bits = dtype.bits
    low = -(1 << (bits - 1)) if dtype.is_signed else 0
    return (value - low) % (1 << bits) + low


def float_literal(value: float, dtype: DType) -> str:
    """A float32 or float64 literal, which LLVM spells as the bits of the double of the same value."""
    if dtype is float32:
        try:
            (value,) = struct.unpack("<f", struct.pack("<f", value))
        except OverflowError:
            value = math.copysign(math.inf, value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


class HoistedCode:
    """The instructions of a loop that precede it. `first`: the number of the first register of the loop; `body`: the
    label of the block that runs in each iteration from the beginning; `position`: the number of the line before the
    loop. `known`: the registers of addresses that are computed before the loop, by instruction, and `names`: these
    registers; `loads`: the loads of the body that may precede the loop; `written`: the pieces that the loop writes, and
    `writes_any`: whether it may write others."""

    def __init__(self, first: int, position: int) -> None:
        self.first, self.position = first, position
        self.body = ""
        self.known: dict[str, str] = {}
        self.names: set[str] = set()
        self.lines: list[str] = []
        self.loads: list[HoistedLoad] = []
        self.written: set[str] = set()
        self.writes_any = False

    def precedes(self, register: str) -> bool:
        """Whether a register is defined before the loop."""
        number = register[2:]
        return register in self.names or not number.isdecimal() or int(number) <= self.first


class HoistedLoad:
    """A load from `piece` that may precede a loop, and the register of the address. `number`: the number of its line;
    `loop`: the loop that it precedes, if any."""

    def __init__(self, line: str, pointer: str, piece: str, number: int, loop: HoistedCode | None) -> None:
        self.line, self.pointer, self.piece, self.number, self.loop = line, pointer, piece, number, loop


class KnownMemory:
    """The registers with the contents of memory at the current place of a basic block. Only memory of separate pieces
    is known, whose addresses are computed from the address of the piece.

    `places`: for an address in a piece, the piece, a register and a distance in bytes whose sum is the address;
    `registers`: for a piece, by address and type, the register, and the first and the last byte of the memory,
    relative to a register, so that memory relative to different registers may overlap."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[str, str, int]] = {}
        self.registers: dict[str, dict[tuple[str, str], tuple[str, str, int, int]]] = {}
        self.loops: list[HoistedCode] = []

    def forget(self) -> None:
        """Forget all contents at the beginning of a basic block."""
        if self.registers:
            self.registers = {}

    def add_piece(self, pointer: str) -> None:
        """Declare a piece by its address."""
        self.places[pointer] = pointer, pointer, 0

    def advance(self, pointer: str, base: str, distance: int | None) -> None:
        """Record that an address is at a distance from another one; None: at an unknown distance."""
        place = self.places.get(base)
        if place is not None:
            piece, register, start = place
            self.places[pointer] = (
                (piece, pointer, 0) if distance is None else (piece, register, start + distance)
            )

    def find(self, pointer: str, type: str) -> str | None:
        """The register with the contents at an address, if they are known."""
        place = self.places.get(pointer)
        known = self.registers.get(place[0]) if place is not None else None
        return known[pointer, type][0] if known and (pointer, type) in known else None

    def loaded(self, pointer: str, type: str, size: int, value: str) -> None:
        """Record the register of a load of `size` bytes."""
        place = self.places.get(pointer)
        if place is not None:
            piece, register, start = place
            self.registers.setdefault(piece, {})[pointer, type] = value, register, start, start + size

    def stored(self, pointer: str, type: str, size: int, value: str) -> None:
        """Record a store of `size` bytes, and forget all contents that it may overwrite."""
        place = self.places.get(pointer)
        if place is None:
            self.clear()
            return
        piece, register, start = place
        for loop in self.loops:
            loop.written.add(piece)
        known = self.registers.get(piece)
        if known:
            self.registers[piece] = {
                key: x
                for key, x in known.items()
                if x[1] == register and (x[3] <= start or start + size <= x[2])
            }
        self.loaded(pointer, type, size, value)

    def clear(self) -> None:
        """Forget all contents, which an instruction may overwrite."""
        if self.registers:
            self.registers = {}
        for loop in self.loops:
            loop.writes_any = True


class Code:
    """The lines of one function, with fresh names for registers and labels.

    `rounds_bfloat16`: the target has an instruction that rounds to bfloat16 correctly, subnormals included.
    `approximates`: the target has instructions that approximate reciprocals and powers of two; `pairs_halves`: the
    target has instructions for one float16 and for two. `batched_functions`: for
    an op, the function that emits the op for several float32 numbers at a time. `fences_extremes`: the operands of a
    minimum or maximum must be hidden from LLVM's analyses. `rotates_loops`: loops that certainly run have their test at
    the end. `reuses`: an instruction whose result the basic block has computed before is not repeated, and `known` has
    the results by instruction; `contents`: the known contents of scratch memory, which are recorded if
    `tracks_scratch`. `suffix`: text, such as metadata, after every instruction.
    `packs`: the target has vector registers for the components of one value; `packed`: the vector register that
    contains the components; `extracted`: for a component that was extracted from a vector register, the register, its
    number of components, and the position. `bytes_of`: for a byte, the vector of four bytes from which the byte was
    extracted, and its position. `tables`: the names of read-only data, by contents; `table_space`: the address space of
    tables, and `constant_tables` the sizes of tables in constant memory, by object; `varies`: whether a value may
    differ between threads; `tables_by_object`: the names by object and address space;
    `table_rows`: the rows of tables that are already loaded, by basic block, table and indices. `ranges`: the bounds of
    the kernel's integers, if known."""

    def __init__(self) -> None:
        self.rounds_bfloat16 = False
        self.fences_extremes = False
        self.approximates = self.pairs_halves = False
        self.packs = self.rotates_loops = self.reuses = self.tracks_scratch = False
        self.known: dict[str, str] = {}
        self.contents = KnownMemory()
        self.packed: dict[tuple[str, ...], str] = {}
        self.extracted: dict[str, tuple[str, int, int]] = {}
        self.bytes_of: dict[str, tuple[str, int]] = {}
        self.batched_functions: dict[type, Callable[[Code, Sequence[Sequence[str]]], list[str]]] = {}
        self.tables: dict[str, str] = {}
        self.tables_by_object: dict[tuple[int, DType, str], tuple[Sequence[float], str]] = {}
        self.table_space = ""
        self.constant_tables: dict[tuple[int, DType], int] = {}
        self.varies: Callable[[Value], bool] = lambda value: True
        self.table_rows: dict[tuple[str, str, tuple[str, ...]], str] = {}
        self.ranges: IntegerRanges | None = None
        self.lines: list[str] = []
        self.entry: list[str] = []
        self.block = "entry"
        self.suffix = ""
        self._next = 0

    def table(
        self, dtype: DType, elements: Sequence[float], space: str, definition: Callable[[], str]
    ) -> str:
        """The name of read-only data, which is defined once. `definition` returns the definition in LLVM's text,
        after the name, and is called once for ops that share an object."""
        key = id(elements), dtype, space
        if key not in self.tables_by_object:
            self.tables_by_object[key] = (
                elements,
                self.tables.setdefault(definition(), f"@table{len(self.tables)}"),
            )
        return self.tables_by_object[key][1]

    def table_lines(self) -> str:
        """The definitions of all tables."""
        return "".join(f"{name} = {definition}\n" for definition, name in self.tables.items())

    @property
    def register_count(self) -> int:
        """The number of names of registers and labels so far."""
        return self._next

    def fresh(self, prefix: str = "v") -> str:
        """A new register name."""
        self._next += 1
        return f"%{prefix}{self._next}"

    def line(self, text: str) -> None:
        """Append an instruction, which may write any memory."""
        self.contents.clear()
        self.lines.append(f"  {text}{self.suffix}")

    def emit(self, rhs: str) -> str:
        """The register with the value of an instruction, a new one unless the value is known."""
        if self.reuses:
            name = self.known.get(rhs)
            if name is not None:
                return name
            for loop in self.contents.loops:
                if rhs in loop.known:
                    return loop.known[rhs]
        self._next += 1
        name = f"%v{self._next}"
        if self.reuses and (rhs.startswith(PURE) or rhs.startswith("call ") and PURE_CALL.search(rhs)):
            match = NEUTRAL.match(rhs)
            if match:
                return match[match.lastindex or 1]
            if self.contents.loops and rhs.startswith(ADDRESS) and self._precedes(rhs, name):
                return name
            self.known[rhs] = name
        elif not rhs.startswith(("load ", "phi ")):
            self.contents.clear()
        self.lines.append(f"  {name} = {rhs}{self.suffix}")
        return name

    def _precedes(self, rhs: str, name: str) -> bool:
        """Whether an instruction has been emitted before the outermost loop in which its operands do not change."""
        operands = OPERAND.findall(rhs)
        for loop in self.contents.loops:
            if all(map(loop.precedes, operands)):
                loop.known[rhs] = name
                loop.names.add(name)
                loop.lines.append(f"  {name} = {rhs}{self.suffix}")
                return True
        return False

    def unpacked(self, type: str, count: int, vector: str) -> tuple[str, ...]:
        """The elements of a vector register as components of a value. LLVM removes unused extracts."""
        parts = tuple(self.emit(f"extractelement <{count} x {type}> {vector}, i32 {k}") for k in range(count))
        self.join(parts, vector)
        return parts

    def join(self, parts: tuple[str, ...], vector: str) -> None:
        """Record the vector register whose elements are the components of a value."""
        self.packed[parts] = vector
        self.record_extracted(parts, vector)

    def record_extracted(self, parts: tuple[str, ...], vector: str) -> None:
        """Record that the components of a value are the elements of a vector register."""
        self.extracted.update((part, (vector, len(parts), k)) for k, part in enumerate(parts))

    def call(self, intrinsic: str, suffix: str, result: str, args: str) -> str:
        """Call a permitted intrinsic. `result`: the result type, or "void". `args`: the operands with their types."""
        if intrinsic not in INTRINSICS:
            raise InternalError(f"the intrinsic {intrinsic} is not in the list of supported intrinsics")
        text = f"call {result} @llvm.{intrinsic}.{suffix}({args})"
        if result == "void":
            self.line(text)
            return ""
        return self.emit(text)

    # Blocks -------------------------------------------------------------------------------------------------

    def label(self, prefix: str = "b") -> str:
        """A new name of a basic block."""
        self._next += 1
        return f"{prefix}{self._next}"

    def define_label(self, label: str) -> None:
        """Begin the basic block of a label."""
        self.lines.append(f"{label}:")
        self.block = label
        self.known.clear()
        self.contents.forget()

    def jump(self, label: str) -> None:
        """End the basic block by an unconditional branch."""
        self.lines.append(f"  br label %{label}{self.suffix}")

    def branch(self, condition: str, true_label: str, false_label: str) -> None:
        """End the basic block by a conditional branch."""
        self.lines.append(f"  br i1 {condition}, label %{true_label}, label %{false_label}{self.suffix}")

    def phi(self, type: str, *sources: tuple[str, str]) -> str:
        """A phi of values by predecessor block."""
        return self.emit(f"phi {type} " + ", ".join(f"[ {v}, %{b} ]" for v, b in sources))

    @contextmanager
    def loop(
        self,
        start: str,
        stop: str,
        step: str = "1",
        carried: list[tuple[str, str]] | None = None,
        metadata: str = "",
    ) -> Iterator[Loop]:
        """Emit a counting loop over i64, which runs only if start < stop.

        `carried`: (type, initial value) of carried values. The body sets `loop.next`; `loop.results` are the final
        values. `metadata`: text after the back branch, as in ", !llvm.loop !0"."""
        loop_state = Loop(self, start, stop, step, carried or [], metadata)
        loop_state.open()
        yield loop_state
        loop_state.close()


class Loop:
    """A counting loop under construction. In its body `index` is the counter, `values` the carried values."""

    def __init__(
        self, code: Code, start: str, stop: str, step: str, carried: list[tuple[str, str]], metadata: str
    ) -> None:
        self.code, self.start, self.stop, self.step = code, start, stop, step
        self.carried, self.metadata = carried, metadata
        self.next: list[str] = []
        self.index = ""
        self.values: list[str] = []
        self.results: list[str] = []
        numbers = [x.lstrip("-").isdecimal() for x in (start, stop, step)]
        self._runs = code.rotates_loops and all(numbers) and int(start) < int(stop) and int(step) > 0
        # LLVM looks for proofs of a comparison by order in all loops before, and not of one by equality.
        is_exact = self._runs and (int(stop) - int(start)) % int(step) == 0
        self._comparison = "ne" if is_exact else "slt"

    def open(self) -> None:
        """Begin the loop: the header with the index, and the body."""
        code = self.code
        self.head, self.body, self.done = code.label("head"), code.label("body"), code.label("done")
        preheader = code.block
        if self._runs:
            self._hoisted = HoistedCode(code.register_count, len(code.lines))
            code.lines.append("")
        code.jump(self.head)
        code.define_label(self.head)
        self.index = code.fresh("i")
        self.values = [code.fresh("c") for _ in self.carried]
        self._phis = len(code.lines)
        self._preheader = preheader
        code.lines.append("")
        if self._runs:
            self._hoisted.body = code.block
            code.contents.loops.append(self._hoisted)
        if not self._runs:
            test = code.emit(f"icmp slt i64 {self.index}, {self.stop}")
            code.branch(test, self.body, self.done)
            code.define_label(self.body)

    def close(self) -> None:
        """End the loop: the next index, and the jump to the header."""
        code = self.code
        next_index = code.emit(f"add nsw i64 {self.index}, {self.step}")
        latch = code.block
        if self._runs:
            goes_on = code.emit(f"icmp {self._comparison} i64 {next_index}, {self.stop}")
            code.lines.append(f"  br i1 {goes_on}, label %{self.head}, label %{self.done}{self.metadata}")
            self._load_before()
        else:
            code.lines.append(f"  br label %{self.head}{self.metadata}")
        phis = [f"{self.index} = phi i64 [ {self.start}, %{self._preheader} ], [ {next_index}, %{latch} ]"]
        for (type, initial), value, next_value in zip(self.carried, self.values, self.next, strict=True):
            phis.append(f"{value} = phi {type} [ {initial}, %{self._preheader} ], [ {next_value}, %{latch} ]")
        code.lines[self._phis] = "\n".join("  " + p for p in phis)
        self.results = self.next if self._runs else self.values
        code.define_label(self.done)

    def _load_before(self) -> None:
        """Move loads of memory that the loop does not write before the loop, which certainly runs."""
        code, loop = self.code, self.code.contents.loops.pop()
        outer = code.contents.loops[-1] if code.contents.loops else None
        for load in () if loop.writes_any else loop.loads:
            if load.piece not in loop.written:
                if load.loop is None:
                    code.lines[load.number] = ""
                else:
                    load.loop.lines.remove(load.line)
                    code.lines[load.loop.position] = "\n".join(load.loop.lines)
                loop.lines.append(load.line)
                load.loop = loop
                if outer is not None and outer.body == self._preheader and outer.precedes(load.pointer):
                    outer.loads.append(load)
        code.lines[loop.position] = "\n".join(loop.lines)
