"""Binding of launch arguments, by position or by name, to a kernel's parameters: defaults replace missing arguments,
and constants and absent arrays specialise the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tegula.errors import LaunchError, suggestion
from tegula.lang.annotations import ANY, ArrayAnnotation, IndexedAnnotation
from tegula.lang.constants import InvalidConstant, check_constant, constant_key, takes_constant
from tegula.lang.overloads import NO_DEFAULT, Parameter, count_text
from tegula.runtime.array import array
from tegula.runtime.compound_arguments import flattened, flattened_gradients, is_compound
from tegula.runtime.kernel import GenericKernel, Kernel, KernelChoice, variant
from tegula.runtime.structures import Structure

LISTS = (list, tuple)
ORDER = "inputs=[...] and outputs=[...] together are the arguments, in the order of the parameters"
_MISSING: Any = object()


class FlattenedCall(NamedTuple):
    """A kernel whose parameters are arrays and numbers, with one argument for each leaf."""

    kernel: Kernel
    arguments: tuple[Any, ...]


class Bound(NamedTuple):
    """A kernel with constants and absent arrays bound, and its arguments. `runtime_positions`: the positions of these
    arguments among the launch's arguments."""

    kernel: Kernel
    arguments: tuple[Any, ...]
    runtime_positions: Sequence[int]


def arguments_of(kernel: Kernel | KernelChoice, *values: Any) -> tuple[Any, ...]:
    """The arguments in the order of the parameters. `values`: the inputs and the outputs, each a list, or a dictionary
    of arguments by name. Arguments in lists are assigned in order to the parameters that are not named; missing
    arguments have their defaults. LaunchError for arguments that do not fit."""
    named: dict[str, Any] = {}
    in_order: list[Any] = []
    for name, arguments in zip(("inputs", "outputs"), values, strict=False):
        if isinstance(arguments, Mapping):
            _add(kernel, named, arguments)
        else:
            in_order += arguments if type(arguments) in LISTS else argument_list(name, arguments)
    parameters = kernel.parameters
    if not named and len(in_order) == len(parameters):
        return tuple(in_order)
    unassigned = iter(in_order)
    ordered_values = [named[p.name] if p.name in named else next(unassigned, _MISSING) for p in parameters]
    surplus = sum(1 for _ in unassigned)
    ordered_values = [
        p.default if x is _MISSING else x for p, x in zip(parameters, ordered_values, strict=True)
    ]
    absent = [p.name for p, x in zip(parameters, ordered_values, strict=True) if x is NO_DEFAULT]
    if surplus or absent:
        raise _count_error(kernel, len(named) + len(in_order), absent if named else [])
    return tuple(ordered_values)


def _add(kernel: Kernel | KernelChoice, named: dict[str, Any], arguments: Mapping[str, Any]) -> None:
    names = [p.name for p in kernel.parameters]
    for key, value in arguments.items():
        if key not in names:
            message = f"kernel {kernel.name} has no parameter {key!r}"
            raise LaunchError(message, suggestion(str(key), names))
        if key in named:
            raise LaunchError(f"kernel {kernel.name}: argument '{key}' is given twice", f"pass '{key}' once")
        named[key] = value


def _count_error(kernel: Kernel | KernelChoice, count: int, absent: Sequence[str]) -> LaunchError:
    names = ", ".join(p.name for p in kernel.parameters)
    message = (
        f"kernel {kernel.name} takes {count_text(len(kernel.parameters), 'argument')} ({names}), got {count}"
    )
    return LaunchError(f"{message}: without '{absent[0]}'" if absent else message, ORDER)


def argument_list(name: str, arguments: Any) -> tuple[Any, ...]:
    """The arguments in a sequence that is not a list or tuple. LaunchError for an array, whose enclosing brackets are
    probably missing."""
    if isinstance(arguments, array | np.ndarray | str | bytes) or not hasattr(arguments, "__iter__"):
        raise LaunchError(
            f"{name} must be a list of arguments, got {_kind(arguments)}",
            f"leave out {name}= if there are no arguments" if arguments is None else f"write {name}=[...]",
        )
    return tuple(arguments)


def _kind(x: object) -> str:
    return "None" if x is None else f"a value of type {type(x).__name__}"


def flattened_call(kernel: Kernel, *args: Any) -> FlattenedCall:
    """The kernel with constants and absent arrays bound, and the leaves of the other arguments of a launch.
    `args`: as for `arguments_of`."""
    constants = with_constants(kernel, *args)
    if not is_compound(constants.kernel, constants.arguments):
        return FlattenedCall(constants.kernel, constants.arguments)
    constants = with_constants(*flattened(constants.kernel, constants.arguments))
    return FlattenedCall(constants.kernel, constants.arguments)


def with_constants(kernel: Kernel, *values: Any) -> Bound:
    """The kernel with constants and absent arrays bound, and the other arguments of a launch. Absent arrays of a kernel
    with compound parameters are bound in its leaf kernel only, because structs may hold absent arrays too. `values`: as
    for `arguments_of`."""
    args = arguments_of(kernel, *values)
    if not kernel.takes_constants and not any(x is None for x in args):
        return Bound(kernel, args, range(len(args)))
    parameters = kernel.parameters
    constant_positions = kernel.constant_positions
    bound = [
        k
        for k, x in enumerate(args)
        if k in constant_positions or (x is None and _is_absent(parameters[k], x))
    ]
    if kernel.is_compound:
        bound = [k for k in bound if k in constant_positions]
    if not bound:
        return Bound(kernel, args, range(len(args)))
    remaining = [k for k in range(len(args)) if k not in bound]
    specialised = bind(kernel, {parameters[k].name: args[k] for k in bound})
    return Bound(specialised, tuple([args[k] for k in remaining]), remaining)


def leaf_call(kernel: Kernel, inputs: Any, outputs: Any) -> tuple[Kernel, Any]:
    """The leaf kernel and the leaf arguments of a launch, after binding of constants and flattening of compound
    arguments."""
    in_lists = type(inputs) in LISTS and type(outputs) in LISTS
    args = (*inputs, *outputs) if in_lists else arguments_of(kernel, inputs, outputs)
    if kernel.takes_constants:
        kernel, args, _ = with_constants(kernel, args)
    if type(kernel) is not GenericKernel:
        return kernel, args
    _check_devices(kernel, args)
    leaves = kernel.flatten_arguments(args)
    return (
        flattened(kernel, arguments_of(kernel, args))
        if leaves is None
        else (kernel.kernel_of_leaves(), leaves)
    )


def _check_devices(kernel: Kernel, args: Sequence[Any]) -> None:
    """Raise LaunchError for a spatial structure on another device than other arguments: kernels get its addresses."""
    structures = [x for x in args if isinstance(x, Structure)]
    for structure in structures:
        for x in args:
            if isinstance(x, array | Structure) and x.device != structure.device:
                what = f"a {structure.label} is on {structure.device}, and a {_label(x)} on {x.device}"
                raise LaunchError(f"kernel {kernel.name}: {what}", "create all arguments on one device")


def _label(x: array | Structure) -> str:
    return x.label if isinstance(x, Structure) else "tg.array"


class Pair(NamedTuple):
    """An argument with its gradient."""

    argument: Any
    gradient: Any


def leaf_arguments_with_gradients(
    kernel: Kernel, *values: tuple[Any, Any]
) -> tuple[Kernel, tuple[Any, ...], list[Any]]:
    """The kernel with constants and absent arrays bound, the leaves of its arguments, and a gradient or None for each.
    `values`: the inputs and the outputs, each with its gradients, as for `arguments_of`."""
    pairs = paired_arguments(kernel, *values)
    constants = with_constants(kernel, [x.argument for x in pairs])
    gradients = flattened_gradients(
        constants.kernel, constants.arguments, [pairs[k].gradient for k in constants.runtime_positions]
    )
    leaf_call = with_constants(*flattened(constants.kernel, constants.arguments))
    return leaf_call.kernel, leaf_call.arguments, [gradients[k] for k in leaf_call.runtime_positions]


def paired_arguments(kernel: Kernel | KernelChoice, *values: tuple[Any, Any]) -> list[Pair]:
    """The arguments in the order of the parameters, each with its gradient or None."""
    pairs = arguments_of(kernel, *[_paired(*value) for value in values])
    return [x if isinstance(x, Pair) else Pair(x, None) for x in pairs]


def _paired(arguments: Any, gradients: Any) -> Any:
    """Arguments with their gradients: by name if either is given by name, else by position."""
    if isinstance(arguments, Mapping):
        named = gradients if isinstance(gradients, Mapping) else {}
        if (gradients and not named) or named.keys() - arguments.keys():
            message = "gradients of arguments that are passed by name must have the same names"
            raise LaunchError(message, f"the arguments are {', '.join(map(str, arguments))}")
        return {name: Pair(x, named.get(name)) for name, x in arguments.items()}
    if isinstance(gradients, Mapping):
        raise LaunchError(
            "gradients are given by name, the arguments by position", "pass both by name or both by position"
        )
    if len(gradients) > len(arguments):
        help = "pass one gradient for each argument, or None for an argument without a gradient"
        raise LaunchError(f"{len(gradients)} gradients are given for {len(arguments)} arguments", help)
    return [Pair(x, gradients[k] if k < len(gradients) else None) for k, x in enumerate(arguments)]


def _is_absent(p: Parameter, x: Any) -> bool:
    """Whether None means an absent array."""
    return x is None and (
        p.annotation is ANY or isinstance(p.annotation, ArrayAnnotation | IndexedAnnotation)
    )


def bind(kernel: Kernel, values: Mapping[str, Any]) -> Kernel:
    """A kernel with values for some of its parameters; equal values give the same object. LaunchError for a value that
    a parameter does not accept."""
    try:
        existing = kernel.variants.get(tuple([(name, constant_key(x)) for name, x in values.items()]))
        if existing is not None:
            return existing
    except TypeError:
        pass  # unhashable: the check below raises the error
    parameters = {p.name: p for p in kernel.parameters}
    constants: dict[str, Any] = {}
    for name, x in values.items():
        if name not in parameters:
            raise LaunchError(
                f"kernel {kernel.name} has no parameter '{name}' to bind", suggestion(name, parameters)
            )
        p = parameters[name]
        if _is_absent(p, x):
            constants[name] = None
            continue
        if not takes_constant(p.annotation):
            help = "annotate the parameter with tg.constexpr"
            raise LaunchError(f"kernel {kernel.name}: parameter '{name}' takes no constant", help)
        try:
            constants[name] = check_constant(p, x)
        except InvalidConstant as error:
            message = f"kernel {kernel.name}: argument '{name}': {error.what}"
            raise LaunchError(message, error.help) from error.__cause__
    key = tuple([(name, constant_key(x)) for name, x in constants.items()])
    if key not in kernel.variants:
        kernel.variants[key] = variant(kernel, kernel.definition.bind(constants))
    bound = kernel.variants[key]
    kernel.variants[tuple([(name, constant_key(x)) for name, x in values.items()])] = bound
    return bound
