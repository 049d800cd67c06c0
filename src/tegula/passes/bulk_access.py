"""Analysis of array accesses: whether bulk copies can implement them, and the boxes of these copies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import gcd, prod

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.ir import ConstantLike, Kernel, Op, Value
from tegula.ops.array import ArrayShape, ArrayView, array_type
from tegula.ops.roles import PipeLoad
from tegula.ops.tile import TileAtomic, TileStore
from tegula.passes.overlap import array_root
from tegula.target import CudaTarget
from tegula.types import ArrayType, BufType, PipeType, TileType, components, element_bytes, int8, int32

with deferred_imports():
    from tegula.passes.divisors import divides

MAX_RANK, MAX_LENGTH, UNIT_BYTES = 5, 256, 16
"""Limits of a tensor map's box: the number of dimensions, the elements along a dimension, the granularity of a row in
bytes."""
SWIZZLED_ROWS = (128, 64, 32)
"""The possible row lengths of a swizzled box, in bytes."""
SWIZZLE_ROWS = 8
"""The number of rows after which the pattern of a swizzle repeats."""

Tile = PipeType | BufType | TileType


@dataclass(frozen=True, slots=True)
class Boxes:
    """The boxes of a tile: `count` boxes of `shape`, adjacent along the last dimension of the tile and consecutive in
    shared memory. `row_bytes`: the bytes of a row of a box; `bytes`: the bytes of all boxes."""

    shape: tuple[int, ...]
    count: int
    row_bytes: int
    bytes: int


def boxes(tile: Tile, swizzled: bool) -> Boxes:
    """The boxes of a tile: one box for a tile without swizzle, else boxes with rows of at most 128 bytes."""
    size = element_bytes(tile.dtype)
    row = tile.shape[-1] * size
    width = next(n for n in SWIZZLED_ROWS if row % n == 0) if swizzled else row
    return Boxes((*tile.shape[:-1], width // size), row // width, width, prod(tile.shape) * size)


def half_boxes(tile: Tile) -> Boxes | None:
    """The boxes of a swizzled tile, if half of the boxes make up half of the tile; else None."""
    tile_boxes = boxes(tile, True)
    if tile_boxes.count % 2 == 0:
        return tile_boxes
    rows, *inner = tile_boxes.shape
    if rows % 2 or rows // 2 * prod(inner[:-1]) % SWIZZLE_ROWS or tile_boxes.count > 1:
        return None
    return Boxes((rows // 2, *inner), 2, tile_boxes.row_bytes, tile_boxes.bytes)


def has_whole_patterns(tile: Tile) -> bool:
    """Whether the rows of a tile are whole patterns of a swizzle."""
    return tile.shape[0] % SWIZZLE_ROWS == 0


def may_swizzle(tile: Tile) -> bool:
    """Whether the rows of a tile can be split into rows of swizzled boxes."""
    row = tile.shape[-1] * element_bytes(tile.dtype)
    return len(tile.shape) == 2 and row % SWIZZLED_ROWS[-1] == 0


def cuts_boxes(row: int, size: int, part: int) -> bool:
    """Whether parts of `part` elements of a swizzled row, which has `row` elements of `size` bytes, start within a box
    and end in another one: tensor cores read from one box, or whole boxes."""
    width = boxes(TileType(int8, (1, row * size)), True).row_bytes
    return part * size % width != 0 and width % (part * size) != 0


def bulk_loadable(kernel: Kernel, target: CudaTarget, op: PipeLoad, swizzled: bool) -> bool:
    """Whether a pipe's load can be a bulk copy."""
    box, promised = boxes(op.tile, swizzled), bool(op.aligned)
    return _fits(kernel, target, [op.array, *op.offset], box, "read", promised)


def bulk_storable(kernel: Kernel, target: CudaTarget, op: TileAtomic | TileStore, piece: TileType) -> bool:
    """Whether a store of a tile, or an addition to an array, can be bulk copies of swizzled pieces."""
    kind = "atomic" if isinstance(op, TileAtomic) else "write"
    t = op.tile.type
    assert isinstance(t, TileType)
    shape = box_of_rows(t.shape, piece.shape)
    if shape is None:
        return False
    box = boxes(TileType(piece.dtype, shape), True)
    return _fits(kernel, target, [op.array, *op.offset], box, kind, bool(op.aligned))


def box_of_rows(tile: Sequence[int], piece: Sequence[int]) -> tuple[int, ...] | None:
    """The shape of the box that holds `piece` (rows, columns) of a tile with rows along its last dimension; None if no
    box has this number of rows."""
    rows_left, columns = piece
    shape = [columns]
    for n in reversed(tile[:-1]):
        shape.append(n if rows_left % n == 0 else rows_left)
        if n % shape[-1]:
            return None
        rows_left //= shape[-1]
    return tuple(reversed(shape)) if rows_left == 1 else None


def bulk_reachable(
    kernel: Kernel, target: CudaTarget, offsets: Sequence[Value], tile: Tile, swizzled: bool, kind: str
) -> bool:
    """Whether a bulk copy can read or write (`kind`) a tile at an offset of an array."""
    return _fits(kernel, target, offsets, boxes(tile, swizzled), kind)


def _fits(
    kernel: Kernel,
    target: CudaTarget,
    indices: Sequence[Value],
    box: Boxes,
    kind: str,
    promised: bool = False,
) -> bool:
    """Whether bulk copies of boxes can access an array at an offset. `promised`: the kernel promises that the offset is
    aligned, which is checked at run time."""
    array, *offsets = indices
    parameter = array_root(array)
    access = kernel.access[kernel.params.index(parameter)]
    return (
        target.bulk_copies
        and access is not None
        and access.bulk
        and all(kind == "read" and _has_only_accesses(kernel, kernel.params[k], kind) for k in access.aliases)
        and components(array_type(array.type).dtype) == 1
        and all(v.type is int32 for v in offsets)
        and leading_indices(array) is not None
        and box.row_bytes % UNIT_BYTES == 0
        and all(n <= MAX_LENGTH for n in box.shape)
        and _has_only_accesses(kernel, parameter, kind)
        and (promised or _is_aligned(kernel, array, offsets))
    )


def _is_aligned(kernel: Kernel, array: Value, offsets: Sequence[Value]) -> bool:
    """Whether a tile starts at a multiple of `UNIT_BYTES` in a row; a misaligned bulk copy is a fault of the device."""
    assert isinstance(array.type, ArrayType)
    return divides(alignment_elements(array.type), offsets[-1], partial(_row_divisor, kernel))


def _row_divisor(kernel: Kernel, op: Op) -> int:
    """A divisor of the length of the rows of a packed array, whose stride is a multiple of the alignment in the array's
    access class; 1 for other arrays."""
    if not isinstance(op, ArrayShape) or leading_indices(op.array) is None:
        return 1
    parameter, t = array_root(op.array), array_type(op.array.type)
    access = kernel.access[kernel.params.index(parameter)]
    rows = array_type(parameter.type).ndim > 1 and op.dim == t.ndim - 1
    size = element_bytes(t.dtype)
    return access.align // gcd(access.align, size) if rows and access is not None and access.dense else 1


def alignment_elements(array: ArrayType) -> int:
    """The least number of elements of an array whose size in bytes is a multiple of `UNIT_BYTES`."""
    return UNIT_BYTES // gcd(UNIT_BYTES, element_bytes(array.dtype))


def leading_indices(array: Value) -> list[Value] | None:
    """The leading indices that select an array from a parameter, which a tensor map takes as coordinates; None for
    other views."""
    leading: list[Value] = []
    while isinstance(array.owner, ArrayView):
        view = array.owner
        source, rest = view.array, view.bounds
        spec = list(view.spec)
        indexed = spec.count("index")
        if any(e == "index" for e in spec[indexed:]) or any(v.type is not int32 for v in rest[:indexed]):
            return None
        for k, d in enumerate(range(indexed, len(spec))):
            start, count = rest[indexed + 2 * k : indexed + 2 * k + 2]
            if spec[d] != ("slice", 1) or not _is_whole_dimension(source, d, start, count):
                return None
        leading = [*rest[:indexed], *leading]
        array = source
    assert isinstance(array.type, ArrayType)
    return leading if array.type.ndim <= MAX_RANK else None


def _is_whole_dimension(array: Value, dim: int, start: Value, count: Value) -> bool:
    """Whether a slice starts at 0 and is as long as the dimension."""
    shape = count.owner
    zero = isinstance(start.owner, ConstantLike) and start.owner.value == 0
    return zero and isinstance(shape, ArrayShape) and (shape.array, shape.dim) == (array, dim)


def _has_only_accesses(kernel: Kernel, array: Value, kind: str) -> bool:
    """Whether all accesses of an array in the kernel are of one kind, so that no proxy fence is needed."""
    for op in kernel.walk():
        for effect in op.effects():
            value = effect.value
            known = value is not None and isinstance(value.type, ArrayType) and array_root(value) is array
            if known and effect.kind != kind:
                return False
    return True
