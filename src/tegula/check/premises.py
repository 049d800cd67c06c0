"""The premises of proofs, and whether a kernel's results are determined."""

from __future__ import annotations

from collections.abc import Iterator

from tegula.dataclass import dataclass, field
from tegula.ir import Kernel, Op, Value
from tegula.ops.buffer import combination, commute
from tegula.passes.overlap import array_root
from tegula.types import ArrayType, scalar_of

PREMISES = (
    "the event table (tegula/ops/events.py) gives the effects of PTX instructions on barriers and shared memory",
    "the analyses of derived barriers inside a role, and of values that differ between its threads, are correct",
    "each loop of a role terminates, and no role waits for another block",
    "LLVM and ptxas preserve integer arithmetic, and the emitted order of memory accesses and barriers",
    "no barrier counts 2^31 - 4096 items or more, nor does a hand-written 32-bit counter of items",
    "threads read no element of a tile_empty to which no thread has stored: what copies fill is checked",
)
"""The premises of a proof; the guards of the certificate are further ones."""
YES, NO, UNKNOWN = "deterministic", "not deterministic", "not determined"


@dataclass(slots=True)
class _Accesses:
    """The accesses of a kernel to one array: atomic updates, with their operations, and other accesses."""

    name: str
    updates: list[tuple[Op, str]] = field(default_factory=list[tuple[Op, str]])
    reads: list[Op] = field(default_factory=list[Op])
    writes: list[Op] = field(default_factory=list[Op])


def determinism(kernel: Kernel, proved: bool) -> str:
    """A text that says whether equal arguments give equal results, and if not, why. The check does not search for
    blocks that store different values to one element, as the text states."""
    reasons = list(_reasons(kernel))
    known = [r for r in reasons if r.startswith(NO)]
    if known or reasons:
        return (known or reasons)[0]
    if not proved:
        return f"{UNKNOWN}: the schedule is not proved"
    return f"{YES}, unless two threads store different values to one element of an array"


def _reasons(kernel: Kernel) -> Iterator[str]:
    accesses = _accesses(kernel)
    has_updates = any(uses.updates for uses in accesses.values())
    used = {v for op in kernel.walk() for v in op.operands} if has_updates else set[Value]()
    for array, uses in accesses.items():
        for op, operation in uses.updates:
            results = [v for v in op.results if v in used]
            if results:
                yield f"{NO}: the result of the atomic access of {uses.name}{_at(op)} depends on the order"
            elif operation in ("add", "sub") and _of_floats(array):
                yield f"{NO}: the sums of floats in {uses.name}{_at(op)} depend on the order of atomic additions"
            elif not all(commute(operation, other) for _, other in uses.updates):
                yield f"{NO}: the atomic updates of {uses.name}{_at(op)} do not commute"
        others = [other for v in _aliases(kernel, array) if (other := accesses.get(v)) is not None]
        changes = [*uses.writes, *(op for op, _ in uses.updates)]
        for op in (*uses.reads, *(op for other in others for op in other.reads)) if changes else ():
            yield f"{UNKNOWN}: {uses.name} is read{_at(op)} and changed{_at(changes[0])}"
        for op, _ in uses.updates if uses.writes else ():
            yield f"{UNKNOWN}: {uses.name} is stored to{_at(uses.writes[0])} and updated{_at(op)}"


def _accesses(kernel: Kernel) -> dict[Value, _Accesses]:
    accesses: dict[Value, _Accesses] = {}
    for op in kernel.walk():
        for e in op.effects():
            if e.value is None or not isinstance(e.value.type, ArrayType):
                continue
            array = array_root(e.value)
            uses = accesses.setdefault(array, _Accesses(array.name or "an array"))
            if e.kind == "atomic":
                uses.updates.append((op, combination(op)))
            elif e.kind == "read":
                uses.reads.append(op)
            else:
                uses.writes.append(op)
    return accesses


def _aliases(kernel: Kernel, array: Value) -> list[Value]:
    """The other arrays that may share memory with an array."""
    if array not in kernel.params:
        return []
    access = kernel.access[kernel.params.index(array)]
    near = kernel.params if access is None else [kernel.params[k] for k in access.aliases]
    return [v for v in near if v is not array]


def _of_floats(array: Value) -> bool:
    return isinstance(array.type, ArrayType) and scalar_of(array.type.dtype).is_float


def _at(op: Op) -> str:
    return f" (line {op.loc.line})" if op.loc.line else ""
