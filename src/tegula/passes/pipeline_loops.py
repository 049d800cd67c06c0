"""Software pipelining of loops over `tg.pipelined`: tiles that are loaded into buffers are prefetched some iterations
ahead, by asynchronous copies into a ring of stages.

A load is prefetched if its only use is to fill one buffer, its offsets are computed from the loop's index and
loop-invariant values, no access in the loop may write its array, and elements out of bounds are 0. Iteration k waits
for its own copies, starts the copies of iteration k + stages - 1 into the stage that iteration k - 1 has read, and
computes on stage k mod stages. Copies are started at the end of an iteration, so that they do not delay its
computation; in memory-bound loops, whose loads are marked as `unwritten`, copies are started at the beginning."""

from __future__ import annotations

from tegula.dataclass import dataclass
from tegula.ir import Builder, ConstantLike, Kernel, Op, Region, Value
from tegula.ir.rewrite import clone_op, replace, uses
from tegula.ops import scalar as S
from tegula.ops.array import ArrayView
from tegula.ops.buffer import BufNew, BufRead, BufView
from tegula.ops.control import For, If, Yield
from tegula.ops.group import AsyncCommit, AsyncCopy, AsyncWait, SharedMma
from tegula.ops.tile import TileEmpty, TileLoad
from tegula.passes.overlap import array_root, writes
from tegula.passes.runner import GpuCompilation
from tegula.types import DTYPES, BufType, DType, TileType, bool_, components, element_bytes, int32

MIN_BYTES = 4
"""The granularity of rows that can be copied asynchronously, in bytes."""
UNSIGNED = tuple(t for t in DTYPES.values() if t.kind == "u")


def pipeline_loops(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite pipelined loops of the kernel in place."""
    _region(kernel, kernel.body)


def _region(kernel: Kernel, region: Region) -> None:
    for op in list(region.ops):
        for nested in op.regions:
            _region(kernel, nested)
        if isinstance(op, For) and op.stages > 1:
            fetches = _fetches(kernel, op)
            if fetches:
                _Pipelining(op, region, fetches).run()


@dataclass(frozen=True, slots=True)
class _Fetch:
    """A load, the buffer that it fills, and the ops of the loop that compute its offsets, in order."""

    load: TileLoad
    buffer: BufNew
    slice: tuple[Op, ...]


def _fetches(kernel: Kernel, loop: For) -> list[_Fetch]:
    """The loads that can be prefetched; none if the loop does not run from 0 in steps of 1."""
    body = loop.body
    users = uses(body)
    fetches: list[_Fetch] = []
    for op in body.ops:
        if not isinstance(op, TileLoad):
            continue
        users_of_load = users.get(op.result, [])
        if (
            len(users_of_load) != 1
            or not isinstance(users_of_load[0][0], BufNew)
            or users_of_load[0][0].parent is not body
        ):
            continue
        buffer = users_of_load[0][0]
        slice = index_slice(op, body)
        if slice is None or not is_copyable(op) or not _only_read(users, buffer):
            continue
        root = {array_root(op.array)}
        if op.unwritten or not any(writes(kernel, other, root) for other in body.ops):
            fetches.append(_Fetch(op, buffer, slice))
    return fetches


def _only_read(users: dict[Value, list[tuple[Op, int]]], buffer: BufNew) -> bool:
    return all(isinstance(op, SharedMma | BufRead | BufView) for op, _ in users.get(buffer.result, []))


def is_copyable(load: TileLoad) -> bool:
    """Whether an asynchronous copy can implement a load: elements out of bounds are 0, elements are scalars, and rows
    have a multiple of MIN_BYTES."""
    t = load.result.type
    assert isinstance(t, TileType)
    fill = load.fill.owner
    zero = isinstance(fill, ConstantLike) and fill.value == 0
    row = t.shape[-1] * element_bytes(t.dtype)
    return zero and components(t.dtype) == 1 and row % MIN_BYTES == 0 and len(t.shape) < 4


def index_slice(load: TileLoad, body: Region) -> tuple[Op, ...] | None:
    """The ops of the body that compute the load's array and offsets; None if they are not pure or depend on carried
    values of the loop."""
    values_needed = {load.array, *load.offset}
    ops: list[Op] = []
    for op in reversed(body.ops[: body.ops.index(load)]):
        if not values_needed.intersection(op.results):
            continue
        if (
            op.regions
            or op.COOPERATIVE
            or op.VARYING
            or not (op.PURE or isinstance(op, ArrayView))
            or op.effects()
        ):
            return None
        ops.append(op)
        values_needed.update(op.operands)
    loop = body.parent
    assert isinstance(loop, For)
    return None if values_needed.intersection(loop.arguments) else tuple(reversed(ops))


class _Pipelining:
    """The rewrite of one loop."""

    def __init__(self, loop: For, region: Region, fetches: list[_Fetch]) -> None:
        self.loop, self.region, self.fetches = loop, region, fetches
        self.stages: int = loop.stages
        self.is_memory_bound = all(f.load.unwritten for f in fetches)
        """Whether the loop is memory-bound."""
        self.body, self.index = loop.body, loop.index
        self.before = Region()
        self.build = Builder(self.before, loop.loc)

    def run(self) -> None:
        self.rings = [self._ring(f) for f in self.fetches]
        self._prologue()
        read, write = self._counters()
        self._iteration(read, write)
        at = self.region.ops.index(self.loop)
        for op in self.before.ops:
            op.parent = self.region
        self.region.ops[at:at] = self.before.ops
        del self.loop.stages

    def _ring(self, fetch: _Fetch) -> Value:
        """The buffer of all stages of a fetch."""
        t = fetch.load.result.type
        assert isinstance(t, TileType)
        ring_type = TileType(t.dtype, (self.stages, *t.shape))
        empty = self.build.insert(TileEmpty([], [ring_type], {"type": ring_type})).result
        part_type = BufType(t.dtype, ring_type.shape, "shared")
        ring = self.build.insert(
            BufNew([empty], [part_type], {"storage": "shared", "stages": self.stages})
        ).result
        ring.name = fetch.buffer.result.name or fetch.load.result.name
        return ring

    def _prologue(self) -> None:
        for k in range(self.stages - 1):
            index = self._constant(self.build, k)
            is_in_range = self._compare(self.build, "lt", index, self.loop.stop)
            self._copies(self.build, is_in_range, index, self._constant(self.build, k, int32), ahead=False)

    def _copies(self, build: Builder, is_in_range: Value, index: Value, stage: Value, ahead: bool) -> None:
        """Start the copies of the iteration `index` if `is_in_range` holds, and commit a group unconditionally.
        `ahead`:
        whether the stage differs from the stage that the current iteration reads."""
        then = Region()
        inner = Builder(then, self.loop.loc)
        for fetch, ring in zip(self.fetches, self.rings, strict=True):
            load, mapping = fetch.load, {self.index: index}
            for op in fetch.slice:
                inner.insert(clone_op(op, mapping))
            operands = [mapping.get(v, v) for v in (load.array, *load.offset)]
            attrs = load.promises | {"ahead": ahead, "lean": self.is_memory_bound}
            inner.insert(AsyncCopy([self._stage(inner, ring, stage), *operands], [], attrs, [], load.loc))
        inner.insert(Yield())
        otherwise = Region()
        Builder(otherwise, self.loop.loc).insert(Yield())
        build.insert(If([is_in_range], [], None, [then, otherwise]))
        build.insert(AsyncCommit())

    def _stage(self, build: Builder, ring: Value, stage: Value) -> Value:
        t = ring.type
        assert isinstance(t, BufType)
        shape = t.shape[1:]
        zero = self._constant(build, 0, int32)
        attrs = {"shape": shape, "dims": tuple(range(1, len(t.shape))), "steps": (1,) * len(shape)}
        part_type = BufType(t.dtype, shape, "shared")
        return build.insert(BufView([ring, stage, *[zero] * len(shape)], [part_type], attrs)).result

    def _counters(self) -> tuple[Value, Value]:
        """The carried values of the loop for the stages that an iteration reads and fills."""
        first, last = (self._constant(self.build, n, int32) for n in (0, self.stages - 1))
        return self.loop.append(first), self.loop.append(last)

    def _iteration(self, read_stage: Value, write_stage: Value) -> None:
        first = Region()
        build = Builder(first, self.loop.loc)
        build.insert(AsyncWait(self.rings, [], {"pending": self.stages - 2}))
        distance = self._constant(build, self.stages - 1)
        stop = self.loop.stop
        if self.index.type in UNSIGNED:
            stop = build.insert(S.Max([stop, distance], [self.index.type])).result
        prefetch_stop = build.insert(S.Sub([stop, distance], [self.index.type])).result
        index = build.insert(S.Add([self.index, distance], [self.index.type])).result
        is_in_range = self._compare(build, "lt", self.index, prefetch_stop)
        stage_of_buffer: dict[Value, Value] = {}
        for fetch, ring in zip(self.fetches, self.rings, strict=True):
            stage_of_buffer[fetch.buffer.result] = self._stage(build, ring, read_stage)
        if self.is_memory_bound:
            self._copies(build, is_in_range, index, write_stage, ahead=True)
        last = self.body.ops.pop()
        replaced = {op for f in self.fetches for op in (f.load, f.buffer)}
        self.body.ops = first.ops + [op for op in self.body.ops if op not in replaced]
        end = Builder(self.body, self.loop.loc)
        if not self.is_memory_bound:
            self._copies(end, is_in_range, index, write_stage, ahead=True)
        counters = [self._next_stage(end, read_stage), self._next_stage(end, write_stage)]
        self.body.append(last)
        self.body.yielded = [*self.body.yielded, *counters]
        for op in self.body.ops:
            op.parent = self.body
        replace(self.body, stage_of_buffer)

    def _next_stage(self, build: Builder, counter: Value) -> Value:
        one, zero = self._constant(build, 1, int32), self._constant(build, 0, int32)
        successor = build.insert(S.Add([counter, one], [int32])).result
        wraps = self._compare(build, "eq", successor, self._constant(build, self.stages, int32))
        return build.insert(S.Select([wraps, zero, successor], [int32])).result

    def _compare(self, build: Builder, pred: str, a: Value, b: Value) -> Value:
        return build.insert(S.Cmp([a, b], [bool_], {"pred": pred})).result

    def _constant(self, build: Builder, n: int, dtype: DType | None = None) -> Value:
        t = dtype or self.index.type
        return build.insert(S.Const([], [t], {"type": t, "value": n})).result
