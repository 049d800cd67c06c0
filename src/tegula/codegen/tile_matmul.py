"""Matmuls of tiles: the memory of operands and results, and prefetches for the next iteration."""

from __future__ import annotations

from tegula.codegen import tiles
from tegula.codegen.convert import convert
from tegula.codegen.elements import array_pointer, needs_bounds, offsets, tile_in_bounds
from tegula.codegen.state import State
from tegula.codegen.storage import View
from tegula.codegen.sweep import sweep
from tegula.codegen.text import register_type
from tegula.dataclass import dataclass, replace
from tegula.deferred import deferred_imports
from tegula.ir import Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While, is_condition
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileFull, TileLoad, TileMap, TilePermute
from tegula.passes.accesses import linear
from tegula.types import DType, TileType, element_bytes, float32, int8, scalar_of

with deferred_imports():
    from tegula.codegen.matmul import MatmulSpec, PrefetchRegion, emit_matmul, reads_in_place, scratch_bytes


@dataclass(frozen=True, slots=True)
class Source:
    """An operand of a call: its address, its static strides in elements (None for run-time strides), and the registers
    of the run-time strides."""

    pointer: str
    dtype: DType
    strides: tuple[int | None, int | None]
    run_time_strides: tuple[str, ...] = ()


def matmul(s: State, op: TileMatmul) -> None:
    """Lower alpha * a @ b + beta * c; the result overwrites c's memory if c is dead afterwards."""
    c = op.c
    t: TileType = op.result.type  # type: ignore[assignment]
    scalar = scalar_of(t.dtype)
    compute_type = scalar if not scalar.is_float or scalar.bits >= 32 else float32
    has_no_addend = _is_zero(s, c)
    if compute_type == scalar and not has_no_addend and _is_last_use(s, c, op):
        result = s.tiles[c] if c in s.tiles else tiles.materialise(s, c, s.result_memory(op.result, "matmul"))
    else:
        needs_conversion = compute_type != scalar
        result = (
            s.allocate("wide matmul", compute_type, t.shape)
            if needs_conversion
            else s.result_memory(op.result, "matmul")
        )
        if not has_no_addend:
            _copy_converted(s, tiles.materialise(s, c), result)
    _multiply(s, op, result, compute_type, accumulate=not has_no_addend)
    if compute_type != scalar:
        converted = s.result_memory(op.result, "matmul")
        _copy_converted(s, result, converted)
        result = converted
    s.tiles[op.result] = result


def _is_zero(s: State, c: Value) -> bool:
    """Whether c is a tile of zeros that was not materialised."""
    owner = s.inline.get(c)
    if c in s.tiles or not isinstance(owner, TileFull):
        return False
    filling = owner.value.owner
    return isinstance(filling, S.Const) and filling.value == 0


def _is_last_use(s: State, c: Value, op: Op) -> bool:
    """Whether c's memory can be overwritten: no other value aliases it, and c has no later use."""
    if len(s.users.get(c, [])) != 1:
        return False
    if c in s.inline and c not in s.tiles:
        return True
    owner = c.owner
    if isinstance(owner, Region):
        return op.parent is owner and not is_condition(owner)
    return isinstance(owner, TileMatmul | For | While | If) and op.parent is owner.parent


def _copy_converted(s: State, source: View, target: View) -> None:
    """Copy elements, converting their scalar type."""
    source_type, target_type = scalar_of(source.dtype), scalar_of(target.dtype)
    width = max(1, s.target.vector_bytes // max(4, source_type.bits // 8, target_type.bits // 8))
    while width > source.shape[-1]:
        width //= 2

    def body(index: list[str], w: int) -> None:
        (x,) = s.memory.load_view(source, index, w)
        s.memory.store_view(target, index, (convert(s.code, x, source_type, target_type, w),), w)

    sweep(s, source.shape, width, body)


# Operands ------------------------------------------------------------------------------------------------------------


def loaded_operand(op: TileMatmul, position: int) -> tuple[TileLoad, bool] | None:
    """The load that produces operand `position` (0 or 1) of a matmul, and whether the operand is its transpose; None if
    no load does."""
    owner = (op.a, op.b)[position].owner
    transposed = isinstance(owner, TilePermute) and owner.perm == (1, 0)
    if isinstance(owner, TilePermute) and transposed:
        owner = owner.tile.owner
    return (owner, transposed) if isinstance(owner, TileLoad) else None


def read_in_place(s: State, op: TileMatmul, position: int) -> bool:
    """Whether a matmul reads operand `position` (0 or 1), a tile load or its transpose, directly from the array."""
    load = loaded_operand(op, position)
    if load is None:
        return False
    array = s.arrays.get(load[0].array)
    if array is None or not array.contiguous:
        return False
    spec = _spec(op, tuple(k == position for k in (0, 1)), tuple(k == position and load[1] for k in (0, 1)))
    return reads_in_place(spec, s.target.vector_bytes)[position]


def _spec(
    op: TileMatmul, is_direct: tuple[bool, ...], transposed: tuple[bool, ...] = (False, False)
) -> MatmulSpec:
    """The specification of a matmul. For each operand, `is_direct`: whether the operand is read from an array rather
    than from a packed tile; `transposed`: whether the array contains the transpose of the operand."""
    a, b, c = (v.type for v in (op.a, op.b, op.c))
    assert isinstance(a, TileType) and isinstance(b, TileType) and isinstance(c, TileType)
    (m, k), n, acc = a.shape, b.shape[1], scalar_of(c.dtype)
    compute_type = acc if not acc.is_float or acc.bits >= 32 else float32
    strides = [
        _operand_strides(at_array, of_transpose, row)
        for at_array, of_transpose, row in zip(is_direct, transposed, (k, n), strict=True)
    ]
    return MatmulSpec(
        m, n, k, scalar_of(a.dtype), scalar_of(b.dtype), compute_type, strides[0], strides[1], (n, 1)
    )


def _operand_strides(is_direct: bool, transposed: bool, row_length: int) -> tuple[int | None, int | None]:
    if not is_direct:
        return row_length, 1
    return (1, None) if transposed else (None, 1)


def _multiply(s: State, op: TileMatmul, result: View, compute_type: DType, accumulate: bool) -> None:
    """Emit the call. If operands are read from arrays, emit two versions, because tiles that cross an array's edge are
    copied first."""
    direct = {
        v: direct_load
        for k, v in enumerate((op.a, op.b))
        if (direct_load := _direct_load(s, op, k)) is not None
    }
    loads = [load for load, _ in direct.values()]
    if not loads:
        _call(
            s,
            op,
            [_from_tile(s, v) for v in (op.a, op.b)],
            result,
            compute_type,
            accumulate,
            _operand_loads(s, op),
        )
        return
    code = s.code
    tests = [tile_in_bounds(s, load) for load in loads if needs_bounds(s, load)]
    ok = tests[0] if tests else "true"
    for test in tests[1:]:
        ok = code.emit(f"and i1 {ok}, {test}")
    fast, slow, done = code.label("inside"), code.label("edge"), code.label("joined")
    packed_operands = {v: _from_tile(s, v) for v in (op.a, op.b) if v not in direct}
    code.branch(ok, fast, slow)
    code.define_label(fast)
    sources = [
        packed_operands[v] if v in packed_operands else _from_array(s, *direct[v]) for v in (op.a, op.b)
    ]
    _call(s, op, sources, result, compute_type, accumulate, _operand_loads(s, op))
    code.jump(done)
    code.define_label(slow)
    saved = dict(s.tiles)
    _call(
        s,
        op,
        [packed_operands.get(v) or _from_tile(s, v) for v in (op.a, op.b)],
        result,
        compute_type,
        accumulate,
        [],
    )
    s.tiles = saved
    code.jump(done)
    code.define_label(done)


def _direct_load(s: State, op: TileMatmul, position: int) -> tuple[TileLoad, bool] | None:
    """The load of an operand that the matmul reads from the array, and whether the operand is the load's transpose."""
    load, value = loaded_operand(op, position), (op.a, op.b)[position]
    if load is None or any(v in s.tiles or v not in s.inline for v in (value, load[0].result)):
        return None
    return load


def _operand_loads(s: State, op: TileMatmul) -> list[TileLoad]:
    """The loads of the same iteration from which the operands are derived: directly, transposed, or through maps."""
    loads: dict[TileLoad, None] = {}
    worklist = [op.a, op.b]
    while worklist:
        owner = worklist.pop(0).owner
        if isinstance(owner, TileLoad) and owner.parent is op.parent:
            array = s.arrays.get(owner.array)
            if array is not None and array.contiguous and len(owner.shape) == 2:
                loads[owner] = None
        elif isinstance(owner, TilePermute | TileMap):
            worklist.extend(owner.operands)
    return list(loads)


def _from_tile(s: State, value: Value) -> Source:
    if isinstance(value.owner, TilePermute) and value not in s.tiles:
        tiles.tile_permute(s, value.owner)
    view = tiles.materialise(s, value)
    return Source(view.pointer, scalar_of(view.dtype), (view.strides[0], view.strides[1]))


def _from_array(s: State, load: TileLoad, transposed: bool) -> Source:
    array = s.arrays[load.array]
    size = element_bytes(array.dtype)
    row = s.code.emit(f"sdiv exact i64 {array.strides[0]}, {size}")
    strides = (1, None) if transposed else (None, 1)
    return Source(array_pointer(s, array, offsets(s, load)), scalar_of(array.dtype), strides, (row,))


def _call(
    s: State,
    op: TileMatmul,
    sources: list[Source],
    result: View,
    compute_type: DType,
    accumulate: bool,
    loads: list[TileLoad],
) -> None:
    a, b = sources
    alpha, beta = op.alpha, op.beta
    scaled = not (_is_one(alpha) and (_is_one(beta) or not accumulate))
    prefetches = [x for x in (_next_region(s, load) for load in loads) if x is not None]
    spec = replace(
        _spec(op, (False, False)), a=a.dtype, b=b.dtype, a_strides=a.strides, b_strides=b.strides, scaled=scaled,
        c_strides=(result.strides[0], result.strides[1]), accumulate=accumulate, ahead=tuple(x[0] for x in prefetches),
    )  # fmt: skip
    arguments = [f"ptr {a.pointer}", f"ptr {b.pointer}", f"ptr {result.pointer}"]
    if scaled:
        t, scalar_type = register_type(compute_type, 1), scalar_of(op.result.type.dtype)  # type: ignore[union-attr]
        factors = [alpha, beta][: 1 + accumulate]
        arguments += [f"{t} {convert(s.code, s.scalar(v), scalar_type, compute_type, 1)}" for v in factors]
    arguments += [f"i64 {x}" for x in (*a.run_time_strides, *b.run_time_strides)]
    for _, pointer, row in prefetches:
        arguments += [f"ptr {pointer}", f"i64 {row}"]
    packing_bytes = scratch_bytes(spec, s.target.vector_bytes)
    scratch = s.allocate("packing", int8, (packing_bytes,)).pointer if packing_bytes else "null"
    s.code.line(f"call void @{_function(s, spec)}({', '.join([*arguments, f'ptr {scratch}'])})")


def _function(s: State, spec: MatmulSpec) -> str:
    """The name of the function for a matmul, whose text is emitted once."""
    for name, (other_spec, _) in s.matmuls.items():
        if other_spec == spec:
            return name
    name = f"matmul{len(s.matmuls)}"
    s.matmuls[name] = (spec, emit_matmul(name, spec, s.target.vector_bytes))
    return name


def _next_region(s: State, load: TileLoad) -> tuple[PrefetchRegion, str, str] | None:
    """The region that a load reads in the next iteration of its loop, with its address and row stride in bytes; None
    outside loops and for loop-invariant tiles."""
    loop = load.parent.parent if load.parent is not None else None
    if not isinstance(loop, For):
        return None
    index, step = loop.index, loop.step.owner
    if not isinstance(step, S.Const):
        return None
    distances = [linear(v)[0].get(index, 0) * step.value for v in load.offset]
    if not any(distances):
        return None
    array = s.arrays[load.array]
    starts = [s.memory.add(o, str(move)) for o, move in zip(offsets(s, load), distances, strict=True)]
    rows, columns = load.shape
    region = PrefetchRegion(rows, columns * element_bytes(array.dtype))
    return region, array_pointer(s, array, starts), array.strides[0]


def _is_one(value: Value) -> bool:
    return isinstance(value.owner, S.Const) and value.owner.value == 1


__all__ = ["loaded_operand", "matmul", "read_in_place"]
