"""The register pressure of the consumer threads of a plan, estimated from the tiles that are live at its matmuls.

Registers of matmuls in flight are pinned; the ops between two matmuls process a few elements at a time and reuse the
registers of the tiles that they read. The peak is therefore at a matmul: its accumulator, an operand in registers, and
every other live tile."""

from __future__ import annotations

from collections.abc import Sequence

from tegula.ir import LoopLike, MatmulLike, Op, Region, Value
from tegula.ops.roles import WARP_GROUP
from tegula.passes.specialise.find_matmuls import LoadedMatmul, staged_values
from tegula.target import CudaTarget
from tegula.types import TileType, bool_, element_bytes

SPARE_REGISTERS = 24
"""The registers of a consumer thread besides its tiles: addresses, descriptors, loop indices."""
RESERVED_REGISTERS = 8
"""The registers of the budget that ptxas needs to schedule instructions."""
MAX_REGISTERS = 240
FETCH_REGISTERS = 24
REGISTER_BYTES = 4


def needed_registers(region: Region, matmuls: Sequence[LoadedMatmul], groups: int) -> int:
    """The registers of a thread if `groups` warp groups run a region with these matmuls."""
    live = _Liveness(matmuls)
    live.live_in(region, set())
    return SPARE_REGISTERS + -(-live.peak // (REGISTER_BYTES * groups * WARP_GROUP))


def available_registers(target: CudaTarget, groups: int) -> int:
    """The registers of a consumer thread next to one producer warp group."""
    start = min(target.registers_per_thread, target.registers_per_sm // (WARP_GROUP * (groups + 1))) // 8 * 8
    return (
        min(MAX_REGISTERS, (start * (groups + 1) - FETCH_REGISTERS) // groups // 8 * 8) - RESERVED_REGISTERS
    )


class _Liveness:
    """Liveness of tiles; `peak`: the largest number of bytes live at a matmul, over all threads."""

    def __init__(self, matmuls: Sequence[LoadedMatmul]) -> None:
        self.staged = {v for p in matmuls for v in staged_values(p)}
        self.peak = 0

    def live_in(self, region: Region, after: set[Value]) -> set[Value]:
        """The live-in values of a region with the live-out values `after`."""
        live = set(after)
        for op in reversed(region.ops):
            live -= {*op.results}
            inside = [self._nested(op, nested, live) for nested in op.regions]
            if isinstance(op, MatmulLike):
                self._measure(op, live)
            live |= {*op.operands}.union(*inside)
        return live

    def _nested(self, op: Op, region: Region, after: set[Value]) -> set[Value]:
        """The live-in values of a region of an op. Values from outside that a loop's body uses are live-out of the body
        too, for the next iteration."""
        outside = self.live_in(region, after) - {*region.args}
        return self.live_in(region, after | outside) - {*region.args} if isinstance(op, LoopLike) else outside

    def _measure(self, op: MatmulLike, after: set[Value]) -> None:
        """Update the peak at a matmul: its result reuses the registers of its accumulator unless the accumulator is a
        constant or has another use."""
        result = op.result if _is_rematerialised(op.c) or op.c in after else op.c
        self.peak = max(self.peak, sum(map(_bytes, (after | {op.a, op.b, result}) - self.staged)))


def _bytes(v: Value) -> int:
    """The bytes of a tile in registers, over all threads. 0 for tiles of scalars, which are rematerialised, for bools,
    which are in predicates, and for rows and columns, which are part of SPARE."""
    t = v.type
    if not isinstance(t, TileType) or t.dtype is bool_ or _is_rematerialised(v):
        return 0
    return t.size * element_bytes(t.dtype) if min(t.shape) > 1 else 0


def _is_rematerialised(v: Value) -> bool:
    """Whether a tile is computed from scalars, such as zeros or a range."""
    op = v.owner
    return isinstance(op, Op) and op.PURE and not any(isinstance(x.type, TileType) for x in op.operands)
