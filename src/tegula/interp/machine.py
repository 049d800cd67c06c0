"""Masked lockstep execution of regions: values, control flow, and the joining of lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from tegula.dataclass import dataclass
from tegula.errors import DivergentCooperativeOp, InternalError, KernelAssertion
from tegula.interp.report import RunReport
from tegula.ir import Op, Region, Value
from tegula.ops.buffer import BufNew
from tegula.ops.control import For, If, While
from tegula.ops.group_operands import group_uniform_operands, operand_description, view_index_name
from tegula.ops.lane import Lanes
from tegula.ops.scalar import Div, FloorDiv, Mod
from tegula.ops.stack import StackNew, stack_type
from tegula.types import (
    ArrayType,
    BufType,
    DType,
    ElementType,
    MatType,
    TileType,
    VecType,
    element_shape,
    scalar_of,
    to_numpy,
)

# A run-time value. Per-lane values: an array [lanes, *element_shape]. Tiles: a read-only array [*shape,
# *element_shape]. Arrays and buffers: an array that is a view of their memory, or a list of one such view per lane
# where the lanes hold different ones. Stacks: `Stack`.
RunValue: TypeAlias = Any
Mask: TypeAlias = np.ndarray

AnyOp = TypeVar("AnyOp", bound=Op)
Handler: TypeAlias = Callable[["Machine", AnyOp, Mask], "RunValue | tuple[RunValue, ...] | None"]
HANDLERS: dict[type[Op], Callable[..., Any]] = {}


def handles(*kinds: type[AnyOp]) -> Callable[[Handler[AnyOp]], Handler[AnyOp]]:
    """Register a function as the semantics of ops of these classes. The function returns the result, a tuple of
    results, or None."""

    def register(handler: Handler[AnyOp]) -> Handler[AnyOp]:
        for kind in kinds:
            HANDLERS[kind] = handler
        return handler

    return register


class Stack:
    """A stack at run time: its elements and their number."""

    def __init__(self, elements: np.ndarray) -> None:
        self.elements = elements
        self.count = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch: the dimensions, the number of blocks, and the number of CTAs."""

    dims: tuple[int, ...]
    blocks: int
    hardware: int

    def thread_indices(self, block: int, lanes: int) -> tuple[list[np.ndarray], Mask]:
        """The components of the lanes' thread indices, and the mask of present lanes."""
        linear = np.arange(lanes, dtype=np.int64) + block * lanes
        present = linear < math.prod(self.dims)
        inside = np.where(present, linear, 0)
        return [c.astype(np.int32) for c in np.unravel_index(inside, self.dims)], present


class Machine:
    """A machine of `lanes` lanes running in lockstep; `present`: the lanes that exist, a prefix; `tid` holds the
    components of their thread indices. For the region of a map, the lanes are the elements, and there are no thread
    indices and no grid."""

    grid: Grid

    def __init__(
        self, lanes: int, present: Mask, report: RunReport, block: int = 0, tid: Sequence[np.ndarray] = ()
    ) -> None:
        self.lanes = lanes
        self.present = present
        self.report = report
        self.block = block
        self.tid = tid
        self.blocks = 1
        """The number of blocks of the grid."""
        self.env: dict[Value, RunValue] = {}

    @property
    def count(self) -> int:
        """The number of lanes that are present."""
        return int(self.present.sum())

    def group(self, value: Value) -> RunValue:
        """The value of a cooperative op's operand: the tile or object itself, or lane 0's value of per-lane values."""
        x = self.env[value]
        if isinstance(value.type, DType | VecType | MatType) or isinstance(x, list):
            return x[0]
        return x

    def broadcast(self, x: np.ndarray) -> np.ndarray:
        """One element, in every lane."""
        return np.broadcast_to(x, (self.lanes, *np.shape(x))).copy()

    def elements(self, count: int, present: Mask) -> Machine:
        """A machine whose lanes are the elements of a tile, for a region that runs once for each."""
        return Machine(count, present, self.report, self.block)

    # Memory -------------------------------------------------------------------------------------------------

    def zeros(self, t: ElementType, *shape: int) -> np.ndarray:
        """Elements of a type, all 0."""
        return np.zeros((*shape, *element_shape(t)), to_numpy(scalar_of(t)))

    def new_buffer(self, op: BufNew) -> RunValue:
        """The memory of `buf.new`, holding its tile."""
        return np.array(self.env[op.tile], order="C")

    def new_stack(self, op: StackNew) -> RunValue:
        """An empty stack."""
        t = stack_type(op.type)
        return Stack(self.zeros(t.dtype, t.capacity))

    def accessed(self, op: Op, array: np.ndarray, lanes: np.ndarray, at: tuple[np.ndarray, ...]) -> None:
        """Record an access of the elements array[at], lane by lane."""

    # Running ------------------------------------------------------------------------------------------------

    def region(self, region: Region, args: Sequence[RunValue], mask: Mask) -> list[RunValue]:
        """Run a region with the lanes of the mask, and return the yielded values."""
        for arg, value in zip(region.args, args, strict=True):
            self.env[arg] = value
        for op in region.ops[:-1]:
            self.op(op, mask)
        return [self.env[v] for v in region.yielded]

    def op(self, op: Op, mask: Mask) -> None:
        """Run one op for the lanes of a mask."""
        cls = type(op)
        if not issubclass(cls, Op):
            raise InternalError(f"{op.loc}: the interpreter does not know {op.NAME}")
        if cls.COOPERATIVE and not np.array_equal(mask, self.present):
            raise DivergentCooperativeOp(op.loc, op=op.NAME)
        if self.report.debug and isinstance(op, Div | FloorDiv | Mod):
            self.check_division(op, mask)
        if self.report.debug and cls.COOPERATIVE:
            self.check_group_operands(op)
        out = self.execute(op, cls, mask)
        if len(op.results) == 1:
            self.env[op.results[0]] = out
        elif op.results:
            self.env.update(zip(op.results, out, strict=True))  # type: ignore[arg-type]

    def execute(self, op: Op, cls: type[Op], mask: Mask) -> RunValue:
        """Execute an op, and return its result, or a tuple if it has several results."""
        handler = HANDLERS.get(type(op))
        return handler(self, op, mask) if handler is not None else self.by_reference(op, cls)

    def check_division(self, op: Div | FloorDiv | Mod, mask: Mask) -> None:
        """Report a lane that divides an integer by zero."""
        divisor = self.env[op.b]
        if divisor.dtype.kind in "iu":
            for lane in np.flatnonzero(mask & (divisor == 0).reshape(self.lanes, -1).any(1))[:1]:
                self.report.division(op, self.block, int(lane))

    def check_group_operands(self, op: Op) -> None:
        """Report scalar operands, and indices of views, that differ between lanes although lane 0's value is used."""
        for k, value in group_uniform_operands(op):
            if len(self.differing_lanes(self.env[value])):
                self.report.differing(op, operand_description(op, k, value))
        for view in op.operands:
            while isinstance(self.env.get(view), list) and isinstance(view.owner, Op):
                view, *index = view.owner.operands
                for i in index:
                    if len(self.differing_lanes(self.env[i])):
                        self.report.differing(op, view_index_name(i))

    def differing_lanes(self, x: np.ndarray) -> np.ndarray:
        """The lanes whose value differs from lane 0's."""
        same = (x == x[0]) | ((x != x) & (x[0] != x[0]))
        return np.flatnonzero(self.present & ~same.reshape(self.lanes, -1).all(1))

    def by_reference(self, op: Op, cls: type[Op]) -> RunValue:
        """The result of an op by its `ref`. Cooperative ops also pass the rank of their first tile, because a tile's
        array ends with the dimensions of its elements."""
        ref = getattr(cls, "ref", None)
        if ref is None:
            raise InternalError(f"{op.loc}: the interpreter does not know {op.NAME}")
        if not cls.COOPERATIVE:
            return ref(op.attrs, *(self.env[v] for v in op.operands))
        ranks = [len(v.type.shape) for v in op.operands if isinstance(v.type, TileType)]
        return ref(op.attrs, *(self.group(v) for v in op.operands), ranks[0] if ranks else 0)

    # Joins of paths -----------------------------------------------------------------------------------------

    def merge(self, op: Op, value: Value, mask: Mask, new: RunValue, old: RunValue) -> RunValue:
        """The value after a join: `new` in the lanes of the mask, `old` in other lanes. Tiles, buffers and stacks are
        uniform."""
        if new is old:
            return new
        t = value.type
        if isinstance(t, DType | VecType | MatType):
            return np.where(mask.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)
        if isinstance(t, ArrayType | BufType):
            if not isinstance(new, list) and not isinstance(old, list) and _same_memory(new, old):
                return new
            if isinstance(t, ArrayType):
                return [n if m else o for m, n, o in zip(mask, self.each(new), self.each(old), strict=True)]
        raise DivergentCooperativeOp(op.loc, op=f"a selection between two values of type {t} by '{op.NAME}'")

    def each(self, reference: RunValue) -> list[np.ndarray]:
        """The array or buffer of each lane."""
        return reference if isinstance(reference, list) else [reference] * self.lanes

    def merge_all(
        self, op: Op, mask: Mask, new: Sequence[RunValue], old: Sequence[RunValue]
    ) -> list[RunValue]:
        """The results of an op: new values in the lanes of a mask, old ones elsewhere."""
        return [self.merge(op, v, mask, n, o) for v, n, o in zip(op.results, new, old, strict=True)]


def _same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    same_start = a.__array_interface__["data"] == b.__array_interface__["data"]
    return same_start and a.shape == b.shape and a.strides == b.strides


def _results(op: Op, values: Sequence[RunValue]) -> Any:
    return values[0] if len(op.results) == 1 else tuple(values)


@handles(If)
def run_if(m: Machine, op: If, mask: Mask) -> Any:
    then, otherwise = op.regions
    condition = m.env[op.condition]
    active, skipped = mask & condition, mask & ~condition
    if not skipped.any():
        return _results(op, m.region(then, (), active))
    if not active.any():
        return _results(op, m.region(otherwise, (), skipped))
    new = m.region(then, (), active)
    return _results(op, m.merge_all(op, active, new, m.region(otherwise, (), skipped)))


def _trip_count(start: int, stop: int, step: int) -> int:
    span = stop - start if step > 0 else start - stop
    return max(0, -(-span // abs(step)))


@handles(For)
def run_for(m: Machine, op: For, mask: Mask) -> Any:
    start, stop, step = (m.env[v] for v in op.bounds)
    carried = [m.env[v] for v in op.initial]
    zero_steps = np.flatnonzero(mask & (step == 0))
    if len(zero_steps):
        raise KernelAssertion(f"{op.loc}: the step of a range is 0; block {m.block}, lane {zero_steps[0]}")
    trips = np.zeros(m.lanes, dtype=object)
    for lane in np.flatnonzero(mask):
        trips[lane] = _trip_count(int(start[lane]), int(stop[lane]), int(step[lane]))
    index, trip = start, 0
    while (active := mask & (trips > trip).astype(np.bool_)).any():
        new = m.region(op.body, [index, *carried], active)
        # Lanes that have left the loop keep their values; values of lanes that never entered the loop are unused.
        carried = new if np.array_equal(active, mask) else m.merge_all(op, active, new, carried)
        index, trip = (index + step).astype(start.dtype), trip + 1
    return _results(op, carried)


@handles(While)
def run_while(m: Machine, op: While, mask: Mask) -> Any:
    condition, body = op.condition, op.body
    carried = [m.env[v] for v in op.initial]
    active = mask
    while active.any():
        active = active & m.region(condition, carried, active)[0]
        if not active.any():
            break
        new = m.region(body, carried, active)
        carried = new if np.array_equal(active, mask) else m.merge_all(op, active, new, carried)
    return _results(op, carried)


@handles(Lanes)
def run_lanes(m: Machine, op: Lanes, mask: Mask) -> Any:
    return _results(op, m.region(op.body, (), mask))
