"""Loads operands of matmuls again right before each matmul.

A loaded operand of several matmuls, or of a matmul in a later loop, takes shared memory from its load to its last use.
Loaded again, a tile takes memory only at one matmul. Kernels whose tiles do not fit a block otherwise are compiled this
way: the loads, mostly from the L2 cache, take time but no memory."""

from __future__ import annotations

from tegula.ir import Kernel, MatmulLike, ReshapeLike, TileAccess, Value
from tegula.ir.rewrite import clone_op, erase_dead
from tegula.passes.overlap import array_root, writes
from tegula.passes.runner import GpuCompilation


def reload_operands(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place. Only tiles of arrays that the kernel does not write are loaded again, because the
    elements are then the same at each load."""
    is_read_only: dict[Value, bool] = {}
    changed = False
    for matmul in [op for op in kernel.walk() if isinstance(op, MatmulLike)]:
        region = matmul.parent
        assert region is not None
        reloaded: dict[Value, Value] = {}
        for side in matmul.sides:
            load, reshaped = _from_load(side)
            if load is None:
                continue
            array = array_root(load.array)
            if array not in is_read_only:
                is_read_only[array] = not any(writes(kernel, op, {array}) for op in kernel.body.ops)
            if not is_read_only[array]:
                continue
            for op in (load, *reshaped):
                if op.result not in reloaded:
                    region.ops.insert(region.ops.index(matmul), copy := clone_op(op, reloaded))
                    copy.parent = region
        matmul.substitute(reloaded)
        changed = changed or bool(reloaded)
    if changed:
        erase_dead(kernel)


def _from_load(tile: Value) -> tuple[TileAccess | None, list[ReshapeLike]]:
    """The load of a tile, None for a tile that is computed, and the permutations and reshapes after the load, in
    order."""
    reshaped: list[ReshapeLike] = []
    while isinstance(tile.owner, ReshapeLike):
        reshaped.append(tile.owner)
        tile = tile.owner.tile
    owner = tile.owner
    if isinstance(owner, TileAccess) and all(effect.kind == "read" for effect in owner.effects()):
        return owner, reshaped[::-1]
    return None, []
