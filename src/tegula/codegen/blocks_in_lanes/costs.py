"""The cost model of vectorisation over blocks: counts of vector instructions per block, cache misses, and transposes of
loads and stores."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod
from typing import TYPE_CHECKING

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


def is_faster(kernel: Kernel, differences: Differences, lanes: int, vector_bytes: int) -> bool:
    """Whether vectorisation over blocks is estimated to be faster."""
    largest = max(
        (_bytes(v.type) * lanes for op in kernel.walk() for v in op.results if differences.differs(v)),
        default=0,
    )
    if largest > L2_BYTES:
        return False
    serial_cost = _total_cost(kernel.body, lambda op: _serial_cost(op, vector_bytes))
    uniform_cost = _total_cost(
        kernel.body, lambda op: 0.0 if _differs(op, differences) else _serial_cost(op, vector_bytes)
    )
    if uniform_cost > MAX_UNIFORM_FRACTION * serial_cost:
        return False
    vector_cost = _total_cost(kernel.body, lambda op: _vector_cost(op, differences, lanes, vector_bytes))
    return vector_cost < MAX_TIME_RATIO * serial_cost


def access_fraction(kernel: Kernel, differences: Differences, lanes: int, vector_bytes: int) -> float:
    """The estimated fraction of the time of vectorised blocks that loads and stores of arrays take."""

    def cost(op: Op) -> float:
        return _vector_cost(op, differences, lanes, vector_bytes)

    accesses = _total_cost(kernel.body, lambda op: cost(op) if isinstance(op, (TileLoad, TileStore)) else 0.0)
    return accesses / max(1.0, _total_cost(kernel.body, cost))


def _differs(op: Op, differences: Differences) -> bool:
    return any(map(differences.differs, (*op.results, *op.operands)))


def _bytes(t: Type) -> int:
    return t.size * components(t.dtype) * scalar_of(t.dtype).bits // 8 if isinstance(t, TileType) else 0


def _total_cost(region: Region, cost: Callable[[Op], float]) -> float:
    total = 0.0
    for op in region.ops:
        total += cost(op)
        if not isinstance(op, (TileMap, TileReduce)):
            positions = op.positions if isinstance(op, For) else None
            trips = (
                1
                if not isinstance(op, LoopLike)
                else DEFAULT_TRIP_COUNT
                if positions is None
                else len(positions)
            )
            total += trips * sum(_total_cost(nested, cost) for nested in op.regions)
    return total


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


def _vector_cost(op: Op, differences: Differences, lanes: int, vector_bytes: int) -> float:
    shape = _shape(op)
    if not _differs(op, differences):
        return _serial_cost(op, vector_bytes) / lanes
    if isinstance(op, (TileLoad, TileStore)):
        return _serial_cost(op, vector_bytes) + TRANSPOSE_COST * prod(shape)
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
