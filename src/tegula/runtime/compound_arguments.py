"""Flattening of compound launch arguments (structs, arrays of structs, indexed arrays) to their leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tegula.errors import LaunchError
from tegula.lang.annotations import ANY, GENERIC, ArrayAnnotation, IndexedAnnotation, array_annotation
from tegula.runtime.argument_flattening import has_leaves
from tegula.runtime.array import array
from tegula.runtime.indexed_array import indexedarray
from tegula.runtime.kernel import Kernel
from tegula.runtime.resolve import argument_count_error
from tegula.structs import Struct, StructType
from tegula.types import ArrayType


def flattened(kernel: Kernel, args: tuple[Any, ...]) -> tuple[Kernel, tuple[Any, ...]]:
    """The leaf kernel and the arguments, one for each leaf. A kernel with unannotated parameters is specialised for the
    structs and indexed arrays among the arguments. LaunchError for arguments that do not fit."""
    if not is_compound(kernel, args):
        return kernel, args
    written = kernel.definition.parameters
    if len(args) != len(written):
        raise argument_count_error(kernel, written, len(args))
    structs = [_effective_annotation(p.annotation, x) for p, x in zip(written, args, strict=True)]
    declared = all(t is p.annotation for t, p in zip(structs, written, strict=True))
    leaf_kernel = kernel.kernel_of_leaves(None if declared else tuple(structs))
    try:
        leaves = [
            leaf
            for p, t, x in zip(written, structs, args, strict=True)
            for leaf in argument_leaves(t, x, p.name)
        ]
    except LaunchError as error:
        raise LaunchError(f"kernel {kernel.name}: {error.message}", error.help) from error.__cause__
    return leaf_kernel, tuple(leaves)


def is_compound(kernel: Kernel, args: Sequence[Any]) -> bool:
    """Whether a parameter of a kernel, or one of the arguments, is compound."""
    return kernel.is_compound or bool([x for x in args if has_leaves(x)])


def _effective_annotation(annotation: Any, x: Any) -> Any:
    """The annotation of a parameter for an argument: the declared annotation, or the annotation of the argument's
    struct or indexed array."""
    if annotation is ANY and isinstance(x, Struct):
        return x.type
    if annotation is ANY and isinstance(x, indexedarray):
        return IndexedAnnotation(ArrayAnnotation(ANY, x.ndim))
    is_open = annotation is ANY or (isinstance(annotation, ArrayAnnotation) and annotation.dtype is ANY)
    if is_open and isinstance(x, array) and isinstance(x.dtype, StructType):
        return array_annotation(x.dtype, x.ndim)
    return annotation


def argument_leaves(struct: Any, x: Any, name: str) -> Iterator[Any]:
    """The leaves of an argument. LaunchError for an argument that does not fit."""
    if isinstance(struct, StructType):
        x = x.in_kernels() if getattr(type(x), GENERIC, None) is struct else x
        if not isinstance(x, Struct) or x.type is not struct:
            described = x.type.name if isinstance(x, Struct) else _named(x)
            if isinstance(x, Struct) and described == struct.name:
                raise _of_another_definition(name, struct)
            message = f"argument '{name}': expected a value of the struct {struct}, got {described}"
            raise LaunchError(message, f"create one with {struct}()")
        for leaf in struct.leaves:
            yield from argument_leaves(leaf.type, x.leaf(leaf), f"{name}.{leaf.name}")
    elif isinstance(struct, ArrayAnnotation) and isinstance(struct.dtype, StructType):
        if x is None:
            yield from (None for _ in struct.dtype.leaves)
            return
        if isinstance(x, np.ndarray) and x.dtype == struct.dtype.numpy_dtype():
            x = array(x, dtype=struct.dtype, copy=False)
        if not isinstance(x, array) or x.dtype is not struct.dtype or x.ndim != struct.ndim:
            dtype = x.dtype if isinstance(x, array) else None
            if (
                isinstance(dtype, StructType)
                and dtype is not struct.dtype
                and dtype.name == struct.dtype.name
            ):
                raise _of_another_definition(name, struct.dtype)
            actual = ArrayType(x.dtype, x.ndim) if isinstance(x, array) else _named(x)
            message = f"argument '{name}': expected {struct}, got {actual}"
            raise LaunchError(message, f"create the array with tg.array(..., dtype={struct.dtype})")
        yield from x.leaves
    elif isinstance(struct, IndexedAnnotation):
        if x is None:
            yield from (None for _ in range(1 + struct.ndim))
            return
        if not isinstance(x, indexedarray | array):
            message = f"argument '{name}': expected {struct}, got {type(x).__name__}"
            raise LaunchError(message, "create one with tg.indexedarray(data, [indices])")
        if x.ndim != struct.array.ndim:
            message = f"argument '{name}': expected {struct}, got one with {x.ndim}"
            raise LaunchError(message, f"pass one with {struct.array.ndim} dimensions")
        yield from (indexedarray(x) if isinstance(x, array) else x).parts
    elif isinstance(x, indexedarray):
        message = f"argument '{name}' is an indexed array, but the parameter is not annotated as one"
        help = f"annotate it with tg.indexedarray{x.ndim}d[...], or pass a copy: a.contiguous()"
        raise LaunchError(message, help)
    else:
        yield x


def _gradient_leaves(struct: Any, grad: Any, name: str) -> Iterator[Any]:
    """The gradients for the leaves of an argument; None for index arrays."""
    if isinstance(struct, IndexedAnnotation):
        yield grad.data if isinstance(grad, indexedarray) else grad
        yield from (None for _ in range(struct.ndim))
    else:
        yield from argument_leaves(struct, grad, name)


def flattened_gradients(kernel: Kernel, args: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
    """The gradients of arguments, one or None for each leaf."""
    if not is_compound(kernel, args):
        return [*grads]
    gradients: list[Any] = []
    for p, x, grad in zip(kernel.definition.parameters, args, grads, strict=False):
        t = _effective_annotation(p.annotation, x)
        count = len([*argument_leaves(t, x, p.name)])
        gradients += _gradient_leaves(t, grad, p.name) if grad is not None else [None] * count
    return gradients


def _of_another_definition(name: str, struct: StructType) -> LaunchError:
    """The error for an argument of a struct that has the name of the parameter's struct."""
    message = (
        f"argument '{name}' is of another struct {struct.name} than the one that annotates the parameter"
    )
    help = f"after {struct.name} is defined again, define again the kernels that it annotates, and make new values"
    return LaunchError(message, help)


def _named(x: Any) -> str:
    """The name of an argument's type in messages."""
    dtype, shape = getattr(x, "dtype", None), getattr(x, "shape", None)
    if isinstance(x, np.generic) or dtype is None or shape is None:
        return type(x).__name__
    return f"array{len(shape)}d[{dtype}]"
