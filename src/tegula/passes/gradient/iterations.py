"""Shortens the loops by which adjoints recompute loop-carried values.

Each iteration of the backward sweep first recomputes the carried values from the start of the loop. If the carried
values depend on a bounded number of iterations, only these iterations are rerun, such as one iteration for a value that
is reloaded in each iteration. Otherwise the carried values are checkpointed every few iterations, on two levels, in at
most CHECKPOINT_BYTES of a block's memory, and recomputation starts from a checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager

from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Kernel, Op, Region, Value, root
from tegula.ir.rewrite import clone_op, replace
from tegula.ops import scalar as S
from tegula.ops.array import ArrayLoad
from tegula.ops.base import element
from tegula.ops.buffer import BufGet, BufNew, BufRead, BufSet, BufView, BufWrite
from tegula.ops.control import For, If, Yield
from tegula.ops.indexing import KernelBuilder
from tegula.ops.lane import LaneIndex
from tegula.ops.tile import TileEmpty, TileExtract, TileLoad, TileReshape
from tegula.passes.gradient.differentiation import Differentiation
from tegula.passes.uniformity import Uniformity, analyse
from tegula.types import BufType, TileType, Type, element_bytes, int32, is_element

CHECKPOINT_BYTES = 1 << 15
MAX_CHECKPOINTS = 64


@dataclass(frozen=True, slots=True)
class LoopReplay:
    """A recomputation: in each of the `count` iterations of the loop `backwards`, the loop `replayed` reruns the
    forward iterations before the one that is differentiated."""

    replayed: For
    backwards: For
    count: Value


def shorten_recomputation(kernel: Kernel, context: Differentiation) -> None:
    """Rewrite the kernel in place."""
    while _erase_invariants(kernel):
        pass
    for op in list(kernel.walk()):
        if isinstance(op, For) and op.results and _is_pure(op):
            _skip_irrelevant_iterations(op)
    remaining = set(kernel.walk())
    uniformity = analyse(kernel)
    for replay in context.replays:
        if replay.replayed in remaining and replay.replayed.results and _is_pure(replay.replayed):
            _checkpoint(kernel, replay, uniformity)


def _erase_invariants(kernel: Kernel) -> bool:
    """Replace values that loops carry unchanged by their initial values. Returns whether the kernel changed."""
    changed = False
    for op in list(kernel.walk()):
        if not isinstance(op, For):
            continue
        mapping = op.invariants()
        if mapping:
            replace(kernel.body, mapping)
            op.erase([k for k, result in enumerate(op.results) if result in mapping])
            changed = True
    return changed


def _is_pure(loop: Op) -> bool:
    """Whether a loop writes only objects created inside the loop, and reads only these objects and arrays."""
    defined = {r for op in loop.walk() for r in op.results}
    for effect in (e for op in loop.walk() for e in op.effects()):
        if effect.value is None or (effect.kind != "read" and not isinstance(effect.value.type, BufType)):
            return False
        if isinstance(effect.value.type, BufType) and root(effect.value) not in defined:
            return False
    return True


# Loops with bounded dependence ----------------------------------------------------------------------------------------


def _skip_irrelevant_iterations(loop: For) -> None:
    """Raise a loop's start to the first iteration on which its results depend, if their number is bounded."""
    step = loop.step.owner
    iterations = _dependence_distance(loop)
    if iterations is None or not isinstance(step, ConstantLike) or step.value <= 0:
        return
    if iterations > 1 and any(_is_unchecked(op) for op in loop.walk()):
        return
    b = _before(loop)
    t = element(loop.start.type)
    start, stop, step_value = loop.bounds
    size_minus_one = b.one(S.Sub, [step_value, b.const(1, t)])
    count = b.one(S.Div, [b.one(S.Add, [b.one(S.Sub, [stop, start]), size_minus_one]), step_value])
    first = b.one(S.Max, [b.one(S.Sub, [count, b.const(iterations, t)]), b.const(0, t)])
    loop.start = b.one(S.Add, [start, b.one(S.Mul, [first, step_value])])
    _insert(b, loop)


def _is_unchecked(op: Op) -> bool:
    """Whether an op may read out of bounds if the carried values differ from the full loop's."""
    return isinstance(op, ArrayLoad | TileExtract | BufGet) or (
        isinstance(op, TileLoad) and not op.bounds_check
    )


def _dependence_distance(loop: For) -> int | None:
    """The number of final iterations on which the results of a loop depend; None if they depend on all iterations."""
    slots = {arg: k for k, arg in enumerate(loop.arguments)}
    slots_of_result = [_slots_needed(v, loop.body, slots) for v in loop.body.yielded]
    depth: dict[int, int] = {}
    for _ in range(len(slots_of_result) + 1):
        ready = [
            k
            for k in range(len(slots_of_result))
            if k not in depth and all(n in depth for n in slots_of_result[k])
        ]
        for k in ready:
            depth[k] = 1 + max((depth[n] for n in slots_of_result[k]), default=0)
        if not ready:
            break
    return max(depth.values()) if len(depth) == len(slots_of_result) else None


def _slots_needed(value: Value, body: Region, slots: dict[Value, int]) -> set[int]:
    """The carried variables, by number, on whose values at the start of an iteration a value depends."""
    needed: set[int] = set()
    seen: set[Value] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if current in seen:
            continue
        seen.add(current)
        if current in slots:
            needed.add(slots[current])
            continue
        op = (
            current.owner
            if isinstance(current.owner, Op)
            else current.owner.parent
            if current.owner is not body and current.owner
            else None
        )
        if op is None:
            continue
        pending += [v for inner in op.walk() for v in inner.operands]
        pending += [
            v
            for e in op.effects()
            if isinstance(op, BufRead | BufGet) and e.value
            for v in _written(e.value, body)
        ]
    return needed


def _written(buffer: Value, body: Region) -> list[Value]:
    """The operands of all ops in a region that write an object."""
    return [
        v
        for op in body.walk()
        if any(
            e.kind != "read" and e.value is not None and root(e.value) is root(buffer) for e in op.effects()
        )
        for v in op.operands
    ]


# Checkpoints ----------------------------------------------------------------------------------------------------------


def _checkpoint(kernel: Kernel, replay: LoopReplay, uniformity: Uniformity) -> None:
    """Checkpoint the carried values: every few iterations before the backward loop, and, when the backward loop enters
    an interval between two of these checkpoints, every few iterations of the interval. Recomputation then starts from
    the nearest checkpoint."""
    loop, count = replay.replayed, replay.count
    if _dependence_distance(loop) is not None or not all(_can_checkpoint(r.type) for r in loop.results):
        return
    is_divergent = _outermost_divergent_op(replay.backwards, uniformity)
    per_lane = {r for r in loop.results if is_divergent or uniformity.varying(r)}
    lanes = kernel.launch.block_dim
    size = sum(_bytes(r, lanes if r in per_lane else 1) for r in loop.results)
    max_checkpoints = min(MAX_CHECKPOINTS, CHECKPOINT_BYTES // 2 // max(1, size))
    if max_checkpoints < 2:
        return
    outermost = is_divergent or replay.backwards
    b = _before(outermost)
    outer_checkpoints, inner_checkpoints = (
        [
            _checkpoint_buffer(b, r, (max_checkpoints, lanes) if r in per_lane else (max_checkpoints,))
            for r in loop.results
        ]
        for _ in range(2)
    )
    checkpoints = _Checkpoints(b.one(LaneIndex, []), per_lane)
    _insert(b, outermost)
    b = _before(replay.backwards)
    t = element(count.type)
    zero = b.const(0, t)
    stride = _stride(b, count, max_checkpoints)
    checkpoints.run(b, loop, (zero, count), loop.initial, outer_checkpoints, stride)
    _insert(b, replay.backwards)
    b = _before(loop)
    at = loop.stop
    interval = b.one(S.Div, [at, stride])
    first = b.one(S.Mul, [interval, stride])
    end = b.one(S.Min, [b.one(S.Add, [first, stride]), count])
    inner_stride = _stride(b, stride, max_checkpoints)
    enters_interval = b.one(S.Cmp, [b.one(S.Add, [at, b.const(1, t)]), end], {"pred": "eq"})
    with branch(b, enters_interval):
        start = [
            checkpoints.load(b, x, r, interval) for x, r in zip(outer_checkpoints, loop.results, strict=True)
        ]
        last = checkpoints.run(b, loop, (first, at), start, inner_checkpoints, inner_stride)
        with branch(b, _divides(b, inner_stride, b.one(S.Sub, [at, first]))):
            iteration = b.one(S.Div, [b.one(S.Sub, [at, first]), inner_stride])
            checkpoints.store(b, inner_checkpoints, last, loop.results, iteration)
    iteration = b.one(S.Div, [b.one(S.Sub, [at, first]), inner_stride])
    loop.start = b.one(S.Add, [first, b.one(S.Mul, [iteration, inner_stride])])
    loop.initial = [
        checkpoints.load(b, x, r, iteration) for x, r in zip(inner_checkpoints, loop.results, strict=True)
    ]
    _insert(b, loop)


def _stride(b: KernelBuilder, iterations: Value, max_checkpoints: int) -> Value:
    """The number of iterations between checkpoints, so that there are at most `max_checkpoints` checkpoints."""
    t = element(iterations.type)
    padded = b.one(S.Add, [iterations, b.const(max_checkpoints - 1, t)])
    return b.one(S.Max, [b.one(S.Div, [padded, b.const(max_checkpoints, t)]), b.const(1, t)])


def _divides(b: KernelBuilder, step: Value, x: Value) -> Value:
    return b.one(S.Cmp, [b.one(S.Mod, [x, step]), b.const(0, element(x.type))], {"pred": "eq"})


@contextmanager
def branch(b: KernelBuilder, condition: Value) -> Generator[None, None, None]:
    """A context whose ops are built into a branch that runs if the condition holds."""
    outer, regions = b.region, [Region(), Region()]
    for region in reversed(regions):
        b.region = region
        if region is regions[0]:
            yield
        b.emit(Yield, [])
    b.region = outer
    b.emit(If, [condition], None, regions)


def _can_checkpoint(t: Type) -> bool:
    return is_element(t) or (isinstance(t, TileType) and not t.partial)


def _bytes(value: Value, iterations: int) -> int:
    """The bytes of one checkpoint of a carried value: of a tile, or of `iterations` copies of an element."""
    t = value.type
    if isinstance(t, TileType):
        return t.size * element_bytes(t.dtype)
    return element_bytes(element(t)) * iterations


def _outermost_divergent_op(op: Op, uniformity: Uniformity) -> Op | None:
    """The outermost divergent loop or branch among an op and its enclosing ops; None if there is none."""
    outermost, ancestor = None, op
    while True:
        outermost = ancestor if ancestor in uniformity.divergent else outermost
        if ancestor.parent is None or ancestor.parent.parent is None:
            return outermost
        ancestor = ancestor.parent.parent


def _checkpoint_buffer(b: KernelBuilder, carried: Value, shape: tuple[int, ...]) -> Value:
    """A tile object for shape[0] checkpoints of a carried value. `shape`: the shape of the object if the value is an
    element."""
    t = carried.type
    object_type = (
        TileType(t.dtype, (shape[0], t.size)) if isinstance(t, TileType) else TileType(element(t), shape)
    )
    attrs = {"storage": "register", "kept": carried.name or "a value"}
    return b.one(BufNew, [b.one(TileEmpty, [], {"type": object_type})], attrs)


class _Checkpoints:
    """Writes and reads checkpoints of carried values. `lane`: the lane index; `per_lane`: the values with a checkpoint
    per lane, because they differ between lanes or not all lanes checkpoint them."""

    def __init__(self, lane: Value, per_lane: Collection[Value]) -> None:
        self.lane = lane
        self.per_lane = per_lane

    def run(
        self,
        b: KernelBuilder,
        loop: For,
        bounds: tuple[Value, Value],
        start: Sequence[Value],
        objects: Sequence[Value],
        stride: Value,
    ) -> list[Value]:
        """Build a rerun of the loop that stores a checkpoint every `stride` iterations. Returns the values carried at
        the end."""
        body = loop.body
        region, outer = Region([a.type for a in body.args]), b.region
        b.region = region
        iteration, *carried = region.args
        done = b.one(S.Sub, [iteration, bounds[0]])
        with branch(b, _divides(b, stride, done)):
            self.store(b, objects, carried, loop.results, b.one(S.Div, [done, stride]))
        mapping: dict[Value, Value] = dict(zip(body.args, region.args, strict=True))
        for op in body.ops:
            region.append(clone_op(op, mapping))
        b.region = outer
        return b.emit(For, [*bounds, b.const(1, element(iteration.type)), *start], None, [region])

    def store(
        self,
        b: KernelBuilder,
        objects: Sequence[Value],
        values: Sequence[Value],
        variables: Sequence[Value],
        iteration: Value,
    ) -> None:
        for target, value, carried in zip(objects, values, variables, strict=True):
            if isinstance(value.type, TileType):
                flat = b.one(TileReshape, [value], {"shape": (value.type.size,)})
                b.emit(BufWrite, [_checkpoint_view(b, target, iteration, value.type.size), flat])
            else:
                b.emit(BufSet, [target, value, iteration, *self._of_lane(carried)])

    def load(self, b: KernelBuilder, target: Value, carried: Value, iteration: Value) -> Value:
        if isinstance(carried.type, TileType):
            flat = b.one(BufRead, [_checkpoint_view(b, target, iteration, carried.type.size)])
            return b.one(TileReshape, [flat], {"shape": carried.type.shape})
        return b.one(BufGet, [target, iteration, *self._of_lane(carried)])

    def _of_lane(self, carried: Value) -> list[Value]:
        return [self.lane] if carried in self.per_lane else []


def _checkpoint_view(b: KernelBuilder, target: Value, iteration: Value, size: int) -> Value:
    attrs = {"shape": (size,), "dims": (1,), "steps": (1,)}
    return b.one(BufView, [target, iteration, b.const(0, int32)], attrs)


# Building in front of ops --------------------------------------------------------------------------------------------


def _before(op: Op) -> KernelBuilder:
    """A builder for ops that `_insert` puts before a given op."""
    return KernelBuilder(Region(), op.loc)


def _insert(b: KernelBuilder, op: Op) -> None:
    parent = op.parent
    assert parent is not None
    position = parent.ops.index(op)
    parent.ops[position:position] = _adopted(b.region, parent)


def _adopted(region: Region, parent: Region) -> list[Op]:
    for op in region.ops:
        op.parent = parent
    return region.ops
