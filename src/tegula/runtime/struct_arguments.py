"""Arguments of launches that are structs, or arrays of structs, as the arguments of their leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tegula.errors import LaunchError
from tegula.lang.annotations import ANY, ArrayAnnotation, array_annotation
from tegula.runtime.array import array
from tegula.runtime.kernel import Kernel
from tegula.runtime.resolve import wrong_count
from tegula.structs import Struct, StructType


def flattened(kernel: Kernel, args: tuple[Any, ...]) -> tuple[Kernel, tuple[Any, ...]]:
    """The kernel and the arguments to launch it with: one for each leaf of structs. A kernel with parameters of any
    type becomes one for the structs that it is given. LaunchError for arguments that do not fit."""
    if not (kernel.has_structs or have_structs(args)):
        return kernel, args
    written = kernel.definition.parameters
    if len(args) != len(written):
        raise wrong_count(kernel, written, len(args))
    wanted = [_wanted(p.annotation, x) for p, x in zip(written, args, strict=True)]
    if any(t is not p.annotation for t, p in zip(wanted, written, strict=True)):
        kernel = kernel.for_types(tuple(wanted))
    try:
        found = [
            leaf
            for p, t, x in zip(written, wanted, args, strict=True)
            for leaf in argument_leaves(t, x, p.name)
        ]
    except LaunchError as error:
        raise LaunchError(f"kernel {kernel.name}: {error.message}", error.help) from error.__cause__
    return kernel, tuple(found)


def have_structs(args: Sequence[Any]) -> bool:
    """Whether a struct or an array of structs is among the arguments."""
    return bool(
        [x for x in args if (type(x.dtype) is StructType if type(x) is array else isinstance(x, Struct))]
    )


def _wanted(annotation: Any, x: Any) -> Any:
    """The annotation that a parameter has for an argument: where it says nothing, that of the argument's struct."""
    if annotation is ANY and isinstance(x, Struct):
        return x.type
    is_open = annotation is ANY or (isinstance(annotation, ArrayAnnotation) and annotation.dtype is ANY)
    if is_open and isinstance(x, array) and isinstance(x.dtype, StructType):
        return array_annotation(x.dtype, x.ndim)
    return annotation


def argument_leaves(wanted: Any, x: Any, name: str) -> Iterator[Any]:
    """The arguments for the leaves of an argument. LaunchError for one that is not of the struct."""
    if isinstance(wanted, StructType):
        if not isinstance(x, Struct) or x.type is not wanted:
            given = x.type.name if isinstance(x, Struct) else _named(x)
            what = f"argument '{name}': expected a value of the struct {wanted}, got {given}"
            raise LaunchError(what, f"make one with {wanted}()")
        for leaf in wanted.leaves:
            yield from argument_leaves(leaf.type, x.leaf(leaf), f"{name}.{leaf.name}")
    elif isinstance(wanted, ArrayAnnotation) and isinstance(wanted.dtype, StructType):
        if x is None:
            yield from (None for _ in wanted.dtype.leaves)
            return
        if isinstance(x, np.ndarray) and x.dtype == wanted.dtype.numpy_dtype():
            x = array(x, dtype=wanted.dtype, copy=False)
        if not isinstance(x, array) or x.dtype is not wanted.dtype or x.ndim != wanted.ndim:
            found = f"array<{x.dtype},{x.ndim}>" if isinstance(x, array) else _named(x)
            what = f"argument '{name}': expected {wanted}, got {found}"
            raise LaunchError(what, f"make it with tg.array(..., dtype={wanted.dtype})")
        yield from x.leaves
    else:
        yield x


def flattened_gradients(kernel: Kernel, args: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
    """The gradients of arguments, one for each leaf; None where there is none."""
    if not (kernel.has_structs or have_structs(args)):
        return [*grads]
    found: list[Any] = []
    for p, x, grad in zip(kernel.definition.parameters, args, grads, strict=False):
        t = _wanted(p.annotation, x)
        count = len([*argument_leaves(t, x, p.name)])
        found += argument_leaves(t, grad, p.name) if grad is not None else [None] * count
    return found


def _named(x: Any) -> str:
    """The type's name of an argument in messages."""
    dtype, shape = getattr(x, "dtype", None), getattr(x, "shape", None)
    if isinstance(x, np.generic) or dtype is None or shape is None:
        return type(x).__name__
    return f"array{len(shape)}d[{dtype}]"
