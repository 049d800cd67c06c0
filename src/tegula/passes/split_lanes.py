"""Gathers lane-varying code into `lanes` ops, which are split where the lanes must synchronise: at cooperative ops, and
between conflicting accesses of one tile by different lanes."""

from __future__ import annotations

from tegula.errors import CompileError, UnorderedAccess, raise_all
from tegula.ir import Carrier, Effect, Kernel, Op, Region, Value, root
from tegula.ir.rewrite import clone_op, replace, uses
from tegula.ops.array import ArrayView
from tegula.ops.buffer import BufReshape, BufUpdate, BufView
from tegula.ops.control import Yield
from tegula.ops.debug import Assert, Print
from tegula.ops.group_operands import view_index_name
from tegula.ops.lane import Lanes, LaneUniform, Tid
from tegula.ops.roles import Roles
from tegula.passes.accesses import BufferAccess, Independence, accesses
from tegula.passes.overlap import popped_from
from tegula.passes.runner import Compilation
from tegula.passes.uniformity import Uniformity
from tegula.types import ArrayType, BufType, PipeType, TileType

VIEWS = (ArrayView, BufView, BufReshape)


def split_lanes(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place. UnorderedAccess for accesses that no barrier can order."""
    splitter = _Splitter(kernel.body, context.uniformity)
    splitter.region(kernel.body)
    raise_all(splitter.errors)


class _Splitter:
    def __init__(self, body: Region, known: Uniformity) -> None:
        self.known = known
        self.independence = Independence(known)
        self.errors: list[CompileError] = []
        self.users = {value: [op for op, _ in used_by] for value, used_by in uses(body).items()}
        self.views: dict[Value, Op] = {}
        self.without_conflicts: set[Op] = set()

    def region(self, region: Region) -> None:
        """Split one region that all lanes run in lockstep."""
        out: list[Op] = []
        group = _Group(self, region)
        for op in region.ops:
            self._assign_group(op, out, group)
        region.ops = out

    def _assign_group(self, op: Op, out: list[Op], group: _Group) -> None:
        if isinstance(op, VIEWS) and any(self.known.varying(v) for v in op.operands):
            self.views[op.result] = op
            return
        if isinstance(op, Carrier) and not (op in self.known.divergent or self._runs_per_lane(op)):
            for nested in op.regions:
                self.region(nested)
            group.flush(out)
            out.append(op)
        elif isinstance(op, Roles):
            for role in op.roles:
                self.region(role)
            group.flush(out)
            out.append(op)
        elif isinstance(op, Tid):
            out.append(op)
        elif self._runs_once(op):
            if isinstance(op, Yield) or group.must_precede(op):
                group.flush(out)
            self._uniform_views(op, out)
            out.append(op)
        else:
            self._report(op)
            if group.conflicts(op):
                group.flush(out)
            group.add(op)

    def _runs_per_lane(self, op: Op) -> bool:
        """Whether each lane can run a uniform loop or branch from start to end, so that the carried values of lanes
        stay in registers: no nested op runs once for the block, no synchronisation is needed, no print would change its
        order, and all used results vary between lanes."""
        inside = [inner for inner in op.walk() if inner is not op and not isinstance(inner, Yield)]
        values = [*op.results, *(arg for region in op.regions for arg in region.args)]
        if any(isinstance(v.type, TileType) for v in values) or not any(self._varies(o) for o in inside):
            return False
        if any(not self.known.varying(r) and r in self.users for r in op.results):
            return False
        if any(self._runs_once_per_block(o) for o in inside) or self._reads_arrays_written_by_lanes(inside):
            return False
        if next(self.independence.conflicts_inside(op), None) is not None:
            return False
        self.without_conflicts.add(op)
        return True

    def _varies(self, op: Op) -> bool:
        return any(self.known.varying(v) for v in [*op.operands, *op.results])

    def _runs_once_per_block(self, op: Op) -> bool:
        """Whether an op is cooperative, reports to the host, or is a store that the block executes once."""
        kinds = {effect.kind for effect in op.effects()}
        return op.COOPERATIVE or "io" in kinds or ("write" in kinds and self._runs_once(op))

    def _reads_arrays_written_by_lanes(self, inside: list[Op]) -> bool:
        """Whether the block reads array elements once while lanes write arrays. A read by each lane would see fewer of
        the writes."""
        arrays = [
            (effect.kind, self._runs_once(op))
            for op in inside
            for effect in op.effects()
            if effect.value is not None and isinstance(effect.value.type, ArrayType)
        ]
        return any(kind != "read" for kind, _ in arrays) and ("read", True) in arrays

    def _runs_once(self, op: Op) -> bool:
        """Whether the block runs the op once: cooperative ops, and pure ops, reads and stores of uniform operands."""
        if op.COOPERATIVE or isinstance(op, Yield):
            return True
        if op.regions or op.VARYING or isinstance(op, (BufUpdate, Print, Assert)):
            return False
        return not any(self.known.varying(v) for v in op.operands)

    def _report(self, op: Op) -> None:
        """Record one error for each access that may conflict with another access, or with itself in another lane."""
        if not op.regions or op in self.without_conflicts:
            return
        accesses: dict[Op, BufferAccess] = {}
        for a, b in self.independence.conflicts_inside(op):
            accesses.setdefault(a.op, b)
        for first, b in accesses.items():
            other = (
                "the other access is this one, in another iteration" if b.op is first else "the other access"
            )
            self.errors.append(
                UnorderedAccess(
                    first.loc,
                    other={"read": "reads", "write": "writes", "atomic": "updates"}[b.kind],
                    notes=[
                        (b.op.loc, other),
                        (op.loc, "inside this branch or loop, whose condition differs between threads"),
                    ],
                )
            )

    def _uniform_views(self, op: Op, out: list[Op]) -> None:
        """Replace lane-varying views among a cooperative op's operands by lane 0's views."""
        if self.views.keys().isdisjoint(op.operands):
            return
        op.map_operands(lambda v: self._uniform_view(v, op.parent, out) if v in self.views else v)

    def _uniform_view(self, view: Value, region: Region | None, out: list[Op]) -> Value:
        """The view at lane 0's indices, which is appended to the ops `out` of `region`."""
        uniform = clone_op(self.views[view], {})

        def lane_0_value(operand: Value) -> Value:
            if operand in self.views:
                return self._uniform_view(operand, region, out)
            if not self.known.varying(operand):
                return operand
            attributes = {"implicit": view_index_name(operand)}
            lane_0 = LaneUniform([operand], [operand.type], attributes, [], uniform.loc)
            lane_0.parent = region
            out.append(lane_0)
            return lane_0.result

        uniform.map_operands(lane_0_value)
        uniform.parent = region
        out.append(uniform)
        return uniform.result


class _Group:
    """Consecutive lane ops of one region that are not in a `lanes` op yet."""

    def __init__(self, splitter: _Splitter, region: Region) -> None:
        self.splitter = splitter
        self.region = region
        self.clear()

    def clear(self) -> None:
        self.ops: list[Op] = []
        self.accesses: dict[object, BufferAccess] = {}
        self.copies: dict[Value, Value] = {}
        self.defined: set[Value] = set()
        self.effects: dict[Effect, None] = {}

    def add(self, op: Op) -> None:
        for inner in op.walk() if self.splitter.views else ():
            inner.map_operands(self._local)
        self._append(op)
        self.accesses.update((a.deduplication_key, a) for a in accesses(op))

    def _append(self, op: Op) -> None:
        self.ops.append(op)
        self.defined.update(op.results)
        self.effects.update((e, None) for inner in op.walk() for e in inner.effects())

    def _local(self, value: Value) -> Value:
        return self._view(value) if value in self.splitter.views else value

    def _view(self, view: Value) -> Value:
        """The group's own copy of a varying view."""
        if view not in self.copies:
            source = self.splitter.views[view]
            local_view = clone_op(source, {})
            local_view.map_operands(self._local)
            self.splitter.known.values.add(local_view.result)
            self._append(local_view)
            self.copies[view] = local_view.result
        return self.copies[view]

    def conflicts(self, op: Op) -> bool:
        """Whether different lanes may access the same bytes in `op` and in the group."""
        conflict = self.splitter.independence.conflict
        new_accesses = list(accesses(op))
        return any(conflict(a, b, self.region) for a in self.accesses.values() for b in new_accesses)

    def must_precede(self, op: Op) -> bool:
        """Whether an op that the block runs once depends on the group, through values or memory."""
        if not self.ops:
            return False
        if not (self.defined.isdisjoint(op.operands) and self.splitter.views.keys().isdisjoint(op.operands)):
            return True
        return any(
            "io" in (a.kind, b.kind)
            or (a.kind, b.kind) != ("read", "read")
            and self._may_alias(a.value, b.value)
            for b in op.effects()
            for a in self.effects
        )

    def _may_alias(self, a: Value | None, b: Value | None) -> bool:
        if a is None or b is None:
            return False
        if isinstance(b.type, PipeType):
            return isinstance(a.type, BufType) and popped_from(a, b)
        if isinstance(a.type, BufType) != isinstance(b.type, BufType):
            return False
        return root(a) is root(b) if isinstance(a.type, BufType) else isinstance(a.type, ArrayType)

    def flush(self, out: list[Op]) -> None:
        """Insert the group as one `lanes` op that returns the values used outside."""
        if not self.ops:
            return
        inside = set(self.ops)
        exported = [v for op in self.ops for v in op.results if self._used_outside(v, inside)]
        body = Region()
        for op in self.ops:
            body.append(op)
        lanes = Lanes([], [v.type for v in exported], None, [body], self.ops[0].loc)
        lanes.parent = self.region
        inner: dict[Value, Value] = {}
        for k, value in enumerate(exported):
            inner[value] = self._inner_value(value)
            lanes.results[k] = value
            value.owner = lanes
        replace(body, inner)
        body.append(Yield([inner[v] for v in exported], [], None, [], lanes.loc))
        out.append(lanes)
        self.clear()

    def _inner_value(self, value: Value) -> Value:
        owner = value.owner
        assert isinstance(owner, Op)
        inner = Value(value.type, owner, value.name)
        self.splitter.independence.record_result(value, inner)
        if self.splitter.known.varying(value):
            self.splitter.known.values.add(inner)
        owner.results[owner.results.index(value)] = inner
        return inner

    def _used_outside(self, value: Value, inside: set[Op]) -> bool:
        if isinstance(value.type, (ArrayType, BufType)):
            return False
        return any(_ancestor(user, self.region) not in inside for user in self.splitter.users.get(value, ()))


def _ancestor(op: Op, region: Region) -> Op | None:
    """The op of `region` that contains `op`."""
    ancestor: Op | None = op
    while ancestor is not None and ancestor.parent is not region:
        ancestor = ancestor.parent.parent if ancestor.parent is not None else None
    return ancestor
