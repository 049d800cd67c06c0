"""Matrix products of operands in shared memory: tensor cores for 16-bit floats, fused multiply-adds for the rest."""

from __future__ import annotations

from tegula.codegen.convert import convert
from tegula.codegen.gpu import wgmma
from tegula.codegen.gpu.access import vector_load
from tegula.codegen.gpu.state import GpuState
from tegula.codegen.scalar import elementwise
from tegula.codegen.storage import View
from tegula.codegen.text import constant, memory_type, register_type
from tegula.ir import Op, Value
from tegula.layout import Layout, MmaShare, mma_share
from tegula.ops import scalar as S
from tegula.ops.group import SharedProduct
from tegula.passes.assign_layouts import on_tensor_cores
from tegula.types import DType, TileType, bfloat16, float32, scalar_of

UNROLL = 4
"""Steps of K between two turns of the loop."""
UNROLLED = 8
"""Turns of a loop over K that LLVM may unroll."""


def product(s: GpuState, op: Op) -> None:
    """alpha * a @ b + beta * c under the layout of c."""
    t = op.result.type
    assert isinstance(t, TileType)
    out = scalar_of(t.dtype)
    work = float32 if out.is_float and out.bits < 32 else out
    held = [convert(s.code, parts[0], out, work, 1) for parts in s.held[op.operands[2]]]
    plain = _is_one(op.operands[3]) and _is_one(op.operands[4])
    zero = constant(work, 0)
    start = held if plain else [zero] * len(held)
    layout = s.layouts[op.result]
    if op.attrs.get("unit") == "wgmma":
        sums = wgmma.product(s, op, start)
    else:
        assert isinstance(op, SharedProduct)
        a, b = (s.buffers[v] for v in op.operands[:2])
        sums = _mma(s, a, b, layout, start) if on_tensor_cores(op) else _fma(s, a, b, layout, work, start)
    if not plain:
        alpha, beta = (convert(s.code, s.scalar(v), out, work, 1) for v in op.operands[3:])
        sums = [
            _apply(s, S.Add, work, _apply(s, S.Mul, work, alpha, x), _apply(s, S.Mul, work, beta, c))
            for x, c in zip(sums, held, strict=True)
        ]
    s.held[op.result] = [(convert(s.code, x, work, out, 1),) for x in sums]


def _apply(s: GpuState, kind: type[Op], dtype: DType, a: str, b: str) -> str:
    return elementwise(s.code, kind([], []), dtype, [a, b], 1)


def _is_one(value: Value) -> bool:
    return isinstance(value.owner, S.Const) and value.owner.attrs["value"] == 1


# Fused multiply-adds -------------------------------------------------------------------------------------------------


def _fma(s: GpuState, a: View, b: View, layout: Layout, work: DType, start: list[str]) -> list[str]:
    """A loop over K. Each thread reads its rows of a, several steps of K at a time, and its columns of b, as many
    neighbours at a time as its registers hold."""
    depth = a.shape[1]
    step = next(n for n in (UNROLL, 2, 1) if depth % n == 0)
    offsets = [layout.register_offsets(r) for r in range(layout.register_count)]
    rows = sorted({i for i, _ in offsets})
    columns = sorted({j for _, j in offsets})
    base = s.base(layout)
    row_at = [_clamped(s, base[0], i, layout, 0) for i in rows]
    carried = [(register_type(work, 1), x) for x in start]
    with s.code.loop("0", str(depth), str(step), carried, s.rolled(depth // step <= UNROLLED)) as loop:
        left = {i: _along(s, a, [at, loop.index], step, work) for i, at in zip(rows, row_at, strict=True)}
        sums = list(loop.values)
        for k in range(step):
            depth_at = s.memory.add(loop.index, str(k))
            right = _row(s, b, depth_at, base[1], columns, layout, work)
            for r, (i, j) in enumerate(offsets):
                sums[r] = _multiply_add(s, work, left[i][k], right[j], sums[r])
        loop.next = sums
    return loop.results


def _clamped(s: GpuState, base: str, offset: int, layout: Layout, dim: int) -> str:
    """A coordinate; where it lies in the padding, 0."""
    at = s.memory.add(base, str(offset))
    if not layout.padded(dim):
        return at
    inside = s.code.emit(f"icmp ult i64 {at}, {layout.shape[dim]}")
    return s.code.emit(f"select i1 {inside}, i64 {at}, i64 0")


def _along(s: GpuState, view: View, at: list[str], count: int, work: DType) -> list[str]:
    """`count` neighbours along a row, in the type that is computed with."""
    dtype = scalar_of(view.dtype)
    pointer = s.memory.at(view, at)
    wide = view.contiguous and count > 1 and view.strides[0] % count == 0 and count * dtype.bits <= 128
    if wide:
        values = vector_load(s, pointer, dtype, count)
    else:
        values = [
            s.memory.load(s.memory.offset(pointer, str(k * view.strides[1]), dtype), dtype)
            for k in range(count)
        ]
    return [convert(s.code, v, dtype, work, 1) for v in values]


def _row(
    s: GpuState, b: View, depth: str, base: str, columns: list[int], layout: Layout, work: DType
) -> dict[int, str]:
    """One row of b at a thread's columns."""
    dtype = scalar_of(b.dtype)
    width = layout.vector
    while width > 1 and (width * dtype.bits > 128 or b.strides[0] % width or not b.contiguous):
        width //= 2
    if layout.padded(1) and layout.shape[1] % width:
        width = 1
    made: dict[int, str] = {}
    for j in columns[::width] if width > 1 else columns:
        at = [depth, _clamped(s, base, j, layout, 1)]
        made.update(zip(range(j, j + width), _along(s, b, at, width, work), strict=True))
    return made


def _multiply_add(s: GpuState, work: DType, a: str, b: str, c: str) -> str:
    if work.is_float:
        return elementwise(s.code, S.Fma([], []), work, [a, b, c], 1)
    return _apply(s, S.Add, work, _apply(s, S.Mul, work, a, b), c)


def to_tf32(s: GpuState, x: str) -> str:
    """A float32 as the closest tf32, ties away from zero."""
    bits = s.code.emit(f'call i32 asm "cvt.rna.tf32.f32 $0, $1;", "=r,f"(float {x})')
    return s.code.emit(f"bitcast i32 {bits} to float")


# Tensor cores --------------------------------------------------------------------------------------------------------

K_STEP = 16


def _mma(s: GpuState, a: View, b: View, layout: Layout, start: list[str]) -> list[str]:
    """16 x 8 x 16 products, K outermost. Fragments come by ldmatrix where rows are 16-byte aligned and everything is
    whole, else element by element."""
    rows, columns = layout.shape
    share, depth = mma_share((rows, columns), s.threads // 32), a.shape[1]
    warp = s.first(f"lshr i32 {s.lane32}, 5")
    down = s.first(f"udiv i32 {warp}, {share.across}")
    across = s.first(f"urem i32 {warp}, {share.across}")
    origin = (
        s.first(f"zext nneg i32 {s.first(f'mul i32 {down}, {16 * share.high}')} to i64"),
        s.first(f"zext nneg i32 {s.first(f'mul i32 {across}, {8 * share.wide}')} to i64"),
    )
    whole = depth % K_STEP == 0 and not layout.padded(0) and not layout.padded(1)
    fast = whole and share.wide % 2 == 0 and all(_rows_aligned(v) for v in (a, b))
    fragments = _Matrix(s, a, b, origin, share) if fast else _Elements(s, a, b, origin, share, layout)
    sums = list(start)
    dtype = scalar_of(a.dtype)
    if depth <= 8 * K_STEP:
        for k in range(0, depth, K_STEP):
            sums = _step(s, fragments, str(k), share, dtype, sums)
        return sums
    with s.code.loop("0", str(depth), str(K_STEP), [("float", x) for x in sums], s.rolled()) as loop:
        loop.next = _step(s, fragments, loop.index, share, dtype, loop.values)
    return loop.results


def _rows_aligned(view: View) -> bool:
    return view.contiguous and view.strides[0] * scalar_of(view.dtype).bits // 8 % 16 == 0


def _step(
    s: GpuState, fragments: _Matrix | _Elements, k: str, share: MmaShare, dtype: DType, sums: list[str]
) -> list[str]:
    left = [fragments.left(k, i) for i in range(share.high)]
    right = fragments.right(k)
    out = list(sums)
    for i in range(share.high):
        for j in range(share.wide):
            at = 4 * (j + share.wide * i)
            out[at : at + 4] = mma(s, dtype, left[i], right[j], out[at : at + 4])
    return out


def mma(s: GpuState, dtype: DType, a: list[str], b: list[str], c: list[str]) -> list[str]:
    """One 16 x 8 x 16 product of a warp. `a`: four registers of two values, `b`: two."""
    code = s.code
    if dtype is bfloat16:
        name = "mma.m16n8k16.row.col.bf16"
        args = [f"i32 {x}" for x in (*a, *b)]
    else:
        name = "mma.m16n8k16.row.col.f32.f32"
        args = [f"<2 x half> {code.emit(f'bitcast i32 {x} to <2 x half>')}" for x in (*a, *b)]
    args += [f"float {x}" for x in c]
    result = "{ float, float, float, float }"
    made = code.emit(f"call {result} @llvm.nvvm.{name}({', '.join(args)})")
    return [code.emit(f"extractvalue {result} {made}, {k}") for k in range(4)]


class _Matrix:
    """Fragments by ldmatrix: each lane names a row of eight values."""

    def __init__(self, s: GpuState, a: View, b: View, origin: tuple[str, str], share: MmaShare) -> None:
        self.s, self.a, self.b, self.share = s, a, b, share
        low = s.first(f"zext nneg i32 {s.first(f'and i32 {s.lane32}, 15')} to i64")
        half = s.first(f"and i32 {s.first(f'lshr i32 {s.lane32}, 4')}, 1")
        high = s.first(f"zext nneg i32 {s.first(f'mul i32 {half}, 8')} to i64")
        self.rows = (s.first(f"add i64 {origin[0]}, {low}"), high)
        self.columns = (low, s.first(f"add i64 {origin[1]}, {high}"))

    def left(self, k: str, i: int) -> list[str]:
        at = [self.s.memory.add(self.rows[0], str(16 * i)), self.s.memory.add(self.rows[1], k)]
        return self._load(self.a, at, "")

    def right(self, k: str) -> list[list[str]]:
        made: list[list[str]] = []
        for j in range(0, self.share.wide, 2):
            at = [self.s.memory.add(self.columns[0], k), self.s.memory.add(self.columns[1], str(8 * j))]
            four = self._load(self.b, at, ".trans")
            made += [four[:2], four[2:]]
        return made

    def _load(self, view: View, at: list[str], form: str) -> list[str]:
        code = self.s.code
        pointer = code.emit(f"addrspacecast ptr {self.s.memory.at(view, at)} to ptr addrspace(3)")
        t = "{ i32, i32, i32, i32 }"
        name = f"@llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4{form}.b16.p3"
        made = code.emit(f"call {t} {name}(ptr addrspace(3) {pointer})")
        return [code.emit(f"extractvalue {t} {made}, {n}") for n in range(4)]


class _Elements:
    """Fragments element by element; those outside the operands are 0."""

    def __init__(
        self, s: GpuState, a: View, b: View, origin: tuple[str, str], share: MmaShare, layout: Layout
    ) -> None:
        self.s, self.a, self.b, self.origin, self.share = s, a, b, origin, share
        self.shape, self.depth = layout.shape, a.shape[1]
        lane = s.first(f"and i32 {s.lane32}, 31")
        self.group = s.first(f"zext nneg i32 {s.first(f'udiv i32 {lane}, 4')} to i64")
        quad = s.first(f"and i32 {s.lane32}, 3")
        self.pair = s.first(f"zext nneg i32 {s.first(f'mul i32 {quad}, 2')} to i64")

    def left(self, k: str, i: int) -> list[str]:
        add = self.s.memory.add
        row, depth = add(add(self.origin[0], self.group), str(16 * i)), add(self.pair, k)
        limits = (self.shape[0], self.depth)
        places = [(0, 0), (8, 0), (0, 8), (8, 8)]
        return [self._two(self.a, (add(row, str(r)), add(depth, str(d))), (0, 1), limits) for r, d in places]

    def right(self, k: str) -> list[list[str]]:
        add = self.s.memory.add
        depth, limits = add(self.pair, k), (self.depth, self.shape[1])
        made: list[list[str]] = []
        for j in range(self.share.wide):
            column = add(add(self.origin[1], self.group), str(8 * j))
            made.append([self._two(self.b, (add(depth, str(d)), column), (1, 0), limits) for d in (0, 8)])
        return made

    def _two(self, view: View, at: tuple[str, str], step: tuple[int, int], limits: tuple[int, int]) -> str:
        """An element and the next along `step` as one register, 0 where they lie outside `limits`."""
        code, add = self.s.code, self.s.memory.add
        following = (add(at[0], str(step[0])), add(at[1], str(step[1])))
        low, high = (code.emit(f"zext i16 {self._one(view, *x, limits)} to i32") for x in (at, following))
        return code.emit(f"or i32 {low}, {code.emit(f'shl i32 {high}, 16')}")

    def _one(self, view: View, i: str, j: str, limits: tuple[int, int]) -> str:
        """An element as 16 bits."""
        code, dtype = self.s.code, scalar_of(view.dtype)
        ok = code.emit(f"icmp ult i64 {i}, {limits[0]}")
        ok = code.emit(f"and i1 {ok}, {code.emit(f'icmp ult i64 {j}, {limits[1]}')}")
        at = [code.emit(f"select i1 {ok}, i64 {x}, i64 0") for x in (i, j)]
        t = memory_type(dtype)
        value = self.s.memory.load(self.s.memory.at(view, at), dtype)
        bits = value if t == "i16" else code.emit(f"bitcast {t} {value} to i16")
        return code.emit(f"select i1 {ok}, i16 {bits}, i16 0")
