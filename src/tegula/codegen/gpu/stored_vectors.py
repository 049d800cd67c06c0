"""Long vectors with run-time subscripts that a thread may keep in memory, because only their last version is used.

A vector is a value: `v[i] = x` makes another vector. In registers a component at a run-time subscript takes a select
for each component. If each version of a vector is dead once the next version is made, all versions can share one array
in the thread's memory, and a component takes one access.

The versions that share an array are the results of inserts, with the variables of loops and branches that carry them. A
vector that begins such a family, a constant for example, is copied to the array.

The array has one more element than the vector, to which inserts out of bounds are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.codegen.convert import convert
from tegula.codegen.gpu.spills import spill_access
from tegula.codegen.gpu.state import GpuState
from tegula.codegen.storage import View
from tegula.codegen.text import constant, scalar_type
from tegula.ir import BranchLike, ConstantLike, Contents, Kernel, LoopLike, Op, Region, Value
from tegula.ir.disjoint_sets import DisjointSets
from tegula.ops.lane import Lanes
from tegula.ops.vector import VecExtract, VecInsert, VecUnset
from tegula.types import DType, VecType, bool_, components, int32, int64, scalar_of, uint32, uint64

MIN_COMPONENTS = 17
"""The minimum number of components of a vector in memory: selects among fewer components cost less than an access."""


def stored_vectors(kernel: Kernel, contents: Contents) -> dict[Value, Value]:
    """The vectors of a kernel that are kept in memory, each with the representative of the vectors that share an
    array."""
    families, accesses = DisjointSets(), contents.of(VecInsert, VecExtract)
    for op in contents.of(VecInsert, LoopLike, BranchLike) if accesses else ():
        for versions in _versions(op):
            families.join(v for v in versions if _is_version(v))
    subscripted = {
        families.find(v)
        for op in accesses
        if not isinstance(op.indices[0].owner, ConstantLike)
        for v in (op.composite, op.result)
        if v in families.parents
    }
    if not subscripted:
        return {}
    member = {v: root for v in families.parents if (root := families.find(v)) in subscripted}
    order = _Order(member)
    order.region(kernel.body, {})
    refused = order.refused | {root for v, root in member.items() if v not in order.made}
    return {v: root for v, root in member.items() if root not in refused}


def _versions(op: Op) -> Iterator[Sequence[Value]]:
    """Vectors that share an array if one of them is in memory."""
    if isinstance(op, VecInsert):
        yield op.composite, op.result
    elif isinstance(op, LoopLike | BranchLike):
        yield from (variable.values for variable in op.carried)


def _is_version(v: Value) -> bool:
    """Whether a value is a long vector that an insert makes, or that a loop or a branch carries."""
    t, owner = v.type, v.owner
    if not isinstance(t, VecType) or components(t) < MIN_COMPONENTS or t.dtype == bool_:
        return False
    if isinstance(owner, Region):
        return isinstance(owner.parent, LoopLike)
    return isinstance(owner, VecInsert | LoopLike | BranchLike)


class _Order:
    """Follows the order of a thread's operations. `member`: the family of each vector. `refused`: the families of which
    an operation uses a version that is not the last one, or uses a version as a whole; `made`: the vectors that the
    operations make."""

    def __init__(self, member: dict[Value, Value]) -> None:
        self.member = member
        self.refused: set[Value] = set()
        self.made: set[Value] = set()

    def region(self, region: Region, last: dict[Value, Value | None]) -> None:
        """Follow the operations of a region. `last`: the last version of each family, which the operations change; None
        after operations on some paths only."""
        for op in region.ops:
            if isinstance(op, LoopLike):
                self._loop(op, last)
            elif isinstance(op, BranchLike):
                self._branch(op, last)
            elif isinstance(op, VecInsert | VecExtract):
                self._use(op.composite, last)
                if isinstance(op, VecInsert):
                    self._make(op.result, last)
            elif op is not region.ops[-1] or not isinstance(region.parent, LoopLike | BranchLike):
                self.refused |= {self.member[v] for v in op.operands if v in self.member}
                if isinstance(op, Lanes):
                    self.region(op.body, {})

    def _use(self, v: Value, last: dict[Value, Value | None]) -> None:
        family = self.member.get(v)
        if family is not None and last.get(family) is not v:
            self.refused.add(family)

    def _make(self, v: Value, last: dict[Value, Value | None]) -> None:
        if v in self.member:
            last[self.member[v]] = v
            self.made.add(v)

    def _loop(self, op: LoopLike, last: dict[Value, Value | None]) -> None:
        carried = op.carried
        for variable in carried:
            if variable.initial is not None:
                self._use(variable.initial, last)
        families = [self.member[x.result] for x in carried if x.result in self.member]
        self.refused |= {f for f in families if families.count(f) > 1}
        for region, arguments in zip((*op.headers, op.body), op.entries, strict=True):
            for v in arguments:
                self._make(v, last)
            before = dict(last)
            self.region(region, last)
            if region is op.body:
                for variable in carried:
                    self._use(variable.yielded[0], last)
            changed = {f for f, v in before.items() if v is not None and last.get(f) is not v}
            # The next iteration would read the version of this iteration.
            self.refused |= changed - set(families) if region is op.body else changed
        for family in last:
            if family not in before:
                last[family] = None
        for variable in carried:
            self._make(variable.result, last)

    def _branch(self, op: BranchLike, last: dict[Value, Value | None]) -> None:
        ends: list[dict[Value, Value | None]] = []
        for k, region in enumerate(op.alternatives):
            end = dict(last)
            self.region(region, end)
            for variable in op.carried:
                self._use(variable.yielded[k], end)
            ends.append(end)
        for family in {f for end in ends for f in end}:
            versions = {end.get(family) for end in ends}
            last[family] = versions.pop() if len(versions) == 1 else None
        families = [self.member[r] for r in op.results if r in self.member]
        self.refused |= {f for f in families if families.count(f) > 1}
        for r in op.results:
            self._make(r, last)


# Accesses ----------------------------------------------------------------------------------------------------------


def vector_access(s: GpuState, op: Op) -> bool:
    """Lower an insert or extract of a vector in memory, a spill, or a reload; False for all other ops."""
    if isinstance(op, VecInsert) and op.result in s.stored:
        copy_to_array(s, op.composite, op.result)
        array = _array(s, op.result)
        element = _element(s, array, op.indices[0], array.shape[0] - 1)
        s.memory.store_element(element, s.components(op.value), array.dtype)
        s.scalars[op.result] = ()
        return True
    if isinstance(op, VecExtract) and op.composite in s.stored:
        array = _array(s, op.composite)
        element = _element(s, array, op.indices[0], array.shape[0] - 2)
        s.scalars[op.result] = s.memory.load_element(element, array.dtype)
        return True
    return spill_access(s, op)


def copy_to_array(s: GpuState, source: Value, target: Value) -> None:
    """Copy a vector that is not in memory to the array of a vector that an op makes of it."""
    if source in s.stored or isinstance(source.owner, VecUnset):
        return
    array = _array(s, target)
    s.memory.store_element(array.pointer, s.components(source), array.dtype)


def passed_registers(s: GpuState, source: Value, target: Value) -> list[str]:
    """The registers of a value that a loop or a branch passes to its variable `target`; none for a vector in memory."""
    if target not in s.stored:
        return s.flat(source)
    copy_to_array(s, source, target)
    return []


def _array(s: GpuState, vector: Value) -> View:
    """The array of a vector."""
    family = s.stored[vector]
    if family not in s.vector_arrays:
        t = vector.type
        assert isinstance(t, VecType)
        s.vector_arrays[family] = s.allocate("vector", t.dtype, (t.length + 1,))
    return s.vector_arrays[family]


def _element(s: GpuState, array: View, index: Value, otherwise: int) -> str:
    """The address of the component at an index, or at `otherwise` for an index out of bounds."""
    source = index.type
    assert isinstance(source, DType)
    t = uint64 if source.bits == 64 else uint32
    position = convert(s.code, s.scalar(index), source, int64 if source.bits == 64 else int32, 1)
    limit = constant(t, array.shape[0] - 1)
    is_inside = s.code.emit(f"icmp ult {scalar_type(t)} {position}, {limit}")
    position = s.code.emit(
        f"select i1 {is_inside}, {scalar_type(t)} {position}, {scalar_type(t)} {constant(t, otherwise)}"
    )
    if t is uint32:
        position = s.code.emit(f"zext nneg i32 {position} to i64")
    return s.memory.offset(array.pointer, position, scalar_of(array.dtype))
