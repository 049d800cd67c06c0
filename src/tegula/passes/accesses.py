"""Which element accesses of different lanes may touch the same bytes of a tile."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.dataclass import dataclass
from tegula.ir import Op, Region, Value
from tegula.ops.buffer import BufExchange, BufGet, BufReshape, BufSet, BufUpdate, BufView
from tegula.ops.control import For, If
from tegula.ops.convert import Cast
from tegula.ops.integer_ranges import IntegerRanges
from tegula.ops.lane import LaneIndex, Lanes, Tid
from tegula.ops.roles import WARP, Roles
from tegula.ops.scalar import Add, Cmp, Const, Mul, Neg, Sub
from tegula.passes.promote_buffers import root
from tegula.passes.uniformity import Uniformity
from tegula.types import DType


@dataclass(frozen=True, slots=True)
class Access:
    """One element access of a buffer: `kind` read, write or atomic; `guards`: (condition, value it has here)."""

    op: Op
    kind: str
    buffer: Value
    index: tuple[Value, ...]
    guards: tuple[tuple[Value, bool], ...] = ()


def accesses(op: Op, guards: tuple[tuple[Value, bool], ...] = ()) -> Iterator[Access]:
    """The element accesses of an op and those nested in it."""
    if isinstance(op, BufGet):
        yield Access(op, "read", op.operands[0], tuple(op.operands[1:]), guards)
    elif isinstance(op, BufSet | BufUpdate | BufExchange):
        kind = "atomic" if isinstance(op, BufUpdate) else "write"
        yield Access(op, kind, op.operands[0], tuple(op.operands[2:]), guards)
    for position, region in enumerate(op.regions):
        inner = (*guards, (op.operands[0], position == 0)) if isinstance(op, If) else guards
        for nested in region.ops:
            yield from accesses(nested, inner)


def conflict(a: Access, b: Access, known: Uniformity, within: Op | None = None) -> bool:
    """Whether two different lanes may touch the same bytes, one of them writing. `within` is the divergent op that
    holds both, if one does: values that change inside it do not tie an index to a lane."""
    if root(a.buffer) is not root(b.buffer) or a.kind == b.kind in ("read", "atomic"):
        return False
    if _same_lane(a, b, known, within) or _never_meet(a, b, known, within):
        return False
    return not (_disjoint(a, b) or _disjoint(b, a))


def internal_conflicts(op: Op, known: Uniformity) -> Iterator[tuple[Access, Access]]:
    """Conflicting pairs inside one divergent op."""
    inside = list(accesses(op))
    for k, a in enumerate(inside):
        for b in inside[k + 1 :]:
            if a.op is not b.op and conflict(a, b, known, op):
                yield a, b


def may_meet(op: Op, known: Uniformity) -> bool:
    """Whether different lanes may touch the same bytes of a tile, one of them writing, while they run `op`: also in
    different rounds of its loops, so that what a guard says in one round counts for nothing."""
    inside = list(accesses(op))
    return any(
        root(a.buffer) is root(b.buffer)
        and not a.kind == b.kind in ("read", "atomic")
        and not (_stable(a.buffer, op) and (_same_lane(a, b, known, op) or _never_meet(a, b, known, op)))
        for k, a in enumerate(inside)
        for b in inside[k:]
    )


def _same_lane(a: Access, b: Access, known: Uniformity, within: Op | None) -> bool:
    """Different lanes are in different places along some dimension of the same view: both accesses take the same index
    there, and it is one that no two lanes share."""
    if a.buffer is not b.buffer:
        return False
    return any(_equal(x, y) and injective(x, known, within) for x, y in zip(a.index, b.index, strict=False))


def _never_meet(a: Access, b: Access, known: Uniformity, within: Op | None) -> bool:
    """Indices along some dimension of the same view that differ by a constant, in all lanes and at all times."""
    if a.buffer is not b.buffer:
        return False
    for x, y in zip(a.index, b.index, strict=False):
        terms, distance = _difference(x, y)
        if not terms and distance and all(_fixed(term, known, within) for term in linear(x)[0]):
            return True
    return False


def _fixed(value: Value, known: Uniformity, within: Op | None) -> bool:
    """Whether a value is the same for all lanes, and for all of `within`'s run."""
    return not known.varying(value) and _stable(value, within)


def _equal(a: Value, b: Value) -> bool:
    if a is b:
        return True
    x, y = a.owner, b.owner
    return isinstance(x, Const) and isinstance(y, Const) and x.attrs == y.attrs


def injective(value: Value, known: Uniformity, within: Op | None) -> bool:
    """Whether different lanes always have different values (also in different iterations of loops in `within`)."""
    owner = value.owner
    if isinstance(owner, Region):
        return _strided_loop(value, owner, known)
    if isinstance(owner, Tid):
        return _is_lane(value, owner, known)
    if isinstance(owner, LaneIndex):
        return True
    if isinstance(owner, Lanes):
        given = owner.regions[0].terminator.operands[owner.results.index(value)]
        return injective(given, known, within)
    if isinstance(owner, Cast):
        to, source = owner.attrs["to"], owner.operands[0].type
        widens = isinstance(source, DType) and source.is_int and to.is_int and to.bits >= source.bits
        return widens and injective(owner.operands[0], known, within)
    if isinstance(owner, Add | Sub):
        for x, y in (owner.operands, reversed(owner.operands)):
            if injective(x, known, within) and not known.varying(y) and _stable(y, within):
                return True
    return isinstance(owner, Neg) and injective(owner.operands[0], known, within)


def _is_lane(value: Value, tid: Tid, known: Uniformity) -> bool:
    """The last component when it runs over the block, or the only one."""
    position = tid.results.index(value)
    last = position == known.launch.ndim - 1
    return last and (known.launch.last_is_block or known.launch.ndim == 1)


def _strided_loop(value: Value, region: Region, known: Uniformity) -> bool:
    """`for i in range(lane, n, step)` with a step of at least the group's size visits each element in one lane only."""
    loop = region.parent
    if not isinstance(loop, For) or region.args[0] is not value:
        return False
    step, lanes = loop.operands[2].owner, _group_lanes(loop, known)
    if not isinstance(step, Const):
        return False
    size: int = step.attrs["value"]
    return size >= lanes and size % lanes == 0 and injective(loop.operands[0], known, None)


def _group_lanes(op: Op, known: Uniformity) -> int:
    """The lanes that run an op together: those of its role, or of the block."""
    region = op.parent
    while region is not None and region.parent is not None:
        if isinstance(region.parent, Roles):
            return WARP * region.parent.attrs["warps"][region.parent.regions.index(region)][1]
        region = region.parent.parent
    return known.launch.block_dim


def _stable(value: Value, within: Op | None) -> bool:
    """Whether a value has one value for all of `within`'s run."""
    if within is None:
        return True
    owner = value.owner
    if isinstance(owner, Region):
        return not _inside(owner.parent, within)
    if not isinstance(owner, Op) or not _inside(owner, within):
        return True
    return not owner.regions and not owner.effects() and all(_stable(v, within) for v in owner.operands)


def _inside(op: Op | None, outer: Op) -> bool:
    while op is not None:
        if op is outer:
            return True
        op = op.parent.parent if op.parent is not None else None
    return False


# Disjointness --------------------------------------------------------------------------------------------------------


def linear(value: Value) -> tuple[dict[Value, int], int]:
    """value = sum of coefficient * term + constant."""
    owner = value.owner
    if isinstance(owner, Const) and isinstance(owner.attrs["value"], int):
        return {}, int(owner.attrs["value"])
    if isinstance(owner, Add | Sub):
        (terms, constant), (others, other) = (linear(v) for v in owner.operands)
        sign = 1 if isinstance(owner, Add) else -1
        total = dict(terms)
        for term, coefficient in others.items():
            total[term] = total.get(term, 0) + sign * coefficient
        return {t: c for t, c in total.items() if c}, constant + sign * other
    if isinstance(owner, Mul):
        for x, y in (owner.operands, reversed(owner.operands)):
            if isinstance(y.owner, Const):
                terms, constant = linear(x)
                factor = int(y.owner.attrs["value"])
                return {t: c * factor for t, c in terms.items()}, constant * factor
    return {value: 1}, 0


def _difference(a: Value, b: Value) -> tuple[dict[Value, int], int]:
    (terms, constant), (others, other) = linear(a), linear(b)
    total = dict(terms)
    for term, coefficient in others.items():
        total[term] = total.get(term, 0) - coefficient
    return {t: c for t, c in total.items() if c}, constant - other


def _disjoint(far: Access, near: Access) -> bool:
    """far's index is near's plus u, near's is known to be below u, and indices are not negative: so far's is at least
    u in every lane, near's below u in every lane. u must not differ between lanes: it is the same value or constant."""
    if isinstance(far.buffer.owner, BufView | BufReshape) and far.buffer is not near.buffer:
        return False
    return any(_apart(x, y, near) for x, y in zip(far.index, near.index, strict=False))


def _apart(far: Value, near: Value, access: Access) -> bool:
    if not IntegerRanges().nonnegative(near):
        return False
    step = _difference(far, near)
    return any(_difference(bound, near_index) == ({}, 0) for bound, near_index in _bounds(access, near, step))


def _bounds(access: Access, near: Value, step: tuple[dict[Value, int], int]) -> Iterator[tuple[Value, Value]]:
    """Pairs that are equal when a guard says near < u with u = step."""
    for condition, holds in access.guards:
        owner = condition.owner
        if not isinstance(owner, Cmp):
            continue
        low, high = _less_than(owner, holds)
        if low is None or high is None or linear(high) != step:
            continue
        yield low, near


def _less_than(comparison: Cmp, holds: bool) -> tuple[Value | None, Value | None]:
    """(x, y) where the comparison, or its failure, says x < y."""
    a, b = comparison.operands
    pred = comparison.attrs["pred"]
    if (pred, holds) in (("lt", True), ("ge", False)):
        return a, b
    if (pred, holds) in (("gt", True), ("le", False)):
        return b, a
    return None, None
