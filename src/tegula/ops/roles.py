"""Roles: groups of warps of one block that run different code, and the pipes that connect them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.ir import Effect, Region
from tegula.ops.array import array_type
from tegula.ops.base import TileOp, require
from tegula.ops.tile import tile_type
from tegula.types import BufType, PipeType, Type, components

Attrs = Mapping[str, Any]

WARP = 32
WARP_GROUP = 4 * WARP


def pipe_type(t: Type) -> PipeType:
    require(isinstance(t, PipeType), f"expected a tile pipe, got {t}")
    assert isinstance(t, PipeType)
    return t


class Roles(TileOp):
    """The role region of a kernel: one region per role, run at the same time, each by its own warps. Attributes, one
    entry per role: `names`; `warps`, (first, count); `registers` a thread, 0 where the compiler chooses. Cooperative
    ops inside are of the role: its threads are their group. Warps of no role are idle."""

    __slots__ = ()
    NAME = "roles"
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        count = len(regions)
        require(count > 0, "a role region has at least one role")
        for name in ("names", "warps", "registers"):
            require(len(attrs[name]) == count, f"{count} roles have {len(attrs[name])} {name}")
        end = 0
        for first, warps in sorted(attrs["warps"]):
            require(first >= end and warps > 0, "two roles share a warp")
            end = first + warps
        for region in regions:
            require(not region.args and not region.terminator.operands, "a role takes and yields nothing")
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("io"),)


class PipeNew(TileOp):
    """An empty pipe of type attribute `type`: a ring of stages in shared memory."""

    __slots__ = ()
    NAME = "pipe.new"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        t = pipe_type(attrs["type"])
        require(t.stages > 0, f"a pipe has at least one stage, got {t.stages}")
        require(components(t.dtype) == 1, f"a pipe holds tiles of scalars, not of {t.dtype}")
        return [t]

    def effects(self) -> Sequence[Effect]:
        return (Effect("write", self.results[0]),)


class PipeLoad(TileOp):
    """Waits for a free stage and starts copying the tile at an offset of an array to it; elements outside the array
    become 0. Operands: pipe, array, one offset per dimension; attributes `bounds_check`, `aligned`. The stage is full
    when the copy has arrived."""

    __slots__ = ()
    NAME = "pipe.load"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        pipe, array = pipe_type(operands[0]), array_type(operands[1])
        require(pipe.dtype == array.dtype, f"the array holds {array.dtype}, the pipe {pipe.dtype}")
        require(
            len(operands) == 2 + len(pipe.shape) == 2 + array.ndim, "an offset has one entry per dimension"
        )
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("write", self.operands[0]), Effect("read", self.operands[1]))


class PipePush(TileOp):
    """Operands: pipe, tile. Waits for a free stage and writes the tile to it, which is full then."""

    __slots__ = ()
    NAME = "pipe.push"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        pipe, tile = pipe_type(operands[0]), tile_type(operands[1])
        require(
            (tile.dtype, tile.shape) == (pipe.dtype, pipe.shape), f"a {tile} cannot be pushed to a {pipe}"
        )
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("write", self.operands[0]),)


class PipePop(TileOp):
    """Waits until the pipe's next stage is full and gives its contents, a shared tile that is read-only. The stage
    stays occupied until `pipe.release`."""

    __slots__ = ()
    NAME = "pipe.pop"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        pipe = pipe_type(operands[0])
        return [BufType(pipe.dtype, pipe.shape, "shared")]

    def effects(self) -> Sequence[Effect]:
        return (Effect("write", self.operands[0]),)


class PipeRelease(TileOp):
    """The stage that this role popped first of those it still holds is free again, as far as this role goes."""

    __slots__ = ()
    NAME = "pipe.release"
    COOPERATIVE = True
    PURE = False

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        pipe_type(operands[0])
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("write", self.operands[0]),)
