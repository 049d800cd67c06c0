"""Which accesses of arrays bulk copies can do, and in which boxes."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from tegula.dataclass import dataclass
from tegula.ir import Kernel, Value
from tegula.ops.array import ArrayShape, ArrayView, array_type
from tegula.ops.roles import PipeLoad, pipe_type
from tegula.ops.scalar import Const
from tegula.ops.tile import TileAtomic, TileStore
from tegula.passes.divisors import divides
from tegula.passes.overlap import array_root
from tegula.target import CudaTarget
from tegula.types import ArrayType, BufType, PipeType, TileType, components, element_bytes, int32

MOST_RANK, MOST_LENGTH, UNIT_BYTES = 5, 256, 16
"""Of the box of a tensor map: dimensions, elements along one, and bytes that a row is a multiple of."""
SWIZZLED_ROWS = (128, 64, 32)
"""Bytes that the rows of a swizzled box may have."""
SWIZZLE_ROWS = 8
"""After so many rows the pattern of a swizzle repeats."""

Tile = PipeType | BufType | TileType


@dataclass(frozen=True, slots=True)
class Boxes:
    """How a tile is copied: `count` boxes of `shape` side by side along the last dimension, one after the other in
    memory. `row_bytes`: of a row of a box. `bytes`: of all."""

    shape: tuple[int, ...]
    count: int
    row_bytes: int
    bytes: int


def boxes(tile: Tile, swizzled: bool) -> Boxes:
    """A plain tile is one box; the boxes of a swizzled one have rows of at most 128 bytes."""
    size = element_bytes(tile.dtype)
    row = tile.shape[-1] * size
    width = next(n for n in SWIZZLED_ROWS if row % n == 0) if swizzled else row
    return Boxes((*tile.shape[:-1], width // size), row // width, width, prod(tile.shape) * size)


def halved(tile: Tile) -> Boxes | None:
    """The boxes of a swizzled tile, so that either half of them is half of the tile; None where there are none."""
    whole = boxes(tile, True)
    if whole.count % 2 == 0:
        return whole
    rows, width = whole.shape
    if rows % (2 * SWIZZLE_ROWS) or whole.count > 1:
        return None
    return Boxes((rows // 2, width), 2, whole.row_bytes, whole.bytes)


def may_swizzle(tile: Tile) -> bool:
    """Whether the rows of a tile can be cut into those of swizzled boxes."""
    row = tile.shape[-1] * element_bytes(tile.dtype)
    return len(tile.shape) == 2 and (row % SWIZZLED_ROWS[0] == 0 or row in SWIZZLED_ROWS)


def bulk_loadable(kernel: Kernel, target: CudaTarget, op: PipeLoad, swizzled: bool) -> bool:
    """Whether a load of a pipe can be a bulk copy."""
    box, promised = boxes(pipe_type(op.pipe.type), swizzled), bool(op.aligned)
    return _fits(kernel, target, [op.array, *op.offset], box, "read", promised)


def bulk_storable(kernel: Kernel, target: CudaTarget, op: TileAtomic | TileStore, piece: TileType) -> bool:
    """Whether a store of a tile, or an addition to an array, can be bulk copies of swizzled pieces."""
    kind = "atomic" if isinstance(op, TileAtomic) else "write"
    return _fits(kernel, target, [op.array, *op.offset], boxes(piece, True), kind, bool(op.aligned))


def bulk_reachable(
    kernel: Kernel, target: CudaTarget, place: Sequence[Value], tile: Tile, swizzled: bool, kind: str
) -> bool:
    """Whether a bulk copy can read or write (`kind`) a tile at a place: an array and an offset."""
    return _fits(kernel, target, place, boxes(tile, swizzled), kind)


def _fits(
    kernel: Kernel, target: CudaTarget, place: Sequence[Value], box: Boxes, kind: str, promised: bool = False
) -> bool:
    """`promised`: the kernel says that the place is aligned, which is checked when it runs."""
    array, *offsets = place
    parameter = array_root(array)
    access = kernel.access[kernel.params.index(parameter)]
    return (
        target.bulk_copies
        and access is not None
        and access.bulk
        and all(kind == "read" and _only(kernel, kernel.params[k], kind) for k in access.aliases)
        and components(array_type(array.type).dtype) == 1
        and all(v.type is int32 for v in offsets)
        and leading_indices(array) is not None
        and box.row_bytes % UNIT_BYTES == 0
        and all(n <= MOST_LENGTH for n in box.shape)
        and _only(kernel, parameter, kind)
        and (promised or _is_aligned(array, offsets))
    )


def _is_aligned(array: Value, offsets: Sequence[Value]) -> bool:
    """Whether a tile starts at a multiple of `UNIT_BYTES` in a row: the device stops at a copy that does not."""
    assert isinstance(array.type, ArrayType)
    return divides(unit_of(array.type), offsets[-1])


def unit_of(array: ArrayType) -> int:
    """The number of elements of an array that make a multiple of `UNIT_BYTES`."""
    return UNIT_BYTES // gcd(UNIT_BYTES, element_bytes(array.dtype))


def leading_indices(array: Value) -> list[Value] | None:
    """The indices by which an array is a view of a parameter: all leading ones, which a tensor map takes as
    coordinates. None for other views."""
    found: list[Value] = []
    while isinstance(array.owner, ArrayView):
        view = array.owner
        source, rest = view.array, view.bounds
        spec = list(view.spec)
        indexed = spec.count("index")
        if any(e == "index" for e in spec[indexed:]) or any(v.type is not int32 for v in rest[:indexed]):
            return None
        for k, d in enumerate(range(indexed, len(spec))):
            start, count = rest[indexed + 2 * k : indexed + 2 * k + 2]
            if spec[d] != ("slice", 1) or not _all_of(source, d, start, count):
                return None
        found = [*rest[:indexed], *found]
        array = source
    assert isinstance(array.type, ArrayType)
    return found if array.type.ndim <= MOST_RANK else None


def _all_of(array: Value, dim: int, start: Value, count: Value) -> bool:
    """Whether a slice starts at 0 and is as long as the dimension."""
    shape = count.owner
    zero = isinstance(start.owner, Const) and start.owner.value == 0
    return zero and isinstance(shape, ArrayShape) and (shape.array, shape.dim) == (array, dim)


def _only(kernel: Kernel, array: Value, kind: str) -> bool:
    """Whether the kernel does nothing else with an array: other ways to its memory would need fences."""
    for op in kernel.walk():
        for effect in op.effects():
            value = effect.value
            known = value is not None and isinstance(value.type, ArrayType) and array_root(value) is array
            if known and effect.kind != kind:
                return False
    return True
