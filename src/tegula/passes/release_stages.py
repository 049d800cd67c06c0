"""Releases the stage of each popped tile right after its last use, once on every path.

A use is a read or element access of the tile or of a view. A matmul whose operand is the tile's value reads the stage
in place, so that the use ends at the wait for the matmul. A pipe is a FIFO, so that a tile is held at least as long as
the tiles popped earlier from the same pipe. Releases written by the user stay, and no release is added for their tiles.

If a matmul is waited for in the next iteration of its loop, its tiles are released there, except in the first
iteration, and once more after the loop, if the loop had an iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tegula.dataclass import dataclass
from tegula.deferred import deferred_imports
from tegula.errors import CompileError, PipeBalance, raise_all
from tegula.ir import Builder, ConstantLike, Kernel, Op, Region, Value
from tegula.ir.rewrite import uses
from tegula.ops.buffer import BufRead, BufReshape, BufView
from tegula.ops.control import For, If, While, Yield
from tegula.ops.linear import TileMatmul, in_flight
from tegula.ops.roles import PipePop, PipeRelease, Roles, pipe_type
from tegula.ops.scalar import Cmp, Const, Select
from tegula.ops.tile import TilePermute, TileReshape, TileSlice
from tegula.passes.runner import Compilation
from tegula.source import Location
from tegula.types import bool_

with deferred_imports():
    from tegula.passes.matmul_waits import covering_wait

SHAPES = (TilePermute, TileReshape, TileSlice)
"""The ops through whose results a matmul may still read the popped tile in place."""


def release_stages(kernel: Kernel, context: Compilation) -> None:
    """Rewrite the kernel in place. PipeBalance for pops and releases that do not match."""
    errors: list[CompileError] = []
    for op in kernel.body.ops:
        if isinstance(op, Roles):
            for role in op.roles:
                errors += _release(role)
    raise_all(errors)


def _release(role: Region) -> list[CompileError]:
    errors: list[CompileError] = []
    users = uses(role)
    for pipe in dict.fromkeys(op.pipe for op in role.walk() if isinstance(op, PipePop | PipeRelease)):
        _Releases(pipe, users, errors).region(role)
    return errors


@dataclass(frozen=True, slots=True)
class _PoppedTile:
    """A popped tile, and the position in its region after which its stage is free. `user_release`: the release that the
    user wrote. `iteration_of`: the loop that popped the tile in the previous iteration or, if `past_loop`, in the last
    iteration."""

    loc: Location
    last: int
    user_release: PipeRelease | None = None
    iteration_of: For | None = None
    past_loop: bool = False


@dataclass(frozen=True, slots=True)
class _DelayedRelease:
    """Tiles of an iteration that the next iteration releases. `count`: the number of tiles; `wait`: the op of the body
    after which the tiles are released; `past_loop`: the op after which the tiles of the last iteration are released."""

    loc: Location
    loop: For
    count: int
    wait: Op
    past_loop: Op

    def popped_tiles(self, last: int, past_loop: bool = False) -> list[_PoppedTile]:
        return [_PoppedTile(self.loc, last, None, self.loop, past_loop)] * self.count


class _Releases:
    """Places the releases of one pipe in one role."""

    def __init__(
        self, pipe: Value, users: dict[Value, list[tuple[Op, int]]], errors: list[CompileError]
    ) -> None:
        self.pipe, self.users, self.errors = pipe, users, errors
        self.stages = pipe_type(pipe.type).stages
        self.delayed: dict[Region, _DelayedRelease] = {}

    def region(self, region: Region) -> int:
        """Insert releases for the tiles that a region pops. Returns the number of pops, or -1 if the number depends on
        a loop."""
        self._find_delayed(region)
        order = {op: position for position, op in enumerate(region.ops)}
        user_releases = self._user_releases(region)
        popped_tiles = (
            self.delayed[region].popped_tiles(order[self.delayed[region].wait])
            if region in self.delayed
            else []
        )
        releases: dict[int, list[Op]] = {}
        popped = 0
        for position, op in enumerate(region.ops):
            self._release_unused(popped_tiles, position - 1, releases)
            if isinstance(op, PipePop) and op.pipe is self.pipe:
                self._check_capacity(op, popped_tiles)
                popped_tiles.append(self._popped_tile(op, order, popped_tiles, user_releases.get(op)))
                popped += popped >= 0
            elif op.regions and any(map(self._uses_pipe, op.walk())):
                inner = self._nested(op, popped_tiles)
                popped = -1 if min(inner, popped) < 0 else popped + inner
                for release in (self.delayed[r] for r in op.regions if r in self.delayed):
                    popped_tiles += release.popped_tiles(order[release.past_loop], True)
        self._release_unused(popped_tiles, len(region.ops) - 1, releases)
        region.ops = [
            new_op for position, op in enumerate(region.ops) for new_op in (op, *releases.get(position, ()))
        ]
        for new_op in (op for group in releases.values() for op in group):
            new_op.parent = region
        return popped

    def _uses_pipe(self, op: Op) -> bool:
        return isinstance(op, PipePop | PipeRelease) and op.pipe is self.pipe

    def _user_releases(self, region: Region) -> dict[PipePop, PipeRelease]:
        """The user's releases in a region, by the pop of the released tile."""
        releases: dict[PipePop, PipeRelease] = {}
        unreleased: list[PipePop] = []
        for op in region.ops:
            if not isinstance(op, PipePop | PipeRelease) or op.pipe is not self.pipe:
                continue
            if isinstance(op, PipePop):
                unreleased.append(op)
            else:
                del op.early
                if unreleased:
                    releases[unreleased.pop(0)] = op
                else:
                    message = f"{self._pipe_name()}: no popped tile is left to release"
                    help = "release after the pop, in the same branch or loop"
                    self.errors.append(PipeBalance(op.loc, what=message, help=help))
        return releases

    def _check_capacity(self, op: PipePop, popped: list[_PoppedTile]) -> None:
        if len(popped) >= self.stages:
            message = (
                f"{self._pipe_name()} has {_stages(self.stages)}, and all hold tiles that are still in use"
            )
            help = "give the pipe more stages, or use the tiles earlier"
            notes = [(h.loc, "held from here on") for h in popped]
            self.errors.append(PipeBalance(op.loc, what=message, notes=notes, help=help))

    def _popped_tile(
        self, op: PipePop, order: dict[Op, int], popped: list[_PoppedTile], user_release: PipeRelease | None
    ) -> _PoppedTile:
        assert op.parent is not None
        ends = [(self._end_of_use(user, op.parent, order), user) for user in self._uses(op.result)]
        if user_release is None:
            return _PoppedTile(op.loc, max([order[op], *(at for at, _ in ends), *(h.last for h in popped)]))
        for at, user in ends:
            if at > order[user_release]:
                message = f"{self._pipe_name()}: the tile is used after its stage was released"
                notes = [(op.loc, "popped here"), (user_release.loc, "released here")]
                help = "release after the last use, or omit the release: the compiler inserts one"
                self.errors.append(PipeBalance(user.loc, what=message, notes=notes, help=help))
                break
        return _PoppedTile(op.loc, order[user_release], user_release)

    def _end_of_use(self, user: Op, region: Region, order: dict[Op, int]) -> int:
        """The position in a region at which a use ends; the region's length if it ends in the next iteration."""
        ancestor = _ancestor_in(user, region)
        assert ancestor is not None
        if not in_flight(user):
            return order[ancestor]
        covered = covering_wait(user)
        if covered is not None and covered.after is not None and covered.wait.parent is region:
            return len(region.ops)
        end = _ancestor_in(covered.wait, region) if covered is not None and covered.after is None else None
        if end is not None:
            return order[end]
        tile = f"a tile of {self._pipe_name()}"
        message = f"a matmul in flight reads {tile} that no wait in this iteration or the next covers"
        help = "call tg.tile_matmul_wait in the loop that pops the tile, and once after the loop"
        self.errors.append(PipeBalance(user.loc, what=message, help=help))
        return order[ancestor]

    def _uses(self, value: Value) -> Iterator[Op]:
        """The ops that read a popped tile in its stage."""
        for user, _ in self.users.get(value, []):
            yield user
            if isinstance(user, BufView | BufReshape):
                yield from self._uses(user.result)
            elif isinstance(user, BufRead):
                yield from self._matmuls(user.result)

    def _matmuls(self, value: Value) -> Iterator[Op]:
        for user, position in self.users.get(value, []):
            if isinstance(user, TileMatmul) and position < 2:
                yield user
            elif isinstance(user, SHAPES):
                yield from self._matmuls(user.result)

    def _release_unused(self, popped: list[_PoppedTile], at: int, releases: dict[int, list[Op]]) -> None:
        """Release the held tiles that have no use after position `at`."""
        while popped and popped[0].last <= at:
            tile = popped.pop(0)
            if tile.user_release is None:
                releases.setdefault(tile.last, []).extend(self._release(tile))

    def _release(self, tile: _PoppedTile) -> list[Op]:
        release_region = Region()
        build = Builder(release_region, tile.loc)
        if tile.iteration_of is None:
            build.insert(PipeRelease([self.pipe]))
            return release_region.ops
        condition = had_iterations if tile.past_loop else _has_iteration_before
        is_present = condition(build, tile.iteration_of)
        branches = Region(), Region()
        Builder(branches[0], tile.loc).insert(PipeRelease([self.pipe]))
        for branch in branches:
            Builder(branch, tile.loc).insert(Yield())
        build.insert(If([is_present], [], None, branches))
        return release_region.ops

    # Releases in the next iteration -----------------------------------------------------------------------------------

    def _find_delayed(self, body: Region) -> None:
        """Record the tiles that the next iteration of a loop releases: the first tile whose matmul is waited for in the
        next iteration, and all tiles popped later."""
        loop = body.parent
        if not isinstance(loop, For):
            return
        pops = [op for op in body.ops if isinstance(op, PipePop) and op.pipe is self.pipe]
        for k, pop in enumerate(pops):
            matmuls = [u for u in self._uses(pop.result) if in_flight(u) and u.parent is body]
            covers = [c for u in matmuls if (c := covering_wait(u)) is not None and c.after is not None]
            if covers:
                assert loop.parent is not None
                wait = max((c.wait for c in covers), key=body.ops.index)
                past_loop = max((c.after for c in covers if c.after is not None), key=loop.parent.ops.index)
                self.delayed[body] = _DelayedRelease(pop.loc, loop, len(pops) - k, wait, past_loop)
                return

    # Control flow ----------------------------------------------------------------------------------------------------

    def _nested(self, op: Op, popped: list[_PoppedTile]) -> int:
        """Handle a branch or loop that pops. Returns the number of pops, or -1 if the number depends on a loop."""
        for tile in popped:
            message = f"{self._pipe_name()}: a tile is held across this loop or branch, which pops more tiles"
            help = "a pipe is a FIFO: use the tile before the loop or branch, or pop the tile inside"
            self.errors.append(
                PipeBalance(op.loc, what=message, notes=[(tile.loc, "popped here")], help=help)
            )
            break
        counts = [self.region(region) for region in op.regions]
        if isinstance(op, If) and op.leaves:
            return -1 if any(counts) else 0
        if isinstance(op, If) and counts[0] != counts[1]:
            times = f"{_times(counts[0])}, the other {_times(counts[1])}"
            message = f"one path through this branch pops {self._pipe_name()} {times}"
            self.errors.append(PipeBalance(op.loc, what=message))
        if isinstance(op, While) and counts[0]:
            self.errors.append(
                PipeBalance(op.loc, what=f"the condition of this loop pops {self._pipe_name()}")
            )
        return (-1 if any(counts) else 0) if isinstance(op, For | While) else counts[0]

    def _pipe_name(self) -> str:
        return f"pipe '{self.pipe.name}'" if self.pipe.name else "a pipe"


def _ancestor_in(op: Op, region: Region) -> Op | None:
    """The op of `region` that contains `op`."""
    ancestor: Op | None = op
    while ancestor is not None and ancestor.parent is not region:
        ancestor = ancestor.parent.parent if ancestor.parent is not None else None
    return ancestor


def _has_iteration_before(build: Builder, loop: For) -> Value:
    """Build the condition, inside a loop, that the iteration is not the first."""
    return _compare(build, "ne", loop.index, loop.start)


def had_iterations(build: Builder, loop: For) -> Value:
    """Build the condition, after a loop, that it had an iteration."""
    return has_iterations(build, loop.bounds)


def has_iterations(build: Builder, bounds: Sequence[Value]) -> Value:
    """Build the condition that a loop with these bounds has an iteration. A step that is not constant may have either
    sign."""
    start, stop, step = bounds
    if isinstance(step.owner, ConstantLike):
        return _compare(build, "lt" if step.owner.value > 0 else "gt", start, stop)
    up, down = _compare(build, "lt", start, stop), _compare(build, "gt", start, stop)
    zero = build.insert(Const([], [step.type], {"value": 0, "type": step.type})).result
    counts_up = _compare(build, "gt", step, zero)
    return build.insert(Select([counts_up, up, down], [bool_])).result


def _compare(build: Builder, pred: str, a: Value, b: Value) -> Value:
    return build.insert(Cmp([a, b], [bool_], {"pred": pred})).result


def _stages(n: int) -> str:
    return "1 stage" if n == 1 else f"{n} stages"


def _times(n: int) -> str:
    return "in a loop" if n < 0 else "never" if n == 0 else "once" if n == 1 else f"{n} times"
