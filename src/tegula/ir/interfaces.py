"""What passes ask of an op instead of its class: how it hands values on, and what it shows of another object."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from tegula.dataclass import dataclass
from tegula.ir.fields import attr, body, operand, variadic
from tegula.ir.values import Op, Region, Value
from tegula.types import Type

if TYPE_CHECKING:
    from tegula.layout import Layout


@dataclass(frozen=True, slots=True)
class Carried:
    """All values that stand for one variable that an op with regions hands on.

    `result`: after the op; `arguments`: in each region that takes the variable; `initial`: before the op, None for
    branches; `yielded`: at the end of each region that hands the variable on."""

    result: Value
    arguments: tuple[Value, ...]
    initial: Value | None
    yielded: tuple[Value, ...]

    @property
    def own(self) -> tuple[Value, ...]:
        """Those that the op itself defines."""
        return self.result, *self.arguments

    @property
    def sources(self) -> tuple[Value, ...]:
        """Those that the variable gets: the initial one, those yielded."""
        return self.yielded if self.initial is None else (self.initial, *self.yielded)

    @property
    def values(self) -> tuple[Value, ...]:
        """The values that are carried in, own ones first."""
        return *self.own, *self.sources


class Carrier(Op):
    """An op whose regions hand values on to its results: a loop or a branch. Attribute `after_return`, if there: it is
    what follows a return that some lanes took, and where that stands, if known."""

    __slots__ = ()
    after_return = attr(None)

    @property
    @abstractmethod
    def carried(self) -> list[Carried]:
        """For each result, the values that stand for the same variable."""

    @property
    @abstractmethod
    def decisive(self) -> list[Value]:
        """What decides which regions run and how often: bounds and conditions."""

    @abstractmethod
    def erase(self, positions: Iterable[int]) -> None:
        """Remove results, by position, with all that carries them. Nothing may use these any more."""


class BranchLike(Carrier):
    """One of the regions runs, once. They take no arguments."""

    __slots__ = ()

    @property
    def alternatives(self) -> list[Region]:
        """The regions of which one runs."""
        return self.regions

    @property
    def carried(self) -> list[Carried]:
        ends = [region.yielded for region in self.alternatives]
        return [Carried(r, (), None, tuple(end[k] for end in ends)) for k, r in enumerate(self.results)]

    def append(self, type: Type, name: str = "") -> Value:
        """Hand on one variable more: the result that stands for it. What each alternative yields must grow by its value
        before the kernel is verified."""
        self.results.append(Value(type, self, name))
        return self.results[-1]

    def erase(self, positions: Iterable[int]) -> None:
        gone = set(positions)
        self.results = _kept(self.results, gone)
        for region in self.alternatives:
            region.yielded = _kept(region.yielded, gone)


class ConstantLike(Op):
    """Its result is a number known when the kernel is compiled: `value`."""

    __slots__ = ()

    if TYPE_CHECKING:
        value = attr()


class LoopLike(Carrier):
    """A loop: `initial` values enter it, `body` takes and yields them, and the last ones are its results."""

    __slots__ = ()

    if TYPE_CHECKING:
        initial = variadic()
        body = body()

    @property
    def unrolled(self) -> range | None:
        """The positions for each of which the body is to be written out, once all passes have seen it."""
        return None

    @property
    def headers(self) -> list[Region]:
        """Other regions that run in each iteration, before the body, and take what the body takes."""
        return []

    @property
    def arguments(self) -> list[Value]:
        """The carried variables in the body."""
        return self.body.args

    @property
    def entries(self) -> list[list[Value]]:
        """The carried variables in each region that takes them: headers first, the body last."""
        return [*(header.args for header in self.headers), self.arguments]

    @property
    def carried(self) -> list[Carried]:
        insides = self.entries
        initial, ends = self.initial, self.body.yielded
        return [
            Carried(r, tuple(args[k] for args in insides), initial[k], (ends[k],))
            for k, r in enumerate(self.results)
        ]

    def invariants(self) -> dict[Value, Value]:
        """What the loop carries without changing it, and its result: the initial value of each."""
        return {
            v: one.initial
            for one in self.carried
            if one.initial is not None and one.yielded[0] is one.arguments[-1]
            for v in one.own
        }

    def append(self, initial: Value, name: str = "") -> Value:
        """Carry one variable more: the argument of the body that stands for it. `body.yielded` must grow by its next
        value before the kernel is verified."""
        self.initial = [*self.initial, initial]
        for region in (*self.headers, self.body):
            region.add_argument(initial.type, name)
        self.results.append(Value(initial.type, self, name))
        return self.body.args[-1]

    def erase(self, positions: Iterable[int]) -> None:
        gone = set(positions)
        leading = len(self.body.args) - len(self.arguments)
        self.results = _kept(self.results, gone)
        self.initial = _kept(self.initial, gone)
        for region in (*self.headers, self.body):
            head = leading if region is self.body else 0
            region.args[head:] = _kept(region.args[head:], gone)
        self.body.yielded = _kept(self.body.yielded, gone)


def _kept(values: Sequence[Value], gone: set[int]) -> list[Value]:
    return [v for k, v in enumerate(values) if k not in gone]


class CallLike(Op):
    """Runs its function once, on its arguments; its results are what that yields. Functions of cooperative calls hold
    cooperative ops. They may have other regions, which do not run: adjoints."""

    __slots__ = ()

    if TYPE_CHECKING:
        arguments = variadic()
        function = body()


class ViewLike(Op):
    """Its result shows elements of another object, `shown`, without a copy."""

    __slots__ = ()

    @property
    @abstractmethod
    def shown(self) -> Value:
        """The object whose elements the result shows."""


class Relabelling(Op):
    """Its result has the elements of `tile` under other indices; `KEEPS_ORDER`: in the same row-major order."""

    __slots__ = ()
    KEEPS_ORDER: ClassVar[bool] = False

    if TYPE_CHECKING:
        tile = operand()

    @property
    @abstractmethod
    def changes_nothing(self) -> bool:
        """Whether the op leaves the index of every element as it is."""

    @abstractmethod
    def after(self, earlier: Op) -> Op | None:
        """The op in the place of an earlier one and this one; None where there is none."""

    @abstractmethod
    def carried(self, layout: Layout, back: bool = False) -> Layout | None:
        """What a layout of the tile is for the result where each thread keeps its elements, or, `back`, the other way;
        None where that is no layout."""


class ElementAccess(Op):
    """Reads or changes one element of an array, a buffer or a tile, in each lane for itself."""

    __slots__ = ()

    if TYPE_CHECKING:
        indices = variadic()

    @property
    def target(self) -> Value:
        """The object whose element it is."""
        return self.operands[0]


class TileAccess(Op):
    """Moves a tile between an array and registers or shared memory. `bounds_check`: what lies outside the array is
    looked for; `aligned`: the user promises that the tile lies inside a dense array and starts at a multiple of 16
    bytes."""

    __slots__ = ()
    bounds_check = attr(True)
    aligned = attr(False)

    if TYPE_CHECKING:
        array = operand()
        offset = variadic()

    @property
    def promises(self) -> dict[str, bool]:
        """The attributes that another access of the same elements gets."""
        return {"bounds_check": self.bounds_check, "aligned": self.aligned}


class AtomicUpdate(Op):
    """Changes elements of an array or a buffer, each at once. `op`: how it combines an element with what it brings."""

    __slots__ = ()

    if TYPE_CHECKING:
        op = attr()

    @property
    def combination(self) -> str:
        """How it combines an element with what it brings; what combines in no way of `op` says its own."""
        return self.op


class MatmulLike(Op):
    """alpha * a @ b + beta * c of matrices in registers or shared memory. `wait`: the result is there when the op has
    ended; `unit`: the matrix unit that does it, once that is decided; `at_once`, `in_registers`: how."""

    __slots__ = ()
    a = operand()
    b = operand()
    c = operand()
    alpha = operand()
    beta = operand()
    precision = attr("default")
    wait = attr(True)
    unit = attr("")
    at_once = attr(False)
    in_registers = attr(None)

    @property
    def sides(self) -> tuple[Value, Value]:
        """The left and the right operand."""
        return self.a, self.b

    @sides.setter
    def sides(self, sides: tuple[Value, Value]) -> None:
        self.a, self.b = sides

    def set_side(self, side: int, value: Value) -> None:
        """Put a value in the place of the left operand (0) or the right one (1)."""
        self.sides = (value, self.b) if side == 0 else (self.a, value)


def root(value: Value) -> Value:
    """The object that a view shows, through all views of views."""
    while isinstance(value.owner, ViewLike):
        value = value.owner.shown
    return value


class Synchronising(Op):
    """An op of a schedule: it synchronises, or starts what ends by itself. `INSTRUCTIONS`: a pattern that each
    instruction matches that it becomes in PTX, with names of fields in braces; empty where that is none."""

    __slots__ = ()
    INSTRUCTIONS: ClassVar[str] = ""
    BY_ONE: ClassVar[bool] = False

    @property
    def instructions(self) -> str:
        """The regular expression of the instructions that the op is lowered to, with its attributes filled in."""
        return re.sub(r"\{(\w+)\}", lambda name: str(getattr(self, name[1])), self.INSTRUCTIONS)

    @property
    def is_by_one(self) -> bool:
        """Whether one thread acts for a warp, or one warp for the role, while the others pass by."""
        return self.BY_ONE


def numbered(body: Region) -> dict[Synchronising, int]:
    """The ops that become such instructions, in program order. The number of each stands next to its instructions."""
    ops = (op for op in body.walk() if isinstance(op, Synchronising) and op.instructions)
    return {op: k for k, op in enumerate(ops)}
