"""Tile objects that are only read and overwritten whole become values, carried through control flow.

An object stays a buffer where some lane writes an element of it, where a view of it is written, and where lanes make
views of their own: at places that differ, or in code that only some lanes reach. Part of a value is another value,
which all lanes of a block make together."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.base import TileOp
from tegula.ops.buffer import BufGet, BufNew, BufRead, BufReshape, BufSet, BufUpdate, BufView, BufWrite
from tegula.ops.control import For, If, While
from tegula.ops.roles import Roles
from tegula.ops.tile import TileExtract, TileFillAbsent, TileReshape, TileSlice
from tegula.passes.uniformity import analyse, in_divergent_code
from tegula.types import BufType, TileType

VIEWS = (BufView, BufReshape)
ON_VALUES: dict[type[Op], type[TileOp]] = {BufGet: TileExtract, BufView: TileSlice, BufReshape: TileReshape}


def promote_buffers(kernel: Kernel) -> None:
    """Rewrite the kernel in place."""
    _Promotion(kernel).run()


def root(buffer: Value) -> Value:
    """The object that a view shows."""
    while isinstance(buffer.owner, VIEWS):
        buffer = buffer.owner.operands[0]
    return buffer


def _value_of(buffer: Value, owner: Op | Region) -> Value:
    """A new value for what a buffer holds: a result of an op or an argument of a region."""
    assert isinstance(buffer.type, BufType)
    return Value(buffer.type.tile, owner, buffer.name)


class _Promotion:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.values: dict[Value, Value] = {}
        self.promoted = self._candidates()

    def _candidates(self) -> set[Value]:
        """Objects without element writes and without views, or with views but never written after their creation."""
        objects: set[Value] = set()
        fixed: set[Value] = set()
        viewed: set[Value] = set()
        written: set[Value] = set()
        for op in self.kernel.walk():
            if isinstance(op, BufNew):
                if not op.attrs.get("between_roles"):
                    objects.add(op.result)
            elif isinstance(op, BufSet | BufUpdate):
                fixed.add(root(op.operands[0]))
            elif isinstance(op, BufWrite):
                written.add(root(op.operands[0]))
            elif isinstance(op, VIEWS):
                viewed.add(root(op.operands[0]))
            elif isinstance(op, While):
                # A condition's own writes would have to reach the body, which a condition cannot yield to.
                fixed.update(root(o.operands[0]) for o in op.regions[0].walk() if isinstance(o, BufWrite))
            elif not isinstance(op, BufRead | BufGet):
                fixed.update(root(v) for v in op.operands if isinstance(v.type, BufType))
        promoted = objects - fixed - (viewed & written)
        return promoted - set(self._viewed_by_lanes()) if promoted & viewed else promoted

    def _viewed_by_lanes(self) -> Iterator[Value]:
        """Objects of which lanes make views of their own."""
        known = analyse(self.kernel)
        apart = set(in_divergent_code(self.kernel.body, known))
        for op in self.kernel.walk():
            if isinstance(op, VIEWS) and (op in apart or any(map(known.varying, op.operands))):
                yield root(op.result)

    def run(self) -> None:
        self._region(self.kernel.body, {})

    def _region(self, region: Region, current: dict[Value, Value]) -> None:
        """`current` maps each promoted object, and each view of one, to its value here."""
        kept: list[Op] = []
        for op in region.ops:
            op.operands = [self.values.get(v, v) for v in op.operands]
            for made in self._op(op, current):
                made.parent = region
                kept.append(made)
        region.ops = kept

    def _op(self, op: Op, current: dict[Value, Value]) -> list[Op]:
        """What takes the op's place."""
        target = op.operands[0] if op.operands else None
        if isinstance(op, BufNew) and op.result in self.promoted:
            current[op.result] = op.operands[0]
            return []
        if isinstance(op, If | For | While):
            return [self._control(op, current)]
        if isinstance(op, Roles):
            for role in op.regions:
                self._region(role, dict(current))
        if target not in current:
            return [op]
        assert target is not None
        if isinstance(op, BufRead):
            self.values[op.result] = current[target]
            return []
        if isinstance(op, BufWrite):
            current[target] = op.operands[1]
            return []
        return self._derived(op, current[target], current)

    def _derived(self, op: Op, value: Value, current: dict[Value, Value]) -> list[Op]:
        """An element read, or a view of an object that never changes: the same on the value. A view's elements are all
        there: those of absent lanes are 0."""
        kind, filled = ON_VALUES[type(op)], []
        if isinstance(op, VIEWS) and isinstance(value.type, TileType) and value.type.partial:
            fill = TileFillAbsent.typed([value], loc=op.loc)
            filled, value = [fill], fill.result
        operands = [value, *op.operands[1:]]
        made = kind.typed(operands, op.attrs, loc=op.loc)
        if isinstance(op, BufGet):
            self.values[op.result] = made.result
        else:
            current[op.result] = made.result
        return [*filled, made]

    def _written(self, op: Op, current: dict[Value, Value]) -> list[Value]:
        inside = {o.operands[0] for o in op.walk() if isinstance(o, BufWrite)}
        return [b for b in current if b in inside]

    def _control(self, op: Op, current: dict[Value, Value]) -> Op:
        written = self._written(op, current)
        if isinstance(op, If):
            self._branches(op, written, current)
        else:
            self._loop(op, written, current)
        for b in written:
            result = _value_of(b, op)
            op.results.append(result)
            current[b] = result
        return op

    def _branches(self, op: Op, written: list[Value], current: dict[Value, Value]) -> None:
        for region in op.regions:
            inner = dict(current)
            self._region(region, inner)
            region.terminator.operands += [inner[b] for b in written]

    def _loop(self, op: Op, written: list[Value], current: dict[Value, Value]) -> None:
        op.operands += [current[b] for b in written]
        for region in op.regions:
            inner = dict(current)
            for b in written:
                arg = _value_of(b, region)
                region.args.append(arg)
                inner[b] = arg
            self._region(region, inner)
            is_condition = isinstance(op, While) and region is op.regions[0]
            if not is_condition:
                region.terminator.operands += [inner[b] for b in written]
