"""Memory accesses of the lanes of a vector: one element for all lanes, adjacent elements, or an address for each
lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tegula.codegen.arrays import accessed_element, combine_update, length_of, lower_access, reshaped
from tegula.codegen.convert import convert
from tegula.codegen.scalar import Components
from tegula.codegen.state import State
from tegula.codegen.storage import ArrayDescriptor, View
from tegula.codegen.text import constant, memory_type, register_type, vector_of
from tegula.dataclass import replace
from tegula.deferred import deferred_imports
from tegula.errors import InternalError
from tegula.ir import ElementAccess, Op, Value
from tegula.ops.array import ArrayLoad, ArrayShape, ArrayStore, ArrayView
from tegula.ops.buffer import BufGet, BufReshape, BufSet, BufUpdate, BufView
from tegula.ops.lane import LaneIndex
from tegula.ops.tile import TileExtract
from tegula.types import DType, ElementType, components, int32, int64, scalar_of

with deferred_imports():
    from tegula.codegen.lane_address import lane_address, lane_numbers, offset_pointer, pointer_vector
    from tegula.codegen.lane_width import is_serial

if TYPE_CHECKING:
    from tegula.codegen.lane_address import LaneAddress, Offsets


def lower_lanes_access(s: State, op: Op) -> Components | None:
    """Lower a lane op that accesses memory, for `s.width` lanes. At least one lane must be active if the lanes access
    one common element."""
    if isinstance(op, LaneIndex):
        return (lane_numbers(s),)
    if isinstance(op, ElementAccess) and is_serial(s, op):
        return _lower_lane_by_lane(s, op)
    if not any(s.known.varying(v) for v in op.operands):
        return lower_access(s, op)
    rule = _RULES.get(type(op))
    if rule is None:
        raise InternalError(f"no lowering of {op.NAME} for several lanes")
    return rule(s, op)


# Values of lanes -----------------------------------------------------------------------------------------------------


def load_lanes(s: State, view: View) -> Components:
    """The elements of a lane array for the lanes of the vector."""
    scalar = scalar_of(view.dtype)
    return tuple(s.memory.load(p, scalar, s.width) for p in _components_of(s, view))


def store_lanes(s: State, view: View, value: Components) -> None:
    """Store the vector's lanes to consecutive elements of a lane array."""
    scalar = scalar_of(view.dtype)
    for pointer, part in zip(_components_of(s, view), value, strict=True):
        s.memory.store(pointer, part, scalar, s.width)


def _components_of(s: State, view: View) -> list[str]:
    first, scalar = s.memory.at(view, [s.lane]), scalar_of(view.dtype)
    return [
        s.memory.offset(first, str(c * view.component_stride), scalar) for c in range(components(view.dtype))
    ]


# Elements ------------------------------------------------------------------------------------------------------------


def _load(s: State, address: LaneAddress, element: ElementType, component_stride: int = 1) -> Components:
    if not address.test:
        return (
            _load_adjacent(s, address.first, element)
            if address.first
            else _gather(s, address.pointers, element, component_stride)
        )
    t = register_type(scalar_of(element), s.width)
    fast, slow, joined = s.code.label("fast"), s.code.label("slow"), s.code.label("read")
    s.code.branch(address.test, fast, slow)
    s.code.define_label(fast)
    if address.is_broadcast:
        scalar = s.memory.load_element(address.first, element, component_stride)
        fast_value = tuple(s.memory.splat(x, scalar_of(element), s.width) for x in scalar)
    else:
        fast_value = _load_adjacent(s, address.first, element)
    end = s.code.block
    s.code.jump(joined)
    s.code.define_label(slow)
    slow_value = _gather(s, address.pointers, element, component_stride)
    s.code.jump(joined)
    s.code.define_label(joined)
    return tuple(s.code.phi(t, (a, end), (b, slow)) for a, b in zip(fast_value, slow_value, strict=True))


def _load_adjacent(s: State, pointer: str, element: ElementType) -> Components:
    scalar, n = scalar_of(element), components(element)
    count = s.width * n

    def unmasked() -> str:
        return s.memory.load(pointer, scalar, count)

    def masked() -> str:
        mask, zero = _component_mask(s, n), constant(scalar, 0, count)
        return s.memory.masked_load(pointer, scalar, count, mask, zero)

    vector = _with_mask(s, register_type(scalar, count), unmasked, masked)
    return s.memory.separated(vector, scalar, s.width, n)


def _with_mask(s: State, t: str, unmasked: Callable[[], str], masked: Callable[[], str]) -> str:
    """Access adjacent elements with or without the mask. Returns the value of type `t`, "" for a store.

    Masked accesses are slow on processors without mask registers, where the code therefore tests whether all lanes are
    active."""
    if not s.mask:
        return unmasked()
    if s.target.mask_registers:
        return masked()
    code = s.code
    bits = code.emit(f"bitcast {vector_of('i1', s.width)} {s.mask} to i{s.width}")
    all_active, some_active, done = (
        code.label("all_active"),
        code.label("some_active"),
        code.label("accessed"),
    )
    code.branch(code.emit(f"icmp eq i{s.width} {bits}, -1"), all_active, some_active)
    code.define_label(all_active)
    unmasked_value = unmasked()
    code.jump(done)
    code.define_label(some_active)
    masked_value = masked()
    code.jump(done)
    code.define_label(done)
    return code.phi(t, (unmasked_value, all_active), (masked_value, some_active)) if unmasked_value else ""


def _gather(s: State, pointers: str, element: ElementType, component_stride: int) -> Components:
    scalar = scalar_of(element)
    return tuple(
        s.memory.gather(
            _component_pointers(s, pointers, scalar, c * component_stride), scalar, s.width, _mask(s)
        )
        for c in range(components(element))
    )


def _store(
    s: State, address: LaneAddress, element: ElementType, value: Components, component_stride: int = 1
) -> None:
    if not address.test or address.is_broadcast:
        if not address.pointers:
            _store_adjacent(s, address.first, element, value)
        else:
            _scatter(s, address.pointers, element, value, component_stride)
        return
    fast, slow, joined = s.code.label("fast"), s.code.label("slow"), s.code.label("written")
    s.code.branch(address.test, fast, slow)
    s.code.define_label(fast)
    _store_adjacent(s, address.first, element, value)
    s.code.jump(joined)
    s.code.define_label(slow)
    _scatter(s, address.pointers, element, value, component_stride)
    s.code.jump(joined)
    s.code.define_label(joined)


def _store_adjacent(s: State, pointer: str, element: ElementType, value: Components) -> None:
    scalar, n = scalar_of(element), len(value)
    vector = s.memory.interleaved(value, scalar, s.width)

    def unmasked() -> str:
        s.memory.store(pointer, vector, scalar, s.width * n)
        return ""

    def masked() -> str:
        s.memory.masked_store(pointer, vector, scalar, s.width * n, _component_mask(s, n))
        return ""

    _with_mask(s, "", unmasked, masked)


def _scatter(s: State, pointers: str, element: ElementType, value: Components, component_stride: int) -> None:
    scalar = scalar_of(element)
    for c, part in enumerate(value):
        component_pointers = _component_pointers(s, pointers, scalar, c * component_stride)
        s.memory.scatter(component_pointers, part, scalar, s.width, _mask(s))


def _component_mask(s: State, n: int) -> str:
    """The mask of the lanes, with each bit repeated for the n components of an element."""
    if n == 1:
        return s.mask
    return s.memory.shuffled(s.mask, "poison", "i1", s.width, [k for k in range(s.width) for _ in range(n)])


def _component_pointers(s: State, pointers: str, scalar: DType, offset: int) -> str:
    if offset == 0:
        return pointers
    return s.code.emit(
        f"getelementptr {memory_type(scalar)}, {vector_of('ptr', s.width)} {pointers}, i64 {offset}"
    )


def _mask(s: State) -> str:
    return s.mask or "splat (i1 true)"


def _array_address(s: State, array: Value, indices: list[Value]) -> LaneAddress:
    root = s.arrays[array]
    offsets = list(zip(indices, root.strides, strict=True))
    return lane_address(s, root.pointer, s.known.varying(array), offsets, root.dtype)


def _array_load(s: State, op: ArrayLoad) -> Components:
    address = _array_address(s, op.array, op.indices)
    return _load(s, address, s.arrays[op.array].dtype)


def _array_store(s: State, op: ArrayStore) -> None:
    address = _array_address(s, op.array, op.indices)
    _store(s, address, s.arrays[op.array].dtype, s.spread(op.value, s.width))


def _view_of(s: State, value: Value) -> View:
    return s.buffers[value] if value in s.buffers else s.tiles[value]


def _tile_address(s: State, tile: Value, indices: list[Value]) -> tuple[LaneAddress, ElementType, int]:
    """The addresses, type and component stride of t[i, ...], which may be an element, a component or a row of an
    element."""
    view = _view_of(s, tile)
    size = scalar_of(view.dtype).bits // 8
    t, inner_strides = accessed_element(view, len(indices))
    strides = [*view.strides, *(n * view.component_stride for n in inner_strides)]
    offsets = [(v, str(step * size)) for v, step in zip(indices, strides, strict=True)]
    address = lane_address(s, view.pointer, s.known.varying(tile), offsets, t, view.component_stride)
    return address, t, view.component_stride


def _get(s: State, op: BufGet | TileExtract) -> Components:
    return _load(s, *_tile_address(s, op.target, op.indices))


def _set(s: State, op: BufSet) -> None:
    address, t, stride = _tile_address(s, op.buffer, op.indices)
    _store(s, address, t, s.spread(op.value, s.width), stride)


def _update(s: State, op: BufUpdate) -> None:
    """Lower `buf.update` where no two lanes update the same element."""
    address, t, stride = _tile_address(s, op.buffer, op.indices)
    old, operand = _load(s, address, t, stride), s.spread(op.value, s.width)
    updated = tuple(combine_update(s, op, scalar_of(t), a, b) for a, b in zip(old, operand, strict=True))
    _store(s, address, t, updated, stride)


# Views ---------------------------------------------------------------------------------------------------------------


def _array_view(s: State, op: ArrayView) -> None:
    """Lower `array.view`: a descriptor with an address, and possibly lengths, for each lane."""
    source, spec, bounds = s.arrays[op.array], op.spec, iter(op.bounds)
    offsets: Offsets = []
    shape, strides = [], []
    for entry, stride in zip(spec, source.strides, strict=True):
        offsets.append((next(bounds), stride))
        if entry != "index":
            length = next(bounds)
            length_vector = s.spread(length, s.width)[0]
            shape.append(convert(s.code, length_vector, length.type, int64, s.width))  # type: ignore[arg-type]
            strides.append(s.memory.mul(stride, str(entry[1])))
    pointer, is_vector = offset_pointer(s, source.pointer, s.known.varying(op.array), offsets)
    address = pointer_vector(s, pointer, is_vector)
    s.arrays[op.result] = ArrayDescriptor(address, source.dtype, tuple(shape), tuple(strides), source.name)


def _array_shape(s: State, op: ArrayShape) -> Components:
    return (convert(s.code, length_of(s, op), int64, int32, s.width),)


def _buffer_view(s: State, op: BufView) -> None:
    source = _view_of(s, op.buffer)
    size = scalar_of(source.dtype).bits // 8
    offsets = [(v, str(n * size)) for v, n in zip(op.starts, source.strides, strict=True)]
    pointer, is_vector = offset_pointer(s, source.pointer, s.known.varying(op.buffer), offsets)
    strides = tuple(
        0 if d < 0 else source.strides[d] * step for d, step in zip(op.dims, op.steps, strict=True)
    )
    s.buffers[op.result] = View(
        *(pointer_vector(s, pointer, is_vector), source.dtype, tuple(op.shape), strides),
        source.component_stride,
    )


def _buffer_reshape(s: State, op: BufReshape) -> None:
    s.buffers[op.result] = reshaped(s.buffers[op.buffer], tuple(op.shape))


# Serial ops ---------------------------------------------------------------------------------------------------------


def _lower_lane_by_lane(s: State, op: ElementAccess) -> Components | None:
    """Lower an op to a loop over the active lanes, in lane order."""
    code, width, mask, first_lane = s.code, s.width, s.mask, s.lane
    result_types = [(scalar_of(r.type), components(r.type)) for r in op.results]  # type: ignore[arg-type]
    types = [register_type(t, width) for t, n in result_types for _ in range(n)]
    saved = {v: s.scalars[v] for v in op.operands if v in s.scalars and s.known.varying(v)}
    with code.loop("0", str(width), carried=[(t, "zeroinitializer") for t in types]) as loop:
        before, run, skip = code.block, code.label("active"), code.label("next")
        if mask:
            test = code.emit(f"extractelement {vector_of('i1', width)} {mask}, i64 {loop.index}")
            code.branch(test, run, skip)
            code.define_label(run)
        value = _lower_one_lane(s, op, saved, loop.index)
        s.lane, s.width, s.mask = first_lane, width, mask
        s.scalars.update(saved)
        loop.next = [
            code.emit(f"insertelement {t} {old}, {t.split(' x ')[1][:-1]} {x}, i64 {loop.index}")
            for t, old, x in zip(types, loop.values, value or (), strict=True)
        ]
        if mask:
            last = code.block
            code.jump(skip)
            code.define_label(skip)
            loop.next = [
                code.phi(t, (old, before), (new, last))
                for t, old, new in zip(types, loop.values, loop.next, strict=True)
            ]
    return tuple(loop.results) if op.results else None


def _lower_one_lane(
    s: State, op: ElementAccess, varying: dict[Value, Components], k: str
) -> Components | None:
    width = s.width
    for value, parts in varying.items():
        t = register_type(scalar_of(value.type), width)  # type: ignore[arg-type]
        s.scalars[value] = tuple(s.code.emit(f"extractelement {t} {x}, i64 {k}") for x in parts)
    s.lane, s.width, s.mask = s.memory.add(s.lane, k), 1, ""
    target = op.target
    views: dict[Value, Any] = s.arrays if target in s.arrays else s.buffers
    if not s.known.varying(target):
        return lower_access(s, op)
    target_value = views[target]
    lane_pointer = s.code.emit(f"extractelement {vector_of('ptr', width)} {target_value.pointer}, i64 {k}")
    views[target] = replace(target_value, pointer=lane_pointer)
    result = lower_access(s, op)
    views[target] = target_value
    return result


_RULES = {
    ArrayLoad: _array_load,
    ArrayStore: _array_store,
    ArrayShape: _array_shape,
    ArrayView: _array_view,
    BufView: _buffer_view,
    BufReshape: _buffer_reshape,
    BufGet: _get,
    TileExtract: _get,
    BufSet: _set,
    BufUpdate: _update,
}
