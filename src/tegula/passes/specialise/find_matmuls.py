"""Analysis of the matmuls of a kernel and the loads that feed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Kernel, Op, Region, ReshapeLike, Value
from tegula.ir.rewrite import uses
from tegula.ops.control import For, Yield
from tegula.ops.linear import TileMatmul
from tegula.ops.roles import PipeLoad
from tegula.ops.tile import TileLoad, TileMap, TilePermute, TileSlice
from tegula.passes.overlap import array_root, overlap
from tegula.passes.specialise.declined import Declined
from tegula.types import ArrayType, TileType

OperandDef = TileLoad | TileMap
"""The op that defines an operand: a load, or a map that computes an operand in registers."""


@dataclass(frozen=True, slots=True)
class LoadedMatmul:
    """A matmul and the ops that define its operands, or their transposes: loads, or maps that compute the right
    operand. `left` is empty if the left operand is computed. `in_registers`: whether computed tiles may stay in
    registers, so that only loads fill pipes."""

    op: TileMatmul
    left: tuple[OperandDef, ...]
    right: tuple[OperandDef, ...]
    in_registers: bool = False


def find_matmuls(kernel: Kernel) -> list[LoadedMatmul]:
    """All matmuls of a kernel. Declined if none is in a loop, if a right operand is neither loaded nor computed element
    by element, or if a load cannot be issued ahead."""
    ops = [op for op in kernel.walk() if isinstance(op, TileMatmul)]
    matmuls = [LoadedMatmul(op, _producers(op.a, False), _producers(op.b, True)) for op in ops]
    if not any(is_in_loop(p.op) for p in matmuls):
        raise Declined("no loop has a matmul")
    for p in matmuls:
        if not p.right:
            raise Declined(
                "the right operand of this matmul is neither loaded nor the result of a map", p.op.loc
            )
        for load in (load for op in (*p.left, *p.right) if is_repeated(op) for load in source_loads(op)):
            _check_load(kernel, load)
    return matmuls


def is_repeated(op: OperandDef) -> bool:
    """Whether the producer role must load the tiles of an operand: loads, and maps in loops. A map outside of loops is
    computed once, by the role that multiplies, which can load its tiles itself."""
    return isinstance(op, TileLoad) or is_in_loop(op)


def other_loads(kernel: Kernel, matmuls: Sequence[LoadedMatmul]) -> list[TileLoad]:
    """The loads next to matmuls in loops that feed no matmul directly, but can be issued ahead by a producer role."""
    used = {load for p in matmuls for op in (*p.left, *p.right) for load in source_loads(op)}
    regions = dict.fromkeys(p.op.parent for p in matmuls if is_in_loop(p.op))
    other = [op for r in regions if r for op in r.ops if isinstance(op, TileLoad) and op not in used]
    users = uses(kernel.body)
    carried = {op for op in other if any(isinstance(u, Yield) for u, _ in users.get(op.result, []))}
    return [op for op in other if op not in carried and can_be_issued_early(kernel, op)]


def find_late_loads(kernel: Kernel) -> list[TileLoad]:
    """The loads outside of loops that a producer role cannot issue ahead."""
    loads = (op for op in kernel.walk() if isinstance(op, TileLoad) and not is_in_loop(op))
    return [op for op in loads if not can_be_issued_early(kernel, op)]


def can_be_issued_early(kernel: Kernel, load: TileLoad) -> bool:
    """Whether a producer role can issue a load ahead."""
    try:
        _check_load(kernel, load)
    except Declined:
        return False
    return True


def is_in_loop(op: Op) -> bool:
    """Whether an op is inside of a loop."""
    region = op.parent
    while region is not None and region.parent is not None:
        if isinstance(region.parent, For):
            return True
        region = region.parent.parent
    return False


def _producers(value: Value, converted: bool) -> tuple[OperandDef, ...]:
    """The ops that define a tile: loads, also through transposes and reshapes that keep rows, and maps if `converted`.
    Empty if the tile may have another definition as well."""
    producers: dict[OperandDef, None] = {}
    for v in _chain(value, converted):
        if _is_producer(v.owner, converted):
            producers[v.owner] = None
        elif not transposes(v.owner) and not keeps_rows(v.owner) and not _carried(v):
            return ()
    return tuple(producers)


def staged_values(p: LoadedMatmul) -> set[Value]:
    """The values in pipes for a matmul: its loaded operands, the sources of transposed operands, and the tiles from
    which operands are converted before they enter a pipe."""
    sides = ([(p.op.a, False)] if p.left else []) + [(p.op.b, not p.in_registers)]
    values = {v for side, converted in sides for v in _chain(side, converted)}
    return values | {load.result for op in (*p.left, *p.right) for load in source_loads(op)}


def _chain(value: Value, converted: bool) -> list[Value]:
    """A value and the values that it comes from, through transposes, reshapes that keep rows, and loop-carried
    variables, back to the defining ops."""
    values: dict[Value, None] = {}
    queue = [value]
    while queue:
        v = queue.pop()
        if v in values:
            continue
        values[v] = None
        if transposes(v.owner) or keeps_rows(v.owner):
            queue.append(v.owner.tile)
        elif not _is_producer(v.owner, converted):
            queue += _carried(v)
    return list(values)


def _is_producer(op: object, converted: bool) -> TypeGuard[OperandDef]:
    """Whether an op is a load, or a map if `converted`."""
    return isinstance(op, TileLoad) or (converted and isinstance(op, TileMap))


def converts(op: object) -> TypeGuard[TileMap]:
    """Whether an op is an element-wise map whose only tile operand is loaded in its region, or converted from a loaded
    tile."""
    if not isinstance(op, TileMap):
        return False
    source, *others = _sources(op)
    return not others and (isinstance(source, TileLoad) or converts(source)) and source.parent is op.parent


def _sources(op: TileMap) -> list[Op | Region | None]:
    """The defining ops of the tile operands of a map."""
    return [v.owner for v in op.inputs if isinstance(v.type, TileType)]


def source_loads(op: OperandDef) -> list[TileLoad]:
    """The load itself, or the loads in the region of a map from which the map computes its tile, in program order."""
    if isinstance(op, TileLoad):
        return [op]
    seen, worklist = set[Op](), list[Op]([op])
    while worklist:
        current = worklist.pop()
        if current not in seen:
            seen.add(current)
            owners = [v.owner for v in current.operands if isinstance(v.type, TileType)]
            worklist += [o for o in owners if isinstance(o, Op) and o.parent is op.parent]
    assert op.parent is not None
    return [o for o in op.parent.ops if isinstance(o, TileLoad) and o in seen]


def transposes(op: object) -> TypeGuard[TilePermute | TileSlice]:
    """Whether an op transposes a tile."""
    if not isinstance(op, TilePermute | TileSlice):
        return False
    t = op.tile.type
    assert isinstance(t, TileType)
    if isinstance(op, TilePermute):
        return tuple(op.perm) == (1, 0)
    is_transpose_slice = (op.dims, op.steps, op.shape) == ((1, 0), (1, 1), t.shape[::-1])
    return is_transpose_slice and all(
        isinstance(v.owner, ConstantLike) and v.owner.value == 0 for v in op.starts
    )


def keeps_rows(op: object) -> TypeGuard[ReshapeLike]:
    """Whether the result of an op is a matrix with the rows of the op's tile, along its last dimension."""
    if not isinstance(op, ReshapeLike) or not op.KEEPS_ORDER:
        return False
    t, (result,) = op.tile.type, op.results
    assert isinstance(t, TileType)
    return len(t.shape) > 2 and result.type == t.rows


def _carried(v: Value) -> list[Value]:
    """The values of the loop-carried variable to which v belongs, including the initial and the yielded value."""
    loop = v.owner.parent if isinstance(v.owner, Region) else v.owner
    if not isinstance(loop, For):
        return []
    return [value for carried in loop.carried if v in carried.defined_values for value in carried.values]


def _check_load(kernel: Kernel, load: TileLoad) -> None:
    """Raise Declined for a load that a producer role cannot issue ahead."""
    fill, t = load.fill.owner, load.result.type
    assert isinstance(t, TileType)
    if not (isinstance(fill, ConstantLike) and fill.value == 0):
        raise Declined("elements outside of the array are not 0 in this load", load.loc)
    array = array_root(load.array)
    for op in kernel.walk():
        for effect in op.effects():
            v = effect.value
            if effect.kind in ("read", "io") or v is None or not isinstance(v.type, ArrayType):
                continue
            if array_root(v) is array or overlap(kernel, array, array_root(v)):
                raise Declined("the array of this load may be written in the kernel", load.loc)


def pipe_load(pipe: Value, load: TileLoad) -> PipeLoad:
    """The load as a pipe load."""
    t = load.result.type
    assert isinstance(t, TileType)
    shape = {} if t.rows == t else {"shape": t.shape}
    return PipeLoad([pipe, load.array, *load.offset], [], {**load.promises, **shape}, [], load.loc)
