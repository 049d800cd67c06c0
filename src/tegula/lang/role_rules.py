"""Rules of roles and pipes, checked on the traced IR of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula import errors as E
from tegula.ir import Op, Region, Value, root
from tegula.ir.rewrite import is_defined_in
from tegula.ops.buffer import BufNew
from tegula.ops.roles import PipeLoad, PipeNew, PipePop, PipePush, PipeRelease, Roles
from tegula.ops.schedule import MbarrierNew, NamedNew, ScheduleOp
from tegula.ops.tile import TileEmpty
from tegula.source import Location
from tegula.types import BufType, StackType, TileType

FILLS = (PipeLoad, PipePush)
PIPE_OPS = (*FILLS, PipePop, PipeRelease)
FUNCTION_NAMES = {PipeLoad: "tile_pipe_load", PipePush: "tile_pipe_push"}


def misused_roles(body: Region) -> list[E.CompileError]:
    """The errors of a kernel's roles and pipes."""
    roles = next((op for op in body.ops if isinstance(op, Roles)), None)
    if roles is None:
        outside: list[E.CompileError] = [
            _outside(op) for op in body.walk() if isinstance(op, (PipeNew, *PIPE_OPS, ScheduleOp))
        ]
        return outside[:1]
    pipes = [op for op in body.ops if isinstance(op, PipeNew)]
    inside_roles = [error for k in range(len(roles.regions)) for error in _role(roles, k)]
    outer_tiles = any(isinstance(error, E.OuterTileInRole) for error in inside_roles)
    return [
        *_before(body, roles, tiles=not outer_tiles),
        *inside_roles,
        *(error for pipe in pipes for error in _pipe(roles, pipe)),
    ]


def _outside(op: Op) -> E.RolePlacement:
    if isinstance(op, ScheduleOp):
        message = f"{op.loc.subject or op.NAME} works in roles only, but this kernel has no roles"
        return E.RolePlacement(op.loc, what=message, help="one role is enough: with tg.ws(0):")
    help = "put the code that fills the pipe and the code that pops from it into roles: with tg.ws(0):"
    return E.RolePlacement(op.loc, what="a pipe connects roles, but this kernel has no roles", help=help)


def _before(body: Region, roles: Op, tiles: bool) -> Iterator[E.CompileError]:
    """Errors for code before the roles other than scalar code without writes to memory. `tiles`: whether tile functions
    are errors too."""
    for op in (inner for top in body.ops[: body.ops.index(roles)] for inner in top.walk()):
        assert isinstance(op, Op)
        if isinstance(op, CREATED_BEFORE_ROLES):
            if op.parent is not body:
                message = f"{_kind(op)} is created in a branch or loop"
                yield E.RolePlacement(op.loc, what=message, help=TOP_LEVEL)
        elif is_shared(op) or isinstance(op, TileEmpty):
            continue
        elif isinstance(op, PIPE_OPS):
            yield E.RolePlacement(
                op.loc, what="a pipe is used before the roles that it connects", help=IN_ROLE
            )
        elif op.COOPERATIVE and tiles or any(_is_change(op, e.kind, e.value) for e in op.effects()):
            context = "before the roles, where only scalar code without writes to memory is allowed"
            yield E.RolePlacement(op.loc, what=f"{op.loc.subject or 'this op'} is {context}", help=IN_ROLE)


def _is_change(op: Op, kind: str, value: Value | None) -> bool:
    return kind in ("write", "atomic") and value not in op.results


def is_shared(op: Op | Region | None) -> bool:
    """Whether an op creates an empty shared tile, which roles may fill and read, synchronised by barriers."""
    is_new = isinstance(op, BufNew) and isinstance(op.tile.owner, TileEmpty)
    return is_new and isinstance(op, BufNew) and op.storage == "shared"


def _kind(op: Op) -> str:
    return "a pipe" if isinstance(op, PipeNew) else "a barrier"


CREATED_BEFORE_ROLES = (PipeNew, MbarrierNew, NamedNew)
TOP_LEVEL = "create pipes and barriers before the roles, at the top level of the kernel"
IN_ROLE = "move the operation into a role"


def _role(roles: Roles, k: int) -> Iterator[E.CompileError]:
    region, name = roles.regions[k], roles.names[k]
    reported: set[Location] = set()
    for op in region.walk():
        if isinstance(op, CREATED_BEFORE_ROLES):
            yield E.RolePlacement(op.loc, what=f"{_kind(op)} is created inside a role", help=TOP_LEVEL)
        for operand in op.operands:
            is_tile = isinstance(operand.type, TileType | BufType | StackType)
            if isinstance(operand.type, BufType) and is_shared(root(operand).owner):
                continue
            if is_tile and not is_defined_in(operand, region) and op.loc not in reported:
                reported.add(op.loc)
                yield _outer_tile(op, operand, name)
        yield from _changed(op)


def _outer_tile(op: Op, operand: Value, name: str) -> E.OuterTileInRole:
    kind = "stack" if isinstance(operand.type, StackType) else "tile"
    notes = [(operand.owner.loc, "created here")] if isinstance(operand.owner, Op) else []
    return E.OuterTileInRole(op.loc, role=name, kind=kind, notes=notes)


def _changed(op: Op) -> Iterator[E.CompileError]:
    """An error if the op changes a popped tile or a view of one."""
    for effect in op.effects():
        if effect.kind not in ("write", "atomic") or effect.value is None or isinstance(op, BufNew):
            continue
        source = root(effect.value) if isinstance(effect.value.type, BufType) else effect.value
        if isinstance(source.owner, PipePop):
            subject = f"'{source.name}'" if source.name else "this tile"
            yield E.PoppedTileChanged(op.loc, what=subject, notes=[(source.owner.loc, "popped here")])


def _pipe(roles: Roles, pipe: Op) -> Iterator[E.CompileError]:
    """The errors of a pipe. Exactly one role must fill the pipe, by one kind of op; at least one role must pop it; and
    only roles that pop it may release its stages."""
    used = [
        (name, op)
        for name, region in zip(roles.names, roles.regions, strict=True)
        for op in region.walk()
        if isinstance(op, PIPE_OPS) and op.pipe is pipe.result
    ]
    fills = [(name, op) for name, op in used if isinstance(op, FILLS)]
    pops = [name for name, op in used if isinstance(op, PipePop)]
    pipe_name = f"pipe '{pipe.result.name}'" if pipe.result.name else "the pipe"
    for name, op in fills[1:]:
        first, other = fills[0]
        if name != first:
            message = f"{pipe_name} is filled by {first} and by {name}"
            yield E.PipeEnds(
                op.loc, what=message, notes=_at_location(other.loc), help="give each role its own pipe"
            )
            break
        if type(op) is not type(other):
            message = (
                f"{pipe_name} is filled by {FUNCTION_NAMES[type(other)]} and by {FUNCTION_NAMES[type(op)]}"
            )
            yield E.PipeEnds(op.loc, what=message, notes=_at_location(other.loc))
            break
    if fills and not pops:
        message = f"{pipe_name} is filled by {fills[0][0]}, and no role pops it"
        yield E.PipeEnds(fills[0][1].loc, what=message, notes=[(pipe.loc, "created here")])
    for name, op in used:
        if isinstance(op, PipeRelease) and name not in pops:
            yield E.PipeEnds(op.loc, what=f"{name} releases a stage of {pipe_name}, but never pops one")


def _at_location(loc: Location) -> Sequence[tuple[Location, str]]:
    return [(loc, "also filled here")]
