"""Merges neighbouring blocks: a CTA computes the tiles of several blocks as one longer tile.

A tile of 128 x 96 elements brings more bytes into a multiprocessor for each cycle of its tensor cores than can arrive;
two of them side by side share their left operands. Blocks that are neighbours along a dimension of the launch can be
merged if the index of the block along that dimension only determines offsets of tiles, which follow each other without
a gap, and if every op computes elements along the merged axis independently of each other: maps, broadcasts, reductions
along other axes, rows and columns of matmuls. The length of the axis is all that changes then.

If the merged blocks do not divide the number of blocks, the last logical block overlaps the one before it, and both
store the same elements. Blocks that update elements atomically, or read what they store, are merged only if they
divide."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from tegula.ir import Carrier, Divisible, Kernel, Op, Region, TileAccess, Value
from tegula.ir.rewrite import uses
from tegula.ops.base import Elementwise
from tegula.passes.accesses import linear
from tegula.passes.overlap import array_root, overlap
from tegula.passes.specialise.build_roles import clone_body
from tegula.passes.specialise.costs import iteration_cost
from tegula.passes.specialise.declined import Declined
from tegula.passes.specialise.places import indices_along
from tegula.types import ArrayType, TileType

LEAST_GAIN = 0.95
"""The largest time with merged blocks, relative to the time of separate blocks, at which blocks are merged."""


def merge_blocks(kernel: Kernel, factors: Sequence[int]) -> None:
    """Merge factors[d] neighbouring blocks along each dimension d of the launch, in place. Declined if the kernel's
    blocks cannot be merged; the kernel may have changed then."""
    if prod(factors) == 1:
        return
    once = _compute_once(kernel)
    whole = kernel.launch.whole_merges or (1,) * len(factors)
    if once and any(factor > most for factor, most in zip(factors, whole, strict=True)):
        raise Declined("blocks that update elements, or read what they store, cannot be computed twice")
    for dim, factor in enumerate(factors):
        if factor > 1:
            for value, along in _MergedAxis(kernel, dim, once).dims.items():
                _lengthen(value, along, factor)


def merge_candidates(kernel: Kernel) -> list[tuple[int, ...]]:
    """The numbers of blocks to merge along each dimension of the launch that the cost model prefers to separate blocks,
    the fastest first. Empty if the tensor cores do not wait for the tiles of separate blocks."""
    launch, alone = kernel.launch, iteration_cost(kernel)
    if not launch.merges or not alone.waits_for_tiles:
        return []
    once = _compute_once(kernel)
    costs: dict[tuple[int, ...], float] = {}
    for factors in product(*map(_powers_of_two, launch.whole_merges if once else launch.merges)):
        step = prod(factors).bit_length() - 2
        use = launch.merged_use[step] if 0 <= step < len(launch.merged_use) else 0.0
        cost = _cost_of_merged(kernel, factors) if use else None
        if cost is not None and cost / use < LEAST_GAIN * alone.cycles:
            costs[factors] = cost / use
    return sorted(costs, key=lambda factors: (costs[factors], prod(factors), factors))


def _powers_of_two(most: int) -> list[int]:
    return [1 << k for k in range(most.bit_length())]


def _cost_of_merged(kernel: Kernel, factors: Sequence[int]) -> float | None:
    """The cycles of an iteration for each of the merged blocks; None if they cannot be merged."""
    before, kernel.body.ops = kernel.body.ops, clone_body(kernel)
    try:
        merge_blocks(kernel, factors)
        return iteration_cost(kernel).cycles / prod(factors)
    except Declined:
        return None
    finally:
        kernel.body.ops = before


def _compute_once(kernel: Kernel) -> bool:
    """Whether a block may not be computed twice: it updates elements atomically, or reads what it stores. Declined if a
    block has an effect besides accesses of tiles."""
    read, changed, updates = set[Value](), set[Value](), False
    for op in kernel.walk():
        for effect in op.effects():
            if effect.value is None or not isinstance(effect.value.type, ArrayType):
                raise Declined("blocks with this op cannot be merged", op.loc)
            if effect.kind == "read":
                read.add(array_root(effect.value))
            elif isinstance(op, TileAccess):
                changed.add(array_root(effect.value))
                updates = updates or effect.kind != "write"
            else:
                raise Declined("blocks that change single elements cannot be merged", op.loc)
    return updates or any(a is b or overlap(kernel, a, b) for a in read for b in changed)


class _MergedAxis:
    """The axis along which the blocks that are neighbours in dimension `dim` of the launch can be merged. `dims`: the
    dimension of each tile that has the axis. `once`: no block may be computed twice. Declined if there is no such
    axis."""

    def __init__(self, kernel: Kernel, dim: int, once: bool) -> None:
        self.indices = indices_along(kernel, dim)
        self.users = uses(kernel.body)
        self.dims: dict[Value, int] = {}
        self.accesses = self._accesses(kernel)
        for op in kernel.walk() if once else ():
            if op not in self.accesses and any(e.kind != "read" for e in op.effects()):
                raise Declined("each of the neighbouring blocks changes these elements", op.loc)
        self.queue: list[Value] = []
        for access, along in self.accesses.items():
            for tile in _tiles(access):
                self._mark(tile, along)
        while self.queue:
            value = self.queue.pop()
            self._follow_owner(value)
            for user, _ in self.users.get(value, []):
                self._follow_user(user, value)

    def _accesses(self, kernel: Kernel) -> dict[TileAccess, int]:
        """The accesses whose offsets depend on the block's index, each with the dimension along which its tiles follow
        each other. Nothing else may depend on the index."""
        depend = set(self.indices)
        found: dict[TileAccess, int] = {}
        for op in kernel.walk():
            if depend.isdisjoint(op.operands):
                continue
            if isinstance(op, TileAccess) and depend.isdisjoint({*op.operands} - {*op.offset}):
                found[op] = self._dim_of(op, depend)
            elif isinstance(op, Elementwise):
                depend.update(op.results)
            else:
                raise Declined("this op depends on the index of the block", op.loc)
        if not found:
            raise Declined("no tile depends on the index of the block")
        return found

    def _dim_of(self, access: TileAccess, depend: set[Value]) -> int:
        shape = _shape(_tiles(access)[0])
        found: list[int] = []
        for dim, offset in enumerate(access.offset):
            steps = {term: n for term, n in linear(offset)[0].items() if term in depend}
            if steps:
                if len(shape) != len(access.offset) or not self.indices.issuperset(steps):
                    raise Declined("the tiles of neighbouring blocks do not follow each other", access.loc)
                if sum(steps.values()) != shape[dim]:
                    raise Declined("the tiles of neighbouring blocks do not follow each other", access.loc)
                found.append(dim)
        if len(found) != 1:
            raise Declined("the tiles of neighbouring blocks do not follow each other", access.loc)
        return found[0]

    def _mark(self, value: Value, dim: int) -> None:
        if value not in self.dims:
            self.dims[value] = dim
            self.queue.append(value)
        elif self.dims[value] != dim:
            raise Declined("two axes of a tile depend on the index of the block")

    def _follow_owner(self, value: Value) -> None:
        """Mark the tiles that a marked tile is made from."""
        op, dim = value.owner, self.dims[value]
        if isinstance(op, Region | Carrier):
            self._mark_carried(op.parent if isinstance(op, Region) else op, value, dim)
        elif isinstance(op, TileAccess):
            self._check_access(op, dim)
        else:
            parts = op.divided(dim) if isinstance(op, Divisible) else None
            if parts is None:
                raise self._not_independent(op)
            for part, along in parts:
                self._mark(part, along)

    def _follow_user(self, user: Op, value: Value) -> None:
        """Mark the tiles that are made from a marked tile."""
        dim = self.dims[value]
        if isinstance(user, TileAccess):
            self._check_access(user, dim)
        elif isinstance(user, Carrier):
            self._mark_carried(user, value, dim)
        elif isinstance(user, Divisible):
            rank = len(_shape(user.result))
            found = [d for d in range(rank) if (value, dim) in (user.divided(d) or ())]
            if len(found) != 1:
                raise self._not_independent(user)
            self._mark(user.result, found[0])
        elif user.parent is not None and user is user.parent.ops[-1]:
            self._mark_carried(user.parent.parent, value, dim)
        else:
            raise self._not_independent(user)

    def _check_access(self, access: TileAccess, dim: int) -> None:
        if self.accesses.get(access) != dim:
            raise Declined("a tile of this access does not grow with the block", access.loc)

    def _mark_carried(self, op: Op | None, value: Value, dim: int) -> None:
        carried = op.carried if isinstance(op, Carrier) else []
        values = [v for one in carried if value in one.values for v in one.values]
        if not values:
            raise Declined("a tile of merged blocks is not carried by a loop")
        for v in values:
            self._mark(v, dim)

    def _not_independent(self, op: Op | Region | None) -> Declined:
        where = (op.loc,) if isinstance(op, Op) else ()
        return Declined("this op combines elements along the axis of neighbouring blocks", *where)


def _lengthen(value: Value, dim: int, factor: int) -> None:
    """Multiply the length of a tile along one dimension."""
    t, op = value.type, value.owner
    assert isinstance(t, TileType)
    length = t.shape[dim] * factor
    if isinstance(op, Divisible):
        op.resize(dim, length)
    else:
        value.type = TileType(t.dtype, (*t.shape[:dim], length, *t.shape[dim + 1 :]), t.partial)


def _tiles(access: TileAccess) -> list[Value]:
    return [v for v in (*access.results, *access.operands) if isinstance(v.type, TileType)]


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, TileType)
    return value.type.shape
