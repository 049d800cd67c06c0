"""Evaluation of tile elements inside their consumers, `width` at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TypeGuard

from tegula.codegen.scalar import Components, elementwise, is_batched, lower_all
from tegula.codegen.state import State
from tegula.codegen.storage import ArrayDescriptor
from tegula.codegen.text import constant, register_type, vector_of
from tegula.errors import InternalError
from tegula.ir import Op, Region, ScatteredAccess, TileAccess, Value
from tegula.ops import scalar as S
from tegula.ops.array_gather import ArrayGather
from tegula.ops.base import Elementwise
from tegula.ops.blocks_in_lanes import TileAddress
from tegula.ops.control import If, Yield
from tegula.ops.convert import Bitcast, Cast
from tegula.ops.spill import Reload, Spill
from tegula.ops.table import TableGet
from tegula.ops.tile import (
    TileArange,
    TileAtomic,
    TileBroadcast,
    TileEmpty,
    TileFillAbsent,
    TileFull,
    TileGather,
    TileLoad,
    TileMap,
    TileMarkPartial,
    TileStore,
    tile_type,
)
from tegula.ops.vector import VecBits, VecExtract, VecInsert, VecMake, VecPart, VecSplat, VecUnset
from tegula.types import DType, TileType, bool_, components, int64, scalar_of

STRAIGHT = (
    Elementwise,
    Cast,
    Bitcast,
    S.Select,
    S.Const,
    VecMake,
    VecSplat,
    VecUnset,
    VecExtract,
    VecInsert,
    VecPart,
    VecBits,
    TableGet,
    Spill,
    Reload,
    Yield,
)


def is_straight(region: Region) -> bool:
    """Whether a region can be vectorised: it has no control flow except pure `if`s, which become selects."""
    return all(
        isinstance(op, STRAIGHT) or (isinstance(op, If) and all(is_straight(r) for r in op.regions))
        for op in region.ops
    )


MAX_SHORT_OPS = 24
"""The maximum number of ops that cost at most as much as a branch."""


def is_long(region: Region) -> bool:
    """Whether a region has more than `MAX_SHORT_OPS` ops. Such a region is guarded by a branch, and is too large to be
    duplicated for the remaining lanes."""
    return sum(not isinstance(op, (Yield, S.Const)) for op in region.walk()) > MAX_SHORT_OPS


DIVISIONS = (S.Div, S.FloorDiv, S.Mod)


def is_vectorised(s: State, op: TileMap) -> bool:
    """Whether a map is vectorised. In debug mode integer divisions are checked element by element, except where absent
    lanes have no values."""
    checked = s.debug and not (op.result.type.partial and s.kernel.launch.partial)  # type: ignore[union-attr]
    return is_straight(op.function) and not (checked and _divides(op.function))


def _divides(region: Region) -> bool:
    return any(
        isinstance(op, DIVISIONS) and scalar_of(op.a.type).is_int  # type: ignore[arg-type]
        for outer in region.ops
        for op in outer.walk()
    )


def is_faster_in_lockstep(s: State, region: Region) -> bool:
    """Whether a map is faster for several elements in lockstep than element by element, because the elements share a
    branch."""
    return any(
        (isinstance(op, If) and any(map(is_long, op.regions))) or is_batched(s.code, op)
        for outer in region.ops
        for op in outer.walk()
    )


def element(s: State, value: Value, index: list[str], width: int, masked: bool) -> Components:
    """The components of `width` elements of a tile along its last dimension, from `index` on. `masked`: loads check the
    array's bounds."""
    if value in s.tiles:
        held_width, parts = s.registers.get(value, (0, ()))
        return parts if held_width == width else s.memory.load_view(s.tiles[value], index, width)
    op = s.inline[value]
    if isinstance(op, TileMap):
        return _map(s, op, index, width, masked)
    if isinstance(op, TileLoad):
        return _load(s, op, index, width, masked)
    if isinstance(op, ArrayGather):
        return _gather(s, op, index, width, masked)
    if isinstance(op, TileGather):
        return gathered(s, op, index, width)
    if isinstance(op, TileFull):
        return splat(s, op.value, width)
    if isinstance(op, TileEmpty):
        return splat_zero(s, op.result, width)
    if isinstance(op, TileArange):
        return (_arange(s, op, index, width),)
    if isinstance(op, TileMarkPartial):
        return element(s, op.tile, index, width, masked)
    if isinstance(op, TileFillAbsent):
        return _fill_absent(s, op, index, width, masked)
    if isinstance(op, TileBroadcast):
        return _broadcast(s, op, index, width, masked)
    raise InternalError(f"no lowering of {op.NAME} by element")


def gathered(s: State, op: TileGather, index: list[str], width: int) -> Components:
    """Elements of a gather from a tile in memory; an element at an index out of bounds is 0."""
    source, indices, axis, code = s.tiles[op.tile], s.tiles[op.index], op.axis, s.code
    from tegula.codegen.convert import convert

    n, dtype = source.shape[axis], scalar_of(source.dtype)
    loaded_index = s.memory.load_view(indices, [index[axis]], 1)[0]
    position = convert(code, loaded_index, scalar_of(indices.dtype), int64, 1)
    from_end = code.emit(f"add i64 {position}, {n}")
    is_negative = code.emit(f"icmp slt i64 {position}, 0")
    position = code.emit(f"select i1 {is_negative}, i64 {from_end}, i64 {position}")
    in_bounds = code.emit(f"icmp ult i64 {position}, {n}")
    position = code.emit(f"select i1 {in_bounds}, i64 {position}, i64 0")
    parts = s.memory.load_view(source, [*index[:axis], position, *index[axis + 1 :]], width)
    t, zero = register_type(dtype, width), constant(dtype, 0, width)
    return tuple(code.emit(f"select i1 {in_bounds}, {t} {x}, {t} {zero}") for x in parts)


def splat(s: State, value: Value, width: int) -> Components:
    """The components of a uniform operand, splat to vectors."""
    dtype = scalar_of(value.type)  # type: ignore[arg-type]
    return tuple(s.memory.splat(x, dtype, width) for x in s.components(value))


def splat_zero(s: State, value: Value, width: int) -> Components:
    """The components of a zero element, in all lanes of a vector."""
    t = value.type.dtype  # type: ignore[union-attr]
    zero = "zeroinitializer" if width > 1 else _zero(scalar_of(t))
    return (zero,) * components(t)


def _zero(dtype: DType) -> str:
    if dtype.is_bool:
        return "false"
    return "0" if register_type(dtype, 1).startswith("i") else "0.0"


def _map(s: State, op: TileMap, index: list[str], width: int, masked: bool) -> Components:
    selected = known_operand(s, op)
    if selected is not None:
        return (
            element(s, selected, index, width, masked)
            if isinstance(selected.type, TileType)
            else splat(s, selected, width)
        )
    args = [
        element(s, v, index, width, masked) if isinstance(v.type, TileType) else splat(s, v, width)
        for v in op.operands
    ]
    if is_vectorised(s, op):
        return run_region(s, op.function, args, width)[0]
    return s.run_branching(op.function, args)[0]


def is_select(op: Op) -> TypeGuard[TileMap]:
    """Whether a map is a select of two of its inputs by a third input."""
    if (
        not isinstance(op, TileMap)
        or len(op.function.ops) != 2
        or not isinstance(op.function.ops[0], S.Select)
    ):
        return False
    select = op.function.ops[0]
    return op.function.yielded == [select.result] and all(v in op.elements for v in select.operands)


def select_operands(op: TileMap) -> tuple[Value, Value, Value]:
    """The condition, the true operand and the false operand of a select map."""
    a, b, c = (op.inputs[op.elements.index(v)] for v in op.function.ops[0].operands)
    return a, b, c


def known_operand(s: State, op: Op) -> Value | None:
    """The operand that a select map returns if its condition is known (`State.assumed`); None otherwise."""
    if not s.assumed or not is_select(op):
        return None
    condition, if_true, if_false = select_operands(op)
    known = s.assumed.get(condition)
    return None if known is None else if_true if known else if_false


def run_region(s: State, region: Region, args: list[Components], width: int) -> list[Components]:
    """The values that a straight region yields for one set of arguments."""
    return run_regions(s, region, [args], width)[0]


Known = Mapping[Value, Components]


def run_regions(
    s: State,
    region: Region,
    elements: Sequence[Sequence[Components]],
    width: int,
    known: Sequence[Known] | None = None,
) -> list[list[Components]]:
    """The values that a straight region yields for each of several elements, lowered op by op. `known`: for each
    element, results of the same ops that are already computed."""
    environments = known if known is not None else [dict[Value, Components]()] * len(elements)
    environments_of_elements = [
        {**dict(zip(region.args, args, strict=True)), **done}
        for args, done in zip(elements, environments, strict=True)
    ]
    return _straight(s, region, environments_of_elements, width)


def _straight(
    s: State, region: Region, envs: Sequence[dict[Value, Components]], width: int
) -> list[list[Components]]:
    for op in region.ops:
        if isinstance(op, Yield):
            return [[env[v] for v in op.operands] for env in envs]
        if isinstance(op, If):
            _lower_if(s, op, envs, width)
            continue
        if op.result in envs[0]:
            continue
        results = lower_all(s.code, op, [[env[v] for v in op.operands] for env in envs], width)
        for env, parts in zip(envs, results, strict=True):
            env[op.result] = parts
    raise InternalError("a region without a yield")


def _lower_if(s: State, op: If, envs: Sequence[dict[Value, Components]], width: int) -> None:
    """Lower a pure `if` as both branches and a select. A long branch is skipped at run time if no element takes the
    branch."""
    code, flag = s.code, vector_of("i1", width)
    conditions = [env[op.condition][0] for env in envs]
    branches = [
        _branch_values(s, region, envs, conditions, k == 0, width) for k, region in enumerate(op.regions)
    ]
    for k, env in enumerate(envs):
        for position, result in enumerate(op.results):
            t = register_type(scalar_of(result.type), width)  # type: ignore[arg-type]
            pairs = zip(branches[0][k][position], branches[1][k][position], strict=True)
            env[result] = tuple(
                code.emit(f"select {flag} {conditions[k]}, {t} {x}, {t} {y}") for x, y in pairs
            )


def _branch_values(
    s: State,
    region: Region,
    envs: Sequence[dict[Value, Components]],
    conditions: Sequence[str],
    selected: bool,
    width: int,
) -> list[list[Components]]:
    """The values that one branch yields for each element; unspecified if all elements take the other branch.
    `selected`: whether the branch is the one for a true condition."""
    code = s.code
    if not is_long(region):
        return _straight(s, region, envs, width)
    flag, all_true = vector_of("i1", width), "splat (i1 true)" if width > 1 else "true"
    active = [c if selected else code.emit(f"xor {flag} {c}, {all_true}") for c in conditions]
    any_active = reduce(lambda a, b: code.emit(f"or {flag} {a}, {b}"), active)
    if width > 1:
        bits = code.emit(f"bitcast {flag} {any_active} to i{width}")
        any_active = code.emit(f"icmp ne i{width} {bits}, 0")
    run, done, before = code.label("some"), code.label("none"), code.block
    code.branch(any_active, run, done)
    code.define_label(run)
    results, last = _straight(s, region, [dict(env) for env in envs], width), code.block
    code.jump(done)
    code.define_label(done)
    types = [register_type(scalar_of(v.type), width) for v in region.yielded]  # type: ignore[arg-type]
    return [
        [
            tuple(code.phi(t, ("poison", before), (x, last)) for x in parts)
            for t, parts in zip(types, yielded, strict=True)
        ]
        for yielded in results
    ]


def _arange(s: State, op: Op, index: list[str], width: int) -> str:
    start, step = op.operands
    dtype = scalar_of(start.type)  # type: ignore[arg-type]
    from tegula.codegen.convert import convert

    position = convert(s.code, s.memory.iota(index[-1], width), int64, dtype, width)
    first, step_register = splat(s, start, width)[0], splat(s, step, width)[0]
    scaled = elementwise(s.code, S.Mul([], []), dtype, [step_register, position], width)
    return elementwise(s.code, S.Add([], []), dtype, [first, scaled], width)


def _fill_absent(s: State, op: TileFillAbsent, index: list[str], width: int, masked: bool) -> Components:
    """The elements of a tile whose last dimension is the lanes, 0 for absent lanes."""
    return without_absent(s, op.result, element(s, op.tile, index, width, masked), index, width)


def without_absent(s: State, tile: Value, values: Components, index: list[str], width: int) -> Components:
    """Elements of a tile whose last dimension is the lanes, with 0 for absent lanes."""
    if not s.kernel.launch.partial:
        return values
    positions = s.memory.iota(index[-1], width)
    limit = s.memory.splat_i64(s.present, width)
    in_bounds = s.code.emit(f"icmp slt {vector_of('i64', width)} {positions}, {limit}")
    dtype = scalar_of(tile.type.dtype)  # type: ignore[union-attr]
    t = register_type(dtype, width)
    zero = _zero(dtype) if width == 1 else "zeroinitializer"
    return tuple(
        s.code.emit(f"select {vector_of('i1', width)} {in_bounds}, {t} {v}, {t} {zero}") for v in values
    )


def _broadcast(s: State, op: TileBroadcast, index: list[str], width: int, masked: bool) -> Components:
    source = op.tile
    shape, shape_after = source.type.shape, op.shape  # type: ignore[union-attr]
    inner = index[len(shape_after) - len(shape) :]
    source_index = ["0" if n == 1 else i for n, i in zip(shape, inner, strict=True)]
    if shape[-1] == shape_after[-1] or width == 1:
        return element(s, source, source_index, width, masked)
    dtype = scalar_of(source.type.dtype)  # type: ignore[union-attr]
    return tuple(s.memory.splat(x, dtype, width) for x in element(s, source, source_index, 1, masked))


# Global arrays -------------------------------------------------------------------------------------------------------


def offsets(s: State, op: TileAccess | TileAddress) -> list[str]:
    """The i64 offsets of an access to a tile."""
    return [s.i64(v) for v in op.offset]


def needs_bounds(s: State, op: TileAccess | TileAddress) -> bool:
    """Whether a tile access may be out of bounds. `aligned` and `bounds_check=False` promise that it is in bounds;
    debug mode checks the promise."""
    return s.debug or (op.bounds_check and not op.aligned)


def tile_in_bounds(s: State, op: TileLoad | TileStore | TileAtomic | TileAddress) -> str:
    """An i1 that is true if the whole tile of an access is in bounds; computed once per op."""
    if op in s.in_bounds:
        return s.in_bounds[op]
    array, code = s.arrays[op.array], s.code
    shape = (
        tile_type(op.tile.type, partial=True).shape if isinstance(op, (TileStore, TileAtomic)) else op.shape
    )
    ok = "true"
    for offset, n, length in zip(offsets(s, op), shape, array.shape, strict=True):
        slack = code.emit(f"sub i64 {length}, {n}")
        fits = code.emit(f"icmp sle i64 {offset}, {slack}")
        low = code.emit(f"icmp sge i64 {offset}, 0")
        in_range = code.emit(f"and i1 {fits}, {low}")
        ok = in_range if ok == "true" else code.emit(f"and i1 {ok}, {in_range}")
    s.in_bounds[op] = ok
    return ok


def array_pointer(s: State, array: ArrayDescriptor, indices: list[str]) -> str:
    """The address of an element of an array."""
    pointer = array.pointer
    for i, stride in zip(indices, array.strides, strict=True):
        pointer = s.memory.bytes_offset(pointer, s.memory.mul(i, stride))
    return pointer


def row_in_bounds(s: State, array: ArrayDescriptor, indices: list[str]) -> str:
    """An i1 that is true if all coordinates except the last are in bounds."""
    ok = "true"
    for i, n in zip(indices[:-1], array.shape[:-1], strict=True):
        test = s.code.emit(f"icmp ult i64 {i}, {n}")
        ok = test if ok == "true" else s.code.emit(f"and i1 {ok}, {test}")
    return ok


def column_mask(s: State, array: ArrayDescriptor, indices: list[str], width: int) -> str:
    """The mask of the elements in bounds, of `width` elements from `indices` on."""
    positions = s.memory.iota(indices[-1], width)
    bound = s.memory.splat_i64(array.shape[-1], width)
    mask = s.code.emit(f"icmp ult {vector_of('i64', width)} {positions}, {bound}")
    ok = row_in_bounds(s, array, indices)
    if ok != "true":
        mask = s.code.emit(f"and {vector_of('i1', width)} {mask}, {s.memory.splat(ok, bool_, width)}")
    return mask


def clamp_pointer(s: State, array: ArrayDescriptor, indices: list[str], pointer: str) -> str:
    """The address of a vector, or the address of the array if the vector begins after the end of the array: a masked
    access to an unmapped page takes hundreds of cycles even if all lanes are masked."""
    ok = s.code.emit(f"icmp slt i64 {indices[-1]}, {array.shape[-1]}")
    row = row_in_bounds(s, array, indices)
    if row != "true":
        ok = s.code.emit(f"and i1 {ok}, {row}")
    return s.code.emit(f"select i1 {ok}, ptr {pointer}, ptr {array.pointer}")


def _load(s: State, op: TileLoad, index: list[str], width: int, masked: bool) -> Components:
    array = s.arrays[op.array]
    indices = [s.memory.add(o, i) for o, i in zip(offsets(s, op), index, strict=True)]
    pointer = array_pointer(s, array, indices)
    scalar = scalar_of(array.dtype)
    if masked and needs_bounds(s, op):
        return _masked_load(s, op, array, indices, pointer, width)
    if width == 1:
        return s.memory.load_element(pointer, array.dtype)
    if array.contiguous:
        return s.memory.load_adjacent(pointer, array.dtype, width)
    parts = [s.memory.load_element(_element_address(s, array, pointer, k), array.dtype) for k in range(width)]
    return s.memory.packed(parts, scalar, width)


def _element_address(s: State, array: ArrayDescriptor, pointer: str, k: int) -> str:
    """The address of the element at distance k along the last dimension."""
    return s.memory.bytes_offset(pointer, s.memory.mul(array.strides[-1], str(k)))


def _masked_load(
    s: State, op: TileLoad, array: ArrayDescriptor, indices: list[str], pointer: str, width: int
) -> Components:
    """Elements of a load, with the fill value out of bounds; no memory out of bounds is read."""
    fill = splat(s, op.fill, width)
    scalar = scalar_of(array.dtype)
    if width > 1 and array.contiguous and components(array.dtype) == 1:
        mask = column_mask(s, array, indices, width)
        return (
            s.memory.masked_load(clamp_pointer(s, array, indices, pointer), scalar, width, mask, fill[0]),
        )
    ok = column_mask(s, array, indices, width)
    lanes = []
    for k in range(width):
        lane_ok = ok if width == 1 else s.code.emit(f"extractelement {vector_of('i1', width)} {ok}, i32 {k}")
        lanes.append(_element_or_fill(s, op.fill, array, _element_address(s, array, pointer, k), lane_ok))
    return lanes[0] if width == 1 else s.memory.packed(lanes, scalar, width)


def _element_or_fill(s: State, fill: Value, array: ArrayDescriptor, pointer: str, ok: str) -> Components:
    """One element or the fill value, without a branch: an element out of bounds is read from scratch memory."""
    from tegula.codegen.arrays import scratch_address

    safe = s.code.emit(f"select i1 {ok}, ptr {pointer}, ptr {scratch_address(s, array.dtype)}")
    t = register_type(scalar_of(array.dtype), 1)
    element = s.memory.load_element(safe, array.dtype)
    pairs = zip(element, s.components(fill), strict=True)
    return tuple(s.code.emit(f"select i1 {ok}, {t} {a}, {t} {b}") for a, b in pairs)


def element_addresses(
    s: State, op: ScatteredAccess, index: list[str], width: int, masked: bool
) -> list[tuple[str, str]]:
    """For each of `width` elements of a tile with separate coordinates: the address, and an i1 that is true if the
    element is in bounds."""
    array = s.arrays[op.array]
    (index_parts,), *coordinates = (element(s, v, index, width, masked) for v in (op.where, *op.at))
    addresses: list[tuple[str, str]] = []
    for k in range(width):
        ok, *element_coordinates = (
            x if width == 1 else s.memory.lane(x, dtype, width, k)
            for x, dtype in ((index_parts, bool_), *((x, int64) for (x,) in coordinates))
        )
        addresses.append(
            (array_pointer(s, array, element_coordinates), is_selected(s, ok, array, element_coordinates))
        )
    return addresses


def is_selected(s: State, ok: str, array: ArrayDescriptor, coordinates: list[str]) -> str:
    """An i1 that is true if an element is selected and in bounds."""
    for i, n in zip(coordinates, array.shape, strict=True):
        ok = s.code.emit(f"and i1 {ok}, {s.code.emit(f'icmp ult i64 {i}, {n}')}")
    return ok


def _gather(s: State, op: ArrayGather, index: list[str], width: int, masked: bool) -> Components:
    array = s.arrays[op.array]
    addresses = element_addresses(s, op, index, width, masked)
    lanes = [_element_or_fill(s, op.fill, array, pointer, ok) for pointer, ok in addresses]
    return lanes[0] if width == 1 else s.memory.packed(lanes, scalar_of(array.dtype), width)


__all__ = ["element", "is_straight", "run_region", "run_regions", "splat", "tile_in_bounds"]
