"""Maps over tiles of structs whose results are structs, and reductions of structs. The IR's map has one result: a map
whose result is a struct becomes one map for each leaf, which computes only this leaf. A reduction of structs is a tree
of such maps, which combine neighbouring elements first, because a reduction op has a single element type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tegula.ir import TypeRule, Value
from tegula.ops.base import require
from tegula.ops.builder import Function, OpBuilder, Operand, describe, is_tuple
from tegula.ops.concat import TileConcat
from tegula.ops.structs import Columns, Fields, StructValue, fields_of_leaves, leaves, with_parts
from tegula.ops.tile import TileReshape, TileSlice
from tegula.types import TileType, int32, is_element


def map_structs(
    b: OpBuilder, function: Callable[[list[Operand]], Operand], args: Sequence[Operand], leaves: list[Operand]
) -> Operand:
    """A function of elements applied to tiles and values, some of which are structs. `leaves`: the leaves of `args`."""
    results: list[Any] = []

    def leaf(elements: list[Value], k: int) -> Operand:
        remaining = iter(elements)
        result = function([_element(x, remaining) for x in args])
        results.append(result)
        if not isinstance(result, Fields):
            return result
        require(
            result.leaves,
            f"a mapped function returns a value of the struct {result.struct}, which has no fields",
        )
        return result.leaves[k]

    components = [b.map(lambda elements: leaf(elements, 0), leaves)]
    (first,) = results
    if not isinstance(first, StructValue):
        return components[0]
    count = len(first.leaves)
    for k in range(1, count):
        components.append(b.map(lambda elements, k=k: leaf(elements, k), leaves))
    for component in components if count > 1 else ():
        owner: Any = component.owner
        message = f"a mapped function that returns a struct of {count} fields runs once for each field"
        is_pure = all(op.PURE for region in owner.regions for op in region.walk())
        require(
            is_pure,
            f"{message}: the function can neither print nor change memory",
            "print or write memory in a separate map",
        )
    return fields_of_leaves(first.struct, components)


def _element(x: Operand, rest: Any) -> Operand:
    """The argument of a mapped function for an element of an operand; a struct value for tiles of structs."""
    if not is_tuple(x):
        return next(rest)
    parts = [_element(part, rest) for part in x]
    return StructValue(x.struct, parts) if isinstance(x, Fields) else with_parts(x, parts)


def reduce_structs(b: OpBuilder, op: Function, t: Columns, axis: Operand) -> Operand:
    """A tile of structs reduced by a function of two structs to a tile with one element."""
    require(
        axis is None,
        f"tile_reduce reduces a tile of the struct {t.struct} only over all elements",
        "leave out axis=",
    )

    def combine(elements: list[Operand]) -> Operand:
        try:
            result = op.call(b, elements)
        except TypeRule as rule:
            message = (
                f"tile_reduce: no overload of {_quoted_name(op)} takes two values of the struct {t.struct}"
            )
            raise TypeRule(message, str(rule.fields.get("what", ""))) from None
        if not isinstance(result, StructValue) or result.struct is not t.struct:
            message = f"the function of tile_reduce must return the tile element type, the struct {t.struct}"
            raise TypeRule(
                f"{message}, got {result.type if isinstance(result, Fields) else describe(result)}"
            )
        return result

    leaf_tiles = [_flattened(b, x) for x in leaves(t)]
    require(leaf_tiles, f"the struct {t.struct} has no fields, so there are no tiles of it")
    while (n := _size(leaf_tiles[0])) > 1:
        half = n // 2
        left, right = ([_slice_1d(b, x, start, half, 2) for x in leaf_tiles] for start in (0, 1))
        kernels = (fields_of_leaves(t.struct, left), fields_of_leaves(t.struct, right))
        result: Any = map_structs(b, combine, kernels, [*left, *right])
        last_elements = [_slice_1d(b, x, n - 1, 1, 1) for x in leaf_tiles] if n % 2 else []
        leaf_tiles = result.leaves
        if last_elements:
            leaf_tiles = [
                b.one(TileConcat, [x, y], {"axis": 0}) for x, y in zip(leaf_tiles, last_elements, strict=True)
            ]
    return fields_of_leaves(t.struct, leaf_tiles)


def _quoted_name(op: Function) -> str:
    return f"'{getattr(op, 'name', 'the function')}'"


def _flattened(b: OpBuilder, x: Value) -> Value:
    value = b.tile(x)
    assert isinstance(value.type, TileType) and is_element(value.type.dtype)
    return b.one(TileReshape, [value], {"shape": (value.type.size,)})


def _size(x: Value) -> int:
    assert isinstance(x.type, TileType)
    return x.type.size


def _slice_1d(b: OpBuilder, x: Value, start: int, count: int, step: int) -> Value:
    """Elements of a tile with one dimension."""
    attrs = {"shape": (count,), "dims": (0,), "steps": (step,)}
    return b.one(TileSlice, [x, b.const(start, int32)], attrs)
