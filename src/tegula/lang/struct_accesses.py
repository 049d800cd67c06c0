"""Reading and changing structs in arrays and tiles, and fields of values, in kernels.

An element of an array of structs is loaded as a whole only for a use of the whole struct; an access of `a[i].x` is an
access of element i of the field's array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.dataclass import dataclass
from tegula.ir import TypeRule
from tegula.lang.calls import Calls
from tegula.lang.state import describe_type
from tegula.lang.structs import stored
from tegula.ops.structs import Columns, Fields, StructValue, fields_of_leaves, inplace, stored_leaf
from tegula.types import ArrayType, StackType

MEMORY_ATTRIBUTES = ("shape", "dtype", "ndim", "size", "T")
"""Attributes of arrays and tiles of structs."""


@dataclass(frozen=True, slots=True)
class StructElement:
    """A struct element of an array or tile before its read."""

    columns: Columns
    index: tuple[Any, ...]

    def field(self, tracer: StructAccesses, name: str) -> Any:
        """A field of the element; for a nested struct again a StructElement."""
        column = self.columns.field(name)
        element = StructElement(column, self.index) if isinstance(column, Columns) else None
        return element or tracer.with_constants(lambda i: tracer.builder.subscript(column, i), self.index)

    def read(self, tracer: StructAccesses) -> Any:
        """The value of the element, or the view selected by an index with slices."""
        return tracer.by_index(self.columns, self.index)


class StructAccesses(Calls):
    """The part of the tracer that reads and changes fields and elements."""

    def attribute_of(self, owner: Columns, name: str) -> Any:
        """An attribute of an array or tile of structs: the attribute of the first leaf, with the struct as dtype."""
        if name == "dtype":
            return owner.struct
        if name not in MEMORY_ATTRIBUTES or not owner.leaves:
            help = f"take the field of an element: a[i].{name}" if owner.has(name) else ""
            raise TypeRule("", help, "UnknownAttribute", owner=owner.type, name=name)
        if name == "T":
            return fields_of_leaves(owner.struct, [self.builder.attribute(x, name) for x in owner.leaves])
        return self.builder.attribute(owner.leaves[0], name)

    def by_index(self, owner: Columns, index: Sequence[Any]) -> Fields:
        """The value or view owner[index] of an array or tile of structs."""
        if isinstance(owner.type, StackType):
            raise TypeRule(f"{owner.type} cannot be indexed")
        fields = [
            self.with_constants(lambda i, x=x: self.builder.subscript(x, i), tuple(index))
            for x in owner.leaves
        ]
        return fields_of_leaves(owner.struct, fields)

    def set_by_index(self, owner: Columns, index: tuple[Any, ...], value: Any) -> None:
        """Build owner[index] = value."""
        self._require_struct(owner, value)
        for k, x in enumerate(owner.leaves):
            part = stored_leaf(self.builder, value, k)
            self.with_constants(lambda i, x=x, part=part: self.builder.assign_subscript(x, i, part), index)

    def update_by_index(self, op: str, owner: Columns, index: tuple[Any, ...], value: Any) -> None:
        """Build owner[index] op= value of a tile."""
        if isinstance(owner.type, ArrayType):
            help = "add to the fields, as in a[i].x += 1.0"
            raise TypeRule(f"operators are not defined for values of the struct {owner.struct}", help)
        self._require_struct(owner, value)
        build = self.builder.update_subscript

        def change(k: int) -> None:
            x, part = owner.leaves[k], value.leaves[k]
            self.with_constants(lambda i: build(op, x, i, part), index)

        inplace(owner.struct, op, change)

    def update_tile(self, op: str, target: Columns, value: Any) -> None:
        """Build target op= value of a tile of structs."""
        self._require_struct(target, value)
        inplace(
            target.struct,
            op,
            lambda k: self.builder.inplace(op, self.builder.buffer(target.leaves[k]), value.leaves[k]),
        )

    def _require_struct(self, owner: Columns, value: Any) -> None:
        if not isinstance(value, Fields) or value.struct is not owner.struct:
            message = f"{describe_type(owner)} holds values of {owner.struct}, but the value is {describe_type(value)}"
            raise TypeRule(message, f"create a value: {owner.struct}(...)", culprit=value)

    def with_field(self, owner: StructValue, name: str, value: Any) -> Fields:
        """A copy of a struct value with one field replaced."""
        t = owner.struct.fields.get(name)
        owner.field(name)
        return owner.changed(name, stored(self.builder, t, self.argument(value, None), name))
