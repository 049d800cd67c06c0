"""The check that no op of a kernel is executed per lane, because the meaning of such a kernel depends on the number of
threads."""

from __future__ import annotations

from tegula.ir import Kernel
from tegula.ops.array import ArrayAtomic, ArrayCas, ArrayStore
from tegula.ops.debug import Assert, Print, PrintTile
from tegula.ops.lane import BlockCount, BlockIndex, Tid, TileFromLanes, TileToLanes
from tegula.ops.roles import Roles
from tegula.ops.stack import StackNew
from tegula.passes.specialise.declined import Declined
from tegula.passes.uniformity import analyse

LANE_OPS = (TileFromLanes, TileToLanes, ArrayStore, ArrayAtomic, ArrayCas, StackNew)
REPORTS = (Print, PrintTile)


def check_lane_code(kernel: Kernel) -> None:
    """Raise Declined unless all lanes of a block execute the same ops on the same values."""
    launch = kernel.launch
    if launch.partial:
        raise Declined("the last block of the launch has fewer lanes than the others")
    uniformity = analyse(kernel)
    for op in kernel.walk():
        if isinstance(op, Roles):
            raise Declined("the kernel has hand-written roles", op.loc)
        if isinstance(op, BlockIndex | BlockCount):
            raise Declined("the kernel reads the index or the number of its blocks", op.loc)
        if isinstance(op, Assert):
            reason = "and does not follow from the arguments of the launch alone"
            raise Declined(f"this assertion reports its lane and block, {reason}", op.loc)
        if isinstance(op, REPORTS):
            raise Declined("this op reports its lane and block", op.loc)
        if isinstance(op, LANE_OPS) or op.EACH_LANE or op.signature.lanes:
            raise Declined("this op is executed per lane", op.loc)
        varies = not isinstance(op, Tid) and any(uniformity.varying(v) for v in (*op.operands, *op.results))
        if varies:
            raise Declined("this value differs between the lanes of a block", op.loc)
