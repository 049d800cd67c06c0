"""Building blocks of passes: walking, uses, replacement, cloning, dead code elimination."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence

from tegula.ir.interfaces import Carrier, root
from tegula.ir.kernel import Kernel
from tegula.ir.values import AnyOp, Op, Region, Value
from tegula.types import BufType


def walk(at: Kernel | Region | Op) -> Iterator[Op]:
    """All ops in program order, an op before its nested ops. The caller may erase the op that was yielded last."""
    return at.walk()


def walk_regions(at: Region) -> Iterator[Region]:
    """A region and all nested regions, outer before inner."""
    yield at
    for op in list(at.ops):
        for region in op.regions:
            yield from walk_regions(region)


def uses(region: Region) -> dict[Value, list[tuple[Op, int]]]:
    """The uses of each value in the region and nested regions, as (op, operand position), in program order. Values
    without a use have no entry."""
    out: dict[Value, list[tuple[Op, int]]] = {}
    for op in region.walk():
        for position, operand in enumerate(op.operands):
            out.setdefault(operand, []).append((op, position))
    return out


def is_defined_in(value: Value, region: Region) -> bool:
    """Whether the value is defined in the region or below it."""
    current: Region | None = value.owner.parent if isinstance(value.owner, Op) else value.owner
    while current is not None:
        if current is region:
            return True
        current = current.parent.parent if current.parent is not None else None
    return False


def replace(region: Region, mapping: Mapping[Value, Value]) -> None:
    """Replace every operand v by mapping[v], nested regions included. A replacement that is itself replaced is followed
    to the end of the chain; ValueError if a chain never ends."""
    if not mapping:
        return
    final = {value: _end_of_chain(value, mapping) for value in mapping}
    for op in region.walk():
        op.substitute(final)


def insert_before(op: Op, new_ops: Sequence[Op]) -> None:
    """Put ops before an op of a region."""
    region = op.parent
    assert region is not None
    at = region.ops.index(op)
    for new_op in new_ops:
        new_op.parent = region
    region.ops[at:at] = new_ops


def insert_after(op: Op, new_op: Op) -> None:
    """Put an op after an op of a region."""
    region = op.parent
    assert region is not None
    new_op.parent = region
    region.ops.insert(region.ops.index(op) + 1, new_op)


def _end_of_chain(value: Value, mapping: Mapping[Value, Value]) -> Value:
    current = value
    for _ in range(len(mapping) + 1):
        if current not in mapping:
            return current
        current = mapping[current]
    raise ValueError(f"replacing {value} never ends")


def clone_op(op: AnyOp, mapping: MutableMapping[Value, Value]) -> AnyOp:
    """A copy of an op, without a parent. Its operands are replaced by `mapping`, to which the copies of all values that
    the op defines are added."""
    operands = [mapping.get(v, v) for v in op.operands]
    copy = op.copy(operands, [clone_region(region, mapping) for region in op.regions])
    for old, new in zip(op.results, copy.results, strict=True):
        mapping[old] = new
    return copy


def clone_region(region: Region, mapping: MutableMapping[Value, Value]) -> Region:
    """A copy of a region, without a parent op; operands and `mapping` as in `clone_op`."""
    copy = Region([arg.type for arg in region.args])
    for old, new in zip(region.args, copy.args, strict=True):
        new.name = old.name
        mapping[old] = new
    for op in region.ops:
        copy.append(clone_op(op, mapping))
    return copy


def clone_ops(ops: Sequence[Op]) -> tuple[Region, dict[Value, Value]]:
    """A region with clones of the ops of a body, and the mapping from original to cloned values."""
    region, copies = Region(), dict[Value, Value]()
    for op in ops:
        region.append(clone_op(op, copies))
    return region, copies


# Dead code --------------------------------------------------------------------------------------------------


def is_observable(op: Op) -> bool:
    """Whether the op, without its nested ops, is a hint, or has effects other than reads, and writes to objects that it
    creates."""
    effects = op.effects()
    return op.HINT or (
        bool(effects)
        and any(e.kind != "read" and (e.value is None or e.value not in op.results) for e in effects)
    )


def erase_dead(kernel: Kernel, objects: bool = False) -> None:
    """Erase ops that nothing observable depends on, and carried values of `for`, `while` and `if` that only feed
    themselves. A loop without effects and with unused results is erased too, even if the loop might not end. `objects`:
    also erase writes of tile objects that nothing reads."""
    live = _Liveness(kernel.body, objects)
    _sweep(kernel.body, live)


def _changed_object(op: Op) -> Value | None:
    """The tile object that an op changes, if the change is the op's only observable effect; else None."""
    changed = [e.value for e in op.effects() if e.kind != "read"]
    value = changed[0] if len(changed) == 1 else None
    return root(value) if value is not None and isinstance(value.type, BufType) else None


class _Liveness:
    """Ops and values that an observable op depends on, found backwards from observable ops."""

    def __init__(self, body: Region, objects: bool) -> None:
        self.ops: set[Op] = set()
        self.values: set[Value] = set()
        self.pending: list[Value] = []
        self.writers: dict[Value, list[Op]] = {}
        self.carried: dict[Op, dict[Value, Sequence[Value]]] = {}
        for op in body.walk():
            if op.NAME == "yield" or not is_observable(op):
                continue
            changed = _changed_object(op) if objects else None
            if changed is None:
                self.mark_op(op)
            else:
                self.writers.setdefault(changed, []).append(op)
        while self.pending:
            value = self.pending.pop()
            op = value.owner.parent if isinstance(value.owner, Region) else value.owner
            if op is not None:
                self.mark_op(op)
                if isinstance(op, Carrier):
                    self.mark_carried(op, value)

    def mark(self, values: Iterable[Value]) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self.pending.append(value)

    def mark_op(self, op: Op) -> None:
        """Mark an op live, with the values that it always reads and the ops around it."""
        if op in self.ops:
            return
        self.ops.add(op)
        for effect in op.effects() if self.writers else ():
            if effect.kind == "read" and effect.value is not None:
                for writer in self.writers.pop(root(effect.value), ()):
                    self.mark_op(writer)
        if isinstance(op, Carrier):
            self.mark(op.control_operands)
        else:
            self.mark(op.operands)
            for region in op.regions:
                self.mark(region.yielded)
        if op.parent is not None and op.parent.parent is not None:
            self.mark_op(op.parent.parent)

    def mark_carried(self, op: Carrier, value: Value) -> None:
        """Mark the values that may become a result or an argument of an op."""
        if op not in self.carried:
            self.carried[op] = {v: c.values for c in op.carried for v in c.defined_values}
        self.mark(self.carried[op].get(value, ()))


def _sweep(region: Region, live: _Liveness) -> None:
    region.ops = [op for op in region.ops if op.NAME == "yield" or op in live.ops]
    for op in region.ops:
        if isinstance(op, Carrier):
            op.erase([k for k, carried in enumerate(op.carried) if carried.result not in live.values])
        for nested in op.regions:
            _sweep(nested, live)
