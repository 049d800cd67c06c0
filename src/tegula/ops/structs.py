"""Structs in kernels: tuples of the values of their fields, and functions that handle structs field by field.

Ops never see a struct. A function of the language declares how it handles structs: `moved` if it only moves elements,
so that it is called once for each leaf; `added` if it also adds elements, so that leaves of numbers are added and other
leaves are passed through; WHOLE if it handles whole structs itself. Other functions refuse structs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, TypeGuard

from tegula.dataclass import dataclass
from tegula.errors import suggestion
from tegula.ir import TypeRule, Value
from tegula.structs import Leaf, StructType
from tegula.types import (
    ArrayType,
    BufType,
    StackType,
    TileType,
    bfloat16,
    float16,
    float32,
    float64,
    int32,
    int64,
    is_element,
    scalar_of,
    uint32,
    uint64,
)

ADDED = (int32, int64, uint32, uint64, float16, bfloat16, float32, float64)
"""The scalar types of leaves that are added when structs are added."""
STORED_ARRAY_HELP = (
    "pass the array as a parameter, or in a struct; kernels only move arrays that elements of arrays hold"
)
INPLACE_OPERATORS = ("add", "sub")
"""The operators that tiles of structs have."""


class Fields(tuple[Any, ...]):
    """The values of a struct's fields in a kernel, in order. `struct`: the type."""

    struct: StructType

    def __new__(cls, struct: StructType, parts: Iterable[Any]) -> Self:
        fields = super().__new__(cls, parts)
        fields.struct = struct
        return fields

    def of(self, parts: Iterable[Any]) -> Self:
        """A value of the same struct type with other fields."""
        return type(self)(self.struct, parts)

    def has(self, name: str) -> bool:
        """Whether the struct has a field with the given name."""
        return name in self.struct.fields

    def field(self, name: str) -> Any:
        """The value of a field; TypeRule if there is no such field."""
        if name not in self.struct.fields:
            raise TypeRule(
                "", suggestion(name, self.struct.fields), "UnknownAttribute", owner=self.struct, name=name
            )
        value, t = self[list(self.struct.fields).index(name)], self.struct.fields[name]
        in_memory = isinstance(self, Columns) or (isinstance(value, Value) and is_element(value.type))
        if in_memory and not is_element(t) and not isinstance(t, StructType):
            message = (
                f"'{name}' of an element of the struct {self.struct} is an array, which kernels cannot read"
            )
            raise TypeRule(message, STORED_ARRAY_HELP)
        return value

    def changed(self, name: str, x: Any) -> Self:
        """A copy with another value for one field."""
        self.field(name)
        return self.of(x if key == name else part for key, part in zip(self.struct.fields, self, strict=True))

    @property
    def leaves(self) -> list[Any]:
        """The values of the leaves, in order."""
        return leaves(self)

    @property
    def type(self) -> Any:
        """The type for messages and for comparison with annotations. No op has such a type."""
        return self.struct


class StructValue(Fields):
    """A value of a struct: an element of an array or tile, or a variable."""


def as_general(x: Any, expected: Any) -> Any:
    """A struct value converted to its general struct type if `expected` is that type; otherwise the value."""
    is_specific = (
        isinstance(x, StructValue) and isinstance(expected, StructType) and x.struct.general is expected
    )
    return StructValue(expected, x) if is_specific else x


def convert_to_common_struct(a: Any, b: Any) -> tuple[Any, Any]:
    """Two values of different structs converted to the general struct of both, if there is one; otherwise the
    values."""
    if isinstance(a, StructValue) and isinstance(b, StructValue) and a.struct is not b.struct:
        general = a.struct.general or a.struct
        if (b.struct.general or b.struct) is general:
            return as_general(a, general), as_general(b, general)
    return a, b


class Columns(Fields):
    """An array, tile or stack of structs: one for each field."""

    @property
    def type(self) -> Any:
        first = next((x for x in self.leaves if isinstance(x, Value)), None)
        t = None if first is None else first.type
        struct: Any = self.struct
        if isinstance(t, ArrayType):
            return ArrayType(struct, t.ndim)
        if isinstance(t, StackType):
            return StackType(struct, t.capacity)
        return TileType(struct, t.shape if isinstance(t, TileType | BufType) else ())


class NamedItems(tuple[Any, ...]):
    """The items of a named tuple that a kernel captures. `names`: the names of the items."""

    names: tuple[str, ...]

    def __new__(cls, names: Sequence[str], parts: Iterable[Any]) -> Self:
        fields = super().__new__(cls, parts)
        fields.names = tuple(names)
        return fields

    def of(self, parts: Iterable[Any]) -> Self:
        """Other items under the same names."""
        return type(self)(self.names, parts)

    def named(self, name: str) -> Any:
        """The item with the given name; TypeRule if there is none."""
        if name not in self.names:
            raise TypeRule(
                "", suggestion(name, self.names), "UnknownAttribute", owner="a named tuple", name=name
            )
        return self[self.names.index(name)]


def is_tuple(x: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether a value is a tuple or a struct."""
    return isinstance(x, tuple)


def leaves(x: Any) -> list[Any]:
    """The parts of a tuple and of nested tuples; a list of the value itself for other values."""
    return [leaf for part in x for leaf in leaves(part)] if is_tuple(x) else [x]


def unflatten_like(template: Any, parts: Iterator[Any]) -> Any:
    """The parts in tuples and structs of the same structure as `template`."""
    if not is_tuple(template):
        return next(parts)
    return with_parts(template, [unflatten_like(part, parts) for part in template])


def with_parts(template: tuple[Any, ...], parts: Iterable[Any]) -> tuple[Any, ...]:
    """A tuple or struct like another one with other parts."""
    return template.of(parts) if isinstance(template, Fields | NamedItems) else tuple(parts)


def same_structure(x: Any, y: Any) -> bool:
    """Whether two tuples have equally many parts and, if one of them is a struct or a named tuple, are of the same
    struct or have the same names."""
    if not is_tuple(x) or not is_tuple(y) or type(x) is not type(y) or len(x) != len(y):
        return False
    if isinstance(x, NamedItems) and isinstance(y, NamedItems):
        return x.names == y.names
    return not isinstance(x, Fields) or not isinstance(y, Fields) or x.struct is y.struct


def struct_from_leaves(kind: type[Fields], struct: StructType, parts: Iterator[Any]) -> Any:
    """A struct made of parts for its leaves."""
    return kind(
        struct,
        [
            struct_from_leaves(kind, t, parts) if isinstance(t, StructType) else next(parts)
            for t in struct.fields.values()
        ],
    )


def has_struct(x: Any) -> bool:
    """Whether an argument is a struct, a type of structs, or a tuple that contains one."""
    if isinstance(x, Fields | StructType):
        return True
    return is_tuple(x) and any(map(has_struct, x))


def is_added(leaf: Leaf) -> bool:
    """Whether a leaf is added when structs are added."""
    return is_element(leaf.type) and scalar_of(leaf.type) in ADDED


# Functions of the language -------------------------------------------------------------------------------------------

STRUCT: Literal["struct"] = "struct"
SAME: Literal["same"] = "same"
ResultKind: TypeAlias = "str | tuple[str, ...]"
"""The kind of a function's result: STRUCT, made of the results for each leaf, or SAME, if the result is the same for
all leaves."""


@dataclass(frozen=True, slots=True)
class FieldWise:
    """A declaration of a function's handling of structs. `names`: the parameters that are all structs of one type if
    one of them is a struct; `pass_through`: computes the result for a leaf that is not added from the function's
    arguments; None if the function only moves elements of any type."""

    names: tuple[str, ...]
    result: ResultKind = STRUCT
    pass_through: Callable[..., Any] | None = None


def moved(*names: str, result: ResultKind = STRUCT) -> FieldWise:
    """The declaration of a function that only moves elements."""
    return FieldWise(names, result)


def added(*names: str, pass_through: Callable[..., Any]) -> FieldWise:
    """The declaration of a function that adds elements of tiles."""
    return FieldWise(names, STRUCT, pass_through)


WHOLE = FieldWise(())
"""The declaration of a function that takes whole elements."""


def call_by_field(
    name: str,
    build: Callable[..., Any],
    handling: FieldWise | None,
    b: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """The result of a call of a function with structs among its arguments; TypeRule if the function refuses structs."""
    if handling is WHOLE:
        return build(b, *args, **kwargs)
    struct = _struct_of((*args, *kwargs.values()))
    columns = any(isinstance(x, Columns) for x in (*args, *kwargs.values()))
    if handling is None or (handling.pass_through is not None and not columns):
        raise TypeRule(
            f"{name} does not take values of the struct {struct}",
            "use its fields; for tiles, map a function that returns a field with tg.tile_map",
        )
    for key, x in inspect.signature(build).bind(b, *args, **kwargs).arguments.items():
        if key in handling.names and not has_struct(x):
            help = f"these parameters must have one struct type: {', '.join(handling.names)}"
            raise TypeRule(f"{name}: '{key}' must be of the struct {struct}", help, culprit=x)
    results: list[Any] = []
    for k, leaf in enumerate(struct.leaves):
        function = build if handling.pass_through is None or is_added(leaf) else handling.pass_through
        named = {key: _leaf_of(b, x, k) for key, x in kwargs.items()}
        results.append(function(b, *[_leaf_of(b, x, k) for x in args], **named))
    return _combine_results(struct, results, handling.result)


def _struct_of(xs: Iterable[Any]) -> StructType:
    """The struct type of the arguments; TypeRule if there are several."""
    struct_types = dict.fromkeys(_structs(xs))
    if len(struct_types) > 1:
        raise TypeRule(f"the arguments are of different structs: {' and '.join(map(str, struct_types))}")
    return next(iter(struct_types))


def _structs(xs: Iterable[Any]) -> Iterator[StructType]:
    for x in xs:
        if isinstance(x, Fields | StructType):
            yield x.struct if isinstance(x, Fields) else x
        elif is_tuple(x):
            yield from _structs(x)


def _leaf_of(b: Any, x: Any, k: int) -> Any:
    """The value that replaces an argument in the call for the k-th leaf."""
    if isinstance(x, Fields):
        return stored_leaf(b, x, k)
    if isinstance(x, StructType):
        return x.leaves[k].stored
    return tuple(_leaf_of(b, part, k) for part in x) if is_tuple(x) else x


def stored_leaf(b: Any, x: Fields, k: int) -> Any:
    """A leaf as stored in arrays and tiles: zeros for an array field without an array."""
    value, leaf = x.leaves[k], x.struct.leaves[k]
    if isinstance(x, Columns) or is_element(leaf.type):
        return value
    if value is None:
        return b.const(0, leaf.stored)
    if isinstance(value, Value) and value.type == leaf.stored:
        return value
    raise TypeRule(
        f"'{leaf.name}' of the struct {x.struct} is an array, which kernels cannot store", STORED_ARRAY_HELP
    )


def _combine_results(struct: StructType, leaves: Sequence[Any], result: ResultKind) -> Any:
    """The result of a function for a struct, from its results for the leaves."""
    if not leaves:
        raise TypeRule(f"the struct {struct} has no fields, so there are no tiles of it")
    if isinstance(result, tuple):
        return tuple(
            _combine_results(struct, [x[k] for x in leaves], nested) for k, nested in enumerate(result)
        )
    if result == SAME or leaves[0] is None:
        return leaves[0]
    return fields_of_leaves(struct, leaves)


def fields_of_leaves(struct: StructType, leaves: Sequence[Any]) -> Fields:
    """A struct value, or an array, tile or stack of structs, made of its leaves."""
    kind = StructValue if leaves and is_element(getattr(leaves[0], "type", None)) else Columns
    return struct_from_leaves(kind, struct, iter(leaves))


def inplace(struct: StructType, op: str, change: Callable[[int], None]) -> None:
    """Change a tile of structs, or one of its elements, by an operator: `change(k)` for each leaf that is added."""
    if op not in INPLACE_OPERATORS:
        kind = "bitwise inplace operators are" if op in ("and", "or", "xor") else "this operator is"
        raise TypeRule(f"{kind} not defined for tiles of the struct {struct}", "the operators are += and -=")
    for k, leaf in enumerate(struct.leaves):
        if is_added(leaf):
            change(k)
