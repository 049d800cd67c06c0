"""Subscripts, attributes and element assignment: the ops that `x[...]` and `x.name` build."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.ir import Op, Region, TypeRule, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayAtomic, ArrayLoad, ArrayShape, ArrayStore, ArrayView
from tegula.ops.base import PUBLIC, element, require, require_components, require_range
from tegula.ops.buffer import BufGet, BufSet, BufUpdate, BufView, accessed
from tegula.ops.build_by_index import IndexedArray, lower_indexed_access
from tegula.ops.build_picked import (
    IndexTiles,
    array_gather,
    array_scatter,
    assign_where,
    gather,
    has_mask,
    index_tiles,
    mask_read_error,
    scatter,
)
from tegula.ops.build_structures import StoredArray, lower_stored_access
from tegula.ops.builder import (
    LITERALS,
    OpBuilder,
    Operand,
    describe,
    is_constant_array,
    is_slice,
    is_tuple,
)
from tegula.ops.convert import Cast
from tegula.ops.integer_ranges import INDEX_RANGE, IntegerRanges
from tegula.ops.table import TableGet
from tegula.ops.tile import TileExtract, TileSlice, check_size
from tegula.ops.vector import VecExtract, VecInsert, VecMake, VecPart, VecSplat
from tegula.types import (
    ArrayType,
    BufType,
    DType,
    ElementType,
    MatType,
    StackType,
    TileType,
    Type,
    VecType,
    components,
    element_shape,
    from_numpy,
    int32,
    int64,
    scalar_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _check_size(t: Type) -> None:
    """Raise TypeRule for a tile or stack of too many elements, or a vector or matrix of too many components."""
    if isinstance(t, (TileType, BufType)):
        check_size("a tile", t.shape)
    elif isinstance(t, StackType):
        check_size("a stack", (t.capacity,))
    elif isinstance(t, (VecType, MatType)):
        require_components(t)


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A view by basic indexing: one start per dimension of the source, and for each dimension of the view its extent,
    dimension and step."""

    starts: list[Value]
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    steps: tuple[int, ...]


class KernelBuilder(OpBuilder):
    """The OpBuilder of user code: with subscripts and attributes, and limits on the size of results. `ranges`: the
    bounds of integers that are final."""

    __slots__ = ("ranges",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ranges = IntegerRanges()

    def emit(
        self,
        op: type[Op],
        operands: Sequence[Value],
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
    ) -> list[Value]:
        """Insert an op; for an indexed array, the equivalent ops on the array and the index arrays."""
        classes = set(map(type, operands))
        if IndexedArray in classes:
            return lower_indexed_access(self, op.typed(operands, attrs, regions, self.loc))
        if StoredArray in classes:
            return lower_stored_access(self, op.typed(operands, attrs, regions, self.loc))
        return super().emit(op, operands, attrs, regions)

    def insert(self, op: Op) -> Op:
        """Append an op to the current region; TypeRule if a result is too large."""
        for value in op.results:
            if not isinstance(value.type, DType):
                _check_size(value.type)
        return super().insert(op)

    # Reading ---------------------------------------------------------------------------------------------------------

    def subscript(self, x: Operand, index: Sequence[Operand]) -> Operand:
        """x[index] for arrays, tiles, vectors and matrices."""
        if is_tuple(x):
            return self._tuple_item(x, index)
        if is_constant_array(x):
            return self._table_subscript(x, index)
        t = x.type if isinstance(x, Value) else None
        if isinstance(t, ArrayType):
            if any(map(self.is_tile, index)):
                return array_gather(self, x, t, index)
            return self._array_subscript(x, t, index)
        if isinstance(t, (TileType, BufType)):
            if any(i is None for i in index):
                return self._with_new_axes(x, t, index)
            return self._tile_subscript(x, t, index)
        if isinstance(t, (VecType, MatType)):
            return self._component(x, t, index)
        raise TypeRule(f"{describe(x)} cannot be indexed")

    def _tuple_item(self, x: tuple[Operand, ...], index: Sequence[Operand]) -> Operand:
        (i,) = index
        if not isinstance(i, int):
            raise TypeRule("", "", "NotConstant", what="the index of a tuple")
        require_range(-len(x) <= i < len(x), f"a tuple of {len(x)} has no item {i}", "count from 0")
        return x[i]

    def _array_subscript(self, x: Value, t: ArrayType, index: Sequence[Operand]) -> Value:
        require(
            len(index) <= t.ndim,
            f"an array with {t.ndim} dimensions takes at most {t.ndim} indices, got {len(index)}",
        )
        if len(index) == t.ndim and not any(isinstance(i, slice) for i in index):
            return self.one(ArrayLoad, [x, *self.array_indices(x, index)])
        operands: list[Value] = [x]
        spec: list[Any] = []
        for d, i in enumerate([*index, *[slice(None)] * (t.ndim - len(index))]):
            if is_slice(i):
                start, count, step = self._array_slice(x, d, i)
                operands += [start, count]
                spec.append(("slice", step))
            else:
                operands.append(self._array_index(x, d, i))
                spec.append("index")
        return self.one(ArrayView, operands, {"spec": tuple(spec)})

    def array_indices(self, x: Value, index: Sequence[Operand]) -> list[Value]:
        """The indices of an array's dimensions as integers; negative constants count from the end."""
        return [self._array_index(x, d, i) for d, i in enumerate(index)]

    def _array_index(self, x: Value, dim: int, i: Operand) -> Value:
        """An index of an array; a negative constant counts from the end."""
        if isinstance(i, int) and not isinstance(i, bool) and i < 0:
            return self.one(S.Add, [self.one(ArrayShape, [x], {"dim": dim}), self.const(i, int32)])
        return self.index(i)

    def _array_slice(self, x: Value, dim: int, s: slice[Any, Any, Any]) -> tuple[Value, Value, int]:
        """The first element, number of elements and step of a Python slice of a dimension of run-time length."""
        step = 1 if s.step is None else s.step
        if not isinstance(step, int) or step == 0:
            raise TypeRule("", "", "NotConstant", what="the step of a slice")
        n = self.one(ArrayShape, [x], {"dim": dim})
        zero, one = self.const(0, int32), self.const(1, int32)
        last = self.one(S.Sub, [n, one])
        low, high = (zero, n) if step > 0 else (self.const(-1, int32), last)
        start = self._slice_bound(s.start, n, low, high, zero if step > 0 else last)
        stop = self._slice_bound(s.stop, n, low, high, n if step > 0 else self.const(-1, int32))
        span = self.one(S.Sub, [stop, start] if step > 0 else [start, stop])
        rounded_span = self.one(S.Add, [span, self.const(abs(step) - 1, int32)])
        count = self.one(S.Div, [rounded_span, self.const(abs(step), int32)])
        return start, self.one(S.Max, [count, zero]), step

    def _slice_bound(self, bound: Operand, n: Value, low: Value, high: Value, default: Value) -> Value:
        if bound is None:
            return default
        value = self.cast(self.within(self.index(bound), INDEX_RANGE[1]), int32)
        negative = self.one(S.Cmp, [value, self.const(0, int32)], {"pred": "lt"})
        wrapped = self.one(S.Select, [negative, self.one(S.Add, [value, n]), value])
        return self.one(S.Min, [self.one(S.Max, [wrapped, low]), high])

    def _table_subscript(self, x: NDArray[Any], index: Sequence[Operand]) -> Operand:
        """table[index] of constants: an element; with fewer indices than dimensions, the remaining dimensions as a
        vector or matrix."""
        require(
            len(index) <= x.ndim,
            f"a table of {x.ndim} dimensions takes at most {x.ndim} indices, got {len(index)}",
        )
        constants = [i for i in index if isinstance(i, int) or is_slice(i)]
        if len(constants) == len(index):
            for n, i in zip(x.shape, constants, strict=False):
                if isinstance(i, int):
                    self._wrap_index(i, n)
                elif not all(b is None or isinstance(b, int) for b in (i.start, i.stop, i.step)):
                    raise TypeRule("", "", "NotConstant", culprit=i, what="the bounds of a slice of a table")
            part: Any = x[tuple(constants)]
            return part if is_constant_array(part) else self.value(part, from_numpy(x.dtype))
        require(
            not any(is_slice(i) for i in index),
            "in a subscript of a table, slices are allowed only next to constant indices",
        )
        indices = [self._wrap_index(i, n) for i, n in zip(index, x.shape, strict=False)]
        remaining = x.shape[len(index) :]
        attrs = {"elements": self._elements(x), "shape": x.shape, "type": from_numpy(x.dtype)}

        def element_at(trailing: tuple[int, ...]) -> Value:
            return self.one(TableGet, [*indices, *(self.const(k, int32) for k in trailing)], attrs)

        if not remaining:
            return element_at(())
        message = (
            f"the subscript of a table of shape {x.shape} leaves {len(remaining)} dimensions, more than 2"
        )
        require(len(remaining) <= 2, message, "use more indices")
        element = _composite_type(remaining, from_numpy(x.dtype))
        return self.one(VecMake, [element_at(inner) for inner in np.ndindex(*remaining)], {"type": element})

    def _elements(self, x: NDArray[Any]) -> tuple[Any, ...]:
        """The elements of an array of constants in row-major order: one object for all reads of the array."""
        key = id(x), tuple
        if key not in self.tables:
            self.tables[key] = x, tuple(x.ravel().tolist())
        return self.tables[key][1]

    def _component(self, x: Value, t: VecType | MatType, index: Sequence[Operand]) -> Value:
        if any(map(is_slice, index)):
            return self._vector_slice(x, t, index)
        if isinstance(t, MatType) and len(index) == 1:
            entries = [self._component(x, t, (index[0], c)) for c in range(t.cols)]
            return self.one(VecMake, entries, {"type": VecType(t.cols, t.dtype)})
        return self.one(VecExtract, [x, *self._component_indices(t, index)])

    def _selected_components(self, t: VecType | MatType, index: Sequence[Operand]) -> NDArray[Any]:
        """The row-major indices of the components that constant slices and indices select, in the shape of the
        selection."""
        shape = element_shape(t)
        require(len(index) <= len(shape), f"{t} takes at most {len(shape)} indices, got {len(index)}")
        parts: list[int | slice[Any, Any, Any]] = []
        for n, i in zip(shape, [*index, *[slice(None)] * (len(shape) - len(index))], strict=True):
            bounds = (i.start, i.stop, i.step) if is_slice(i) else (i,)
            for bound in bounds:
                if not (isinstance(bound, int) or (bound is None and is_slice(i))):
                    raise TypeRule("", "", "NotConstant", culprit=i, what="the bounds of a slice of a vector")
            if is_slice(i):
                require(i.step != 0, "the step of a slice must not be 0")
                help = "take 1 component or more"
                require_range(len(range(n)[i]) > 0, f"the slice of {n} components is empty", help)
                parts.append(i)
            elif isinstance(i, int):
                self._wrap_index(i, n)
                parts.append(i)
        return np.arange(components(t)).reshape(shape)[tuple(parts)]

    def _vector_slice(self, x: Value, t: VecType | MatType, index: Sequence[Operand]) -> Value:
        """The vector or matrix of a subscript with slices, such as x[a:b] or m[a:b, c]."""
        selected = self._selected_components(t, index)
        element = _composite_type(selected.shape, t.dtype)
        return self.one(VecPart, [x], {"selected": tuple(selected.ravel().tolist()), "type": element})

    def _component_indices(self, t: VecType | MatType, index: Sequence[Operand]) -> list[Value]:
        shape = element_shape(t)
        if len(index) != len(shape):
            raise TypeRule(f"{t} takes {len(shape)} indices, got {len(index)}")
        return [self._wrap_index(i, n) for i, n in zip(index, shape, strict=True)]

    def _wrap_index(self, i: Operand, n: int) -> Value:
        """An index into n items as a non-negative index; negative indices count from the end. A constant out of range
        is an error."""
        if isinstance(i, int) and not isinstance(i, bool):
            if not -n <= i < n:
                help = f"use an index from {-n} to {n - 1}; negative indices count from the end"
                raise TypeRule(f"index {i} is out of bounds for a dimension of {n}", help, "OutOfRange")
            return self.const(i % n, int32)
        value = self.index(i)
        is_nonnegative = self.ranges.nonnegative(value)
        if self.ranges.is_partial:
            self.ranges = IntegerRanges()
        if is_nonnegative:
            return value
        t = element(value.type)
        if scalar_of(t).bits < 32:
            value, t = self.one(Cast, [value], {"to": int32}), int32
        negative = self.one(S.Cmp, [value, self.const(0, t)], {"pred": "lt"})
        return self.one(S.Select, [negative, self.one(S.Add, [value, self.const(n, t)]), value])

    def _with_new_axes(self, x: Value, t: TileType | BufType, index: Sequence[Operand]) -> Value:
        """x[index] with a dimension of length 1 for each None."""
        part = self._tile_subscript(x, t, [i for i in index if i is not None])
        help = "write a slice for the remaining dimensions, as in t[:, None]"
        require(self.is_tile(part), "None adds a dimension to a part of a tile, not to an element", help)
        lengths, shape = list(tile_shape_of(part)), list[int]()
        first = next((k for k, i in enumerate(index) if self.is_tile(i)), len(index))
        unindexed = len(t.shape) - sum(i is not None for i in index)
        index_rank = len(lengths) - sum(is_slice(i) for i in index) - unindexed
        for k, i in enumerate(index):
            if i is None:
                shape.append(1)
            elif is_slice(i):
                shape.append(lengths.pop(0))
            elif k == first:
                shape += [lengths.pop(0) for _ in range(index_rank)]
        return PUBLIC["tile_reshape"](self, part, (*shape, *lengths))

    def _tile_subscript(self, x: Value, t: TileType | BufType, index: Sequence[Operand]) -> Value:
        if has_mask(self, index):
            raise mask_read_error(x)
        if any(map(self.is_tile, index)):
            return gather(self, *self._indexed_part(x, t, index))
        rank = len(t.shape)
        if any(isinstance(i, slice) for i in index) or len(index) < rank:
            return self.view(x, index)
        indices = self.element_indices(t, index)
        return self.one(BufGet if isinstance(t, BufType) else TileExtract, [x, *indices])

    def element_indices(self, t: TileType | BufType, index: Sequence[Operand]) -> list[Value]:
        """The index of an element, or of a component of an element, as integers."""
        extents = (*t.shape, *element_shape(t.dtype))
        require(
            len(t.shape) <= len(index) <= len(extents),
            f"{describe_tile(t)} takes {len(t.shape)} indices, got {len(index)}",
        )
        return [self._wrap_index(i, n) for i, n in zip(index, extents, strict=False)]

    def _indexed_part(
        self, x: Value, t: TileType | BufType, index: Sequence[Operand]
    ) -> tuple[Value, IndexTiles, int]:
        """The part of a tile that the integers and slices of a subscript select, the tiles of indices, and the first
        dimension of the part to which a tile of indices applies."""
        message = f"a tile with {len(t.shape)} dimensions takes at most {len(t.shape)} indices"
        require(len(index) <= len(t.shape), message)
        selection = index_tiles(self, index)
        basic_index = [slice(None) if k in selection.tile_positions else i for k, i in enumerate(index)]
        part = x if all(i == slice(None) for i in basic_index) else self.view(x, basic_index)
        return part, selection, sum(is_slice(i) for i in index[: selection.tile_positions[0]])

    def view_spec(self, shape: Sequence[int], index: Sequence[Operand]) -> ViewSpec:
        """The view of a tile of `shape` that a basic index selects; slice bounds are constants."""
        require(
            len(index) <= len(shape),
            f"a tile with {len(shape)} dimensions takes at most {len(shape)} indices",
        )
        starts: list[Value] = []
        dimensions: list[tuple[int, int, int]] = []
        for d, i in enumerate([*index, *[slice(None)] * (len(shape) - len(index))]):
            if not is_slice(i):
                starts.append(self._wrap_index(i, shape[d]))
                continue
            for bound in (i.start, i.stop, i.step):
                if not (bound is None or isinstance(bound, int)):
                    raise TypeRule("", "", "NotConstant", culprit=i, what="the bounds of a slice of a tile")
            require(i.step != 0, "the step of a slice must not be 0")
            selected = range(shape[d])[i]
            message = f"the slice of dimension {d}, which has {shape[d]} elements, would make an empty tile"
            require_range(len(selected) > 0, message, "take 1 element or more")
            starts.append(self.const(selected.start, int32))
            dimensions.append((d, len(selected), selected.step))
        dims, extents, steps = zip(*dimensions, strict=True)
        return ViewSpec(starts, tuple(extents), tuple(dims), tuple(steps))

    def view(self, x: Value, index: Sequence[Operand]) -> Value:
        """x[index] with slices: a view if x is an object, a slice if it is a value."""
        assert isinstance(x.type, (TileType, BufType))
        spec = self.view_spec(x.type.shape, index)
        attrs = {"shape": spec.shape, "dims": spec.dims, "steps": spec.steps}
        if isinstance(x.type, BufType):
            return self.one(BufView, [x, *spec.starts], attrs)
        return self.one(TileSlice, [self.tile(x), *spec.starts], attrs)

    # Writing ---------------------------------------------------------------------------------------------------------

    def assign_subscript(self, x: Operand, index: Sequence[Operand], value: Operand) -> Value | None:
        """x[index] = value. For vectors and matrices the new value is returned; otherwise None."""
        t = x.type if isinstance(x, Value) else None
        if isinstance(t, ArrayType):
            if any(map(self.is_tile, index)):
                array_scatter(self, x, t, index, value)
                return None
            if any(isinstance(i, slice) for i in index) or len(index) < t.ndim:
                raise _array_assignment_error(t, index)
            self.emit(ArrayStore, [x, self.stored(value, t.dtype), *self.array_indices(x, index)])
            return None
        if isinstance(t, BufType):
            self._assign_tile(x, t, index, value)
            return None
        if isinstance(t, (VecType, MatType)):
            return self._assign_component(x, t, index, value)
        raise TypeRule(f"{describe(x)} cannot be assigned to by index")

    def stored(self, value: Operand, t: ElementType) -> Value:
        """The value to be stored in an element of type `t`: literals are converted to the type, and a tile of one
        element is replaced by the element."""
        element = self.only_element(self.value(value, t))
        if element.type != t and isinstance(value, LITERALS):
            element = self.full_element(element, t)
        return element

    def full_element(self, scalar: Value, t: ElementType) -> Value:
        """An element of type `t` whose components are all equal to a scalar."""
        return scalar if t == scalar.type else self.one(VecSplat, [scalar], {"type": t})

    def _assign_tile(self, x: Value, t: BufType, index: Sequence[Operand], value: Operand) -> None:
        if any(i is None for i in index):
            raise TypeRule("None cannot be used in a subscript that is assigned to", "leave out the None")
        if has_mask(self, index):
            assign_where(self, x, index[0], value)
            return
        if any(map(self.is_tile, index)):
            scatter(self, *self._indexed_part(x, t, index), value)
            return
        if any(isinstance(i, slice) for i in index) or len(index) < len(t.shape):
            view = self.view(x, index)
            assert isinstance(view.type, BufType)
            source = self.tile(value) if self.is_tile(value) else self.full(view.type.shape, value, t.dtype)
            assert isinstance(source.type, TileType)
            require(source.type.dtype == t.dtype, f"the tile holds {t.dtype}, the value {source.type.dtype}")
            try:
                self.write(view, self.broadcast(source, view.type.shape))
            except TypeRule as rule:
                if rule.error == "ShapeMismatch":
                    rule.fields["what"] = "shape mismatch in an assignment to a part of a tile"
                raise
            return
        indices = self.element_indices(t, index)
        self.emit(BufSet, [x, self.stored(value, accessed(t, [i.type for i in indices])), *indices])

    def _assign_component(
        self, x: Value, t: VecType | MatType, index: Sequence[Operand], value: Operand
    ) -> Value:
        if any(map(is_slice, index)):
            return self._assign_vector_slice(x, t, index, value)
        if isinstance(t, MatType) and len(index) == 1:
            row = self.value(value)
            require(
                row.type == VecType(t.cols, t.dtype), f"a row of {t} is a vector of {t.cols}, got {row.type}"
            )
            for c, component in enumerate(self.components_of(row)):
                x = self.one(VecInsert, [x, component, *self._component_indices(t, (index[0], c))])
            return x
        return self.one(VecInsert, [x, self.value(value, t.dtype), *self._component_indices(t, index)])

    def _assign_vector_slice(
        self, x: Value, t: VecType | MatType, index: Sequence[Operand], value: Operand
    ) -> Value:
        """The value x with the components that slices select replaced by the components of a vector or matrix, or by
        one number."""
        selected, values = self._selected_components(t, index), self.value(value, t.dtype)
        if values.type == t.dtype:
            new_components = [values] * selected.size
        else:
            expected = _composite_type(selected.shape, t.dtype)
            require(values.type == expected, f"this part of {t} is a {expected}, got {values.type}")
            new_components = self.components_of(values)
        old_components = self.components_of(x)
        for k, component in zip(selected.ravel().tolist(), new_components, strict=True):
            old_components[k] = component
        return self.one(VecMake, old_components, {"type": t})

    def update_subscript(self, op: str, x: Operand, index: Sequence[Operand], value: Operand) -> Value | None:
        """x[index] op= value. On tiles and arrays + - & | ^ are atomic between lanes; other operators read, compute and
        write."""
        t = x.type if isinstance(x, Value) else None
        is_element = not any(isinstance(i, slice) or self.is_tile(i) for i in index)
        if isinstance(t, BufType) and is_element and len(index) >= len(t.shape):
            indices = self.element_indices(t, index)
            if op in ("add", "sub", "and", "or", "xor"):
                element = accessed(t, [i.type for i in indices])
                self.emit(BufUpdate, [x, self.stored(value, element), *indices], {"op": op})
                return None
            self.emit(
                BufSet, [x, self.value(self.binary(op, self.one(BufGet, [x, *indices]), value)), *indices]
            )
            return None
        if isinstance(t, BufType) and has_mask(self, index):
            assign_where(self, x, index[0], self.binary(op, x, value))
            return None
        if any(map(self.is_tile, index)) and op in ("add", "sub"):
            if isinstance(t, BufType):
                scatter(self, *self._indexed_part(x, t, index), value, op)
                return None
            if isinstance(t, ArrayType):
                array_scatter(self, x, t, index, value, op)
                return None
        if isinstance(t, BufType) and not any(map(self.is_tile, index)):
            self.inplace(op, self.view(x, index), value)
            return None
        if isinstance(t, ArrayType) and is_element and len(index) == t.ndim and is_atomic(op, t.dtype):
            stored = self.stored(value, t.dtype)
            self.emit(ArrayAtomic, [x, stored, *self.array_indices(x, index)], {"op": op})
            return None
        return self.assign_subscript(x, index, self.binary(op, self.subscript(x, index), value))

    # Attributes ------------------------------------------------------------------------------------------------------

    def attribute(self, x: Operand, name: str) -> Operand:
        """x.name for arrays, tiles and vectors."""
        t = x.type if isinstance(x, Value) else None
        if isinstance(t, ArrayType) and name == "shape":
            return tuple(self.one(ArrayShape, [x], {"dim": d}) for d in range(t.ndim))
        if isinstance(t, (TileType, BufType)) and name == "shape":
            return t.shape
        if isinstance(t, (ArrayType, TileType, BufType)) and name == "dtype":
            return t.dtype
        if isinstance(t, ArrayType) and name == "ndim":
            return t.ndim
        if isinstance(t, ArrayType) and name == "size":
            return self._size(x, t.ndim)
        if isinstance(t, (VecType, MatType)) and name in ("shape", "dtype"):
            return element_shape(t) if name == "shape" else t.dtype
        if isinstance(t, (TileType, BufType)) and name in ("ndim", "size"):
            return len(t.shape) if name == "ndim" else math.prod(t.shape)
        if isinstance(t, (TileType, BufType)) and name == "T":
            return PUBLIC["tile_permute"](self, x, tuple(reversed(range(len(t.shape)))))
        if isinstance(t, MatType) and name == "T":
            return PUBLIC["transpose"](self, x)
        part = t.part(name) if isinstance(t, VecType) else None
        if isinstance(t, VecType) and part is not None:
            return self._swizzle(x, t, *part)
        raise TypeRule("", "", "UnknownAttribute", owner=describe(x), name=name)

    def _size(self, array: Operand, ndim: int) -> Value:
        """The number of elements of an array: int32 for one dimension, int64 for more."""
        extents = [self.one(ArrayShape, [array], {"dim": d}) for d in range(ndim)]
        if ndim == 1:
            return extents[0]
        return reduce(lambda n, extent: self.one(S.Mul, [n, extent]), (self.cast(n, int64) for n in extents))

    def _swizzle(self, x: Value, t: VecType, selected: tuple[int, ...], composite: VecType | None) -> Value:
        """v.x, v.xy, or t.p of a transform t."""
        if composite is None:
            return self._component(x, t, selected)
        return self.one(VecPart, [x], {"selected": selected, "type": composite})

    def assign_attribute(self, x: Operand, name: str, value: Operand) -> Value:
        """x.name = value for the named parts of a vector: the new vector."""
        t = x.type if isinstance(x, Value) else None
        part = t.part(name) if isinstance(t, VecType) else None
        if isinstance(t, VecType) and part is not None:
            return self._assign_swizzle(x, t, name, value)
        if isinstance(t, (ArrayType, TileType, BufType)) and name in ("shape", "dtype", "ndim", "size", "T"):
            help = "use a view with that shape" if name == "shape" else "create a new tile or array"
            raise TypeRule(f"'{name}' of {describe(x)} cannot be changed", help)
        raise TypeRule("", "", "UnknownAttribute", owner=describe(x), name=name)

    def _assign_swizzle(self, x: Value, t: VecType, name: str, value: Operand) -> Value:
        """The vector x with another value of a named part."""
        selected, expected = t.part(name) or ((), None)
        if expected is None:
            return self._assign_component(x, t, selected, value)
        new_part = self.value(value)
        require(len({*selected}) == len(selected), f"'{name}' names a component twice")
        require(new_part.type == expected, f"'{name}' of {t} is a {expected}, got {new_part.type}")
        parts = self.components_of(x)
        for k, component in zip(selected, self.components_of(new_part), strict=True):
            parts[k] = component
        return self.one(VecMake, parts, {"type": t})

    def length(self, x: Operand) -> Operand:
        """len(x): the first dimension of a tile or array, the length of a vector, the rows of a matrix."""
        if is_tuple(x):
            return len(x)
        t = x.type if isinstance(x, Value) else None
        if isinstance(t, ArrayType):
            return self.one(ArrayShape, [x], {"dim": 0})
        if isinstance(t, (TileType, BufType)):
            return t.shape[0]
        if isinstance(t, (VecType, MatType)):
            return element_shape(t)[0]
        raise TypeRule(f"{describe(x)} has no length")


def tile_shape_of(x: Value) -> tuple[int, ...]:
    """The shape of a tile value or tile object."""
    assert isinstance(x.type, (TileType, BufType))
    return x.type.shape


def describe_tile(t: TileType | BufType) -> str:
    """The text of the type of a tile value or tile object, for messages."""
    return str(t.tile if isinstance(t, BufType) else t)


def _composite_type(shape: Sequence[int], scalar: DType) -> VecType | MatType:
    """The vector or matrix type of a shape."""
    return VecType(shape[0], scalar) if len(shape) == 1 else MatType(shape[0], shape[1], scalar)


def _array_assignment_error(t: ArrayType, index: Sequence[Operand]) -> TypeRule:
    """The error for assigning to an array with fewer indices than dimensions, or with slices."""
    if any(isinstance(i, slice) for i in index):
        return TypeRule(
            "slices of arrays cannot be assigned", "use tg.tile_store, or a loop over the elements"
        )
    count = "1 index leaves" if len(index) == 1 else f"{len(index)} indices leave"
    return TypeRule(
        f"an array with {t.ndim} dimensions takes {t.ndim} indices; {count} a row, which cannot be assigned as a whole",
        f"give {t.ndim} indices, or use tg.tile_store",
    )


def is_atomic(op: str, t: ElementType) -> bool:
    """Whether `a[i] op= value` is one atomic update of an array's element."""
    kind = scalar_of(t).kind
    return (op in ("add", "sub") and kind != "b") or (op in ("and", "or", "xor") and kind in "iu")


def neutral(op: str, t: ElementType) -> int | float:
    """The neutral element of `op` on components."""
    scalar = scalar_of(t)
    if op == "and":
        return -1 if scalar.is_signed else (1 << scalar.bits) - 1
    return -0.0 if op == "add" and scalar.is_float else 0
