"""Structured control flow."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.fields import attr, body, operand, variadic
from tegula.ir import Region
from tegula.ops.base import TileOp, require, types
from tegula.types import Type, bool_


def _yields(region: Region) -> list[Type]:
    return [v.type for v in region.terminator.operands]


class Yield(TileOp):
    """Ends a region; its operands are the region's results."""

    __slots__ = ()
    NAME = "yield"
    values = variadic()

    def infer(self) -> Sequence[Type]:
        return []


class If(TileOp):
    """Operand: bool. Regions: then, else, without arguments. Results: what the taken region yields. Attribute `leaves`:
    one of them is for those that leave the loop or the function around it."""

    __slots__ = ()
    NAME = "if"
    condition = operand()
    then = body()
    orelse = body()
    leaves = attr(False)
    after_return = attr(None)

    def infer(self) -> Sequence[Type]:
        require(self.condition.type == bool_, f"a condition must be bool, got {self.condition.type}")
        then, other = self.then, self.orelse
        require(_yields(then) == _yields(other), "the branches yield different types")
        return _yields(then)


class For(TileOp):
    """Operands: start, stop, step (one integer type), then initial values. Region arguments: index, carried values;
    yields the carried values. The step is never 0; a negative one counts down. Results: the carried values."""

    __slots__ = ()
    NAME = "for"
    start = operand()
    stop = operand()
    step = operand()
    initial = variadic()
    body = body()
    stages = attr(1)
    asked = attr(False)
    specialize = attr(True)
    after_return = attr(None)

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
        require(_yields(body) == list(carried), "a loop yields other types than it carries")
        return carried


class While(TileOp):
    """Operands: initial values. Regions: condition (arguments: carried values; yields one bool) and body (the same
    arguments; yields the carried values). Results: the carried values when the condition fails."""

    __slots__ = ()
    NAME = "while"
    initial = variadic()
    condition = body()
    body = body()
    after_return = attr(None)

    def infer(self) -> Sequence[Type]:
        condition, body = self.condition, self.body
        for region in (condition, body):
            require(
                types(region.args) == types(self.initial),
                "loop arguments do not match the initial values",
            )
        require(_yields(condition) == [bool_], "a loop's condition must be bool")
        require(_yields(body) == types(self.initial), "a loop yields other types than it carries")
        return types(self.initial)


def is_condition(region: Region) -> bool:
    """Whether a region decides on another round of a `while`, whose body gets the same values."""
    return isinstance(region.parent, While) and region is region.parent.regions[0]
