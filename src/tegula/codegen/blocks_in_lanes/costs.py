"""The cost model of vectorisation over blocks: counts of vector instructions per block, cache misses, and transposes of
loads and stores."""

from __future__ import annotations

from math import ceil, prod
from typing import TYPE_CHECKING

from tegula.dataclass import dataclass
from tegula.ir import Kernel, LoopLike, Op, Region
from tegula.ops.array import ArrayLoad, ArrayStore
from tegula.ops.control import For
from tegula.ops.linear import TileMatmul
from tegula.ops.scalar import Select
from tegula.ops.tile import (
    TileExtract,
    TileGather,
    TileLoad,
    TileMap,
    TileReduce,
    TileSlice,
    TileStore,
    tile_type,
)
from tegula.types import TileType, Type, components, scalar_of

if TYPE_CHECKING:
    from tegula.codegen.blocks_in_lanes.differences import Differences

DEFAULT_TRIP_COUNT = 8
"""The assumed trip count of a loop with an unknown trip count."""
OP_OVERHEAD = 6
"""The cost of an op in addition to its vector instructions."""
TRANSPOSE_COST = 0.6
"""The cost per element of the transpose between an array and the lanes."""
SELECT_FRACTION = 0.6
"""The fraction of a select's elements that are computed if a branch replaces the select."""
L2_BYTES = 900_000
"""The maximum size of a tile, in bytes, that fits the L2 cache of a core next to other tiles. The estimates ignore the
latency of caches, because serial blocks do not keep such tiles in registers either."""
MAX_UNIFORM_FRACTION = 0.6
"""The maximum fraction of the work in uniform ops for which blocks are vectorised."""
MAX_TIME_RATIO = 0.8
"""Blocks are vectorised if the estimated time is at most this fraction of the scalar time."""


@dataclass(slots=True)
class Costs:
    """The estimated costs of a block: `serial`, if blocks run one by one, and of that the ops that are `uniform`;
    `vector`, if blocks are vectorised, and of that the `accesses`, loads and stores of arrays."""

    serial: float = 0.0
    uniform: float = 0.0
    vector: float = 0.0
    accesses: float = 0.0

    def add(self, other: Costs, times: int) -> None:
        """Add the costs of a region that runs several times."""
        self.serial += times * other.serial
        self.uniform += times * other.uniform
        self.vector += times * other.vector
        self.accesses += times * other.accesses

    @property
    def is_faster(self) -> bool:
        """Whether vectorisation over blocks is estimated to be faster."""
        if self.uniform > MAX_UNIFORM_FRACTION * self.serial:
            return False
        return self.vector < MAX_TIME_RATIO * self.serial

    @property
    def access_fraction(self) -> float:
        """The estimated fraction of the time of vectorised blocks that loads and stores of arrays take."""
        return self.accesses / max(1.0, self.vector)


def fits_cache(kernel: Kernel, differences: Differences, lanes: int) -> bool:
    """Whether each tile of all blocks fits the cache."""
    sizes = (_bytes(v.type) for op in kernel.walk() for v in op.results if differences.differs(v))
    return max(sizes, default=0) * lanes <= L2_BYTES


def costs_of(region: Region, differences: Differences, lanes: int, vector_bytes: int) -> Costs:
    """The costs of a region of a kernel."""
    costs = Costs()
    for op in region.ops:
        serial, differs = _serial_cost(op, vector_bytes), _differs(op, differences)
        vector = _vector_cost(op, serial, differences, lanes, vector_bytes) if differs else serial / lanes
        costs.serial += serial
        costs.vector += vector
        if not differs:
            costs.uniform += serial
        if isinstance(op, (TileLoad, TileStore)):
            costs.accesses += vector
        if op.regions and not isinstance(op, (TileMap, TileReduce)):
            nested = Costs()
            for inner in op.regions:
                nested.add(costs_of(inner, differences, lanes, vector_bytes), 1)
            costs.add(nested, _trip_count(op))
    return costs


def _trip_count(op: Op) -> int:
    if not isinstance(op, LoopLike):
        return 1
    positions = op.positions if isinstance(op, For) else None
    return DEFAULT_TRIP_COUNT if positions is None else len(positions)


def _differs(op: Op, differences: Differences) -> bool:
    return any(map(differences.differs, (*op.results, *op.operands)))


def _bytes(t: Type) -> int:
    return t.size * components(t.dtype) * scalar_of(t.dtype).bits // 8 if isinstance(t, TileType) else 0


def _shape(op: Op) -> tuple[int, ...]:
    """The shape of the elements that an op visits; empty for ops on scalars and for views."""
    if isinstance(op, (TileReduce, TileStore)):
        return tile_type(op.tile.type, partial=True).shape
    shapes = [v.type.shape for v in op.results if isinstance(v.type, TileType)]
    return () if not shapes or isinstance(op, TileSlice) else shapes[-1]


def _instructions_per_vector(op: Op) -> float:
    """The number of instructions per vector of elements."""
    if isinstance(op, TileMap):
        return max(1, len(op.function.ops) - 1)
    return tile_type(op.a.type).shape[1] if isinstance(op, TileMatmul) else 1


def _width(op: Op, vector_bytes: int) -> int:
    values = [*op.results, *(v for v in op.operands if isinstance(v.type, TileType))]
    sizes = [scalar_of(v.type.dtype).bits // 8 for v in values if isinstance(v.type, TileType)]
    return vector_bytes // max([4, *sizes])


def _serial_cost(op: Op, vector_bytes: int) -> float:
    shape, width = _shape(op), _width(op, vector_bytes)
    if not shape:
        return 1
    if isinstance(op, TileGather):
        return OP_OVERHEAD + 3 * prod(shape)
    rows, n = prod(shape[:-1]), shape[-1]
    vectors = rows * (n // width + (n % width).bit_count())
    if isinstance(op, TileReduce) and (op.axis is None or op.axis == len(shape) - 1):
        sums = 1 if op.axis is None else rows
        return OP_OVERHEAD + vectors + sums * 2 * min(width, n).bit_length()
    return OP_OVERHEAD + vectors * _instructions_per_vector(op)


def _vector_cost(
    op: Op, serial_cost: float, differences: Differences, lanes: int, vector_bytes: int
) -> float:
    """The cost of an op that differs between blocks."""
    shape = _shape(op)
    if isinstance(op, (TileLoad, TileStore)):
        return serial_cost + TRANSPOSE_COST * prod(shape)
    if isinstance(op, TileSlice) and any(map(differences.differs, op.starts)):
        return OP_OVERHEAD + prod(tile_type(op.result.type).shape)
    if isinstance(op, TileExtract) and any(map(differences.differs, op.indices)):
        return OP_OVERHEAD
    if isinstance(op, TileGather) and differences.differs(op.index):
        return OP_OVERHEAD + 3 * prod(shape)
    registers = ceil(lanes / _width(op, vector_bytes))
    if not shape and not isinstance(op, (ArrayLoad, ArrayStore)):
        # The numbers of all blocks stay in registers.
        return registers / lanes
    select_factor = (
        SELECT_FRACTION
        if isinstance(op, TileMap) and any(isinstance(x, Select) for x in op.function.ops)
        else 1.0
    )
    return (OP_OVERHEAD + prod(shape) * registers * _instructions_per_vector(op) * select_factor) / lanes
