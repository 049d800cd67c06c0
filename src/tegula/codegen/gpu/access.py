"""Loads and stores of tiles: arrays, with vector accesses if the whole tile is in bounds and aligned, and buffers in
shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from math import prod

from tegula.codegen.elements import array_pointer, needs_bounds, offsets, tile_in_bounds
from tegula.codegen.gpu.control import emit_if, run_conditionally, select_branch
from tegula.codegen.gpu.quotients import pinned
from tegula.codegen.gpu.state import GpuState, Registers, zeros
from tegula.codegen.scalar import Components
from tegula.codegen.storage import ArrayDescriptor, SwizzledView, View
from tegula.codegen.text import memory_type, register_type, vector_of
from tegula.deferred import deferred_imports
from tegula.ir import ConstantLike, TileAccess, Value
from tegula.layout import Layout, blocked
from tegula.ops.buffer import BufNew, BufReshape, BufView
from tegula.ops.group import AsyncCopy
from tegula.ops.roles import WARP
from tegula.ops.scalar import Const
from tegula.ops.tile import TileAtomic, TileLoad, TileStore
from tegula.passes.overlap import array_root, starts_in_rows
from tegula.types import BufType, DType, ElementType, TileType, components, element_bytes, int32, scalar_of

with deferred_imports():
    from tegula.codegen.atomics import atomic_element

MAX_ACCESS_BYTES = 16
"""The maximum size of an access in bytes."""
MAX_ROW_ADDRESSES = 4
"""The maximum number of rows of an array whose addresses a thread keeps in registers."""
MAX_SUNK_REGISTERS = 32
"""The maximum number of registers of a tile with copies whose computation may be sunk into the branch of a store."""
MAX_DISTANCE = 1 << 30
"""A distance larger than any dimension of a tile."""


# Arrays --------------------------------------------------------------------------------------------------------------


def load(s: GpuState, *ops: TileLoad) -> None:
    """Lower loads of tiles from arrays, all under one branch. Elements out of bounds are the fill value."""
    widths = [_scalars_per_access(s, op, s.layouts[op.result], s.arrays[op.array]) for op in ops]
    fits, types = "true", list[str]()
    for op, width in zip(ops, widths, strict=True):
        layout, array = s.layouts[op.result], s.arrays[op.array]
        fits = _and(s, fits, _is_full_and_aligned(s, op, array, width))
        packs = _scalars_per_word(array.dtype, width)
        types += ["i32"] * (layout.register_count // packs) if packs else s.types(op.result)

    def emit_unmasked() -> list[str]:
        return [x for op, width in zip(ops, widths, strict=True) for x in _unmasked_load(s, op, width)]

    def emit_masked() -> list[str]:
        return [x for op, width in zip(ops, widths, strict=True) for x in _masked_load(s, op, width)]

    registers = (
        emit_unmasked() if fits == "true" else select_branch(s, fits, types, emit_unmasked, emit_masked)
    )
    for op, width in zip(ops, widths, strict=True):
        array = s.arrays[op.array]
        packs = _scalars_per_word(array.dtype, width)
        count = s.layouts[op.result].register_count // packs if packs else len(s.types(op.result))
        own_registers, registers = registers[:count], registers[count:]
        s.bind(op.result, unpacked(s, own_registers, scalar_of(array.dtype)) if packs else own_registers)


def _masked_load(s: GpuState, op: TileLoad, width: int) -> list[str]:
    """All registers of a tile that may be partly out of bounds, or is not aligned, packed in words if
    `_scalars_per_word`."""
    layout, array = s.layouts[op.result], s.arrays[op.array]
    packs, fill = _scalars_per_word(array.dtype, width), s.components(op.fill)
    if not needs_bounds(s, op):
        elements = _unmasked_load(s, op, 1)
        return packed(s, elements, scalar_of(array.dtype)) if packs else elements
    values: list[str] = []
    types = [register_type(scalar_of(array.dtype), 1)] * components(array.dtype)
    in_array = _in_array(s, op, layout, array)
    for r, pointer in _pointers(s, op, layout, array, 1).items():
        values += run_conditionally(
            s, _and(s, s.holds(layout, r), in_array(r)), types,
            lambda pointer=pointer: list(s.memory.load_element(pointer, array.dtype)),
            list(fill),
        )  # fmt: skip
        if packs and r % packs == packs - 1:
            values[-packs:] = packed(s, values[-packs:], array.dtype)
    return values


def store(s: GpuState, *ops: TileStore) -> None:
    """Store tiles of one layout to arrays, in order and all under one branch. Elements out of bounds and elements of
    absent lanes are dropped."""
    layout = s.layouts[ops[0].tile]
    widths = [_scalars_per_access(s, op, layout, s.arrays[op.array]) for op in ops]
    fits = "true"
    for op, width in zip(ops, widths, strict=True):
        fits = _and(s, fits, _is_full_and_aligned(s, op, s.arrays[op.array], width))

    registers = [_ready_for_store(s, layout, s.held[op.tile], s.arrays[op.array].dtype) for op in ops]

    def emit_unmasked() -> list[str]:
        for op, width, stored in zip(ops, widths, registers, strict=True):
            _unmasked_store(s, op, stored, width)
        return []

    def emit_masked() -> list[str]:
        for op, stored in zip(ops, registers, strict=True):
            _masked_store(s, op, stored)
        return []

    def act() -> None:
        if fits == "true":
            emit_unmasked()
        else:
            select_branch(s, fits, [], emit_unmasked, emit_masked)

    emit_if(s, s.owner(layout), act)


def _masked_store(s: GpuState, op: TileStore, registers: Registers) -> None:
    if not needs_bounds(s, op):
        _unmasked_store(s, op, registers, 1)
        return
    tile, array = op.tile, s.arrays[op.array]
    layout = s.layouts[tile]
    in_array = _in_array(s, op, layout, array)
    for r, pointer in _pointers(s, op, layout, array, 1).items():
        emit_if(
            s, _and(s, s.holds(layout, r, _partial(tile)), in_array(r)),
            lambda r=r, pointer=pointer: s.memory.store_element(pointer, registers[r], array.dtype),
        )  # fmt: skip


def atomic(s: GpuState, op: TileAtomic) -> None:
    """Lower `tile.atomic`, once for each element. The result holds the previous elements, and 0 for dropped
    elements."""
    tile, array = op.tile, s.arrays[op.array]
    layout, none = s.layouts[tile], list(zeros(array.dtype))
    types = [register_type(scalar_of(array.dtype), 1)] * len(none)
    results: list[str] = []
    in_array = _in_array(s, op, layout, array)
    for r, pointer in _pointers(s, op, layout, array, 1).items():
        ok = _and(s, s.holds(layout, r, _partial(tile)), in_array(r))
        ok = _and(s, ok, s.owner(layout))

        def act(pointer: str = pointer, r: int = r) -> list[str]:
            return list(atomic_element(s.code, op.op, pointer, array.dtype, s.held[tile][r]))

        results += run_conditionally(s, ok, types, act, none)
    s.bind(op.result, results)


def _indices(
    s: GpuState, op: TileAccess, layout: Layout, register: int, base: Sequence[str] = ()
) -> list[str]:
    """The array indices of the element in a register. `base`: the coordinates of register 0, by default the
    thread's."""
    steps = layout.register_offsets(register)
    coordinates = [s.memory.add(b, str(k)) for b, k in zip(base or s.base(layout), steps, strict=True)]
    return [s.memory.add(o, i) for o, i in zip(offsets(s, op), coordinates, strict=True)]


def _in_array(s: GpuState, op: TileAccess, layout: Layout, array: ArrayDescriptor) -> Callable[[int], str]:
    """A function from a register index to an i1 or "true": whether the register's element is in bounds.

    The array's bounds relative to the thread's first element are compared with the register's constant offset, so that
    no coordinates are computed."""
    if not needs_bounds(s, op):
        return lambda register: "true"
    ends: list[tuple[str, str]] = []
    for offset, base, length in zip(offsets(s, op), s.base(layout), array.shape, strict=True):
        after = _clamped_distance(s, s.code.emit(f"sub i64 {length}, {offset}"), base)
        first = "" if offset.isdecimal() else _clamped_distance(s, s.code.emit(f"sub i64 0, {offset}"), base)
        ends.append((first, after))
    cached_tests: dict[tuple[int, int], str] = {}

    def test(d: int, k: int) -> str:
        if (d, k) not in cached_tests:
            first, after = ends[d]
            ok = s.code.emit(f"icmp sgt i32 {after}, {k}")
            cached_tests[d, k] = _and(s, ok, s.code.emit(f"icmp sle i32 {first}, {k}")) if first else ok
        return cached_tests[d, k]

    def in_bounds(register: int) -> str:
        ok = "true"
        for d, k in enumerate(layout.register_offsets(register)):
            ok = _and(s, ok, test(d, k))
        return ok

    return in_bounds


def _clamped_distance(s: GpuState, index: str, base: str) -> str:
    """The distance of a position (i64, relative to the tile's start) from the thread's first coordinate, an i32 clamped
    to `MAX_DISTANCE`."""
    index = s.code.emit(f"call i64 @llvm.smax.i64(i64 {index}, i64 {-MAX_DISTANCE})")
    index = s.code.emit(f"call i64 @llvm.smin.i64(i64 {index}, i64 {MAX_DISTANCE})")
    clamped = s.code.emit(f"trunc i64 {index} to i32")
    return s.code.emit(f"sub i32 {clamped}, {s.code.emit(f'trunc i64 {base} to i32')}")


def _and(s: GpuState, a: str, b: str) -> str:
    if a == "true" or b == "true":
        return b if a == "true" else a
    return s.code.emit(f"and i1 {a}, {b}")


def _partial(tile: Value) -> bool:
    assert isinstance(tile.type, TileType)
    return tile.type.partial


def _width(s: GpuState, op: TileAccess, layout: Layout, array: ArrayDescriptor) -> int:
    """The number of scalars of one access: the maximum for which the layout has adjacent elements and the array's
    alignment is sufficient."""
    if components(array.dtype) != 1 or not array.contiguous:
        return 1
    parameter = array_root(op.array)
    access = s.kernel.access[s.kernel.params.index(parameter)]
    size = element_bytes(array.dtype)
    width = 1
    max_width = min(MAX_ACCESS_BYTES, access.align if access is not None else size) // size
    while width * 2 <= max_width and layout.vector % (width * 2) == 0 and layout.shape[-1] % (width * 2) == 0:
        width *= 2
    return width


def _scalars_per_access(s: GpuState, op: TileAccess, layout: Layout, array: ArrayDescriptor) -> int:
    """The number of scalars of one access, like `_width`; elements whose number of components is a power of two have
    one access."""
    component_count, scalar = components(array.dtype), scalar_of(array.dtype)
    if (
        component_count == 1
        or not array.contiguous
        or scalar.bits < WORD
        or component_count & (component_count - 1)
    ):
        return _width(s, op, layout, array)
    access = s.kernel.access[s.kernel.params.index(array_root(op.array))]
    max_width = min(MAX_ACCESS_BYTES, access.align if access is not None else 1) * 8 // scalar.bits
    if component_count > max_width:
        return 1
    elements = 1
    while (
        elements * 2 * component_count <= max_width
        and layout.vector % (elements * 2) == 0
        and layout.shape[-1] % (elements * 2) == 0
    ):
        elements *= 2
    return elements * component_count


def _is_full_and_aligned(s: GpuState, op: TileLoad | TileStore, array: ArrayDescriptor, width: int) -> str:
    """Whether the tile is in bounds and aligned for accesses of `width` scalars: a uniform i1, or "true"."""
    ok = tile_in_bounds(s, op) if needs_bounds(s, op) else "true"
    if width > 1 and not _starts_aligned(s, op, width * scalar_of(array.dtype).bits // 8):
        address = s.code.emit(f"ptrtoint ptr {array_pointer(s, array, offsets(s, op))} to i64")
        misalignment = s.code.emit(f"and i64 {address}, {width * scalar_of(array.dtype).bits // 8 - 1}")
        ok = _and(s, ok, s.code.emit(f"icmp eq i64 {misalignment}, 0"))
    if s.block_lanes < WARP and ok != "true":
        # Blocks that share a warp branch together. ptxas emits code twice if threads of a warp may be apart.
        ok = s.code.emit(f"call i1 @llvm.nvvm.vote.all.sync(i32 -1, i1 {ok})")
    return ok


def _starts_aligned(s: GpuState, op: TileLoad | TileStore, size: int) -> bool:
    """Whether the address of a tile's first element is a multiple of `size` bytes because of the properties of the
    array, and, in accesses without a test of bounds, because its place in a row is a constant multiple."""
    array = array_root(op.array)
    access = s.kernel.access[s.kernel.params.index(array)] if array in s.kernel.params else None
    if access is None or not access.contiguous or access.align % size:
        return False
    element, starts = element_bytes(s.arrays[array].dtype), starts_in_rows(op.array)
    if element % size == 0 or needs_bounds(s, op):
        return element % size == 0
    return starts is not None and all(
        isinstance(v.owner, ConstantLike) and v.owner.value * element % size == 0
        for v in (*starts, op.offset[-1])
    )


def _first_registers(layout: Layout, width: int) -> Iterator[int]:
    """The first register of each access."""
    yield from range(0, layout.register_count, width)


def _pointers(
    s: GpuState, op: TileAccess, layout: Layout, array: ArrayDescriptor, width: int, base: Sequence[str] = ()
) -> dict[int, str]:
    """The address of each access, by the access's first register. `base`: as for `_indices`.

    Addresses in one of the last `MAX_ROW_ADDRESSES` rows, or columns if their stride is known, are the row's first
    address plus a constant, which is part of the instruction. The first address of a row is the first address of the
    previous row plus a number of strides, which takes fewer registers than a multiplication."""
    pointers: dict[int, str] = {}
    rows: dict[tuple[int, ...], tuple[tuple[int, ...], str]] = {}
    for r in _first_registers(layout, width):
        offsets = layout.register_offsets(r)
        row = tuple(k for k, stride in zip(offsets, array.strides, strict=True) if stride.startswith("%"))
        if not rows:
            pointers[r] = array_pointer(s, array, _indices(s, op, layout, r, base))
        else:
            before, pointer = rows.get(row) or next(reversed(rows.values()))
            for d, (a, b) in enumerate(zip(before, offsets, strict=True)):
                pointer = s.memory.bytes_offset(pointer, s.memory.mul(array.strides[d], str(b - a)))
            pointers[r] = pointer
        if row not in rows:
            rows[row] = offsets, pointers[r]
            if len(rows) > MAX_ROW_ADDRESSES:
                del rows[next(iter(rows))]
    return pointers


def _unmasked_load(s: GpuState, op: TileLoad, width: int) -> list[str]:
    """All registers of a tile that is in bounds, packed in words if `_scalars_per_word`."""
    layout, array = s.layouts[op.result], s.arrays[op.array]
    scalar, elements = scalar_of(array.dtype), max(1, width // components(array.dtype))
    fill = list(s.components(op.fill)) * elements
    packs = _scalars_per_word(array.dtype, width)
    types = [register_type(scalar, 1)] * len(fill)
    if packs:
        types, fill = ["i32"] * (width // packs), packed(s, fill, scalar)

    def loaded(pointer: str) -> list[str]:
        if width == 1:
            return list(s.memory.load_element(pointer, array.dtype))
        if packs:
            return vector_load(s, pointer, int32, width // packs)
        return vector_load(s, pointer, scalar, width)

    registers_of_accesses = [*_first_registers(layout, elements)]
    groups = _by_condition(s, layout, registers_of_accesses)
    if len(groups) == 1 and groups[0][0] != "true" and s.threads == WARP:
        # Threads without elements read those of the first thread, so that no branch hides the loads from ptxas.
        ((holds, _),) = groups
        base = [s.code.emit(f"select i1 {holds}, i64 {b}, i64 0") for b in s.base(layout)]
        pointers = _pointers(s, op, layout, array, elements, base)
        elements_of_thread = [x for pointer in pointers.values() for x in loaded(pointer)]
        return or_fill(s, holds, types * len(pointers), elements_of_thread, fill * len(pointers))
    values, pointers = list[str](), _pointers(s, op, layout, array, elements)
    for holds, registers in groups:
        pointers_of_group = [pointers[r] for r in registers]
        values += run_conditionally(
            s, holds, types * len(registers),
            lambda pointers=pointers_of_group: [x for p in pointers for x in loaded(p)],
            fill * len(registers),
        )  # fmt: skip
    return values


def _by_condition(
    s: GpuState, layout: Layout, registers: Iterable[int], over_lanes: bool = False
) -> list[tuple[str, list[int]]]:
    """Consecutive registers that hold elements of the tile on the same condition, with the condition (see `holds`), so
    that they are accessed under one branch."""
    groups: list[tuple[str, list[int]]] = []
    for r in registers:
        if groups and not over_lanes and s.same_test(layout, (groups[-1][1][0], r)):
            groups[-1][1].append(r)
        else:
            groups.append((s.holds(layout, r, over_lanes), [r]))
    return groups


def _unmasked_store(s: GpuState, op: TileStore, registers: Registers, width: int) -> None:
    tile, array = op.tile, s.arrays[op.array]
    layout, over_lanes = s.layouts[tile], _partial(tile)
    elements = 1 if over_lanes else max(1, width // components(array.dtype))
    pointers = _pointers(s, op, layout, array, elements)
    for holds, stored in _by_condition(s, layout, pointers, over_lanes):

        def act(stored: list[int] = stored) -> None:
            for r in stored:
                if width == 1 or over_lanes:
                    s.memory.store_element(pointers[r], registers[r], array.dtype)
                else:
                    values = [x for parts in registers[r : r + elements] for x in parts]
                    vector_store(s, pointers[r], scalar_of(array.dtype), values)

        emit_if(s, holds, act)


def vector_load(s: GpuState, pointer: str, dtype: DType, width: int) -> list[str]:
    """`width` adjacent scalars, loaded by one aligned access."""
    t = vector_of(memory_type(dtype), width)
    vector = s.code.emit(f"load {t}, ptr {pointer}, align {width * dtype.bits // 8}")
    parts = [vector]
    if width > 1:
        parts = [s.code.emit(f"extractelement {t} {vector}, i32 {k}") for k in range(width)]
    return [s.code.emit(f"icmp ne i8 {p}, 0") for p in parts] if dtype.is_bool else parts


def vector_store(s: GpuState, pointer: str, dtype: DType, values: list[str]) -> None:
    """Store adjacent scalars by one aligned access."""
    scalar_type, vector = memory_type(dtype), "poison"
    t = vector_of(scalar_type, len(values))
    if dtype.is_bool:
        values = [s.code.emit(f"zext i1 {v} to i8") for v in values]
    for k, v in enumerate(values):
        vector = s.code.emit(f"insertelement {t} {vector}, {scalar_type} {v}, i32 {k}")
    s.code.line(f"store {t} {vector}, ptr {pointer}, align {len(values) * dtype.bits // 8}")


# Words ---------------------------------------------------------------------------------------------------------------

WORD = 32
"""The width of a register in bits."""


def _scalars_per_word(dtype: ElementType, width: int) -> int:
    """The number of scalars per word of an access of `width` scalars, if the scalars remain packed between the load and
    their uses; 0 if each scalar has a register. Phis of unpacked narrow scalars would move each scalar to a register
    and widen it."""
    scalar = scalar_of(dtype)
    scalars_per_word = WORD // scalar.bits
    return (
        scalars_per_word
        if width > 1 and scalars_per_word > 1 and width % scalars_per_word == 0 and not scalar.is_bool
        else 0
    )


def packed(s: GpuState, values: list[str], dtype: ElementType) -> list[str]:
    """Narrow scalars packed into words, the first in the lowest bits."""
    code, scalar = s.code, scalar_of(dtype)
    scalars_per_word, scalar_type = WORD // scalar.bits, register_type(scalar, 1)
    words: list[str] = []
    for k in range(0, len(values), scalars_per_word):
        vector = "poison"
        for lane, value in enumerate(values[k : k + scalars_per_word]):
            vector = code.emit(
                f"insertelement {vector_of(scalar_type, scalars_per_word)} {vector}, {scalar_type} {value}, i32 {lane}"
            )
        words.append(code.emit(f"bitcast {vector_of(scalar_type, scalars_per_word)} {vector} to i32"))
    return words


def unpacked(s: GpuState, words: list[str], scalar: DType) -> list[str]:
    """The scalars of packed words, by shifts, which LLVM merges with widening conversions. The load of the words is
    hidden from LLVM, which would load scalars instead, and ptxas would then extract each scalar by an instruction."""
    code, scalar_type, bits = s.code, register_type(scalar, 1), scalar.bits
    values: list[str] = []
    for loaded in words:
        word = code.emit(f'call i32 asm "", "=r,0"(i32 {loaded})')
        for shift in range(0, WORD, bits):
            shifted = code.emit(f"lshr i32 {word}, {shift}") if shift else word
            narrow = code.emit(f"trunc i32 {shifted} to i{bits}")
            values.append(
                narrow
                if scalar_type == f"i{bits}"
                else code.emit(f"bitcast i{bits} {narrow} to {scalar_type}")
            )
    return values


# Asynchronous copies -------------------------------------------------------------------------------------------------


def async_copy(s: GpuState, op: AsyncCopy) -> None:
    """Lower `async.copy`: an asynchronous copy of a tile to a buffer if rows are aligned, else a copy element by
    element."""
    with s.rematerialised() if op.lean else nullcontext():
        _start_copies(s, op)


def _start_copies(s: GpuState, op: AsyncCopy) -> None:
    view, array = s.buffers[op.buffer], s.arrays[op.array]
    size = element_bytes(array.dtype)
    layout = blocked(view.shape, s.threads, MAX_ACCESS_BYTES // size)
    access = op
    width = _width(s, access, layout, array)
    if not all(k * size % (width * size) == 0 for k in view.strides[:-1]) or width * size < 4:
        width = 1

    def emit_full() -> list[str]:
        for r, pointer in _pointers(s, access, layout, array, width).items():

            def piece(r: int = r, pointer: str = pointer) -> None:
                _copy_piece(s, layout, array, view, width, r, pointer, "")

            emit_if(s, s.holds(layout, r), piece)
        return []

    def emit_partial() -> list[str]:
        for r in _first_registers(layout, width):

            def piece(r: int = r) -> None:
                indices = _indices(s, access, layout, r)
                byte_count = _bytes_in_bounds(s, indices, array, width)
                pointer = array_pointer(s, array, indices)
                _copy_piece(s, layout, array, view, width, r, pointer, byte_count)

            emit_if(s, s.holds(layout, r), piece)
        return []

    def emit_masked() -> list[str]:
        _copy_elements(s, access, array, view)
        return []

    def by_owners(copy: Callable[[], list[str]]) -> Callable[[], list[str]]:
        return lambda: run_conditionally(s, s.owner(layout), [], copy, [])

    if width == 1:
        emit_masked()
        return
    address = s.code.emit(f"ptrtoint ptr {array_pointer(s, array, offsets(s, access))} to i64")
    misalignment = s.code.emit(f"and i64 {address}, {width * size - 1}")
    aligned = s.code.emit(f"icmp eq i64 {misalignment}, 0")
    if not needs_bounds(s, access):
        select_branch(s, aligned, [], by_owners(emit_full), emit_masked)
        return
    fits = _and(s, _is_in_bounds(s, access, view.shape, array), aligned)
    select_branch(
        s,
        fits,
        [],
        by_owners(emit_full),
        lambda: select_branch(s, aligned, [], by_owners(emit_partial), emit_masked),
    )


def _copy_elements(s: GpuState, access: TileAccess, array: ArrayDescriptor, view: View) -> None:
    """Copy a tile element by element in a loop, with adjacent threads copying adjacent elements. If the loop were
    unrolled, the addresses would take more registers than the elements."""
    none, types = (
        list(zeros(array.dtype)),
        [register_type(scalar_of(array.dtype), 1)] * components(array.dtype),
    )
    memory, total = s.memory, prod(view.shape)

    def load(indices: list[str]) -> list[str]:
        return list(memory.load_element(array_pointer(s, array, indices), array.dtype))

    with s.code.loop(s.lane, str(total), str(s.threads), [], s.rolled()) as loop:
        index, remaining = list[str](), loop.index
        for n in reversed(view.shape):
            index.append(s.code.emit(f"urem i64 {remaining}, {n}"))
            remaining = memory.quotient(remaining, n)
        index.reverse()
        indices = [memory.add(o, i) for o, i in zip(offsets(s, access), index, strict=True)]
        ok = "true"
        for i, n in zip(indices, array.shape, strict=True) if needs_bounds(s, access) else ():
            ok = _and(s, ok, s.code.emit(f"icmp ult i64 {i}, {n}"))
        values = run_conditionally(s, ok, types, lambda at=indices: load(at), none)
        memory.store_view(view, index, tuple(values), 1)


def _is_in_bounds(s: GpuState, op: TileAccess, shape: tuple[int, ...], array: ArrayDescriptor) -> str:
    ok = "true"
    for offset, n, length in zip(offsets(s, op), shape, array.shape, strict=True):
        fits = s.code.emit(f"icmp sle i64 {offset}, {s.code.emit(f'sub i64 {length}, {n}')}")
        ok = _and(s, ok, _and(s, fits, s.code.emit(f"icmp sge i64 {offset}, 0")))
    return ok


def _bytes_in_bounds(s: GpuState, indices: list[str], array: ArrayDescriptor, width: int) -> str:
    """The number of bytes of an access that are in bounds, an i32."""
    code, size = s.code, element_bytes(array.dtype)
    ok = code.emit(f"icmp sge i64 {indices[-1]}, 0")
    for i, n in zip(indices[:-1], array.shape[:-1], strict=True):
        ok = _and(s, ok, code.emit(f"icmp ult i64 {i}, {n}"))
    remaining_bytes = code.emit(f"mul i64 {code.emit(f'sub i64 {array.shape[-1]}, {indices[-1]}')}, {size}")
    remaining_bytes = code.emit(f"call i64 @llvm.smin.i64(i64 {remaining_bytes}, i64 {width * size})")
    remaining_bytes = code.emit(f"call i64 @llvm.smax.i64(i64 {remaining_bytes}, i64 0)")
    return code.emit(f"trunc i64 {code.emit(f'select i1 {ok}, i64 {remaining_bytes}, i64 0')} to i32")


def _copy_piece(
    s: GpuState,
    layout: Layout,
    array: ArrayDescriptor,
    view: View,
    width: int,
    r: int,
    pointer: str,
    bytes_in_bounds: str,
) -> None:
    """One asynchronous copy of `width` elements; bytes after the first `bytes_in_bounds` are filled with 0."""
    code, size = s.code, width * element_bytes(array.dtype)
    source = code.emit(f"addrspacecast ptr {pointer} to ptr addrspace(1)")
    target = code.emit(f"addrspacecast ptr {s.memory.at(view, s.index(layout, r))} to ptr addrspace(3)")
    name = f"@llvm.nvvm.cp.async.{'cg' if size == MAX_ACCESS_BYTES else 'ca'}.shared.global.{size}"
    operands = f"ptr addrspace(3) {target}, ptr addrspace(1) {source}"
    if bytes_in_bounds:
        code.line(f"call void {name}.s({operands}, i32 {bytes_in_bounds})")
    else:
        code.line(f"call void {name}({operands})")


# Buffers -------------------------------------------------------------------------------------------------------------


def buffer_load(s: GpuState, view: View, layout: Layout, aligned: bool) -> Registers:
    """The registers of a thread's elements of a buffer. Padding registers hold zeros."""
    width = _shared_width(view, layout) if aligned else 1
    scalar, none = scalar_of(view.dtype), zeros(view.dtype)
    packs = _scalars_per_word(view.dtype, width)
    types, fill = [register_type(scalar, 1)] * (width * len(none)), list(none) * width
    if packs:
        types, fill = ["i32"] * (width // packs), ["0"] * (width // packs)
    registers: Registers = []
    moves = [d for d, stride in enumerate(view.strides) if stride]

    def access(r: int) -> list[str]:
        pointer = s.memory.at(view, s.index(layout, r))
        if width == 1:
            return list(s.memory.load_element(pointer, view.dtype, view.component_stride))
        if packs:
            return vector_load(s, pointer, int32, width // packs)
        return vector_load(s, pointer, scalar, width)

    # The address is valid in all threads if the coordinates that determine the address are in the tile.
    valid = [r for r in _first_registers(layout, width) if s.within_tile(layout, r, moves)]
    others = [r for r in _first_registers(layout, width) if r not in valid]
    guarded: dict[int, list[str]] = {}
    for is_held, group in _by_condition(s, layout, others):
        values = run_conditionally(
            s, is_held, types * len(group),
            lambda group=group: [x for r in group for x in access(r)],
            fill * len(group),
        )  # fmt: skip
        guarded |= {r: values[k * len(types) : (k + 1) * len(types)] for k, r in enumerate(group)}
    loaded: dict[tuple[int, ...], list[str]] = {}
    for r in _first_registers(layout, width):
        if r in guarded:
            parts = guarded[r]
        else:
            # Registers of a broadcast dimension are loaded once.
            offsets = layout.register_offsets(r)
            coordinates = tuple(offsets[d] for d in moves)
            if coordinates not in loaded:
                loaded[coordinates] = access(r)
            parts = or_fill(s, s.holds(layout, r), types, loaded[coordinates], fill)
        if packs:
            parts = unpacked(s, parts, scalar)
        registers += [tuple(parts[k : k + len(none)]) for k in range(0, len(parts), len(none))]
    return registers


def buffer_store(
    s: GpuState, view: View, layout: Layout, registers: Registers, aligned: bool, over_lanes: bool
) -> None:
    """Store a tile to a buffer, each element once; elements of absent lanes are stored as 0."""
    width = _shared_width(view, layout) if aligned else 1
    if over_lanes and s.some_absent:
        registers = [
            _or_zero(s, s.holds(layout, r, True), parts, view.dtype) for r, parts in enumerate(registers)
        ]

    registers = _ready_for_store(s, layout, registers, view.dtype)

    def store_full() -> None:
        for holds, stored in _by_condition(s, layout, _first_registers(layout, width)):

            def act(stored: list[int] = stored) -> None:
                for r in stored:
                    pointer = s.memory.at(view, s.index(layout, r))
                    if width == 1:
                        s.memory.store_element(pointer, registers[r], view.dtype, view.component_stride)
                    else:
                        scalars = [x[0] for x in registers[r : r + width]]
                        vector_store(s, pointer, scalar_of(view.dtype), scalars)

            emit_if(s, holds, act)

    emit_if(s, s.owner(layout), store_full)


def _ready_for_store(s: GpuState, layout: Layout, registers: Registers, dtype: ElementType) -> Registers:
    """The registers of a tile, computed before the branch around a store if computations that LLVM sinks into the
    branch would only keep operands alive."""
    if not _keeps_operands_alive(s, layout):
        return registers
    t = register_type(scalar_of(dtype), 1)
    return [tuple(pinned(s.code, x, t) for x in parts) for parts in registers]


def _keeps_operands_alive(s: GpuState, layout: Layout) -> bool:
    """Whether only some threads store elements, so that LLVM sinks computations of elements into a branch, although the
    branch saves little: in blocks of one warp it skips no warp; if threads hold copies of many elements, sunk operands
    need more registers than there are."""
    dims = range(len(layout.shape))
    if not all(s.within_tile(layout, r, dims) for r in range(layout.register_count)):
        return s.threads == WARP
    return s.threads > WARP and s.owner(layout) != "true" and layout.register_count > MAX_SUNK_REGISTERS


def _or_zero(s: GpuState, ok: str, parts: Components, dtype: ElementType) -> Components:
    types = [register_type(scalar_of(dtype), 1)] * len(parts)
    return tuple(or_fill(s, ok, types, parts, zeros(dtype)))


def or_fill(
    s: GpuState, ok: str, types: Sequence[str], parts: Sequence[str], fill: Sequence[str]
) -> list[str]:
    """`parts` where `ok` holds, else `fill`."""
    if ok == "true":
        return [*parts]
    return [
        s.code.emit(f"select i1 {ok}, {t} {x}, {t} {y}") for t, x, y in zip(types, parts, fill, strict=True)
    ]


def _shared_width(view: View, layout: Layout) -> int:
    """The number of scalars of one access to a buffer that is aligned to 16 bytes."""
    if not view.contiguous or components(view.dtype) != 1:
        return 1
    size = element_bytes(view.dtype)
    width = 1
    while (
        width * 2 * size <= MAX_ACCESS_BYTES
        and layout.vector % (width * 2) == 0
        and layout.shape[-1] % (width * 2) == 0
        and all(k % (width * 2) == 0 for k in view.strides[:-1])
    ):
        width *= 2
    return width


def is_aligned(s: GpuState, buffer: Value) -> bool:
    """Whether the first element of a buffer or of a view of a buffer is provably aligned to 16 bytes."""
    while isinstance(buffer.owner, BufView | BufReshape):
        view, buffer = buffer.owner, buffer.owner.buffer
        if isinstance(view, BufReshape):
            continue
        source = s.buffers[buffer]
        size = element_bytes(source.dtype)
        for d, start in enumerate(view.starts):
            start_index = start.owner.value if isinstance(start.owner, Const) else 1
            # Rows and stages of swizzled tiles are whole units.
            is_contiguous_dim = isinstance(source, SwizzledView) and source.dims[d] == 2
            step = (
                (source.steps[d] if is_contiguous_dim else MAX_ACCESS_BYTES)
                if isinstance(source, SwizzledView)
                else source.strides[d]
            )
            if start_index * step * size % MAX_ACCESS_BYTES:
                return False
    return isinstance(buffer.owner, BufNew) and isinstance(buffer.type, BufType)
