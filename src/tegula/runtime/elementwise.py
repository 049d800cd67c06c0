"""Kernels that apply an expression element by element, generated as source text.

An expression has fields for its inputs, as in "f({0}, {1})". An input is an array or a value. A dimension of length 1
is broadcast by reads of element 0, so that the gradient of the kernel is the sum over the dimension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.errors import LaunchError
from tegula.ir import LaunchClass
from tegula.lang.annotations import ArrayAnnotation, IndexedAnnotation
from tegula.lang.captures import Captured, unchanged
from tegula.lang.kernel import bound_types
from tegula.runtime.array import array
from tegula.runtime.indexed_array import indexedarray
from tegula.runtime.kernel import Kernel, kernel
from tegula.runtime.launch import launch
from tegula.runtime.library import library
from tegula.runtime.make_arrays import empty
from tegula.stdlib.registry import tg
from tegula.types import ArrayType, ElementType, element_type, int32, is_element, scalar_of

INDICES = ("i", "j", "k", "m")
BLOCK = 256


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a generated kernel: an array or a value. `indexed_dims`: for each dimension of an array, whether the
    thread index selects the element, or element 0 is broadcast; None for a value."""

    dtype: ElementType
    indexed_dims: tuple[bool, ...] | None = None
    indexed: bool = False

    @property
    def annotation(self) -> Any:
        """The annotation of the parameter."""
        if self.indexed_dims is None:
            return self.dtype
        array_type = ArrayAnnotation(self.dtype, len(self.indexed_dims))
        return IndexedAnnotation(array_type) if self.indexed else array_type

    @property
    def types(self) -> list[Any]:
        """The types of the launch arguments for the parameter."""
        if self.indexed_dims is None:
            return [self.dtype]
        indices = [ArrayType(int32, 1)] * len(self.indexed_dims) if self.indexed else []
        return [ArrayType(self.dtype, len(self.indexed_dims)), *indices]

    def read(self, name: str, rank: int) -> str:
        """The text of the element in a kernel of `rank` dimensions."""
        if self.indexed_dims is None:
            return name
        indices = INDICES[rank - len(self.indexed_dims) : rank]
        entries = (i if varies else "0" for i, varies in zip(indices, self.indexed_dims, strict=True))
        return f"{name}[{', '.join(entries)}]"


@dataclass(frozen=True, slots=True)
class Expression:
    """A computation on an element of each input. `text`: the expression, with fields for the elements; `bound`: the
    names in the text and their objects; `name`: the kernel's name."""

    name: str
    text: str
    bound: tuple[tuple[str, Any], ...] = ()


_cached_types: dict[Any, tuple[tuple[ElementType, ...], tuple[Captured, ...]]] = {}
MAX_CACHED_TYPES = 1024


def result_types(expression: Expression, inputs: tuple[Input, ...], rank: int) -> tuple[ElementType, ...]:
    """The element types of the results. LaunchError if a result is not an element type of arrays."""
    key = expression, inputs, rank
    cached = _cached_types.get(key)
    if cached is None or not all(map(unchanged, cached[1])):
        if len(_cached_types) >= MAX_CACHED_TYPES:
            _cached_types.clear()
        cached = _cached_types[key] = _traced_types(expression, inputs, rank)
    return cached[0]


def _traced_types(
    expression: Expression, inputs: tuple[Input, ...], rank: int
) -> tuple[tuple[ElementType, ...], tuple[Captured, ...]]:
    """The element types of the results, and the captured objects that they depend on."""
    names = _names(inputs)
    body = [f"_result = {_expression_text(expression, inputs, names, rank)}"]
    definition = _definition(expression, names, inputs, {}, rank, body).definition
    types = [t for i in inputs for t in i.types]
    launch = LaunchClass(rank, BLOCK, (False,) * rank, False, True)
    traced, captured = bound_types(definition, "_result", types, launch, library())
    return tuple(_result_type(expression, t) for t in traced), captured


def _result_type(expression: Expression, actual: Any) -> ElementType:
    if type(actual) in (bool, int, float):
        return element_type(type(actual))
    if is_element(actual):
        return actual
    raise LaunchError(
        f"{expression.name} returns {_type_text(actual)}, which is not an element of an array",
        "return numbers, vectors or matrices",
    )


def _type_text(actual: Any) -> str:
    return "nothing" if actual is None else f"a value of type {actual}"


@lru_cache(maxsize=1024)
def elementwise_kernel(
    expression: Expression,
    inputs: tuple[Input, ...],
    results: tuple[Input, ...],
    aliases: tuple[int | None, ...] = (),
) -> Kernel:
    """The kernel that writes the results. Its parameters are the inputs, then the results. `aliases`: for each input,
    the index of the result that is the same array, or None; the input and the result are then one parameter, at the
    position of the result."""
    rank = len(results[0].indexed_dims or ())
    aliases = aliases or (None,) * len(inputs)
    outputs = [f"result_{k}" for k in range(len(results))] if len(results) > 1 else ["result"]
    names = [n if s is None else outputs[s] for n, s in zip(_names(inputs), aliases, strict=True)]
    index = ", ".join(INDICES[:rank])
    value = _expression_text(expression, inputs, names, rank)
    targets = ", ".join(f"{name}_value" for name in outputs)
    body = [f"{targets} = {value}", *(f"{name}[{index}] = {name}_value" for name in outputs)]
    arguments = {n: i for n, i, s in zip(names, inputs, aliases, strict=True) if s is None}
    result_of = dict(zip(outputs, results, strict=True))
    return _definition(expression, list(arguments), tuple(arguments.values()), result_of, rank, body)


def _names(inputs: Sequence[Input]) -> list[str]:
    return [f"input_{k}" for k in range(len(inputs))] if len(inputs) > 1 else ["input"]


def _expression_text(expression: Expression, inputs: Sequence[Input], names: Sequence[str], rank: int) -> str:
    """The source text of the expression with its fields replaced by elements."""
    return expression.text.format(*(i.read(n, rank) for n, i in zip(names, inputs, strict=True)))


def _definition(
    expression: Expression,
    names: Sequence[str],
    inputs: Sequence[Input],
    outputs: Mapping[str, Input],
    rank: int,
    body: Sequence[str],
) -> Kernel:
    """The kernel whose body has the given lines for each element."""
    head = f"def {expression.name}({', '.join([*names, *outputs])}):"
    index = f"{', '.join(INDICES[:rank])} = tg.tid()"
    text = "\n".join([head, *(f"    {line}" for line in (index, *body))]) + "\n"
    namespace = {"tg": tg, **dict(expression.bound)}
    exec(compile(text, f"<{expression.name}>", "exec"), namespace)
    function: Any = namespace[expression.name]
    for name, description in [*zip(names, inputs, strict=True), *outputs.items()]:
        function.__annotations__[name] = description.annotation
    return kernel(source=text)(function)


# Launches ------------------------------------------------------------------------------------------------------------


def describe_input(value: Any, dtype: ElementType, shape: Sequence[int]) -> Input:
    """The description of an input that is broadcast to a shape."""
    if type(value) not in ARRAYS:
        return Input(dtype)
    extents = shape[len(shape) - value.ndim :]
    indexed_dims = tuple(n == m or n != 1 for n, m in zip(value.shape, extents, strict=True))
    return Input(dtype, indexed_dims, type(value) is indexedarray)


ARRAYS = (array, indexedarray)
"""The types of inputs that are read element by element."""


def broadcast(expression: Expression, arrays: Sequence[Any]) -> tuple[int, ...]:
    """The shape that arrays are broadcast to, by NumPy's rules; LaunchError for shapes that do not fit."""
    try:
        return np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise LaunchError(
            f"{expression.name}: arrays of shapes {shapes} cannot be broadcast together",
            "lengths must be equal or 1, from the last dimension on",
        ) from None


def apply(
    expression: Expression,
    inputs: Sequence[Any],
    dtypes: Sequence[ElementType],
    out: Sequence[Any] | None = None,
    block_dim: int | None = None,
) -> list[Any]:
    """Apply the expression to the elements of its inputs, of which one is an array unless `out` is given. `dtypes`: the
    dtype of each input; `out`: the arrays to write; by default new arrays, which have a gradient if an input has one
    and they are of floats."""
    arrays = [a for a in inputs if type(a) in ARRAYS]
    operands = [*arrays, *(out or ())]
    device, shape = operands[0].device, broadcast(expression, operands)
    for a in operands:
        if a.device != device:
            raise LaunchError(
                f"{expression.name}: arrays are on {device} and on {a.device}",
                "copy the arrays: a.to(device)",
            )
    for a in out or ():
        if a.shape != shape:
            raise LaunchError(
                f"{expression.name}: the result has shape {shape}, but the output array has shape {a.shape}",
                "pass an output array of the result's shape",
            )
    rank = len(shape)
    descriptions = tuple(describe_input(v, t, shape) for v, t in zip(inputs, dtypes, strict=True))
    if out is None:
        needs_grad = any(a.requires_grad for a in arrays)
        types = result_types(expression, descriptions, rank)
        out = [empty(shape, t, device, needs_grad and scalar_of(t).is_float) for t in types]
    aliases = tuple(next((k for k, o in enumerate(out) if _is_same_array(v, o)), None) for v in inputs)
    kernel = elementwise_kernel(
        expression, descriptions, tuple(describe_input(o, o.dtype, shape) for o in out), aliases
    )
    arguments = [v for v, s in zip(inputs, aliases, strict=True) if s is None]
    if 0 not in shape:
        launch(kernel, shape, arguments, list(out), block_dim=block_dim)
    return list(out)


def _is_same_array(value: Any, out: array) -> bool:
    if type(value) is not array or type(out) is not array:
        return value is out
    return (
        value is out
        or ((value.ptr, value.dtype, value.device) == (out.ptr, out.dtype, out.device))
        and value.description is out.description
    )
