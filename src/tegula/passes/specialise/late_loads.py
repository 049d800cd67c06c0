"""Copies tiles that the producer role cannot load, because the kernel changes their arrays.

The role that multiplies loads such a tile itself, once for each block, as an operand that it computes. An example is a
gradient kernel, whose blocks read the gradient of their result and clear it."""

from __future__ import annotations

from tegula.ir import Builder, Kernel, Region
from tegula.ir.rewrite import insert_before, replace
from tegula.ops.control import Yield
from tegula.ops.tile import TileMap
from tegula.passes.specialise.find_matmuls import find_late_loads
from tegula.types import TileType


def copy_late_loads(kernel: Kernel) -> None:
    """Replace tiles that are loaded outside of loops, and cannot be loaded early, by copies, in place."""
    for op in find_late_loads(kernel):
        t, region = op.result.type, op.parent
        assert isinstance(t, TileType) and region is not None
        identity = Region([t.dtype])
        Builder(identity, op.loc).insert(Yield(identity.args))
        copy = TileMap([op.result], [t], None, [identity], op.loc)
        insert_before(region.ops[region.ops.index(op) + 1], [copy])
        replace(kernel.body, {op.result: copy.result})
        copy.set_operand(0, op.result)
