"""Kernels with roles as kernels without: the roles run in turn, and a tile that is popped is the one that was put into
the pipe.

Roles meet in pipes only, each pipe has one role that fills it, and every consumer takes every tile; so whatever order
they run in, they do the same. Loops in which roles meet become one loop, if they run equally often and leave the pipes
empty after each round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tegula.errors import NoGradient
from tegula.ir import Kernel, LaunchClass, Op, Region, Value
from tegula.ops.array import array_type
from tegula.ops.base import TileOp
from tegula.ops.buffer import BufNew
from tegula.ops.control import For, If, Yield
from tegula.ops.gradient import GradientBuilder
from tegula.ops.lane import BlockCount, BlockIndex, LaneIndex, Tid, TileFromLanes, TileToLanes
from tegula.ops.roles import PipeLoad, PipeNew, PipePop, PipePush, PipeRelease, Roles, pipe_type
from tegula.ops.scalar import Add, Const, FloorDiv, Mod, Mul, Sub
from tegula.ops.schedule import ScheduleOp
from tegula.ops.tile import TileLoad
from tegula.passes.gradient.steps import known_to_host
from tegula.passes.pipeline import settle
from tegula.passes.simplify import simplify
from tegula.rewrite import clone_op, erase_dead, replace
from tegula.types import DType, int32
from tegula.verify import verify

PIPES = (PipeLoad, PipePush, PipePop)
OF_LANES = (LaneIndex, TileFromLanes, TileToLanes)
NOTHING: Mapping[Value, Value] = {}
HELP = "write the kernel without roles for launches that need gradients"


def sequentialise(kernel: Kernel) -> tuple[Value, Value] | None:
    """Rewrite a kernel with roles in place; others stay as they are. The grid of a kernel whose blocks take tiles in
    turn: its rows and columns, one block for each tile. NoGradient where roles cannot be put together."""
    if not any(isinstance(op, Roles) for op in kernel.body.ops):
        return None
    settle(kernel)
    roles = next(op for op in kernel.body.ops if isinstance(op, Roles))
    b = GradientBuilder(Region(), roles.loc)
    _Merged(b, {}).together([r.ops[:-1] for r in roles.regions])
    at = kernel.body.ops.index(roles)
    for op in b.region.ops:
        op.parent = kernel.body
    kernel.body.ops[at : at + 1] = b.region.ops
    kernel.body.ops = [op for op in kernel.body.ops if not isinstance(op, PipeNew)]
    verify(kernel)
    grid = _spread(kernel)
    for op in kernel.walk():
        if isinstance(op, BlockIndex):
            why = "its blocks take tiles in turn, and keep something from one tile to the next"
            raise NoGradient(op.loc, op="persistent_tiles", why=why, help=HELP)
    simplify(kernel)
    return grid


class _Merged:
    """Puts roles together in a region. `mapping`: the values of all roles, whose own are all different."""

    def __init__(self, b: GradientBuilder, mapping: dict[Value, Value]) -> None:
        self.b = b
        self.mapping = mapping
        self.queues: dict[tuple[Value, int], list[Value]] = {}
        """What is in each pipe for each role."""

    def together(self, roles: Sequence[Sequence[Op]]) -> None:
        """Run the ops of all roles."""
        self.roles = [list(ops) for ops in roles]
        while any(self.roles):
            if not any([self._run(k) for k in range(len(roles))]):
                self._meet()

    def _run(self, role: int) -> bool:
        """Run a role until it has to wait; whether it did anything."""
        ops, before = self.roles[role], len(self.roles[role])
        while ops and not (ops[0].regions and _pipes(ops[0])):
            op = ops[0]
            self.b.loc = op.loc
            if isinstance(op, PipePop):
                waiting = self.queues.get((op.operands[0], role), [])
                if not waiting:
                    break
                tile = waiting.pop(0)
                self.mapping[op.result] = self.b.one(BufNew, [tile], {"storage": "shared"})
            elif isinstance(op, PipeLoad | PipePush):
                self._fill(op, role)
            elif not isinstance(op, PipeRelease):
                _check(op)
                self.b.region.append(clone_op(op, self.mapping))
            ops.pop(0)
        return len(ops) < before

    def _fill(self, op: Op, role: int) -> None:
        pipe = op.operands[0]
        values = [self.mapping.get(v, v) for v in op.operands[1:]]
        if isinstance(op, PipeLoad):
            zero = self.b.const(0.0, array_type(op.operands[1].type).dtype)
            attrs = {**op.attrs, "shape": pipe_type(pipe.type).shape}
            tile = self.b.one(TileLoad, [values[0], zero, *values[1:]], attrs)
        else:
            (tile,) = values
        for k in range(len(self.roles)):
            if k != role:
                self.queues.setdefault((pipe, k), []).append(tile)

    def _meet(self) -> None:
        """Put loops or branches together at which roles wait for each other."""
        waiting = {k: ops[0] for k, ops in enumerate(self.roles) if ops and ops[0].regions}
        first = next(iter(waiting), None)
        if first is None:
            op = next(ops[0] for ops in self.roles if ops)
            raise NoGradient(op.loc, op="a role", why="roles wait for each other here", help=HELP)
        group = {first}
        while True:
            pipes = {p for k in group for p in _pipes(waiting[k])}
            more = {k for k, op in waiting.items() if pipes & set(_pipes(op))}
            if more <= group:
                break
            group |= more
        members = sorted(group)
        ops = [waiting[k] for k in members]
        for op in ops[1:]:
            if not self._alike(ops[0], op):
                why = "roles that meet in this loop run it for different ranges or in different branches"
                raise NoGradient(op.loc, op="a role", why=why, help=HELP)
        pipes = {p for op in ops for p in _pipes(op)}
        if any(self.queues.get((p, k)) for p in pipes for k in members):
            raise NoGradient(ops[0].loc, op="a role", why="tiles are left in a pipe from before", help=HELP)
        self._one(members, ops)

    def _alike(self, a: Op, b: Op) -> bool:
        """Whether two loops run for ranges that are one, but for a shift, or two branches under the same condition."""
        if type(a) is not type(b):
            return False
        if isinstance(a, For):
            shift = self._shift(a.operands[0], b.operands[0])
            same_step = same_value(a.operands[2], b.operands[2], self.mapping)
            return same_step and shift is not None and shift == self._shift(a.operands[1], b.operands[1])
        return isinstance(a, If) and same_value(a.operands[0], b.operands[0], self.mapping)

    def _shift(self, a: Value, b: Value) -> int | None:
        """By how much b is greater than a, where that is known."""
        (x, first), (y, second) = _apart(a), _apart(b)
        same = x is y if x is None or y is None else same_value(x, y, self.mapping)
        return second - first if same else None

    def _one(self, members: Sequence[int], ops: Sequence[Op]) -> None:
        """One op in the place of one for each of these roles."""
        b, outer = self.b, self.b.region
        kind = For if isinstance(ops[0], For) else If
        count = 3 if kind is For else 1
        regions: list[Region] = []
        for which in range(len(ops[0].regions)):
            inner = [op.regions[which] for op in ops]
            region, shifted = Region(), dict[Value, Op]()
            for r, op in zip(inner, ops, strict=True):
                shared = 0 if r is inner[0] or not isinstance(ops[0], For) else 1
                for k, a in enumerate(r.args):
                    if k < shared:
                        shifted[a] = op
                        continue
                    made = Value(a.type, region, a.name)
                    region.args.append(made)
                    self.mapping[a] = made
            b.region = region
            for index, op in shifted.items():
                by = self._shift(ops[0].operands[0], op.operands[0])
                assert by is not None
                index_type = region.args[0].type
                assert isinstance(index_type, DType)
                moved = b.one(Add, [region.args[0], b.const(by, index_type)]) if by else region.args[0]
                self.mapping[index] = moved
            nested = _Merged(b, self.mapping)
            bodies: list[Sequence[Op]] = [[] for _ in self.roles]
            for k, r in zip(members, inner, strict=True):
                bodies[k] = r.ops[:-1]
            nested.together(bodies)
            if any(nested.queues[p, k] for p, k in nested.queues if self._takes(ops, members, p, k)):
                raise NoGradient(ops[0].loc, op="a role", why="a round leaves tiles in a pipe", help=HELP)
            b.emit(Yield, [self.mapping.get(v, v) for r in inner for v in r.terminator.operands])
            regions.append(region)
        b.region, b.loc = outer, ops[0].loc
        bounds = [self.mapping.get(v, v) for v in ops[0].operands[:count]]
        carried = [self.mapping.get(v, v) for op in ops for v in op.operands[count:]]
        made = b.emit(kind, [*bounds, *carried], None, regions)
        results = [v for op in ops for v in op.results]
        self.mapping.update(zip(results, made, strict=True))
        for k in members:
            self.roles[k].pop(0)

    def _takes(self, ops: Sequence[Op], members: Sequence[int], pipe: Value, role: int) -> bool:
        """Whether a role takes tiles from a pipe in one of these ops."""
        if role not in members:
            return False
        op = ops[members.index(role)]
        return any(isinstance(o, PipePop) and o.operands[0] is pipe for o in op.walk())


def same_value(a: Value, b: Value, mapping: Mapping[Value, Value] = NOTHING) -> bool:
    """Whether two values, or what they are mapped to, are computed in the same way from the same ones."""
    a, b = mapping.get(a, a), mapping.get(b, b)
    if a is b:
        return True
    x, y = a.owner, b.owner
    if not isinstance(x, TileOp) or not isinstance(y, Op) or type(x) is not type(y):
        return False
    return (
        x.PURE
        and not x.regions
        and x.attrs == y.attrs
        and x.results.index(a) == y.results.index(b)
        and all(same_value(p, q, mapping) for p, q in zip(x.operands, y.operands, strict=True))
    )


def _apart(value: Value) -> tuple[Value | None, int]:
    """A value as what is computed, and a number that is added to it; None where it is that number."""
    op = value.owner
    if isinstance(op, Const) and isinstance(op.attrs["value"], int):
        return None, op.attrs["value"]
    if isinstance(op, Add | Sub):
        (a, more), (b, most) = map(_apart, op.operands)
        if b is None:
            return a, more + most if isinstance(op, Add) else more - most
        if a is None and isinstance(op, Add):
            return b, more + most
    return value, 0


def _pipes(op: Op) -> list[Value]:
    """The pipes that an op and those in it fill or pop."""
    return [o.operands[0] for o in op.walk() if isinstance(o, PIPES)]


def _check(op: Op) -> None:
    """NoGradient for ops that mean the lanes of a role, or order roles by other means than pipes."""
    for o in op.walk():
        assert isinstance(o, TileOp)
        if isinstance(o, OF_LANES) or "lanes" in o.attrs:
            why = "it means the threads of a role, and there are none when the roles run in turn"
            raise NoGradient(o.loc, op=o.NAME.replace(".", "_"), why=why, help=HELP)
        if isinstance(o, ScheduleOp):
            why = "barriers and asynchronous copies have no derivative"
            raise NoGradient(o.loc, op=o.NAME.replace(".", "_"), why=why, help=HELP)


# Blocks that take tiles in turn --------------------------------------------------------------------------------------


def _spread(kernel: Kernel) -> tuple[Value, Value] | None:
    """Give each tile of a grid a block of its own, where the kernel is a loop over tiles that blocks take in turn. The
    grid's rows and columns."""
    loops = [op for op in kernel.body.ops if isinstance(op, For)]
    if len(loops) != 1 or loops[0].results or any(_acts(op) for op in kernel.body.ops if op is not loops[0]):
        return None
    (loop,) = loops
    start, stop, step = (v.owner for v in loop.operands[:3])
    if not isinstance(start, BlockIndex) or not isinstance(stop, Mul) or not isinstance(step, BlockCount):
        return None
    rows, columns = stop.operands
    (body,) = loop.regions
    (index,) = body.args
    places: dict[Value, Value] = {}
    launch = kernel.launch
    tid = Tid([], [int32] * 3, {"count": 3}, [], loop.loc)
    for op in body.walk():
        if index in op.operands:
            if (
                not isinstance(op, FloorDiv | Mod)
                or op.operands[0] is not index
                or not same_value(op.operands[1], columns)
            ):
                return None
            places[op.result] = tid.results[0 if isinstance(op, FloorDiv) else 1]
    uses_tid = any(isinstance(op, Tid | BlockIndex | BlockCount) for op in body.walk())
    if uses_tid or not known_to_host(rows) or not known_to_host(columns):
        return None
    at = kernel.body.ops.index(loop)
    inner = [op for op in body.ops[:-1] if not any(r in places for r in op.results)]
    for op in (tid, *inner):
        op.parent = kernel.body
    kernel.body.ops[at : at + 1] = [tid, *inner]
    replace(kernel.body, places)
    kernel.launch = LaunchClass(3, launch.block_dim, (True, True, False), True, False)
    erase_dead(kernel)
    verify(kernel)
    return rows, columns


def _acts(op: Op) -> bool:
    """Whether an op does something besides computing its results."""
    return any(e.kind != "read" for o in op.walk() for e in o.effects())
