"""Fast flattening of a kernel's compound arguments to the arguments of its leaf kernel, by a generated function.

The function handles values of the declared structs, arrays of them and indexed arrays, and leaves all other cases,
including errors, to `runtime.compound_arguments`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from tegula.lang.annotations import ANY, GENERIC, ArrayAnnotation, IndexedAnnotation
from tegula.lang.overloads import Parameter
from tegula.runtime.array import array
from tegula.runtime.indexed_array import indexedarray
from tegula.runtime.structures import Structure
from tegula.structs import Struct, StructType
from tegula.types import DType

Flattener = Callable[[Sequence[Any]], tuple[Any, ...] | None]
"""A function that returns the leaves of arguments, or None for arguments that `compound_arguments` must flatten."""

_TEXT = """
def flatten_arguments(args):
    try:
        {names} = args
        {lines}
        return ({values})
    except failures:
        return None
"""
_FAILURES = (AttributeError, TypeError, ValueError, OverflowError)


def make_flattener(parameters: Sequence[Parameter]) -> Flattener:
    """The generated function that flattens arguments of these parameters."""
    function = _Function()
    for k, p in enumerate(parameters):
        function.add(f"a{k}", p.annotation)
    text = _TEXT.format(
        names="".join(f"a{k}, " for k in range(len(parameters))) or "()",
        lines="\n        ".join(function.lines),
        values="".join(f"{value}, " for value in function.values),
    )
    exec(compile(text, f"<arguments for {len(parameters)} parameters>", "exec"), function.scope)
    return function.scope["flatten_arguments"]


def has_leaves(x: Any) -> bool:
    """Whether an argument is compound: a struct, a spatial structure, an array of structs or an indexed array."""
    return (
        type(x.dtype) is StructType if type(x) is array else isinstance(x, Struct | indexedarray | Structure)
    )


def in_kernels(x: Any, struct: StructType) -> Any:
    """The kernel struct of a host object; TypeError if the object has no struct or another struct."""
    if getattr(type(x), GENERIC, None) is not struct:
        raise TypeError(f"expected a {struct}")
    return x.in_kernels()


class _Function:
    """The lines of a generated function, the expressions that it returns, and the objects bound to its names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.values: list[str] = []
        self.scope: dict[str, Any] = {"failures": _FAILURES, "array": array, "indexedarray": indexedarray}
        self.scope |= {"has_leaves": has_leaves, "in_kernels": in_kernels}
        self._numbers: Iterator[int] = count()

    def add(self, name: str, t: Any) -> None:
        """Add the leaves of an argument of an annotation, or of the value of a field."""
        if isinstance(t, StructType):
            cls_name, struct_name = self._bind_object(t.cls), self._bind_object(t)
            self.lines.append(
                f"if type({name}) is not {cls_name}: {name} = in_kernels({name}, {struct_name})"
            )
            fields = self._assign(f"{name}._fields")
            for field, field_type in t.fields.items():
                self._add_field(f"{fields}[{field!r}]", field_type)
        elif isinstance(t, ArrayAnnotation) and isinstance(t.dtype, StructType):
            self._require(f"type({name}) is array and {name}.dtype is {self._bind_object(t.dtype)}")
            self._require(f"{name}.ndim == {t.ndim}")
            self.values.append(f"*{name}.leaves")
        elif isinstance(t, IndexedAnnotation):
            self._require(f"type({name}) is indexedarray and {name}.ndim == {t.ndim}")
            self.values.append(f"*{name}.parts")
        else:
            if t is ANY or (isinstance(t, ArrayAnnotation) and t.dtype is ANY):
                self._require(f"not has_leaves({name})")
            self.values.append(name)

    def _add_field(self, value: str, t: Any) -> None:
        if isinstance(t, DType):
            name, python_type = self._assign(value), "bool" if t.is_bool else "float" if t.is_float else "int"
            # A field may hold a NumPy number.
            self.lines.append(f"if type({name}) is not {python_type}: {name} = {python_type}({name})")
            self.values.append(name)
        elif isinstance(t, StructType | IndexedAnnotation):
            self.add(self._assign(value), t)
        else:
            self.values.append(value)

    def _require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    def _assign(self, value: str) -> str:
        name = f"x{next(self._numbers)}"
        self.lines.append(f"{name} = {value}")
        return name

    def _bind_object(self, x: Any) -> str:
        name = f"t{next(self._numbers)}"
        self.scope[name] = x
        return name
