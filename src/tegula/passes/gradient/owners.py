"""Replaces atomics on gradient arrays by plain accesses if a single block or thread accesses each element."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import Kernel, Op, Region, Value
from tegula.ir.rewrite import replace
from tegula.ops.array import ArrayAtomic, ArrayLoad, ArrayStore
from tegula.ops.base import element
from tegula.ops.convert import Cast
from tegula.ops.integer_ranges import INDEX_RANGE, IntegerRanges
from tegula.ops.lane import Tid
from tegula.ops.scalar import Add
from tegula.ops.tile import TileAtomic, TileLoad, TileStore
from tegula.passes.gradient.activity import memory_root
from tegula.passes.gradient.differentiation import Differentiation
from tegula.passes.gradient.steps import known_to_host
from tegula.passes.gradient.sums import SumBuilder, accumulator_type
from tegula.passes.window import Span, Window, in_source, loops_around, never_revisits, span, window
from tegula.types import ArrayType, TileType, scalar_of

TILE_ACCESSES = (TileAtomic, TileLoad, TileStore)
ELEMENT_ACCESSES = (ArrayAtomic, ArrayLoad, ArrayStore)


def own_gradients(kernel: Kernel, context: Differentiation) -> None:
    """Replace atomic updates of the gradients, in place, by plain updates if no other block or thread can access the
    same elements. No two of the arrays may share bytes. Atomics that add repeatedly to a 16-bit element stay, because
    `widen` redirects them to a float32 array."""
    ranges = IntegerRanges(kernel.launch)
    for array in context.gradients:
        ops = accesses_of(kernel, array)
        if any(_repeats_in_loop(op, ranges) for op in ops):
            continue
        if not disjoint_in_blocks(kernel, ops) and not _disjoint_in_threads(kernel, ops):
            continue
        for op in ops:
            if isinstance(op, TileAtomic):
                _emit_plain_tile_update(kernel, op)
            elif isinstance(op, ArrayAtomic):
                _emit_plain_element_update(kernel, op)


def accesses_of(kernel: Kernel, array: Value) -> list[Op]:
    """The ops that read or write an array parameter, in program order."""
    return [
        op
        for op in kernel.walk()
        if any(e.value is not None and memory_root(e.value) is array for e in op.effects())
    ]


def _repeats_in_loop(op: Op, ranges: IntegerRanges) -> bool:
    """Whether an op may add to the same 16-bit element in several iterations of a loop."""
    if not isinstance(op, TileAtomic | ArrayAtomic) or op.op != "add":
        return False
    array = op.array.type
    assert isinstance(array, ArrayType)
    window = _accessed_window(op)
    repeats = window is None or not never_revisits(op, op, window, window, ranges)
    return scalar_of(array.dtype).bits == 16 and any(True for _ in loops_around(op)) and repeats


def disjoint_in_blocks(kernel: Kernel, ops: Sequence[Op]) -> bool:
    """Whether these accesses of one array access different elements in different blocks, for launches whose dimensions
    do not exceed `max_launch_dims`."""
    if not all(isinstance(op, TILE_ACCESSES) for op in ops) or not kernel.launch.last_is_block:
        return False
    return _are_disjoint(
        [_accessed_window(op) for op in ops], range(kernel.launch.ndim - 1), thread_indices(kernel)
    )


def _disjoint_in_threads(kernel: Kernel, ops: Sequence[Op]) -> bool:
    if not all(isinstance(op, ELEMENT_ACCESSES) for op in ops):
        return False
    return _are_disjoint(
        [_accessed_window(op) for op in ops], range(kernel.launch.ndim), thread_indices(kernel)
    )


def thread_indices(kernel: Kernel) -> dict[Value, int]:
    """The values that are components of the thread index, each with the component's position."""
    return {v: k for op in kernel.walk() if isinstance(op, Tid) for k, v in enumerate(op.results)}


def _accessed_window(op: Op) -> Window | None:
    """The elements of the parameter that an access covers."""
    if isinstance(op, ELEMENT_ACCESSES):
        return in_source(op.array, [span(v, 1) for v in op.indices])
    return window(op)


def _are_disjoint(windows: Sequence[Window | None], owners: Sequence[int], indices: dict[Value, int]) -> bool:
    """Whether blocks or threads that differ in these components of the thread index (`owners`) access different
    elements: each component alone determines the offset along a dimension of its own, with a stride that covers all
    accesses."""
    known_windows = [w for w in windows if w is not None]
    if not known_windows or len(known_windows) < len(windows):
        return False
    used_dims: set[int] = set()
    for component in owners:
        dim = next(
            (
                d
                for d in range(len(known_windows[0]))
                if d not in used_dims and _share_stride([w[d] for w in known_windows], component, indices)
            ),
            None,
        )
        if dim is None:
            return False
        used_dims.add(dim)
    return True


def _share_stride(spans: Sequence[Span], component: int, indices: dict[Value, int]) -> bool:
    """Whether all spans start at the same multiple of a component of the thread index, plus constants and
    launch-uniform numbers, and their union is no longer than this stride."""
    steps: set[int] = set()
    offsets: set[frozenset[tuple[Value, int]]] = set()
    for s in spans:
        own_factors = [factor for v, factor in s.terms if indices.get(v) == component]
        other_terms = frozenset((v, factor) for v, factor in s.terms if indices.get(v) != component)
        if len(own_factors) != 1 or not all(known_to_host(v) for v, _ in other_terms):
            return False
        steps.add(own_factors[0])
        offsets.add(other_terms)
    low, high = min(s.constant for s in spans), max(s.constant + s.length for s in spans)
    return len(steps) == len(offsets) == 1 and high - low <= abs(steps.pop())


def max_launch_dims(kernel: Kernel) -> tuple[int, ...]:
    """The maximum length of each dimension of a launch for which no offset of a plainly written array wraps; with a
    wrapped offset, different blocks or threads would own the same elements."""
    limits, indices = [INDEX_RANGE[1] + 1] * kernel.launch.ndim, thread_indices(kernel)
    written = {
        memory_root(e.value)
        for op in kernel.walk()
        for e in op.effects()
        if e.value is not None and e.kind == "write"
    }
    for op in kernel.walk():
        if not isinstance(op, (*TILE_ACCESSES, *ELEMENT_ACCESSES)) or memory_root(op.array) not in written:
            continue
        for extent in _accessed_window(op) or ():
            for value, factor in extent.terms:
                if value in indices:
                    k = indices[value]
                    limits[k] = min(limits[k], INDEX_RANGE[1] // abs(factor) + 1)
    return tuple(limits)


def _emit_plain_tile_update(kernel: Kernel, op: TileAtomic) -> None:
    """Build array[...] += tile, rounded once."""
    array, tile, *offset = op.operands
    assert isinstance(tile.type, TileType)
    b = SumBuilder(Region(), op.loc)
    attrs = {"bounds_check": op.bounds_check, "aligned": False}
    loaded = {**attrs, "shape": tile.type.shape}
    before = b.one(TileLoad, [array, b.const(0.0, tile.type.dtype), *offset], loaded)
    narrow, wide = (scalar_of(t) for t in (tile.type.dtype, accumulator_type(tile.type.dtype)))
    summands = [b.converted(v, wide) for v in (before, b.unrounded(tile, wide))]
    total = b.map(lambda xs: b.one(Add, xs), summands)
    b.emit(TileStore, [array, b.converted(total, narrow), *offset], attrs)
    _replace_op(kernel, b, op, before)


def _emit_plain_element_update(kernel: Kernel, op: ArrayAtomic) -> None:
    """Build array[...] += value, or array[...] = value."""
    array, value, *indices = op.operands
    assert isinstance(array.type, ArrayType)
    b = SumBuilder(Region(), op.loc)
    before = b.one(ArrayLoad, [array, *indices])
    after = value if op.op == "exch" else _sum_of_elements(b, before, value)
    b.emit(ArrayStore, [array, after, *indices])
    _replace_op(kernel, b, op, before)


def _sum_of_elements(b: SumBuilder, before: Value, value: Value) -> Value:
    """The sum of two elements, rounded once to the type of `before`."""
    t = element(before.type)
    wide, owner = scalar_of(accumulator_type(t)), value.owner
    if isinstance(owner, Cast) and owner.x.type == accumulator_type(t):
        value = owner.x
    total = b.one(Add, [b.as_scalar(before, wide), b.as_scalar(value, wide)])
    return b.as_scalar(total, scalar_of(t))


def _replace_op(kernel: Kernel, b: SumBuilder, op: Op, result: Value) -> None:
    parent = op.parent
    assert parent is not None
    position = parent.ops.index(op)
    for new_op in b.region.ops:
        new_op.parent = parent
    parent.ops[position : position + 1] = b.region.ops
    replace(kernel.body, {op.results[0]: result})
