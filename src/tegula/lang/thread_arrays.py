"""Arrays of one thread, `tg.zeros(...)` in a kernel, that are passed to functions.

In the IR such an array is a vector or a matrix, a value. In the language a function that assigns its elements changes
the array of the caller, as with arrays in memory; a row or a slice, which would be a view, is a copy that cannot be
changed. The builder knows the values that are such arrays, a frame the names that are bound to them. The final value
of a parameter is bound to the variable that was passed (`lang/in_out.py`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from tegula.ir import TypeRule, Value
from tegula.lang.annotations import ArrayAnnotation
from tegula.ops.builder import OpBuilder, ThreadArray
from tegula.types import ArrayType, MatType, VecType


def kind_of(b: OpBuilder, x: Any) -> Any:
    """The kind of an array of a thread, for a tuple the kinds of its parts; None for other values."""
    if isinstance(x, tuple):
        kinds = tuple(kind_of(b, part) for part in x)
        return kinds if any(kinds) else None
    return b.thread_arrays.get(x) if isinstance(x, Value) else None


def mark(b: OpBuilder, x: Any, kind: Any) -> None:
    """Record that a value is an array of a thread, or that the parts of a tuple are."""
    if isinstance(x, tuple) and isinstance(kind, tuple):
        for part, part_kind in zip(x, kind, strict=False):
            mark(b, part, part_kind)
    elif kind and isinstance(x, Value):
        b.thread_arrays[x] = kind


def mark_part(b: OpBuilder, owner: Any, index: Sequence[Any], part: Any) -> None:
    """Record that a subscript of an array of a thread is a copy of several of its elements."""
    kind = kind_of(b, owner)
    if kind and isinstance(part, Value) and isinstance(part.type, VecType | MatType):
        is_element = kind is ThreadArray.OF_VECTORS and len(index) == 1 and not isinstance(index[0], slice)
        if not is_element:
            b.thread_arrays[part] = ThreadArray.COPY


def check_changed(kind: Any, name: str) -> None:
    """Raise TypeRule if a name, whose elements are assigned, is bound to a part of an array of a thread."""
    if kind is ThreadArray.COPY:
        message = f"'{name}' is a copy of a part of an array of a thread, which cannot be changed"
        help = "assign elements of the array itself, as in a[i, j] = x, or make a vector: tg.vector(...)"
        raise TypeRule(message, help)


def as_argument(b: OpBuilder, annotation: Any, x: Any, otherwise: Any) -> Any:
    """The type of an argument for `overloads.match_cost`: an array of a thread fits the parameters that arrays fit."""
    kind = kind_of(b, x) if isinstance(annotation, ArrayAnnotation) else None
    if not kind or kind is ThreadArray.COPY:
        return otherwise
    t = x.type
    if kind is ThreadArray.OF_VECTORS:
        return ArrayType(VecType(t.cols, t.dtype), 1)
    return ArrayType(t.dtype, len(t.extents))


def changed_arrays(
    b: OpBuilder, args: Mapping[str, Any], final_values: Mapping[str, Any], parameters: Collection[str]
) -> Iterator[str]:
    """The parameters whose arguments are arrays of a thread that a function has changed.

    Parameters:
        args, ends: the first and the final values of the parameters, by name.
        parameters: the names of those whose elements the function may assign."""
    for name in parameters:
        kind = kind_of(b, args[name])
        if isinstance(kind, ThreadArray) and final_values[name] is not args[name]:
            check_changed(kind, name)
            yield name
