"""Rewrites kernels with roles as sequential kernels: the ops of roles are interleaved, and a pop returns the tile that
was pushed into the pipe.

Roles synchronise through pipes only, each pipe has one producer, and every consumer pops every tile, so that the result
does not depend on the interleaving of roles. Loops in which roles synchronise are fused into one loop, if their trip
counts are equal and the pipes are empty after each iteration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tegula.dataclass import dataclass
from tegula.errors import NoGradient
from tegula.ir import ConstantLike, Kernel, LaunchClass, Op, Region, Value
from tegula.ir.rewrite import clone_op, erase_dead, replace
from tegula.ops.array import array_type
from tegula.ops.buffer import BufNew
from tegula.ops.control import For, If, Yield
from tegula.ops.gradient import GradientBuilder
from tegula.ops.lane import BlockCount, BlockIndex, LaneIndex, Tid, TileFromLanes, TileToLanes
from tegula.ops.roles import PipeLoad, PipeNew, PipePop, PipePush, PipeRelease, Roles, pipe_type
from tegula.ops.scalar import Add, FloorDiv, Mod, Mul, Sub
from tegula.ops.schedule import ScheduleOp
from tegula.ops.tile import TileLoad, TileReshape
from tegula.passes.gradient.steps import known_to_host
from tegula.passes.pipeline import FIX_ROUNDING
from tegula.passes.runner import Analysis, Compilation, Pass, run
from tegula.passes.simplify import simplify
from tegula.types import DType, int32

PIPE_ACCESSES = (PipeLoad, PipePush, PipePop)
LANE_OPS = (LaneIndex, TileFromLanes, TileToLanes)
NO_MAPPING: Mapping[Value, Value] = {}
HELP = "write the kernel without roles for launches that need gradients"


def sequentialise(kernel: Kernel) -> tuple[Value, Value] | None:
    """Rewrite a kernel with roles in place; other kernels are unchanged. Returns the rows and columns of the new grid,
    one block for each tile, if the kernel was persistent; else None. NoGradient if the roles cannot be merged."""
    if not any(isinstance(op, Roles) for op in kernel.body.ops):
        return None
    return run(SEQUENTIALISE, kernel, Sequentialisation()).grid


@dataclass(slots=True)
class Sequentialisation(Compilation):
    """The result of the rewrite. `grid`: the rows and columns of tiles of a persistent kernel."""

    grid: tuple[Value, Value] | None = None


def merge_roles(kernel: Kernel, context: Sequentialisation) -> None:
    """Replace the roles, if there are any, and their pipes by the merged ops of all roles."""
    roles = next((op for op in kernel.body.ops if isinstance(op, Roles)), None)
    if roles is None:
        return
    b = GradientBuilder(Region(), roles.loc)
    _RoleMerger(b, {}).merge_all([r.ops[:-1] for r in roles.regions])
    position = kernel.body.ops.index(roles)
    for op in b.region.ops:
        op.parent = kernel.body
    kernel.body.ops[position : position + 1] = b.region.ops
    kernel.body.ops = [op for op in kernel.body.ops if not isinstance(op, PipeNew)]


def distribute_tiles(kernel: Kernel, context: Sequentialisation) -> None:
    """Assign each tile of a grid to its own block if the kernel is a persistent loop over tiles."""
    context.grid = _distribute(kernel)


def check_blocks(kernel: Kernel, context: Sequentialisation) -> None:
    """Raise NoGradient if the kernel is still persistent."""
    for op in kernel.walk():
        if isinstance(op, BlockIndex):
            reason = (
                "its blocks are persistent: each processes several tiles, and carries values between them"
            )
            raise NoGradient(op.loc, op="persistent_tiles", why=reason, help=HELP)


SEQUENTIALISE = (
    *FIX_ROUNDING,
    Pass(merge_roles),
    Pass(distribute_tiles),
    Analysis(check_blocks),
    Pass(simplify),
)


class _RoleMerger:
    """Merges roles in a region. `mapping`: from the values of all roles, which are distinct, to the merged values."""

    def __init__(self, b: GradientBuilder, mapping: dict[Value, Value]) -> None:
        self.b = b
        self.mapping = mapping
        self.queues: dict[tuple[Value, int], list[Value]] = {}
        """The tiles in each pipe that each role has not popped yet."""

    def merge_all(self, roles: Sequence[Sequence[Op]]) -> None:
        """Emit the ops of all roles."""
        self.roles = [list(ops) for ops in roles]
        while any(self.roles):
            if not any([self._run(k) for k in range(len(roles))]):
                self._join()

    def _run(self, role: int) -> bool:
        """Emit a role's ops until the role blocks. Returns whether any op was emitted."""
        ops, before = self.roles[role], len(self.roles[role])
        while ops and not (ops[0].regions and _pipes(ops[0])):
            op = ops[0]
            self.b.loc = op.loc
            if isinstance(op, PipePop):
                waiting = self.queues.get((op.pipe, role), [])
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

    def _fill(self, op: PipeLoad | PipePush, role: int) -> None:
        pipe = op.pipe
        if isinstance(op, PipeLoad):
            zero = self.b.const(0.0, array_type(op.array.type).dtype)
            array, *offset = self._merged_values((op.array, *op.offset))
            attrs, shape = dict(op.attrs, shape=op.tile.shape), pipe_type(pipe.type).shape
            tile = self.b.one(TileLoad, [array, zero, *offset], attrs)
            if shape != op.tile.shape:
                tile = self.b.one(TileReshape, [tile], {"shape": shape})
        else:
            (tile,) = self._merged_values([op.tile])
        for k in range(len(self.roles)):
            if k != role:
                self.queues.setdefault((pipe, k), []).append(tile)

    def _join(self) -> None:
        """Fuse the loops or branches at which roles wait for each other."""
        waiting = {k: ops[0] for k, ops in enumerate(self.roles) if ops and ops[0].regions}
        first = next(iter(waiting), None)
        if first is None:
            op = next(ops[0] for ops in self.roles if ops)
            raise NoGradient(
                op.loc, op="a role", why="roles wait for each other at this operation", help=HELP
            )
        group = {first}
        while True:
            pipes = {p for k in group for p in _pipes(waiting[k])}
            connected = {k for k, op in waiting.items() if pipes & set(_pipes(op))}
            if connected <= group:
                break
            group |= connected
        members = sorted(group)
        ops = [waiting[k] for k in members]
        for op in ops:
            if not self._same_control(ops[0], op):
                reason = (
                    "roles that synchronise in this loop run it for different ranges or in different branches"
                )
                raise NoGradient(op.loc, op="a role", why=reason, help=HELP)
        pipes = {p for op in ops for p in _pipes(op)}
        if any(self.queues.get((p, k)) for p in pipes for k in members):
            raise NoGradient(
                ops[0].loc, op="a role", why="a pipe still holds tiles of an earlier loop", help=HELP
            )
        loops = [op for op in ops if isinstance(op, For)]
        branches = [op for op in ops if isinstance(op, If)]
        joined = self._loop(members, loops) if loops else self._branch(members, branches)
        self.mapping.update(zip([v for op in ops for v in op.results], joined, strict=True))
        for k in members:
            self.roles[k].pop(0)

    def _merged_values(self, values: Iterable[Value]) -> list[Value]:
        """The merged values for values of roles."""
        return [self.mapping.get(v, v) for v in values]

    def _same_control(self, a: Op, b: Op) -> bool:
        """Whether two loops have the same range up to a constant shift, or two branches the same condition."""
        if isinstance(a, For) and isinstance(b, For):
            shift = self._shift(a.start, b.start)
            same_step = same_value(a.step, b.step, self.mapping)
            return same_step and shift is not None and shift == self._shift(a.stop, b.stop)
        return isinstance(a, If) and isinstance(b, If) and same_value(a.condition, b.condition, self.mapping)

    def _shift(self, a: Value, b: Value) -> int | None:
        """The constant difference b - a; None if it is not known."""
        (x, first), (y, second) = _split_constant(a), _split_constant(b)
        same = x is y if x is None or y is None else same_value(x, y, self.mapping)
        return second - first if same else None

    def _loop(self, members: Sequence[int], loops: Sequence[For]) -> list[Value]:
        """Fuse one loop of each of these roles into one. Returns its results."""
        b, first, region = self.b, loops[0], Region()
        index = region.add_argument(first.index.type, first.index.name)
        assert isinstance(index.type, DType)
        self.mapping[first.index] = index
        for v in (v for loop in loops for v in loop.arguments):
            self.mapping[v] = region.add_argument(v.type, v.name)
        outer, b.region = b.region, region
        for loop in loops[1:]:
            shift = self._shift(first.start, loop.start)
            assert shift is not None
            self.mapping[loop.index] = b.one(Add, [index, b.const(shift, index.type)]) if shift else index
        self._nest(members, loops, [loop.body for loop in loops])
        b.region, b.loc = outer, first.loc
        initial = [v for loop in loops for v in loop.initial]
        return b.emit(For, self._merged_values([*first.bounds, *initial]), None, [region])

    def _branch(self, members: Sequence[int], branches: Sequence[If]) -> list[Value]:
        """Fuse one branch of each of these roles into one. Returns its results."""
        b, first, outer = self.b, branches[0], self.b.region
        regions: list[Region] = []
        for inner in zip(*(op.alternatives for op in branches), strict=True):
            b.region = Region()
            regions.append(b.region)
            self._nest(members, branches, inner)
        b.region, b.loc = outer, first.loc
        return b.emit(If, self._merged_values([first.condition]), None, regions)

    def _nest(self, members: Sequence[int], ops: Sequence[Op], inner: Sequence[Region]) -> None:
        """Merge the regions `inner` of these roles' loops or branches into the current region."""
        nested = _RoleMerger(self.b, self.mapping)
        bodies: list[Sequence[Op]] = [[] for _ in self.roles]
        for k, r in zip(members, inner, strict=True):
            bodies[k] = r.ops[:-1]
        nested.merge_all(bodies)
        if any(nested.queues[p, k] for p, k in nested.queues if self._pops(ops, members, p, k)):
            raise NoGradient(ops[0].loc, op="a role", why="an iteration leaves tiles in a pipe", help=HELP)
        self.b.emit(Yield, self._merged_values(v for r in inner for v in r.yielded))

    def _pops(self, ops: Sequence[Op], members: Sequence[int], pipe: Value, role: int) -> bool:
        """Whether a role pops from a pipe in its op of `ops`."""
        if role not in members:
            return False
        op = ops[members.index(role)]
        return any(isinstance(o, PipePop) and o.pipe is pipe for o in op.walk())


def same_value(a: Value, b: Value, mapping: Mapping[Value, Value] = NO_MAPPING) -> bool:
    """Whether two values, after mapping, are computed by the same pure ops from the same values."""
    a, b = mapping.get(a, a), mapping.get(b, b)
    if a is b:
        return True
    x, y = a.owner, b.owner
    if not isinstance(x, Op) or not isinstance(y, Op):
        return False
    return (
        x.is_like(y)
        and x.PURE
        and not x.regions
        and x.results.index(a) == y.results.index(b)
        and all(same_value(p, q, mapping) for p, q in zip(x.operands, y.operands, strict=True))
    )


def _split_constant(value: Value) -> tuple[Value | None, int]:
    """A value split into a computed part, None for a constant, and a constant addend."""
    op = value.owner
    if isinstance(op, ConstantLike) and isinstance(op.value, int):
        return None, op.value
    if isinstance(op, Add | Sub):
        (a, first), (b, second) = map(_split_constant, op.operands)
        if b is None:
            return a, first + second if isinstance(op, Add) else first - second
        if a is None and isinstance(op, Add):
            return b, first + second
    return value, 0


def _pipes(op: Op) -> list[Value]:
    """The pipes that an op, or an op nested in it, fills or pops."""
    return [o.pipe for o in op.walk() if isinstance(o, PIPE_ACCESSES)]


def _check(op: Op) -> None:
    """Raise NoGradient for ops that refer to the lanes of a role, or synchronise roles other than by pipes."""
    for o in op.walk():
        if isinstance(o, LANE_OPS) or o.signature.lanes or "lanes" in o.attrs:
            reason = "the operation depends on the threads of a role, and gradient kernels merge all roles"
            raise NoGradient(o.loc, op=o.NAME.replace(".", "_"), why=reason, help=HELP)
        if isinstance(o, ScheduleOp):
            reason = "barriers and asynchronous copies have no derivative"
            raise NoGradient(o.loc, op=o.NAME.replace(".", "_"), why=reason, help=HELP)


# Persistent blocks ---------------------------------------------------------------------------------------------------


def _distribute(kernel: Kernel) -> tuple[Value, Value] | None:
    """Assign each tile to its own block. Returns the grid's rows and columns; None if the kernel stays unchanged."""
    loops = [op for op in kernel.body.ops if isinstance(op, For)]
    if (
        len(loops) != 1
        or loops[0].results
        or any(_has_effects(op) for op in kernel.body.ops if op is not loops[0])
    ):
        return None
    (loop,) = loops
    start, stop, step = (v.owner for v in loop.bounds)
    if not isinstance(start, BlockIndex) or not isinstance(stop, Mul) or not isinstance(step, BlockCount):
        return None
    rows, columns = stop.operands
    body, index = loop.body, loop.index
    tile_indices: dict[Value, Value] = {}
    launch = kernel.launch
    tid = Tid([], [int32] * 3, {"count": 3}, [], loop.loc)
    for op in body.walk():
        if index in op.operands:
            if not isinstance(op, FloorDiv | Mod) or op.a is not index or not same_value(op.b, columns):
                return None
            tile_indices[op.result] = tid.results[0 if isinstance(op, FloorDiv) else 1]
    uses_tid = any(isinstance(op, Tid | BlockIndex | BlockCount) for op in body.walk())
    if uses_tid or not known_to_host(rows) or not known_to_host(columns):
        return None
    position = kernel.body.ops.index(loop)
    inner = [op for op in body.ops[:-1] if not any(r in tile_indices for r in op.results)]
    for op in (tid, *inner):
        op.parent = kernel.body
    kernel.body.ops[position : position + 1] = [tid, *inner]
    replace(kernel.body, tile_indices)
    kernel.launch = LaunchClass(3, launch.block_dim, (True, True, False), True, False)
    erase_dead(kernel)
    return rows, columns


def _has_effects(op: Op) -> bool:
    """Whether an op has effects besides its results."""
    return any(e.kind != "read" for o in op.walk() for e in o.effects())
