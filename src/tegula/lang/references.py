"""Rewriting of names that refer to one of several tiles, depending on the path, to views of a buffer with all of them.

The tracer copies a tile where paths join. If the program could observe the copy (`aliases.py`), the possible objects of
a name are put into one buffer, the pool, and the name becomes a view of the pool. Besides the copy, which is dropped if
it is dead, paths yield and loops carry the offset of the view's first element and the index of its layout.

An object that a loop creates has several slots in the pool if names from earlier iterations may still refer to earlier
objects; a new object uses the first slot to which none of these names refers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tegula.dataclass import dataclass, field
from tegula.errors import CompileError, MergedSharedTiles
from tegula.ir import BranchLike, Carrier, ConstantLike, LoopLike, Op, Region, Value, root
from tegula.ir.rewrite import clone_op
from tegula.lang.aliases import VIEWS, Uses, is_shared
from tegula.ops.buffer import (
    BufGet,
    BufNew,
    BufRead,
    BufReshape,
    BufSet,
    BufUpdate,
    BufView,
    BufWrite,
    buffer_type,
    split_layout,
)
from tegula.ops.builder import OpBuilder
from tegula.ops.control import If, Yield, is_condition
from tegula.ops.scalar import Select
from tegula.ops.tile import TileEmpty, TileFillAbsent, TileMarkPartial
from tegula.types import BufType, TileType, int32

MAX_LAYOUTS = 8
Number: TypeAlias = "int | Value"
Strides: TypeAlias = "tuple[int, ...]"
Merged: TypeAlias = "dict[Value, list[Value | None]]"


def keep_references(body: Region, merged: Merged, references: set[Value]) -> list[CompileError]:
    """Turn the objects `references`, which were created at joins, from copies into references to their sources.
    `merged`: the source of each object on each edge. Returns an error if a name has too many layouts, or if a view has
    a shape that is impossible for a layout."""
    try:
        plan = _Plan(body, merged, references)
    except _InvalidReference as refused:
        return [refused.error]
    _Rewrite(plan).region(body)
    return []


class _InvalidReference(Exception):
    def __init__(self, op: Op, message: str) -> None:
        self.error = MergedSharedTiles(op.loc, what=message)


@dataclass(slots=True)
class ReferenceSlot:
    """The k-th result of a branch or loop for a reference. `sources`: the object or view on each edge, None if it is
    never read; `layouts`: the possible layouts."""

    op: Carrier
    k: int
    objects: list[Value] = field(default_factory=list)
    sources: list[Value | None] = field(default_factory=lambda: [None, None])
    layouts: list[Strides] = field(default_factory=list)


@dataclass(slots=True)
class MemoryRef:
    """The memory in a pool of an object that is not created at a join: `copies` slots of `size` elements from
    `base`."""

    base: int
    size: int
    rivals: list[Value]

    @property
    def copies(self) -> int:
        """The number of slots: one for the object, and one for each rival."""
        return 1 + len(self.rivals)


@dataclass(slots=True)
class ObjectPool:
    """A buffer of objects to which the same names may refer. `before`: the op before which the buffer is created."""

    dtype: object
    before: Op
    attrs: dict[str, object]
    memory: dict[Value, MemoryRef] = field(default_factory=dict)
    size: int = 0


class _Plan:
    """The plan of the rewriting: the slots, the pools and the layouts of each reference."""

    def __init__(self, body: Region, merged: Merged, references: set[Value]) -> None:
        self.slots: dict[tuple[Carrier, int], ReferenceSlot] = {}
        self.slot_of: dict[Value, ReferenceSlot] = {}
        for tile in references:
            self._add(tile, merged[tile])
        self._bind_new_tiles()
        self.all = Uses(body)
        for slot in self.slots.values():
            for source, edge in zip(slot.sources, _edges(slot.op), strict=True):
                if source is not None:
                    self.all.uses[root(source)].append(edge)
        self.objects = {root(s) for slot in self.slots.values() for s in slot.sources if s is not None}
        self.objects |= self.slot_of.keys()
        self.origins = self._origins()
        self.layouts: dict[Value, list[Strides]] = {}
        self._propagate_layouts(body)
        self.pool_of: dict[Value, ObjectPool] = {}
        for group in self._groups():
            self._plan_pool(group)

    # Values of joins -------------------------------------------------------------------------------------------------

    def _add(self, tile: Value, sources: Sequence[Value | None]) -> None:
        op, k = join_of(tile)
        slot = self.slots.setdefault((op, k), ReferenceSlot(op, k))
        slot.objects.append(tile)
        self.slot_of[tile] = slot
        for edge, source in enumerate(sources):
            slot.sources[edge] = slot.sources[edge] or source

    def _bind_new_tiles(self) -> None:
        """Create objects, at the end of an edge, for the tile values that the edge yields; for popped tiles too, which
        joins copy."""
        for slot in self.slots.values():
            for edge, (source, edge_op) in enumerate(zip(slot.sources, _edges(slot.op), strict=True)):
                if source is None or isinstance(root(source).owner, BufNew):
                    continue
                carried = slot.op.carried[slot.k]
                entry = () if carried.initial is None else (carried.initial,)
                tile = (*entry, *carried.yielded)[edge]
                loc = slot.objects[0].owner.loc  # type: ignore[union-attr]
                buffer = BufNew.typed([tile], {"storage": "register"}, loc=loc)
                buffer.result.name = slot.objects[0].name
                region = edge_op.parent
                assert region is not None
                region.ops.insert(region.ops.index(edge_op), buffer)
                buffer.parent = region
                slot.sources[edge] = buffer.result

    # Possible objects ------------------------------------------------------------------------------------------------

    def _origins(self) -> dict[Value, set[Value]]:
        """For each object, the objects not created at joins that it may be."""
        out = {x: set() if x in self.slot_of else {x} for x in self.objects}
        while True:
            before = sum(map(len, out.values()))
            for tile, slot in self.slot_of.items():
                for source in slot.sources:
                    out[tile] |= out[root(source)] if source is not None else set()
            if sum(map(len, out.values())) == before:
                return out

    def _propagate_layouts(self, body: Region) -> None:
        """Compute the layouts that each object and view may have, as a fixed point over the slots."""
        views = [op for op in body.walk() if isinstance(op, VIEWS) and root(op.result) in self.objects]
        for x in self.objects - self.slot_of.keys():
            self.layouts[x] = [packed(buffer_type(x.type).shape)]
        while True:
            for tile, slot in self.slot_of.items():
                self.layouts[tile] = slot.layouts
            for op in views:
                self.layouts[op.result] = [_view_strides(op, s) for s in self.layouts[op.buffer]]
            changed = False
            for slot in self.slots.values():
                layouts = [s for x in slot.sources if x is not None for s in self.layouts[x]]
                new = [s for s in dict.fromkeys(layouts) if s not in slot.layouts]
                slot.layouts += new
                changed |= bool(new)
                if len(slot.layouts) > MAX_LAYOUTS:
                    name = slot.objects[0].name or "the tile"
                    raise _InvalidReference(
                        slot.op, f"'{name}' may be one of too many kinds of views, depending on the path"
                    )
            if not changed:
                return

    # Placement ------------------------------------------------------------------------------------------------------

    def _groups(self) -> list[set[Value]]:
        """The objects as disjoint groups: all objects that one name may refer to are in one group."""
        group_of = {x: {x} for x in self.objects}
        for tile, slot in self.slot_of.items():
            for x in {root(s) for s in slot.sources if s is not None}:
                merged = group_of[tile] | group_of[x]
                for member in merged:
                    group_of[member] = merged
        return list({id(g): g for g in group_of.values()}.values())

    def _plan_pool(self, group: set[Value]) -> None:
        region, before = self._innermost_region(group)
        kinds = [x for x in group if x not in self.slot_of]
        storage = "shared" if any(map(is_shared, kinds)) else "register"
        attrs: dict[str, object] = {"storage": storage}
        if any(x.owner.between_roles for x in kinds):  # type: ignore[union-attr]
            attrs["between_roles"] = True
        pool = ObjectPool(buffer_type(next(iter(group)).type).dtype, before, attrs)
        for x in sorted(kinds, key=self.all.definition_index):
            memory = MemoryRef(
                pool.size, buffer_type(x.type).tile.size, self._possible_aliases(x, group, region)
            )
            pool.memory[x] = memory
            pool.size += memory.size * memory.copies
        for x in group:
            self.pool_of[x] = pool

    def _innermost_region(self, group: set[Value]) -> tuple[Region, Op]:
        """The innermost region with all ops that define, join or use the objects, and the first such op or ancestor in
        the region."""
        ops: set[Op] = {self.slot_of[x].op for x in group if x in self.slot_of}
        for x in group:
            assert isinstance(x.owner, Op)
            ops |= {x.owner, *self.all.uses[x]}
        paths = [_path(op) for op in ops]
        depth = 0
        while all(len(p) > depth + 1 for p in paths) and len({p[depth + 1].parent for p in paths}) == 1:
            depth += 1
        region = paths[0][depth].parent
        assert region is not None
        return region, min((p[depth] for p in paths), key=region.ops.index)

    def _possible_aliases(self, x: Value, group: set[Value], region: Region) -> list[Value]:
        """The objects created at joins that may alias an object `x` of an earlier iteration when the next `x` is
        created."""
        assert isinstance(x.owner, Op)
        enclosing = {at.parent for at in _path(x.owner)}
        out: list[Value] = []
        for tile in group & self.slot_of.keys():
            assert isinstance(tile.owner, Op)
            is_visible = tile.owner.parent in enclosing and self.all.definition_index(
                tile
            ) < self.all.definition_index(x)
            if x in self.origins[tile] and is_visible and self.all.used_after(x.owner, tile):
                out.append(tile)
        return sorted(out, key=self.all.definition_index)


def join_of(tile: Value) -> tuple[Carrier, int]:
    """The branch or loop whose result is an object created at a join, and the index of the result."""
    assert isinstance(tile.owner, BufNew)
    value = tile.owner.tile
    op = value.owner.parent if isinstance(value.owner, Region) else value.owner
    assert isinstance(op, Carrier)
    return op, next(k for k, carried in enumerate(op.carried) if value in carried.defined_values)


def packed(shape: Sequence[int]) -> Strides:
    """The strides, in elements, of a packed row-major tile."""
    out: list[int] = [1]
    for n in reversed(shape[1:]):
        out.insert(0, out[0] * n)
    return _plain(shape, out)


def _plain(shape: Sequence[int], strides: Sequence[int]) -> Strides:
    return tuple(1 if n == 1 else s for n, s in zip(shape, strides, strict=True))


def _view_strides(op: BufView | BufReshape, strides: Strides) -> Strides:
    """The strides of a view of a buffer with the given strides."""
    shape = buffer_type(op.result.type).shape
    if isinstance(op, BufView):
        steps = zip(op.dims, op.steps, strict=True)
        return _plain(shape, [strides[d] * step if d >= 0 else 0 for d, step in steps])
    source = buffer_type(op.buffer.type).shape
    layout = split_layout([(n, 0, s) for n, s in zip(source, strides, strict=True)], shape)
    if layout is None:
        name = op.buffer.name or "the tile"
        raise _InvalidReference(
            op, f"'{name}' is a view with another shape on some of the paths to this line"
        )
    return _plain(shape, [s for _, _, s in layout])


def _edges(op: Carrier) -> Sequence[Op]:
    """The op at the end of each edge: the yields of a branch's regions, or a loop and the yield of its body."""
    if isinstance(op, BranchLike):
        return [region.terminator for region in op.alternatives]
    assert isinstance(op, LoopLike)
    return op, op.body.terminator


def _path(op: Op) -> list[Op]:
    """The op and the ops around it, the outermost first."""
    out = [op]
    while out[-1].parent is not None and out[-1].parent.parent is not None:
        out.append(out[-1].parent.parent)
    return out[::-1]


@dataclass(slots=True)
class Reference:
    """A view of a pool: the offset of its first element, and the index of its layout in `layouts`."""

    pool: ObjectPool
    start: Number
    layout: Number
    layouts: Sequence[Strides]


class _Rewrite:
    def __init__(self, plan: _Plan) -> None:
        self.plan = plan
        self.build = OpBuilder(Region())
        self.values: dict[Value, Value] = {}
        self.references: dict[Value, Reference] = {}
        self.pools: dict[int, Value] = {}
        self.yielded: dict[Value, list[Value]] = {}
        self.slots: dict[Op | None, list[ReferenceSlot]] = {}
        for slot in plan.slots.values():
            self.slots.setdefault(slot.op, []).append(slot)
        self.before: dict[Op, list[ObjectPool]] = {}
        for pool in {id(p): p for p in plan.pool_of.values()}.values():
            self.before.setdefault(pool.before, []).append(pool)

    def region(self, region: Region) -> None:
        outer, old = self.build.region, region.ops
        region.ops, self.build.region = [], region
        try:
            for op in old:
                self.build.loc = op.loc
                for pool in self.before.get(op, ()):
                    self._make(pool)
                op.substitute(self.values)
                self._op(op, region)
        finally:
            self.build.region = outer

    def _make(self, pool: ObjectPool) -> None:
        empty = self.build.one(TileEmpty, [], {"type": TileType(pool.dtype, (pool.size,))})  # type: ignore[arg-type]
        self.pools[id(pool)] = self.build.one(BufNew, [empty], pool.attrs)

    def _op(self, op: Op, region: Region) -> None:
        if isinstance(op, Carrier):
            self._control(op)
        elif isinstance(op, Yield):
            self._yield(op, region)
        elif isinstance(op, BufNew) and op.result in self.plan.slot_of:
            self._joined(op.result)
        elif isinstance(op, BufNew) and op.result in self.plan.objects:
            self._new(op)
        elif isinstance(op, VIEWS) and op.buffer in self.references:
            self._view(op)
        elif any(v in self.references for v in op.operands):
            self._access(op)
        else:
            for inner in op.regions:
                self.region(inner)
            self.build.insert(op)

    # Joins -----------------------------------------------------------------------------------------------------------

    def _control(self, op: Carrier) -> None:
        slots = self.slots.get(op, [])
        for slot in slots:
            self._carry(op, slot)
        for inner in op.regions:
            self.region(inner)
        self.build.insert(op)

    def _carry(self, op: Carrier, slot: ReferenceSlot) -> None:
        """Add a slot's reference to the results of the op, in addition to the copy. `_yield` adds the reference to the
        regions' yields."""
        width = self._width(slot)
        if isinstance(op, LoopLike):
            for number in self._numbers(slot, 0):
                op.append(number)
        else:
            op.results += [Value(int32, op) for _ in range(width)]
        for values in [op.results, *(op.entries if isinstance(op, LoopLike) else ())]:
            self.yielded[values[slot.k]] = values[-width:]

    def _yield(self, op: Yield, region: Region) -> None:
        parent = region.parent
        if parent in self.slots and not is_condition(region):
            edge = parent.alternatives.index(region) if isinstance(parent, BranchLike) else 1
            for slot in self.slots[parent]:
                op.values = [*op.values, *self._numbers(slot, edge)]
        self.build.insert(op)

    def _numbers(self, slot: ReferenceSlot, edge: int) -> list[Value]:
        """The values that an edge yields for a slot: the start and, if the slot has several layouts, the index of the
        layout among them."""
        source = slot.sources[edge]
        if source is None:  # the reference is never read on this edge: any offset is valid
            shape = buffer_type(slot.objects[0].type).shape
            lowest = sum(min(0, s * (n - 1)) for n, s in zip(shape, slot.layouts[0], strict=True))
            numbers: list[Number] = [-lowest, 0]
        else:
            at = self.references[source]
            numbers = [
                at.start,
                self._select_constant(at.layout, [slot.layouts.index(s) for s in at.layouts]),
            ]
        return [self._value(x) for x in numbers[: self._width(slot)]]

    def _width(self, slot: ReferenceSlot) -> int:
        return 2 if len(slot.layouts) > 1 else 1

    def _joined(self, tile: Value) -> None:
        """Create the reference of an object that was created at a join, from the values that the join's op yields."""
        assert isinstance(tile.owner, BufNew)
        slot = self.plan.slot_of[tile]
        start, *layout = self.yielded[tile.owner.tile]
        pool = self.plan.pool_of[tile]
        self.references[tile] = Reference(pool, start, layout[0] if layout else 0, slot.layouts)

    # Objects and views -----------------------------------------------------------------------------------------------

    def _new(self, op: BufNew) -> None:
        """Write the value of a new object to its slot in the pool."""
        pool = self.plan.pool_of[op.result]
        start = self._first_free_slot(pool, pool.memory[op.result])
        self.references[op.result] = Reference(pool, start, 0, self.plan.layouts[op.result])
        view, tile = self._pool_view(op.result), op.tile
        assert isinstance(tile.type, TileType)
        self.build.emit(
            BufWrite, [view, self.build.one(TileFillAbsent, [tile]) if tile.type.partial else tile]
        )

    def _first_free_slot(self, pool: ObjectPool, memory: MemoryRef) -> Number:
        """The offset of an object's first slot to which no rival refers."""
        b = self.build
        start: Number = memory.base + memory.size * (memory.copies - 1)
        for k in reversed(range(memory.copies - 1)):
            low = memory.base + memory.size * k
            occupied: Value | None = None
            for rival in memory.rivals:
                at = self._value(self.references[rival].start)
                inside = b.binary("and", b.compare("ge", at, low), b.compare("lt", at, low + memory.size))
                occupied = inside if occupied is None else b.binary("or", occupied, inside)
            assert occupied is not None
            start = b.one(Select, [occupied, self._value(start), self._value(low)])
        return start

    def _view(self, op: BufReshape | BufView) -> None:
        source = self.references[op.buffer]
        start = source.start
        for d, index in enumerate(op.starts if isinstance(op, BufView) else ()):
            stride = self._select_constant(source.layout, [s[d] for s in source.layouts])
            start = self._plus(start, self._times(index, stride))
        self.references[op.result] = Reference(
            source.pool, start, source.layout, self.plan.layouts[op.result]
        )

    # Uses ------------------------------------------------------------------------------------------------------------

    def _access(self, op: Op) -> None:
        """Rewrite an op on references to an op on views of the pools. If a reference may have several layouts, branch
        on its layout."""
        varying = next(
            (v for v in op.operands if v in self.references and isinstance(self.references[v].layout, Value)),
            None,
        )
        if varying is None:
            assert isinstance(op, BufGet | BufRead | BufSet | BufUpdate | BufWrite)
            for old, new in zip(op.results, self._direct(op), strict=True):
                self.values[old] = new
            return
        results = self._for_layout(op, varying, 0)
        for old, new in zip(op.results, results, strict=True):
            new.name = old.name
            self.values[old] = new

    def _for_layout(self, op: Op, reference: Value, k: int) -> list[Value]:
        """The results of the op if the reference `reference` has its k-th layout or a later layout."""
        possible = self.references[reference]
        if k == len(possible.layouts) - 1:
            return self._with_layout(op, reference, k)
        has_layout = self.build.compare("eq", possible.layout, k)
        regions = (
            self._region(lambda: self._with_layout(op, reference, k)),
            self._region(lambda: self._for_layout(op, reference, k + 1)),
        )
        return self.build.emit(If, [has_layout], None, regions)

    def _region(self, trace: Callable[[], list[Value]]) -> Region:
        region, outer = Region(), self.build.region
        self.build.region = region
        try:
            self.build.emit(Yield, trace())
        finally:
            self.build.region = outer
        return region

    def _with_layout(self, op: Op, several: Value, k: int) -> list[Value]:
        possible = self.references[several]
        self.references[several] = Reference(possible.pool, possible.start, k, possible.layouts)
        try:
            copy = clone_op(op, {})
            self._access(copy)
            return [self.values.pop(v) for v in copy.results]
        finally:
            self.references[several] = possible

    def _direct(self, op: BufGet | BufRead | BufSet | BufUpdate | BufWrite) -> list[Value]:
        """Build the op on views of the pools, and return its results."""
        b, source = self.build, op.buffer
        partial = isinstance(source.type, BufType) and source.type.partial
        if isinstance(op, BufRead):
            tile = b.one(BufRead, [self._pool_view(source)])
            return [b.one(TileMarkPartial, [tile]) if partial else tile]
        if isinstance(op, BufWrite) and partial:
            op.tile = b.one(TileFillAbsent, [op.tile])
        op.map_operands(lambda v: self._pool_view(v) if v in self.references else v)
        for inner in op.regions:
            self.region(inner)
        return b.insert(op).results

    def _pool_view(self, x: Value) -> Value:
        """The view of its pool that a reference with a constant layout represents."""
        at = self.references[x]
        assert isinstance(at.layout, int)
        shape = buffer_type(x.type).shape
        attrs = {"shape": shape, "dims": (0,) * len(shape), "steps": at.layouts[at.layout]}
        view = self.build.one(BufView, [self.pools[id(at.pool)], self._value(at.start)], attrs)
        view.name = x.name
        return view

    # Numbers ---------------------------------------------------------------------------------------------------------

    def _value(self, x: Number) -> Value:
        return x if isinstance(x, Value) else self.build.const(x, int32)

    def _plus(self, a: Number, b: Number) -> Number:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        return a if b == 0 else b if a == 0 else self.build.binary("add", self._value(a), self._value(b))

    def _times(self, index: Value, stride: Number) -> Number:
        """index * stride as an int32 or a constant; the index may have any integer type."""
        number = index.owner.value if isinstance(index.owner, ConstantLike) else None
        if isinstance(number, int):
            index_or_number: Number = number
        else:
            index_or_number = self.build.cast(index, int32)
        if isinstance(index_or_number, int) and isinstance(stride, int):
            return index_or_number * stride
        if index_or_number == 0 or stride == 1:
            return index_or_number
        return self.build.binary("mul", self._value(index_or_number), self._value(stride))

    def _select_constant(self, at: Number, numbers: Sequence[int]) -> Number:
        """numbers[at], by selects if `at` is known at run time only."""
        if isinstance(at, int):
            return numbers[at]
        if len(set(numbers)) == 1:
            return numbers[0]
        out = self._value(numbers[-1])
        for k in reversed(range(len(numbers) - 1)):
            out = self.build.one(Select, [self.build.compare("eq", at, k), self._value(numbers[k]), out])
        return out
