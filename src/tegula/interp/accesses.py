"""The memory accesses of cooperative ops, by thread and element. Scalar ops report their accesses themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from tegula.dataclass import dataclass
from tegula.interp.holders import HeldElements, held_elements
from tegula.interp.tiles import tile_of
from tegula.ir import Op, ScatteredAccess, Value
from tegula.layout import Layout, blocked
from tegula.ops.array_gather import ArrayGather, ArrayScatter, ArrayScatterAtomic, ArrayScatterCas
from tegula.ops.buffer import BufNew, BufRead, BufWrite, buffer_type
from tegula.ops.group import (
    AsyncCopy,
    GatherEach,
    Publish,
    SharedGather,
    SharedMma,
    StackAdvance,
    StackFill,
    StackTake,
    StackVote,
)
from tegula.ops.stack import StackClear, StackCount, StackNew
from tegula.ops.tile import TileAtomic, TileEmpty, TileLoad, TileStore
from tegula.types import ArrayType, element_bytes

if TYPE_CHECKING:
    from tegula.interp.lowered import GroupMachine

WARP = 32
COPY_BYTES = 16
"""The largest number of bytes that one asynchronous copy of a thread moves."""


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """A simultaneous access by several threads: each of `threads` [n] accesses one element array[at], `at` [rank,
    n]."""

    kind: str
    array: np.ndarray
    threads: np.ndarray
    at: np.ndarray


AnyOp = TypeVar("AnyOp", bound=Op)
Rule: TypeAlias = Callable[["GroupMachine", AnyOp], Iterator[ThreadAccess]]
RULES: dict[type[Op], Callable[..., Iterator[ThreadAccess]]] = {}


def accesses(*kinds: type[AnyOp]) -> Callable[[Rule[AnyOp]], Rule[AnyOp]]:
    """Register a function as the rule of ops of these classes. The rule is called after the op has run."""

    def register(rule: Rule[AnyOp]) -> Rule[AnyOp]:
        for kind in kinds:
            RULES[kind] = rule
        return rule

    return register


# Buffers ----------------------------------------------------------------------------------------------------


def _elements(kind: str, array: np.ndarray, pairs: HeldElements) -> ThreadAccess:
    return ThreadAccess(kind, array, pairs.threads, pairs.at)


@accesses(BufNew)
def access_new(m: GroupMachine, op: BufNew) -> Iterator[ThreadAccess]:
    if not isinstance(op.tile.owner, TileEmpty):
        yield _elements("write", m.env[op.results[0]], held_elements(m.layouts[op.tile]).owned)


@accesses(BufWrite)
def access_write(m: GroupMachine, op: BufWrite) -> Iterator[ThreadAccess]:
    yield _elements("write", m.group(op.buffer), held_elements(m.layouts[op.tile]).owned)


@accesses(BufRead)
def access_read(m: GroupMachine, op: BufRead) -> Iterator[ThreadAccess]:
    yield _elements("read", m.group(op.buffer), held_elements(m.layouts[op.results[0]]))


@accesses(SharedGather)
def access_gather(m: GroupMachine, op: SharedGather) -> Iterator[ThreadAccess]:
    """The accesses of a gather. Indices out of bounds read the first element of the axis, whose value is not used."""
    source, index = (m.group(v) for v in op.operands)
    axis, pairs = op.axis, held_elements(m.layouts[op.results[0]])
    yield ThreadAccess("read", index, pairs.threads, pairs.at[axis : axis + 1])
    n = source.shape[axis]
    index_of_axis = index.astype(np.int64)[pairs.at[axis]]
    index_of_axis = np.where(index_of_axis < 0, index_of_axis + n, index_of_axis)
    at = pairs.at.copy()
    at[axis] = np.where((index_of_axis >= 0) & (index_of_axis < n), index_of_axis, 0)
    yield ThreadAccess("read", source, pairs.threads, at)


@accesses(GatherEach)
def access_gather_each(m: GroupMachine, op: GatherEach) -> Iterator[ThreadAccess]:
    """The accesses of a gather by indices in registers. Indices out of bounds read the first element, whose value is
    not used."""
    source, pairs = m.group(op.buffer), held_elements(m.layouts[op.result])
    index = m.env[op.index].astype(np.int64)[tuple(pairs.at)]
    index = np.where(index < 0, index + len(source), index)
    yield ThreadAccess(
        "read", source, pairs.threads, np.where((index >= 0) & (index < len(source)), index, 0)[None]
    )


@accesses(SharedMma)
def access_mma(m: GroupMachine, op: SharedMma) -> Iterator[ThreadAccess]:
    """The reads of an MMA: each thread reads the rows of a and columns of b that its part of the result needs; on
    tensor cores, every thread of a warp reads the union of their elements."""
    a, b = m.group(op.a), m.group(op.b)
    pairs = held_elements(m.layouts[op.result])
    threads = pairs.threads
    cooperative = element_bytes(buffer_type(op.a.type).dtype) == 2
    depth = np.arange(a.shape[1])
    for array, dim in ((a, 0), (b, 1)):
        warps, line = np.unique(
            np.array([threads // WARP if cooperative else threads, pairs.at[dim]]), axis=1
        )
        if cooperative:
            warps = (warps[:, None] * WARP + np.arange(WARP)).reshape(-1)
            line = np.repeat(line, WARP)
        along = np.tile(depth, len(line))
        across = np.repeat(line, len(depth))
        at = np.array([across, along] if dim == 0 else [along, across])
        yield ThreadAccess("read", array, np.repeat(warps, len(depth)), at)


# Arrays -----------------------------------------------------------------------------------------------------


def _window(
    m: GroupMachine, array: np.ndarray, offsets: Sequence[Value], pairs: HeldElements, partial: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The accesses of a tile at offsets of an array, by thread: the elements in bounds of present lanes."""
    starts = np.array([int(m.group(v)) for v in offsets])
    at = pairs.at + starts[:, None]
    inside = (at >= 0) & (at < np.array(array.shape[: len(starts)])[:, None])
    is_accessed = inside.all(axis=0)
    if partial:
        is_accessed &= pairs.at[-1] < m.count
    return pairs.threads[is_accessed], at[:, is_accessed]


@accesses(TileLoad)
def access_load(m: GroupMachine, op: TileLoad) -> Iterator[ThreadAccess]:
    array = m.group(op.array)
    yield ThreadAccess("read", array, *_window(m, array, op.offset, held_elements(m.layouts[op.results[0]])))


@accesses(TileStore, TileAtomic)
def access_store(m: GroupMachine, op: TileAtomic | TileStore) -> Iterator[ThreadAccess]:
    array, tile = m.group(op.array), op.tile
    pairs = held_elements(m.layouts[tile]).owned
    kind = "write" if isinstance(op, TileStore) else "atomic"
    yield ThreadAccess(kind, array, *_window(m, array, op.offset, pairs, tile_of(tile).partial))


@accesses(ArrayGather, ArrayScatter, ArrayScatterAtomic, ArrayScatterCas)
def access_scattered(m: GroupMachine, op: ScatteredAccess) -> Iterator[ThreadAccess]:
    """The accesses of the selected elements that are present and whose coordinates are inside the array."""
    array, layout = m.group(op.array), held_elements(m.layouts[op.where])
    reads = isinstance(op, ArrayGather)
    pairs = layout if reads else layout.owned
    at = np.array([m.env[v][tuple(pairs.at)] for v in op.at])
    is_accessed = m.env[op.where][tuple(pairs.at)] & (at >= 0).all(axis=0)
    is_accessed &= (at < np.array(array.shape[: len(at)])[:, None]).all(axis=0)
    if isinstance(op, ArrayScatter | ArrayScatterAtomic | ArrayScatterCas) and tile_of(op.tile).partial:
        is_accessed &= pairs.at[-1] < m.count
    kind = "read" if reads else "write" if isinstance(op, ArrayScatter) else "atomic"
    yield ThreadAccess(kind, array, pairs.threads[is_accessed], at[:, is_accessed])


def copy_layout(op: AsyncCopy, threads: int) -> Layout:
    """The layout by which the threads of `group.async_copy` divide the copy."""
    array = op.array.type
    assert isinstance(array, ArrayType)
    shape = buffer_type(op.buffer.type).shape
    return blocked(shape, threads, COPY_BYTES // element_bytes(array.dtype))


@accesses(AsyncCopy)
def access_copy(m: GroupMachine, op: AsyncCopy) -> Iterator[ThreadAccess]:
    buffer, array = (m.group(v) for v in (op.buffer, op.array))
    pairs = held_elements(copy_layout(op, m.threads)).owned
    yield ThreadAccess("read", array, *_window(m, array, op.offset, pairs))
    yield _elements("issue", buffer, pairs)


# Exchanges --------------------------------------------------------------------------------------------------


def _one_each(kind: str, array: np.ndarray, threads: np.ndarray, at: np.ndarray) -> ThreadAccess:
    """An access of one element of a line by each thread."""
    return ThreadAccess(kind, array, threads, at[None])


def _read_by_all(m: GroupMachine, array: np.ndarray, count: int) -> ThreadAccess:
    """A read of the first `count` elements by all threads."""
    return _one_each(
        "read", array, np.repeat(np.arange(m.threads), count), np.tile(np.arange(count), m.threads)
    )


@accesses(Publish)
def access_publish(m: GroupMachine, op: Publish) -> Iterator[ThreadAccess]:
    lane = int(m.group(op.thread))
    writer = lane if 0 <= lane < m.count else 0
    yield _one_each("write", m.group(op.buffer), np.array([writer]), np.array([0]))


@accesses(StackVote)
def access_votes(m: GroupMachine, op: StackVote) -> Iterator[ThreadAccess]:
    """The accesses of a vote: the first thread of each warp writes."""
    warps = np.arange(m.threads // WARP)
    yield _one_each("write", m.group(op.votes), warps * WARP, warps)


# Stacks -----------------------------------------------------------------------------------------------------

FIRST_THREAD = np.array([0])


@accesses(StackNew, StackClear)
def access_empty(m: GroupMachine, op: StackClear | StackNew) -> Iterator[ThreadAccess]:
    stack = m.env[op.result if isinstance(op, StackNew) else op.stack]
    yield _one_each("write", stack.memory, FIRST_THREAD, FIRST_THREAD)


@accesses(StackCount)
def access_count(m: GroupMachine, op: StackCount) -> Iterator[ThreadAccess]:
    memory = m.env[op.stack].memory
    lanes = np.flatnonzero(m.active)
    yield _one_each("read", memory, lanes, 0 * lanes) if m.independent else _read_by_all(m, memory, 1)


@accesses(StackFill)
def access_fill(m: GroupMachine, op: StackFill) -> Iterator[ThreadAccess]:
    stack = m.env[op.stack]
    yield _read_by_all(m, stack.memory, 1)
    yield _read_by_all(m, m.group(op.votes), m.threads // WARP - 1)
    yield _slots(m, "write", stack.elements, op.results[0])


@accesses(StackTake)
def access_take(m: GroupMachine, op: StackTake) -> Iterator[ThreadAccess]:
    stack = m.env[op.stack]
    yield _read_by_all(m, stack.memory, 1)
    yield _slots(m, "read", stack.elements, op.results[1])


def _slots(m: GroupMachine, kind: str, elements: np.ndarray, slots: Value) -> ThreadAccess:
    """An access of slots by the lanes that have one."""
    at = m.env[slots].astype(np.int64)
    lanes = np.flatnonzero(m.present & (at >= 0))
    return _one_each(kind, elements, lanes, at[lanes])


@accesses(StackAdvance)
def access_advance(m: GroupMachine, op: StackAdvance) -> Iterator[ThreadAccess]:
    stack = m.env[op.stack]
    yield _one_each("read", stack.memory, FIRST_THREAD, FIRST_THREAD)
    if op.votes is not None:
        warps = np.arange(m.threads // WARP)
        yield _one_each("read", m.group(op.votes), 0 * warps, warps)
    yield _one_each("write", stack.memory, FIRST_THREAD, FIRST_THREAD)
