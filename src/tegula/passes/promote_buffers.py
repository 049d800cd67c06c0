"""Promotes tile objects that are only read and overwritten as a whole to values, carried through control flow.

An object stays a buffer if lanes write its elements, if a view of the object is written, or if views are lane-varying,
by their starts or in divergent code. A slice of a value is a value too, which all lanes of a block compute
cooperatively."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.ir import BranchLike, CallLike, Carrier, Kernel, LoopLike, Op, Region, Value, root
from tegula.ops.buffer import BufGet, BufNew, BufRead, BufReshape, BufSet, BufUpdate, BufView, BufWrite
from tegula.ops.control import While
from tegula.ops.roles import Roles
from tegula.ops.tile import TileExtract, TileFillAbsent, TileReshape, TileSlice
from tegula.passes.runner import Compilation
from tegula.passes.uniformity import analyse
from tegula.types import BufType, TileType

VIEWS = (BufView, BufReshape)
VALUE_OPS: dict[type[Op], type[Op]] = {BufGet: TileExtract, BufView: TileSlice, BufReshape: TileReshape}


def promote_buffers(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place: promotable buffers become values."""
    _Promotion(kernel).run()


class _Promotion:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.values: dict[Value, Value] = {}
        self.promoted = self._candidates()

    def _candidates(self) -> set[Value]:
        """The objects without element writes that have no views, or are never written after their creation."""
        objects: set[Value] = set()
        excluded: set[Value] = set()
        viewed: set[Value] = set()
        written: set[Value] = set()
        for op in self.kernel.walk():
            if isinstance(op, BufNew):
                if not op.between_roles:
                    objects.add(op.result)
            elif isinstance(op, While):
                # A condition region only yields a bool, so that a value written there could not be passed to the body.
                excluded.update(root(o.buffer) for o in op.condition.walk() if isinstance(o, BufWrite))
            elif not any([isinstance(v.type, BufType) for v in op.operands]):
                continue
            elif isinstance(op, (BufSet, BufUpdate)):
                excluded.add(root(op.buffer))
            elif isinstance(op, BufWrite):
                written.add(root(op.buffer))
            elif isinstance(op, VIEWS):
                viewed.add(root(op.buffer))
            elif not isinstance(op, (BufRead, BufGet)):
                excluded.update(map(root, op.operands))
        promoted = objects - excluded - (viewed & written)
        return promoted - set(self._viewed_by_lanes()) if promoted & viewed else promoted

    def _viewed_by_lanes(self) -> Iterator[Value]:
        """The objects with lane-varying views."""
        uniformity = analyse(self.kernel)
        for op in self.kernel.walk():
            if isinstance(op, VIEWS) and (
                uniformity.reached_by_some_lanes(op) or any(map(uniformity.varying, op.operands))
            ):
                yield root(op.result)

    def run(self) -> None:
        self._region(self.kernel.body, {})

    def _region(self, region: Region, current: dict[Value, Value]) -> None:
        """Rewrite a region. `current`: the current value of each promoted object and of each view of a promoted
        object."""
        rewritten: list[Op] = []
        for op in region.ops:
            op.substitute(self.values)
            for replacement in self._op(op, current):
                replacement.parent = region
                rewritten.append(replacement)
        region.ops = rewritten

    def _op(self, op: Op, current: dict[Value, Value]) -> list[Op]:
        """The ops that replace an op."""
        if isinstance(op, BufNew) and op.result in self.promoted:
            current[op.result] = op.tile
            return []
        if isinstance(op, Carrier):
            self._control(op, current)
        if isinstance(op, Roles):
            for role in op.roles:
                self._region(role, dict(current))
        if isinstance(op, CallLike):
            for region in op.regions:
                self._region(region, {})
        if not isinstance(op, (BufRead, BufWrite, BufGet, BufView, BufReshape)) or op.buffer not in current:
            return [op]
        if isinstance(op, BufRead):
            self.values[op.result] = current[op.buffer]
            return []
        if isinstance(op, BufWrite):
            current[op.buffer] = op.tile
            return []
        return self._derived(op, current[op.buffer], current)

    def _derived(
        self, op: BufGet | BufView | BufReshape, value: Value, current: dict[Value, Value]
    ) -> list[Op]:
        """The ops that replace a read of an element, or a view of an object that never changes, by the same op on the
        value. Elements of absent lanes are 0 in views."""
        kind, fill_ops = VALUE_OPS[type(op)], list[Op]()
        _, *indices = op.operands
        if isinstance(op, VIEWS) and isinstance(value.type, TileType) and value.type.partial:
            fill = TileFillAbsent.typed([value], loc=op.loc)
            fill_ops, value = [fill], fill.result
        part = kind.typed([value, *indices], op.attrs, loc=op.loc)
        if isinstance(op, BufGet):
            self.values[op.result] = part.result
        else:
            current[op.result] = part.result
        return [*fill_ops, part]

    def _written(self, op: Op, current: dict[Value, Value]) -> list[Value]:
        inside = {o.buffer for o in op.walk() if isinstance(o, BufWrite)}
        return [b for b in current if b in inside]

    def _control(self, op: Carrier, current: dict[Value, Value]) -> None:
        """Make the op carry the values of the objects that are written in it."""
        written, before = self._written(op, current), len(op.results)
        if isinstance(op, LoopLike):
            self._loop(op, written, current)
        elif isinstance(op, BranchLike):
            self._branches(op, written, current)
        current.update(zip(written, op.results[before:], strict=True))

    def _branches(self, op: BranchLike, written: list[Value], current: dict[Value, Value]) -> None:
        for b in written:
            op.append(current[b].type, b.name)
        for region in op.alternatives:
            inner = dict(current)
            self._region(region, inner)
            region.yielded = [*region.yielded, *(inner[b] for b in written)]

    def _loop(self, op: LoopLike, written: list[Value], current: dict[Value, Value]) -> None:
        before = len(op.results)
        for b in written:
            op.append(current[b], b.name)
        for region, carried in zip((*op.headers, op.body), op.entries, strict=True):
            inner = current | dict(zip(written, carried[before:], strict=True))
            self._region(region, inner)
            if region is op.body:
                region.yielded = [*region.yielded, *(inner[b] for b in written)]
