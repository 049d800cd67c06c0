"""The matmul of two tiles in memory, as one LLVM function for its sizes, types and strides.

A block of the result, a few rows by a few SIMD vectors, stays in registers while the loop over k adds one outer product
at a time: vectors of a row of B times single elements of A. Operands of another type than the accumulator's, or with
elements in another order than the loop's, are first packed into scratch memory. If rows of B are far apart in memory,
the first block of rows stores them contiguously in scratch memory for the blocks below.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from tegula.codegen.convert import convert
from tegula.codegen.memory import MemoryEmitter
from tegula.codegen.text import Code, constant, register_type, scalar_type
from tegula.dataclass import dataclass
from tegula.errors import InternalError
from tegula.types import DType

LINE_BYTES = 64
# The number of vector registers by their size in bytes: NEON, AVX2, AVX-512.
REGISTERS = {16: 32, 32: 16, 64: 32}
# The multiply-adds in flight that keep the units busy: a latency of 4 cycles, two per cycle.
IN_FLIGHT = 8
# The maximum number of vector multiply-adds of a matmul that is emitted as straight-line code.
MAX_STRAIGHT_LINE = 128
# The factor by which the estimated time of a blocking with less code may exceed the minimum.
TIME_TOLERANCE = 1.05
# The locality argument of prefetches: 3 stands for the L1 cache, 2 for the L2 cache.
PREFETCH_LOCALITY = 2
MAX_ROWS = 16
MAX_VECTORS = 4
# The bytes of a 128-bit lane of a register; shuffles within a lane are cheap.
SHUFFLE_LANE_BYTES = 16
# The number of lines in one set of the L1 cache.
CACHE_WAYS = 8
# The parameters that are noalias: no write through another pointer changes their memory.
NOALIAS_PARAMETERS = ("ptr %a", "ptr %b", "ptr %c", "ptr %scratch")

Stride = int | None


@dataclass(frozen=True, slots=True)
class PrefetchRegion:
    """A region of memory to prefetch while the matmul runs: `rows` rows of `row_bytes` bytes."""

    rows: int
    row_bytes: int


@dataclass(frozen=True, slots=True)
class MatmulSpec:
    """C (m, n) = A (m, k) @ B (k, n) in memory.

    `a`, `b`: the types of A and B in memory; `acc`: the type of C and of the arithmetic (float32, float64 or an
    integer). Strides count elements, (rows, columns); None means a stride passed at run time. `accumulate`: the result
    is added to C, otherwise it overwrites C. `scaled`: the matmul is multiplied by an argument alpha, and with
    `accumulate` C by an argument beta; a factor of 0 gives 0, also for NaN and infinity. `ahead`: memory to prefetch,
    such as the tiles of the next step, which need not be mapped."""

    m: int
    n: int
    k: int
    a: DType
    b: DType
    acc: DType
    a_strides: tuple[Stride, Stride]
    b_strides: tuple[Stride, Stride]
    c_strides: tuple[int, int]
    scaled: bool = False
    accumulate: bool = True
    ahead: tuple[PrefetchRegion, ...] = ()

    def __post_init__(self) -> None:
        if self.acc.is_bool or (self.acc.is_float and self.acc.bits < 32):
            raise InternalError(f"matmuls are not accumulated in {self.acc}")

    def parameters(self) -> list[str]:
        """The function's parameters, each as type and name: a, b, c; alpha and beta if scaled; the run-time strides of
        a and b; the address and the row stride in bytes of each region to prefetch; scratch."""
        types = ["ptr %a", "ptr %b", "ptr %c"]
        if self.scaled:
            types += [f"{scalar_type(self.acc)} %{x}" for x in ("alpha", "beta")[: 1 + self.accumulate]]
        for name, strides in (("a", self.a_strides), ("b", self.b_strides)):
            types += [f"i64 %{name}{axis}" for axis, stride in enumerate(strides) if stride is None]
        for i in range(len(self.ahead)):
            types += [f"ptr %ahead{i}", f"i64 %step{i}"]
        return [*types, "ptr %scratch"]


@dataclass(frozen=True, slots=True)
class MatrixOperand:
    """A matrix in memory. Strides are registers or literals, in elements."""

    pointer: str
    dtype: DType
    row: str
    column: str

    @property
    def transposed(self) -> MatrixOperand:
        """The operand with rows and columns exchanged."""
        return MatrixOperand(self.pointer, self.dtype, self.column, self.row)


@dataclass(frozen=True, slots=True)
class Column:
    """One SIMD vector of a block: `width` lanes starting `offset` elements into the row, the first `active` of which
    are in C."""

    offset: int
    width: int
    active: int


@dataclass(frozen=True, slots=True)
class Run:
    """`count` adjacent pieces of `size` each, from position `start` on."""

    start: int
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Blocking:
    """The blocking of C: runs of row blocks, and runs of column panels in units of vectors of `lanes`."""

    lanes: int
    rows: tuple[Run, ...]
    panels: tuple[Run, ...]


def balanced(total: int, size: int) -> tuple[Run, ...]:
    """The division of `total` into the fewest pieces of at most `size`, whose sizes differ by at most one."""
    pieces = ceil(total / size)
    small, larger = divmod(total, pieces)
    runs = (Run(0, larger, small + 1), Run(larger * (small + 1), pieces - larger, small))
    return tuple(r for r in runs if r.count)


def block_cycles(rows: int, vectors: int, k: int) -> int:
    """The estimated cycles of one block. Each step of k is bound by multiply-adds, by loads (at the same rate), or by
    the latency of accumulating into the same registers; loading and storing the block is added."""
    return k * max(rows * vectors, rows + vectors, IN_FLIGHT) + 2 * rows * vectors + 12


def unroll_factor(cells: int, k: int) -> int:
    """The unroll factor of the loop over k: with few accumulators, loop control would dominate a single step."""
    return min(k, ceil(16 / cells))


def choose_blocking(m: int, n: int, k: int, lanes: int, registers: int) -> Blocking:
    """The blocking with the least code among all blockings within a small factor of the least estimated time. Its
    accumulators, B vectors and one A value fit the registers."""
    lanes = min(lanes, power_of_two(n))
    vectors = ceil(n / lanes)
    candidates: list[tuple[int, int, Blocking]] = []
    for width in range(1, min(vectors, MAX_VECTORS) + 1):
        panels = balanced(vectors, width)
        for height in range(1, min(m, MAX_ROWS, (registers - 1 - width) // width) + 1):
            rows = balanced(m, height)
            cycles = sum(r.count * p.count * block_cycles(r.size, p.size, k) for r in rows for p in panels)
            bodies = _split_last(panels, n % lanes != 0)
            code_size = sum(
                unroll_factor(c := r.size * p.size, k) * (c + r.size + p.size) for r in rows for p in bodies
            )
            candidates.append((cycles, code_size, Blocking(lanes, rows, panels)))
    limit = TIME_TOLERANCE * min(cycles for cycles, _, _ in candidates)
    return min((f for f in candidates if f[0] <= limit), key=lambda f: (f[1], f[0]))[2]


def power_of_two(n: int) -> int:
    """The least power of two that is at least n."""
    return 1 << (n - 1).bit_length()


def reads_in_place(spec: MatmulSpec, vector_bytes: int) -> tuple[bool, bool]:
    """For A and for B, whether reading directly from an array with long rows, with prefetches, is faster than a copy to
    a contiguous tile.

    Rows of an array may all start in the same cache set. The cache can hold lines of the few rows of A that a block
    reads, but not of one row per step, which a transposed A needs. B is read once, and packed if necessary."""
    matmul = _Matmul(spec, vector_bytes)
    few_rows = max(r.size for r in matmul.blocking.rows) <= CACHE_WAYS
    a = few_rows and matmul.a.column == "1" and not matmul.is_straight_line
    b = matmul.pack_b or not matmul.is_straight_line
    return (b, a) if matmul.swapped else (a, b)


def scratch_bytes(spec: MatmulSpec, vector_bytes: int) -> int:
    """The bytes of 64-byte aligned scratch memory that the function needs; 0 for none."""
    return _Matmul(spec, vector_bytes).scratch


def emit_matmul(name: str, spec: MatmulSpec, vector_bytes: int) -> str:
    """The text of an internal function @name with the parameters `spec.parameters()`.

    C must not overlap A or B. Each element is a chain of fused multiply-adds, in order of increasing k."""
    return _Matmul(spec, vector_bytes).function(name)


class _Matmul:
    """One matmul function under construction."""

    def __init__(self, spec: MatmulSpec, vector_bytes: int) -> None:
        self.code = Code()
        self.memory = MemoryEmitter(self.code)
        self.spec = spec
        self.acc = spec.acc
        self.m, self.n, self.k = spec.m, spec.n, spec.k
        self.a = MatrixOperand("%a", spec.a, *_strides("a", spec.a_strides, (spec.m, spec.k)))
        self.b = MatrixOperand("%b", spec.b, *_strides("b", spec.b_strides, (spec.k, spec.n)))
        self.c = MatrixOperand("%c", spec.acc, *_strides("c", spec.c_strides, (spec.m, spec.n)))
        self.swapped = self.c.row == "1" and (self.c.column != "1" or self.n == 1)
        if self.swapped:
            # C^T = B^T A^T: the columns of C become contiguous rows.
            self.m, self.n = self.n, self.m
            self.a, self.b, self.c = self.b.transposed, self.a.transposed, self.c.transposed
        lanes = vector_bytes * 8 // self.acc.bits if self.c.column == "1" else 1
        self.lanes = lanes
        self.registers = REGISTERS[vector_bytes]
        self.blocking = choose_blocking(self.m, self.n, self.k, lanes, self.registers)
        self.scratch = 0
        has_row_blocks = sum(r.count for r in self.blocking.rows) > 1
        self.pack_a = self.a.dtype != self.acc
        self.pack_b = self.b.column != "1" or (self.b.dtype != self.acc and has_row_blocks)
        self.copies_b = (
            self.b.row.startswith("%") and has_row_blocks and not self.pack_b and not self.is_straight_line
        )
        if self.pack_a:
            self.packed_a = self._reserve(self.m, self.k)
        if self.pack_b:
            self.packed_b = self._reserve(self.k, self.n)
        if self.copies_b:
            self.panel = self._reserve(
                self.k, max(p.size for p in self.blocking.panels) * self.blocking.lanes
            )

    def _reserve(self, rows: int, columns: int) -> MatrixOperand:
        """Scratch memory for a packed operand. Long rows are an odd number of cache lines, so that they start in
        different sets."""
        size = self.acc.bits // 8
        stride = (
            ceil(columns * size / LINE_BYTES) * LINE_BYTES
            if columns * size > LINE_BYTES
            else power_of_two(columns) * size
        )
        if stride % (8 * LINE_BYTES) == 0:
            stride += LINE_BYTES
        offset = self.scratch
        self.scratch += ceil((rows * stride) / LINE_BYTES) * LINE_BYTES
        # `pointer` holds the offset in scratch memory; `function` computes the address.
        return MatrixOperand(str(offset), self.acc, str(stride // size), "1")

    def function(self, name: str) -> str:
        a = self._pack(self.a, self.packed_a, self.m, self.k) if self.pack_a else self.a
        b = self._pack(self.b, self.packed_b, self.k, self.n) if self.pack_b else self.b
        scratch_panel = self._in_scratch(self.panel) if self.copies_b else None
        for run in _split_last(self.blocking.panels, self.n % self.blocking.lanes != 0):
            for panel in self._for_each_piece(run):
                columns = self._columns(run)
                first = self.memory.mul(panel, str(self.blocking.lanes))
                source = MatrixOperand(self.at(b, "0", first), b.dtype, b.row, b.column)
                for rows in _split_first(self.blocking.rows) if scratch_panel else self.blocking.rows:
                    for row in self._for_each_piece(rows):
                        self._prefetch_ahead(panel, run.size, row, rows.size)
                        a_block = MatrixOperand(self.at(a, row, "0"), a.dtype, a.row, a.column)
                        c_block = MatrixOperand(
                            self.at(self.c, row, first), self.acc, self.c.row, self.c.column
                        )
                        panel_to_fill = scratch_panel if rows.start == 0 else None
                        _Block(self, a_block, source, c_block, rows.size, columns, panel_to_fill).emit()
                    source = scratch_panel or source
        parameters = ", ".join(
            p.replace("ptr", "ptr noalias") if p in NOALIAS_PARAMETERS else p for p in self.spec.parameters()
        )
        attributes = "nounwind alwaysinline" if self.is_straight_line else "nounwind"
        head = f"define internal void @{name}({parameters}) {attributes} {{"
        return "\n".join([head, "entry:", *self.code.lines, "  ret void", "}", ""])

    def _in_scratch(self, buffer: MatrixOperand) -> MatrixOperand:
        pointer = self.memory.bytes_offset("%scratch", buffer.pointer)
        return MatrixOperand(pointer, buffer.dtype, buffer.row, buffer.column)

    def _prefetch_ahead(self, panel: str, vectors: int, row: str, rows: int) -> None:
        """Prefetch the block's chunk of the regions ahead."""
        total = self.vectors * self.m
        for i, region in enumerate(self.spec.ahead):
            position = self.memory.add(
                self.memory.mul(panel, str(self.m)), self.memory.mul(row, str(vectors))
            )
            position = self.memory.mul(position, str(region.rows))
            start = (
                str(int(position) // total)
                if position.isdigit()
                else self.code.emit(f"udiv i64 {position}, {total}")
            )
            for j in range(ceil(region.rows * rows * vectors / total)):
                line = self.memory.mul(self.memory.add(start, str(j)), f"%step{i}")
                for offset in range(0, region.row_bytes, LINE_BYTES):
                    address = self.memory.bytes_offset(f"%ahead{i}", self.memory.add(line, str(offset)))
                    self.code.call(
                        "prefetch", "p0", "void", f"ptr {address}, i32 0, i32 {PREFETCH_LOCALITY}, i32 1"
                    )

    @property
    def is_straight_line(self) -> bool:
        """Whether the matmul is emitted as straight-line code, because it is small."""
        converts = not self.pack_b and self.b.dtype != self.acc
        return self.m * self.vectors * self.k <= (MAX_STRAIGHT_LINE // 8 if converts else MAX_STRAIGHT_LINE)

    @property
    def vectors(self) -> int:
        """The number of SIMD vectors in a row of C."""
        return sum(p.count * p.size for p in self.blocking.panels)

    def _for_each_piece(self, run: Run) -> Iterator[str]:
        """Yield the start of the pieces of a run: one literal for a single piece, else the index of an emitted loop, to
        whose body the caller's code belongs."""
        if run.count == 1:
            yield str(run.start)
            return
        with self.code.loop(str(run.start), str(run.start + run.count * run.size), str(run.size)) as loop:
            yield loop.index

    def _columns(self, run: Run) -> tuple[Column, ...]:
        lanes = self.blocking.lanes
        columns = [Column(i * lanes, lanes, lanes) for i in range(run.size)]
        rest = self.n % lanes
        if rest and (run.start + run.count * run.size) * lanes > self.n:
            columns[-1] = Column(columns[-1].offset, power_of_two(rest), rest)
        return tuple(columns)

    # Packing ---------------------------------------------------------------------------------------------------------

    def _pack(self, x: MatrixOperand, buffer: MatrixOperand, rows: int, columns: int) -> MatrixOperand:
        """A row-major copy of x in `buffer`, converted to the accumulator's type."""
        to = self._in_scratch(buffer)
        if x.column == "1":
            lanes = min(self.lanes, power_of_two(columns))
            for row in self._for_each_piece(Run(0, rows, 1)):
                for column in self._covering_starts(columns, lanes):
                    self._store_at(to, row, column, self.fetch(x, row, column, lanes, columns), lanes)
        elif x.row == "1":
            self._pack_transposed(x.transposed, to, rows, columns)
        else:
            for row in self._for_each_piece(Run(0, rows, 1)):
                for column in self._for_each_piece(Run(0, columns, 1)):
                    self._store_at(to, row, column, self.fetch(x, row, column, 1, 1), 1)
        return to

    def _pack_transposed(self, x: MatrixOperand, to: MatrixOperand, rows: int, columns: int) -> None:
        """Copy x (columns, rows) into `to` (rows, columns), a vector of columns by several rows at a time. Each
        register is loaded with parts of several rows of x, so that the remaining shuffles stay within parts of a
        register."""
        lanes = min(max(2, self.lanes), power_of_two(max(2, columns)))
        part = min(lanes, SHUFFLE_LANE_BYTES * 8 // self.acc.bits)
        depth = max(part, min(lanes, self.registers // 2, power_of_two(rows)))
        starts = range(0, min(depth, rows), part)
        # The inner loop runs along a row of x, so that a cache line is consumed before the next.
        for column in self._covering_starts(columns, lanes):
            for row in self._covering_starts(rows, depth):
                corner = MatrixOperand(self.at(x, column, row), x.dtype, x.row, x.column)
                loaded = [
                    [
                        self._parts(corner, range(i, lanes, part), start, part, (columns, rows))
                        for start in starts
                    ]
                    for i in range(part)
                ]
                for start, vectors in zip(starts, zip(*loaded, strict=True), strict=True):
                    for i, vector in enumerate(self._transpose(list(vectors), lanes)[: rows - start]):
                        self._store_at(
                            to, self.memory.add(row, str(start + i)), column, vector, lanes, columns
                        )

    def _parts(self, x: MatrixOperand, rows: range, start: int, part: int, shape: tuple[int, int]) -> str:
        """`part` elements of each of `rows` of x, from `start` on, concatenated to one vector; zeros outside
        `shape`."""
        active, dtype, width = min(part, shape[1] - start), x.dtype, part
        vectors = [
            self.load(self.at(x, str(i), str(start)), dtype, part, active)
            if i < shape[0]
            else "zeroinitializer"
            for i in rows
        ]
        if active < part:
            # Only part of the result is used. LLVM 22 would shuffle float16 across the whole register before the
            # conversion; shuffles after the conversion stay within halves of the register.
            vectors = [convert(self.code, v, dtype, self.acc, width) for v in vectors]
            dtype = self.acc
        while len(vectors) > 1:
            type, width = register_type(dtype, width), 2 * width
            vectors = [
                self.code.emit(f"shufflevector {type} {a}, {type} {b}, {_mask(list(range(width)))}")
                for a, b in zip(vectors[::2], vectors[1::2], strict=True)
            ]
        return convert(self.code, vectors[0], dtype, self.acc, width)

    def _covering_starts(self, length: int, step: int) -> Iterator[str]:
        """The starts of pieces of `step` that cover `length`; the last piece overlaps the one before if `step` does not
        divide it."""
        if length <= step:
            yield "0"
            return
        with self.code.loop("0", str(length), str(step)) as loop:
            yield self.code.call("smin", "i64", "i64", f"i64 {loop.index}, i64 {length - step}")

    def _transpose(self, vectors: list[str], lanes: int) -> list[str]:
        """Transpose the adjacent squares in these vectors, each as wide as there are vectors. Each step merges vectors
        i and i + half lane by lane: it rotates the bits of (vector, lane in the square) by one."""
        type, size = register_type(self.acc, lanes), len(vectors)
        low = [s + i // 2 + i % 2 * lanes for s in range(0, lanes, size) for i in range(size)]
        high = [i + size // 2 for i in low]
        for _ in range(size.bit_length() - 1):
            vectors = [
                self.code.emit(
                    f"shufflevector {type} {vectors[i]}, {type} {vectors[i + size // 2]}, {_mask(order)}"
                )
                for i in range(size // 2)
                for order in (low, high)
            ]
        return vectors

    def fetch(self, x: MatrixOperand, row: str, column: str, lanes: int, length: int) -> str:
        """`lanes` elements from x[row, column] on, in the accumulator's type; lanes at or beyond `length` are 0."""
        pointer = self.at(x, row, column)
        return convert(
            self.code, self.load(pointer, x.dtype, lanes, min(lanes, length)), x.dtype, self.acc, lanes
        )

    def _store_at(
        self, to: MatrixOperand, row: str, column: str, value: str, lanes: int, active: int | None = None
    ) -> None:
        self.store(self.at(to, row, column), value, lanes, min(lanes, active or lanes))

    # Memory ----------------------------------------------------------------------------------------------------------

    def at(self, x: MatrixOperand, row: str, column: str) -> str:
        """The address of x[row, column]."""
        offset = self.memory.add(self.memory.mul(row, x.row), self.memory.mul(column, x.column))
        return self.memory.offset(x.pointer, offset, x.dtype)

    def load(self, pointer: str, dtype: DType, lanes: int, active: int) -> str:
        type, align = register_type(dtype, lanes), dtype.bits // 8
        if active == lanes:
            return self.code.emit(f"load {type}, ptr {pointer}, align {align}")
        mask = f"<{lanes} x i1> {_lane_mask(lanes, active)}"
        suffix = f"v{lanes}{_mangled(dtype)}.p0"
        return self.code.call(
            "masked.load", suffix, type, f"ptr align {align} {pointer}, {mask}, {type} zeroinitializer"
        )

    def store(self, pointer: str, value: str, lanes: int, active: int) -> None:
        type, align = register_type(self.acc, lanes), self.acc.bits // 8
        if active == lanes:
            self.code.line(f"store {type} {value}, ptr {pointer}, align {align}")
            return
        mask = f"<{lanes} x i1> {_lane_mask(lanes, active)}"
        suffix = f"v{lanes}{_mangled(self.acc)}.p0"
        self.code.call("masked.store", suffix, "void", f"{type} {value}, ptr align {align} {pointer}, {mask}")


class _Block:
    """The code for one block of C, `rows` rows by these columns, with operands that begin at the block.
    `b_copy`: the memory in which the block stores its vectors of B for the blocks below."""

    def __init__(
        self,
        matmul: _Matmul,
        a: MatrixOperand,
        b: MatrixOperand,
        c: MatrixOperand,
        rows: int,
        columns: tuple[Column, ...],
        b_copy: MatrixOperand | None,
    ) -> None:
        self.matmul, self.code, self.memory = matmul, matmul.code, matmul.memory
        self.acc = matmul.acc
        self.a, self.b, self.c, self.b_copy = a, b, c, b_copy
        self.rows, self.columns = rows, columns
        self.factors: dict[tuple[str, int], str] = {}
        self.cells = [(i, column) for i in range(rows) for column in columns]

    def emit(self) -> None:
        spec, k = self.matmul.spec, self.matmul.k
        types = [register_type(self.acc, column.width) for _, column in self.cells]
        adds = spec.accumulate and not spec.scaled
        zeros = [constant(self.acc, 0, column.width) for _, column in self.cells]
        sums = [self._load_c(cell) for cell in self.cells] if adds else zeros
        if self.matmul.is_straight_line:
            sums = self._steps("0", k, sums)
        else:
            unroll = unroll_factor(len(self.cells), k)
            if k >= unroll:
                with self.code.loop(
                    "0", str(k - k % unroll), str(unroll), list(zip(types, sums, strict=True))
                ) as loop:
                    loop.next = self._steps(loop.index, unroll, loop.values)
                sums = loop.results
            sums = self._steps(str(k - k % unroll), k % unroll, sums)
        for cell, value in zip(self.cells, sums, strict=True):
            self._store_c(cell, value)

    def _steps(self, k: str, count: int, sums: list[str]) -> list[str]:
        """The sums after adding `count` outer products, from step k on."""
        a, b = self._advanced(self.a, "0", k), self._advanced(self.b, k, "0")
        packed_panel = self._advanced(self.b_copy, k, "0") if self.b_copy is not None else None
        for step in range(count):
            vectors = [self._load_b(b, step, column) for column in self.columns]
            if packed_panel is not None:
                for column, vector in zip(self.columns, vectors, strict=True):
                    pointer = self.matmul.at(packed_panel, str(step), str(column.offset))
                    self.matmul.store(pointer, vector, column.width, column.width)
            new_sums: list[str] = []
            for row in range(self.rows):
                factor = self._load_a(a, row, step)
                for column, vector in zip(self.columns, vectors, strict=True):
                    new_sums.append(
                        self._multiply_add(column.width, factor[column.width], vector, sums[len(new_sums)])
                    )
            sums = new_sums
        return sums

    def _advanced(self, x: MatrixOperand, row: str, column: str) -> MatrixOperand:
        return MatrixOperand(self.matmul.at(x, row, column), x.dtype, x.row, x.column)

    def _load_a(self, a: MatrixOperand, row: int, step: int) -> dict[int, str]:
        """a[row, step] splat to every lane, by vector width."""
        x = self.matmul.fetch(a, str(row), str(step), 1, 1)
        return {width: self._splat(x, width) for width in {c.width for c in self.columns}}

    def _splat(self, x: str, width: int) -> str:
        if width == 1:
            return x
        type = register_type(self.acc, width)
        first = self.code.emit(f"insertelement {type} poison, {scalar_type(self.acc)} {x}, i64 0")
        return self.code.emit(f"shufflevector {type} {first}, {type} poison, <{width} x i32> zeroinitializer")

    def _factor(self, x: str, width: int) -> str:
        """alpha or beta splat to every lane, once per block."""
        if (x, width) not in self.factors:
            self.factors[x, width] = self._splat(x, width)
        return self.factors[x, width]

    def _unless_zero(self, factor: str, scaled: str, without: str, type: str) -> str:
        """`scaled` if the factor is nonzero, else `without`, so that 0 times NaN or infinity contributes nothing."""
        if not self.acc.is_float:
            return scaled
        zero = self.code.emit(f"fcmp oeq {scalar_type(self.acc)} {factor}, {constant(self.acc, 0)}")
        return self.code.emit(f"select i1 {zero}, {type} {without}, {type} {scaled}")

    def _load_b(self, b: MatrixOperand, step: int, column: Column) -> str:
        return self.matmul.fetch(b, str(step), str(column.offset), column.width, column.active)

    def _multiply_add(self, width: int, x: str, y: str, z: str) -> str:
        type = register_type(self.acc, width)
        if self.acc.is_float:
            suffix = f"v{width}{_mangled(self.acc)}" if width > 1 else _mangled(self.acc)
            return self.code.call("fma", suffix, type, f"{type} {x}, {type} {y}, {type} {z}")
        return self.code.emit(f"add {type} {self.code.emit(f'mul {type} {x}, {y}')}, {z}")

    def _load_c(self, cell: tuple[int, Column]) -> str:
        row, column = cell
        pointer = self.matmul.at(self.c, str(row), str(column.offset))
        return self.matmul.load(pointer, self.acc, column.width, column.active)

    def _store_c(self, cell: tuple[int, Column], value: str) -> None:
        row, column = cell
        spec, type = self.matmul.spec, register_type(self.acc, column.width)
        if spec.scaled:
            op = "fmul" if self.acc.is_float else "mul"
            scaled = self.code.emit(f"{op} {type} {value}, {self._factor('%alpha', column.width)}")
            value = self._unless_zero("%alpha", scaled, constant(self.acc, 0, column.width), type)
            if spec.accumulate:
                beta = self._factor("%beta", column.width)
                total = self._multiply_add(column.width, beta, self._load_c(cell), value)
                value = self._unless_zero("%beta", total, value, type)
        self.matmul.store(
            self.matmul.at(self.c, str(row), str(column.offset)), value, column.width, column.active
        )


def _strides(name: str, strides: tuple[Stride, Stride], shape: tuple[int, int]) -> tuple[str, str]:
    """Strides as registers or literals. The unused stride of a dimension of length 1 becomes 1."""
    row, column = (
        "1" if length == 1 else f"%{name}{axis}" if stride is None else str(stride)
        for axis, (stride, length) in enumerate(zip(strides, shape, strict=True))
    )
    return row, column


def _split_last(runs: tuple[Run, ...], is_partial: bool) -> tuple[Run, ...]:
    """The runs, with the last piece split off into a separate run if `is_partial`."""
    last = runs[-1]
    if not is_partial or last.count == 1:
        return runs
    end = last.start + (last.count - 1) * last.size
    return (*runs[:-1], Run(last.start, last.count - 1, last.size), Run(end, 1, last.size))


def _split_first(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs, with the first piece split off into a separate run."""
    first, *others = runs
    rest = [Run(first.start + first.size, first.count - 1, first.size)] if first.count > 1 else []
    return (Run(first.start, 1, first.size), *rest, *others)


def _mangled(dtype: DType) -> str:
    kind = scalar_type(dtype)
    return {"half": "f16", "float": "f32", "double": "f64"}.get(kind, kind)


def _mask(order: list[int]) -> str:
    return f"<{len(order)} x i32> <" + ", ".join(f"i32 {i}" for i in order) + ">"


def _lane_mask(lanes: int, active: int) -> str:
    return f"bitcast (i{lanes} {(1 << active) - 1} to <{lanes} x i1>)"


__all__ = [
    "MatmulSpec",
    "PrefetchRegion",
    "choose_blocking",
    "emit_matmul",
    "reads_in_place",
    "scratch_bytes",
]
