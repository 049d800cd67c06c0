"""Errors: one class per message, printed with the user's source line, notes and a suggested fix."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, ClassVar, Self

from tegula.source import Location


class TegulaError(Exception):
    """The base class of all errors that Tegula reports."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.__dict__, self.args)


LIBRARY = os.path.join(os.path.dirname(__file__), "stdlib", "")
"""The directory of the functions that are written in the language itself."""
GENERATED = "<the kernel of "
"""The beginning of the file names of kernels that functions of the library generate, which users do not see."""
CALLS_SHOWN = 4
"""The number of calls shown at either end of a long call chain."""


class CompileError(TegulaError, RuntimeError):
    """A kernel that cannot be compiled. Subclasses fill MESSAGE with keyword fields, and also derive from the Python
    exception for the same kind of mistake."""

    CODE: ClassVar[str] = ""
    MESSAGE: ClassVar[str] = ""
    HELP: ClassVar[str] = ""

    def __init__(
        self,
        loc: Location | None,
        *,
        notes: Sequence[tuple[Location, str]] = (),
        help: str = "",
        **fields: Any,
    ) -> None:
        self.message = self.MESSAGE.format(**fields)
        self.help = help or self.HELP.format(**fields)
        self._locate(loc, notes)
        super().__init__(self.message)

    def _locate(self, loc: Location | None, notes: Sequence[tuple[Location, str]]) -> None:
        self.loc = users_location(loc)
        self.within = loc if loc is not self.loc else None
        """The location of an error in the standard library, which users see at their call."""
        self.notes = [*_callers(self.loc), *((at, text) for at, text in notes if not _in_library(at))]

    def at(self, loc: Location) -> Self:
        """The error, at this location if it was raised without one: by a function of the standard library about the
        arguments of the user's call."""
        if self.loc is None:
            self._locate(users_location(loc), self.notes)
        return self

    def __str__(self) -> str:
        return rendered(self.CODE, self.loc, self.message, self.notes, self.help)


class CompileErrors(CompileError):
    """All errors found in one kernel, in source order. The raised object derives from every Python exception class of
    its members except NameError, because no class can derive from both NameError and AttributeError."""

    CODE = "compile"

    def __new__(cls, errors: Sequence[CompileError]) -> CompileErrors:
        bases = dict.fromkeys(base for e in errors for base in python_bases(type(e)))
        combined = CompileErrors if cls is not CompileErrors or not bases else _combined(tuple(bases))
        return Exception.__new__(combined)

    def __init__(self, errors: Sequence[CompileError]) -> None:
        self.errors = list(errors)
        self.loc = errors[0].loc
        self.notes = []
        self.message = f"{len(errors)} errors"
        self.help = ""
        Exception.__init__(self, self.message)

    def __str__(self) -> str:
        return "\n".join(str(e) for e in self.errors)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompileErrors, (self.errors,)


def combine_errors(errors: Sequence[CompileError]) -> CompileError:
    """A single error, or CompileErrors with several errors in source order."""
    if len(errors) == 1:
        return errors[0]

    def position(e: CompileError) -> tuple[str, int, int]:
        return (e.loc.file, e.loc.line, e.loc.column) if e.loc is not None else ("", 0, 0)

    return CompileErrors(sorted(errors, key=position))


def raise_all(errors: Sequence[CompileError]) -> None:
    """Raise the errors of a kernel, if there are any."""
    if errors:
        raise combine_errors(errors)


def python_bases(cls: type) -> list[type]:
    """The built-in exception classes, besides RuntimeError, of an error class that can be combined with others."""
    return [
        base
        for base in cls.__mro__
        if base.__module__ == "builtins" and base not in (*RuntimeError.__mro__, NameError, LookupError)
    ]


@cache
def _combined(bases: tuple[type, ...]) -> type[CompileErrors]:
    return type("CompileErrors", (CompileErrors, *bases), {"__module__": __name__})


def _restored(cls: type[Exception], state: dict[str, Any], args: tuple[Any, ...]) -> Exception:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


def users_location(loc: Location | None) -> Location | None:
    """The location itself, or for a location in the library the user's call of the library function; None if a function
    of the library has generated the kernel."""
    if loc is None or not _in_library(loc):
        return loc
    *_, outermost = loc.chain()
    users_call = next((at for at in loc.chain() if not _in_library(at)), None)
    return None if users_call is None and outermost.file.startswith(GENERATED) else users_call or loc


def _in_library(loc: Location) -> bool:
    return loc.file.startswith((LIBRARY, GENERATED))


def _callers(loc: Location | None) -> list[tuple[Location, str]]:
    """A note for each call site of inlined code; the first and last few for a long chain."""
    chain = loc.chain()[1:] if loc is not None else []
    notes = [(at, "called from here") for at in chain if not _in_library(at)]
    if len(notes) <= 2 * CALLS_SHOWN:
        return notes
    omitted = len(notes) - 2 * CALLS_SHOWN
    last = notes[CALLS_SHOWN - 1][0]
    middle = (last, f"called from here, through {omitted} more calls that are not shown")
    return [*notes[: CALLS_SHOWN - 1], middle, *notes[-CALLS_SHOWN:]]


def suggestion(name: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown name: the most similar known name, or the known names."""
    import difflib

    names = sorted(known)
    close = difflib.get_close_matches(name, names, 1, cutoff=0.55)
    return f"did you mean '{close[0]}'?" if close else f"choose from: {', '.join(names)}"


def rendered(
    code: str, loc: Location | None, message: str, notes: Sequence[tuple[Location, str]] = (), help: str = ""
) -> str:
    """The text of an error as printed."""
    prefix = f"{loc}: " if loc else ""
    lines = [f"{prefix}error[{code}]: {message}", *_excerpt(loc)]
    for at, text in notes:
        lines += [f"{at}: note: {text}", *_excerpt(at)]
    if help:
        lines.append(f"help: {help}")
    return "\n".join(lines)


def _excerpt(loc: Location | None) -> list[str]:
    """The source line with a caret under the location; empty if the source is not available."""
    text = loc.text() if loc is not None else ""
    if loc is None or not text.strip():
        return []
    caret = " " * loc.column + "^" * max(1, min(loc.end_column, len(text)) - loc.column)
    return [f"  {text}", f"  {caret}"]


# Names and source ----------------------------------------------------------------------------------------------------


class UnknownName(CompileError, NameError, KeyError):
    """A name that neither the kernel nor its module binds."""

    CODE = "unknown-name"
    MESSAGE = "name '{name}' is not defined"
    HELP = "bind the name before this line, or pass the value as an argument"


class UnboundName(CompileError, NameError):
    """A name without a value on some path to the line."""

    CODE = "unbound-name"
    MESSAGE = "'{name}' is not bound on every path that reaches this line"
    HELP = "bind '{name}' before the branch or loop"


class UnknownAttribute(CompileError, AttributeError):
    """An attribute that a module, array, tile or vector does not have."""

    CODE = "unknown-attribute"
    MESSAGE = "{owner} has no attribute '{name}'"
    HELP = "arrays and tiles have shape, dtype and ndim, tiles also size and T, vectors x, y, z, w, transforms p and q"


class UnsupportedPython(CompileError):
    """A Python construct that kernels do not support."""

    CODE = "unsupported-python"
    MESSAGE = "{what} is not supported in kernels"
    HELP = "compute the value outside the kernel and pass it as an argument, or use loops and tile functions"


class UnsupportedCapture(CompileError):
    """An object from outside the kernel that kernels cannot use."""

    CODE = "unsupported-capture"
    MESSAGE = "'{name}' is a captured {type}, which cannot be used in a kernel"


class SourceNotFound(CompileError):
    """A kernel whose source text is not available."""

    CODE = "source-not-found"
    MESSAGE = "{what}"
    HELP = (
        "define the function in a file, a notebook or at the prompt; run source text with tg.exec(text, namespace), or "
        "pass the text: @tg.kernel(source=...)"
    )


class RecursiveFunction(CompileError):
    """A function that calls itself, directly or through others."""

    CODE = "recursive-function"
    MESSAGE = "{name} calls itself; functions are inlined, so recursion is not supported"
    HELP = "write a loop"


class TooDeep(CompileError):
    """Expressions, blocks or functions that are nested too deeply."""

    CODE = "too-deep"
    MESSAGE = "this code is nested too deeply"
    HELP = "bind parts of the expression to names, or nest fewer branches, loops and functions"


# Types ---------------------------------------------------------------------------------------------------------------


class TypeMismatch(CompileError, TypeError):
    """A value of the wrong type or rank."""

    CODE = "type-mismatch"
    MESSAGE = "{what}"
    HELP = (
        "kernels compute with numbers, vectors, matrices and tiles: pass one of these, or convert the value"
    )


class OutOfRange(CompileError, ValueError, IndexError):
    """A constant outside the range of a function, a type or a dimension: an index, an axis, a number of dimensions, an
    empty range."""

    CODE = "out-of-range"
    MESSAGE = "{what}"
    HELP = "use a value in the valid range"


class MixedScalars(CompileError, TypeError):
    """Two scalar types in one operation: there are no implicit conversions."""

    CODE = "mixed-scalar-types"
    MESSAGE = "{op} mixes {left} and {right}"
    HELP = "cast one operand to the type of the other"


class ShapeMismatch(CompileError, ValueError, TypeError):
    """Tiles whose shapes do not fit together."""

    CODE = "shape-mismatch"
    MESSAGE = "{what}: shapes {left} and {right} do not fit"
    HELP = "load, reshape or broadcast one of the tiles to a shape that fits"


class TileTooLarge(CompileError):
    """A tile or stack with more elements than supported."""

    CODE = "tile-too-large"
    MESSAGE = "{what} of shape {shape} has {size} elements, more than {limit:,}"
    HELP = "use a smaller shape, and cover the data by the blocks of the launch or by a loop"


class UnrolledTooFar(CompileError):
    """A loop over constants that would be unrolled into too many iterations."""

    CODE = "unrolled-too-far"
    MESSAGE = "this loop would be unrolled into {count} copies of its body, more than {limit:,}"
    HELP = "loop over range(...), which is compiled as a loop"


class NotConstant(CompileError, ValueError, TypeError):
    """A value that must be known when the kernel is compiled."""

    CODE = "not-constant"
    MESSAGE = "{what} must be a compile-time constant"
    HELP = "use a literal, a module-level number, tg.constant, tg.static, or a parameter annotated with tg.constexpr"


class WrongArguments(CompileError, TypeError):
    """A call that does not fit the function."""

    CODE = "wrong-arguments"
    MESSAGE = "{what}"
    HELP = "help(tg.NAME) shows the signature of a function of the language"


class OutsideKernel(CompileError):
    """A call in Python of a function that needs a block of threads."""

    CODE = "outside-kernel"
    MESSAGE = "{name} works inside kernels only: {what}"
    HELP = "call the function in a @tg.kernel, and run the kernel with tg.launch or tg.launch_tiled"


class VariableChangesType(CompileError):
    """A variable of different types on two paths."""

    CODE = "variable-changes-type"
    MESSAGE = "'{name}' is {before} on one path to this line and {after} on another"
    HELP = "bind the variable to values of one type on both paths, with a cast"


# Groups and order ----------------------------------------------------------------------------------------------------


class DivergentCooperativeOp(CompileError):
    """A tile function that only some threads of a block would reach."""

    CODE = "divergent-cooperative-op"
    MESSAGE = "{op} is cooperative: all threads of the block must reach it together, but only some do"


class CooperativeAfterReturn(CompileError):
    """A tile function after a return that only some threads of a block take."""

    CODE = "cooperative-after-return"
    MESSAGE = "{op} is cooperative: all threads of the block must reach it together, but some have returned"
    HELP = "guard the work before the call with an if instead of returning, so that every thread reaches the call"


class UnorderedAccess(CompileError):
    """Element accesses of a tile that no barrier of the block can order."""

    CODE = "unordered-access"
    MESSAGE = (
        "a thread may access a tile element that another thread {other}, without synchronisation in between"
    )
    HELP = "split the branch or loop in two, so that the threads of the block synchronise between the two accesses"


class MergedSharedTiles(CompileError):
    """A change of a shared tile whose identity depends on the path."""

    CODE = "merged-shared-tiles"
    MESSAGE = "{what}"
    HELP = "change each tile under its own name inside the branch, or make a copy with tg.copy(...)"


class SharedMemoryExceeded(CompileError):
    """Tiles that do not fit the memory of a block."""

    CODE = "shared-memory-exceeded"
    MESSAGE = "the tiles of a block need {needed:,} bytes of memory, but {device} has {limit:,}"
    HELP = "use smaller tiles, or keep fewer tiles live at a time"


# Roles and pipes ------------------------------------------------------------------------------------------------------


class RolePlacement(CompileError):
    """Roles that are not the end of a kernel, or code that is not allowed next to roles."""

    CODE = "role-placement"
    MESSAGE = "{what}"
    HELP = "write the roles one after the other at the end of the kernel, and loops and branches inside them"


class RoleGroups(CompileError):
    """A number of warps that roles cannot have."""

    CODE = "role-groups"
    MESSAGE = "{what}"
    HELP = "a block has up to 8 warp groups of 4 warps; assign each warp group to one role"


class RoleRegisters(CompileError):
    """Register budgets of roles that the hardware cannot provide."""

    CODE = "role-registers"
    MESSAGE = "{what}"
    HELP = "leave out registers= to let the compiler choose"


class OuterNameInRole(CompileError):
    """A role that assigns to a name from before the roles."""

    CODE = "role-outer-name"
    MESSAGE = "'{name}' is bound before the roles: {role} cannot assign to it"
    HELP = "roles run concurrently: use another name here, or bind the name inside each role"


class OuterTileInRole(CompileError):
    """A role that uses a tile from before the roles."""

    CODE = "role-outer-tile"
    MESSAGE = "{role} uses a {kind} that was created before the roles"
    HELP = (
        "create the {kind} inside the role; pass tiles between roles through a pipe, or with barriers through "
        'tg.tile_empty(..., storage="shared")'
    )


class PipeEnds(CompileError):
    """A pipe that is filled or emptied by the wrong roles, or in two ways."""

    CODE = "pipe-ends"
    MESSAGE = "{what}"
    HELP = "a pipe is filled by one role, either with tile_pipe_load or with tile_pipe_push, and popped by others"


class PipeBalance(CompileError):
    """Pops and releases of a pipe that do not match."""

    CODE = "pipe-balance"
    MESSAGE = "{what}"
    HELP = "pop equally often on every path, and use a tile before its stage is filled again"


class MatmulInFlight(CompileError):
    """A tile that is accessed while a matmul in flight uses it."""

    CODE = "matmul-in-flight"
    MESSAGE = "{what} while a matmul that {role} it is in flight"
    HELP = "call tg.tile_matmul_wait() before this access"


class ElectedBody(CompileError):
    """An op in `if tg.elect():` that a single thread cannot execute."""

    CODE = "elected-body"
    MESSAGE = "an elected thread cannot execute this code: {what}"
    HELP = (
        "only wait, arrive, announce bytes and start bulk copies in the branch; move all other code out of it"
    )


class BulkAccess(CompileError):
    """An asynchronous copy that this GPU, or this array, cannot do."""

    CODE = "bulk-access"
    MESSAGE = "{what}"
    HELP = "copy with tg.tile_load and tg.tile_store, or let a pipe choose: tg.tile_pipe_load"


class PoppedTileChanged(CompileError):
    """A change of a tile that was popped from a pipe."""

    CODE = "popped-tile-changed"
    MESSAGE = "{what} was popped from a pipe and is read-only"
    HELP = "change a copy of the tile: tg.copy(...)"


# Gradients -----------------------------------------------------------------------------------------------------------


class NoGradient(CompileError):
    """A gradient that would flow through an op without a gradient."""

    CODE = "no-gradient"
    MESSAGE = "a gradient would flow through {op}: {why}"
    HELP = "compute this part in a kernel without gradients, or from values without gradients"


class OverwrittenArray(CompileError):
    """A value that the gradient needs and that the kernel has overwritten in its array."""

    CODE = "overwritten-array"
    MESSAGE = (
        "the gradient needs the elements of '{array}' that are read here, but this kernel overwrites them"
    )
    HELP = "write the result to another array"


class ScheduleRefuted(CompileError):
    """A schedule with a fault: roles that deadlock, or that race on the same memory. The notes give the execution step
    by step."""

    CODE = "schedule-refuted"
    MESSAGE = "{what}"


class ScheduleUnproved(CompileError):
    """A schedule without a proof, for which no launch could be explored for a fault either."""

    CODE = "schedule-unproved"
    MESSAGE = "{what}"


# Launch --------------------------------------------------------------------------------------------------------------


class LaunchError(TegulaError, RuntimeError, ValueError, TypeError):
    """Arguments of a launch that do not fit the kernel."""

    CODE: ClassVar[str] = "launch"

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.help = help

    def __str__(self) -> str:
        return rendered(self.CODE, None, self.message, (), self.help)


class TuningError(LaunchError):
    """The candidates of tuning cannot be created, or none of them can be chosen."""

    CODE: ClassVar[str] = "tuning"


class UnfitNumber(TegulaError, ValueError):
    """A host number outside the range of its element type, or an invalid array length."""

    CODE: ClassVar[str] = "number"

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.help = help

    def __str__(self) -> str:
        return rendered(self.CODE, None, self.message, (), self.help)


class NoField(TegulaError, RuntimeError):
    """A name that is not a field of a struct, a value that is not of the struct's type, or a call of a struct with some
    of its fields."""

    CODE: ClassVar[str] = "no-field"

    def __init__(self, message: str, help: str = "") -> None:
        self.message = message
        self.help = help
        super().__init__(message)

    def __str__(self) -> str:
        return rendered(self.CODE, None, self.message, (), self.help)


class NoComparison(TegulaError, TypeError):
    """`==` or `!=` of a whole array on the host."""

    CODE: ClassVar[str] = "comparison"

    def __init__(self) -> None:
        self.message = "arrays do not support == or !="
        self.help = (
            "compare elements with a.numpy() == b.numpy(), arrays with numpy.array_equal, identity with `is`"
        )
        super().__init__(self.message)

    def __str__(self) -> str:
        return rendered(self.CODE, None, self.message, (), self.help)


class RunError(TegulaError, RuntimeError):
    """A failure that a kernel reported at run time: the first failure in the order of blocks and threads. `loc`: its
    location."""

    CODE: ClassVar[str] = ""

    def __init__(self, message: str, loc: Location | None = None, help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.loc = loc
        self.help = help
        self.notes = _callers(loc)

    def __str__(self) -> str:
        return (
            self.message
            if self.loc is None
            else rendered(self.CODE, self.loc, self.message, self.notes, self.help)
        )


class KernelAssertion(RunError, AssertionError):
    """An assert in a kernel failed."""

    CODE = "assertion"


class OutOfBounds(RunError, IndexError):
    """An access outside an array or tile, found in debug mode."""

    CODE = "out-of-bounds"


class DivisionByZero(RunError, ZeroDivisionError):
    """An integer was divided by zero, found in debug mode."""

    CODE = "division-by-zero"


class BrokenPromise(RunError):
    """A tile access with aligned=True whose first element is not aligned or whose array is not packed, or tg.uniform of
    a value that differs between threads. Alignment is checked in every mode, the other promises in debug mode."""

    CODE = "broken-promise"


class DifferingOperand(UserWarning):
    """A scalar operand of a tile function that differs between threads of a block, found in debug mode. Thread 0's
    value is used, which may be intended."""


class Deadlock(RunError):
    """No role of a block can make progress: each role that has not ended waits for another one. `waits`: the location
    and the condition of each wait."""

    CODE = "deadlock"

    def __init__(
        self, kernel: str, block: int, waits: Sequence[tuple[Location, str]], pipes: bool = True
    ) -> None:
        """`pipes`: whether all roles wait for pipes."""
        self.waits = list(waits)
        loc, first = waits[0]
        text = f"all roles wait: {first} (in block {block} of kernel {kernel})"
        of_pipes = "the producer of a pipe must fill as many stages as each consumer pops"
        of_barriers = "every phase needs all its arrivals, and as many copied bytes as are announced"
        super().__init__(text, loc, of_pipes if pipes else of_barriers)
        self.notes += self.waits[1:]


class InternalError(TegulaError):
    """A bug in Tegula: invalid IR, or code that LLVM refused."""
