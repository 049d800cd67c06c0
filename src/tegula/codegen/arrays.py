"""Element access to arrays and tiles from scalar code, views, atomics, and reports to the host."""

from __future__ import annotations

from tegula.codegen.scalar import ACCESS_COMPONENTS, Components, elementwise, packed
from tegula.codegen.sites import RECORD_BYTES, RECORD_SLOTS, RECORDS, VALUES
from tegula.codegen.state import State
from tegula.codegen.storage import ArrayDescriptor, View
from tegula.codegen.text import constant, memory_type, register_type, scalar_type
from tegula.deferred import deferred_imports
from tegula.errors import InternalError, TypeMismatch
from tegula.ir import ElementAccess, Op, Value, exchanged
from tegula.ops import scalar as S
from tegula.ops.array import (
    ArrayAtomic,
    ArrayCas,
    ArrayLoad,
    ArrayShape,
    ArrayStore,
    ArrayTranspose,
    ArrayView,
)
from tegula.ops.buffer import BufExchange, BufGet, BufReshape, BufSet, BufUpdate, BufView
from tegula.ops.debug import Assert, Breakpoint, Print
from tegula.ops.lane import BlockCount, BlockIndex, LaneCount, LaneFence, LaneIndex, Tid
from tegula.ops.stack import StackCount
from tegula.ops.structures import (
    StructureAdd,
    StructureLoad,
    StructurePrefetch,
    StructureTable,
    StructureValue,
)
from tegula.ops.tile import TileExtract
from tegula.passes.overlap import array_root
from tegula.target import CudaTarget
from tegula.types import (
    ArrayType,
    DType,
    ElementType,
    MatType,
    VecType,
    components,
    element_bytes,
    element_shape,
    int32,
    scalar_of,
)

with deferred_imports():
    from tegula.codegen.atomics import atomic_element, compare_and_swap_element
    from tegula.codegen.structures import structure_add, structure_load, structure_prefetch, structure_table

MAX_ACCESS_BYTES = 16
"""The maximum size of an access on a GPU, in bytes."""


def lower_access(s: State, op: Op) -> Components | None:
    """Lower a lane op that accesses memory. Returns the components of the result, or None for an op without result;
    raises InternalError for any other op."""
    rule = _RULES.get(type(op))
    if rule is None:
        raise InternalError(f"no lowering of {op.NAME} in lane code")
    return rule(s, op)


# Arrays ---------------------------------------------------------------------------------------------------------------


def array_view(s: State, op: ArrayView) -> None:
    """Lower `array.view` (basic indexing): the result is a new descriptor."""
    source = s.arrays[op.array]
    bounds = iter(op.bounds)
    pointer, shape, strides = source.pointer, [], []
    spec = op.spec
    index_and_length: list[tuple[str, str]] = []
    for entry, stride, length in zip(spec, source.strides, source.shape, strict=True):
        start = s.i64(next(bounds))
        if entry == "index":
            index_and_length.append((start, length))
        pointer = s.memory.bytes_offset(pointer, s.memory.mul(start, stride))
        if entry != "index":
            shape.append(s.i64(next(bounds)))
            strides.append(s.memory.mul(stride, str(entry[1])))
    if s.debug and index_and_length:
        pointer, shape = _check_view_bounds(s, op, source, index_and_length, pointer, shape)
    s.arrays[op.result] = ArrayDescriptor(pointer, source.dtype, tuple(shape), tuple(strides), source.name)


def array_transpose(s: State, op: ArrayTranspose) -> None:
    """Lower `array.transpose`: a descriptor with exchanged dimensions."""
    source = s.arrays[op.array]
    shape, strides = exchanged(source.shape), exchanged(source.strides)
    s.arrays[op.result] = ArrayDescriptor(source.pointer, source.dtype, shape, strides, source.name)


def _check_view_bounds(
    s: State, op: Op, source: ArrayDescriptor, chosen: list[tuple[str, str]], pointer: str, shape: list[str]
) -> tuple[str, list[str]]:
    """The pointer and the lengths of a view. An index out of bounds is reported, and the view then has no elements."""
    ok = "true"
    for index, length in chosen:
        ok = _and(s, ok, s.code.emit(f"icmp ult i64 {index}, {length}"))
    site = s.site("bounds", op.loc, array=source.name, rank=len(chosen))
    report_unless(s, ok, site, [*(i for i, _ in chosen), *(n for _, n in chosen)])
    safe = s.code.emit(f"select i1 {ok}, ptr {pointer}, ptr {source.pointer}")
    return safe, [s.code.emit(f"select i1 {ok}, i64 {n}, i64 0") for n in shape]


def array_address(s: State, op: Op, array: ArrayDescriptor, indices: list[Value]) -> tuple[str, str | None]:
    """The address of an element, and in debug mode an i1 that is true if the element is in bounds, else None. The
    address of an element out of bounds is redirected to scratch memory."""
    values = [s.i64(v) for v in indices]
    pointer = array.pointer
    for i, stride in zip(values, array.strides, strict=True):
        pointer = s.memory.bytes_offset(pointer, s.memory.mul(i, stride))
    if not s.debug:
        return pointer, None
    ok = "true"
    for i, n in zip(values, array.shape, strict=True):
        ok = _and(s, ok, s.code.emit(f"icmp ult i64 {i}, {n}"))
    site = s.site("bounds", op.loc, array=array.name, rank=len(values))
    report_unless(s, ok, site, [*values, *array.shape])
    return s.code.emit(f"select i1 {ok}, ptr {pointer}, ptr {scratch_address(s, array.dtype)}"), ok


def _and(s: State, a: str, b: str) -> str:
    return b if a == "true" else s.code.emit(f"and i1 {a}, {b}")


def scratch_address(s: State, dtype: ElementType) -> str:
    """The address of an element of scratch memory to which dropped accesses are redirected."""
    return s.allocate("spare", dtype, (1,)).pointer


def _fills_register(s: State, t: ElementType) -> bool:
    """Whether elements of a type are read and written as one vector register."""
    if not (s.code.packs and isinstance(t, VecType) and components(t) in ACCESS_COMPONENTS):
        return False
    return memory_type(scalar_of(t)) == scalar_type(scalar_of(t))


def _components_per_access(s: State, array: Value, t: ElementType) -> int:
    """The number of components of a vector in one access of a GPU: the components in 16 bytes, or all components of
    fewer bytes, if every element is aligned to as many bytes, else 1."""
    source, scalar = array_root(array), scalar_of(t)
    if (
        not (isinstance(s.target, CudaTarget) and isinstance(t, VecType))
        or source not in s.kernel.params
        or s.debug
    ):
        return 1
    access = s.kernel.access[s.kernel.params.index(source)]
    size = min(element_bytes(t), MAX_ACCESS_BYTES)
    aligned = access is not None and access.dense and access.align % size == 0
    if not aligned or size & (size - 1) or element_bytes(t) % size or scalar.bits < 32:
        return 1
    return size // (scalar.bits // 8)


def _array_load(s: State, op: ArrayLoad) -> Components:
    array = s.arrays[op.array]
    pointer, _ = array_address(s, op, array, op.indices)
    scalar, count = scalar_of(array.dtype), components(array.dtype)
    kind, size = memory_type(scalar), max(1, scalar.bits // 8)
    if _fills_register(s, array.dtype):
        return s.code.unpacked(
            kind, count, s.code.emit(f"load <{count} x {kind}>, ptr {pointer}, align {size}")
        )
    per_access = _components_per_access(s, op.array, array.dtype)
    if per_access == 1:
        return s.memory.load_element(pointer, array.dtype)
    loaded: list[str] = []
    for first in range(0, count, per_access):
        address = s.memory.bytes_offset(pointer, str(first * size))
        vector = s.code.emit(f"load <{per_access} x {kind}>, ptr {address}, align {per_access * size}")
        loaded += [
            s.code.emit(f"extractelement <{per_access} x {kind}> {vector}, i32 {k}")
            for k in range(per_access)
        ]
    return tuple(loaded)


def _array_store(s: State, op: ArrayStore) -> None:
    array = s.arrays[op.array]
    pointer, _ = array_address(s, op, array, op.indices)
    value = s.components(op.value)
    scalar, count = scalar_of(array.dtype), components(array.dtype)
    kind, size = memory_type(scalar), max(1, scalar.bits // 8)
    if _fills_register(s, array.dtype):
        contiguous = packed(s.code, value, scalar, count)
        s.code.line(f"store <{count} x {kind}> {contiguous}, ptr {pointer}, align {size}")
        return
    per_access = _components_per_access(s, op.array, array.dtype)
    if per_access == 1:
        s.memory.store_element(pointer, value, array.dtype)
        return
    for first in range(0, count, per_access):
        vector = packed(s.code, value[first : first + per_access], scalar, per_access)
        address = s.memory.bytes_offset(pointer, str(first * size))
        s.code.line(f"store <{per_access} x {kind}> {vector}, ptr {address}, align {per_access * size}")


def length_of(s: State, op: ArrayShape) -> str:
    """The length that `array.shape` returns, i64. TypeMismatch if int32 may not hold it."""
    array, dim = op.array, op.dim
    root = array_root(array)
    k = s.kernel.params.index(root) if root in s.kernel.params else None
    access = s.kernel.access[k] if k is not None else None
    long = access.long if access is not None else ()
    if k is not None and long and (root is not array or dim in long):
        name = s.kernel.param_names[k]
        message = (
            f"dimension {long[0]} of array '{name}' has 2**31 elements or more, but its length is used as an int32 "
            "here"
        )
        raise TypeMismatch(
            op.loc, what=message, help="pass a view of fewer elements, or pass the length as an argument"
        )
    return s.arrays[array].shape[dim]


def _array_shape(s: State, op: ArrayShape) -> Components:
    return (s.code.emit(f"trunc i64 {length_of(s, op)} to i32"),)


def _array_atomic(s: State, op: ArrayAtomic) -> Components:
    array = s.arrays[op.array]
    pointer, _ = array_address(s, op, array, op.indices)
    return atomic_element(s.code, op.op, pointer, array.dtype, s.components(op.value))


def _array_cas(s: State, op: ArrayCas) -> Components:
    array = s.arrays[op.array]
    pointer, _ = array_address(s, op, array, op.indices)
    expected, value = (s.components(v) for v in (op.expected, op.value))
    return compare_and_swap_element(s.code, pointer, array.dtype, expected, value)


# Tiles ----------------------------------------------------------------------------------------------------------------


def buffer_view(s: State, op: BufView) -> None:
    """Lower `buf.view`: the result has another pointer and other strides."""
    source = s.buffers[op.buffer] if op.buffer in s.buffers else s.tiles[op.buffer]
    view = sliced(s, source, [s.i64(v) for v in op.starts], op.attrs)
    (s.buffers if isinstance(op, BufView) else s.tiles)[op.result] = view


def sliced(s: State, source: View, starts: list[str], attrs: dict[str, tuple[int, ...]]) -> View:
    """The slice of a view that the attributes of a `tile.slice` or `buf.view` select."""
    return source.sliced(s.memory, starts, attrs)


def reshaped(source: View, shape: tuple[int, ...]) -> View:
    """The view of the same packed elements with another shape."""
    from tegula.codegen.storage import packed_strides

    if not source.packed and source.component_stride == 1:
        raise InternalError("only packed tiles can be reshaped")
    unit = components(source.dtype) if source.component_stride == 1 else 1
    return View(source.pointer, source.dtype, shape, packed_strides(shape, unit), source.component_stride)


def _buffer_reshape(s: State, op: BufReshape) -> None:
    s.buffers[op.result] = reshaped(s.buffers[op.buffer], tuple(op.shape))


def accessed(s: State, op: ElementAccess, view: View, indices: list[Value]) -> tuple[str, ElementType, int]:
    """The address, type and component stride of t[i, ...], which may be an element, a component or a row of an
    element."""
    rank = len(view.shape)
    values = [s.i64(v) for v in indices]
    pointer = s.memory.at(view, values[:rank])
    t, steps = accessed_element(view, len(values))
    for i, step in zip(values[rank:], steps, strict=True):
        pointer = s.memory.offset(pointer, s.memory.mul(i, str(step * view.component_stride)), scalar_of(t))
    if s.debug:
        pointer = _check_bounds(s, op, view, values, pointer)
    return pointer, t, view.component_stride


def accessed_element(view: View, indices: int) -> tuple[ElementType, list[int]]:
    """The type of t[i, ...] with `indices` indices, and the stride in components of each index into the element."""
    t, inner = view.dtype, indices - len(view.shape)
    if inner == 0:
        return t, []
    if not isinstance(t, MatType):
        return scalar_of(t), [1]
    return (VecType(t.cols, t.dtype), [t.cols]) if inner == 1 else (t.dtype, [t.cols, 1])


def _check_bounds(s: State, op: ElementAccess, view: View, values: list[str], pointer: str) -> str:
    """The address of an element or a component. An index out of bounds is reported, and the access is redirected to
    scratch memory."""
    ok, shape = "true", (*view.shape, *element_shape(view.dtype))[: len(values)]
    for i, n in zip(values, shape, strict=True):
        ok = _and(s, ok, s.code.emit(f"icmp ult i64 {i}, {n}"))
    site = s.site("bounds", op.loc, array=op.target.name, rank=len(values))
    report_unless(s, ok, site, [*values, *map(str, shape)])
    # Components keep the component stride of the view.
    extent = 1 + (components(view.dtype) - 1) * view.component_stride
    scratch = s.allocate("spare", scalar_of(view.dtype), (extent,)).pointer
    return s.code.emit(f"select i1 {ok}, ptr {pointer}, ptr {scratch}")


def _get(s: State, op: BufGet | TileExtract) -> Components:
    source = op.target
    view = s.buffers[source] if source in s.buffers else s.tiles[source]
    pointer, t, stride = accessed(s, op, view, op.indices)
    return s.memory.load_element(pointer, t, stride)


def _set(s: State, op: BufSet) -> None:
    pointer, t, stride = accessed(s, op, s.buffers[op.buffer], op.indices)
    s.memory.store_element(pointer, s.components(op.value), t, stride)


def _update(s: State, op: BufUpdate) -> None:
    """Lower `buf.update`. One thread runs a block, so the lanes' updates are sequential."""
    pointer, t, stride = accessed(s, op, s.buffers[op.buffer], op.indices)
    old, operand = s.memory.load_element(pointer, t, stride), s.components(op.value)
    updated = tuple(combine_update(s, op, scalar_of(t), a, b) for a, b in zip(old, operand, strict=True))
    s.memory.store_element(pointer, updated, t, stride)


def _exchange(s: State, op: BufExchange) -> Components:
    """Lower `buf.exchange`. One thread runs a block, so the lanes' exchanges are sequential."""
    pointer, t, stride = accessed(s, op, s.buffers[op.buffer], op.indices)
    old = s.memory.load_element(pointer, t, stride)
    s.memory.store_element(pointer, s.components(op.value), t, stride)
    return old


def combine_update(s: State, op: BufUpdate, dtype: DType, old: str, operand: str) -> str:
    """A component after an update of a tile's element: `old` combined with `operand`."""
    kind = {"add": S.Add, "sub": S.Sub, "and": S.And, "or": S.Or, "xor": S.Xor}[op.op]
    return elementwise(s.code, kind([], []), dtype, [old, operand], s.width)


def _stack_count(s: State, op: StackCount) -> Components:
    return (s.code.emit(f"load i32, ptr {s.stacks[op.stack][0]}, align 4"),)


# Thread index ---------------------------------------------------------------------------------------------------------


def thread_component(s: State, k: int, uniform: bool, block: str | None = None) -> str:
    """Component k of the thread index, i32. `uniform`: whether to compute the index of the block's first thread instead
    of the lane's index. `block`: the block index, an i64."""
    launch, code = s.kernel.launch, s.code
    block = block or s.block
    last = launch.ndim - 1
    if launch.last_is_block:
        if k == last:
            lane = "0" if uniform else s.lane
            return code.emit(f"trunc i64 {s.memory.add(lane, str(s.first_lane))} to i32")
        return _unflattened(s, block, k, last)
    base = s.first_thread(block)
    if uniform:
        return _unflattened(s, base, k, launch.ndim)
    if launch.ndim == 1:
        return code.emit(f"trunc i64 {code.emit(f'add i64 {base}, {s.lane}')} to i32")
    if k == last and launch.uniform[k - 1]:
        start = code.emit(f"urem i64 {base}, {s.dims[k]}")
        return code.emit(f"trunc i64 {code.emit(f'add i64 {start}, {s.lane}')} to i32")
    return _unflattened(s, code.emit(f"add i64 {base}, {s.lane}"), k, launch.ndim)


def _unflattened(s: State, linear: str, k: int, rank: int) -> str:
    code = s.code
    for d in range(rank - 1, k, -1):
        linear = code.emit(f"udiv i64 {linear}, {s.dims[d]}")
    if k > 0:
        linear = code.emit(f"urem i64 {linear}, {s.dims[k]}")
    return code.emit(f"trunc i64 {linear} to i32")


def _lane_index(s: State, op: Op) -> Components:
    return (s.code.emit(f"trunc i64 {s.lane} to i32"),)


def _lane_count(s: State, op: Op) -> Components:
    return (s.code.emit(f"trunc i64 {s.present} to i32"),)


def _block_index(s: State, op: Op) -> Components:
    return (s.code.emit(f"trunc i64 {s.block} to i32"),)


def _block_count(s: State, op: Op) -> Components:
    n = s.kernel.launch.block_dim
    rounded = s.code.emit(f"add i64 {s.thread_count}, {n - 1}")
    return (s.code.emit(f"trunc i64 {s.code.emit(f'udiv i64 {rounded}, {n}')} to i32"),)


# Reports --------------------------------------------------------------------------------------------------------------


def report_unless(s: State, ok: str, site: int, values: list[str]) -> None:
    """Record `site` with i64 values where `ok` is false."""
    code = s.code
    bad, done = code.label("report"), code.label("go")
    code.branch(ok, done, bad)
    code.define_label(bad)
    report(s, site, values)
    code.jump(done)
    code.define_label(done)


def report(s: State, site: int | str, values: list[str]) -> None:
    """Append a record {site, block, lane, values...} to the report buffer of the host, unless the buffer is full."""
    code = s.code
    slot_number = code.emit("atomicrmw add ptr %report, i64 1 monotonic, align 8")
    has_room = code.emit(f"icmp ult i64 {slot_number}, {RECORDS}")
    write, done = code.label("record"), code.label("recorded")
    code.branch(has_room, write, done)
    code.define_label(write)
    offset = code.emit(f"mul i64 {slot_number}, {RECORD_BYTES}")
    record = code.emit(f"getelementptr i8, ptr %report, i64 {s.memory.add(offset, str(RECORD_BYTES))}")
    for k, value in enumerate([str(site), s.block, s.lane or "0", *values]):
        if k < RECORD_SLOTS:
            code.line(f"store i64 {value}, ptr {s.memory.bytes_offset(record, str(8 * k))}, align 8")
    code.jump(done)
    code.define_label(done)


def _print(s: State, op: Print) -> None:
    values, layout = [], []
    for operand in op.operands:
        t: ElementType = operand.type  # type: ignore[assignment]
        layout.append(t)
        values += [slot(s, part, scalar_of(t)) for part in s.components(operand)]
    site = s.site("print", op.loc, parts=op.parts, end=op.end, types=layout)
    for first in range(0, max(len(values), 1), VALUES):
        report(s, site, values[first : first + VALUES])


def slot(s: State, value: str, dtype: DType) -> str:
    """The bits of a scalar as an i64."""
    bits = "i1" if dtype.is_bool else f"i{dtype.bits}"
    if register_type(dtype, 1) != bits:
        value = s.code.emit(f"bitcast {register_type(dtype, 1)} {value} to {bits}")
    return value if bits == "i64" else s.code.emit(f"zext {bits} {value} to i64")


def _assert(s: State, op: Assert) -> None:
    types = [v.type for v in op.values]
    data = {"parts": op.parts, "types": types} if op.parts else {}
    site = s.site("assert", op.loc, message=op.message, **data)

    def shown() -> list[str]:
        return [slot(s, p, scalar_of(v.type)) for v in op.values for p in s.components(v)]  # type: ignore[arg-type]

    report_unless(s, s.scalar(op.condition), site, shown())


def _breakpoint(s: State, op: Breakpoint) -> None:
    s.code.line("call void @llvm.debugtrap()")


def _fence(s: State, op: LaneFence) -> None:
    scope = 'syncscope("device") ' if isinstance(s.target, CudaTarget) else ""
    s.code.line(f"fence {scope}{op.order}")


_RULES = {
    ArrayLoad: _array_load,
    ArrayStore: _array_store,
    ArrayShape: _array_shape,
    ArrayAtomic: _array_atomic,
    ArrayCas: _array_cas,
    ArrayView: array_view,
    ArrayTranspose: array_transpose,
    BufView: buffer_view,
    BufReshape: _buffer_reshape,
    BufGet: _get,
    TileExtract: _get,
    BufSet: _set,
    BufUpdate: _update,
    BufExchange: _exchange,
    StackCount: _stack_count,
    LaneIndex: _lane_index,
    LaneCount: _lane_count,
    BlockIndex: _block_index,
    BlockCount: _block_count,
    Print: _print,
    Assert: _assert,
    Breakpoint: _breakpoint,
    LaneFence: _fence,
    StructureTable: structure_table,
    StructureLoad: structure_load,
    StructureValue: structure_load,
    StructureAdd: structure_add,
    StructurePrefetch: structure_prefetch,
}

__all__ = ["ArrayType", "Tid", "constant", "element_shape", "int32", "lower_access"]
