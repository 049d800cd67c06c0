"""The backward sweep: adjoints of ops, and of the control flow around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from tegula.errors import NoGradient
from tegula.ir import Carrier, ConstantLike, LoopLike, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayView
from tegula.ops.base import element
from tegula.ops.buffer import BufRead, BufReshape, BufView
from tegula.ops.control import For, If, Yield
from tegula.ops.gradient import adjoint_type
from tegula.ops.tile import TileExtract
from tegula.passes.gradient.activity import Activity
from tegula.passes.gradient.hazards import Hazards
from tegula.passes.gradient.iterations import LoopReplay
from tegula.passes.gradient.order import runs_in_one_lane
from tegula.passes.gradient.replay import ForwardReplay, source_name
from tegula.passes.gradient.scopes import GradientScope
from tegula.passes.uniformity import Uniformity
from tegula.types import BufType, TileType, is_element, scalar_of

Sums = dict[tuple[Value, bool], Value]
"""The contributions of a region to adjoints of outer values; True: for the block, False: for each lane."""


class Reverse(ForwardReplay):
    """Builds the adjoint of a region. `known`: the uniformity of the forward kernel; None inside mapped functions,
    where there are no lanes."""

    __slots__ = ("hazards", "known")

    def __init__(
        self,
        region: Region,
        activity: Activity,
        known: Uniformity | None,
        hazards: Hazards,
        lanes: int = 1,
        partial: bool = False,
    ) -> None:
        super().__init__(region, lanes=lanes, partial=partial)
        self.scope = GradientScope(region)
        self.activity = activity
        self.known = known
        self.hazards = hazards
        self.replays = []
        self.known_results = {}

    # Queries of ops' adjoints ----------------------------------------------------------------------------------------

    def forward_value(self, value: Value) -> Value:
        primal = self.scope.primal(value)
        assert primal is not None, f"{value} was not recomputed"
        return primal

    def primal(self, value: Value) -> Value:
        primal = self.forward_value(value)
        wide = adjoint_type(primal.type)
        if wide == primal.type:
            return primal
        assert is_element(wide) or isinstance(wide, TileType)
        return self.as_scalar(primal, scalar_of(wide.dtype if isinstance(wide, TileType) else wide))

    def needs_adjoint(self, value: Value) -> bool:
        return value in self.activity

    def may_give_nan(self, factor: Value, op: Op) -> bool:
        return self.hazards.may_give_nan(factor, op)

    def may_be_zero(self, value: Value) -> bool:
        return not self.hazards.lower_bound(value) > 0.0

    def shadow(self, memory: Value) -> Value:
        shadow = self.scope.shadow(memory)
        if shadow is None:
            assert isinstance(memory.owner, ArrayView | BufView | BufReshape), f"{memory} has no gradient"
            self.add_shadow(memory.owner)
            shadow = self.scope.shadows[memory]
        return shadow

    def is_uniform_op(self, op: Op) -> bool:
        if self.known is None or self.is_divergent(op):
            return False
        return not any(self.known.varying(v) for v in op.operands)

    def is_divergent(self, op: Op) -> bool:
        if self.known is None:
            return False
        ancestor: Op | None = op
        while ancestor is not None:
            if ancestor in self.known.divergent:
                return True
            ancestor = ancestor.parent.parent if ancestor.parent is not None else None
        return False

    def accumulator(self, tile: Value) -> Value:
        accumulator = self.scope.accumulator(tile)
        if accumulator is None:
            t = adjoint_type(tile.type)
            assert isinstance(t, TileType)
            accumulator = self.new_object(Value(BufType(t.dtype, t.shape, "register", t.partial)))
            self.scope.accumulators[tile] = accumulator
        return accumulator

    def element_adjoint(self, body: Region, argument: Value) -> Region | None:
        (result,) = body.yielded
        activity = Activity(body, [argument], [result])
        if result not in activity:
            return None
        region = Region()
        inner = Reverse(region, activity, None, self.hazards)
        inner.loc = self.loc
        inner.scope.primals.update({a: region.add_argument(a.type) for a in body.args})
        inner.sweep(body.ops[:-1])
        inner.add(result, region.add_argument(adjoint_type(result.type)), False)
        inner.backwards(body.ops[:-1])
        adjoint = inner.take(argument)
        if adjoint is None:
            return None
        inner.emit(Yield, [adjoint])
        return region

    def refuse(self, op: Op, reason: str, help: str = "") -> NoReturn:
        raise NoGradient(op.loc, op=source_name(op), why=reason, help=help)

    def check_writers(self, op: Op, value: Value, indices: Sequence[Value]) -> None:
        if self.known is None or not self.known.varying(value) or any(self.known.varying(i) for i in indices):
            return
        if not self.is_divergent(op) or not runs_in_one_lane(op):
            self.refuse(op, "several threads write one element of a tile, in an unspecified order")

    # Adjoints of values ----------------------------------------------------------------------------------------------

    def shared(self, value: Value) -> bool:
        """Whether a scalar is the same in all lanes, and computed in convergent control flow."""
        if self.known is None or self.known.varying(value):
            return False
        region = (
            value.owner if isinstance(value.owner, Region) else value.owner.parent if value.owner else None
        )
        return region is None or region.parent is None or not self.is_divergent(region.parent)

    def add(self, value: Value, contribution: Value, total: bool) -> None:
        """Add a contribution to the adjoint of a value. `total`: whether the contribution is the block's, or each
        lane's."""
        expected = adjoint_type(value.type)
        assert contribution.type == expected, (
            f"an increment of {contribution.type} for an adjoint of {expected}"
        )
        is_total = isinstance(value.type, TileType) or (total and self.shared(value))
        if total and not is_total:
            contribution = self.in_first_lane_only(contribution)
        table = self.scope.totals if is_total else self.scope.parts
        increment = self.plus(table.get(value), contribution)
        assert increment is not None
        table[value] = increment

    def take(self, value: Value) -> Value | None:
        """Remove and return the complete adjoint of a value at its definition; None if no gradient flows."""
        total, part = self.scope.totals.pop(value, None), self.scope.parts.pop(value, None)
        if value in self.scope.accumulators:
            total = self.plus(total, self.one(BufRead, [self.scope.accumulators.pop(value)]))
        if part is not None and self.shared(value):
            return self.plus(total, self.block_sum(part))
        return self.plus(total, part)

    def take_or_zero(self, value: Value) -> Value:
        """Remove and return the complete adjoint of a value; zeros if nothing was added."""
        adjoint = self.take(value)
        return self.zero(adjoint_type(value.type)) if adjoint is None else adjoint

    # Ops -------------------------------------------------------------------------------------------------------------

    def backwards(self, ops: Sequence[Op]) -> None:
        """Build the adjoints of the ops of a region, from the last op to the first."""
        for op in reversed(ops):
            with self.at(op.loc):
                if isinstance(op, Carrier):
                    self._add_control_adjoint(op)
                else:
                    self._add_op_adjoint(op)

    def _add_op_adjoint(self, op: Op) -> None:
        grads = [self.take(r) for r in op.results]
        if all(g is None for g in grads) and not self.writes_active(op):
            return
        if not any(self.needs_adjoint(v) for v in (*op.operands, *op.results)):
            return
        if op.NONDIFFERENTIABLE:
            self.refuse(op, op.NONDIFFERENTIABLE)
        contributions = op.adjoint(self, *grads)
        is_uniform = op.COOPERATIVE or (not op.EACH_LANE and self.is_uniform_op(op))
        for k, (operand, contribution) in enumerate(zip(op.operands, contributions, strict=True)):
            if contribution is not None and self.needs_adjoint(operand):
                self.add(operand, contribution, is_uniform and k not in op.signature.lanes)

    def _add_control_adjoint(self, op: Carrier) -> None:
        grads = [self.take(r) for r in op.results]
        if all(g is None for g in grads) and not any(self.writes_active(o) for o in op.walk()):
            return
        inside = {r for o in op.walk() for r in o.results} | {a for r in _regions(op) for a in r.args}
        for o in op.walk():
            if isinstance(o, TileExtract) and self.needs_adjoint(o.tile) and o.tile not in inside:
                self.accumulator(o.tile)
        if isinstance(op, If):
            self._branches(op, grads)
        else:
            assert isinstance(op, LoopLike)
            self._loop(op, grads)

    def _branches(self, op: If, grads: Sequence[Value | None]) -> None:
        regions: list[Region] = []
        sums: list[Sums] = []
        for index, branch in enumerate(op.alternatives):
            with self.inside(Region()) as scope:
                self.enter_branch(op, index)
                for value, result, g in zip(branch.yielded, op.results, grads, strict=True):
                    if g is not None and self.needs_adjoint(value):
                        self.add(value, g, self.shared(result))
                self.backwards(branch.ops[:-1])
                sums.append(_remaining(scope))
                regions.append(scope.region)
        keys = list({key: None for adjoints in sums for key in adjoints})
        outer = self.region
        for region, adjoints in zip(regions, sums, strict=True):
            self.region = region
            self.emit(
                Yield, [adjoints[k] if k in adjoints else self.zero(adjoint_type(k[0].type)) for k in keys]
            )
        self.region = outer
        branch_op = self.emit(If, [self.forward_value(op.condition)], None, regions)
        self._extend_sums(keys, branch_op)

    def _extend_sums(self, keys: Sequence[tuple[Value, bool]], sums: Sequence[Value]) -> None:
        for (value, total), contribution in zip(keys, sums, strict=True):
            self.add(value, contribution, total)

    def _loop(self, op: LoopLike, grads: Sequence[Value | None]) -> None:
        """Build a loop over the iterations from last to first, which reruns the forward ops and then runs their
        adjoints."""
        body = op.body
        differentiated = [k for k, a in enumerate(op.arguments) if self.needs_adjoint(a)]
        arguments, initial, yielded = (
            [values[k] for k in differentiated] for values in (op.arguments, op.initial, body.yielded)
        )
        starts = [self._or_zero(grads[k], op.results[k]) for k in differentiated]
        count = self._iterations(op) if isinstance(op, For) else self.scope.iteration_count(op)
        number = element(count.type)
        region = Region([number, *(v.type for v in starts)])
        iteration, *adjoints = region.args
        with self.inside(region) as scope:
            last = self.one(S.Sub, [count, self.const(1, number)])
            reversed_iteration = self.one(S.Sub, [last, iteration])
            carried = self.before_iteration(op, reversed_iteration)
            scope.primals.update(zip(op.arguments, carried, strict=True))
            if isinstance(op, For):
                scope.primals[op.index] = self.iteration_index(op, reversed_iteration)
            self.sweep(body.ops[:-1])
            self._add_carried(yielded, arguments, adjoints)
            self.backwards(body.ops[:-1])
            ends = [self.take_or_zero(a) for a in arguments]
            sums = _remaining(scope)
            for (value, _), contribution in sums.items():
                ends.append(self._plus(region.add_argument(adjoint_type(value.type)), contribution))
            self.emit(Yield, ends)
        zeros = [self.zero(adjoint_type(value.type)) for value, _ in sums]
        bounds = [self.const(0, number), count, self.const(1, number)]
        loop_op = self.emit(For, [*bounds, *starts, *zeros], None, [region])
        if carried and loop_op:
            loop_state, backwards = carried[0].owner, loop_op[0].owner
            assert isinstance(loop_state, For) and isinstance(backwards, For)
            self.replays.append(LoopReplay(loop_state, backwards, count))
        self._add_carried(initial, arguments, loop_op[: len(differentiated)])
        self._extend_sums(list(sums), loop_op[len(differentiated) :])

    def _add_carried(
        self, values: Sequence[Value], arguments: Sequence[Value], adjoints: Sequence[Value]
    ) -> None:
        """Add the adjoints of a loop's carried values to the adjoints of the operands."""
        for value, argument, g in zip(values, arguments, adjoints, strict=True):
            if self.needs_adjoint(value):
                self.add(value, g, self.shared(argument))

    def _plus(self, a: Value, b: Value) -> Value:
        total = self.plus(a, b)
        assert total is not None
        return total

    def _or_zero(self, g: Value | None, like: Value) -> Value:
        return self.zero(adjoint_type(like.type)) if g is None else g

    def _iterations(self, op: For) -> Value:
        """The trip count of a loop; 0 or less if the loop does not run."""
        start, stop, step = map(self.forward_value, op.bounds)
        t = element(start.type)
        zero, one = self.const(0, t), self.const(1, t)
        if isinstance(step.owner, ConstantLike) and step.owner.value != 0:
            size = step.owner.value
            span = self.one(S.Sub, [stop, start] if size > 0 else [start, stop])
            if abs(size) == 1:
                return span
            full_iterations = self.one(S.FloorDiv, [self.one(S.Sub, [span, one]), self.const(abs(size), t)])
            return self.one(S.Add, [full_iterations, one])
        counts_up = self.one(S.Cmp, [step, zero], {"pred": "gt"})
        span = self.one(S.Sub, [stop, start])
        has_iterations = self.one(
            S.Select,
            [counts_up, *(self.one(S.Cmp, [start, stop], {"pred": p}) for p in ("lt", "gt"))],
        )
        span_minus_one = self.one(
            S.Select, [counts_up, self.one(S.Sub, [span, one]), self.one(S.Add, [span, one])]
        )
        iterations = self.one(S.Add, [self.one(S.Div, [span_minus_one, step]), one])
        return self.one(S.Select, [has_iterations, iterations, zero])


def _remaining(scope: GradientScope) -> Sums:
    """The remaining adjoint contributions of a scope, which are for values defined outside."""
    return {
        **{(value, True): x for value, x in scope.totals.items()},
        **{(value, False): x for value, x in scope.parts.items()},
    }


def _regions(op: Op) -> list[Region]:
    return [r for o in op.walk() for r in o.regions]
