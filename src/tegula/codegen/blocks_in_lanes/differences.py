"""The analysis of block-varying values, and the legality check of vectorisation over blocks."""

from __future__ import annotations

from typing import NoReturn

from tegula.dataclass import dataclass, field
from tegula.ir import AtomicUpdate, CallLike, Carrier, Kernel, Op, Region, Value
from tegula.ops.array import ArrayLoad, ArrayShape, ArrayStore, ArrayTranspose, ArrayView
from tegula.ops.base import Elementwise, element
from tegula.ops.buffer import BufGet, BufNew, BufRead, BufReshape, BufSet, BufView, BufWrite, buffer_type
from tegula.ops.concat import TileConcat
from tegula.ops.control import For, If, While, Yield
from tegula.ops.convert import Bitcast, Cast
from tegula.ops.lane import BlockCount, BlockIndex, LaneUniform, Tid
from tegula.ops.linear import TileMatmul
from tegula.ops.scalar import Const, Div, FloorDiv, Mod, Select
from tegula.ops.table import TableGet
from tegula.ops.tile import (
    TileArange,
    TileBroadcast,
    TileEmpty,
    TileExtract,
    TileFull,
    TileGather,
    TileLoad,
    TileMap,
    TilePermute,
    TileReduce,
    TileReshape,
    TileSlice,
    TileStore,
)
from tegula.ops.vector import VecExtract, VecInsert, VecMake, VecPart, VecSplat
from tegula.passes.overlap import array_root
from tegula.passes.uniformity import Uniformity
from tegula.types import ArrayType, BufType, TileType, scalar_of

LANE_OPS = (
    Elementwise,
    Cast,
    Bitcast,
    Select,
    Const,
    VecMake,
    VecSplat,
    VecExtract,
    VecInsert,
    VecPart,
    TableGet,
)
"""The ops on the elements of one lane."""

ADDRESS_OPS = (
    Elementwise,
    Cast,
    Select,
    Const,
    ArrayShape,
    ArrayView,
    ArrayTranspose,
    Tid,
    BlockIndex,
    BlockCount,
    LaneUniform,
)
"""The ops of address computations, which are cheap enough to recompute at each access."""

MEMORY = (ArrayLoad, ArrayStore, TileLoad, TileStore)
VECTORISABLE = (
    *LANE_OPS,
    *ADDRESS_OPS,
    *MEMORY,
    Yield,
    For,
    While,
    If,
    TileFull,
    TileEmpty,
    TileArange,
    TileMap,
    TileBroadcast,
    TileReshape,
    TilePermute,
    TileSlice,
    TileExtract,
    TileGather,
    TileConcat,
    TileReduce,
    TileMatmul,
    BufNew,
    BufRead,
    BufWrite,
    BufView,
    BufReshape,
    BufGet,
    BufSet,
)


class NotVectorisable(Exception):
    """Raised for a kernel whose blocks cannot be vectorised; the message is the reason."""


def refuse(reason: str) -> NoReturn:
    """Raise NotVectorisable with the reason."""
    raise NotVectorisable(reason)


@dataclass(slots=True)
class Differences:
    """The block-varying values. `varying_indices`: block-varying values that depend only on the block index, and are
    recomputed at their uses; `changed`: the arrays that the kernel may write."""

    kernel: Kernel
    values: set[Value] = field(default_factory=set[Value])
    varying_indices: set[Value] = field(default_factory=set[Value])
    changed: set[Value] = field(default_factory=set[Value])

    def __post_init__(self) -> None:
        for op in self.kernel.walk():
            for effect in op.effects():
                if (
                    effect.kind != "read"
                    and effect.value is not None
                    and isinstance(effect.value.type, ArrayType)
                ):
                    self.changed.add(array_root(effect.value))
        access = zip(self.kernel.params, self.kernel.access, strict=True)
        self.changed |= {v for v, known in access if known is not None and known.aliases}
        while self._visit(self.kernel.body):
            pass

    def differs(self, value: Value) -> bool:
        """Whether a value is block-varying."""
        return value in self.values

    def divergent(self, op: Carrier) -> bool:
        """Whether a loop or branch may diverge between blocks."""
        return any(map(self.differs, op.control_operands))

    def _visit(self, region: Region) -> bool:
        changed = False
        for op in region.ops:
            for nested in op.regions:
                changed |= not isinstance(op, (TileMap, TileReduce)) and self._visit(nested)
            if isinstance(op, Carrier):
                changed |= self._visit_carrier(op)
            elif any(v not in self.values for v in op.results):
                changed |= self._visit_op(op)
        return changed

    def _visit_carrier(self, op: Carrier) -> bool:
        is_divergent = self.divergent(op)
        varying = [
            v
            for carried in op.carried
            if is_divergent or any(map(self.differs, carried.sources))
            for v in carried.defined_values
        ]
        return self._mark(varying)

    def _visit_op(self, op: Op) -> bool:
        if isinstance(op, Tid):
            launch = self.kernel.launch
            last = launch.ndim - 1 if launch.last_is_block else launch.ndim
            return self._mark([v for k, v in enumerate(op.results) if k < last], is_index=True)
        if isinstance(op, BlockIndex):
            return self._mark(op.results, is_index=True)
        if isinstance(op, (BufNew, BufView, BufReshape, BufRead, BufGet)):
            return self._mark(op.results)
        reads_changed_array = any(
            isinstance(v.type, ArrayType) and array_root(v) in self.changed for v in op.operands
        )
        varying = [v for v in op.operands if self.differs(v)]
        if not varying and not (reads_changed_array and isinstance(op, MEMORY)):
            return False
        return self._mark(
            op.results,
            is_index=isinstance(op, ADDRESS_OPS) and all(v in self.varying_indices for v in varying),
        )

    def _mark(self, values: list[Value], is_index: bool = False) -> bool:
        new_values = [v for v in values if v not in self.values]
        self.values.update(new_values)
        if is_index:
            self.varying_indices.update(new_values)
        return bool(new_values)


def check_ops(kernel: Kernel, known: Uniformity) -> None:
    """Raise NotVectorisable for a kernel with an op that cannot be vectorised over blocks, independent of block-varying
    values."""
    if kernel.launch.partial:
        refuse("the last block may lack threads")
    pending = [kernel.body]
    while pending:
        for op in pending.pop().ops:
            _check_op(op, known)
            if isinstance(op, Carrier):
                pending += op.regions


def _check_op(op: Op, known: Uniformity) -> None:
    if (
        any(map(known.varying, op.operands))
        or any(map(known.varying, op.results))
        and not isinstance(op, Tid)
    ):
        refuse("values differ between the threads of a block")
    if isinstance(op, (CallLike, AtomicUpdate)) or not isinstance(op, VECTORISABLE):
        refuse(f"{op.NAME} runs for one block at a time")
    for t in (v.type for v in (*op.results, *op.operands)):
        if isinstance(t, (TileType, BufType)) and len(t.shape) > MAX_DIMENSIONS:
            refuse(f"a tile of {len(t.shape)} dimensions cannot have a block dimension")


def check_differences(region: Region, differences: Differences, masked: bool = False) -> None:
    """Raise NotVectorisable for a region whose accesses or loops cannot be vectorised because blocks diverge. `masked`:
    whether only some blocks may reach the region."""
    for op in region.ops:
        _check_difference(op, differences, masked)


def _check_difference(op: Op, differences: Differences, masked: bool) -> None:
    if masked:
        _check_masked(op, differences)
    if isinstance(op, For) and differences.divergent(op):
        refuse("the number of iterations of a loop differs between blocks")
    if isinstance(op, Carrier):
        for nested in op.regions:
            check_differences(nested, differences, masked or differences.divergent(op))


MAX_DIMENSIONS = 3


def _check_masked(op: Op, differences: Differences) -> None:
    """Refuse ops that are not allowed in divergent code."""
    if isinstance(op, MEMORY):
        refuse("arrays are accessed in code that only some blocks execute")
    if isinstance(op, BufSet) and len(op.indices) != len(buffer_type(op.buffer.type).shape):
        refuse("a component of an element is changed in code that only some blocks execute")
    if isinstance(op, (TileSlice, TileExtract, BufView, BufGet, BufSet)):
        starts = op.starts if isinstance(op, (TileSlice, BufView)) else op.indices
        if any(map(differences.differs, starts)):
            refuse("a tile is indexed in code that only some blocks execute")
    for inner in op.walk() if not isinstance(op, Carrier) else ():
        if isinstance(inner, (Div, FloorDiv, Mod)) and scalar_of(element(inner.a.type)).is_int:
            _check_division(op, inner, differences)


def _check_division(op: Op, division: Div | FloorDiv | Mod, differences: Differences) -> None:
    """Refuse an integer division by a block-varying divisor in divergent code: the divisor may be 0 in a masked
    block."""
    divisor = division.b
    if isinstance(op, TileMap) and divisor in op.elements:
        divisor = op.inputs[op.elements.index(divisor)]
    if differences.differs(divisor) or (
        division is not op and not isinstance(divisor.owner, Const) and divisor not in op.operands
    ):
        refuse("integers are divided in code that only some blocks execute")
