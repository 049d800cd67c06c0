"""The fast path of a launch: a function generated for the parameters of one kernel.

The function handles the common arguments of launches (tg.arrays that share no bytes, known tensors, plain numbers,
vectors and matrices) for compiled forms of the kernel. `resolve` handles all other cases, including errors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from tegula.composite import Matrix, Vector
from tegula.lang.annotations import ArrayAnnotation
from tegula.lang.definition import Parameter
from tegula.runtime.array import array
from tegula.runtime.config import config, modes
from tegula.runtime.pack import FORMATS
from tegula.types import DType, MatType, VecType, element_bytes

if TYPE_CHECKING:
    from tegula.runtime.compile import Compiled
    from tegula.runtime.cuda.compile import CudaCompiled
    from tegula.runtime.launch import LaunchPlan

    Form = Compiled | CudaCompiled

Ready = dict[tuple[Any, ...], "Form"]
"""Compiled forms, by the results of `key`."""
FastPath = Callable[[Any, Sequence[Any]], "tuple[Form, bytes, bool] | None"]
"""A function that returns the form, its packed arguments, and whether an argument is another library's array, or None
for the slow path."""
FOREIGN: dict[type, Callable[[Any, Any], array]] = {}
"""For each type of another library's arrays, the function that finds the Tegula array of an argument, which may have a
vector or matrix type; KeyError if there is none."""

MAX_ARRAYS = 10
"""The maximum number of arrays of kernels with a fast path, which compares pairs of arrays in straight-line code."""

MAX_ENTRIES = 4096
"""The maximum number of entries of a cache of launches, whose keys contain the grid."""

_TEXT = """
def fast_path(plan, args):
    try:
        {names} = args
        has_foreign = False
        {adopted}if {conditions}:
            form = ready[{key}]
            for fetch, name, value in form.captured:
                if fetch(name) is not value:
                    return None
            return form, pack({values}) + plan.packed, has_foreign
    except failures:
        pass
    return None
"""
_ADOPTION = """if type({name}) is not array:
            {name} = foreign[type({name})]({name}, t{k})
            has_foreign = True
        """
_KINDS = {1: "Vector", 2: "Matrix"}
_FAILURES = (KeyError, AttributeError, ValueError, TypeError, OverflowError, struct.error)


def key(plan: LaunchPlan, arrays: Sequence[int]) -> tuple[Any, ...]:
    """The key of a form on the fast path: the launch class, the grid, the modes, and the launch ids of the arrays."""
    return (plan.launch_id, plan.grid, config.code, *arrays)


def put_bounded(cache: dict[Any, Any], key: object, value: Any) -> None:
    """Put an entry into a cache, which is emptied first if it is full."""
    if len(cache) >= MAX_ENTRIES:
        cache.clear()
    cache[key] = value


def make_fast_path(parameters: Sequence[Parameter], ready: Ready) -> FastPath:
    """The fast path for a kernel; a function that always returns None if a parameter is of an unsupported kind.

    The key contains the specialisations of the arrays, so that annotations of arrays are not compared again."""
    arrays: list[str] = []
    adopted: list[str] = []
    conditions: list[str] = []
    scope: dict[str, Any] = {}
    values: list[str] = []
    layout = "<"
    for k, p in enumerate(parameters):
        name, annotation = f"a{k}", p.annotation
        if isinstance(annotation, ArrayAnnotation) and isinstance(annotation.ndim, int):
            arrays.append(name)
            adopted.append(_ADOPTION.format(name=name, k=k))
            scope[f"t{k}"] = annotation.dtype if isinstance(annotation.dtype, VecType | MatType) else None
            values.append(f"{name}.packed")
            layout += f"{8 + 16 * annotation.ndim}s"
        elif isinstance(annotation, DType) and annotation.name in FORMATS:
            conditions.append(_number_test(name, annotation))
            values.append(name)
            layout += f"{FORMATS[annotation.name]}{8 - annotation.bits // 8}x"
        elif isinstance(annotation, VecType | MatType):
            conditions.append(f"type({name}) is {_KINDS[len(annotation.extents)]} and {name}.type == t{k}")
            scope[f"t{k}"] = annotation
            values.append(f"{name}.numpy().tobytes()")
            layout += f"{-(-element_bytes(annotation) // 8) * 8}s"
        else:
            return _unsupported
    if len(arrays) > MAX_ARRAYS:
        return _unsupported
    # Leaves of an array of structs are interleaved.
    owners = {f"a{k}": p.columns_of for k, p in enumerate(parameters)}
    pairs = ((a, b) for a, b in combinations(arrays, 2) if not owners[a] or owners[a] != owners[b])
    conditions += [f"({a}.low >= {b}.high or {b}.low >= {a}.high)" for a, b in pairs]
    ids = "".join(f", {a}.launch_id" for a in arrays)
    text = _TEXT.format(
        names="".join(f"a{k}, " for k in range(len(parameters))) or "()",
        adopted="".join(adopted),
        conditions=" and ".join(conditions) or "True",
        key=f"plan.launch_id, plan.grid, modes[0]{ids}",
        values=", ".join(values),
    )
    scope |= {"ready": ready, "modes": modes, "pack": struct.Struct(layout).pack, "failures": _FAILURES}
    scope |= {"array": array, "foreign": FOREIGN, "Vector": Vector, "Matrix": Matrix}
    exec(compile(text, f"<launch of {len(parameters)} arguments>", "exec"), scope)
    return scope["fast_path"]


def _unsupported(plan: Any, args: Sequence[Any]) -> None:
    return None


def _number_test(name: str, dtype: DType) -> str:
    """The source text of a test for plain numbers that the type represents; struct refuses numbers out of range."""
    if dtype.is_bool:
        return f"type({name}) is bool"
    if dtype.is_int:
        return f"type({name}) is int"
    return f"(type({name}) is float or type({name}) is int)"
