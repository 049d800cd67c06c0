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
    """A tile that is fetched: its array and offset, and whether the other CTA of the cluster fetches it too."""

    array: Value
    place: tuple[int, ...]
    same: bool


@dataclass(slots=True)
class Walk:
    """`grid`: blocks of the launch; `shapes`: of arrays, by the position of their parameter."""

    kernel: Kernel
    grid: tuple[int, int]
    shapes: Mapping[int, Sequence[int]]
    blocks: int
    block: int = 0
    known: dict[Value, Any] = field(default_factory=dict[Value, Any])
    copies_issued: list[Copy] = field(default_factory=list[Copy])
    stored: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    def copies(self, block: int) -> list[Copy]:
        self._run(block, 0)
        return self.copies_issued

    def stores(self, block: int) -> list[tuple[int, ...]]:
        self._run(block, 1)
        return self.stored

    def _run(self, block: int, role: int) -> None:
        self.block, self.known, self.copies_issued, self.stored = block, {}, [], []
        roles = next(op for op in self.kernel.body.ops if isinstance(op, Roles))
        self._region(roles.regions[role])

    def _region(self, region: Region) -> list[Any]:
        for op in region.ops:
            self._op(op)
        last = region.ops[-1]
        return [self.known.get(v) for v in last.operands] if isinstance(last, Yield) else []

    def _op(self, op: Op) -> None:
        operands: list[Any] = [self.known.get(v) for v in op.operands]
        if isinstance(op, For):
            (body,) = op.regions
            carried = operands[3:]
            for k in range(*(int(x) for x in operands[:3])):
                self.known.update(zip(body.args, [k, *carried], strict=True))
                carried = self._region(body)
            self.known.update(zip(op.results, carried, strict=True))
        elif isinstance(op, If):
            self.known.update(zip(op.results, self._region(op.regions[not operands[0]]), strict=True))
        elif isinstance(op, BulkLoad):
            coordinates = tuple(int(self.known[v]) for v in op.offset)
            self.copies_issued.append(Copy(op.operands[3], coordinates, bool(operands[-1])))
        elif isinstance(op, BulkStore):
            self.stored.append(tuple(int(x) for x in operands[3:]))
        elif op.NAME == "logical_blocks":
            numbers = (self.block, self.grid[0] * self.grid[1], self.blocks)
            self.known.update(zip(op.results, numbers, strict=True))
        elif op.NAME == "block.place":
            self.known[op.result] = self._place(int(operands[0]), op.attrs["raster"])[op.attrs["dim"]]
        elif op.NAME == "array.shape":
            self.known[op.result] = self.shapes[self.kernel.params.index(op.operands[0])][op.attrs["dim"]]
        elif op.NAME == "const":
            self.known[op.result] = op.attrs["value"]
        elif op.NAME == "cluster.end":
            self.known[op.result] = operands[0] + operands[0] % 2
        elif op.NAME == "cluster.peer":
            self.known[op.result] = operands[0] ^ 1
        elif op.NAME == "select":
            self.known[op.result] = operands[1] if operands[0] else operands[2]
        elif isinstance(op, Elementwise) and None not in operands and not hasattr(op.result.type, "shape"):
            numbers = [np.array(x, to_numpy(v.type)) for x, v in zip(operands, op.operands, strict=True)]  # type: ignore[arg-type]
            self.known[op.result] = op.ref(op.attrs, *numbers)[()]

    def _place(self, number: int, raster: int) -> tuple[int, int]:
        """The tile of a number: groups of rows one after another, each in column-major order."""
        rows, columns = self.grid
        group, rest = divmod(number, raster * columns)
        height = min(raster, rows - group * raster)
        return group * raster + rest % height, rest // height
