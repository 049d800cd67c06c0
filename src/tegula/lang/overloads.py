"""Overload resolution: the definition of a function that fits the arguments of a call, in kernels and in Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.lang.annotations import ANY, Annotation, ArrayAnnotation, StackAnnotation, TileAnnotation
from tegula.signature import (
    ConstantPattern,
    ElementPattern,
    SignatureMismatch,
    TileArgument,
    TilePattern,
    Unifier,
)
from tegula.structs import StructType
from tegula.types import (
    BufType,
    DType,
    MatType,
    TileType,
    Type,
    VecType,
    bool_,
    float32,
    from_numpy,
    int32,
    is_element,
)

NO_DEFAULT: Any = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: its name, resolved annotation (ANY where there is none) and default value. `keyword_only`:
    keyword-only;
    `columns_of`: the array of structs of which the parameter is a leaf; `changed`: the parameter's final value is
    assigned to the variable that is passed for it."""

    name: str
    annotation: Annotation
    default: Any = NO_DEFAULT
    keyword_only: bool = False
    columns_of: str = ""
    changed: bool = False

    @property
    def expected(self) -> str:
        """The text of the parameter's type in messages."""
        if self.annotation is ANY:
            return "anything"
        return str(getattr(self.annotation, "__name__", self.annotation))


def count_text(n: int, noun: str) -> str:
    """A count as text: `1 argument`, `2 arguments`, `no arguments`."""
    return f"{n or 'no'} {noun}{'' if n == 1 else 's'}"


def bind_arguments(
    name: str,
    parameters: Sequence[Parameter],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    default: Callable[[Parameter], Any] = lambda p: p.default,
) -> list[Any]:
    """The arguments in the order of the parameters; TypeError if they do not fit. `default` gives the value of an
    omitted parameter with a default."""
    positional = [p for p in parameters if not p.keyword_only]
    if len(args) > len(positional):
        raise TypeError(f"{name} takes {count_text(len(positional), 'argument')}, got {len(args)}")
    bound = {p.name: x for p, x in zip(positional, args, strict=False)}
    known = {p.name for p in parameters}
    for key in kwargs:
        if key not in known or key in bound:
            message = f"got two values for '{key}'" if key in bound else f"has no parameter '{key}'"
            raise TypeError(f"{name} {message}")
    out: list[Any] = []
    for p in parameters:
        if p.name in bound or p.name in kwargs:
            out.append(bound[p.name] if p.name in bound else kwargs[p.name])
        elif p.default is not NO_DEFAULT:
            out.append(default(p))
        else:
            raise TypeError(f"{name} lacks argument '{p.name}'")
    return out


class Callee:
    """A placeholder for any function or dtype when arguments are matched with parameters."""


CALLEE = Callee()
EXACT, LITERAL, WIDER_LITERAL, GENERIC, OUT_OF_RANGE = range(5)
GENERAL = LITERAL
"""The costs of an argument: the parameter's type exactly; a literal of its default type; a literal of another type of
its kind; a parameter of any type; a literal out of the type's range; a struct for the general struct of its kind."""


def first_misfit(parameters: Sequence[Parameter], types: Sequence[Any]) -> int | None:
    """The index of the first argument that does not fit its parameter; None if all fit. The letters and classes of
    dtypes in the patterns of tiles are the same in all parameters."""
    unifier = Unifier()
    for k, (p, t) in enumerate(zip(parameters, types, strict=True)):
        if match_cost(p.annotation, t) is None:
            return k
        if isinstance(p.annotation, TilePattern):
            try:
                unifier.tiles([(p.name, p.annotation, TileArgument(t.dtype, t.shape))])
            except SignatureMismatch:
                return k
    return None


def match_cost(annotation: Annotation, x: Any) -> int | None:
    """The cost of an argument for an annotation; None if it does not fit.

    `x`: the type of a value, CALLEE for a function or a dtype, or a Python number or another constant itself."""
    if annotation is ANY:
        return GENERIC
    if is_element(annotation):
        return _match_element(annotation, x)
    if isinstance(annotation, ElementPattern):
        if isinstance(x, int | float):
            return _match_element(annotation.of, x)
        return EXACT if annotation.matches(x) else None
    if isinstance(annotation, StructType):
        return (
            EXACT
            if x is annotation
            else GENERAL
            if isinstance(x, StructType) and x.general is annotation
            else None
        )
    if isinstance(annotation, ConstantPattern):
        return _match_constant(annotation, x)
    if isinstance(annotation, TilePattern):
        return EXACT if isinstance(x, TileType | BufType) else None
    if isinstance(annotation, ArrayAnnotation | TileAnnotation | StackAnnotation):
        absent = x is None and isinstance(annotation, ArrayAnnotation)
        return EXACT if absent or annotation.matches(x) else None
    if isinstance(annotation, type) and not isinstance(x, Callee) and isinstance(x, annotation):
        return EXACT
    if not isinstance(annotation, type) or annotation is Callable:
        return LITERAL if isinstance(x, Callee) else None
    return None


def _match_constant(pattern: ConstantPattern, x: Any) -> int | None:
    """The cost of an argument for a parameter that takes a constant, which may be restricted to a type."""
    if isinstance(x, Type):
        return None
    if pattern.kind is object:
        return GENERIC
    fits = isinstance(x, Callee) and pattern.kind in (type, Callable)
    return EXACT if fits or pattern.has(x) else None


def _match_element(annotation: Any, x: Any) -> int | None:
    if is_element(x):
        return EXACT if x == annotation else None
    if not isinstance(annotation, DType) or not isinstance(x, bool | int | float):
        return None
    if isinstance(x, bool):
        return LITERAL if annotation == bool_ else None
    if isinstance(x, int):
        if not annotation.is_int:
            return None
        low, width = (-(1 << (annotation.bits - 1)) if annotation.is_signed else 0), 1 << annotation.bits
        return (LITERAL if annotation == int32 else WIDER_LITERAL) + (
            0 if low <= x < low + width else OUT_OF_RANGE
        )
    return (LITERAL if annotation == float32 else WIDER_LITERAL) if annotation.is_float else None


def constant_type(x: np.generic | np.ndarray) -> Type | None:
    """The type in kernels of a NumPy number, or of a NumPy array of one or two dimensions as a vector or matrix; None
    if there is none."""
    try:
        scalar = from_numpy(x.dtype)
    except ValueError:
        return None
    if isinstance(x, np.generic) or x.ndim == 0:
        return scalar
    return (
        VecType(x.shape[0], scalar)
        if x.ndim == 1
        else MatType(x.shape[0], x.shape[1], scalar)
        if x.ndim == 2
        else None
    )


def call_cost(
    parameters: Sequence[Parameter], types: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> int | None:
    """The cost of a call's arguments for parameters, without the cost of defaults; None if the arguments do not fit.
    `types`: the arguments and the defaults as inputs of `match_cost`, in the order of the parameters."""
    positional = [p.name for p in parameters if not p.keyword_only]
    bound = {*positional[: len(args)], *kwargs}
    total = 0
    for p, x in zip(parameters, types, strict=True):
        cost = match_cost(p.annotation, x)
        if cost is None:
            return None
        total += cost if p.name in bound else 0
    return total


__all__ = [
    "CALLEE",
    "NO_DEFAULT",
    "Parameter",
    "bind_arguments",
    "call_cost",
    "constant_type",
    "count_text",
    "match_cost",
]
