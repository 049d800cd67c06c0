"""Which threads touch which elements of memory in each cooperative op. Scalar ops say so themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tegula.dataclass import dataclass
from tegula.interp.holders import Held, held
from tegula.interp.tiles import tile_of
from tegula.ir import Op, Value
from tegula.layout import Layout, blocked
from tegula.ops.buffer import buffer_type
from tegula.ops.tile import TileEmpty
from tegula.types import ArrayType, element_bytes

if TYPE_CHECKING:
    from tegula.interp.lowered import GroupMachine

WARP = 32
COPY_BYTES = 16
"""Of one asynchronous copy, the widest."""


@dataclass(frozen=True, slots=True)
class Touch:
    """Threads [n] touch array[at], `at` [rank, n], all at the same time."""

    kind: str
    array: np.ndarray
    threads: np.ndarray
    at: np.ndarray


Rule = Callable[["GroupMachine", Op], Iterator[Touch]]
RULES: dict[str, Rule] = {}


def touches(*names: str) -> Callable[[Rule], Rule]:
    """Make a function the rule of the ops called so. It is asked after the op has run."""

    def register(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
        return rule

    return register


# Buffers ----------------------------------------------------------------------------------------------------


def _elements(kind: str, array: np.ndarray, pairs: Held) -> Touch:
    return Touch(kind, array, pairs.threads, pairs.at)


@touches("buf.new")
def touch_new(m: GroupMachine, op: Op) -> Iterator[Touch]:
    if not isinstance(op.operands[0].owner, TileEmpty):
        yield _elements("write", m.env[op.results[0]], held(m.layouts[op.operands[0]]).owned)


@touches("buf.write")
def touch_write(m: GroupMachine, op: Op) -> Iterator[Touch]:
    yield _elements("write", m.group(op.operands[0]), held(m.layouts[op.operands[1]]).owned)


@touches("buf.read")
def touch_read(m: GroupMachine, op: Op) -> Iterator[Touch]:
    yield _elements("read", m.group(op.operands[0]), held(m.layouts[op.results[0]]))


@touches("group.gather")
def touch_gather(m: GroupMachine, op: Op) -> Iterator[Touch]:
    """Indices outside read the first element, whose value is not used."""
    source, index = (m.group(v) for v in op.operands)
    axis, pairs = op.attrs["axis"], held(m.layouts[op.results[0]])
    yield Touch("read", index, pairs.threads, pairs.at[axis : axis + 1])
    n = source.shape[axis]
    wanted = index.astype(np.int64)[pairs.at[axis]]
    wanted = np.where(wanted < 0, wanted + n, wanted)
    at = pairs.at.copy()
    at[axis] = np.where((wanted >= 0) & (wanted < n), wanted, 0)
    yield Touch("read", source, pairs.threads, at)


@touches("group.product")
def touch_product(m: GroupMachine, op: Op) -> Iterator[Touch]:
    """A thread reads the rows of a and columns of b that its part of the result needs; where tensor cores multiply,
    threads of a warp read for each other."""
    a, b = (m.group(v) for v in op.operands[:2])
    pairs = held(m.layouts[op.results[0]])
    threads = pairs.threads
    cooperative = element_bytes(buffer_type(op.operands[0].type).dtype) == 2
    depth = np.arange(a.shape[1])
    for array, dim in ((a, 0), (b, 1)):
        who, line = np.unique(np.array([threads // WARP if cooperative else threads, pairs.at[dim]]), axis=1)
        if cooperative:
            who = (who[:, None] * WARP + np.arange(WARP)).reshape(-1)
            line = np.repeat(line, WARP)
        along = np.tile(depth, len(line))
        across = np.repeat(line, len(depth))
        at = np.array([across, along] if dim == 0 else [along, across])
        yield Touch("read", array, np.repeat(who, len(depth)), at)


# Arrays -----------------------------------------------------------------------------------------------------


def _window(
    m: GroupMachine, array: np.ndarray, offsets: Sequence[Value], pairs: Held, partial: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """The pairs of a tile at offsets of an array that lie inside, and whose lanes are there."""
    starts = np.array([int(m.group(v)) for v in offsets])
    at = pairs.at + starts[:, None]
    inside = (at >= 0) & (at < np.array(array.shape[: len(starts)])[:, None])
    keep = inside.all(axis=0)
    if partial:
        keep &= pairs.at[-1] < m.count
    return pairs.threads[keep], at[:, keep]


@touches("tile.load")
def touch_load(m: GroupMachine, op: Op) -> Iterator[Touch]:
    array = m.group(op.operands[0])
    yield Touch("read", array, *_window(m, array, op.operands[2:], held(m.layouts[op.results[0]])))


@touches("tile.store", "tile.atomic")
def touch_store(m: GroupMachine, op: Op) -> Iterator[Touch]:
    array, tile = m.group(op.operands[0]), op.operands[1]
    pairs = held(m.layouts[tile]).owned
    kind = "write" if op.NAME == "tile.store" else "atomic"
    yield Touch(kind, array, *_window(m, array, op.operands[2:], pairs, tile_of(tile).partial))


def copy_layout(op: Op, threads: int) -> Layout:
    """Which thread copies what in `group.async_copy`."""
    array = op.operands[1].type
    assert isinstance(array, ArrayType)
    shape = buffer_type(op.operands[0].type).shape
    return blocked(shape, threads, COPY_BYTES // element_bytes(array.dtype))


@touches("group.async_copy")
def touch_copy(m: GroupMachine, op: Op) -> Iterator[Touch]:
    buffer, array = (m.group(v) for v in op.operands[:2])
    pairs = held(copy_layout(op, m.threads)).owned
    yield Touch("read", array, *_window(m, array, op.operands[2:], pairs))
    yield _elements("issue", buffer, pairs)


# Exchanges --------------------------------------------------------------------------------------------------


def _each(kind: str, array: np.ndarray, threads: np.ndarray, at: np.ndarray) -> Touch:
    """Each thread touches one element of a line."""
    return Touch(kind, array, threads, at[None])


def _all(m: GroupMachine, array: np.ndarray, count: int) -> Touch:
    """All threads read the first so many elements."""
    return _each("read", array, np.repeat(np.arange(m.threads), count), np.tile(np.arange(count), m.threads))


@touches("group.publish")
def touch_publish(m: GroupMachine, op: Op) -> Iterator[Touch]:
    lane = int(m.group(op.operands[2]))
    writer = lane if 0 <= lane < m.count else 0
    yield _each("write", m.group(op.operands[0]), np.array([writer]), np.array([0]))


@touches("group.scan", "group.stack_vote")
def touch_totals(m: GroupMachine, op: Op) -> Iterator[Touch]:
    """A thread of each warp: its last one for a scan, its first one for a vote."""
    array = m.group(op.operands[2] if op.NAME == "group.scan" else op.operands[0])
    warps = np.arange(m.threads // WARP)
    lane = WARP - 1 if op.NAME == "group.scan" else 0
    yield _each("write", array, warps * WARP + lane, warps)


@touches("group.add_prefix")
def touch_prefix(m: GroupMachine, op: Op) -> Iterator[Touch]:
    yield _all(m, m.group(op.operands[2]), m.threads // WARP - 1)


# Stacks -----------------------------------------------------------------------------------------------------

FIRST = np.array([0])


@touches("stack.new", "stack.clear")
def touch_empty(m: GroupMachine, op: Op) -> Iterator[Touch]:
    stack = m.env[(op.results or op.operands)[0]]
    yield _each("write", stack.memory, FIRST, FIRST)


@touches("stack.count")
def touch_count(m: GroupMachine, op: Op) -> Iterator[Touch]:
    memory = m.env[op.operands[0]].memory
    lanes = np.flatnonzero(m.active)
    yield _each("read", memory, lanes, 0 * lanes) if m.apart else _all(m, memory, 1)


@touches("group.stack_fill")
def touch_fill(m: GroupMachine, op: Op) -> Iterator[Touch]:
    stack = m.env[op.operands[0]]
    yield _all(m, stack.memory, 1)
    yield _all(m, m.group(op.operands[1]), m.threads // WARP - 1)
    yield _slots(m, "write", stack.elements, op.results[0])


@touches("group.stack_take")
def touch_take(m: GroupMachine, op: Op) -> Iterator[Touch]:
    stack = m.env[op.operands[0]]
    yield _all(m, stack.memory, 1)
    yield _slots(m, "read", stack.elements, op.results[1])


def _slots(m: GroupMachine, kind: str, elements: np.ndarray, slots: Value) -> Touch:
    """Each lane that has a slot touches it."""
    at = m.env[slots].astype(np.int64)
    lanes = np.flatnonzero(m.present & (at >= 0))
    return _each(kind, elements, lanes, at[lanes])


@touches("group.stack_advance")
def touch_advance(m: GroupMachine, op: Op) -> Iterator[Touch]:
    stack = m.env[op.operands[0]]
    yield _each("read", stack.memory, FIRST, FIRST)
    for votes in op.operands[1:]:
        warps = np.arange(m.threads // WARP)
        yield _each("read", m.group(votes), 0 * warps, warps)
    yield _each("write", stack.memory, FIRST, FIRST)
