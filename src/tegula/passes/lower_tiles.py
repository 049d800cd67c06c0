"""Lowers tile ops that need elements of other threads to reads of buffers in shared memory.

After this pass tile values are only created, combined element by element, reduced, stored, and passed to and from lanes
and buffers. Ops that select, permute or multiply elements read buffers. Each value that needs a buffer gets one at its
definition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tegula.ir import Builder, Kernel, Op, Region, ReshapeLike, Value
from tegula.ir.rewrite import replace, uses
from tegula.ops import scalar as S
from tegula.ops.base import element
from tegula.ops.buffer import BufGet, BufNew, BufRead, BufReshape, BufView, BufWrite, buffer_type, is_packed
from tegula.ops.concat import TileConcat
from tegula.ops.group import (
    Agree,
    GatherEach,
    MmaWait,
    Publish,
    RegisterMma,
    SharedGather,
    SharedMma,
    StackAdvance,
    StackFill,
    StackTake,
    StackVote,
)
from tegula.ops.lane import LaneUniform, TileFromThread
from tegula.ops.linear import TileMatmul, TileMatmulWait
from tegula.ops.stack import StackPop, StackPush
from tegula.ops.tile import (
    TileArange,
    TileEmpty,
    TileExtract,
    TileFull,
    TileGather,
    TilePermute,
    TileReshape,
    TileSlice,
)
from tegula.passes.groups import group_of
from tegula.passes.lines import lines_in_registers
from tegula.passes.overlap import reads_in_place
from tegula.passes.runner import GpuCompilation
from tegula.types import BufType, TileType, int32

WARP = 32


def lower_tiles(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel, whose lane code is already split, in place. Debug mode checks claims of uniformity."""
    _Lowering(kernel, context.threads, context.debug, lines_in_registers(kernel, context)).run()


class _Lowering:
    def __init__(self, kernel: Kernel, threads: int, debug: bool, lines: set[Op]) -> None:
        self.kernel = kernel
        self.lines = lines
        self.debug = debug
        self.block_threads = self.threads = threads
        self.users = uses(kernel.body)
        self.buffers: dict[Value, Value] = {}
        self.replaced: dict[Value, Value] = {}
        self.register_reshapes: set[ReshapeLike] = set()

    def run(self) -> None:
        """Insert the buffers at the definitions of values, then rewrite the ops that use them."""
        self.register_reshapes = self._find_register_reshapes()
        self._define(self.kernel.body)
        self._rewrite(self.kernel.body)
        replace(self.kernel.body, self.replaced)
        self._erase_unused_reads()

    def _erase_unused_reads(self) -> None:
        """Erase the reads of buffers that replace the values read from them."""
        reads = [value.owner for value in self.buffers if isinstance(value.owner, BufRead)]
        users = uses(self.kernel.body) if reads else {}
        for read in reads:
            if read.parent is not None and not users.get(read.result):
                read.parent.ops.remove(read)

    def _find_register_reshapes(self) -> set[ReshapeLike]:
        """The permutations and reshapes between values that need no buffer: layouts may be propagated through them, so
        that each thread holds the same elements under other indices."""
        reshapes: set[ReshapeLike] = set()
        reshapes.update(
            op for op in self.kernel.walk() if isinstance(op, ReshapeLike) and _from_registers(op)
        )
        while True:
            self.register_reshapes = reshapes
            indexed = {op for op in reshapes if self._needs_buffer(op.tile)}
            if not indexed:
                return reshapes
            reshapes = reshapes - indexed

    # Buffers ---------------------------------------------------------------------------------------------------------

    def _define(self, region: Region) -> None:
        out: list[Op] = []
        for value in region.args:
            self._buffer(value, region, out)
        for op in region.ops:
            out.append(op)
            for nested in op.regions:
                self._define(nested)
            for value in op.results:
                self._buffer(value, region, out)
        region.ops = out

    def _buffer(self, value: Value, region: Region, out: list[Op]) -> None:
        """Provide a buffer that holds the value, if an op reads its elements by index."""
        if not isinstance(value.type, TileType) or not self._needs_buffer(value):
            return
        owner = value.owner
        if isinstance(owner, BufRead) and self._can_replace(value, owner, region):
            self.buffers[value] = owner.buffer
            return
        if isinstance(owner, TileReshape) and self._is_view(value, owner):
            build = Builder(Region([]), owner.loc)
            self.buffers[value] = view(build, owner, self.buffers[owner.tile])
            self._move(build.region, region, out)
            return
        loc = owner.loc if isinstance(owner, Op) else self.kernel.loc
        buffer = BufNew([value], [_shared_type(value.type)], {"storage": "shared"}, [], loc)
        buffer.parent = region
        buffer.result.name = value.name
        out.append(buffer)
        self.buffers[value] = buffer.result

    def _move(self, source: Region, region: Region, out: list[Op]) -> None:
        """Append the ops of a region to the ops of another region."""
        for op in source.ops:
            op.parent = region
            out.append(op)

    def _is_view(self, value: Value, reshape: TileReshape) -> bool:
        """Whether a reshaped tile has a buffer of its own, and lanes read the elements of the result there."""
        if isinstance(reshape.tile.owner, BufRead):
            return False
        return reshape.tile in self.buffers and not any(
            isinstance(op, TileSlice | TilePermute | TileReshape | TileGather | TileMatmul)
            for op, _ in self.users.get(value, ())
        )

    def _can_replace(self, value: Value, read: BufRead, region: Region) -> bool:
        """Whether the buffer from which a value was read can replace the value."""
        reshaped = any(isinstance(op, TileReshape) for op, _ in self.users.get(value, ()))
        if reshaped and not is_packed(read.buffer):
            return False
        return reads_in_place(self.kernel, read, region, self.users)

    def _needs_buffer(self, value: Value) -> bool:
        for op, k in self.users.get(value, ()):
            if op in self.register_reshapes or op in self.lines or _reshaped_line(op) is not None:
                continue
            if isinstance(op, TileGather):
                if k == 0 or not _gathers_elements(op):
                    return True
                continue
            if isinstance(op, TileSlice | TilePermute | TileReshape):
                return True
            if isinstance(op, TileExtract) and not _has_one_element(value):
                return True
            if isinstance(op, TileMatmul) and k < 2 and k != op.in_registers:
                return True
        return False

    # Ops -------------------------------------------------------------------------------------------------------------

    def _rewrite(self, region: Region) -> None:
        self.threads = group_of(region, self.block_threads).threads
        before, region.ops = region.ops, []
        for op in before:
            for nested in op.regions:
                self._rewrite(nested)
            self.threads = group_of(region, self.block_threads).threads
            rule = _RULES.get(type(op))
            if (
                op in self.register_reshapes
                or op in self.lines
                or rule is None
                or (isinstance(op, TileExtract) and op.tile not in self.buffers)
            ):
                region.append(op)
                continue
            results = rule(self, Builder(region, op.loc), op)
            for old, new in zip(op.results, results, strict=True):
                new.name = old.name
                self.replaced[old] = new

    def read_view(self, build: Builder, op: TilePermute | TileReshape | TileSlice) -> list[Value]:
        """Lower a slice, permutation or reshape to a read of a view of the buffer."""
        line, t = _reshaped_line(op), op.result.type
        assert isinstance(t, TileType)
        if line is not None:
            return [_insert(build, TileArange, line.operands, t, **line.attrs, shape=t.shape)]
        return [_insert(build, BufRead, [view(build, op, self.buffers[op.tile])], t)]

    def extract(self, build: Builder, op: TileExtract) -> list[Value]:
        return [_insert(build, BufGet, [self.buffers[op.tile], *op.indices], op.result.type)]

    def gather(self, build: Builder, op: TileGather) -> list[Value]:
        tile = self.buffers[op.tile]
        if _gathers_elements(op):
            return [_insert(build, GatherEach, [tile, op.index], op.result.type)]
        return [_insert(build, SharedGather, [tile, self.buffers[op.index]], op.result.type, axis=op.axis)]

    def matmul(self, build: Builder, op: TileMatmul) -> list[Value]:
        attrs = {"wait": op.wait} | {k: v for k, v in op.attrs.items() if k == "precision"}
        in_registers = op.in_registers
        kind = SharedMma if in_registers is None else RegisterMma
        sides = [v if k == in_registers else self.buffers[v] for k, v in enumerate(op.sides)]
        return [_insert(build, kind, [*sides, op.c, op.alpha, op.beta], op.result.type, **attrs)]

    def mma_wait(self, build: Builder, op: TileMatmulWait) -> list[Value]:
        types = [v.type for v in op.sums]
        return build.insert(MmaWait(op.sums, types, dict(op.attrs))).results

    def concat(self, build: Builder, op: TileConcat) -> list[Value]:
        """Lower a concatenation: write each tile to its part of one buffer, and read the buffer."""
        t, start = op.result.type, 0
        axis: int = op.axis
        assert isinstance(t, TileType)
        result_buffer = self._new(build, t)
        rank = len(t.shape)
        for tile in op.tiles:
            part = tile.type
            assert isinstance(part, TileType)
            starts = [_number(build, start if d == axis else 0) for d in range(rank)]
            buffer_type = BufType(t.dtype, part.shape, "shared")
            view = _insert(
                build,
                BufView,
                [result_buffer, *starts],
                buffer_type,
                shape=part.shape,
                dims=tuple(range(rank)),
                steps=(1,) * rank,
            )
            build.insert(BufWrite([view, tile], []))
            start += part.shape[axis]
        return [_insert(build, BufRead, [result_buffer], t)]

    def uniform(self, build: Builder, op: LaneUniform) -> list[Value]:
        value = self._broadcast_through_buffer(build, op.value, _number(build, 0))
        implicit = op.implicit
        if self.debug and implicit is not True:
            build.insert(Agree([op.value, value], [], {"implicit": implicit} if implicit else None))
        return [value]

    def from_thread(self, build: Builder, op: TileFromThread) -> list[Value]:
        value = self._broadcast_through_buffer(build, op.value, op.thread)
        return [_insert(build, TileFull, [value], op.result.type, shape=op.shape)]

    def _broadcast_through_buffer(self, build: Builder, value: Value, lane: Value) -> Value:
        t = element(value.type)
        buffer = self._new(build, TileType(t, (1,)))
        build.insert(Publish([buffer, value, lane], []))
        return _insert(build, BufGet, [buffer, _number(build, 0)], t)

    def push(self, build: Builder, op: StackPush) -> list[Value]:
        votes = self._new(build, TileType(int32, (self.threads // WARP,)))
        build.insert(StackVote([votes, op.has_value], []))
        slot = _insert(build, StackFill, [op.stack, votes, op.value, op.has_value], int32)
        build.insert(StackAdvance([op.stack, votes], []))
        return [slot]

    def pop(self, build: Builder, op: StackPop) -> list[Value]:
        popped = build.insert(StackTake([op.stack], [r.type for r in op.results]))
        build.insert(StackAdvance([op.stack], []))
        return popped.results

    def _new(self, build: Builder, t: TileType) -> Value:
        """A new buffer without contents."""
        empty = _insert(build, TileEmpty, [], t, type=t)
        return _insert(build, BufNew, [empty], _shared_type(t), storage="shared")


def view(build: Builder, op: Op, source: Value) -> Value:
    """The result of a slice, permutation or reshape as a view of the buffer of its tile."""
    t = op.result.type
    assert isinstance(t, TileType)
    view_type = BufType(t.dtype, t.shape, buffer_type(source.type).storage)
    if isinstance(op, TileReshape):
        return _insert(build, BufReshape, [source], view_type, shape=t.shape)
    if isinstance(op, TileSlice):
        return _insert(build, BufView, [source, *op.starts], view_type, **op.attrs)
    assert isinstance(op, TilePermute)
    starts = [_number(build, 0)] * len(t.shape)
    return _insert(
        build,
        BufView,
        [source, *starts],
        view_type,
        shape=t.shape,
        dims=tuple(op.perm),
        steps=(1,) * len(t.shape),
    )


def _shared_type(t: TileType) -> BufType:
    return BufType(t.dtype, t.shape, "shared", t.partial)


def _has_one_element(value: Value) -> bool:
    """Whether a tile has one element, which is replicated in all threads."""
    return isinstance(value.type, TileType) and value.type.size == 1


def _from_registers(op: ReshapeLike) -> bool:
    """Whether an op reshapes or permutes a tile in registers: the tile is neither read from a buffer nor an arange."""
    return not isinstance(op.tile.owner, BufRead) and _reshaped_line(op) is None


def _reshaped_line(op: Op) -> TileArange | None:
    """The arange that an op reshapes so that all dimensions but one have length 1: each thread can compute its own
    elements. None for other ops."""
    if isinstance(op, TileReshape) and sum(n > 1 for n in op.shape) <= 1:
        source = op.tile.owner
        return source if isinstance(source, TileArange) else None
    return None


def _gathers_elements(op: TileGather) -> bool:
    """Whether each index names one element, so that lanes need only the indices of their own elements."""
    t = op.tile.type
    assert isinstance(t, TileType)
    return len(t.shape) == 1


def _insert(build: Builder, op: type[Op], operands: Sequence[Value], result: Any, **attrs: Any) -> Value:
    return build.insert(op(list(operands), [result], attrs)).result


def _number(build: Builder, n: int) -> Value:
    return _insert(build, S.Const, [], int32, type=int32, value=n)


_RULES: dict[type[Op], Callable[..., list[Value]]] = {
    TileSlice: _Lowering.read_view,
    TilePermute: _Lowering.read_view,
    TileReshape: _Lowering.read_view,
    TileExtract: _Lowering.extract,
    TileGather: _Lowering.gather,
    TileMatmul: _Lowering.matmul,
    TileMatmulWait: _Lowering.mma_wait,
    TileConcat: _Lowering.concat,
    LaneUniform: _Lowering.uniform,
    TileFromThread: _Lowering.from_thread,
    StackPush: _Lowering.push,
    StackPop: _Lowering.pop,
}
