"""The copies and stores of CTAs in a launch with clusters, found by evaluating the scalars of a lowered kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tegula.dataclass import dataclass, field
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.base import Elementwise
from tegula.ops.control import For, If, Yield
from tegula.ops.roles import Roles
from tegula.ops.schedule import BulkLoad, BulkStore
from tegula.types import to_numpy


@dataclass(frozen=True, slots=True)
class Copy:
    """A copied tile: the array and the offset of the tile, and whether both CTAs of the cluster copy the tile."""

    array: Value
    offset: tuple[int, ...]
    is_shared: bool


@dataclass(slots=True)
class ClusterAccesses:
    """Evaluates the scalars of a lowered kernel. `grid`: blocks of the launch; `shapes`: of arrays, by the index of the
    parameter; `blocks`: the number of CTAs."""

    kernel: Kernel
    grid: tuple[int, int]
    shapes: Mapping[int, Sequence[int]]
    blocks: int
    block: int = 0
    values: dict[Value, Any] = field(default_factory=dict[Value, Any])
    issued_copies: list[Copy] = field(default_factory=list[Copy])
    stored_offsets: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    def copies(self, block: int) -> list[Copy]:
        self._run(block, 0)
        return self.issued_copies

    def stores(self, block: int) -> list[tuple[int, ...]]:
        self._run(block, 1)
        return self.stored_offsets

    def _run(self, block: int, role: int) -> None:
        self.block, self.values, self.issued_copies, self.stored_offsets = block, {}, [], []
        roles = next(op for op in self.kernel.body.ops if isinstance(op, Roles))
        self._region(roles.regions[role])

    def _region(self, region: Region) -> list[Any]:
        for op in region.ops:
            self._op(op)
        terminator = region.ops[-1]
        return [self.values.get(v) for v in terminator.operands] if isinstance(terminator, Yield) else []

    def _op(self, op: Op) -> None:
        operands: list[Any] = [self.values.get(v) for v in op.operands]
        if isinstance(op, For):
            (body,) = op.regions
            carried = operands[3:]
            for k in range(*(int(x) for x in operands[:3])):
                self.values.update(zip(body.args, [k, *carried], strict=True))
                carried = self._region(body)
            self.values.update(zip(op.results, carried, strict=True))
        elif isinstance(op, If):
            self.values.update(zip(op.results, self._region(op.regions[not operands[0]]), strict=True))
        elif isinstance(op, BulkLoad):
            coordinates = tuple(int(self.values[v]) for v in op.offset)
            self.issued_copies.append(Copy(op.operands[3], coordinates, bool(operands[-1])))
        elif isinstance(op, BulkStore):
            self.stored_offsets.append(tuple(int(x) for x in operands[3:]))
        elif op.NAME == "logical_blocks":
            results = (self.block, self.grid[0] * self.grid[1], self.blocks)
            self.values.update(zip(op.results, results, strict=True))
        elif op.NAME == "block.coordinate":
            self.values[op.result] = self._tile_position(int(operands[0]), op.attrs["raster"])[
                op.attrs["dim"]
            ]
        elif op.NAME == "array.shape":
            self.values[op.result] = self.shapes[self.kernel.params.index(op.operands[0])][op.attrs["dim"]]
        elif op.NAME == "const":
            self.values[op.result] = op.attrs["value"]
        elif op.NAME == "cluster.end":
            self.values[op.result] = operands[0] + operands[0] % 2
        elif op.NAME == "cluster.peer":
            self.values[op.result] = operands[0] ^ 1
        elif op.NAME == "select":
            self.values[op.result] = operands[1] if operands[0] else operands[2]
        elif isinstance(op, Elementwise) and None not in operands and not hasattr(op.result.type, "shape"):
            operand_arrays = [
                np.array(x, to_numpy(v.type)) for x, v in zip(operands, op.operands, strict=True)
            ]  # type: ignore[arg-type]
            self.values[op.result] = op.ref(op.attrs, *operand_arrays)[()]

    def _tile_position(self, number: int, raster: int) -> tuple[int, int]:
        """The row and column of a tile index: groups of `raster` rows, each group in column-major order."""
        rows, columns = self.grid
        group, remainder = divmod(number, raster * columns)
        height = min(raster, rows - group * raster)
        return group * raster + remainder % height, remainder // height
