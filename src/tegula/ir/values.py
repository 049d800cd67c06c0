"""Values, ops and regions, the data structures of the IR. Control flow is structured; every region is a single block.

An op's class defines the op (see `ops/`), with the names of its operands and attributes from `fields`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from tegula.dataclass import dataclass
from tegula.source import UNKNOWN, Location
from tegula.types import Type

if TYPE_CHECKING:
    from tegula.ir.fields import Signature

AnyOp = TypeVar("AnyOp", bound="Op")


class Value:
    """A result of an op or an argument of a region. `name` is the user's name for it, if any."""

    __slots__ = ("name", "owner", "type")

    def __init__(self, type: Type, owner: Op | Region | None = None, name: str = "") -> None:
        self.type = type
        self.owner = owner
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name or 'a value'} of type {self.type}"


class Access(StrEnum):
    """The kinds of accesses by which an op may affect memory."""

    READ = "read"
    """The op's result depends on the content."""
    WRITE = "write"
    """The op changes the content."""
    ATOMIC = "atomic"
    """The op reads and changes each element in one step, ordered with other atomic accesses."""
    IO = "io"
    """The op is observed outside the kernel or by other threads, and keeps its order with other such ops."""
    ISSUE = "issue"
    """The op starts an asynchronous write, which is complete after an `ARRIVE` on the same memory."""
    ARRIVE = "arrive"
    """Earlier asynchronous writes are complete after the op."""


@dataclass(frozen=True, slots=True)
class Effect:
    """An access of an op to memory. `value`: the array, buffer or stack; None for effects outside of memory."""

    kind: str
    value: Value | None = None


TYPES: dict[Type, Type] = {}
"""One object for each type of a result: the verifier infers the types of ops with identical objects as types once."""
REGISTRY: dict[str, type[Op]] = {}
"""The classes of ops by NAME."""


class TypeRule(Exception):
    """Raised by `infer` and `build` for operands that an op does not accept. `error`: the name of a class of errors.py;
    `culprit`: the operand that the message points at; `expected`: the type or annotation that the last operand does not
    match; `otherwise`: the help text if no conversion would help. The frontend sets `written`, the source text of each
    operand."""

    def __init__(
        self,
        message: str,
        help: str = "",
        error: str = "TypeMismatch",
        *,
        culprit: object = None,
        expected: object = None,
        otherwise: str = "",
        **fields: Any,
    ) -> None:
        super().__init__(message)
        self.help = help
        self.error = error
        self.culprit = culprit
        self.expected = expected
        self.otherwise = otherwise
        self.fields = fields or {"what": message}
        self.written: Sequence[tuple[ast.expr, Any]] = ()


class Op:
    """Base of all ops. Operands, attributes and regions are named by declarations of `fields`, and stored here in the
    order of declaration.

    COOPERATIVE: executed by all lanes of the group together; operands declared `lane` are taken per lane, other scalar
    operands are group operands (lane 0's value is used). PURE: no effects and no lane identity: equal operands give
    equal results. VARYING: the result differs between lanes even if the operands do not. EACH_LANE: executed by every
    lane, even if all lanes compute the same value, so that each lane gets its own part of a gradient. ISOLATED: regions
    use no values from outside and, unless the op is a call, contain no cooperative ops. NONDIFFERENTIABLE: the reason
    why no gradient passes; "" for ops with an adjoint. OBSERVED: the op keeps its order among observable ops, whatever
    its other effects on memory. SIDE_BY_SIDE: a cooperative op that runs the same instructions in all blocks, and uses
    no more lanes than the layouts of its tiles, so that several blocks of a warp may run it together. HINT: the op
    changes no value, and stays for the target."""

    __slots__ = ("attrs", "loc", "operands", "parent", "regions", "results")
    NAME: ClassVar[str] = ""
    signature: ClassVar[Signature]
    COOPERATIVE: ClassVar[bool] = False
    PURE: ClassVar[bool] = True
    VARYING: ClassVar[bool] = False
    EACH_LANE: ClassVar[bool] = False
    ISOLATED: ClassVar[bool] = False
    NONDIFFERENTIABLE: ClassVar[str] = ""
    OBSERVED: ClassVar[bool] = False
    SIDE_BY_SIDE: ClassVar[bool] = False
    HINT: ClassVar[bool] = False

    def __init__(
        self,
        operands: Sequence[Value] = (),
        result_types: Sequence[Type] = (),
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
        loc: Location = UNKNOWN,
    ) -> None:
        self.operands: list[Value] = list(operands)
        self.results: list[Value] = [Value(t, self) for t in result_types]
        self.attrs: dict[str, Any] = dict(attrs or {})
        self.regions: list[Region] = list(regions)
        self.loc = loc
        self.parent: Region | None = None
        for region in self.regions:
            region.parent = self

    def __init_subclass__(cls, **kwargs: Any) -> None:
        from tegula.ir.fields import Signature

        super().__init_subclass__(**kwargs)
        cls.signature = Signature(cls)
        if cls.NAME and REGISTRY.setdefault(cls.NAME, cls) is not cls:
            raise TypeError(f"two classes of ops are called {cls.NAME}")

    @classmethod
    def typed(
        cls,
        operands: Sequence[Value] = (),
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
        loc: Location = UNKNOWN,
    ) -> Self:
        """An op with the result types of `infer`; raises TypeRule for operands that do not fit."""
        op = cls(operands, (), attrs, regions, loc)
        op.results = [Value(TYPES.setdefault(t, t), op) for t in op.infer()]
        return op

    @property
    def result(self) -> Value:
        """The only result of the op."""
        assert len(self.results) == 1, f"{self.NAME} has {len(self.results)} results"
        return self.results[0]

    def infer(self) -> Sequence[Type]:
        """The result types; TypeRule if operands or attributes do not fit. The result types depend on attributes, and
        on the types of operands and of arguments and yielded values of regions."""
        raise NotImplementedError(self.NAME)

    def effects(self) -> Sequence[Effect]:
        """The op's own accesses to memory, as declared for its operands and results, without accesses of nested ops."""
        declared = self.signature.effects_of(self) if self.signature.effects else ()
        return (*declared, Effect(Access.IO)) if self.OBSERVED else tuple(declared)

    def adjoint(self, b: Any, *grads: Any) -> Sequence[Value | None]:
        """The increment of each operand's adjoint, given the adjoints of the results (None: zero). Called for ops on
        the path of a gradient. For ops that write memory the gradient of the written elements is in `b.shadow(...)`."""
        return b.refuse(self, "the operation has no derivative")

    def map_operands(self, change: Callable[[Value], Value]) -> None:
        """Replace every operand v by `change(v)`."""
        self.operands = [change(v) for v in self.operands]

    def set_operand(self, at: int, value: Value) -> None:
        """Replace the operand at a position, as `uses` counts them. Code that knows the op's class assigns to a name
        instead."""
        self.operands[at] = value

    def substitute(self, mapping: Mapping[Value, Value]) -> None:
        """Replace every operand v that has an entry by mapping[v]."""
        if not mapping.keys().isdisjoint(self.operands):
            self.operands = [mapping.get(v, v) for v in self.operands]

    def identity(self) -> tuple[object, ...]:
        """The class of the op, with the names and identities of its attributes: equal for ops of one class with the
        same objects as attributes, as long as these stay alive."""
        return (type(self), *self.attrs, *map(id, self.attrs.values()))

    def is_like(self, other: Op) -> bool:
        """Whether another op is of the same class and has the same attributes."""
        return type(self) is type(other) and self.attrs == other.attrs

    def copy(self, operands: list[Value], regions: list[Region]) -> Self:
        """A copy of the op without a parent, with other operands and regions; its results have the same types and
        names."""
        copy = object.__new__(type(self))
        copy.operands, copy.regions = operands, regions
        copy.results = [Value(v.type, copy, v.name) for v in self.results]
        copy.attrs, copy.loc, copy.parent = self.attrs.copy(), self.loc, None
        for region in regions:
            region.parent = copy
        return copy

    def walk(self) -> Iterator[Op]:
        """This op and all ops nested in it, in program order."""
        yield self
        yield from _walk(self.regions)

    def __repr__(self) -> str:
        return f"<{self.NAME} at {self.loc}>"


class Region:
    """A single block: arguments and a list of ops, the last of which is `yield`."""

    __slots__ = ("args", "ops", "parent")

    def __init__(self, arg_types: Sequence[Type] = ()) -> None:
        self.args: list[Value] = [Value(t, self) for t in arg_types]
        self.ops: list[Op] = []
        self.parent: Op | None = None

    def append(self, op: AnyOp) -> AnyOp:
        """Append an op to the region, and return the op."""
        op.parent = self
        self.ops.append(op)
        return op

    def add_argument(self, type: Type, name: str = "", at: int | None = None) -> Value:
        """A new argument: the last one, or at position `at`."""
        argument = Value(type, self, name)
        self.args.insert(len(self.args) if at is None else at, argument)
        return argument

    def set_arguments(self, arguments: Sequence[Value]) -> None:
        """Replace the region's arguments by arguments that were created for the region."""
        self.args = list(arguments)

    def walk(self) -> Iterator[Op]:
        """All ops in the region and nested regions, in program order."""
        return _walk([self])

    @property
    def terminator(self) -> Op:
        """The `yield` that ends the region."""
        return self.ops[-1]

    @property
    def yielded(self) -> list[Value]:
        """The values that the region's terminator yields."""
        return self.ops[-1].operands

    @yielded.setter
    def yielded(self, values: Sequence[Value]) -> None:
        self.ops[-1].operands = list(values)


def _walk(regions: Sequence[Region]) -> Iterator[Op]:
    """The ops of regions and of nested regions. Ops that were added to a region before the walk reaches it are
    included."""
    pending = [_ops(regions)]
    while pending:
        for op in pending[-1]:
            yield op
            if op.regions:
                pending.append(_ops(op.regions))
                break
        else:
            pending.pop()


def _ops(regions: Sequence[Region]) -> Iterator[Op]:
    return chain.from_iterable(list(region.ops) for region in regions)


class Builder:
    """Appends ops to a region. `loc`: the location of every op that is built."""

    __slots__ = ("loc", "region")

    def __init__(self, region: Region, loc: Location = UNKNOWN) -> None:
        self.region = region
        self.loc = loc

    def insert(self, op: AnyOp) -> AnyOp:
        """Append an op to the current region, with the current location, and return the op."""
        if op.loc is UNKNOWN:
            op.loc = self.loc
        return self.region.append(op)
