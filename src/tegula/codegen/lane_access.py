"""Memory accesses of the lanes of a vector: one element for all lanes, adjacent elements, or an address for each
lane."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tegula.codegen.arrays import accessed_element, combine_update, length_of, lower_access, reshaped
from tegula.codegen.convert import convert
from tegula.codegen.lane_address import (
    LaneAddress,
    Offsets,
    lane_address,
    lane_numbers,
    moved,
    spread_pointer,
)
from tegula.codegen.lane_width import is_serial
from tegula.codegen.scalar import Components
from tegula.codegen.state import State
from tegula.codegen.storage import ArrayAt, View
from tegula.codegen.text import constant, memory_type, register_type, vector_of
from tegula.dataclass import replace
from tegula.errors import InternalError
from tegula.ir import ElementAccess, Op, Value
from tegula.ops.array import ArrayLoad, ArrayShape, ArrayStore, ArrayView
from tegula.ops.buffer import BufGet, BufReshape, BufSet, BufUpdate, BufView
from tegula.ops.lane import LaneIndex
from tegula.ops.tile import TileExtract
from tegula.types import DType, ElementType, components, element_bytes, int32, int64, scalar_of


def lower_lanes_access(s: State, op: Op) -> Components | None:
    """Lower a lane op that accesses memory, for `s.width` lanes. At least one lane must be active, unless the op
    accesses an element for each lane."""
    if isinstance(op, LaneIndex):
        return (lane_numbers(s),)
    if isinstance(op, ElementAccess) and is_serial(s, op):
        return _scalarised(s, op)
    if not any(s.known.varying(v) for v in op.operands):
        return lower_access(s, op)
    rule = _RULES.get(type(op))
    if rule is None:
        raise InternalError(f"no lowering of {op.NAME} for several lanes")
    return rule(s, op)


# Lanes' own values ---------------------------------------------------------------------------------------------------


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


def _read(s: State, at: LaneAddress, element: ElementType, component_stride: int = 1) -> Components:
    if not at.test:
        return (
            _neighbours(s, at.first, element)
            if at.first
            else _gathered(s, at.each, element, component_stride)
        )
    t = register_type(scalar_of(element), s.width)
    near, far, done = s.code.label("near"), s.code.label("far"), s.code.label("read")
    s.code.branch(at.test, near, far)
    s.code.define_label(near)
    if at.shared:
        scalar = s.memory.load_element(at.first, element, component_stride)
        together = tuple(s.memory.splat(x, scalar_of(element), s.width) for x in scalar)
    else:
        together = _neighbours(s, at.first, element)
    end = s.code.block
    s.code.jump(done)
    s.code.define_label(far)
    gathered = _gathered(s, at.each, element, component_stride)
    s.code.jump(done)
    s.code.define_label(done)
    return tuple(s.code.phi(t, (a, end), (b, far)) for a, b in zip(together, gathered, strict=True))


def _neighbours(s: State, pointer: str, element: ElementType) -> Components:
    scalar, n = scalar_of(element), components(element)
    count = s.width * n

    def plain() -> str:
        return s.memory.load(pointer, scalar, count)

    def masked() -> str:
        mask, zero = _for_components(s, n), constant(scalar, 0, count)
        return s.memory.masked_load(pointer, scalar, count, mask, zero)

    vector = _by_mask(s, register_type(scalar, count), plain, masked)
    return s.memory.separated(vector, scalar, s.width, n)


def _by_mask(s: State, t: str, plain: Callable[[], str], masked: Callable[[], str]) -> str:
    """Access adjacent elements with or without the mask. Returns the value of type `t`, "" for a store.

    On processors without mask registers a masked access takes many times as long, so that the code tests whether all
    lanes are active."""
    if not s.mask:
        return plain()
    if s.target.mask_registers:
        return masked()
    code = s.code
    bits = code.emit(f"bitcast {vector_of('i1', s.width)} {s.mask} to i{s.width}")
    every, some, done = code.label("every"), code.label("some"), code.label("accessed")
    code.branch(code.emit(f"icmp eq i{s.width} {bits}, -1"), every, some)
    code.define_label(every)
    a = plain()
    code.jump(done)
    code.define_label(some)
    b = masked()
    code.jump(done)
    code.define_label(done)
    return code.phi(t, (a, every), (b, some)) if a else ""


def _gathered(s: State, pointers: str, element: ElementType, component_stride: int) -> Components:
    scalar = scalar_of(element)
    return tuple(
        s.memory.gather(_component(s, pointers, scalar, c * component_stride), scalar, s.width, _mask(s))
        for c in range(components(element))
    )


def _write(
    s: State, at: LaneAddress, element: ElementType, value: Components, component_stride: int = 1
) -> None:
    if not at.test or at.shared:
        if not at.each:
            _write_neighbours(s, at.first, element, value)
        else:
            _scatter(s, at.each, element, value, component_stride)
        return
    near, far, done = s.code.label("near"), s.code.label("far"), s.code.label("written")
    s.code.branch(at.test, near, far)
    s.code.define_label(near)
    _write_neighbours(s, at.first, element, value)
    s.code.jump(done)
    s.code.define_label(far)
    _scatter(s, at.each, element, value, component_stride)
    s.code.jump(done)
    s.code.define_label(done)


def _write_neighbours(s: State, pointer: str, element: ElementType, value: Components) -> None:
    scalar, n = scalar_of(element), len(value)
    vector = s.memory.interleaved(value, scalar, s.width)

    def plain() -> str:
        s.memory.store(pointer, vector, scalar, s.width * n)
        return ""

    def masked() -> str:
        s.memory.masked_store(pointer, vector, scalar, s.width * n, _for_components(s, n))
        return ""

    _by_mask(s, "", plain, masked)


def _scatter(s: State, pointers: str, element: ElementType, value: Components, component_stride: int) -> None:
    scalar = scalar_of(element)
    for c, part in enumerate(value):
        at = _component(s, pointers, scalar, c * component_stride)
        s.memory.scatter(at, part, scalar, s.width, _mask(s))


def _for_components(s: State, n: int) -> str:
    """The mask of the lanes, with each bit repeated for the n components of an element."""
    if n == 1:
        return s.mask
    return s.memory.shuffled(s.mask, "poison", "i1", s.width, [k for k in range(s.width) for _ in range(n)])


def _component(s: State, pointers: str, scalar: DType, at: int) -> str:
    if at == 0:
        return pointers
    return s.code.emit(
        f"getelementptr {memory_type(scalar)}, {vector_of('ptr', s.width)} {pointers}, i64 {at}"
    )


def _mask(s: State) -> str:
    return s.mask or "splat (i1 true)"


def _array_place(s: State, array: Value, indices: list[Value]) -> LaneAddress:
    root = s.arrays[array]
    units = list(root.strides)
    if root.contiguous:
        units[-1] = str(element_bytes(root.dtype))
    offsets = list(zip(indices, units, strict=True))
    return lane_address(s, root.pointer, s.known.varying(array), offsets, root.dtype)


def _array_load(s: State, op: ArrayLoad) -> Components:
    at = _array_place(s, op.array, op.indices)
    return _read(s, at, s.arrays[op.array].dtype)


def _array_store(s: State, op: ArrayStore) -> None:
    at = _array_place(s, op.array, op.indices)
    _write(s, at, s.arrays[op.array].dtype, s.spread(op.value, s.width))


def _view_of(s: State, value: Value) -> View:
    return s.buffers[value] if value in s.buffers else s.tiles[value]


def _tile_place(s: State, tile: Value, indices: list[Value]) -> tuple[LaneAddress, ElementType, int]:
    """The addresses, type and component stride of t[i, ...], which may be an element, a component or a row of an
    element."""
    view = _view_of(s, tile)
    size = scalar_of(view.dtype).bits // 8
    t, inner = accessed_element(view, len(indices))
    steps = [*view.strides, *(n * view.component_stride for n in inner)]
    offsets = [(v, str(step * size)) for v, step in zip(indices, steps, strict=True)]
    at = lane_address(s, view.pointer, s.known.varying(tile), offsets, t, view.component_stride)
    return at, t, view.component_stride


def _get(s: State, op: BufGet | TileExtract) -> Components:
    return _read(s, *_tile_place(s, op.target, op.indices))


def _set(s: State, op: BufSet) -> None:
    at, t, stride = _tile_place(s, op.buffer, op.indices)
    _write(s, at, t, s.spread(op.value, s.width), stride)


def _update(s: State, op: BufUpdate) -> None:
    """Lower `buf.update` where no two lanes update the same element."""
    at, t, stride = _tile_place(s, op.buffer, op.indices)
    old, operand = _read(s, at, t, stride), s.spread(op.value, s.width)
    updated = tuple(combine_update(s, op, scalar_of(t), a, b) for a, b in zip(old, operand, strict=True))
    _write(s, at, t, updated, stride)


# Views ---------------------------------------------------------------------------------------------------------------


def _array_view(s: State, op: ArrayView) -> None:
    """Lower `array.view`: a descriptor with an address, and possibly lengths, for each lane."""
    source, spec, rest = s.arrays[op.array], op.spec, iter(op.bounds)
    offsets: Offsets = []
    shape, strides = [], []
    for entry, stride in zip(spec, source.strides, strict=True):
        offsets.append((next(rest), stride))
        if entry != "index":
            length = next(rest)
            wide = s.spread(length, s.width)[0]
            shape.append(convert(s.code, wide, length.type, int64, s.width))  # type: ignore[arg-type]
            strides.append(s.memory.mul(stride, str(entry[1])))
    pointer, spread = moved(s, source.pointer, s.known.varying(op.array), offsets)
    contiguous = source.contiguous and spec[-1] == ("slice", 1)
    s.arrays[op.result] = ArrayAt(
        *(spread_pointer(s, pointer, spread), source.dtype, tuple(shape), tuple(strides)),
        *(contiguous, source.name),
    )


def _array_shape(s: State, op: ArrayShape) -> Components:
    return (convert(s.code, length_of(s, op), int64, int32, s.width),)


def _buffer_view(s: State, op: BufView) -> None:
    source = _view_of(s, op.buffer)
    size = scalar_of(source.dtype).bits // 8
    offsets = [(v, str(n * size)) for v, n in zip(op.starts, source.strides, strict=True)]
    pointer, spread = moved(s, source.pointer, s.known.varying(op.buffer), offsets)
    strides = tuple(
        0 if d < 0 else source.strides[d] * step for d, step in zip(op.dims, op.steps, strict=True)
    )
    s.buffers[op.result] = View(
        *(spread_pointer(s, pointer, spread), source.dtype, tuple(op.shape), strides),
        source.component_stride,
    )


def _buffer_reshape(s: State, op: BufReshape) -> None:
    s.buffers[op.result] = reshaped(s.buffers[op.buffer], tuple(op.shape))


# One lane after the other --------------------------------------------------------------------------------------------


def _scalarised(s: State, op: ElementAccess) -> Components | None:
    """Run an op for one active lane after the other, in lane order."""
    code, width, mask, first = s.code, s.width, s.mask, s.lane
    kinds = [(scalar_of(r.type), components(r.type)) for r in op.results]  # type: ignore[arg-type]
    types = [register_type(t, width) for t, n in kinds for _ in range(n)]
    saved = {v: s.scalars[v] for v in op.operands if v in s.scalars and s.known.varying(v)}
    with code.loop("0", str(width), carried=[(t, "zeroinitializer") for t in types]) as loop:
        before, run, skip = code.block, code.label("active"), code.label("next")
        if mask:
            test = code.emit(f"extractelement {vector_of('i1', width)} {mask}, i64 {loop.index}")
            code.branch(test, run, skip)
            code.define_label(run)
        value = _one_lane(s, op, saved, loop.index)
        s.lane, s.width, s.mask = first, width, mask
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


def _one_lane(s: State, op: ElementAccess, varying: dict[Value, Components], k: str) -> Components | None:
    width = s.width
    for value, parts in varying.items():
        t = register_type(scalar_of(value.type), width)  # type: ignore[arg-type]
        s.scalars[value] = tuple(s.code.emit(f"extractelement {t} {x}, i64 {k}") for x in parts)
    s.lane, s.width, s.mask = s.memory.add(s.lane, k), 1, ""
    target = op.target
    known: dict[Value, Any] = s.arrays if target in s.arrays else s.buffers
    if not s.known.varying(target):
        return lower_access(s, op)
    target_value = known[target]
    own = s.code.emit(f"extractelement {vector_of('ptr', width)} {target_value.pointer}, i64 {k}")
    known[target] = replace(target_value, pointer=own)
    is_whole_vector = lower_access(s, op)
    known[target] = target_value
    return is_whole_vector


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
