"""Logical blocks of another size than the blocks of the launch, so that a CTA computes longer or shorter tiles. A tile
of 128 x 96 elements needs more bytes per cycle of the tensor cores than an SM receives, and 72 tiles of 128 x 256 leave
60 of 132 SMs idle. The size of a tile is the user's, but the blocks of a launch are independent, so that the launch can
be divided into tiles of another size.

This is possible along a dimension of the launch if the index of the block only determines offsets of tiles, which
follow each other without a gap, and if every op computes elements along that axis independently of each other: maps,
broadcasts, reductions along other axes, rows and columns of matmuls. Then only the length of the axis changes. A matmul
may also sum along the axis if the sum is only added to an array: a block then adds more terms, or fewer, and the other
blocks add the rest.

If logical blocks do not divide the launch, the last one overlaps the one before it, and both store the same elements.
Blocks that update elements atomically, or read elements that they store, only have sizes that divide the launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import gcd

from tegula.ir import (
    AtomicUpdate,
    Builder,
    Carrier,
    Divisible,
    Kernel,
    MatmulLike,
    Op,
    Region,
    Scale,
    TileAccess,
    Value,
)
from tegula.ir.rewrite import clone_op, insert_before, uses
from tegula.ops import scalar as S
from tegula.ops.base import Elementwise
from tegula.ops.linear import is_zeros
from tegula.passes.accesses import linear
from tegula.passes.overlap import array_root, overlap
from tegula.passes.specialise.costs import MMA_SYNC_TIME, iteration_cost
from tegula.passes.specialise.declined import Declined
from tegula.passes.specialise.launch_indices import indices_along
from tegula.passes.specialise.schedule import BlockCosts
from tegula.types import ArrayType, TileType, Type

LENGTHS = (64, 128, 192, 256)
"""The lengths of tiles to choose from, besides the lengths of the kernel: whole rows of wgmma, and whole boxes of 128
bytes of elements of 16 bits."""


def scale_blocks(kernel: Kernel, scale: Scale) -> None:
    """Change the size of the kernel's blocks in place. Declined if the size cannot change; the kernel may be modified
    nevertheless."""
    _separate_constants(kernel)
    for dim, (numerator, denominator) in enumerate(scale):
        if numerator != denominator:
            _ScaledAxis(kernel, dim, _must_run_once(kernel)).rescale(numerator, denominator)


def costs_of_scales(kernel: Kernel, gets_roles: Callable[[Scale], bool]) -> BlockCosts:
    """The costs of the sizes at which the kernel gets roles: the tiles are resized for each call of `gets_roles`, and
    restored. Declined if blocks have no other size."""
    _separate_constants(kernel)
    once = _must_run_once(kernel)
    axes = [_scaled_axis(kernel, dim, once) for dim in range(kernel.launch.ndim - 1)]
    if not any(axes):
        raise Declined("the blocks have no other size")
    unscaled = tuple((1, 1) for _ in axes)
    cycles = {unscaled: iteration_cost(kernel).cycles * (1 if gets_roles(unscaled) else MMA_SYNC_TIME)}
    for scale in product(*(axis.scales() if axis else [(1, 1)] for axis in axes)):
        for axis, (numerator, denominator) in zip(axes, scale, strict=True):
            if axis:
                axis.resize(numerator, denominator)
        if scale not in cycles and gets_roles(scale):
            cycles[scale] = iteration_cost(kernel).cycles
    for axis in filter(None, axes):
        axis.resize(1, 1)
    return BlockCosts(tuple(cycles.items()), once)


def _scaled_axis(kernel: Kernel, dim: int, once: bool) -> _ScaledAxis | None:
    try:
        return _ScaledAxis(kernel, dim, once)
    except Declined:
        return None


def _separate_constants(kernel: Kernel) -> None:
    """Give each use of a constant tile a tile of its own, whose length may change separately."""
    users = uses(kernel.body)
    for op in [*kernel.walk()]:
        if isinstance(op, Divisible) and not isinstance(op, TileAccess) and not _has_tile_operands(op):
            for user, operand_index in users.get(op.result, [])[1:]:
                clone = clone_op(op, {})
                insert_before(op, [clone])
                user.set_operand(operand_index, clone.result)


def _has_tile_operands(op: Op) -> bool:
    return any(isinstance(v.type, TileType) for v in op.operands)


def _must_run_once(kernel: Kernel) -> bool:
    """Whether a block must not be computed twice, because it updates elements atomically, or reads elements that it
    stores. Declined if a block has effects other than accesses of tiles."""
    read, changed, updates = set[Value](), set[Value](), False
    for op in kernel.walk():
        for effect in op.effects():
            if effect.value is None or not isinstance(effect.value.type, ArrayType):
                raise Declined("blocks with this op cannot have another size", op.loc)
            if effect.kind == "read":
                read.add(array_root(effect.value))
            elif isinstance(op, TileAccess):
                changed.add(array_root(effect.value))
                updates = updates or effect.kind != "write"
            else:
                raise Declined("blocks that change single elements cannot have another size", op.loc)
    return updates or any(a is b or overlap(kernel, a, b) for a in read for b in changed)


class _ScaledAxis:
    """The axis of the tiles along dimension `dim` of the launch, if its length may change. `lengths`: of each tile that
    has the axis, the dimension and its length. `once`: no block may be computed twice. Declined if there is no such
    axis."""

    def __init__(self, kernel: Kernel, dim: int, once: bool) -> None:
        self.indices = indices_along(kernel, dim)
        self.users = uses(kernel.body)
        self.dims: dict[Value, int] = {}
        self.accesses = self._accesses(kernel)
        self.sums: dict[Value, None] = {}
        """The tiles that are sums along the axis, of which each block computes a part."""
        self.additions: set[TileAccess] = set()
        """The accesses that add such sums to an array."""
        self.queue: list[Value] = []
        for access, along in self.accesses.items():
            for tile in _tiles(access):
                self._mark(tile, along)
        while self.queue:
            value = self.queue.pop()
            self._follow_owner(value)
            for user, _ in self.users.get(value, []):
                self._follow_user(user, value)
        if not self.sums.keys().isdisjoint(self.dims):
            raise Declined("a tile is a sum along the axis of neighbouring blocks, and has the axis")
        for op in kernel.walk() if once else ():
            changes = any(e.kind != "read" for e in op.effects())
            if changes and op not in self.accesses and op not in self.additions:
                raise Declined("each of the neighbouring blocks changes these elements", op.loc)
        self.lengths = {value: (along, _shape(value)[along]) for value, along in self.dims.items()}

    def scales(self) -> Iterator[tuple[int, int]]:
        """The candidate fractions of a block, each of which gives whole lengths to all tiles."""
        length = gcd(*(n for _, n in self.lengths.values()))
        yield 1, 1
        for other in LENGTHS:
            common = gcd(other, length)
            if other != length:
                yield other // common, length // common

    def resize(self, numerator: int, denominator: int) -> None:
        """Multiply the lengths of all tiles along the axis by a fraction."""
        for value, (dim, length) in self.lengths.items():
            if length % denominator:
                raise Declined("a tile cannot be divided into parts of blocks")
            _resize(value, dim, length // denominator * numerator)

    def rescale(self, numerator: int, denominator: int) -> None:
        """Change the lengths of all tiles, and their offsets, because the block index now counts parts of blocks."""
        self.resize(numerator, denominator)
        for access, dim in self.accesses.items() if denominator > 1 else ():
            if access.aligned:
                raise Declined("the alignment of this tile is known for whole blocks only", access.loc)
            length = sum(self._steps(access.offset[dim]).values())
            self._shift(access, dim, length - length // denominator)

    def _shift(self, access: TileAccess, dim: int, distance: int) -> None:
        """Subtract the index times `distance` from an offset of an access."""
        index = next(iter(self._steps(access.offset[dim])))
        build, t = Builder(Region(), access.loc), access.offset[dim].type
        shift = build.insert(S.Mul([index, _number(build, t, distance)], [t])).result
        offset = [*access.offset]
        offset[dim] = build.insert(S.Sub([offset[dim], shift], [t])).result
        insert_before(access, build.region.ops)
        access.offset = offset

    def _steps(self, offset: Value) -> dict[Value, int]:
        """The steps of an offset for each value that is the index of the block."""
        return {term: n for term, n in linear(offset)[0].items() if term in self.indices}

    def _accesses(self, kernel: Kernel) -> dict[TileAccess, int]:
        """The accesses whose offsets depend on the block's index, each with the dimension along which its tiles follow
        each other. Nothing else may depend on the index."""
        dependent = set(self.indices)
        accesses: dict[TileAccess, int] = {}
        for op in kernel.walk():
            if dependent.isdisjoint(op.operands):
                continue
            if isinstance(op, TileAccess) and dependent.isdisjoint({*op.operands} - {*op.offset}):
                accesses[op] = self._dim_of(op, dependent)
            elif isinstance(op, Elementwise):
                dependent.update(op.results)
            else:
                raise Declined("this op depends on the index of the block", op.loc)
        if not accesses:
            raise Declined("no tile depends on the index of the block")
        return accesses

    def _dim_of(self, access: TileAccess, dependent: set[Value]) -> int:
        shape = _shape(_tiles(access)[0])
        dims: list[int] = []
        for dim, offset in enumerate(access.offset):
            steps = {term: n for term, n in linear(offset)[0].items() if term in dependent}
            if steps:
                if len(shape) != len(access.offset) or not self.indices.issuperset(steps):
                    raise Declined("the tiles of neighbouring blocks do not follow each other", access.loc)
                if sum(steps.values()) != shape[dim]:
                    raise Declined("the tiles of neighbouring blocks do not follow each other", access.loc)
                dims.append(dim)
        if len(dims) != 1:
            raise Declined("the tiles of neighbouring blocks do not follow each other", access.loc)
        return dims[0]

    def _mark(self, value: Value, dim: int) -> None:
        if value not in self.dims:
            self.dims[value] = dim
            self.queue.append(value)
        elif self.dims[value] != dim:
            raise Declined("two axes of a tile depend on the index of the block")

    def _follow_owner(self, value: Value) -> None:
        """Mark the operands of the op that defines a marked tile."""
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
        """Mark the results of an op that uses a marked tile."""
        dim = self.dims[value]
        if isinstance(user, TileAccess):
            self._check_access(user, dim)
        elif isinstance(user, Carrier):
            self._mark_carried(user, value, dim)
        elif isinstance(user, MatmulLike) and (value, dim) in ((user.a, 1), (user.b, 0)):
            self._mark_sum(user.result)
        elif isinstance(user, Divisible):
            rank = len(_shape(user.result))
            dims = [d for d in range(rank) if (value, dim) in (user.divided(d) or ())]
            if len(dims) != 1:
                raise self._not_independent(user)
            self._mark(user.result, dims[0])
        elif user.parent is not None and user is user.parent.ops[-1]:
            self._mark_carried(user.parent.parent, value, dim)
        else:
            raise self._not_independent(user)

    def _mark_sum(self, value: Value) -> None:
        """Mark a tile that is a sum along the axis, and the sums from which the tile is computed, or which are computed
        from the tile."""
        if value in self.sums:
            return
        self.sums[value] = None
        op = value.owner
        if isinstance(op, MatmulLike):
            self._mark(op.a, 1)
            self._mark(op.b, 0)
            if not is_zeros(op.c):
                self._mark_sum(op.c)
        elif isinstance(op, Region | Carrier):
            self._mark_carried_sum(op.parent if isinstance(op, Region) else op, value)
        else:
            raise self._not_independent(op)
        for user, _ in self.users.get(value, []):
            self._follow_sum(user, value)

    def _follow_sum(self, user: Op, value: Value) -> None:
        """Mark the sums that are computed from a sum along the axis, which may only be added to other sums."""
        if isinstance(user, MatmulLike) and value is user.c and value not in user.sides:
            self._mark_sum(user.result)
        elif isinstance(user, TileAccess) and self._adds(user):
            self.additions.add(user)
        elif isinstance(user, Carrier):
            self._mark_carried_sum(user, value)
        elif user.parent is not None and user is user.parent.ops[-1]:
            self._mark_carried_sum(user.parent.parent, value)
        else:
            raise self._not_independent(user)

    def _adds(self, access: TileAccess) -> bool:
        """Whether an access only adds to elements, to which other blocks may add, too."""
        adds = isinstance(access, AtomicUpdate) and access.combination == "add" and not access.exclusive
        return adds and not any(self.users.get(v) for v in access.results)

    def _mark_carried_sum(self, op: Op | None, value: Value) -> None:
        carried = op.carried if isinstance(op, Carrier) else []
        values = [v for variable in carried if value in variable.values for v in variable.values]
        if not values:
            raise self._not_independent(op)
        for v in values:
            if not is_zeros(v):
                self._mark_sum(v)

    def _check_access(self, access: TileAccess, dim: int) -> None:
        if self.accesses.get(access) != dim:
            raise Declined("a tile of this access does not grow with the block", access.loc)

    def _mark_carried(self, op: Op | None, value: Value, dim: int) -> None:
        carried = op.carried if isinstance(op, Carrier) else []
        values = [v for variable in carried if value in variable.values for v in variable.values]
        if not values:
            raise Declined("a tile of a block is not carried by a loop")
        for v in values:
            self._mark(v, dim)

    def _not_independent(self, op: Op | Region | None) -> Declined:
        locations = (op.loc,) if isinstance(op, Op) else ()
        return Declined("this op combines elements along the axis of neighbouring blocks", *locations)


def _resize(value: Value, dim: int, length: int) -> None:
    """Change the length of a tile along one dimension."""
    t, op = value.type, value.owner
    assert isinstance(t, TileType)
    if isinstance(op, Divisible):
        op.resize(dim, length)
    else:
        value.type = TileType(t.dtype, (*t.shape[:dim], length, *t.shape[dim + 1 :]), t.partial)


def _number(build: Builder, t: Type, n: int) -> Value:
    return build.insert(S.Const([], [t], {"type": t, "value": n})).result


def _tiles(access: TileAccess) -> list[Value]:
    return [v for v in (*access.results, *access.operands) if isinstance(v.type, TileType)]


def _shape(value: Value) -> tuple[int, ...]:
    assert isinstance(value.type, TileType)
    return value.type.shape
