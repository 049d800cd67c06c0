"""Calls in Python of functions of the language and of `@tg.func`s, which are traced like calls in kernels, and run by
the ops' reference implementations.

Any function may be called; an op that needs a block of threads is an error."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tegula import errors as E
from tegula.composite import Composite
from tegula.dataclass import dataclass, field
from tegula.evaluation import set_evaluator
from tegula.ir import ConstantLike, Kernel, LaunchClass, Op, Region, TypeRule, Value
from tegula.lang.annotations import ANY, ArrayAnnotation
from tegula.lang.capture import capture
from tegula.lang.captures import Captured, Captures, unchanged
from tegula.lang.definition import Definition, FuncDef, PublicFunction
from tegula.lang.overloads import CALLEE, Parameter, bind_arguments, call_cost, constant_type, match_cost
from tegula.lang.state import RETURN, Frame, Reported, describe_type
from tegula.ops import PUBLIC
from tegula.ops.builder import LITERALS, MAX_VECTOR
from tegula.ops.control import Yield
from tegula.ops.indexing import KernelBuilder
from tegula.ops.literals import SYMBOLS
from tegula.runtime.array import adopt, array
from tegula.runtime.config import config
from tegula.runtime.library import TILE_PREFIXES, library
from tegula.source import Location
from tegula.types import (
    ArrayType,
    DType,
    ElementType,
    Type,
    bfloat16,
    bool_,
    float16,
    float32,
    host_value,
    int32,
    is_element,
    scalar_of,
    to_numpy,
)

if TYPE_CHECKING:
    from tegula.lang.kernel import Tracer

MAX_PROGRAMS = 1024
"""The number of traced calls that are cached."""
ONE_THREAD = LaunchClass(ndim=1, block_dim=1, uniform=(False,), last_is_block=False, partial=False)
OPERATORS = (*SYMBOLS, "neg", "pos", "not")
"""The names that `evaluate` accepts besides the functions of the language."""


# Arguments ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Slot:
    """A run-time argument, for which the program has a parameter of its type."""

    type: Type


@dataclass(frozen=True, slots=True)
class Fixed:
    """An argument on which the program is specialised. Arguments with equal `key` have the same program."""

    key: object
    value: Any = field(compare=False)


Form: TypeAlias = "Slot | Fixed | tuple[Form, ...]"
"""The form of an argument, without the numbers that a program takes at run time."""


class HostArguments:
    """The arguments of a call: their forms, and the values of the program's parameters."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.types: list[Type] = []
        self.values: list[np.ndarray] = []
        self.converted: list[Any] = []
        self.forms = tuple(self._form(x) for x in args)
        self.named = tuple((name, self._form(x)) for name, x in kwargs.items())

    def _form(self, x: Any) -> Form:
        if isinstance(x, Composite):
            return self._parameter(x.type, x.numpy(), x)  # type: ignore[arg-type]
        if isinstance(x, np.generic | np.ndarray) and (t := constant_type(x)) is not None:
            if isinstance(x, np.generic) or 0 < x.size <= MAX_VECTOR:
                return self._parameter(t, np.asarray(x), x)
            return Fixed((x.dtype.str, x.shape, x.tobytes()), x)
        if isinstance(x, array):
            return self._parameter(ArrayType(x.dtype, x.ndim), _memory(x), x)
        if isinstance(x, tuple | list):
            return tuple(self._form(part) for part in x)
        if isinstance(x, LITERALS):
            return Fixed((type(x), repr(x)), x)
        return Fixed(x if isinstance(x, str) or x is None or callable(x) or is_element(x) else object(), x)

    def _parameter(self, t: Type, data: np.ndarray, x: Any) -> Slot:
        self.types.append(t)
        self.values.append(data if isinstance(t, ArrayType) else data[None])
        self.converted.append(x)
        return Slot(t)


def _memory(x: array) -> np.ndarray:
    """The memory of an array that a call reads or writes; LaunchError for an array on a GPU."""
    if not x.device.is_cpu:
        message = f"a call in Python cannot reach an array on {x.device}"
        raise E.LaunchError(message, "launch a kernel, or copy the array: a.to('cpu')")
    return x.numpy()


def _traced_argument(form: Form, values: Iterator[Value], location: Location) -> Any:
    """An argument as the tracer represents it."""
    if isinstance(form, tuple):
        return tuple(_traced_argument(part, values, location) for part in form)
    return next(values) if isinstance(form, Slot) else capture("an argument", form.value, location)


# Arguments of the user's functions ------------------------------------------------------------------------------------


def converted_arguments(
    f: FuncDef, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with Python numbers converted to the types of the function's parameters, so that all numbers of a
    type share a program; unchanged if no overload accepts the arguments. If no overload matches exactly, NumPy numbers
    become Python numbers and integers become floats, as in launches, except for overloads that a user declared."""
    is_overloaded = len(f.definitions) > 1 and not f.definition.library
    has_16_bit_floats = f.in_float32 and any(
        _type(x) in (float16, bfloat16) for x in (*args, *kwargs.values())
    )
    for convert in (_unchanged,) if has_16_bit_floats or is_overloaded else (_unchanged, _python, _float):
        converted = [convert(x) for x in args]
        keywords = {key: convert(x) for key, x in kwargs.items()}
        best: tuple[int, Sequence[Parameter], list[Any]] | None = None
        for candidate in f.overloads:
            parameters = candidate.definition.parameters
            try:
                bound_arguments = bind_arguments(candidate.name, parameters, converted, keywords)
            except TypeError:
                continue
            bound_arguments = [
                _as_annotated(p.annotation, x) for p, x in zip(parameters, bound_arguments, strict=True)
            ]
            cost = call_cost(parameters, list(map(_type, bound_arguments)), converted, keywords)
            if cost is not None and (best is None or cost <= best[0]):
                best = cost, parameters, bound_arguments
        if best is not None:
            numbers = {p.name: _typed_number(p.annotation, x) for p, x in zip(*best[1:], strict=True)}
            positional = [p.name for p in best[1] if not p.keyword_only]
            return [numbers[name] for name in positional[: len(args)]], {key: numbers[key] for key in kwargs}
    return [*args], {**kwargs}


def _unchanged(x: Any) -> Any:
    return x


def _python(x: Any) -> Any:
    return x.item() if isinstance(x, np.floating | np.integer) else x


def _float(x: Any) -> Any:
    number = _python(x)
    return float(number) if type(number) is int and number.bit_length() < 1000 else number


def _as_annotated(annotation: Any, x: Any) -> Any:
    """An argument for a parameter that is annotated as an array: a Tegula array on the memory of another library's
    array."""
    if isinstance(annotation, ArrayAnnotation) and not isinstance(x, array) and hasattr(x, "__array__"):
        return adopt(x, annotation.dtype if is_element(annotation.dtype) else None)
    return x


def _type(x: Any) -> Any:
    """The type of an argument for `match_cost`."""
    if isinstance(x, Composite):
        return x.type
    if isinstance(x, np.generic | np.ndarray):
        return constant_type(x)
    if isinstance(x, array):
        return ArrayType(x.dtype, x.ndim)
    return CALLEE if callable(x) else x


def _typed_number(annotation: Any, x: Any) -> Any:
    """A Python number in the type of its parameter."""
    if not isinstance(x, LITERALS) or isinstance(x, np.generic):
        return x
    default = bool_ if isinstance(x, bool) else int32 if isinstance(x, int) else float32
    t = annotation if isinstance(annotation, DType) else default if annotation is ANY else None
    return x if t is None or match_cost(t, x) is None else t(x)


# Programs -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class HostProgram:
    """A traced call. `result`: the result of the call, with values instead of numbers; `location`: the location of the
    traced call."""

    kernel: Kernel
    result: Any
    results: list[Value]
    captured: tuple[Captured, ...]
    location: Location

    def run(self, arguments: HostArguments) -> Any:
        """The result for arguments of the forms that the program was traced for. RunError for failures at run time."""
        machine, report = _interpreter()(self.kernel, config.mode == "debug")
        try:
            with np.errstate(all="ignore"):
                region_result = machine.region(self.kernel.body, arguments.values, machine.present)
            report.finish()
        except E.RunError as error:
            error.notes = [
                (_caller_location() if location is self.location else location, text)
                for location, text in error.notes
            ]
            raise
        objects = dict(zip(self.kernel.body.args, arguments.converted, strict=True))
        values = {v: _result(v, x, objects) for v, x in zip(self.results, region_result, strict=True)}
        return _substituted(self.result, values)


def _result(value: Value, x: np.ndarray, objects: Mapping[Value, Any]) -> Any:
    """A value of a program as a host value."""
    if isinstance(value.type, ArrayType):
        return objects[value]
    t: ElementType = value.type  # type: ignore[assignment]
    return host_value(t, np.array(x[0], to_numpy(scalar_of(t))))


def _substituted(x: Any, values: Mapping[Value, Any]) -> Any:
    if isinstance(x, tuple):
        return tuple(_substituted(part, values) for part in x)
    return values[x] if isinstance(x, Value) else x


@cache
def _interpreter() -> Any:
    """The constructor of machines for programs; the interpreter is imported on the first call."""
    from tegula.interp.launch import FAMILIES
    from tegula.runtime.host_report import single_thread_machine

    assert FAMILIES  # registers the handlers
    return single_thread_machine


_programs: dict[object, HostProgram] = {}
_unconverted: dict[object, None] = {}
"""The argument forms of calls that cannot be traced without specialisation on the numbers."""


@set_evaluator
def evaluate(callee: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of a call. CompileError if the call is not valid in a kernel, or if the call needs a block of
    threads."""
    name = callee if isinstance(callee, str) else callee.name
    is_public = isinstance(callee, PublicFunction)
    if is_public and name.startswith(TILE_PREFIXES):
        raise E.OutsideKernel(_caller_location(name), name=name, what="tiles need a block of threads")
    target = library().get(name) if is_public and name not in PUBLIC else callee
    if isinstance(target, FuncDef):
        arguments = HostArguments(*converted_arguments(target, args, kwargs))
        key = (target, arguments.forms, arguments.named)
        if key not in _unconverted:
            try:
                return _program(target, arguments, key).run(arguments)
            except E.CompileError as error:
                unconverted = HostArguments(args, kwargs)
                if (unconverted.forms, unconverted.named) == key[1:]:
                    raise error.with_traceback(None) from None
                _cache(_unconverted, key, None)
    arguments = HostArguments(args, kwargs)
    key = (name if is_public else callee, arguments.forms, arguments.named)
    try:
        return _program(target or callee, arguments, key).run(arguments)
    except E.CompileError as error:
        raise error.with_traceback(None) from None


def _program(callee: Any, arguments: HostArguments, key: object) -> HostProgram:
    program = _programs.get(key)
    if program is None or not all(map(unchanged, program.captured)):
        program = _trace_call(callee, arguments)
        _cache(_programs, key, program)
    return program


def _cache(programs: dict[Any, Any], key: object, value: Any) -> None:
    programs.pop(key, None)
    programs[key] = value
    while len(programs) > MAX_PROGRAMS:
        programs.pop(next(iter(programs)), None)


def _call() -> None:
    """The function in which calls are traced."""


def _trace_call(callee: Any, arguments: HostArguments) -> HostProgram:
    """The program of a call; CompileError for an invalid call."""
    from tegula.lang.kernel import Tracer, nesting

    name = callee if isinstance(callee, str) else callee.name
    location = _caller_location(f"'{SYMBOLS[name]}'" if name in SYMBOLS and isinstance(callee, str) else name)
    caller = Definition(_call, library=True)
    captures = Captures(callee.definition if isinstance(callee, FuncDef) else caller)
    body = Region(arguments.types)
    builder = OneThread(body, location, name)
    frame = Frame(caller.source, caller.flow, caller.lookup, {RETURN: False})
    tracer = Tracer(builder, frame, ONE_THREAD, library(), captures)
    values = iter(body.args)
    try:
        args = [_traced_argument(form, values, location) for form in arguments.forms]
        kwargs = {key: _traced_argument(form, values, location) for key, form in arguments.named}
        with nesting(builder):
            result = _call_result(tracer, callee, args, kwargs)
    except TypeRule as rule:
        raise tracer.from_rule(rule, None) from None
    except Reported:
        result = None
    except E.CompileError as error:
        tracer.record(error)
        result = None
    E.raise_all(tracer.errors)
    for op in body.walk():
        if not _runs_without_block(op):
            raise E.OutsideKernel(op.loc, name=name, what=_needs_block(op.loc.subject or op.NAME, name))
    results: list[Value] = []
    result = _values(builder, result, results, name, location)
    builder.emit(Yield, results)
    kernel = Kernel(name, [v.name for v in body.args], body, ONE_THREAD, (), location)
    return HostProgram(kernel, result, results, tuple(captures.captured.values()), location)


def _call_result(tracer: Tracer, callee: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The traced result of the call. An operator is given by its name."""
    if callee not in OPERATORS:
        return tracer.call(PublicFunction(callee) if isinstance(callee, str) else callee, args, kwargs, None)
    operands = [tracer.typed(x) for x in args]
    return (
        tracer.builder.unary(callee, *operands)
        if len(operands) == 1
        else tracer.builder.binary(callee, *operands)
    )


def _needs_block(subject: str, name: str) -> str:
    return f"{'it' if subject in (name, '') else subject} needs a block of threads"


class OneThread(KernelBuilder):
    """A builder for a call without a block: an op that needs the block's size is an error."""

    __slots__ = ("called",)

    def __init__(self, region: Region, loc: Location, called: str) -> None:
        super().__init__(region, loc)
        self.called = called

    def _size(self) -> Any:
        raise E.OutsideKernel(self.loc, name=self.called, what=_needs_block(self.loc.subject, self.called))

    def _unused(self, size: Any) -> None:
        """Ignore the size of the block, which a call in Python does not have."""

    lanes = property(_size, _unused)  # pyright: ignore[reportAssignmentType]
    block_lanes = property(_size, _unused)  # pyright: ignore[reportAssignmentType]


def _runs_without_block(op: Op) -> bool:
    """Whether a single thread without a block can execute an op, which is neither cooperative nor thread-varying and
    does not depend on the position in a launch."""
    if op.COOPERATIVE or op.VARYING:
        return False
    is_source = not op.operands and not op.regions and op.results
    return not is_source or isinstance(op, ConstantLike)


def _values(builder: KernelBuilder, result: Any, values: list[Value], name: str, location: Location) -> Any:
    """A result with its numbers replaced by values, which are collected."""
    if isinstance(result, tuple):
        return tuple(_values(builder, part, values, name, location) for part in result)
    if isinstance(result, (np.generic, np.ndarray, *LITERALS)):
        result = builder.value(result)
    if isinstance(result, Value):
        if not (is_element(result.type) or isinstance(result.type, ArrayType)):
            raise E.OutsideKernel(location, name=name, what=_needs_block(describe_type(result), name))
        values.append(result)
    return result


def _caller_location(subject: str = "") -> Location:
    """The Python line of the call."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tegula":
        frame = frame.f_back
    code, instruction = frame.f_code, frame.f_lasti // 2
    line, end, first, last = next(islice(code.co_positions(), instruction, None), (None,) * 4)
    if line is None or line != end or first is None or last is None:
        return Location(code.co_filename, frame.f_lineno, subject=subject)
    return Location(code.co_filename, line, first, last, subject=subject)
