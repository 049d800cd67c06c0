"""Exchange of values between the threads of a warp: shuffles, reductions and votes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tegula.codegen.elements import is_straight, run_region
from tegula.codegen.gpu.control import run_conditionally
from tegula.codegen.gpu.state import GpuState, Registers
from tegula.codegen.scalar import Components
from tegula.codegen.text import constant, register_type
from tegula.dataclass import dataclass
from tegula.ir import Op, Region, Value
from tegula.layout import Layout
from tegula.ops import scalar as S
from tegula.ops.group import PartialReduce
from tegula.ops.roles import WARP
from tegula.types import DType, ElementType, TileType, bool_, scalar_of

ALL = "-1"
"""The mask of all threads of a warp."""


def shuffle(s: GpuState, value: str, dtype: DType, mode: str, operand: str, clamp: str = "") -> str:
    """A scalar from another thread of the warp. `mode`: "bfly" (exclusive or) or "idx"; `operand` an i32. `clamp`: the
    segment operand of the shuffle; by default the lanes of a block are one segment."""
    clamp = clamp or str((WARP - min(s.block_lanes, WARP)) << 8 | WARP - 1)
    t, code = register_type(dtype, 1), s.code
    if t == "float":
        # PTX has only shuffles of 32 bits. The float is not cast to an integer, because LLVM would then negate it by a
        # separate instruction.
        return code.emit(
            f"call float @llvm.nvvm.shfl.sync.{mode}.f32(i32 {ALL}, float {value}, i32 {operand}, i32 {clamp})"
        )
    bits = 1 if dtype.is_bool else dtype.bits
    raw = value if t == f"i{bits}" else code.emit(f"bitcast {t} {value} to i{bits}")
    if bits < 32:
        raw = code.emit(f"zext i{bits} {raw} to i32")
    halves = [raw]
    if bits == 64:
        low = code.emit(f"trunc i64 {raw} to i32")
        high = code.emit(f"trunc i64 {code.emit(f'lshr i64 {raw}, 32')} to i32")
        halves = [low, high]
    shuffled = [
        code.emit(f"call i32 @llvm.nvvm.shfl.sync.{mode}.i32(i32 {ALL}, i32 {h}, i32 {operand}, i32 {clamp})")
        for h in halves
    ]
    received = shuffled[0]
    if bits == 64:
        low, high = (code.emit(f"zext i32 {g} to i64") for g in shuffled)
        received = code.emit(f"or i64 {low}, {code.emit(f'shl i64 {high}, 32')}")
    elif bits < 32:
        received = code.emit(f"trunc i32 {received} to i{bits}")
    return received if t == f"i{bits}" else code.emit(f"bitcast i{bits} {received} to {t}")


def shuffled(s: GpuState, parts: Components, dtype: ElementType, mode: str, operand: str) -> Components:
    """The components of another lane's value."""
    return tuple(shuffle(s, x, scalar_of(dtype), mode, operand) for x in parts)


# Combining -----------------------------------------------------------------------------------------------------------

Combine = Callable[[Components, Components], Components]


REDUX: dict[tuple[type[Op], str], str] = {
    (S.Add, "i"): "add",
    (S.Add, "u"): "add",
    (S.Min, "i"): "min",
    (S.Max, "i"): "max",
    (S.Min, "u"): "umin",
    (S.Max, "u"): "umax",
}
"""The instruction that reduces 32-bit integers over a warp, by op and kind of integer."""


def combination(s: GpuState, region: Region) -> Combine:
    """The combiner of a reduction as a function on registers."""

    def run(a: Components, b: Components) -> Components:
        if is_straight(region):
            return run_region(s, region, [a, b], 1)[0]
        return s.run_branching(region, [a, b])[0]

    return run


def identity(region: Region, dtype: ElementType) -> str | None:
    """The neutral scalar of a combiner that is a single op on its two arguments; None for any other combiner."""
    if len(region.ops) != 2 or sorted(map(id, region.ops[0].operands)) != sorted(map(id, region.args)):
        return None
    scalar, kind = scalar_of(dtype), type(region.ops[0])
    if kind is S.Add:
        return constant(scalar, -0.0 if scalar.is_float else 0)
    if kind is S.Mul:
        return constant(scalar, 1)
    if kind in (S.Or, S.Xor):
        return constant(scalar, 0)
    if kind is S.And:
        return constant(scalar, 1 if scalar.is_bool else -1)
    if kind in (S.Min, S.Max):
        return _neutral_extreme(scalar, kind is S.Min)
    return None


def _neutral_extreme(scalar: DType, smallest: bool) -> str | None:
    """The neutral scalar of min or max: NaN for floats."""
    if scalar.is_float:
        return constant(scalar, float("nan"))
    if scalar.is_bool:
        return constant(scalar, int(smallest))
    low = -(1 << (scalar.bits - 1)) if scalar.is_signed else 0
    return constant(scalar, low + (1 << scalar.bits) - 1 if smallest else low)


def _select(s: GpuState, ok: str, a: Components, b: Components, dtype: ElementType) -> Components:
    t = register_type(scalar_of(dtype), 1)
    return tuple(s.code.emit(f"select i1 {ok}, {t} {x}, {t} {y}") for x, y in zip(a, b, strict=True))


class _Reducer:
    """Combines values, some of which may be absent: absent values are replaced by the neutral element of the
    combination; without a neutral element, each value has a presence flag."""

    def __init__(self, s: GpuState, region: Region, dtype: ElementType) -> None:
        self.s, self.dtype, self.region = s, dtype, region
        self.combine = combination(s, region)
        self.neutral = identity(region, dtype)

    def with_neutral(self, parts: Components, ok: str) -> tuple[Components, str]:
        if ok == "true" or self.neutral is None:
            return parts, ok
        return _select(self.s, ok, parts, (self.neutral,) * len(parts), self.dtype), "true"

    def join(self, a: tuple[Components, str], b: tuple[Components, str]) -> tuple[Components, str]:
        (x, has_x), (y, has_y) = a, b
        if has_x == has_y == "true":
            return self.combine(x, y), "true"
        s, code = self.s, self.s.code
        types = [register_type(scalar_of(self.dtype), 1)] * len(x)
        present_value = _select(s, has_x, x, y, self.dtype)
        has_both = code.emit(f"and i1 {has_x}, {has_y}")
        combined = run_conditionally(
            s, has_both, types, lambda: list(self.combine(x, y)), list(present_value)
        )
        return tuple(combined), code.emit(f"or i1 {has_x}, {has_y}")

    def across(self, a: tuple[Components, str], distance: int) -> tuple[Components, str]:
        """The value combined with the value of the thread at xor distance `distance`, a power of two."""
        x, is_present = a
        other_value = shuffled(self.s, x, self.dtype, "bfly", str(distance))
        other_is_present = (
            is_present if is_present == "true" else shuffle(self.s, is_present, bool_, "bfly", str(distance))
        )
        return self.join(a, (other_value, other_is_present))

    @property
    def instruction(self) -> str | None:
        """The name of the instruction that combines the values of all lanes of a warp; None if there is none."""
        dtype = self.dtype
        if not isinstance(dtype, DType) or dtype.bits != 32 or self.neutral is None:
            return None
        return REDUX.get((type(self.region.ops[0]), dtype.kind))

    def whole_warp(self, parts: Components) -> Components:
        """The values of all lanes of a warp, combined by one instruction."""
        call = f"call i32 @llvm.nvvm.redux.sync.{self.instruction}"
        return tuple(self.s.code.emit(f"{call}(i32 {x}, i32 {ALL})") for x in parts)


def _takes_one_instruction(reducer: _Reducer, steps: Sequence[int]) -> bool:
    """Whether a reduction over the lanes at xor distances `steps` takes one instruction: of integers, over a warp."""
    is_warp = len(steps) == (WARP - 1).bit_length() and reducer.s.block_lanes == WARP
    return is_warp and reducer.instruction is not None


@dataclass(frozen=True, slots=True)
class Reduction:
    """A tile to reduce along `axis` (None: all elements) with the combiner `region`. `checked`: maps a register index
    to an i1, whether the register holds an element."""

    tile: Value
    axis: int | None
    region: Region
    checked: Callable[[int], str]


def reduced(s: GpuState, reductions: Sequence[Reduction]) -> list[Registers]:
    """The registers of tiles reduced within threads and warps. The shuffle steps of all reductions are interleaved to
    overlap their latencies."""
    sums: list[list[tuple[Components, str]]] = []
    chains: list[tuple[_Reducer, list[int]]] = []
    for reduction in reductions:
        t, layout, registers = reduction.tile.type, s.layouts[reduction.tile], s.held[reduction.tile]
        assert isinstance(t, TileType)
        dims = set(range(len(t.shape)) if reduction.axis is None else (reduction.axis,))
        reducer = _Reducer(s, reduction.region, t.dtype)
        groups: dict[tuple[int, ...], list[int]] = {}
        for r in range(layout.register_count):
            index = tuple(0 if d in dims else i for d, i in enumerate(layout.register_offsets(r)))
            groups.setdefault(index, []).append(r)
        values = [
            [reducer.with_neutral(registers[r], reduction.checked(r)) for r in group]
            for group in groups.values()
        ]
        sums.append([_combine_as_tree(reducer, values_of_group) for values_of_group in values])
        chains.append((reducer, lane_steps(layout, dims)))
    takes_one_instruction = [_takes_one_instruction(reducer, steps) for reducer, steps in chains]
    for index, (reducer, _) in enumerate(chains):
        if takes_one_instruction[index]:
            sums[index] = [(reducer.whole_warp(parts), has) for parts, has in sums[index]]
    for k in range(max(len(steps) for _, steps in chains)):
        for index, (reducer, steps) in enumerate(chains):
            if k < len(steps) and not takes_one_instruction[index]:
                sums[index] = [reducer.across(parts, steps[k]) for parts in sums[index]]
    return [[parts for parts, _ in values_of_group] for values_of_group in sums]


def partial_reduce(s: GpuState, op: PartialReduce) -> None:
    """Lower `group.partial_reduce`: each warp combines its own elements in registers and shuffles."""

    def checked(tile: Value) -> Callable[[int], str]:
        layout, t = s.layouts[tile], tile.type
        assert isinstance(t, TileType)
        return lambda r: s.holds(layout, r, t.partial)

    entries = zip(op.operands, op.axes, op.regions, strict=True)
    reduced_values = reduced(s, [Reduction(v, axis, region, checked(v)) for v, axis, region in entries])
    s.held.update(zip(op.results, reduced_values, strict=True))


def _combine_as_tree(reducer: _Reducer, values: list[tuple[Components, str]]) -> tuple[Components, str]:
    """The combination of all values as a balanced tree, which shortens the dependence chain."""
    while len(values) > 1:
        pairs = [reducer.join(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]


def lane_steps(layout: Layout, dims: set[int]) -> list[int]:
    """The xor distances between the lanes of a warp whose elements differ only along `dims`."""
    steps: list[int] = []
    period = 1
    for mode in layout.warp_modes[0]:
        k = 1
        while mode.dim in dims and k < mode.size:
            steps.append(period * k)
            k *= 2
        period *= mode.size
    return steps


def ballot(s: GpuState, flag: str) -> str:
    """The mask of the threads of the warp whose flag is set."""
    return s.code.emit(f"call i32 @llvm.nvvm.vote.ballot.sync(i32 {ALL}, i1 {flag})")
