"""Structured control flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from tegula.ir import BranchLike, LoopLike, Op, Region, Value
from tegula.ir.fields import attr, body, operand, variadic
from tegula.ops.base import require, types
from tegula.ops.scalar import Const
from tegula.types import Type, bool_


def _yields(region: Region) -> list[Type]:
    return types(region.yielded)


class Yield(Op):
    """Ends a region; its operands are the region's results."""

    __slots__ = ()
    NAME = "yield"
    values = variadic()

    def infer(self) -> Sequence[Type]:
        return []


class If(BranchLike):
    """A branch. Operand: a bool. Regions: then and else, without arguments. Results: the values that the executed
    region yields. Attribute `leaves`: one region is executed by lanes that leave the enclosing loop or function."""

    __slots__ = ()
    NAME = "if"
    condition = operand()
    then = body()
    orelse = body()
    leaves = attr(False)

    @property
    def control_operands(self) -> list[Value]:
        return [self.condition]

    def infer(self) -> Sequence[Type]:
        require(self.condition.type == bool_, f"a condition must be bool, got {self.condition.type}")
        then, other = self.then, self.orelse
        require(_yields(then) == _yields(other), "the branches yield different types")
        return _yields(then)


def branches(op: object) -> TypeGuard[If]:
    """Whether an op is a branch on one condition."""
    return isinstance(op, If)


class For(LoopLike):
    """A counted loop. Operands: start, stop, step (one integer type), then initial values. Arguments of the region: the
    index and the carried values; the region yields the carried values. The step is not 0; a negative step counts down.
    Results: the carried values. Attributes: `unroll`: the loop is unrolled after all passes; `rolled`: the loop is
    never unrolled."""

    __slots__ = ()
    NAME = "for"
    start = operand()
    stop = operand()
    step = operand()
    initial = variadic()
    body = body()
    stages = attr(1)
    requested = attr(False)
    specialize = attr(True)
    unroll = attr(False)
    rolled = attr(False)

    @property
    def unrolled(self) -> range | None:
        return self.positions if self.unroll else None

    @property
    def index(self) -> Value:
        """The index in the body: start, start + step, and so on."""
        index, *_ = self.body.args
        return index

    @property
    def arguments(self) -> list[Value]:
        _, *carried = self.body.args
        return carried

    @property
    def bounds(self) -> tuple[Value, Value, Value]:
        """The start, stop and step."""
        return self.start, self.stop, self.step

    @property
    def positions(self) -> range | None:
        """The values of the index in all iterations; None unless the bounds are constants."""
        known = [v.owner.value for v in self.bounds if isinstance(v.owner, Const)]
        return range(*known) if len(known) == 3 and known[2] else None

    @property
    def control_operands(self) -> list[Value]:
        return [*self.bounds]

    def infer(self) -> Sequence[Type]:
        start, stop, step = self.start.type, self.stop.type, self.step.type
        carried = types(self.initial)
        require(
            start == stop == step and getattr(start, "is_int", False),
            "loop bounds must be of one integer type",
        )
        body = self.body
        require(
            [a.type for a in body.args] == [start, *carried], "loop arguments do not match the initial values"
        )
        require(_yields(body) == list(carried), "a loop must yield the types that it carries")
        return carried


def counted(op: object) -> TypeGuard[For]:
    """Whether an op is a loop with a trip count known on entry."""
    return isinstance(op, For)


class While(LoopLike):
    """A loop with a condition. Operands: initial values. Regions: condition (arguments: carried values; yields one
    bool) and body (the same arguments; yields the carried values). Results: the carried values when the condition is
    false."""

    __slots__ = ()
    NAME = "while"
    initial = variadic()
    condition = body()
    body = body()

    @property
    def headers(self) -> list[Region]:
        return [self.condition]

    @property
    def control_operands(self) -> list[Value]:
        return self.condition.yielded

    def infer(self) -> Sequence[Type]:
        condition, body = self.condition, self.body
        for region in (condition, body):
            require(
                types(region.args) == types(self.initial),
                "loop arguments do not match the initial values",
            )
        require(_yields(condition) == [bool_], "a loop's condition must be bool")
        require(_yields(body) == types(self.initial), "a loop must yield the types that it carries")
        return types(self.initial)


def conditional(op: object) -> TypeGuard[While]:
    """Whether an op is a loop with a condition."""
    return isinstance(op, While)


def is_condition(region: Region) -> bool:
    """Whether a region is the condition of a `while`."""
    return isinstance(region.parent, While) and region is region.parent.condition
