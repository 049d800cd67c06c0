"""Transposing copies of tiles, whose squares are transposed in registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tegula.codegen.elements import array_pointer, needs_bounds, offsets
from tegula.codegen.state import State
from tegula.codegen.storage import View
from tegula.codegen.text import register_type
from tegula.ops.tile import TileLoad, TilePermute, TileStore
from tegula.types import DType, components, element_bytes, int64, scalar_of


def transposes(source: View, target: View) -> bool:
    """Whether rows of the target are columns of the source: adjacent elements of the target's last dimension are not
    adjacent in the source, whose adjacent elements are along another dimension."""
    source_scalars, target_scalars = _as_scalars(source), _as_scalars(target)
    return (
        source_scalars is not None
        and target_scalars is not None
        and not source_scalars.contiguous
        and target_scalars.contiguous
        and _adjacent_dim(source_scalars) >= 0
    )


def _as_scalars(view: View) -> View | None:
    """A view whose elements are scalars; vectors of two adjacent components of 4 bytes are integers of 8 bytes. None
    for other vectors."""
    if components(view.dtype) == 1:
        return view
    if components(view.dtype) != 2 or scalar_of(view.dtype).bits != 32 or view.component_stride != 1:
        return None
    if any(stride % 2 for stride in view.strides):
        return None
    return View(view.pointer, int64, view.shape, tuple(stride // 2 for stride in view.strides))


def _adjacent_dim(source: View) -> int:
    """The dimension along which the elements of a view are adjacent; -1 if there is none."""
    candidates = [d for d, n in enumerate(source.shape[:-1]) if n > 1 and source.strides[d] == 1]
    return candidates[-1] if candidates else -1


def transposed_copy(s: State, source: View, target: View, width: int) -> None:
    """Copy a tile in squares of at most `width` x `width` elements. The last square overlaps the one before if their
    length does not divide a length of the tile."""
    source, target = _as_scalars(source) or source, _as_scalars(target) or target
    scalar, shape = scalar_of(target.dtype), target.shape
    source_address, target_address = partial(s.memory.at, source), partial(s.memory.at, target)
    _copy_squares(s, scalar, shape, _adjacent_dim(source), source_address, target_address, width)


def load_transposed(s: State, permute: TilePermute, target: View, width: int) -> bool:
    """Copy the transpose of a matrix that is in bounds from an array to the target, as `transposed_copy`, and return
    whether the copy has squares; otherwise nothing is copied."""
    load, target_scalars = permute.tile.owner, _as_scalars(target)
    assert isinstance(load, TileLoad)
    array = s.arrays[load.array]
    if width == 1 or target_scalars is None or not (target_scalars.contiguous and array.contiguous):
        return False
    first_row, first_column = offsets(s, load)

    def address(index: list[str]) -> str:
        column, row = index
        return array_pointer(s, array, [s.memory.add(first_row, row), s.memory.add(first_column, column)])

    scalar, shape = scalar_of(target_scalars.dtype), target_scalars.shape
    _copy_squares(s, scalar, shape, 0, address, partial(s.memory.at, target_scalars), width)
    return True


def store_transposed(s: State, op: TileStore, width: int) -> bool:
    """Store a matrix whose columns are rows in memory, as `transposed_copy`, and return whether the copy has squares;
    otherwise nothing is stored."""
    array, view = s.arrays[op.array], s.tiles.get(op.tile)
    source = _as_scalars(view) if view is not None and len(view.shape) == 2 else None
    if width == 1 or source is None or source.contiguous or source.strides[0] != 1:
        return False
    if needs_bounds(s, op) or not array.contiguous:
        return False
    first_row, first_column = offsets(s, op)

    def address(index: list[str]) -> str:
        row, column = index
        return array_pointer(s, array, [s.memory.add(first_row, row), s.memory.add(first_column, column)])

    scalar = scalar_of(source.dtype)
    _copy_squares(s, scalar, source.shape, 0, partial(s.memory.at, source), address, width)
    return True


def _copy_squares(
    s: State,
    scalar: DType,
    shape: tuple[int, ...],
    row_dim: int,
    source_address: Callable[[list[str]], str],
    target_address: Callable[[list[str]], str],
    width: int,
) -> None:
    """Copy a tile of scalars in squares. Adjacent elements of the source are along dimension `row_dim`, those of the
    target along the last dimension."""
    last = len(shape) - 1
    width = min(width, max(1, s.target.vector_bytes // element_bytes(scalar)))
    rows, depth = shape[row_dim], width
    while depth > rows:
        depth //= 2
    outer_lengths = [n for d, n in enumerate(shape) if d not in (row_dim, last)]

    def square(index: list[str], row: str, column: str) -> None:
        def at(k: int, n: int) -> list[str]:
            rest = iter(index)
            moved = {row_dim: s.memory.add(row, str(k)), last: s.memory.add(column, str(n))}
            return [moved[d] if d in moved else next(rest) for d in range(last + 1)]

        def piece(n: int) -> str:
            return s.memory.load(source_address(at(0, n)), scalar, depth)

        vectors = [
            concatenated(s, scalar, [piece(n) for n in range(k, width, depth)], depth) for k in range(depth)
        ]
        for k, vector in enumerate(transposed_squares(s, scalar, vectors, width)):
            s.memory.store(target_address(at(k, 0)), vector, scalar, width)

    def walk(index: list[str]) -> None:
        if len(index) < len(outer_lengths):
            for i in starts_of_pieces(s, outer_lengths[len(index)], 1):
                walk([*index, i])
            return
        for row in starts_of_pieces(s, rows, depth):
            for column in starts_of_pieces(s, shape[last], width):
                square(index, row, column)

    walk([])


def starts_of_pieces(s: State, length: int, step: int) -> Iterator[str]:
    """The starts of pieces of `step` that cover a length. The last piece may overlap the one before."""
    if length == step:
        yield "0"
        return
    with s.code.loop("0", str(length), str(step)) as loop:
        divides = length % step == 0
        yield (
            loop.index
            if divides
            else s.code.call("smin", "i64", "i64", f"i64 {loop.index}, i64 {length - step}")
        )


def concatenated(s: State, scalar: DType, vectors: list[str], width: int) -> str:
    """The concatenation of vectors."""
    t = register_type(scalar, 1)
    while len(vectors) > 1:
        vectors = [
            s.memory.shuffled(a, b, t, width, [*range(2 * width)])
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
        width *= 2
    return vectors[0]


def transposed_squares(s: State, scalar: DType, vectors: list[str], width: int) -> list[str]:
    """Transpose the adjacent squares in vectors, each as wide as there are vectors. Each step merges vectors i and i +
    half lane by lane, which rotates the bits of (vector, lane in its square) by one."""
    t, size = register_type(scalar, 1), len(vectors)
    low = [at + i // 2 + i % 2 * width for at in range(0, width, size) for i in range(size)]
    high = [i + size // 2 for i in low]
    for _ in range(size.bit_length() - 1):
        vectors = [
            s.memory.shuffled(vectors[i], vectors[i + size // 2], t, width, order)
            for i in range(size // 2)
            for order in (low, high)
        ]
    return vectors
