"""Indexed arrays as parameters of kernels: a launch passes the array and the index array of each dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

from tegula.ir import Value
from tegula.lang.annotations import ANY, ArrayAnnotation, IndexedAnnotation
from tegula.lang.definition import Definition, FuncDef
from tegula.lang.overloads import Parameter
from tegula.ops.build_by_index import IndexedArray
from tegula.types import int32


def passed(parameters: Sequence[Parameter]) -> list[Parameter]:
    """The parameters, with those of indexed arrays as the parameters of the arrays that these are made of."""
    if not any(isinstance(p.annotation, IndexedAnnotation) for p in parameters):
        return list(parameters)
    return [part for p in parameters for part in _parts(p)]


def _parts(p: Parameter) -> list[Parameter]:
    if not isinstance(p.annotation, IndexedAnnotation):
        return [p]
    index = ArrayAnnotation(int32, 1)
    names = [f"{p.name}_indices_{d}" for d in range(p.annotation.array.ndim)]
    return [Parameter(p.name, p.annotation.array), *(Parameter(name, index) for name in names)]


def indexed(p: Parameter, ndim: int) -> Parameter:
    """A parameter without annotation as that of an indexed array of any dtype."""
    return Parameter(p.name, IndexedAnnotation(ArrayAnnotation(ANY, ndim)), p.default, p.by_name)


def bound(parameters: Sequence[Parameter], values: Sequence[Value]) -> dict[str, Value]:
    """What the names of parameters stand for in a kernel. `values`: one for each that is passed."""
    for p, value in zip(passed(parameters), values, strict=True):
        value.name = p.name
    rest: Iterator[Value] = iter(values)
    return {p.name: _bound(p, rest) for p in parameters}


def _bound(p: Parameter, rest: Iterator[Value]) -> Value:
    data = next(rest)
    if not isinstance(p.annotation, IndexedAnnotation):
        return data
    return IndexedArray(data, [next(rest) for _ in range(p.annotation.array.ndim)])


@cache
def program(name: str) -> FuncDef:
    """The program that moves tiles in one way."""
    from tegula.stdlib import indexed_tiles

    function: Callable[..., None] = getattr(indexed_tiles, name)
    return FuncDef(Definition(function, library=True))
