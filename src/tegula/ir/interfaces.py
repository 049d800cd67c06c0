"""Op interfaces, on which passes are written instead of op classes: carried values, views, calls, accesses, matmuls."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tegula.dataclass import dataclass
from tegula.ir.fields import attr, body, operand, variadic
from tegula.ir.values import Access, Op, Region, Value
from tegula.types import MatType, TileType, Type, VecType, element_shape

if TYPE_CHECKING:
    from tegula.layout import Layout

Dimension = TypeVar("Dimension")


@dataclass(frozen=True, slots=True)
class Carried:
    """All values of one variable that an op with regions carries.

    `result`: its value after the op; `arguments`: in each region that takes the variable; `initial`: before the op,
    None for branches; `yielded`: at the end of each region that yields the variable."""

    result: Value
    arguments: tuple[Value, ...]
    initial: Value | None
    yielded: tuple[Value, ...]

    @property
    def defined_values(self) -> tuple[Value, ...]:
        """The values that the op itself defines."""
        return self.result, *self.arguments

    @property
    def sources(self) -> tuple[Value, ...]:
        """The values that the variable is set to: the initial value, if any, and the yielded values."""
        return self.yielded if self.initial is None else (self.initial, *self.yielded)

    @property
    def values(self) -> tuple[Value, ...]:
        """All values of the variable; the values that the op defines come first."""
        return *self.defined_values, *self.sources


class Carrier(Op):
    """An op whose regions yield values to its results: a loop or a branch. Attribute `after_return`: the location, if
    known, of the return that some lanes took before the op; absent if there is none."""

    __slots__ = ()
    after_return = attr(None)

    @property
    @abstractmethod
    def carried(self) -> list[Carried]:
        """For each result, the values of the same variable."""

    @property
    @abstractmethod
    def control_operands(self) -> list[Value]:
        """The operands that determine which regions run and how often: bounds and conditions."""

    @abstractmethod
    def erase(self, positions: Iterable[int]) -> None:
        """Remove results, by position, with the operands, arguments and yielded values of their variables. These
        results and arguments must have no uses."""


class BranchLike(Carrier):
    """A branch: one of its regions, which take no arguments, runs once."""

    __slots__ = ()

    @property
    def alternatives(self) -> list[Region]:
        """The regions, exactly one of which runs."""
        return self.regions

    @property
    def carried(self) -> list[Carried]:
        ends = [region.yielded for region in self.alternatives]
        return [Carried(r, (), None, tuple(end[k] for end in ends)) for k, r in enumerate(self.results)]

    def append(self, type: Type, name: str = "") -> Value:
        """Add a variable, and return its result. Before the kernel is verified, the caller appends the variable's value
        to the yielded values of each alternative."""
        self.results.append(Value(type, self, name))
        return self.results[-1]

    def erase(self, positions: Iterable[int]) -> None:
        erased = set(positions)
        self.results = _without_positions(self.results, erased)
        for region in self.alternatives:
            region.yielded = _without_positions(region.yielded, erased)


class ConstantLike(Op):
    """An op whose result is the number `value`, known at compile time."""

    __slots__ = ()

    if TYPE_CHECKING:
        value = attr()


class Composition(Op):
    """An op that makes a vector or matrix from its components."""

    __slots__ = ()

    def parts(self) -> list[Value] | None:
        """The components in row-major order, if all operands are scalars; else None."""
        raise NotImplementedError(self.NAME)


class ComponentAccess(Op):
    """An op that reads a component of a vector or matrix, or makes a vector or matrix with one component replaced: the
    second operand. The indices are the last operands."""

    __slots__ = ()
    REPLACES: ClassVar[bool] = False

    if TYPE_CHECKING:
        composite = operand()
        indices = variadic(index=True)

    def position(self, indices: Sequence[int]) -> int | None:
        """The row-major position of the component at constant indices. Out of bounds, a read takes the last component
        along the dimension, and a replacement has no effect: None."""
        position, t = 0, self.composite.type
        assert isinstance(t, VecType | MatType)
        for i, n in zip(indices, element_shape(t), strict=True):
            if not 0 <= i < n:
                if self.REPLACES:
                    return None
                i = n - 1
            position = position * n + i
        return position


class ConstantTable(Op):
    """An op that reads an element of a table of constants."""

    __slots__ = ()

    @property
    @abstractmethod
    def bounds(self) -> tuple[int, int] | None:
        """The least and the greatest element; None for numbers that are no integers."""

    @abstractmethod
    def read(self, indices: Sequence[int]) -> Any:
        """The element at constant indices."""


class TargetQuery(Op):
    """An op whose result, a bool, is known once the target of the compilation is known."""

    __slots__ = ()

    @property
    @abstractmethod
    def of_gpu(self) -> bool:
        """The result on GPUs; on CPUs the result is the opposite."""


class LoopLike(Carrier):
    """A loop that carries variables: `initial` are the values before the loop, `body` takes and yields the values of an
    iteration, and the final values are the results."""

    __slots__ = ()

    if TYPE_CHECKING:
        initial = variadic()
        body = body()

    @property
    def positions(self) -> range | None:
        """The values of the index in all iterations, if there is an index and they are known."""
        return None

    @property
    def unrolled(self) -> range | None:
        """The values of the index for which the body is to be unrolled, after all passes; None if the loop is not
        unrolled."""
        return None

    @property
    def headers(self) -> list[Region]:
        """The other regions, which run before the body in each iteration and take the same arguments."""
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
        """The initial value of each carried variable that the loop does not change, by the arguments and the result of
        the variable."""
        return {
            v: carried.initial
            for carried in self.carried
            if carried.initial is not None and carried.yielded[0] is carried.arguments[-1]
            for v in carried.defined_values
        }

    def append(self, initial: Value, name: str = "") -> Value:
        """Add a carried variable, and return its argument of the body. Before the kernel is verified, the caller
        appends the next value to `body.yielded`."""
        self.initial = [*self.initial, initial]
        for region in (*self.headers, self.body):
            region.add_argument(initial.type, name)
        self.results.append(Value(initial.type, self, name))
        return self.body.args[-1]

    def erase(self, positions: Iterable[int]) -> None:
        erased = set(positions)
        leading = len(self.body.args) - len(self.arguments)
        self.results = _without_positions(self.results, erased)
        self.initial = _without_positions(self.initial, erased)
        for region in (*self.headers, self.body):
            head = leading if region is self.body else 0
            region.args[head:] = _without_positions(region.args[head:], erased)
        self.body.yielded = _without_positions(self.body.yielded, erased)


def _without_positions(values: Sequence[Value], erased: set[int]) -> list[Value]:
    return [v for k, v in enumerate(values) if k not in erased]


class CallLike(Op):
    """A call: region `function` runs once, on the arguments, and yields the results. Functions of cooperative calls
    contain cooperative ops. A call may have other regions, adjoints, which do not run."""

    __slots__ = ()

    if TYPE_CHECKING:
        arguments = variadic()
        function = body()

    @property
    def integers_are_constant(self) -> bool:
        """Whether the declared adjoint, if any, implies that integers among the results do not depend on floats."""
        return False


class ArrayViewLike(Op):
    """An op whose result is a view of an array."""

    __slots__ = ()

    if TYPE_CHECKING:
        array = operand()


class ViewLike(Op):
    """An op whose result is a view of another object, `shown`. `SHOWS_PACKED`: whether elements of the object must be
    packed, as for a view of another shape, which has one stride for elements of several rows."""

    __slots__ = ()
    SHOWS_PACKED: ClassVar[bool] = False

    @property
    @abstractmethod
    def shown(self) -> Value:
        """The object that the result is a view of."""


class ReshapeLike(Op):
    """An op whose result has the elements of `tile` at other indices. `KEEPS_ORDER`: the row-major order of elements is
    the same."""

    __slots__ = ()
    KEEPS_ORDER: ClassVar[bool] = False

    if TYPE_CHECKING:
        tile = operand()

    @property
    @abstractmethod
    def is_identity(self) -> bool:
        """Whether every element keeps its index."""

    @abstractmethod
    def after(self, earlier: Op) -> Op | None:
        """The single op that is equivalent to an earlier op followed by this one; None if there is none."""

    @abstractmethod
    def carried(self, layout: Layout, inverse: bool = False) -> Layout | None:
        """The layout of the result for a layout of the tile, if each thread keeps its elements; with `inverse`, the
        layout of the tile for a layout of the result. None if the mapped layout is not a layout."""


@dataclass(frozen=True, slots=True)
class Line:
    """A part of a tile that has one index along some of the dimensions, and all of the others: a row, a column or an
    element. `at`: the indices by dimension; `keeps`: whether the part has these dimensions, with length 1."""

    tile: Value
    at: dict[int, Value]
    keeps: bool


class ActsOnLines(Op):
    """An op that is treated specially where threads hold whole lines of tiles in registers. READS_BY_INDEX: unless its
    result is a line, the op reads elements of a tile by index, which a buffer has to hold; EXCHANGES: threads exchange
    elements, so that a loop around the op is not unrolled for the sake of lines."""

    __slots__ = ()
    READS_BY_INDEX: ClassVar[bool] = False
    EXCHANGES: ClassVar[bool] = False

    @property
    def exchanges(self) -> bool:
        """Whether threads exchange more elements than a few shuffles can."""
        return self.EXCHANGES

    @property
    def line(self) -> Line | None:
        """The line that the op takes from a tile with several elements; None if the op takes none."""
        return None

    @property
    def reshape(self) -> Op | None:
        """A reshape with the same result, which is not in a region; None if there is none."""
        return None

    @property
    def operations(self) -> int:
        """The number of operations on each element of the result in code on registers."""
        return 0


def is_zero(value: Value) -> bool:
    """Whether a value is the constant 0."""
    return isinstance(value.owner, ConstantLike) and value.owner.value == 0


class ComparisonLike(Op):
    """A comparison of `a` with `b`; `pred`: eq, ne, lt, le, gt or ge."""

    __slots__ = ()

    if TYPE_CHECKING:
        a = operand()
        b = operand()
        pred = attr()


class AdditionLike(Op):
    """An op that may add a constant to one of its operands."""

    __slots__ = ()

    @abstractmethod
    def added_to(self, value: Value) -> int | None:
        """The integer constant that the op adds to an operand; None if the op is not such an addition."""


class Divisible(Op):
    """An op whose result can be computed in pieces along a dimension, each piece from pieces of the operands."""

    __slots__ = ()

    @abstractmethod
    def divided(self, dim: int) -> Sequence[tuple[Value, int]] | None:
        """The operands that are divided for pieces of the result along dimension `dim`, each with the dimension along
        which it is divided. None if the result cannot be divided along `dim`."""

    def resize(self, dim: int, length: int) -> None:
        """Change the length of the result along a dimension; the operands are resized separately."""
        tile = self.result.type
        assert isinstance(tile, TileType)
        shape = (*tile.shape[:dim], length, *tile.shape[dim + 1 :])
        self.result.type = TileType(tile.dtype, shape, tile.partial)
        if "shape" in self.attrs:
            self.attrs["shape"] = shape


class ElementAccess(Op):
    """An op by which each lane reads or changes one element of an array, a buffer or a tile."""

    __slots__ = ()

    if TYPE_CHECKING:
        indices = variadic()

    @property
    def target(self) -> Value:
        """The object whose element is accessed."""
        return self.operands[0]

    @target.setter
    def target(self, value: Value) -> None:
        self.operands[0] = value


def exchanged(values: Sequence[Dimension]) -> tuple[Dimension, ...]:
    """The values for the dimensions of a transposed tile: those for the last two are exchanged."""
    *outer, rows, columns = values
    return *outer, columns, rows


class TileAccess(Op):
    """An op that moves a tile between an array and registers or shared memory. `bounds_check`: elements are tested
    against the array's bounds; `aligned`: the user promises that the tile lies inside a dense array and starts at a
    multiple of 16 bytes."""

    __slots__ = ()
    bounds_check = attr(True)
    aligned = attr(False)

    if TYPE_CHECKING:
        array = operand()
        offset = variadic()

    @property
    def promises(self) -> dict[str, bool]:
        """The attributes for another access of the same elements."""
        return {"bounds_check": self.bounds_check, "aligned": self.aligned}

    def exchange(self, array: Value) -> None:
        """Access the transposed tile in the transpose of the array, `array`."""
        self.array, self.offset = array, exchanged(self.offset)

    @property
    def writes(self) -> bool:
        """Whether the op changes the array."""
        return any(e.kind is not Access.READ for e in self.effects())

    @property
    def held(self) -> Value | None:
        """The tile in registers that the op reads from the array, or writes to the array; None if the op moves no tile
        in registers."""
        return next((v for v in (*self.results, *self.operands) if isinstance(v.type, TileType)), None)


class LaneTile(Op):
    """An op between a tile and the elements that each lane holds. `distributed`: the tile."""

    __slots__ = ()

    @property
    def distributed(self) -> Value:
        """The tile whose elements the program distributes over lanes."""
        return next(v for v in (*self.results, *self.operands) if isinstance(v.type, TileType))


class ElementwiseTiles(Op):
    """An op whose tiles correspond to each other element by element, so that they share a layout. `PERMUTES`: the
    result for permuted tiles is the permuted result."""

    __slots__ = ()
    PERMUTES: ClassVar[bool] = False


class ScatteredAccess(ElementwiseTiles):
    """An op that accesses elements of an array at coordinates of their own. `where`: a tile of bool that selects
    elements; `at`: a tile of int64 coordinates for each dimension of the array. Elements outside of the array are
    dropped. All tiles of the op have one shape."""

    __slots__ = ()

    if TYPE_CHECKING:
        array = operand()
        where = operand()
        at = variadic()

    @property
    @abstractmethod
    def moved(self) -> Sequence[Value]:
        """The operands between the array and the selection: tiles that are written or compared with, or the value of
        elements that are not read."""


class AtomicUpdate(Op):
    """An op that updates elements of an array or a buffer, each atomically. `op`: the operation that combines an
    element with the op's operand; `exclusive`: no other block changes these elements."""

    __slots__ = ()
    exclusive = attr(False)

    if TYPE_CHECKING:
        op = attr()

    @property
    def combination(self) -> str:
        """The operation that combines an element with the op's operand; an op whose operation is not `op` overrides
        this property."""
        return self.op


class MemoryFence(Op):
    """An op that orders the accesses of the lane that runs the op, as other blocks see them. Accesses of arrays by
    cooperative ops stay on their side of the op."""

    __slots__ = ()


class StructureRead(Op):
    """An op that reads the memory of a spatial structure, which the host owns. DIFFERENTIABLE: whether a gradient flows
    to this memory."""

    __slots__ = ()
    DIFFERENTIABLE: ClassVar[bool] = False


class UnnamedUpdate(Op):
    """An op that adds to memory at an address that is not a parameter of the kernel. Any thread may add to any
    element."""

    __slots__ = ()


class MatmulLike(Divisible, ActsOnLines):
    """alpha * a @ b + beta * c of matrices in registers or shared memory. `wait`: the result is complete when the op
    ends; `unit`: the matrix unit that is selected for the op; `at_once`, `in_registers`: the unit's variant."""

    __slots__ = ()
    READS_BY_INDEX = True
    EXCHANGES = True
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

    def divided(self, dim: int) -> Sequence[tuple[Value, int]]:
        return [(self.sides[dim], dim), (self.c, dim)]

    def set_side(self, side: int, value: Value) -> None:
        """Replace the left operand (0) or the right operand (1) by a value."""
        self.sides = (value, self.b) if side == 0 else (self.a, value)


def constant_number(value: Value) -> Any:
    """The number of a constant; None for other values."""
    return value.owner.value if isinstance(value.owner, ConstantLike) else None


def root(value: Value) -> Value:
    """The object that a value is a view of, through any number of views; the value itself if it is not a view."""
    while isinstance(value.owner, ViewLike):
        value = value.owner.shown
    return value


class Synchronising(Op):
    """An op of a schedule, which synchronises or starts asynchronous work. `INSTRUCTIONS`: a regular expression that
    matches each PTX instruction that the op is lowered to, with names of fields in braces; empty if there are none."""

    __slots__ = ()
    INSTRUCTIONS: ClassVar[str] = ""
    SINGLE_THREAD: ClassVar[bool] = False

    @property
    def instructions(self) -> str:
        """The regular expression of the instructions that the op is lowered to, with its attributes filled in."""
        return re.sub(r"\{(\w+)\}", lambda name: str(getattr(self, name[1])), self.INSTRUCTIONS)

    @property
    def is_single_thread(self) -> bool:
        """Whether one thread acts for a warp, or one warp for the role."""
        return self.SINGLE_THREAD


def numbered(body: Region) -> dict[Synchronising, int]:
    """The number, in program order, of each op that is lowered to synchronising instructions. The generated code has
    this number next to the op's instructions."""
    ops = (op for op in body.walk() if isinstance(op, Synchronising) and op.instructions)
    return {op: k for k, op in enumerate(ops)}
