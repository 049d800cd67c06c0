"""Alias analysis: whether an op may write memory that another op reads, with aliases of arrays and buffers through
views, and overlapping arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.ir import ArrayViewLike, Kernel, MemoryFence, Op, Region, TileAccess, Value, root
from tegula.ops.array import ArrayView, array_type
from tegula.ops.buffer import BufNew, BufRead
from tegula.ops.roles import WAITS, PipePop, PipeRelease
from tegula.ops.schedule import HANDOVERS, MbarrierWait, NamedSync
from tegula.types import ArrayType, BufType, PipeType


def array_root(value: Value) -> Value:
    """The parameter that an array is a view of."""
    while isinstance(value.owner, ArrayViewLike):
        value = value.owner.array
    return value


def unit_dimension(kernel: Kernel, array: Value) -> int | None:
    """The dimension of an array, or of a view, along which elements are known to be adjacent; None if there is none."""
    views: list[ArrayView] = []
    while isinstance(array.owner, ArrayView):
        views.append(array.owner)
        array = array.owner.array
    access = kernel.access[kernel.params.index(array)] if array in kernel.params else None
    unit = None if access is None else access.unit_dimension(array_type(array.type).ndim)
    for view in reversed(views):
        if unit is None or view.spec[unit] != ("slice", 1):
            return None
        unit = sum(entry != "index" for entry in view.spec[:unit])
    return unit


def has_adjacent_columns(kernel: Kernel, access: TileAccess) -> bool:
    """Whether the elements of a tile's array are known to be adjacent along the dimension before the last."""
    return unit_dimension(kernel, access.array) == array_type(access.array.type).ndim - 2


def along_columns(kernel: Kernel, accesses: Sequence[Op]) -> bool:
    """Whether the elements of tiles that these ops access are best taken along columns: stores decide, or loads if
    there are no stores, because elements of a load that are used later stay in a cache."""
    deciding = [op for op in accesses if isinstance(op, TileAccess) and op.writes] or accesses
    return bool(deciding) and all(
        isinstance(op, TileAccess) and has_adjacent_columns(kernel, op) for op in deciding
    )


def starts_in_rows(array: Value) -> list[Value] | None:
    """The places in the innermost dimension of a parameter at which the rows of a view start, and those of the views
    that it is a view of; None if a row of the view is no part of a row of the parameter."""
    starts: list[Value] = []
    while isinstance(array.owner, ArrayView):
        view = array.owner
        if view.spec[-1] != ("slice", 1):
            return None
        starts.append(view.bounds[-2])
        array = view.array
    return starts


def writes(kernel: Kernel, op: Op, sources: set[Value]) -> bool:
    """Whether an op, or one nested in it, may write one of the arrays and buffers."""
    for inner in op.walk() if sources else ():
        # While a role waits, other roles may write arrays and shared tiles; at a fence other blocks may write arrays.
        if isinstance(inner, FENCES) and any(isinstance(v.type, ArrayType) for v in sources):
            return True
        if isinstance(inner, HANDOVERS) and any(between_roles(v) for v in sources):
            return True
        for effect in inner.effects():
            target = effect.value
            if (
                effect.kind in ("write", "atomic")
                and target is not None
                and _aliases(kernel, target, sources)
                and (not isinstance(target.type, PipeType) or isinstance(inner, PipeRelease))
            ):
                return True
    return False


WAITING = (*WAITS, MbarrierWait, NamedSync)
FENCES = (*WAITING, MemoryFence)


def between_roles(buffer: Value) -> bool:
    """Whether a buffer is a view of a tile that roles share."""
    owner = root(buffer).owner if isinstance(buffer.type, BufType) else None
    return isinstance(owner, BufNew) and bool(owner.between_roles)


def _aliases(kernel: Kernel, value: Value, sources: set[Value]) -> bool:
    if isinstance(value.type, BufType):
        return root(value) in sources
    if isinstance(value.type, PipeType):
        return any(popped_from(v, value) for v in sources)
    if not isinstance(value.type, ArrayType):
        return False
    target = array_root(value)
    return target in sources or any(
        overlap(kernel, target, v) for v in sources if isinstance(v.type, ArrayType)
    )


def popped_from(buffer: Value, pipe: Value) -> bool:
    """Whether a buffer is a view of a stage popped from the pipe, which a release returns to the producer."""
    source = root(buffer).owner
    return isinstance(source, PipePop) and source.pipe is pipe


def overlap(kernel: Kernel, a: Value, b: Value) -> bool:
    """Whether two array parameters share bytes in this launch."""
    first, second = kernel.params.index(a), kernel.params.index(b)
    access = kernel.access[first]
    return access is None or second in access.aliases


def reads_in_place(
    kernel: Kernel,
    read: BufRead,
    region: Region,
    users: dict[Value, list[tuple[Op, int]]],
    views: tuple[type[Op], ...] = (),
) -> bool:
    """Whether a buffer keeps its contents until the last use of a read, so that no copy is needed. The last use may
    overwrite the buffer element by element from this read alone. `views`: ops whose results are views of their
    operands, so that uses of these results are uses of the read."""
    target = root(read.buffer)
    ancestors = [_ancestor_in(op, region) for op in _uses_through(read.result, users, views)]
    if any(t is None for t in ancestors):
        return False
    order = {op: k for k, op in enumerate(region.ops)}
    last = max((order[t] for t in ancestors if t is not None), default=order[read])
    for op in region.ops[order[read] + 1 : last]:
        if writes(kernel, op, {target}):
            return False
    last_op = region.ops[last]
    return not writes(kernel, last_op, {target}) or last_op is read


def _uses_through(
    value: Value, users: dict[Value, list[tuple[Op, int]]], views: tuple[type[Op], ...]
) -> Iterator[Op]:
    for op, _ in users.get(value, ()):
        yield op
        if isinstance(op, views):
            yield from _uses_through(op.result, users, views)


def _ancestor_in(op: Op, region: Region) -> Op | None:
    ancestor: Op | None = op
    while ancestor is not None and ancestor.parent is not region:
        ancestor = ancestor.parent.parent if ancestor.parent is not None else None
    return ancestor
