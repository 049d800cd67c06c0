"""Loads the tiles that matmuls multiply again right before each matmul.

A loaded operand of several matmuls, or of a matmul in a later loop, takes shared memory from its load to its last use.
Loaded again, a tile takes memory only at one matmul. Kernels whose tiles do not fit a block otherwise are compiled this
way: the loads, mostly from the L2 cache, take time but no memory."""

from __future__ import annotations

from tegula.ir import Kernel, Op, Value
from tegula.ir.rewrite import clone_op, erase_dead
from tegula.ops.linear import TileMatmul
from tegula.ops.tile import TileLoad, TilePermute
from tegula.passes.overlap import array_root, writes
from tegula.passes.runner import GpuCompilation


def reload_operands(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place. Only tiles of arrays that the kernel does not write are loaded again, because the
    elements are then the same at each load."""
    constant: dict[Value, bool] = {}
    for matmul in [op for op in kernel.walk() if isinstance(op, TileMatmul)]:
        region = matmul.parent
        assert region is not None
        made: dict[Value, Value] = {}
        for side in matmul.sides:
            chain = _from_load(side)
            if not chain:
                continue
            array = array_root(chain[0].operands[0])
            if array not in constant:
                constant[array] = not any(writes(kernel, op, {array}) for op in kernel.body.ops)
            if not constant[array]:
                continue
            for op in chain:
                if op.results[0] not in made:
                    region.ops.insert(region.ops.index(matmul), copy := clone_op(op, made))
                    copy.parent = region
        matmul.substitute(made)
    erase_dead(kernel)


def _from_load(tile: Value) -> list[Op]:
    """The load of a tile and the permutations after the load, in order; nothing for a tile that is computed."""
    chain: list[Op] = []
    while isinstance(tile.owner, TilePermute):
        chain.append(tile.owner)
        tile = tile.owner.tile
    return [tile.owner, *reversed(chain)] if isinstance(tile.owner, TileLoad) else []
