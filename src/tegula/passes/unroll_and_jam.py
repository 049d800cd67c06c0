"""Unroll-and-jam of loops over small tiles whose iterations do not depend on each other.

A thread with one element of a tile has no instruction-level parallelism: it waits for its load, and then for each
instruction. If iterations only load, compute and store, without dependences between them, one iteration of the new loop
executes the first op of several old iterations, then the second op of all of them, and so on. The old loop remains as
the remainder loop."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from tegula.deferred import deferred_imports
from tegula.ir import Builder, ConstantLike, Kernel, Op, Region, Value
from tegula.ir.rewrite import clone_op, is_defined_in, walk_regions
from tegula.ops import scalar as S
from tegula.ops.array import ArrayView
from tegula.ops.control import For, Yield
from tegula.ops.integer_ranges import range_of_type
from tegula.ops.tile import TileArange, TileEmpty, TileFull, TileLoad, TileMap, TileStore
from tegula.passes.overlap import array_root, writes
from tegula.passes.runner import GpuCompilation
from tegula.types import TileType, element_bytes

with deferred_imports():
    from tegula.passes.window import window

MAX_ELEMENTS = 8
"""The maximum number of elements whose computations a thread interleaves."""
MAX_BYTES = 256
"""The maximum size in bytes of the tiles that a thread holds over all interleaved iterations."""
MIN_FRACTION = 5 / 8
"""The smallest fraction of the maximum number of interleaved iterations that is chosen for the sake of a smaller
remainder."""
PER_THREAD_OPS = (TileArange, TileEmpty, TileFull, TileLoad, TileMap, TileStore)
"""The ops on tiles that each thread applies to its own elements, without other threads."""


def unroll_and_jam(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place."""
    for region in walk_regions(kernel.body):
        for op in [op for op in region.ops if isinstance(op, For)]:
            iterations = _iterations(kernel, op, context.threads)
            if iterations > 1:
                _Jam(op, iterations).run()


def _iterations(kernel: Kernel, loop: For, threads: int) -> int:
    """The number of iterations to interleave; 1 if they cannot be interleaved, or interleaving has no benefit."""
    body = loop.body
    ops = [op for op in body.ops if not isinstance(op, Yield)]
    tiles = [r.type for op in ops for r in op.results if isinstance(r.type, TileType)]
    if "stages" in loop.attrs or not tiles or not all(_is_per_thread_op(op) for op in ops):
        return 1
    if not any(isinstance(op, TileLoad | TileMap) for op in ops) or not _is_independent(kernel, loop, ops):
        return 1
    start, stop, step = map(_number, loop.bounds)
    if start is None or start < 0 or step is None or step < 1:
        return 1
    index = range_of_type(loop.index.type)
    if index is None or step * MAX_ELEMENTS > index[1]:
        return 1
    max_iterations = min(
        MAX_ELEMENTS // max(ceil(t.size / threads) for t in tiles), MAX_BYTES // _live_bytes(loop, threads)
    )
    if stop is None:
        return max_iterations
    count = len(range(start, stop, step))
    max_iterations = min(max_iterations, count)
    return min(
        range(max_iterations, int(max_iterations * MIN_FRACTION) - 1, -1),
        key=lambda n: count % max(n, 1),
        default=1,
    )


def _live_bytes(loop: For, threads: int) -> int:
    """The maximum number of bytes of live tiles that a thread holds at one time in one iteration."""
    order = [*_order(loop.body), loop.body.terminator]
    last = {v: k for k, op in enumerate(order) for v in op.operands}
    alive = {v for v in loop.arguments if v in last}
    peak = 1
    for k, op in enumerate(order):
        alive.update(op.results)
        types = [v.type for v in alive]
        sizes = [ceil(t.size / threads) * element_bytes(t.dtype) for t in types if isinstance(t, TileType)]
        peak = max(peak, sum(sizes))
        alive = {v for v in alive if last.get(v, -1) > k}
    return peak


def _is_per_thread_op(op: Op) -> bool:
    if isinstance(op, PER_THREAD_OPS):
        return True
    is_scalar = not op.regions and not any(isinstance(v.type, TileType) for v in (*op.operands, *op.results))
    return is_scalar and (isinstance(op, ArrayView) or (not op.effects() and op.PURE))


def _is_independent(kernel: Kernel, loop: For, ops: Sequence[Op]) -> bool:
    """Whether no store writes elements that another op of the loop accesses, or that the store itself writes in another
    iteration, so that no synchronisation is needed."""
    stores = [op for op in ops if isinstance(op, TileStore)]
    return all(_never_revisits(store, loop) for store in stores) and not any(
        writes(kernel, store, {array_root(other.array)})
        for store in stores
        for other in ops
        if isinstance(other, TileLoad | TileStore) and other is not store
    )


def _never_revisits(store: TileStore, loop: For) -> bool:
    """Whether in some dimension the offsets of a store in interleaved iterations are at least its length apart, even if
    they wrap."""
    step = _number(loop.step) or 0
    for span in window(store) or ():
        varying = [(v, c) for v, c in span.terms if is_defined_in(v, loop.body)]
        if [v for v, _ in varying] != [loop.index]:
            continue
        distance = abs(varying[0][1] * step)
        if distance >= span.length and distance * (MAX_ELEMENTS - 1) <= span.wrap - span.length:
            return True
    return False


def _number(value: Value) -> int | None:
    return value.owner.value if isinstance(value.owner, ConstantLike) else None


def _order(body: Region) -> list[Op]:
    """The ops of an iteration: first the loads and the ops that compute their operands, then the others."""
    needed = {v for op in body.ops if isinstance(op, TileLoad) for v in op.operands}
    load_slice = set[Op]()
    for op in reversed(body.ops):
        if isinstance(op, TileLoad) or needed.intersection(op.results):
            load_slice.add(op)
            needed.update(op.operands)
    ops = [op for op in body.ops if not isinstance(op, Yield)]
    return [op for op in ops if op in load_slice] + [op for op in ops if op not in load_slice]


class _Jam:
    """Rewrites one loop."""

    def __init__(self, loop: For, iterations: int) -> None:
        self.loop, self.iterations = loop, iterations
        self.defined = {r for op in loop.body.ops for r in op.results}
        self.next = {arg: end for item in loop.carried for arg in item.arguments for end in item.yielded}
        self.before = Region()
        self.build = Builder(self.before, loop.loc)

    def run(self) -> None:
        loop, region, jammed = self.loop, self.loop.parent, self._interleave()
        assert region is not None
        stride = self._constant(self._step() * self.iterations)
        if self._has_no_remainder():
            loop.step, loop.body = stride, jammed
        else:
            remainder_start, types = self._remainder_start(), [v.type for v in loop.results]
            operands = [loop.start, remainder_start, stride, *loop.initial]
            jammed_loop = self.build.insert(For(operands, types, loop.attrs, [jammed], loop.loc))
            loop.start, loop.initial = remainder_start, jammed_loop.results
        at = region.ops.index(loop)
        for op in self.before.ops:
            op.parent = region
        region.ops[at:at] = self.before.ops

    def _has_no_remainder(self) -> bool:
        positions = self.loop.positions
        return positions is not None and len(positions) % self.iterations == 0

    def _step(self) -> int:
        step = _number(self.loop.step)
        assert step is not None
        return step

    def _constant(self, value: int) -> Value:
        index = self.loop.start.type
        return self.build.insert(S.Const([], [index], {"type": index, "value": value})).result

    def _remainder_start(self) -> Value:
        """The index at which the remainder loop begins."""
        start, stop, _ = self.loop.bounds
        length = self._emit(S.Sub, self._emit(S.Max, stop, start), start)
        stride = self._step() * self.iterations
        groups = self._emit(S.FloorDiv, length, self._constant(stride))
        return self._emit(S.Add, start, self._emit(S.Mul, groups, self._constant(stride)))

    def _emit(self, kind: type[Op], a: Value, b: Value) -> Value:
        return self.build.insert(kind([a, b], [a.type], None, [], self.loop.loc)).result

    def _interleave(self) -> Region:
        loop, t = self.loop, self.loop.index.type
        jammed = Region([t, *(v.type for v in loop.arguments)])
        build = Builder(jammed, loop.loc)
        index, *carried = jammed.args
        maps: list[dict[Value, Value]] = [{loop.index: index} for _ in range(self.iterations)]
        for k, mapping in enumerate(maps[1:], 1):
            offset = build.insert(S.Const([], [t], {"type": t, "value": k * self._step()})).result
            mapping[loop.index] = build.insert(S.Add([index, offset], [t])).result
        maps[0].update(zip(loop.arguments, carried, strict=True))
        pending = [_order(loop.body) for _ in maps]
        # An op that needs a carried value of the previous iteration is placed in a later pass, once the value is known.
        while pending[-1]:
            for op in list(pending[-1]):
                for k, mapping in enumerate(maps):
                    if op in pending[k] and (k == 0 or op not in pending[k - 1]):
                        known = {
                            v: new_value
                            for v in op.operands
                            if (new_value := self._mapped(maps, k, v)) is not None
                        }
                        if len(known) == len(set(op.operands)):
                            mapping.update(known)
                            build.insert(clone_op(op, mapping))
                            pending[k].remove(op)
        last = [self._mapped(maps, self.iterations, v) for v in loop.arguments]
        build.insert(Yield([v for v in last if v is not None]))
        return jammed

    def _mapped(self, maps: Sequence[dict[Value, Value]], iteration: int, value: Value) -> Value | None:
        """The new value for a value of the old loop in an iteration; None if it is not computed yet."""
        if value in self.next and iteration:
            return self._mapped(maps, iteration - 1, self.next[value])
        return maps[iteration].get(value, None if value in self.defined else value)
