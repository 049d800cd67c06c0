"""Cooperative tile ops as loops: materialisation, stores, reductions, buffers, stacks."""

from __future__ import annotations

import math
from collections.abc import Callable

from tegula.codegen.arrays import reshaped, sliced
from tegula.codegen.elements import (
    array_pointer,
    clamp_pointer,
    column_mask,
    element,
    element_addresses,
    gathered,
    is_straight,
    offsets,
    run_region,
    splat,
    without_absent,
)
from tegula.codegen.scalar import Components, elementwise
from tegula.codegen.state import State
from tegula.codegen.storage import ArrayDescriptor, View
from tegula.codegen.sweep import guarded, length_of, merged_dimensions, sweep, sweep_slice, width_for
from tegula.codegen.text import constant, register_type, vector_of
from tegula.codegen.transposes import load_transposed, store_transposed, transposed_copy, transposes
from tegula.codegen.unswitch import unswitched
from tegula.deferred import deferred_imports
from tegula.ir import Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array_gather import ArrayScatter, ArrayScatterAtomic, ArrayScatterCas
from tegula.ops.concat import TileConcat
from tegula.ops.control import Yield
from tegula.ops.lane import TileFromLanes, TileFromThread, TileToLanes, slots
from tegula.ops.stack import StackNew, StackPop, StackPush
from tegula.ops.tile import (
    TileAtomic,
    TileGather,
    TileLoad,
    TilePermute,
    TileReduce,
    TileReshape,
    TileSlice,
    TileStore,
    tile_type,
)
from tegula.types import (
    DType,
    ElementType,
    TileType,
    components,
    int32,
    scalar_of,
    to_numpy,
)

with deferred_imports():
    from tegula.codegen.atomics import atomic_element, compare_and_swap_element


def materialise(s: State, value: Value, destination: View | None = None) -> View:
    """The view of a tile in memory: its existing memory, or `destination` or fresh scratch memory, to which the tile is
    written."""
    if destination is None and value in s.tiles:
        return s.tiles[value]
    t: TileType = value.type  # type: ignore[assignment]
    view = destination or s.result_memory(value, "tile")
    if value in s.tiles and s.tiles[value] == view:
        return view
    is_copied = is_lane_copy(s, value, view)
    width = 1 if is_copied else width_for(s, [value], t.shape, (t.dtype,))
    permute = s.inline.get(value)
    if isinstance(permute, TilePermute) and value not in s.tiles:
        if load_transposed(s, permute, view, width):
            return view
        tile_permute(s, permute)
    if value in s.tiles and width > 1 and transposes(s.tiles[value], view):
        transposed_copy(s, s.tiles[value], view, width)
        return view

    block, held = s.code.block, list[tuple[int, Components]]()

    def emit(masked: bool) -> None:
        def body(index: list[str], w: int) -> None:
            parts = element(s, value, index, w, masked)
            if t.partial:
                parts = without_absent(s, value, parts, index, w)
            s.memory.store_view(view, index, parts, w)
            held.append((w, parts))

        merged = merged_dimensions(s, value, view)

        def emit_slice(dim: int, at: str) -> None:
            is_rare = masked or (is_copied and isinstance(s.inline.get(value), TileLoad))
            sweep_slice(s, t.shape, width, body, is_rare, merged, dim, at, length_of(s, value))

        unswitched(s, value, view, emit_slice)

    guarded(s, [value], [], emit)
    if destination is None:
        s.tiles[value] = view
        if s.code.reuses and s.code.block == block and len(held) == 1 and math.prod(t.shape) == held[0][0]:
            s.registers[value] = held[0]
    return view


def is_lane_copy(s: State, value: Value, view: View | None = None) -> bool:
    """Whether a tile of one of several blocks side by side is copied from or to their common memory, where its elements
    are not adjacent. Vectors would be composed of single elements."""
    source = s.tiles.get(value)
    if s.vectorised.kernel is not s.kernel or not (
        source or isinstance(s.inline.get(value), (TileLoad, TileGather))
    ):
        return False
    return any(x is not None and x.shape and not x.adjacent for x in (source, view))


# Arrays --------------------------------------------------------------------------------------------------------------


def store(s: State, op: TileStore) -> None:
    """Lower `tile.store`. The elements of a tile that is not in memory are computed in the loops of the store."""
    array, value = s.arrays[op.array], op.tile
    t: TileType = value.type  # type: ignore[assignment]
    starts = offsets(s, op)
    is_copied = is_lane_copy(s, value)
    width = 1 if is_copied else width_for(s, [value], t.shape, (t.dtype,))
    has_absent = t.partial and s.kernel.launch.partial
    if not has_absent and store_transposed(s, op, width):
        return

    def emit(masked: bool) -> None:
        def body(index: list[str], w: int) -> None:
            indices = [s.memory.add(o, i) for o, i in zip(starts, index, strict=True)]
            values = element(s, value, index, w, masked)
            if masked or has_absent:
                _masked_store(s, array, indices, index, values, w, has_absent)
            else:
                _plain_store(s, array, indices, values, w)

        sweep(s, t.shape, width, body, rare=masked or is_copied)

    guarded(s, [value], [op], emit)


def _plain_store(
    s: State, array: ArrayDescriptor, indices: list[str], values: Components, width: int
) -> None:
    pointer, scalar = array_pointer(s, array, indices), scalar_of(array.dtype)
    if width == 1:
        s.memory.store_element(pointer, values, array.dtype)
    elif array.contiguous:
        s.memory.store_adjacent(pointer, values, scalar, width)
    else:
        for k in range(width):
            element_pointer = s.memory.bytes_offset(pointer, s.memory.mul(array.strides[-1], str(k)))
            parts = tuple(s.memory.lane(x, scalar, width, k) for x in values)
            s.memory.store_element(element_pointer, parts, array.dtype)


def _store_mask(
    s: State, array: ArrayDescriptor, indices: list[str], index: list[str], width: int, has_absent: bool
) -> str:
    mask = column_mask(s, array, indices, width)
    if has_absent:
        positions, limit = s.memory.iota(index[-1], width), s.memory.splat_i64(s.present, width)
        in_bounds = s.code.emit(f"icmp slt {vector_of('i64', width)} {positions}, {limit}")
        mask = s.code.emit(f"and {vector_of('i1', width)} {mask}, {in_bounds}")
    return mask


def _masked_store(
    s: State,
    array: ArrayDescriptor,
    indices: list[str],
    index: list[str],
    values: Components,
    width: int,
    has_absent: bool,
) -> None:
    """Store elements that are in bounds and belong to present lanes."""
    pointer, scalar = array_pointer(s, array, indices), scalar_of(array.dtype)
    mask = _store_mask(s, array, indices, index, width, has_absent)
    if width > 1 and array.contiguous:
        n, vector = len(values), s.memory.interleaved(values, scalar, width)
        if n > 1:
            mask = s.memory.shuffled(mask, "poison", "i1", width, [k for k in range(width) for _ in range(n)])
        s.memory.masked_store(clamp_pointer(s, array, indices, pointer), vector, scalar, width * n, mask)
        return
    for k in range(width):
        parts = values if width == 1 else tuple(s.memory.lane(v, scalar, width, k) for v in values)
        ok = mask if width == 1 else s.code.emit(f"extractelement {vector_of('i1', width)} {mask}, i32 {k}")
        element_pointer = s.memory.bytes_offset(pointer, s.memory.mul(array.strides[-1], str(k)))
        _emit_if(
            s, ok, lambda at=element_pointer, parts=parts: s.memory.store_element(at, parts, array.dtype)
        )


def _emit_if(s: State, condition: str, body: Callable[[], object]) -> None:
    then, done = s.code.label("then"), s.code.label("done")
    s.code.branch(condition, then, done)
    s.code.define_label(then)
    body()
    s.code.jump(done)
    s.code.define_label(done)


def tile_atomic(s: State, op: TileAtomic) -> None:
    """Lower `tile.atomic`, element by element. Previous elements are stored only if they are used."""
    array, value = s.arrays[op.array], op.tile
    t: TileType = value.type  # type: ignore[assignment]
    starts = offsets(s, op)
    has_absent = t.partial and s.kernel.launch.partial
    previous = s.result_memory(op.result, "previous") if s.users.get(op.result) else None
    zero = tuple(constant(scalar_of(t.dtype), 0) for _ in range(components(t.dtype)))

    def body(index: list[str], w: int) -> None:
        indices = [s.memory.add(o, i) for o, i in zip(starts, index, strict=True)]
        parts = element(s, value, index, 1, True)
        if previous is not None:
            s.memory.store_view(previous, index, zero, 1)

        def update() -> None:
            old = atomic_element(s.code, op.op, array_pointer(s, array, indices), array.dtype, parts)
            if previous is not None:
                s.memory.store_view(previous, index, old, 1)

        _emit_if(s, _store_mask(s, array, indices, index, 1, has_absent), update)

    sweep(s, t.shape, 1, body)
    if previous is not None:
        s.tiles[op.result] = previous


def scatter(s: State, op: ArrayScatter) -> None:
    """Lower `array.scatter`, element by element in row-major order."""
    array, t = s.arrays[op.array], tile_type(op.tile.type, partial=True)
    has_absent = t.partial and s.kernel.launch.partial

    def emit(masked: bool) -> None:
        def body(index: list[str], w: int) -> None:
            ((pointer, ok),) = element_addresses(s, op, index, 1, masked)
            parts = element(s, op.tile, index, 1, masked)
            _emit_if(
                s,
                _if_present(s, ok, index, has_absent),
                lambda: s.memory.store_element(pointer, parts, array.dtype),
            )

        sweep(s, t.shape, 1, body, rare=masked)

    guarded(s, [op.tile, op.where, *op.at], [], emit)


def scatter_atomic(s: State, op: ArrayScatterAtomic | ArrayScatterCas) -> None:
    """Lower `array.scatter_atomic` or `array.scatter_cas`, element by element. Previous elements are stored only if
    they are used."""
    array, t = s.arrays[op.array], tile_type(op.tile.type, partial=True)
    has_absent = t.partial and s.kernel.launch.partial
    previous = s.result_memory(op.result, "previous") if s.users.get(op.result) else None
    zero = tuple(constant(scalar_of(t.dtype), 0) for _ in range(components(t.dtype)))

    def body(index: list[str], w: int) -> None:
        ((pointer, ok),) = element_addresses(s, op, index, 1, True)
        parts = element(s, op.tile, index, 1, True)
        expected = element(s, op.expected, index, 1, True) if isinstance(op, ArrayScatterCas) else None
        if previous is not None:
            s.memory.store_view(previous, index, zero, 1)

        def update() -> None:
            if expected is not None:
                old = compare_and_swap_element(s.code, pointer, array.dtype, expected, parts)
            else:
                old = atomic_element(s.code, op.op, pointer, array.dtype, parts)
            if previous is not None:
                s.memory.store_view(previous, index, old, 1)

        _emit_if(s, _if_present(s, ok, index, has_absent), update)

    sweep(s, t.shape, 1, body)
    if previous is not None:
        s.tiles[op.result] = previous


def _if_present(s: State, ok: str, index: list[str], has_absent: bool) -> str:
    """The conjunction of the i1 `ok` and the presence of the element's lane, if lanes may be absent."""
    if not has_absent:
        return ok
    return s.code.emit(f"and i1 {ok}, {s.code.emit(f'icmp slt i64 {index[-1]}, {s.present}')}")


# Reductions ----------------------------------------------------------------------------------------------------------


def _combiner(region: Region) -> type[Op] | None:
    """The op of a reduction's region if the region is a single known op on the region's arguments, else None."""
    ops = region.ops
    if len(ops) == 2 and isinstance(ops[1], Yield) and set(ops[0].operands) == set(region.args):
        kind = type(ops[0])
        return kind if kind in (S.Add, S.Min, S.Max, S.Mul) else None
    return None


def identity(kind: type[Op], dtype: DType) -> float | int:
    """The neutral element of a combiner. For min and max of floats the neutral element is NaN, because numbers are
    preferred to NaNs."""
    if kind is S.Add:
        return -0.0 if dtype.is_float else 0
    if kind is S.Mul:
        return 1
    if dtype.is_float:
        return float("nan")
    import numpy as np

    if dtype.is_bool:
        return kind is S.Min
    info = np.iinfo(to_numpy(dtype))
    return int(info.max if kind is S.Min else info.min)


def reduce(s: State, op: TileReduce) -> None:
    """Lower `tile.reduce` to a fresh tile. Known combiners use several vector accumulators, other regions run element
    by element."""
    value, axis = op.tile, op.axis
    t: TileType = value.type  # type: ignore[assignment]
    result = s.result_memory(op.result, "reduced")
    kind = _combiner(op.combine)
    has_absent = t.partial and s.kernel.launch.partial
    is_total = axis is None or len(t.shape) == 1
    if kind is None or components(t.dtype) != 1 or has_absent:
        view = materialise(s, value)
        _reduce_generic(s, op.combine, view, t, result, None if is_total else axis, has_absent)
    elif axis is None or is_total or axis == len(t.shape) - 1:
        guarded(s, [value], [], lambda masked: _reduce_rows(s, kind, value, t, result, is_total, masked))
    else:
        guarded(s, [value], [], lambda masked: _reduce_columns(s, kind, value, t, result, axis, masked))
    s.tiles[op.result] = result


def _reduce_rows(
    s: State, kind: type[Op], value: Value, t: TileType, result: View, is_total: bool, masked: bool
) -> None:
    """Reduce along the last dimension, or over the whole tile."""
    if is_total:
        total = _accumulate(s, kind, value, t, [], masked)
        s.memory.store_view(result, ["0"] * len(result.shape), (total,), 1)
        return
    keeps_dims = len(result.shape) == len(t.shape)

    def body(index: list[str], w: int) -> None:
        rows = index[:-1] if keeps_dims else index
        total = _accumulate(s, kind, value, t, rows, masked)
        s.memory.store_view(result, [*rows, "0"] if keeps_dims else rows, (total,), 1)

    sweep(s, (*t.shape[:-1], 1) if keeps_dims else t.shape[:-1], 1, body)


def _accumulate(s: State, kind: type[Op], value: Value, t: TileType, fixed: list[str], masked: bool) -> str:
    """The reduction of all elements whose first coordinates are `fixed`, as a scalar."""
    dtype = scalar_of(t.dtype)
    width = width_for(s, [value], t.shape, (t.dtype,))
    if width > 1 and dtype.bits >= 32:
        # The order of a sum does not depend on how the elements are computed.
        width = width_for(s, [], t.shape, (t.dtype,))
    outer, n = t.shape[len(fixed) : -1], t.shape[-1]
    full = n // width
    accumulator_count = 4 if full % 4 == 0 and full >= 4 else 2 if full % 2 == 0 and full >= 2 else 1
    vt = register_type(dtype, width)
    accumulators = [constant(dtype, identity(kind, dtype), width)] * accumulator_count

    def combine(a: str, b: str, w: int) -> str:
        return elementwise(s.code, kind([], []), dtype, [a, b], w)

    def row(index: list[str], sums: list[str]) -> list[str]:
        with s.code.loop(
            "0", str(full * width), str(width * accumulator_count), [(vt, x) for x in sums]
        ) as loop:
            for k in range(accumulator_count):
                start_index = [*index, s.memory.add(loop.index, str(k * width))]
                loop.next.append(
                    combine(loop.values[k], element(s, value, start_index, width, masked)[0], width)
                )
        for start_index, w in _remaining_pieces(full * width, n, width):
            x = element(s, value, [*index, str(start_index)], w, masked)[0]
            wide = _pad_vector(s, x, dtype, w, width, identity(kind, dtype))
            loop.results[0] = combine(loop.results[0], wide, width)
        return loop.results

    accumulators = _nested_rows(s, list(outer), list(fixed), accumulators, vt, row)
    while len(accumulators) > 1:
        accumulators = [
            combine(a, b, width) for a, b in zip(accumulators[::2], accumulators[1::2], strict=True)
        ]
    return _reduce_vector(s, accumulators[0], dtype, width, combine)


def _remaining_pieces(start: int, n: int, width: int) -> list[tuple[int, int]]:
    pieces: list[tuple[int, int]] = []
    while start < n:
        while width > n - start:
            width //= 2
        pieces.append((start, width))
        start += width
    return pieces


def _pad_vector(s: State, x: str, dtype: DType, narrow: int, width: int, fill: float | int) -> str:
    """A vector of `narrow` elements, padded with `fill` to `width` elements."""
    if narrow == width:
        return x
    if narrow == 1:
        base = constant(dtype, fill, width)
        return s.code.emit(
            f"insertelement {register_type(dtype, width)} {base}, {register_type(dtype, 1)} {x}, i32 0"
        )
    t = register_type(dtype, narrow)
    picks = ", ".join(f"i32 {k if k < narrow else narrow}" for k in range(width))
    return s.code.emit(
        f"shufflevector {t} {x}, {t} {constant(dtype, fill, narrow)}, <{width} x i32> <{picks}>"
    )


def _nested_rows(
    s: State,
    outer: list[int],
    index: list[str],
    sums: list[str],
    vt: str,
    row: Callable[[list[str], list[str]], list[str]],
) -> list[str]:
    if not outer:
        return row(index, sums)
    with s.code.loop("0", str(outer[0]), "1", [(vt, x) for x in sums]) as loop:
        loop.next = _nested_rows(s, outer[1:], [*index, loop.index], list(loop.values), vt, row)
    return list(loop.results)


def _reduce_vector(
    s: State, x: str, dtype: DType, width: int, combine: Callable[[str, str, int], str]
) -> str:
    while width > 1:
        half = width // 2
        t = register_type(dtype, width)
        low, high = (
            s.code.emit(
                f"shufflevector {t} {x}, {t} poison, <{half} x i32> "
                f"<{', '.join(f'i32 {k + start}' for k in range(half))}>"
            )
            for start in (0, half)
        )
        if half == 1:
            one = f"<1 x {register_type(dtype, 1)}>"
            low, high = (s.code.emit(f"extractelement {one} {v}, i32 0") for v in (low, high))
        x, width = combine(low, high, half), half
    return x


def _reduce_columns(
    s: State, kind: type[Op], value: Value, t: TileType, result: View, axis: int, masked: bool
) -> None:
    """Reduce along a dimension other than the last: vectors of columns are accumulated over the axis."""
    dtype = scalar_of(t.dtype)
    keeps_dims = len(result.shape) == len(t.shape)
    width = width_for(s, [value], t.shape, (t.dtype,))

    def body(index: list[str], w: int) -> None:
        outer_index = [*index[:axis], *index[axis + 1 :]] if keeps_dims else index
        start = constant(dtype, identity(kind, dtype), w)
        with s.code.loop("0", str(t.shape[axis]), "1", [(register_type(dtype, w), start)]) as loop:
            source_index = [*outer_index[:axis], loop.index, *outer_index[axis:]]
            x = element(s, value, source_index, w, masked)[0]
            loop.next = [elementwise(s.code, kind([], []), dtype, [loop.values[0], x], w)]
        s.memory.store_view(result, index, (loop.results[0],), w)

    sweep(s, result.shape, width, body)


def _combine(s: State, region: Region, args: list[Components]) -> Components:
    return run_region(s, region, args, 1)[0] if is_straight(region) else s.run_branching(region, args)[0]


def _reduce_generic(
    s: State, region: Region, view: View, t: TileType, result: View, axis: int | None, has_absent: bool
) -> None:
    """Reduce by an arbitrary region, element by element, starting with the first element."""
    axes = range(len(t.shape)) if axis is None else [axis]
    fixed = [d for d in range(len(t.shape)) if d not in axes]
    keeps_dims = len(result.shape) == len(t.shape) and axis is not None

    def body(index: list[str], w: int) -> None:
        outer_index = (
            iter([i for d, i in enumerate(index) if not keeps_dims or d != axis])
            if axis is not None
            else iter([])
        )
        first_index = ["0" if d in axes else next(outer_index) for d in range(len(t.shape))]
        s.memory.store_view(result, index, s.memory.load_view(view, first_index, 1), 1)
        _fold(s, region, view, t, first_index, list(axes), result, index, has_absent)

    sweep(s, result.shape if fixed else (1,) * len(result.shape), 1, body)


def _fold(
    s: State, region: Region, view: View, t: TileType, at: list[str], axes: list[int], result: View,
    result_index: list[str], has_absent: bool,
) -> None:  # fmt: skip
    """Combine all elements along `axes` except the first into `result[result_index]`."""
    lengths = [s.present if has_absent and d == len(t.shape) - 1 else str(t.shape[d]) for d in axes]

    def nest(depth: int, index: list[str], first: str) -> None:
        if depth == len(axes):
            _emit_if(s, s.code.emit(f"xor i1 {first}, true"), lambda: step(index))
            return
        with s.code.loop("0", lengths[depth]) as loop:
            is_first = s.code.emit(f"icmp eq i64 {loop.index}, 0")
            following = list(index)
            following[axes[depth]] = loop.index
            nest(depth + 1, following, s.code.emit(f"and i1 {first}, {is_first}"))

    def step(index: list[str]) -> None:
        old, new = s.memory.load_view(result, result_index, 1), s.memory.load_view(view, index, 1)
        s.memory.store_view(result, result_index, _combine(s, region, [old, new]), 1)

    nest(0, at, "true")


def _pack(s: State, value: Value, view: View) -> View:
    t: TileType = value.type  # type: ignore[assignment]
    packed = s.allocate("packed", t.dtype, t.shape)
    sweep(s, t.shape, 1, lambda i, w: s.memory.store_view(packed, i, s.memory.load_view(view, i, 1), 1))
    return reshaped(packed, (t.size,))


# Rearranging ---------------------------------------------------------------------------------------------------------


def tile_slice(s: State, op: TileSlice) -> None:
    """Lower `tile.slice`: a view of the source."""
    source = materialise(s, op.tile)
    s.tiles[op.result] = sliced(s, source, [s.i64(v) for v in op.starts], op.attrs)


def tile_permute(s: State, op: TilePermute) -> None:
    """Lower `tile.permute`: a view with other strides."""
    v, perm = materialise(s, op.tile), op.perm
    shape, strides = tuple(v.shape[d] for d in perm), tuple(v.strides[d] for d in perm)
    s.tiles[op.result] = View(v.pointer, v.dtype, shape, strides, v.component_stride)


def tile_reshape(s: State, op: TileReshape) -> None:
    """Lower `tile.reshape`: a view of the source, or of a packed copy of a strided source."""
    source = materialise(s, op.tile)
    shape = tuple(op.shape)
    if not source.packed:
        flat = _pack(s, op.tile, source)
        s.tiles[op.result] = reshaped(flat, shape)
        return
    s.tiles[op.result] = reshaped(source, shape)


def gather(s: State, op: TileGather) -> None:
    """Lower `tile.gather`: negative indices count from the end, and an index out of bounds gives 0. Slices with more
    than one element in the last dimension are copied by vectors."""
    prepare_gather(s, op)
    result_type = tile_type(op.result.type, partial=True)
    view = s.result_memory(op.result, "gathered")
    is_scalar = op.axis == len(result_type.shape) - 1
    width = 1 if is_scalar else width_for(s, [], result_type.shape, (result_type.dtype,))

    def body(index: list[str], w: int) -> None:
        s.memory.store_view(view, index, gathered(s, op, index, w), w)

    sweep(s, result_type.shape, width, body)
    s.tiles[op.result] = view


def prepare_gather(s: State, op: TileGather) -> None:
    """Materialise the operands of a gather."""
    materialise(s, op.tile)
    materialise(s, op.index)


def concat(s: State, op: TileConcat) -> None:
    """Lower `tile.concat`: copy each operand to its part of the result."""
    view, axis = s.result_memory(op.result, "joined"), op.axis
    start = 0
    for operand in op.operands:
        shape = operand.type.shape  # type: ignore[union-attr]
        starts = [str(start) if d == axis else "0" for d in range(len(shape))]
        part = View(s.memory.at(view, starts), view.dtype, shape, view.strides, view.component_stride)
        materialise(s, operand, part)
        start += shape[axis]
    s.tiles[op.result] = view


# Lanes ---------------------------------------------------------------------------------------------------------------


def from_lanes(s: State, op: TileFromLanes) -> None:
    """Lower `tile.from_lanes`: a view of the memory of the lanes' values; for a grid, each lane's elements are written
    to their coordinates."""
    value = op.value
    if op.grid is not None:
        _from_grid(s, op)
        return
    result_type = tile_type(op.result.type, partial=True)
    if value not in s.lanes:
        view = s.lane_array("lanes", value.type)  # type: ignore[arg-type]
        parts = s.components(value)
        with s.code.loop("0", str(s.block_dim)) as loop:
            s.memory.store_view(view, [loop.index], parts, 1)
    else:
        view = s.lanes[value]
    _clear_absent(s, view)
    n = s.block_dim
    if op.preserve_type or isinstance(value.type, DType):
        s.tiles[op.result] = view
        return
    strides: list[int] = []
    stride = n
    for extent in reversed(result_type.shape[:-1]):
        strides.insert(0, stride)
        stride *= extent
    s.tiles[op.result] = View(view.pointer, result_type.dtype, result_type.shape, (*strides, 1))


def _from_grid(s: State, op: TileFromLanes) -> None:
    result, scalar = s.result_memory(op.result, "tile"), scalar_of(op.value.type)  # type: ignore[arg-type]
    zero = (constant(scalar, 0),) * components(op.value.type)  # type: ignore[arg-type]
    with s.code.loop("0", str(s.block_dim)) as loop:
        is_present = (
            "true"
            if s.present == str(s.block_dim)
            else s.code.emit(f"icmp ult i64 {loop.index}, {s.present}")
        )
        parts = _load_if(s, is_present, lambda: _lane_components(s, op.value, loop.index), zero, scalar)
        for (at, ok), x in zip(_grid_coordinates(s, result.shape, op.grid, loop.index), parts, strict=True):

            def write(at: list[str] = at, x: str = x) -> None:
                s.memory.store_view(result, at, (x,), 1)

            if ok == "true":
                write()
            else:
                _emit_if(s, ok, write)
    s.tiles[op.result] = result


def _grid_coordinates(
    s: State, shape: tuple[int, ...], grid: tuple[int, ...], lane: str
) -> list[tuple[list[str], str]]:
    """The coordinates of each element of a lane of a grid, and whether the element is in the tile."""
    digits, period = list[str](), 1
    for g in reversed(grid):
        digit = s.memory.quotient(lane, period) if period > 1 else lane
        digits.insert(0, s.code.emit(f"urem i64 {digit}, {g}"))
        period *= g
    grid_elements: list[tuple[list[str], str]] = []
    for slot in _positions(slots(shape, grid)):
        ok, at = "true", list[str]()
        for n, g, digit, k in zip(shape, grid, digits, slot, strict=True):
            at.append(s.memory.add(digit, str(k * g)))
            if (k + 1) * g > n:
                test = s.code.emit(f"icmp ult i64 {at[-1]}, {n}")
                ok = test if ok == "true" else s.code.emit(f"and i1 {ok}, {test}")
        grid_elements.append((at, ok))
    return grid_elements


def _load_if(
    s: State, ok: str, load: Callable[[], Components], otherwise: Components, dtype: DType
) -> Components:
    """The components that `load` reads if the i1 `ok` is true, else `otherwise`, without an access to memory."""
    if ok == "true":
        return load()
    then, done, before = s.code.label("then"), s.code.label("done"), s.code.block
    s.code.branch(ok, then, done)
    s.code.define_label(then)
    parts = load()
    last = s.code.block
    s.code.jump(done)
    s.code.define_label(done)
    t = register_type(dtype, 1)
    return tuple(s.code.phi(t, (x, last), (y, before)) for x, y in zip(parts, otherwise, strict=True))


def _clear_absent(s: State, view: View) -> None:
    """Store 0 for the absent lanes of the last block."""
    if not s.kernel.launch.partial:
        return
    zero = tuple(constant(scalar_of(view.dtype), 0) for _ in range(components(view.dtype)))
    with s.code.loop(s.present, str(s.block_dim)) as loop:
        s.memory.store_view(view, [loop.index], zero, 1)


def to_lanes(s: State, op: TileToLanes) -> None:
    """Lower `tile.to_lanes`: each lane's element of a tile; the tile itself if it is component-major."""
    source = materialise(s, op.tile)
    t: ElementType = op.result.type  # type: ignore[assignment]
    view = s.lane_array(op.result.name or "untiled", t)
    if op.grid is not None:
        zero = (constant(scalar_of(t), 0),)
        with s.code.loop("0", str(s.block_dim)) as loop:
            values = [
                _load_if(s, ok, lambda at=at: s.memory.load_view(source, at, 1), zero, scalar_of(t))
                for at, ok in _grid_coordinates(s, source.shape, op.grid, loop.index)
            ]
            s.memory.store_view(view, [loop.index], tuple(x for parts in values for x in parts), 1)
        s.lanes[op.result] = view
        return
    leading = source.shape[:-1]

    with s.code.loop("0", str(s.block_dim)) as loop:
        if not leading:
            parts = s.memory.load_view(source, [loop.index], 1)
        else:
            parts = tuple(
                s.memory.load_view(source, [*map(str, at), loop.index], 1)[0] for at in _positions(leading)
            )
        s.memory.store_view(view, [loop.index], parts, 1)
    s.lanes[op.result] = view


def _positions(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    import itertools

    return list(itertools.product(*(range(n) for n in shape)))


def from_thread(s: State, op: TileFromThread) -> Components:
    """The value of one lane; 0 if the lane is absent."""
    value, code = op.value, s.code
    thread = s.i64(op.thread)
    is_present = code.emit(f"icmp ult i64 {thread}, {s.present}")
    if value not in s.lanes:
        parts = s.components(value)
    else:
        clamped_thread = code.emit(f"select i1 {is_present}, i64 {thread}, i64 0")
        parts = s.memory.load_view(s.lanes[value], [clamped_thread], 1)
    t = register_type(scalar_of(value.type), 1)  # type: ignore[arg-type]
    zero = constant(scalar_of(value.type), 0)  # type: ignore[arg-type]
    return tuple(code.emit(f"select i1 {is_present}, {t} {p}, {t} {zero}") for p in parts)


def stack_new(s: State, op: StackNew) -> None:
    """Lower `stack.new`: memory for the count and the elements, and a count of 0."""
    t = op.type
    count = s.allocate("stack count", int32, (1,)).pointer
    s.stacks[op.result] = (count, s.allocate("stack", t.dtype, (t.capacity,)))
    s.code.line(f"store i32 0, ptr {count}, align 4")


def stack_push(s: State, op: StackPush) -> None:
    """Lower `stack.push`: lanes push in lane order."""
    count, view = s.stacks[op.stack]
    slots, code = s.lane_array("slot", int32), s.code
    with code.loop("0", s.present) as loop:
        flag = _lane_components(s, op.has_value, loop.index)[0]
        value = _lane_components(s, op.value, loop.index)
        n = code.emit(f"load i32, ptr {count}, align 4")
        has_room = code.emit(f"icmp ult i32 {n}, {view.shape[0]}")
        pushes = code.emit(f"and i1 {flag}, {has_room}")
        slot = code.emit(f"select i1 {pushes}, i32 {n}, i32 -1")
        s.memory.store_view(slots, [loop.index], (slot,), 1)

        def write() -> None:
            s.memory.store_view(view, [code.emit(f"zext i32 {n} to i64")], value, 1)
            code.line(f"store i32 {code.emit(f'add i32 {n}, 1')}, ptr {count}, align 4")

        _emit_if(s, pushes, write)
    s.lanes[op.result] = slots


def _lane_components(s: State, value: Value, lane: str) -> Components:
    return s.memory.load_view(s.lanes[value], [lane], 1) if value in s.lanes else s.components(value)


def stack_pop(s: State, op: StackPop) -> None:
    """Lower `stack.pop`: lanes pop in lane order, from the top."""
    count, view = s.stacks[op.stack]
    code, t = s.code, view.dtype
    values, slots = s.lane_array("popped", t), s.lane_array("slot", int32)
    zero = tuple(constant(scalar_of(t), 0) for _ in range(components(t)))
    with code.loop("0", s.present) as loop:
        n = code.emit(f"load i32, ptr {count}, align 4")
        top = code.emit(f"sub i32 {n}, 1")
        s.memory.store_view(values, [loop.index], zero, 1)
        s.memory.store_view(slots, [loop.index], (top,), 1)

        def pop() -> None:
            top_index = [code.emit(f"zext i32 {top} to i64")]
            s.memory.store_view(values, [loop.index], s.memory.load_view(view, top_index, 1), 1)
            code.line(f"store i32 {top}, ptr {count}, align 4")

        _emit_if(s, code.emit(f"icmp sgt i32 {n}, 0"), pop)
    s.lanes[op.results[0]], s.lanes[op.results[1]] = values, slots


__all__ = ["materialise", "reduce", "splat", "store"]
