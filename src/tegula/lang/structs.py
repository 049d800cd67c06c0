"""Structs in the language: declaration, construction in kernels, and parameters flattened to leaves."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_type_hints

from tegula.dataclass import replace
from tegula.errors import NoField, WrongArguments
from tegula.ir import TypeRule, Value
from tegula.lang.annotations import ANY, ArrayAnnotation, IndexedAnnotation, resolve
from tegula.lang.definition import Definition
from tegula.lang.overloads import Parameter
from tegula.ops.build_by_index import IndexedArray
from tegula.ops.builder import operand_text
from tegula.ops.indexing import KernelBuilder
from tegula.ops.structs import Columns, Fields, StructValue, struct_from_leaves
from tegula.source import Location
from tegula.structs import FieldType, StructType
from tegula.types import int32, is_element


def struct(cls: Any, /) -> Any:
    """Makes a class with annotated fields a struct, for the host and for kernels; a decorator.

    Parameters:
        cls: a class without bases, whose fields are annotated with scalar, vector and matrix types, structs, and
            arrays, as `tg.array[float]` or `tg.indexedarray[float]`.
    Returns:
        the struct type. A call without arguments creates a value of zeros and absent arrays; a call with all fields, by
        position or by name, creates a value with these fields.
    Raises:
        TypeError: an annotation is not one of these types, or the name of a field is an attribute of all structs.
        RuntimeError: the class has bases.
    Gradient:
        flows through fields of floats, and through arrays.
    """
    if cls.__bases__ != (object,):
        raise RuntimeError(f"the struct {cls.__name__} has bases: structs must be defined as base classes")
    fields = {name: _field(cls, name, t) for name, t in _annotations(cls).items()}
    # For type checkers the struct is the class itself.
    struct_type: Any = StructType(cls.__name__, fields, cls.__module__, cls.__qualname__, cls.__doc__)
    return struct_type


def _annotations(cls: type) -> Mapping[str, Any]:
    """The annotations of a class by name; annotations that are strings are evaluated."""
    annotations = inspect.get_annotations(cls)
    if not any(isinstance(t, str) for t in annotations.values()):
        return annotations
    scope = sys._getframe(2)
    module = sys.modules.get(cls.__module__)
    return get_type_hints(cls, getattr(module, "__dict__", None), {**scope.f_globals, **scope.f_locals})


def _field(cls: type, name: str, annotation: Any) -> FieldType:
    """The type of a field; TypeError for an annotation without a meaning in kernels."""
    field_type: Any = resolve(annotation) if annotation is not None else ANY
    is_array = isinstance(field_type, ArrayAnnotation | IndexedAnnotation) and field_type.dtype is not ANY
    if not (is_element(field_type) or isinstance(field_type, StructType) or is_array):
        raise TypeError(
            f"the field '{name}' of the struct {cls.__name__}: {annotation!r} is neither a scalar, vector or "
            "matrix type, nor a struct, nor an array of these"
        )
    return field_type


# In kernels ----------------------------------------------------------------------------------------------------------


def construct(
    b: KernelBuilder, struct: StructType, args: Sequence[Any], kwargs: Mapping[str, Any], loc: Location
) -> StructValue:
    """A value of a struct: of zeros, or of all fields, in order or by name."""
    try:
        arguments = struct.bound_fields(args, kwargs)
    except NoField as error:
        raise WrongArguments(loc, what=error.message, help=error.help) from None
    if not arguments:
        return _zeros(b, struct)
    return StructValue(struct, [stored(b, t, arguments[name], name) for name, t in struct.fields.items()])


def _zeros(b: KernelBuilder, struct: StructType) -> StructValue:
    parts: list[Any] = []
    for t in struct.fields.values():
        parts.append(_zeros(b, t) if isinstance(t, StructType) else b.const(0, t) if is_element(t) else None)
    return StructValue(struct, parts)


def stored(b: KernelBuilder, t: FieldType, x: Any, name: str) -> Any:
    """A value converted for a field; TypeRule if the value has another type. Literals take the type of the field."""
    if isinstance(t, StructType):
        fits = isinstance(x, StructValue) and x.struct is t
    elif is_element(t):
        try:
            x = b.stored(x, t)
        except TypeRule:
            fits = False
        else:
            fits = x.type == t
    else:
        fits = x is None or (isinstance(x, Value | Columns) and t.matches(x.type))
    if not fits:
        actual = x.type if isinstance(x, Value | Fields) else operand_text(x)
        raise TypeRule(f"the field '{name}' holds {t}, but the value is {actual}", culprit=x, expected=t)
    return x


# Parameters ----------------------------------------------------------------------------------------------------------


def leaf_parameters(parameters: Sequence[Parameter]) -> list[Parameter]:
    """The parameters of launches: a struct or an array of structs is replaced by a parameter for each leaf, and an
    indexed array by the array and the index array of each dimension."""
    return [leaf for p in parameters for leaf in _leaves(p)]


def _leaves(p: Parameter) -> Iterator[Parameter]:
    t = p.annotation
    if isinstance(t, StructType):
        for leaf in t.leaves:
            yield from _leaves(replace(p, name=f"{p.name}.{leaf.name}", annotation=leaf.type))
    elif isinstance(t, ArrayAnnotation) and isinstance(t.dtype, StructType):
        for leaf in t.dtype.leaves:
            name, annotation = f"{p.name}.{leaf.name}", ArrayAnnotation(leaf.stored, t.ndim)
            yield replace(p, name=name, annotation=annotation, columns_of=p.name)
    elif isinstance(t, IndexedAnnotation):
        yield replace(p, annotation=t.array)
        for d in range(t.ndim):
            yield Parameter(f"{p.name}.indices_{d}", ArrayAnnotation(int32, 1))
    else:
        yield p


def leaves_of(definition: Definition) -> Definition:
    """The definition with a parameter for each leaf of its compound parameters; the same object if it has none."""
    leaves = leaf_parameters(definition.parameters)
    return definition if leaves == definition.parameters else definition.kernel_of_leaves(leaves)


def bindings_of(definition: Definition, values: Sequence[Value]) -> dict[str, Any]:
    """The bindings of a definition's parameters as written, by name, from a value for each leaf; None for absent
    arrays."""
    rest = iter(values)
    return {
        p.name: _binding(p.name, p.annotation, rest, definition.bound) for p in definition.declared_parameters
    }


def _binding(name: str, annotation: Any, rest: Iterator[Value], bound: Mapping[str, Any]) -> Any:
    if isinstance(annotation, StructType):
        parts = [_binding(f"{name}.{field}", t, rest, bound) for field, t in annotation.fields.items()]
        return StructValue(annotation, parts)
    if isinstance(annotation, ArrayAnnotation) and isinstance(annotation.dtype, StructType):
        is_absent = all(f"{name}.{leaf.name}" in bound for leaf in annotation.dtype.leaves)
        return None if is_absent else struct_from_leaves(Columns, annotation.dtype, rest)
    if name in bound:
        return bound[name]
    if isinstance(annotation, IndexedAnnotation):
        return IndexedArray(next(rest), [next(rest) for _ in range(annotation.ndim)])
    return next(rest)


def absent(definition: Definition) -> list[str]:
    """The user's names of the arrays that are None in a launch."""
    names = [name for name, value in definition.bound.items() if value is None]
    owners = {p.name: p.columns_of or p.name for p in leaf_parameters(definition.declared_parameters)}
    absent_names = dict.fromkeys(owners.get(name, name) for name in names)
    return [name for name in absent_names if name.rpartition(".")[0] not in absent_names]
