"""The state of the tracer at a point of the program: bindings, frames, regions, errors."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeGuard

from tegula import errors as E
from tegula.dataclass import dataclass, field
from tegula.errors import CompileError
from tegula.ir import ConstantLike, Region, TypeRule, Value, root
from tegula.lang import explain
from tegula.lang.aliases import JoinedObjects
from tegula.lang.flow import Flow
from tegula.lang.thread_arrays import kind_of
from tegula.ops.buffer import BufNew
from tegula.ops.builder import DESCRIPTIONS, LITERALS
from tegula.ops.indexing import KernelBuilder
from tegula.ops.structs import Fields, with_parts
from tegula.source import FunctionSource, Location
from tegula.types import (
    ArrayType,
    BufType,
    DType,
    MbarrierType,
    NamedBarrierType,
    PipeType,
    StackType,
    TileType,
    is_element,
)

Binding: TypeAlias = Any
"""The binding of a name: a Value, a literal, a tuple, a dtype, a function, a module, or one of the following marks."""

# The flags that record whether the path has left a loop body, a loop or the function.
RETURN, BREAK, CONTINUE, RESULT = "%return", "%break", "%continue", "%result"
FLAGS = (RETURN, BREAK, CONTINUE)


HANDLES = (ArrayType, StackType, PipeType, MbarrierType, NamedBarrierType)


class Reported(Exception):
    """Raised to abandon a statement because of an error that is already recorded."""


@dataclass(frozen=True, slots=True)
class Unbound:
    """The mark of a name that some path does not bind."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The mark of a name that is bound by a statement with an error."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The mark of a name that paths bind to values which cannot be merged. Reading the name raises `error`."""

    error: Callable[[Location], CompileError]


@dataclass(frozen=True, slots=True)
class PartlyBound:
    """The mark of a name that is bound except on paths that have left the loop body. Code that is guarded from these
    paths sees `binding`."""

    binding: Binding


UNBOUND, FAILED = Unbound(), Failed()
MARKS = (Unbound, Failed, Conflict, PartlyBound)


@dataclass(slots=True)
class Frame:
    """A function being traced. `names` is copied when paths split. `conditional_context`: the enclosing expression that
    may skip the evaluation of the traced expression, if any. `thread_arrays`: the kinds of the names that are bound to
    arrays of a thread; `locations`: the locations of nodes that are known."""

    source: FunctionSource
    flow: Flow
    lookup: Callable[[str], Any]
    names: dict[str, Binding]
    caller: Location | None = None
    outer: Frame | None = None
    is_kernel: bool = False
    return_at: Location | None = None
    identity: object = None
    namespace: dict[str, Any] = field(default_factory=dict)
    conditional_context: str = ""
    thread_arrays: dict[str, Any] = field(default_factory=dict)
    locations: dict[ast.AST, Location] = field(default_factory=dict)

    def location(self, node: ast.AST) -> Location:
        """The location of a node of the function, which all ops of the node share."""
        known = self.locations.get(node)
        if known is None:
            known = self.locations[node] = self.source.location(node, self.caller)
        return known


@dataclass(slots=True)
class Path:
    """A path through a branch: its ops and the names at its end."""

    region: Region
    names: dict[str, Binding]
    exit_kind: str = ""

    @property
    def exit(self) -> str:
        """ "return" or "loop" if every run of the path has left the function or the loop body, else ""."""
        if self.exit_kind:
            return self.exit_kind
        if self.names.get(RETURN) is True:
            return "return"
        return "loop" if self.names.get(BREAK) is True or self.names.get(CONTINUE) is True else ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tracer's state at a point, which `restore` returns to."""

    region: Region
    ops: int
    names: dict[str, Binding]
    errors: int
    return_at: Location | None


@dataclass(slots=True)
class LocalFunction:
    """A function defined inside a traced one; it reads the names of `frame`."""

    tree: ast.FunctionDef
    frame: Frame

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.tree.name


DESCRIPTIONS[LocalFunction] = lambda x: f"the function {x.name}"


class _ErrorsAt:
    """See `TracerState.errors_at`. A class takes a third of the time of a generator."""

    __slots__ = ("node", "tracer")

    def __init__(self, tracer: TracerState, node: ast.AST) -> None:
        self.tracer, self.node = tracer, node

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, TypeRule):
            raise self.tracer.from_rule(error, self.node) from None


class _Written:
    """See `TracerState.written`."""

    __slots__ = ("written",)

    def __init__(self, written: Sequence[tuple[ast.expr, Any]]) -> None:
        self.written = written

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if isinstance(error, TypeRule):
            error.written = error.written or self.written


class TracerState(ABC):
    """The state of the tracer, and the primitives that all its parts use."""

    def __init__(self, builder: KernelBuilder, frame: Frame) -> None:
        self.builder = builder
        self.frame = frame
        self.errors: list[CompileError] = []
        self.objects: set[Value] = set()
        """The tile objects that a name is bound to."""
        self.joined = JoinedObjects()
        self.has_name_if: dict[Value, Value] = {}
        """The objects that a name is bound to on some paths, with their conditions."""
        self.calls: list[object] = []
        """The functions that are being inlined."""
        self.unroll_factor = 1
        """The number of copies of the traced statement, due to enclosing unrolled loops."""

    # Locations --------------------------------------------------------------------------------------------------------

    def location(self, node: ast.AST | None) -> Location:
        """The node's location; without a node, the location of the ops that are being built."""
        if node is None:
            return self.builder.loc
        return self.frame.location(node)

    def mark(self, node: ast.AST | None) -> None:
        """Set the location of subsequently built ops to the node."""
        self.builder.loc = self.location(node)

    @contextmanager
    def within(self, region: Region) -> Iterator[None]:
        """Build ops into another region inside of a `with` block."""
        outer, self.builder.region = self.builder.region, region
        try:
            yield
        finally:
            self.builder.region = outer

    def errors_at(self, node: ast.AST) -> _ErrorsAt:
        """A context in which a TypeRule becomes a CompileError at the node."""
        return _ErrorsAt(self, node)

    def written(self, *operands: tuple[ast.expr, Any]) -> _Written:
        """A context that gives a TypeRule its operands, each as the user wrote it and with its binding."""
        return _Written(operands)

    def from_rule(self, rule: TypeRule, node: ast.AST | None) -> CompileError:
        """The error of a rule at the node, or at the operand that the rule names."""
        loc, fields, help = self.location(node), dict(rule.fields), rule.help
        notes: list[tuple[Location, str]] = []
        if rule.error == "MixedScalars":
            mismatch = explain.mixed_types(rule.written, isinstance(node, ast.AugAssign))
            types, help = mismatch if mismatch is not None else ({}, help)
            fields.update(types, op=loc.subject or fields["op"])
        elif "tile" in rule.fields and node is not None:
            return self._condition_error(rule.fields["tile"], rule, node)
        elif rule.error == "ShapeMismatch":
            fields["what"] = loc.subject or fields["what"]
            notes = explain.shape_notes(rule.written)
        help = help or explain.remedy(rule, node)
        culprit = explain.culprit(rule)
        if culprit is not None:
            at, x = culprit
            loc = self.location(at)
            help = help or explain.conversion(at, x, rule.expected)
        help = help or rule.otherwise
        return getattr(E, rule.error)(loc, help=help, notes=notes, **fields)

    def _condition_error(self, x: Value, rule: TypeRule, node: ast.AST) -> CompileError:
        """The error for a tile in a condition, which must be one truth value. The message names the variables that are
        tiles and the expression to write instead."""
        text = explain.quoted(rule.written[0][0] if rule.written else node)
        tiles_in_condition = [
            n
            for n, bound in self._names_in(node)
            if isinstance(bound, Value) and isinstance(bound.type, TileType | BufType)
        ]
        message = f"a condition must be a scalar, and '{text}' is a {describe_type(x)}"
        if tiles_in_condition and tiles_in_condition != [text]:
            tiles = " and ".join(f"'{n}'" for n in tiles_in_condition)
            message += f", because {tiles} {'are tiles' if len(tiles_in_condition) > 1 else 'is a tile'}"
        scalar = explain.scalar(x)
        if scalar is not None and not scalar.is_bool:
            text = f"{text} != {0 if scalar.is_int else 0.0}"
        help = (
            f"to choose element by element write tg.where({text}, x, y); for one condition over all elements, "
            f"tg.tile_max(tg.where({text}, 1, 0))[0] > 0 tests whether any element holds, tg.tile_min whether all do"
        )
        return E.TypeMismatch(self.location(node), what=message, help=help)

    def _names_in(self, node: ast.AST) -> list[tuple[str, Binding]]:
        """The variables in an expression, each once, with their bindings."""
        names = dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
        return [(name, self.frame.names[name]) for name in names if name in self.frame.names]

    def record(self, error: CompileError) -> None:
        """Record an error, once per location even if the enclosing function is inlined several times; of
        the errors in a library function only the first one, with the function's signature as its help."""
        if error.within is not None:
            if any(known.within is not None and known.loc == error.loc for known in self.errors):
                return
            error.help = self.signature_of_call(error.within) or error.help
        if not any(_same_error(error, known) for known in self.errors):
            self.errors.append(error)

    def snapshot(self) -> Snapshot:
        """The current state, to which `restore` returns."""
        region = self.builder.region
        return Snapshot(
            region, len(region.ops), dict(self.frame.names), len(self.errors), self.frame.return_at
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Undo all tracing since a snapshot."""
        del snapshot.region.ops[snapshot.ops :]
        self.builder.region = snapshot.region
        self.frame.names = dict(snapshot.names)
        del self.errors[snapshot.errors :]
        self.frame.return_at = snapshot.return_at

    # Constants -------------------------------------------------------------------------------------------------------

    def constant_number(self, x: Binding) -> Any:
        """The Python number of a literal or a constant Value; None for other bindings."""
        if isinstance(x, LITERALS):
            return x
        if isinstance(x, Value) and isinstance(x.owner, ConstantLike) and isinstance(x.type, DType):
            return x.owner.value
        return None

    # Binding ---------------------------------------------------------------------------------------------------------

    def bind(self, name: str, x: Binding) -> None:
        """Bind a name to a value. Literals get their default type, except inside tuples; tiles become objects, shared
        tiles keep their identity."""
        bound = self.bound(x)
        self.frame.names[name] = bound
        kind = kind_of(self.builder, bound)
        if kind:
            self.frame.thread_arrays[name] = kind
        if isinstance(bound, Value) and not bound.name:
            bound.name = name

    def bound(self, x: Binding) -> Binding:
        """A binding with its literals as values, in tuples too."""
        if isinstance(x, tuple):
            return with_parts(x, [part if isinstance(part, LITERALS) else self.bound(part) for part in x])
        if isinstance(x, LITERALS):
            return self.builder.value(x)
        if not isinstance(x, Value):
            return x
        if isinstance(x.type, TileType):
            return self.new_object(x, self.builder.storage.get(x, "register"))
        if isinstance(x.type, BufType):
            if x in self.has_name_if:
                return self.bind_second_name(self.has_name_if[x], x)
            if x.type.storage == "register" and x in self.objects:
                return self.second_name(x)
            self.objects.add(x)
        return x

    def second_name(self, x: Value) -> Value:
        """The object for another name of a register tile: a copy. If the tile is a shared tile on some path, it is not
        copied on this path."""
        tile = self.new_object(self.builder.tile(x, partial=True), "register")
        if root(x) in self.joined.merged or root(x) in self.joined.copied:
            self.joined.copied[tile] = x
        return tile

    def new_object(self, tile: Value, storage: str) -> Value:
        """A new tile object that begins with a value."""
        buffer = self.builder.one(BufNew, [tile], {"storage": storage})
        if tile in self.builder.read_only:
            self.builder.read_only[buffer] = self.builder.read_only[tile]
        self.objects.add(buffer)
        return buffer

    # Implemented by subclasses --------------------------------------------------------------------------------------

    @abstractmethod
    def bind_second_name(self, named: Value, x: Value) -> Value:
        """The object for a new name of a tile: a copy if the tile already has a name (`named`)."""

    @abstractmethod
    def signature_of_call(self, within: Location) -> str:
        """A help text with the signature of the library function that the user's call reaches; "" if there is none.
        `within`: a location in that function."""

    @abstractmethod
    def expr(self, node: ast.expr) -> Any:
        """The value of an expression."""

    @abstractmethod
    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Trace statements."""


def _same_error(a: CompileError, b: CompileError) -> bool:
    if a.loc is None or b.loc is None:
        return a is b
    locations = ((a.loc.file, a.loc.line, a.loc.column), (b.loc.file, b.loc.line, b.loc.column))
    return locations[0] == locations[1] and type(a) is type(b) and a.message == b.message


def describe_type(x: Binding) -> str:
    """A binding in an error message."""
    if isinstance(x, Value):
        return str(x.type.tile) if isinstance(x.type, BufType) else str(x.type)
    if isinstance(x, Fields):
        return str(x.type)
    if isinstance(x, tuple):
        return f"({', '.join(map(describe_type, x))})"
    if isinstance(x, bool):
        return "bool"
    if isinstance(x, int | float):
        return "int32" if isinstance(x, int) else "float32"
    if x is None or isinstance(x, str):
        return repr(x)
    if isinstance(x, slice):
        return "a slice"
    if isinstance(x, type) or is_element(x):
        return f"type {x.__name__ if isinstance(x, type) else x}"
    return str(getattr(x, "name", None) or x)


def is_element_value(x: Binding) -> TypeGuard[Value]:
    """Whether a binding is a scalar, vector or matrix known at run time."""
    return isinstance(x, Value) and is_element(x.type)


def is_handle(x: Binding) -> bool:
    """Whether the binding refers to memory that control flow cannot select: an array, a stack, a pipe or a barrier."""
    return isinstance(x, Value) and isinstance(x.type, HANDLES)
