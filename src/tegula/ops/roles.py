"""Roles: groups of warps of one block that run different code, and the pipes that connect them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.ir import Op, Region, TileAccess, Value
from tegula.ir.fields import READ, WRITE, attr, bodies, operand, output, variadic
from tegula.ops.array import array_type
from tegula.ops.base import require
from tegula.ops.tile import tile_type
from tegula.types import BufType, PipeType, TileType, Type, components

Attrs = Mapping[str, Any]

WARP = 32
WARP_GROUP = 4 * WARP
REGISTER_FILE, MAX_START_REGISTERS, REGISTER_STEP = 65536, 255, 8
"""The number of registers of an SM, the maximum number of registers of a thread at the start of a kernel, and the
granularity of register budgets."""


def start_registers(threads: int) -> int:
    """The number of registers of each thread at the start of a kernel, if one block of `threads` threads is resident on
    an SM."""
    return min(MAX_START_REGISTERS, REGISTER_FILE // threads) // REGISTER_STEP * REGISTER_STEP


def pipe_type(t: Type) -> PipeType:
    """The type as a pipe type; TypeRule otherwise."""
    require(isinstance(t, PipeType), f"expected a tile pipe, got {t}")
    assert isinstance(t, PipeType)
    return t


class Roles(Op):
    """The roles of a kernel: one region per role; the regions run concurrently, each on its own warps. Attributes with
    one entry per role: `names`; `warps`: (first, count); `registers`: registers per thread, 0 where the compiler
    chooses. The group of a cooperative op in a region is the threads of the role. Warps without a role are idle."""

    __slots__ = ()
    NAME = "roles"
    PURE = False
    OBSERVED = True
    roles = bodies()
    names = attr()
    warps = attr()
    registers = attr()

    def infer(self) -> Sequence[Type]:
        count = len(self.roles)
        require(count > 0, "a role region has at least one role")
        for name, entries in (("names", self.names), ("warps", self.warps), ("registers", self.registers)):
            require(
                len(entries) == count, f"{count} roles need {count} entries in `{name}`, got {len(entries)}"
            )
        end = 0
        for first, warps in sorted(self.warps):
            require(first >= end and warps > 0, "each role needs its own warps")
            end = first + warps
        for region in self.roles:
            require(
                not region.args and not region.yielded,
                "the region of a role has no arguments and yields no values",
            )
        return []


class PipeNew(Op):
    """An empty pipe of type attribute `type`: a ring of stages in shared memory."""

    __slots__ = ()
    NAME = "pipe.new"
    COOPERATIVE = True
    PURE = False
    type = attr()
    pipe = output(WRITE)
    swizzled = attr(False)
    to_tf32 = attr(False)

    def infer(self) -> Sequence[Type]:
        t = pipe_type(self.type)
        require(t.stages > 0, f"a pipe has at least one stage, got {t.stages}")
        require(components(t.dtype) == 1, f"a pipe holds tiles of scalars, not of {t.dtype}")
        return [t]


class PipeLoad(TileAccess):
    """Waits for a free stage and starts copying the tile at an offset of an array to the stage; elements outside the
    array become 0. Operands: pipe, array, one offset per dimension; attributes `bounds_check`, `aligned`; `shape`: the
    shape of the tile, if it differs from the shape of the pipe's stages; a stage then holds the elements in row-major
    order, with rows of the same length. The stage is full when the copy has arrived."""

    __slots__ = ()
    NAME = "pipe.load"
    COOPERATIVE = True
    PURE = False
    pipe = operand(WRITE)
    array = operand(READ)
    offset = variadic()
    shape = attr(None)

    @property
    def tile(self) -> TileType:
        """The type of the tile that is copied."""
        pipe = pipe_type(self.pipe.type)
        return TileType(pipe.dtype, pipe.shape if self.shape is None else self.shape)

    def infer(self) -> Sequence[Type]:
        pipe, array, tile = pipe_type(self.pipe.type), array_type(self.array.type), self.tile
        require(pipe.dtype == array.dtype, f"the array holds {array.dtype}, the pipe {pipe.dtype}")
        require(len(self.offset) == len(tile.shape) == array.ndim, "an offset has one entry per dimension")
        has_full_rows = TileType(pipe.dtype, pipe.shape).rows == tile.rows
        require(has_full_rows, f"a stage of {pipe.shape} does not have the rows of a tile of {tile.shape}")
        return []


class PipePush(Op):
    """Waits for a free stage of a pipe and writes a tile to the stage, which is then full. Operands: pipe, tile."""

    __slots__ = ()
    NAME = "pipe.push"
    COOPERATIVE = True
    PURE = False
    pipe = operand(WRITE)
    tile = operand()

    def infer(self) -> Sequence[Type]:
        pipe, tile = pipe_type(self.pipe.type), tile_type(self.tile.type)
        require(
            (tile.dtype, tile.shape) == (pipe.dtype, pipe.shape), f"a {tile} cannot be pushed to a {pipe}"
        )
        return []


class PipePop(Op):
    """Waits until the pipe's next stage is full; the result is the stage's tile, a read-only shared tile. The stage
    stays occupied until `pipe.release`."""

    __slots__ = ()
    NAME = "pipe.pop"
    COOPERATIVE = True
    PURE = False
    pipe = operand(WRITE)

    def infer(self) -> Sequence[Type]:
        pipe = pipe_type(self.pipe.type)
        return [BufType(pipe.dtype, pipe.shape, "shared")]


class PipeRelease(Op):
    """Releases the oldest stage that this role has popped and not yet released. The stage is free when all popping
    roles have released the stage."""

    __slots__ = ()
    NAME = "pipe.release"
    COOPERATIVE = True
    PURE = False
    pipe = operand(WRITE)
    early = attr(False)

    def infer(self) -> Sequence[Type]:
        pipe_type(self.pipe.type)
        return []


WAITS = (PipeLoad, PipePush, PipePop)
"""The ops on pipes that wait for other roles."""


def roles_by_warp(op: Op) -> list[Region]:
    """The regions of roles in the order of their warps; empty for other ops."""
    if not isinstance(op, Roles):
        return []
    return [region for _, region in sorted(zip(op.warps, op.roles, strict=True), key=lambda role: role[0])]


def block_threads(roles: Roles) -> int:
    """The number of threads of a block with these roles, including idle threads of the last warp group."""
    end = max(first + warps for first, warps in roles.warps)
    return WARP * (-(-end // 4) * 4)


# Messages about roles that wait for each other ------------------------------------------------------------------------


def fills(op: Op, pipe: Value) -> bool:
    """Whether an op fills a stage of the pipe."""
    return isinstance(op, PipeLoad | PipePush) and op.pipe is pipe


def pops(op: Op, pipe: Value) -> bool:
    """Whether an op pops a tile of the pipe."""
    return isinstance(op, PipePop) and op.pipe is pipe


def pipe_endpoints(roles: Op, pipe: Value) -> tuple[list[int], list[int]]:
    """The indices of the roles that fill a pipe, and of the roles that pop the pipe."""
    filling, popping = (
        [k for k, region in enumerate(roles.regions) if any(test(op, pipe) for op in region.walk())]
        for test in (fills, pops)
    )
    return filling, popping


def describe_wait_for_pipe(
    role: str, pipe: str, stages: int, fills: bool, item: int, others: Sequence[tuple[str, bool]]
) -> str:
    """The reason, as text, why a role waits to fill, if `fills`, or to pop tile `item` of a pipe. `others`: the roles
    that the role waits for, and whether each has ended."""
    pipe_text = f"pipe '{pipe}'" if pipe else "a pipe"
    role_texts = [f"{name}, which {'has ended' if done else 'waits too'}" for name, done in others]
    if not fills:
        awaited = " and ".join(role_texts) or "any role, but no role fills the pipe"
        return f"{role} waits here for tile {item} of {pipe_text} from {awaited}"
    stage_text = "the only stage" if stages == 1 else f"one of {stages} stages"
    reason = f"tile {item - stages} is not released by {' and '.join(role_texts)}"
    return f"{role} waits here with tile {item} for {stage_text} of {pipe_text}: {reason}"
