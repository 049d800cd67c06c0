"""Lowers exchanges in segments wider than a warp to shared memory: each lane writes its value to a buffer, and reads
the values that the op combines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tegula.ir import Kernel, Region, Value
from tegula.ir.rewrite import replace
from tegula.ops.base import element
from tegula.ops.buffer import BufGet, BufNew
from tegula.ops.builder import OpBuilder
from tegula.ops.control import Yield
from tegula.ops.exchange import Exchange, LaneReader
from tegula.ops.lane import LaneIndex, Lanes, TileFromLanes
from tegula.ops.roles import WARP
from tegula.ops.scalar import Cmp, Min, Select
from tegula.passes.groups import group_of, role_of
from tegula.passes.runner import GpuCompilation
from tegula.passes.uniformity import analyse
from tegula.types import bool_, int32


def wide_segments(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite a kernel with split lane code in place."""
    replaced: dict[Value, Value] = {}
    _region(kernel.body, kernel, replaced)
    if replaced:
        replace(kernel.body, replaced)
        context.uniformity.values.update(analyse(kernel).values)


def _region(region: Region, kernel: Kernel, replaced: dict[Value, Value]) -> None:
    before, region.ops = region.ops, []
    for op in before:
        for nested in op.regions:
            _region(nested, kernel, replaced)
        if not isinstance(op, Exchange) or op.width <= WARP:
            region.append(op)
            continue
        launch = kernel.launch
        lanes = launch.block_dim if role_of(region) is None else group_of(region, 0).threads
        build = _Memory(region, op.loc, lanes, launch.partial)
        build.has_whole_segments = lanes % op.width == 0
        through_memory = op.through_memory(build)
        through_memory.name = op.result.name
        replaced[op.result] = through_memory


class _Memory(OpBuilder):
    """A builder of ops at the end of a region that the group runs together. `has_whole_segments`: whether the group has
    all lanes of each segment."""

    __slots__ = ("has_whole_segments",)
    has_whole_segments: bool

    def filled(self, region: Region, build: Callable[[], Sequence[Value]]) -> Region:
        outer, self.region = self.region, region
        self.emit(Yield, build())
        self.region = outer
        return region

    def shown(self, value: Value) -> LaneReader:
        buffer = self._buffer(value)
        presence = self._buffer(self.const(True, bool_)) if self.partial else None

        def read(lane: Value, missing: Value | None = None) -> Value:
            if self.has_whole_segments and presence is None:
                return self.one(BufGet, [buffer, lane])
            last = self.const(self.lanes - 1, int32)
            index = self.one(Min, [lane, last])
            result = self.one(BufGet, [buffer, index])
            otherwise = missing if missing is not None else self.const(0, element(value.type))
            result = self.one(Select, [self.one(Cmp, [lane, last], {"pred": "le"}), result, otherwise])
            if presence is not None:
                result = self.one(Select, [self.one(BufGet, [presence, index]), result, otherwise])
            return result

        return read

    def _buffer(self, value: Value) -> Value:
        attrs = {"lanes": self.lanes, "preserve_type": True, "partial": self.partial}
        tile = self.one(TileFromLanes, [value], attrs)
        return self.one(BufNew, [tile], {"exchanged": True, "storage": "shared"})

    def in_lanes(self, build: Callable[[Value], Value]) -> Value:
        body = Region()
        self.filled(body, lambda: [build(self.one(LaneIndex, []))])
        (result,) = self.emit(Lanes, [], None, [body])
        return result
