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
from tegula.runtime.structures import Structure
from tegula.structs import Struct, StructType
from tegula.types import ArrayType


def flattened(kernel: Kernel, args: tuple[Any, ...]) -> tuple[Kernel, tuple[Any, ...]]:
    """The leaf kernel and the arguments, one for each leaf. A kernel with unannotated parameters is specialised for the
    structs and indexed arrays among the arguments. LaunchError for arguments that do not fit."""
    if not is_compound(kernel, args):
        return kernel, args
    parameters = kernel.definition.parameters
    if len(args) != len(parameters):
        raise argument_count_error(kernel, parameters, len(args))
    annotations = [_effective_annotation(p.annotation, x) for p, x in zip(parameters, args, strict=True)]
    is_declared = all(t is p.annotation for t, p in zip(annotations, parameters, strict=True))
    leaf_kernel = kernel.kernel_of_leaves(None if is_declared else tuple(annotations))
    try:
        leaves = [
            leaf
            for p, t, x in zip(parameters, annotations, args, strict=True)
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
    struct, spatial structure or indexed array."""
    if annotation is ANY and isinstance(x, Struct):
        return x.type
    if annotation is ANY and isinstance(x, Structure):
        return getattr(type(x), GENERIC)
    if annotation is ANY and isinstance(x, indexedarray):
        return IndexedAnnotation(ArrayAnnotation(ANY, x.ndim))
    is_open = annotation is ANY or (isinstance(annotation, ArrayAnnotation) and annotation.dtype is ANY)
    if is_open and isinstance(x, array) and isinstance(x.dtype, StructType):
        return array_annotation(x.dtype, x.ndim)
    return annotation


def argument_leaves(annotation: Any, x: Any, name: str) -> Iterator[Any]:
    """The leaves of an argument. LaunchError for an argument that does not fit."""
    if isinstance(annotation, StructType):
        x = x.in_kernels() if getattr(type(x), GENERIC, None) is annotation else x
        if not isinstance(x, Struct) or x.type is not annotation:
            described = x.type.name if isinstance(x, Struct) else _named(x)
            if isinstance(x, Struct) and described == annotation.name:
                raise _other_definition_error(name, annotation)
            if annotation.__module__.startswith("tegula."):
                message = f"argument '{name}': expected a tg.{annotation}, got {described}"
                raise LaunchError(
                    message,
                    f"pass a tg.{annotation}, or annotate the parameter with tg.uint64 and pass an id",
                )
            message = f"argument '{name}': expected a value of the struct {annotation}, got {described}"
            raise LaunchError(message, f"create a value with {annotation}()")
        for leaf in annotation.leaves:
            yield from argument_leaves(leaf.type, x.leaf(leaf), f"{name}.{leaf.name}")
    elif isinstance(annotation, ArrayAnnotation) and isinstance(annotation.dtype, StructType):
        if x is None:
            yield from (None for _ in annotation.dtype.leaves)
            return
        if isinstance(x, np.ndarray) and x.dtype == annotation.dtype.numpy_dtype():
            x = array(x, dtype=annotation.dtype, copy=False)
        if not isinstance(x, array) or x.dtype is not annotation.dtype or x.ndim != annotation.ndim:
            dtype = x.dtype if isinstance(x, array) else None
            if (
                isinstance(dtype, StructType)
                and dtype is not annotation.dtype
                and dtype.name == annotation.dtype.name
            ):
                raise _other_definition_error(name, annotation.dtype)
            actual = ArrayType(x.dtype, x.ndim) if isinstance(x, array) else _named(x)
            message = f"argument '{name}': expected {annotation}, got {actual}"
            raise LaunchError(message, f"create the array with tg.array(..., dtype={annotation.dtype})")
        yield from x.leaves
    elif isinstance(annotation, IndexedAnnotation):
        if x is None:
            yield from (None for _ in range(1 + annotation.ndim))
            return
        if not isinstance(x, indexedarray | array):
            message = f"argument '{name}': expected {annotation}, got {type(x).__name__}"
            raise LaunchError(message, "create one with tg.indexedarray(data, [indices])")
        if x.ndim != annotation.array.ndim:
            message = (
                f"argument '{name}': expected {annotation}, got an indexed array with {x.ndim} dimensions"
            )
            raise LaunchError(message, f"pass an indexed array with {annotation.array.ndim} dimensions")
        yield from (indexedarray(x) if isinstance(x, array) else x).parts
    elif isinstance(x, indexedarray):
        message = f"argument '{name}' is an indexed array, but the parameter is not annotated as one"
        help = f"annotate the parameter with tg.indexedarray{x.ndim}d[...], or pass a copy: a.contiguous()"
        raise LaunchError(message, help)
    else:
        yield x


def _gradient_leaves(annotation: Any, grad: Any, name: str) -> Iterator[Any]:
    """The gradients for the leaves of an argument; None for index arrays."""
    if isinstance(annotation, IndexedAnnotation):
        yield grad.data if isinstance(grad, indexedarray) else grad
        yield from (None for _ in range(annotation.ndim))
    else:
        yield from argument_leaves(annotation, grad, name)


def flattened_gradients(kernel: Kernel, args: Sequence[Any], grads: Sequence[Any]) -> list[Any]:
    """The gradients of arguments, one or None for each leaf."""
    if not is_compound(kernel, args):
        return [*grads]
    gradients: list[Any] = []
    for p, x, grad in zip(kernel.definition.parameters, args, grads, strict=False):
        annotation = _effective_annotation(p.annotation, x)
        count = len([*argument_leaves(annotation, x, p.name)])
        gradients += _gradient_leaves(annotation, grad, p.name) if grad is not None else [None] * count
    return gradients


def _other_definition_error(name: str, struct: StructType) -> LaunchError:
    """The error for an argument of a struct that has the name of the parameter's struct."""
    message = f"argument '{name}' has a struct {struct.name} that is not the struct of the annotation"
    help = f"after a new definition of {struct.name}, define its kernels again and create new values"
    return LaunchError(message, help)


def _named(x: Any) -> str:
    """The name of an argument's type in messages."""
    dtype, shape = getattr(x, "dtype", None), getattr(x, "shape", None)
    if isinstance(x, np.generic) or dtype is None or shape is None:
        return type(x).__name__
    return f"array{len(shape)}d[{dtype}]"
