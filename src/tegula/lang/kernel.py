"""The entry of the frontend, `trace`, from Python source to IR."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tegula import errors as E
from tegula.deferred import deferred_imports
from tegula.ir import AccessClass, Kernel, LaunchClass, Region, Value
from tegula.lang.aliases import alias_conflicts, changed_copies
from tegula.lang.captures import Captured, Captures
from tegula.lang.constants import bound_names, explain_absent
from tegula.lang.definition import Definition, FuncDef
from tegula.lang.in_out import annotate_updates
from tegula.lang.matmuls import wait_for_matmuls
from tegula.lang.overloads import count_text
from tegula.lang.role_rules import misused_roles
from tegula.lang.state import RETURN, Frame, describe_type
from tegula.lang.statements import Statements
from tegula.lang.structs import absent, bindings_of, leaves_of
from tegula.ops.control import Yield
from tegula.ops.indexing import KernelBuilder
from tegula.python_stack import on_long_stack
from tegula.types import Type

with deferred_imports():
    from tegula.lang.references import keep_references

MAX_FRAMES = 8000
"""The number of Python frames that tracing may use: about 500 nested function calls."""


MAX_NESTING = 120
"""The maximum nesting depth of branches and loops; each `elif` is nested in the previous branch."""


class Tracer(Statements):
    """Traces one kernel."""

    def __init__(
        self,
        builder: KernelBuilder,
        frame: Frame,
        launch: LaunchClass,
        library: Mapping[str, FuncDef],
        captures: Captures,
    ) -> None:
        super().__init__(builder, frame)
        self.captures = captures
        self.launch = launch
        self.library = library
        self.body = builder.region
        self.roles = []
        self.traced = {}
        self.final_values = {}
        self.updates = {}
        builder.library = self.call_library


def trace(
    definition: Definition,
    param_types: Sequence[Type],
    launch: LaunchClass,
    access: Sequence[AccessClass | None] = (),
    library: Mapping[str, FuncDef] | None = None,
    differentiable: bool = False,
) -> Kernel:
    """The kernel of a definition for the given parameter types and launch class.

    `library`: the functions of the standard library by name (none by default). `differentiable`: calls of functions
    with a declared derivative are `call` ops. Raises a CompileError with all errors found."""
    tracer = _trace_body(definition, param_types, launch, library, differentiable)
    body, builder = tracer.body, tracer.builder
    tracer.finish_roles()
    builder.emit(Yield, [])
    if not tracer.errors:
        conflicts = alias_conflicts(body, tracer.joined)
        tracer.errors += changed_copies(body, tracer.joined, builder.read_only)
        tracer.errors += conflicts.errors + misused_roles(body) + wait_for_matmuls(body)
        if conflicts.references and not tracer.errors:
            tracer.errors += keep_references(body, tracer.joined.merged, conflicts.references)
    if tracer.errors:
        explain_absent(definition, absent(definition), tracer.errors)
        raise E.combine_errors(tracer.errors)
    check_depth(body)
    names, source = [p.name for p in leaves_of(definition).parameters], definition.source
    kernel = Kernel(definition.name, names, body, launch, access, source.location(source.tree))
    kernel.captured = tuple(tracer.captures.captured.values())
    return kernel


def bound_types(
    definition: Definition,
    name: str,
    param_types: Sequence[Type],
    launch: LaunchClass,
    library: Mapping[str, FuncDef] | None = None,
) -> tuple[tuple[Any, ...], tuple[Captured, ...]]:
    """The types of a name's binding at the end of a kernel: the type of each part of a tuple, or of the single value,
    or the object itself for other bindings; and the captures of the kernel, on which the types depend."""
    tracer = _trace_body(definition, param_types, launch, library)
    if tracer.errors:
        raise E.combine_errors(tracer.errors)
    binding = tracer.frame.names[name]
    parts = binding if isinstance(binding, tuple) else (binding,)
    types = tuple(part.type if isinstance(part, Value) else part for part in parts)
    return types, tuple(tracer.captures.captured.values())


@on_long_stack
def _trace_body(
    definition: Definition,
    param_types: Sequence[Type],
    launch: LaunchClass,
    library: Mapping[str, FuncDef] | None,
    differentiable: bool = False,
) -> Tracer:
    """The tracer at the end of a kernel's body, with the errors that it found."""
    definition = leaves_of(definition)
    parameters = definition.parameters
    if len(parameters) != len(param_types):
        message = f"kernel {definition.name} takes {count_text(len(parameters), 'argument')}, got {len(param_types)}"
        raise E.WrongArguments(definition.location, what=message)
    source = definition.source
    body = Region(param_types)
    builder = KernelBuilder(body, definition.location, lanes=launch.block_dim, partial=launch.partial)
    builder.on_gpu = launch.on_gpu
    for p, value in zip(parameters, body.args, strict=True):
        value.name = p.name
    names = bindings_of(definition, body.args)
    captures = Captures(definition)
    frame = Frame(
        source,
        definition.flow,
        captures.lookup(definition),
        {RETURN: False, **names},
        is_kernel=True,
        identity=definition,
    )
    functions = {} if library is None else library
    tracer = Tracer(builder, frame, launch, functions, captures)
    annotate_updates(definition.flow, definition.lookup, functions, tracer.updates)
    tracer.differentiable = differentiable
    frame.names |= bound_names(tracer, definition)
    builder.loc = source.location(source.tree)
    with nesting(builder):
        tracer.block(source.tree.body)
    return tracer


def check_depth(body: Region) -> None:
    """Raise TooDeep at the first op that is nested more deeply than later passes support."""
    pending = [(op, 0) for op in reversed(body.ops)]
    while pending:
        op, depth = pending.pop()
        if depth > MAX_NESTING:
            raise E.TooDeep(op.loc)
        pending += [(inner, depth + 1) for region in op.regions for inner in reversed(region.ops)]


@contextmanager
def nesting(builder: KernelBuilder) -> Iterator[None]:
    """A context with a larger recursion limit for deeply nested programs; TooDeep with the line at which the limit is
    exceeded."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, MAX_FRAMES))
    try:
        yield
    except RecursionError:
        raise E.TooDeep(builder.loc) from None
    finally:
        sys.setrecursionlimit(before)


__all__ = ["Tracer", "describe_type", "trace"]
