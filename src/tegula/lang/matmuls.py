"""Dataflow analysis of matmuls in flight: the accumulators that each `tile.matmul_wait` completes, and errors for uses
of tiles before the wait.

Matmuls complete in order, so that the state is a queue of matmuls in flight, newest first: each position holds the set
of possible matmuls. The join at a loop header is iterated to a fixpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tegula.dataclass import dataclass
from tegula.errors import CompileError, MatmulInFlight
from tegula.ir import Builder, CallLike, Op, Region, Value, root
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView, BufWrite
from tegula.ops.control import For, If, While
from tegula.ops.linear import TileMatmul, TileMatmulWait, in_flight
from tegula.ops.roles import PipePop, PipeRelease, Roles
from tegula.ops.schedule import BulkLoad
from tegula.ops.tile import TilePermute, TileReshape, TileSlice
from tegula.source import Location
from tegula.types import BufType

Queue: TypeAlias = tuple[frozenset[TileMatmul], ...]
MAX_DEPTH = 16
"""The maximum length of a queue; older matmuls share the last position."""


def wait_for_matmuls(body: Region) -> list[CompileError]:
    """Set the accumulators of each wait, and return an error for each use of a tile before its wait."""
    waits = [op for op in body.walk() if isinstance(op, TileMatmulWait)]
    if not waits and not any(map(in_flight, body.walk())):
        return []
    walk = _Walk()
    walk.region(body, ())
    for wait in waits:
        _complete(wait, walk.accumulators_of.get(wait, {}))
    return list(walk.errors.values())


@dataclass(slots=True)
class _Walk:
    """A walk over a kernel. `accumulators_of`: the accumulators in flight at each wait. `errors`: by location of the
    use."""

    accumulators_of: dict[Op, dict[Value, None]]
    errors: dict[Location, CompileError]

    def __init__(self) -> None:
        self.accumulators_of, self.errors = {}, {}

    def region(self, region: Region, queue: Queue) -> Queue:
        """Walk a region and return the queue of matmuls in flight at its end."""
        for op in region.ops:
            queue = self._op(op, queue)
        return queue

    def _op(self, op: Op, queue: Queue) -> Queue:
        if isinstance(op, If):
            return _join_queues(*(self.region(r, queue) for r in op.regions))
        if isinstance(op, For | While):
            return self._loop(op, queue)
        if isinstance(op, Roles):
            for role in op.regions:
                self.region(role, ())
            return queue
        if isinstance(op, CallLike):
            for region in op.regions:
                self.region(region, ())
            return queue
        if isinstance(op, TileMatmulWait):
            accumulators = self.accumulators_of.setdefault(op, {})
            accumulators.update(dict.fromkeys(_accumulator(p) for group in reversed(queue) for p in group))
            return queue[: op.pending]
        self._check(op, queue)
        if not in_flight(op):
            return queue
        assert isinstance(op, TileMatmul)
        *newest, last = (frozenset((op,)), *queue, frozenset[TileMatmul]())[: MAX_DEPTH + 1]
        return (*newest, last) if last else tuple(newest)

    def _loop(self, op: Op, queue: Queue) -> Queue:
        while True:
            after = queue
            for region in op.regions:
                after = self.region(region, after)
            joined = _join_queues(queue, after)
            if joined == queue:
                return queue
            queue = joined

    def _check(self, op: Op, queue: Queue) -> None:
        """Record an error if the op uses an accumulator, or changes an operand, of a matmul in flight."""
        for matmul in (p for group in queue for p in group):
            accumulator = _accumulator(matmul)
            if _accesses(op, accumulator):
                self._error(op, matmul, "uses" if _reads(op) else "changes", accumulator, "adds to")
            for operand in _operands(matmul):
                if _changes(op, operand):
                    verb = "releases the stage of" if isinstance(op, PipeRelease) else "changes"
                    self._error(op, matmul, verb, operand, "reads")

    def _error(self, op: Op, matmul: Op, verb: str, tile: Value, role: str) -> None:
        name = f"'{tile.name}'" if tile.name else "a tile"
        notes = [(matmul.loc, "the matmul")]
        self.errors.setdefault(
            op.loc, MatmulInFlight(op.loc, what=f"this op {verb} {name}", role=role, notes=notes)
        )


def _join_queues(*queues: Queue) -> Queue:
    """The queue of matmuls that may be in flight where paths join."""
    longest = max(map(len, queues))
    return tuple(frozenset().union(*(q[k] for q in queues if k < len(q))) for k in range(longest))


def _accumulator(matmul: TileMatmul) -> Value:
    """The tile that a matmul adds to."""
    read = matmul.c.owner
    assert isinstance(read, BufRead)
    return root(read.buffer)


def _operands(matmul: TileMatmul) -> Iterator[Value]:
    """The tile objects that a matmul reads in place."""
    for value in (matmul.a, matmul.b):
        owner = value.owner
        while isinstance(owner, TilePermute | TileReshape | TileSlice):
            owner = owner.tile.owner
        if isinstance(owner, BufRead):
            yield root(owner.buffer)


def _accesses(op: Op, tile: Value) -> bool:
    """Whether an op reads or writes a tile, other than to accumulate a matmul in it."""
    if isinstance(op, BufView | BufReshape | BufNew) or not any(
        root(v) is tile for v in op.operands if _is_buffer(v)
    ):
        return False
    if isinstance(op, BufWrite):
        return not (isinstance(op.tile.owner, Op) and in_flight(op.tile.owner))
    return not (isinstance(op, BufRead) and _only_added_to(op))


def _only_added_to(read: Op) -> bool:
    """Whether the only uses of a value that is read from a tile are as the accumulator of matmuls in flight."""
    assert read.parent is not None
    users = [
        (user, k) for user in read.parent.walk() for k, v in enumerate(user.operands) if v is read.result
    ]
    return all(in_flight(user) and k == 2 for user, k in users)


def _reads(op: Op) -> bool:
    return not any(e.kind in ("write", "atomic") for e in op.effects())


def _changes(op: Op, tile: Value) -> bool:
    """Whether an op changes a tile. Bulk copies are not counted, because the schedule checker handles the stages that
    they write."""
    if isinstance(op, PipeRelease):
        return isinstance(tile.owner, PipePop) and tile.owner.pipe is op.pipe
    changed = (e.value for e in op.effects() if e.kind in ("write", "atomic"))
    return not isinstance(op, BufNew | BulkLoad) and any(
        _is_buffer(v) and root(v) is tile for v in changed if v is not None
    )


def _is_buffer(value: Value) -> bool:
    return isinstance(value.type, BufType)


def _complete(wait: Op, accumulators: dict[Value, None]) -> None:
    """Replace a wait by one that reads and writes its accumulators; remove a wait that has none."""
    region = wait.parent
    assert region is not None
    replacement = Region()
    build = Builder(replacement, wait.loc)
    reads = [build.insert(BufRead.typed([x])).result for x in accumulators]
    if reads:
        types = [v.type for v in reads]
        completed = build.insert(TileMatmulWait(reads, types, wait.attrs))
        for x, value in zip(accumulators, completed.results, strict=True):
            build.insert(BufWrite([x, value]))
    at = region.ops.index(wait)
    region.ops[at : at + 1] = replacement.ops
    for op in replacement.ops:
        op.parent = region
