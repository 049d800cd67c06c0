"""Gradient tiles that have an owner in another grid.

The adjoint of a load in a loop adds to a tile that other blocks add to as well: of C = A B the block (i, j) adds to the
tiles (i, k) of A's gradient, for every k. A grid over (i, k), with a loop over j inside, owns each of those tiles, adds
up what belongs to it and writes it once. So the part of the adjoint kernel that such an atomic depends on becomes a
kernel of its own: the block and loop indices that say where the tile lies are its grid, all others are its loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.ir import Kernel, LaunchClass, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayView
from tegula.ops.control import For, While, Yield
from tegula.ops.convert import Cast
from tegula.ops.gradient import GradientBuilder
from tegula.ops.lane import Tid
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileAtomic, TileFull, TileLoad, TileMap, TilePermute, TileStore
from tegula.passes.gradient.activity import memory_root
from tegula.passes.gradient.owners import accesses_of, apart_in_blocks, thread_indices
from tegula.passes.gradient.steps import Extent, Step, known_to_host
from tegula.passes.simplify import simplify
from tegula.passes.window import apart, moves_on, window
from tegula.rewrite import clone_op, erase_dead
from tegula.types import DType, ElementType, TileType, float32, int32, scalar_of, with_scalar
from tegula.verify import verify

MOST_DIMS = 3
"""Dimensions of a grid."""


class _NoOwner(Exception):
    """There is no grid that owns the tiles; why."""


def gather(adjoint: Kernel, arrays: Sequence[Value]) -> list[Step]:
    """The steps that replace an adjoint kernel, which is changed: one for each atomic of the given gradient arrays
    whose tiles a grid owns, then what is left of the kernel."""
    steps: list[Step] = []
    if adjoint.launch.last_is_block and not adjoint.launch.partial:
        for array in arrays:
            steps += _of_array(adjoint, array)
    erase_dead(adjoint, objects=True)
    verify(adjoint)
    rest = Step(adjoint, tuple(adjoint.params))
    return steps if steps and len(adjoint.body.ops) == 1 else [*steps, rest]


def _of_array(adjoint: Kernel, array: Value) -> list[Step]:
    touching = accesses_of(adjoint, array)
    if not all(isinstance(op, TileAtomic) and op.attrs["op"] == "add" for op in touching):
        return []
    steps: list[Step] = []
    for atomic in touching:
        try:
            steps.append(_Owner(adjoint, atomic).step())
        except _NoOwner:
            continue
        assert atomic.parent is not None
        atomic.parent.ops.remove(atomic)
    return steps


class _Owner:
    """Builds the kernel that owns the tiles of one atomic."""

    def __init__(self, adjoint: Kernel, atomic: Op) -> None:
        self.adjoint = adjoint
        self.atomic = atomic
        self.array, self.tile, *self.at = atomic.operands
        self.loops = list(_loops_around(atomic))
        self.numbers = thread_indices(adjoint)
        self.order = {op: k for k, op in enumerate(adjoint.walk())}
        self.blocks = adjoint.launch.ndim - 1
        self.components: list[int] = []
        """Components of the block's index that say where the tile lies."""
        self.across: list[Op] = []
        """Loops around the atomic whose indices do."""
        self.grid: list[Extent] = []
        self.owners: list[int | Op] = []
        """A component or one of those loops, for each dimension of the grid."""
        self.backwards: dict[Op, list[Value]] = {}
        """What counts the rounds of a loop from the first to the last, where its index counts them backwards."""

    def step(self) -> Step:
        """The step; _NoOwner if there is none."""
        self._find_owner()
        needed = self._needed()
        made = self._built(needed)
        return made

    # Whose tile it is ------------------------------------------------------------------------------------------------

    def _find_owner(self) -> None:
        where = window(self.atomic)
        if where is None or not all(isinstance(op, For) for op in self.loops):
            raise _NoOwner("it is added to under a condition, or at an offset that is not known")
        indices = {loop.regions[0].args[0]: loop for loop in self.loops}
        for span in where:
            for value, _ in span.terms:
                if value in self.numbers and self.numbers[value] < self.blocks:
                    number = self.numbers[value]
                    if number not in self.components:
                        self.components.append(number)
                        self.owners.append(number)
                        self.grid.append(number)
                elif value in indices:
                    self._across(indices[value])
                elif not known_to_host(value):
                    raise _NoOwner("its offsets are not multiples of block and loop indices")
        if not 1 <= len(self.grid) <= MOST_DIMS:
            raise _NoOwner("all blocks add to the same tiles")

    def _across(self, loop: Op) -> None:
        if loop in self.across:
            return
        start, stop, step = loop.operands[:3]
        if _constant(start) != 0 or _constant(step) != 1 or not known_to_host(stop) or stop.type != int32:
            raise _NoOwner("how often a loop runs is not known before the launch")
        self.across.append(loop)
        self.owners.append(loop)
        self.grid.append(stop)
        self.backwards[loop] = [
            op.result
            for op in loop.regions[0].walk()
            if isinstance(op, S.Sub)
            and op.operands[1] is loop.regions[0].args[0]
            and isinstance(op.operands[0].owner, S.Sub)
            and op.operands[0].owner.operands[0] is stop
            and _constant(op.operands[0].owner.operands[1]) == 1
        ]

    # What it depends on ----------------------------------------------------------------------------------------------

    def _needed(self) -> list[Op]:
        """The ops that the tile depends on, in program order; loops around the atomic are not among them."""
        ops: set[Op] = set()
        seen: set[Value] = set()
        pending = [self.tile, *self.at, *(v for a in _views(self.array) for v in a.operands[1:])]
        pending += [v for loop in self.loops if loop not in self.across for v in loop.operands[:3]]
        ops.update(_views(self.array))
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            owner = value.owner
            if isinstance(owner, Region):
                pending += self._carried(owner, value)
            elif isinstance(owner, Op) and owner not in ops and value not in self.numbers:
                ops.add(owner)
                pending += _free(owner)
        for op in ops:
            if _is_long(op) and any(loop not in set(_loops_around(op)) for loop in self.across):
                raise _NoOwner("what it is made of would be computed again for each tile")
            for inner in op.walk():
                self._check_reads(inner)
        return sorted(ops, key=self.order.__getitem__)

    def _carried(self, region: Region, value: Value) -> list[Value]:
        """What an argument of a region depends on; _NoOwner where a round depends on the ones before."""
        if region.parent in self.loops and value is not region.args[0]:
            raise _NoOwner("rounds of a loop depend on each other")
        return []

    def _check_reads(self, op: Op) -> None:
        """_NoOwner unless the op reads in the new kernel, which runs before all that the old one writes, what it read
        there."""
        for effect in op.effects():
            if effect.kind != "read" or effect.value is None:
                raise _NoOwner("what it is made of is overwritten")
            array = memory_root(effect.value)
            if array not in self.adjoint.params:
                raise _NoOwner("what it is made of is overwritten")
            known = self.adjoint.access[self.adjoint.params.index(array)]
            shared = [self.adjoint.params[k] for k in (known.aliases if known else ())]
            writers = {a: list(self._writers(a)) for a in (array, *shared)}
            if any(writers[a] for a in shared):
                raise _NoOwner("what it is made of is overwritten")
            if writers[array]:
                self._check_cleared(op, array, writers[array])

    def _writers(self, array: Value) -> Iterator[Op]:
        for op in accesses_of(self.adjoint, array):
            if any(e.kind != "read" for e in op.effects()):
                yield op

    def _check_cleared(self, load: Op, array: Value, writers: Sequence[Op]) -> None:
        """Gradients are taken and cleared: each element by one block, which clears it after it took it."""
        touching = accesses_of(self.adjoint, array)
        if not apart_in_blocks(self.adjoint, touching):
            raise _NoOwner("what it is made of is overwritten")
        taken = window(load)
        for store in writers:
            written = window(store)
            if taken is None or written is None:
                raise _NoOwner("what it is made of is overwritten")
            common = [loop for loop in _loops_around(load) if loop in set(_loops_around(store))]
            after = self.order[store] > self.order[load]
            if after and (not common or moves_on(load, store, taken, written)):
                continue
            if not apart(load, store, taken, written):
                raise _NoOwner("what it is made of is overwritten")

    # The kernel ------------------------------------------------------------------------------------------------------

    def _built(self, needed: Sequence[Op]) -> Step:
        inner = [loop for loop in self.loops if loop not in self.across]
        missing = [k for k in range(self.blocks) if k not in self.components]
        params = self.adjoint.params
        body = Region([*(p.type for p in params), *(int32 for _ in missing)])
        mapping: dict[Value, Value] = dict(zip(params, body.args, strict=False))
        made = _Builder(body, self.atomic.loc)
        own = made.emit(Tid, [], {"count": len(self.grid) + 1})
        made.levels = {v: 0 for v in (*body.args, *own)}
        of_component: dict[int, Value] = {self.blocks: own[-1]}
        for place, owner in zip(own, self.owners, strict=False):
            if isinstance(owner, int):
                of_component[owner] = place
            else:
                of_loop = self.backwards[owner] or [owner.regions[0].args[0]]
                mapping.update(dict.fromkeys(of_loop, place))
        # Levels: 0 is the body, then a loop for each missing component, then the loops around the atomic.
        regions = [body]
        for component in missing:
            region = Region([int32])
            regions.append(region)
            of_component[component] = region.args[0]
            made.levels[region.args[0]] = len(regions) - 1
        for loop in inner:
            index = loop.regions[0].args[0]
            region = Region([index.type])
            regions.append(region)
            mapping[index] = region.args[0]
            made.levels[region.args[0]] = len(regions) - 1
        mapping |= {v: of_component[k] for v, k in self.numbers.items() if k in of_component}
        least = {loop: len(missing) + 1 + k for k, loop in enumerate(inner)}
        taken = {v for values in self.backwards.values() for v in values}
        for op in needed:
            if any(r in taken for r in op.results):
                continue
            self._place(made, op, regions, mapping, least)
        if any(made.levels[mapping[v]] for v in (self.array, *self.at)):
            raise _NoOwner("its offsets are not multiples of block and loop indices")
        self._sum(made, regions, mapping, inner, body.args[len(params) :])
        launch = LaunchClass(
            len(own),
            self.adjoint.launch.block_dim,
            (True,) * len(self.grid) + (False,),
            True,
            False,
        )
        names = [*self.adjoint.param_names, *(f"blocks_{k}" for k in missing)]
        root = self.adjoint.param_names[params.index(memory_root(self.array))]
        kernel = Kernel(
            f"{self.adjoint.name}_of_{root}",
            names,
            body,
            launch,
            [*self.adjoint.access, *(None for _ in missing)],
            self.adjoint.loc,
        )
        verify(kernel)
        simplify(kernel)
        erase_dead(kernel)
        if not apart_in_blocks(kernel, accesses_of(kernel, mapping[memory_root(self.array)])):
            raise _NoOwner("its tiles overlap")
        return Step(kernel, tuple(params), tuple(self.grid), tuple(missing))

    def _place(
        self,
        made: _Builder,
        op: Op,
        regions: Sequence[Region],
        mapping: dict[Value, Value],
        least: dict[Op, int],
    ) -> None:
        """Put a copy of an op into the outermost loop that makes all that it depends on."""
        level = max((made.levels[mapping[v]] for v in _free(op)), default=0)
        if any(o.attrs.get("bounds_check") is False for o in op.walk()):
            level = max([level, *(least[loop] for loop in _loops_around(op) if loop in least)])
        copy = clone_op(op, mapping)
        regions[level].append(copy)
        made.levels |= {v: level for v in copy.results}

    def _sum(
        self,
        made: _Builder,
        regions: Sequence[Region],
        mapping: dict[Value, Value],
        inner: Sequence[Op],
        counts: Sequence[Value],
    ) -> None:
        """Add up the tile over all loops, then to the array."""
        value = mapping[self.tile]
        t = value.type
        assert isinstance(t, TileType)
        made.region = regions[0]
        total_type = TileType(_summed_in(t.dtype), t.shape)
        total = made.zero(total_type)
        carried = [total, *(Value(total_type, r) for r in regions[1:])]
        for region, v in zip(regions[1:], carried[1:], strict=True):
            region.args.append(v)
        made.region = regions[-1]
        total = made.grown(carried[-1], value, len(regions) - 1)
        for level in range(len(regions) - 1, 0, -1):
            made.emit(Yield, [total])
            made.region = regions[level - 1]
            loop = level - 1 - len(counts)
            if loop >= 0:
                bounds = [mapping[v] for v in inner[loop].operands[:3]]
            else:
                bounds = [made.const(0, int32), counts[level - 1], made.const(1, int32)]
            (total,) = made.emit(For, [*bounds, carried[level - 1]], None, [regions[level]])
        array = mapping[self.array]
        at = [mapping[v] for v in self.at]
        attrs = {"bounds_check": self.atomic.attrs["bounds_check"], "aligned": False}
        before = made.one(TileLoad, [array, made.const(0.0, t.dtype), *at], {**attrs, "shape": t.shape})
        after = made.plus(made.converted(before, scalar_of(total_type.dtype)), total)
        assert after is not None
        made.emit(TileStore, [array, made.converted(after, scalar_of(t.dtype)), *at], attrs)
        made.emit(Yield, [])


class _Builder(GradientBuilder):
    """Builds the kernel of an owner. `levels`: in how many loops each value is."""

    __slots__ = ("levels",)

    levels: dict[Value, int]

    def grown(self, total: Value, more: Value, level: int) -> Value:
        """total + more; a product is added by the op that makes it."""
        assert isinstance(total.type, TileType)
        scalar = scalar_of(total.type.dtype)
        product = more.owner
        if isinstance(product, TileMatmul) and _is_plain(product) and product.parent is self.region:
            one = self.const(1.0, scalar)
            x, y = (self.narrow(v, scalar) for v in product.operands[:2])
            return self.one(TileMatmul, [x, y, total, one, one])
        made = self.plus(total, self.converted(more, scalar))
        assert made is not None
        return made

    def converted(self, tile: Value, to: DType) -> Value:
        assert isinstance(tile.type, TileType)
        return tile if scalar_of(tile.type.dtype) == to else self.as_scalar(tile, to)

    def narrow(self, tile: Value, wide: DType) -> Value:
        """What a tile was widened from, where the product that takes it would do that itself."""
        owner = tile.owner
        if isinstance(owner, TilePermute):
            inner = self.narrow(owner.operands[0], wide)
            return tile if inner is owner.operands[0] else self.one(TilePermute, [inner], owner.attrs)
        source = widened_from(tile)
        return tile if source is None or scalar_of(tile.type.dtype) != wide else source  # type: ignore[union-attr]


def widened_from(tile: Value) -> Value | None:
    """The tile of narrower floats that this one is, in a wider type."""
    owner = tile.owner
    if not isinstance(owner, TileMap) or len(owner.operands) != 1:
        return None
    (source,) = owner.operands
    cast, *rest = owner.regions[0].ops
    if not isinstance(cast, Cast) or len(rest) != 1 or rest[0].operands[0] is not cast.result:
        return None
    assert isinstance(source.type, TileType) and isinstance(tile.type, TileType)
    narrow, wide = scalar_of(source.type.dtype), scalar_of(tile.type.dtype)
    return source if narrow.is_float and wide.is_float and wide.bits > narrow.bits else None


def _is_plain(product: Op) -> bool:
    """Whether it is a product of two tiles and nothing else."""
    zero = product.operands[2].owner
    return (
        _constant(product.operands[3]) == 1
        and isinstance(zero, TileFull)
        and _constant(zero.operands[0]) == 0
        and scalar_of(product.operands[0].type.dtype).is_float  # type: ignore[union-attr]
    )


def _is_long(op: Op) -> bool:
    """Whether an op does more than a few operations for each element."""
    return any(isinstance(o, For | While | TileMatmul) for o in op.walk())


def _summed_in(t: ElementType) -> ElementType:
    """The type that sums of elements are made in."""
    scalar = scalar_of(t)
    return with_scalar(t, float32) if scalar.is_float and scalar.bits < 32 else t


def _constant(value: Value) -> float | None:
    return value.owner.attrs["value"] if isinstance(value.owner, S.Const) else None


def _loops_around(op: Op) -> Iterator[Op]:
    """The loops around an op, the outermost first."""
    outer: list[Op] = []
    at = op.parent.parent if op.parent is not None else None
    while at is not None:
        outer.append(at)
        at = at.parent.parent if at.parent is not None else None
    yield from reversed(outer)


def _views(array: Value) -> Iterator[Op]:
    while isinstance(array.owner, ArrayView):
        yield array.owner
        array = array.owner.operands[0]


def _free(op: Op) -> list[Value]:
    """What an op and those in it use from outside of it."""
    made = {r for o in op.walk() for r in o.results} | {
        a for o in op.walk() for r in o.regions for a in r.args
    }
    return [v for o in op.walk() for v in o.operands if v not in made]
