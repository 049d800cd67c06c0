"""Declarations, by name, of an op's operands, attributes, regions and results on its class.

Storage remains the lists of `ir.Op`; a declared name reads and assigns its entry of these lists. The declarations
determine the properties that `Op` checks and reports: the number of operands, the operands that are per lane, the
operands that are indices, and the effects on the memory of each operand.

    class BufSet(Op):
        NAME = "buf.set"
        buffer = operand(WRITE)
        value = operand()
        indices = variadic(index=True)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, overload

from tegula.ir.values import Access, Effect, Op, Region, Value

READ, WRITE, ATOMIC = Access.READ, Access.WRITE, Access.ATOMIC
IO, ISSUE, ARRIVE = Access.IO, Access.ISSUE, Access.ARRIVE
"""The effects of ops on memory, for declarations."""
MISSING: Any = object()
"""The default of a required attribute, which every op of the class has."""


class Field:
    """A declared name of an op's class. `name` is set when the class is created."""

    name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name


class operand(Field):
    """The declaration of an operand. `effects`: the op's effects on its memory; `lane`: a cooperative op takes the
    operand from each lane; `index`: the operand is an index or an offset, so that no gradient flows through it."""

    def __init__(self, *effects: Access, lane: bool = False, index: bool = False) -> None:
        self.effects = effects
        self.lane = lane
        self.index = index
        self.at = 0

    if TYPE_CHECKING:

        @overload
        def __get__(self, op: None, owner: type | None = None) -> operand: ...
        @overload
        def __get__(self, op: Op, owner: type | None = None) -> Value: ...

    def __get__(self, op: Op | None, owner: type | None = None) -> Any:
        return self if op is None else op.operands[self.at]

    def __set__(self, op: Op, value: Value) -> None:
        op.operands[self.at] = value


class optional(operand):
    """The last operand, which an op may omit; the value is then None."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, op: None, owner: type | None = None) -> optional: ...
        @overload
        def __get__(self, op: Op, owner: type | None = None) -> Value | None: ...

    def __get__(self, op: Op | None, owner: type | None = None) -> Any:
        if op is None:
            return self
        return op.operands[self.at] if len(op.operands) > self.at else None

    def __set__(self, op: Op, value: Value | None) -> None:
        op.operands[self.at :] = [] if value is None else [value]


class variadic(operand):
    """A list of all operands that no other name declares. An op has at most one variadic name."""

    after = 0
    """The number of operands of the variadic name."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, op: None, owner: type | None = None) -> variadic: ...
        @overload
        def __get__(self, op: Op, owner: type | None = None) -> list[Value]: ...

    def __get__(self, op: Op | None, owner: type | None = None) -> Any:
        return self if op is None else op.operands[self.at : len(op.operands) - self.after]

    def __set__(self, op: Op, values: Sequence[Value]) -> None:
        op.operands[self.at : len(op.operands) - self.after] = values


class attr(Field):
    """An attribute. An op without the attribute has the value `default`; without a default the attribute is required.
    Deleting the attribute restores the default, also if the op does not have it."""

    def __init__(self, default: Any = MISSING) -> None:
        self.default = default

    if TYPE_CHECKING:

        @overload
        def __get__(self, op: None, owner: type | None = None) -> attr: ...
        @overload
        def __get__(self, op: Op, owner: type | None = None) -> Any: ...

    def __get__(self, op: Op | None, owner: type | None = None) -> Any:
        if op is None:
            return self
        return op.attrs[self.name] if self.default is MISSING else op.attrs.get(self.name, self.default)

    def __set__(self, op: Op, value: Any) -> None:
        op.attrs[self.name] = value

    def __delete__(self, op: Op) -> None:
        op.attrs.pop(self.name, None)


class body(Field):
    """The declaration of a region."""

    at = 0

    if TYPE_CHECKING:

        @overload
        def __get__(self, op: None, owner: type | None = None) -> body: ...
        @overload
        def __get__(self, op: Op, owner: type | None = None) -> Region: ...

    def __get__(self, op: Op | None, owner: type | None = None) -> Any:
        return self if op is None else op.regions[self.at]

    def __set__(self, op: Op, region: Region) -> None:
        region.parent = op
        op.regions[self.at] = region


class bodies(Field):
    """A list of all regions of the op."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, op: None, owner: type | None = None) -> bodies: ...
        @overload
        def __get__(self, op: Op, owner: type | None = None) -> list[Region]: ...

    def __get__(self, op: Op | None, owner: type | None = None) -> Any:
        return self if op is None else op.regions

    def __set__(self, op: Op, regions: Sequence[Region]) -> None:
        for region in regions:
            region.parent = op
        op.regions = list(regions)


class output(Field):
    """The declaration of one result of an op with several results, or of a result that is an object on which the op has
    effects."""

    def __init__(self, *effects: Access) -> None:
        self.effects = effects
        self.at = 0

    if TYPE_CHECKING:

        @overload
        def __get__(self, op: None, owner: type | None = None) -> output: ...
        @overload
        def __get__(self, op: Op, owner: type | None = None) -> Value: ...

    def __get__(self, op: Op | None, owner: type | None = None) -> Any:
        return self if op is None else op.results[self.at]


class Signature:
    """The declared names of a class, in order. `min_operands`, `max_operands`: the limits of the number of operands of
    an op; no maximum if one is variadic."""

    __slots__ = (
        "attrs",
        "bodies",
        "effects",
        "first_index",
        "lanes",
        "max_operands",
        "min_operands",
        "operands",
        "outputs",
    )

    def __init__(self, cls: type) -> None:
        fields = _fields(cls)
        self.operands = [f for f in fields if isinstance(f, operand)]
        self.attrs = {f.name: f for f in fields if isinstance(f, attr)}
        self.bodies = [f for f in fields if isinstance(f, body)]
        self.outputs = [f for f in fields if isinstance(f, output)]
        optional_positions = [k for k, f in enumerate(self.operands) if isinstance(f, variadic | optional)]
        is_variadic = bool(optional_positions) and isinstance(self.operands[optional_positions[0]], variadic)
        if len(optional_positions) > 1 or (
            optional_positions and not is_variadic and optional_positions[0] + 1 < len(self.operands)
        ):
            raise TypeError(f"{cls.__name__}: one variadic operand, or one optional one at the end")
        self.min_operands = len(self.operands) - len(optional_positions)
        self.max_operands = None if is_variadic else len(self.operands)
        for k, f in enumerate(self.operands):
            follows = is_variadic and k > optional_positions[0]
            f.at = k - len(self.operands) if follows else k
            if isinstance(f, variadic):
                f.after = len(self.operands) - k - 1
        for k, region in enumerate(self.bodies):
            region.at = k
        for k, result in enumerate(self.outputs):
            result.at = k
        self.lanes = tuple(k for k, f in enumerate(self.operands) if f.lane)
        self.first_index = next((k for k, f in enumerate(self.operands) if f.index), None)
        self.effects = [f for f in (*self.operands, *self.outputs) if f.effects]

    def is_index(self, k: int) -> bool:
        """Whether operand k is declared with `index`."""
        return self.first_index is not None and k >= self.first_index

    def effects_of(self, op: Op) -> Iterator[Effect]:
        """The declared effects of an op, operands first."""
        for f in self.effects:
            values: Any = f.__get__(op)
            for value in values if isinstance(f, variadic) else (values,):
                yield from (Effect(kind, value) for kind in f.effects if value is not None)

    def fault(self, op: Op) -> str:
        """The reason why an op violates its declaration; empty if the op is valid."""
        count = len(op.operands)
        if count < self.min_operands or (self.max_operands is not None and count > self.max_operands):
            return f"the op takes {_operand_names(self.operands)}, got {count} operands"
        unknown = [name for name in op.attrs if name not in self.attrs]
        if unknown:
            return f"the op has no attribute {', '.join(unknown)}"
        missing = [name for name, f in self.attrs.items() if f.default is MISSING and name not in op.attrs]
        return f"the op lacks the attribute {', '.join(missing)}" if missing else ""


def _operand_names(operands: Sequence[operand]) -> str:
    return ", ".join(f"*{f.name}" if isinstance(f, variadic) else f.name for f in operands) or "no operands"


def _fields(cls: type) -> list[Field]:
    """The fields of a class and its bases, fields of the bases first; a name counts once."""
    fields_by_name: dict[str, Field] = {}
    for base in reversed(cls.__mro__):
        fields_by_name |= _own_fields(base)
    return list(fields_by_name.values())


@cache
def _own_fields(cls: type) -> dict[str, Field]:
    return {name: f for name, f in vars(cls).items() if isinstance(f, Field)}
