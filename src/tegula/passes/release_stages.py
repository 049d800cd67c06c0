"""Frees the stage of each popped tile right after its last use, once on every path.

A use is a read or element access of the tile or of a view of it, and what reads it in place: a product whose operand
is its value. The ring of a pipe is emptied in order, so a tile is held at least as long as those of its pipe that were
popped before it. Releases that the user wrote stay, and their tiles get no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tegula.dataclass import dataclass
from tegula.errors import CompileError, PipeBalance
from tegula.ir import Kernel, Op, Region, Value
from tegula.ops.buffer import BufRead, BufReshape, BufView
from tegula.ops.control import For, If, While
from tegula.ops.linear import TileMatmul
from tegula.ops.roles import PipePop, PipeRelease, Roles, pipe_type
from tegula.ops.tile import TilePermute, TileReshape, TileSlice
from tegula.rewrite import uses

SHAPES = (TilePermute, TileReshape, TileSlice)
"""Ops on values of which a product may still read the popped tile itself."""


def release_stages(kernel: Kernel) -> list[CompileError]:
    """Rewrite the kernel in place; the errors are pops and releases that do not match."""
    errors: list[CompileError] = []
    for op in kernel.body.ops:
        if isinstance(op, Roles):
            for role in op.regions:
                errors += _release(role)
    return errors


def _release(role: Region) -> list[CompileError]:
    errors: list[CompileError] = []
    users = uses(role)
    for pipe in dict.fromkeys(op.operands[0] for op in role.walk() if isinstance(op, PipePop | PipeRelease)):
        _Releases(pipe, users, errors).region(role)
    return errors


@dataclass(frozen=True, slots=True)
class _Held:
    """A popped tile, and the position in its region after which its stage is free. `early`: the user's release."""

    pop: Op
    last: int
    early: Op | None


class _Releases:
    """Places the releases of one pipe in one role."""

    def __init__(
        self, pipe: Value, users: dict[Value, list[tuple[Op, int]]], errors: list[CompileError]
    ) -> None:
        self.pipe, self.users, self.errors = pipe, users, errors
        self.stages = pipe_type(pipe.type).stages

    def region(self, region: Region) -> int:
        """Release in the region what it pops. How many tiles it pops; -1 if that depends on a loop."""
        order = {op: at for at, op in enumerate(region.ops)}
        early = self._early(region)
        held: list[_Held] = []
        releases: dict[int, list[Op]] = {}
        popped = 0
        for at, op in enumerate(region.ops):
            self._free(held, at - 1, releases)
            if self._is(op, PipePop):
                self._check_room(op, held)
                held.append(self._held(op, order, held, early.get(op)))
                popped += popped >= 0
            elif op.regions and any(self._is(o, PipePop | PipeRelease) for r in op.regions for o in r.walk()):
                inner = self._nested(op, held)
                popped = -1 if min(inner, popped) < 0 else popped + inner
        self._free(held, len(region.ops), releases)
        region.ops = [made for at, op in enumerate(region.ops) for made in (op, *releases.get(at, ()))]
        for made in (op for group in releases.values() for op in group):
            made.parent = region
        return popped

    def _is(self, op: Op, kinds: Any) -> bool:
        return isinstance(op, kinds) and op.operands[0] is self.pipe

    def _early(self, region: Region) -> dict[Op, Op]:
        """The releases that the user wrote in a region, by the pop of the tile that each lets go."""
        found: dict[Op, Op] = {}
        waiting: list[Op] = []
        for op in region.ops:
            if self._is(op, PipePop):
                waiting.append(op)
            elif self._is(op, PipeRelease):
                op.attrs.pop("early", None)
                if waiting:
                    found[waiting.pop(0)] = op
                else:
                    what = f"{self._called()}: nothing that was popped here is held"
                    help = "release after the pop, in the same branch or loop"
                    self.errors.append(PipeBalance(op.loc, what=what, help=help))
        return found

    def _check_room(self, op: Op, held: list[_Held]) -> None:
        if len(held) >= self.stages:
            what = (
                f"{self._called()} has {_stages(self.stages)}, and tiles that are still used hold all of them"
            )
            help = "give the pipe more stages, or use the tiles earlier"
            notes = [(h.pop.loc, "held from here on") for h in held]
            self.errors.append(PipeBalance(op.loc, what=what, notes=notes, help=help))

    def _held(self, op: Op, order: dict[Op, int], held: list[_Held], early: Op | None) -> _Held:
        assert op.parent is not None
        used = [
            (order[top], user) for user in self._uses(op.result) if (top := _top(user, op.parent)) is not None
        ]
        if early is None:
            return _Held(op, max([order[op], *(at for at, _ in used), *(h.last for h in held)]), None)
        for at, user in used:
            if at > order[early]:
                what = f"{self._called()}: the tile is used after its stage was released"
                notes = [(op.loc, "popped here"), (early.loc, "released here")]
                help = "release after the last use, or leave it to the compiler"
                self.errors.append(PipeBalance(user.loc, what=what, notes=notes, help=help))
                break
        return _Held(op, order[early], early)

    def _uses(self, value: Value) -> Iterator[Op]:
        """The ops that read a popped tile where it lies."""
        for user, _ in self.users.get(value, []):
            yield user
            if isinstance(user, BufView | BufReshape):
                yield from self._uses(user.result)
            elif isinstance(user, BufRead):
                yield from self._products(user.result)

    def _products(self, value: Value) -> Iterator[Op]:
        for user, position in self.users.get(value, []):
            if isinstance(user, TileMatmul) and position < 2:
                yield user
            elif isinstance(user, SHAPES):
                yield from self._products(user.result)

    def _free(self, held: list[_Held], at: int, releases: dict[int, list[Op]]) -> None:
        """Release what nothing uses after position `at`."""
        while held and held[0].last <= at:
            done = held.pop(0)
            if done.early is None:
                made = PipeRelease([self.pipe], [], None, [], done.pop.loc)
                releases.setdefault(done.last, []).append(made)

    # Control flow ----------------------------------------------------------------------------------------------------

    def _nested(self, op: Op, held: list[_Held]) -> int:
        """A branch or loop that pops by itself. How often."""
        for h in held:
            what = f"{self._called()}: a tile is held across this, which pops others"
            help = "a pipe is emptied in order: use the tile before, or pop it inside"
            self.errors.append(PipeBalance(op.loc, what=what, notes=[(h.pop.loc, "popped here")], help=help))
            break
        counts = [self.region(region) for region in op.regions]
        if isinstance(op, If) and counts[0] != counts[1]:
            times = f"{_times(counts[0])}, the other {_times(counts[1])}"
            what = f"one path through this branch pops {self._called()} {times}"
            self.errors.append(PipeBalance(op.loc, what=what))
        if isinstance(op, While) and counts[0]:
            self.errors.append(PipeBalance(op.loc, what=f"the condition of this loop pops {self._called()}"))
        return (-1 if any(counts) else 0) if isinstance(op, For | While) else counts[0]

    def _called(self) -> str:
        return f"pipe '{self.pipe.name}'" if self.pipe.name else "a pipe"


def _top(op: Op, region: Region) -> Op | None:
    """The op of `region` that holds `op`."""
    at: Op | None = op
    while at is not None and at.parent is not region:
        at = at.parent.parent if at.parent is not None else None
    return at


def _stages(n: int) -> str:
    return "1 stage" if n == 1 else f"{n} stages"


def _times(n: int) -> str:
    return "in a loop" if n < 0 else "never" if n == 0 else "once" if n == 1 else f"{n} times"
