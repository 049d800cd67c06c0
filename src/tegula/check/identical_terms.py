"""Whether roles compute what decides about their schedule in one way.

Launches are explored, and from those few all others are judged. That is a proof where nothing can tell roles apart in
a launch that was not explored: where the terms of their stages, phases, trip counts and conditions are the same, letter
by letter, and so short that both wrap alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tegula.check.slices import Followed, numbers
from tegula.ir import Op, Region, Value
from tegula.ops.array import ArrayShape
from tegula.ops.base import TileOp
from tegula.ops.control import For, If, While
from tegula.ops.lane import BlockCount, BlockIndex, LogicalBlocks, Tid
from tegula.ops.scalar import Const
from tegula.types import DType

GIVEN = (ArrayShape, BlockCount, BlockIndex, LogicalBlocks, Tid)
"""What a launch decides, alike for all roles of a block."""
WIDTH = 32
MOST = 50_000
"""Names in the terms of a role; beyond, they are not compared."""


class _Apart(Exception):
    """A term that roles may see differently: too wide, read from memory, or not of a scalar."""


def identical_terms(followed: Followed, roles: Sequence[Region]) -> bool:
    """Whether all roles that do something have the same set of terms, all of WIDTH bits. A block without roles has
    nobody to agree with: it has no conditions then."""
    try:
        terms = [found for role in roles if (found := _Terms(followed, role).found)]
    except _Apart:
        return False
    if len(roles) == 1:
        return not any(isinstance(op, If | While) for op in followed.controls)
    return all(found == terms[0] for found in terms)


class _Terms:
    """The terms of one role, each with the loops and branches around it."""

    def __init__(self, followed: Followed, role: Region) -> None:
        self.followed, self.role = followed, role
        self.size = 0
        self.inside: list[Value] = []
        """What the term at hand is a part of; what a loop carries is made of itself."""
        self.found: set[Any] = set()
        self._region(role, ())

    def _region(self, region: Region, around: tuple[Any, ...]) -> None:
        for op in region.ops:
            if not self.followed.loud(op):
                continue
            if isinstance(op, For | While | If):
                head = (op.NAME, *(self._term(v) for v in _deciding(op)))
                self.found.add((*around, head))
                for k, inner in enumerate(op.regions):
                    self._region(inner, (*around, (*head, k)))
                continue
            for v in numbers(op):
                self.found.add((*around, self._term(v)))

    def _term(self, value: Value) -> Any:
        """A value as a tree of names; _Apart for one that roles may see differently."""
        self.size += 1
        if not isinstance(value.type, DType) or (value.type.bits != WIDTH and not value.type.is_bool):
            raise _Apart
        if value in self.inside:
            return ("again", len(self.inside) - self.inside.index(value))
        if self.size > MOST:
            raise _Apart
        self.inside.append(value)
        made = self._made(value)
        self.inside.pop()
        return made

    def _made(self, value: Value) -> Any:
        owner = value.owner
        if isinstance(owner, Region):
            loop = owner.parent
            if loop is None:
                return ("argument", owner.args.index(value))
            return (
                "of loop",
                self._depth(owner),
                *(self._term(v) for v in self._carried(loop, owner, value)),
            )
        if isinstance(owner, Const):
            return owner.attrs["value"]
        assert isinstance(owner, TileOp)
        if isinstance(owner, GIVEN):
            of = [v.owner.args.index(v) for v in owner.operands if isinstance(v.owner, Region)]
            if len(of) != len(owner.operands):
                raise _Apart
            return (owner.NAME, owner.results.index(value), *of, *sorted(map(str, owner.attrs.items())))
        if owner.regions or not owner.PURE or any(e.kind == "read" for e in owner.effects()):
            raise _Apart
        return (owner.NAME, *(self._term(v) for v in owner.operands), *sorted(map(str, owner.attrs.items())))

    def _carried(self, loop: Op, body: Region, value: Value) -> Iterator[Value]:
        """What a loop's argument is made of. Whether a phase starts with 0 or with 1 says which side waits first, in
        every launch."""
        place = body.args.index(value) - isinstance(loop, For)
        if place < 0:
            yield from loop.operands[:3]
            return
        start, end = (
            loop.operands[place + 3 * isinstance(loop, For)],
            loop.regions[-1].terminator.operands[place],
        )
        if not isinstance(start.owner, Const) or start.owner.attrs["value"] not in (0, 1):
            yield start
        yield end

    def _depth(self, region: Region | None) -> int:
        depth = 0
        while region is not None and region is not self.role:
            depth += 1
            region = region.parent.parent if region.parent is not None else None
        return depth


def _deciding(op: Op) -> Sequence[Value]:
    if isinstance(op, While):
        return op.regions[0].terminator.operands[:1]
    return op.operands[:3] if isinstance(op, For) else op.operands[:1]
