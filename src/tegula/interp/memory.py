"""Arrays, buffers and stacks: element access, atomics, views."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tegula.errors import InternalError, TypeMismatch
from tegula.interp.machine import Machine, Mask, RunValue, handles
from tegula.ir import ElementAccess, Op, Value
from tegula.ops import scalar
from tegula.ops.array import (
    ArrayAtomic,
    ArrayCas,
    ArrayLoad,
    ArrayShape,
    ArrayStore,
    ArrayTranspose,
    ArrayView,
    array_type,
)
from tegula.ops.base import element
from tegula.ops.buffer import (
    BufExchange,
    BufGet,
    BufNew,
    BufRead,
    BufReshape,
    BufSet,
    BufUpdate,
    BufView,
    BufWrite,
    buffer_type,
)
from tegula.ops.stack import StackClear, StackCount, StackNew, StackPop, StackPush
from tegula.ops.tile import TileExtract, TileSlice

Combine = Callable[..., np.ndarray]

UPDATES: dict[str, Combine] = {
    "add": lambda old, new: scalar.Add.ref({}, old, new),
    "sub": lambda old, new: scalar.Sub.ref({}, old, new),
    "min": lambda old, new: scalar.Min.ref({}, old, new),
    "max": lambda old, new: scalar.Max.ref({}, old, new),
    "and": lambda old, new: scalar.And.ref({}, old, new),
    "or": lambda old, new: scalar.Or.ref({}, old, new),
    "xor": lambda old, new: scalar.Xor.ref({}, old, new),
    "exch": lambda old, new: new,
}


# Elements -------------------------------------------------------------------------------------------------------------


def accesses(
    m: Machine, op: Op, target: Value, indices: Sequence[Value], mask: Mask
) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[np.ndarray, ...]]]:
    """The memory that target[indices] denotes in each active lane: (array, lanes, index arrays of those lanes), lanes
    ascending. Accesses outside are reported and left out."""
    reference = m.env[target]
    at = [m.env[i].astype(np.int64) for i in indices]
    active = np.flatnonzero(mask)
    parts = (
        [(reference[k], active[j : j + 1]) for j, k in enumerate(active)]
        if isinstance(reference, list)
        else [(reference, active)]
    )
    for array, lanes in parts:
        picked = [i[lanes] for i in at]
        inside = np.ones(len(lanes), np.bool_)
        for i, n in zip(picked, array.shape, strict=False):
            inside &= (i >= 0) & (i < n)
        for k in np.flatnonzero(~inside)[:1]:
            shape, index = array.shape[: len(picked)], [int(i[k]) for i in picked]
            m.report.out_of_bounds(op, target, index, shape, m.block, int(lanes[k]))
        selected = tuple(i[inside] for i in picked)
        m.accessed(op, array, lanes[inside], selected)
        yield array, lanes[inside], selected


def _load(m: Machine, op: ArrayLoad | BufGet | TileExtract, mask: Mask) -> np.ndarray:
    out = m.zeros(element(op.results[0].type), m.lanes)
    for array, lanes, at in accesses(m, op, op.target, op.indices, mask):
        out[lanes] = array[at]
    return out


def _store(m: Machine, op: ArrayStore | BufSet, mask: Mask) -> None:
    value = m.env[op.value]
    for array, lanes, at in accesses(m, op, op.target, op.indices, mask):
        array[at] = value[lanes]


def update(
    array: np.ndarray, at: tuple[np.ndarray, ...], operands: Sequence[np.ndarray], combine: Combine
) -> np.ndarray:
    """Update array[at] = combine(array[at], *operands) sequentially by lane; returns the old elements. Operands are [n,
    *element]."""
    old = np.empty_like(operands[0])
    address = sum((i * s for i, s in zip(at, array.strides, strict=False)), np.zeros(len(old), np.int64))
    # Pass k updates the k-th access to each address.
    order = np.argsort(address, kind="stable")
    first = np.r_[True, np.diff(address[order]) != 0][: len(order)]
    position = np.arange(len(order))
    pass_of_access = np.empty(len(order), np.int64)
    pass_of_access[order] = position - np.maximum.accumulate(np.where(first, position, 0))
    for k in range(int(pass_of_access.max(initial=-1)) + 1):
        in_pass = pass_of_access == k
        selected = tuple(i[in_pass] for i in at)
        old[in_pass] = array[selected]
        array[selected] = combine(old[in_pass], *(x[in_pass] for x in operands))
    return old


def _atomic(
    m: Machine,
    op: ElementAccess,
    mask: Mask,
    values: Sequence[Value],
    indices: Sequence[Value],
    combine: Combine,
) -> Any:
    operands = [m.env[v] for v in values]
    out = np.zeros_like(operands[0])
    for array, lanes, at in accesses(m, op, op.target, indices, mask):
        out[lanes] = update(array, at, [x[lanes] for x in operands], combine)
    return out


handles(ArrayLoad, BufGet, TileExtract)(_load)
handles(ArrayStore, BufSet)(_store)


@handles(ArrayAtomic)
def run_atomic(m: Machine, op: ArrayAtomic, mask: Mask) -> Any:
    return _atomic(m, op, mask, [op.value], op.indices, UPDATES[op.op])


@handles(BufUpdate)
def run_update(m: Machine, op: BufUpdate, mask: Mask) -> None:
    _atomic(m, op, mask, [op.value], op.indices, UPDATES[op.op])


@handles(BufExchange)
def run_exchange(m: Machine, op: BufExchange, mask: Mask) -> Any:
    return _atomic(m, op, mask, [op.value], op.indices, UPDATES["exch"])


def swapped(old: np.ndarray, value: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """A compare-and-swap on bits, as in hardware: a NaN equals itself, and -0 is not +0."""
    bits = f"u{old.dtype.itemsize}"
    return np.where(old.view(bits) == expected.view(bits), value, old)


@handles(ArrayCas)
def run_cas(m: Machine, op: ArrayCas, mask: Mask) -> Any:
    return _atomic(m, op, mask, [op.value, op.expected], op.indices, swapped)


# Views of arrays ------------------------------------------------------------------------------------------------------


@handles(ArrayShape)
def run_shape(m: Machine, op: ArrayShape, mask: Mask) -> Any:
    reference, dim = m.env[op.array], op.dim
    out = np.zeros(m.lanes, np.int32)
    for lane in np.flatnonzero(mask):
        n = (reference[lane] if isinstance(reference, list) else reference).shape[dim]
        if n >= 2**31:
            raise TypeMismatch(
                op.loc, what=f"the length {n} of an array is used here as an int32, which cannot represent it"
            )
        out[lane] = n
    return out


@handles(ArrayView)
def run_array_view(m: Machine, op: ArrayView, mask: Mask) -> Any:
    return _per_lane(m, op, op.array, op.bounds, mask, _array_view)


@handles(ArrayTranspose)
def run_array_transpose(m: Machine, op: ArrayTranspose, mask: Mask) -> Any:
    return _per_lane(m, op, op.array, (), mask, _array_transpose)


@handles(BufView)
def run_buf_view(m: Machine, op: BufView, mask: Mask) -> Any:
    return _per_lane(m, op, op.buffer, op.starts, mask, _buf_view)


def _per_lane(
    m: Machine, op: Op, viewed: Value, indices: Sequence[Value], mask: Mask, view: Callable[..., np.ndarray]
) -> RunValue:
    """One view if it is the same in all active lanes, else a view for each lane."""
    reference = m.env[viewed]
    numbers = np.array([m.env[v].astype(np.int64) for v in indices]).reshape(-1, m.lanes)
    active = np.flatnonzero(mask)
    is_uniform = (numbers[:, active] == numbers[:, active[:1]]).all()
    if is_uniform and not isinstance(reference, list):
        return view(m, op, reference, numbers[:, active[0]].tolist(), int(active[0]))
    arrays = m.each(reference)
    out = list(arrays)
    for lane in active:
        out[lane] = view(m, op, arrays[lane], numbers[:, lane].tolist(), int(lane))
    return out


def _array_transpose(
    m: Machine, op: ArrayTranspose, array: np.ndarray, numbers: list[int], lane: int
) -> np.ndarray:
    # Components of elements are further dimensions.
    rank = array_type(op.array.type).ndim
    return array.swapaxes(rank - 2, rank - 1)


def _array_view(m: Machine, op: ArrayView, array: np.ndarray, numbers: list[int], lane: int) -> np.ndarray:
    rest = iter(numbers)
    index: list[int | slice] = []
    outside: list[int] = []
    for entry, n in zip(op.spec, array.shape, strict=False):
        first = next(rest)
        if entry == "index":
            outside += [] if 0 <= first < n else [first]
            index.append(first)
            continue
        step, count = entry[1], max(0, next(rest))
        last = first + (count - 1) * step
        if count == 0:
            index.append(slice(0, 0))
        else:
            outside += [i for i in (first, last) if not 0 <= i < n]
            stop = last + (1 if step > 0 else -1)
            index.append(slice(first, stop if stop >= 0 else None, step))
    if outside:
        m.report.out_of_bounds(op, op.array, outside, array.shape[: len(index)], m.block, lane)
        rank = sum(isinstance(i, slice) for i in index)
        return np.zeros((0,) * rank + array.shape[len(index) :], array.dtype)
    return array[tuple(index)]


# Buffers --------------------------------------------------------------------------------------------------------------


def view_range(op: BufView | TileSlice, numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last index that a view of a tile accesses in each dimension of the tile."""
    ranges = [(n, n) for n in numbers]
    for n, dim, step in zip(op.shape, op.dims, op.steps, strict=True):
        if dim >= 0:
            low, high = ranges[dim]
            span = (n - 1) * step
            ranges[dim] = (low + min(span, 0), high + max(span, 0))
    return ranges


def inside_tile(
    m: Machine, op: BufView | TileSlice, tile: np.ndarray, numbers: Sequence[int], lane: int
) -> bool:
    """Whether a view or slice stays inside the tile; reported if not."""
    for (low, high), n in zip(view_range(op, numbers), tile.shape, strict=False):
        if low < 0 or high >= n:
            shape = tile.shape[: len(numbers)]
            m.report.out_of_bounds(
                op, op.buffer if isinstance(op, BufView) else op.tile, numbers, shape, m.block, lane
            )
            return False
    return True


def _buf_view(
    m: Machine, op: BufView | TileSlice, buffer: np.ndarray, numbers: list[int], lane: int
) -> np.ndarray:
    element = buffer.shape[len(numbers) :]
    shape, dims, steps = op.shape, op.dims, op.steps
    if not inside_tile(m, op, buffer, numbers, lane):
        return np.zeros((*shape, *element), buffer.dtype)
    strides = [buffer.strides[d] * s if d >= 0 else 0 for d, s in zip(dims, steps, strict=True)]
    # The view is not a NumPy slice, because several dimensions of the view, or none, may step along one dimension.
    origin = buffer[tuple(slice(n, None) for n in numbers)]
    # NumPy makes strided views of built-in dtypes only.
    typed_origin = origin.view(np.uint8) if buffer.dtype.itemsize == 1 else origin
    view = as_strided(
        typed_origin,
        (*shape, *element),
        (*strides, *buffer.strides[len(numbers) :]),
        writeable=-1 not in dims,
    )
    return view.view(buffer.dtype)


@handles(BufNew)
def run_new(m: Machine, op: BufNew, mask: Mask) -> Any:
    return m.new_buffer(op)


@handles(BufRead)
def run_read(m: Machine, op: BufRead, mask: Mask) -> Any:
    return m.group(op.buffer).copy()


@handles(BufWrite)
def run_write(m: Machine, op: BufWrite, mask: Mask) -> None:
    target = m.group(op.buffer)
    if not target.flags.writeable:
        raise InternalError(f"{op.loc}: a write to a broadcast view")
    target[...] = m.env[op.tile]


@handles(BufReshape)
def run_reshape(m: Machine, op: BufReshape, mask: Mask) -> Any:
    reference = m.env[op.buffer]
    rank = len(buffer_type(op.buffer.type).shape)

    def reshaped(buffer: np.ndarray) -> np.ndarray:
        result = buffer.reshape((*op.shape, *buffer.shape[rank:]))
        if not np.may_share_memory(result, buffer):
            raise InternalError(f"{op.loc}: a reshape of a view whose elements are not packed")
        return result

    if not isinstance(reference, list):
        return reshaped(reference)
    # Inactive lanes hold no view, because they did not run the op that created the view.
    return [reshaped(b) if active else b for b, active in zip(reference, mask, strict=True)]


# Stacks ---------------------------------------------------------------------------------------------------------------


@handles(StackNew)
def run_stack_new(m: Machine, op: StackNew, mask: Mask) -> Any:
    return m.new_stack(op)


@handles(StackPush)
def run_push(m: Machine, op: StackPush, mask: Mask) -> Any:
    stack, value, flag = (m.env[v] for v in op.operands)
    slots = np.full(m.lanes, -1, np.int32)
    pushing = np.flatnonzero(mask & flag)[: len(stack.elements) - stack.count]
    slots[pushing] = stack.count + np.arange(len(pushing))
    stack.elements[slots[pushing]] = value[pushing]
    stack.count += len(pushing)
    return slots


@handles(StackPop)
def run_pop(m: Machine, op: StackPop, mask: Mask) -> Any:
    stack = m.env[op.stack]
    slots = np.full(m.lanes, -1, np.int32)
    values = np.zeros((m.lanes, *stack.elements.shape[1:]), stack.elements.dtype)
    popping = np.flatnonzero(mask)[: stack.count]
    slots[popping] = stack.count - 1 - np.arange(len(popping))
    values[popping] = stack.elements[slots[popping]]
    stack.count -= len(popping)
    return values, slots


@handles(StackClear)
def run_clear(m: Machine, op: StackClear, mask: Mask) -> None:
    m.env[op.stack].count = 0


@handles(StackCount)
def run_count(m: Machine, op: StackCount, mask: Mask) -> Any:
    return np.full(m.lanes, m.env[op.stack].count, np.int32)
