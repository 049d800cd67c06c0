"""Lowers pipes to rings of stages in shared memory, with two mbarriers for each stage: full and empty.

A role counts the items that it fills, pops and releases: item n is in stage n mod stages, in the phase of parity n /
stages mod 2. A producer waits until the stage is empty, a consumer until it is full. A load becomes a bulk copy, whose
bytes the full barrier counts, if a tensor map can describe the array; else a load to registers and a push, or
asynchronous copies by the threads if registers are too few or the target has no bulk copies.

If threads read a stage that bulk copies fill, a proxy fence precedes the release: an arrival orders accesses of the
generic proxy, but not accesses of the async proxy, whose writes could overtake the reads.

Pipes that are filled, popped and released together share a pair of barriers, which count the bytes of all these
pipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from tegula.dataclass import dataclass, field
from tegula.deferred import deferred_imports
from tegula.ir import BranchLike, Builder, Carrier, Kernel, LoopLike, Op, Region, Value
from tegula.ir.rewrite import replace, uses
from tegula.ops import scalar as S
from tegula.ops.buffer import BufNew, BufRead, BufReshape, BufView, BufWrite, buffer_type
from tegula.ops.group import AsyncCommit, AsyncCopy, AsyncWait, GroupMma
from tegula.ops.roles import PipeLoad, PipeNew, PipePop, PipePush, PipeRelease, Roles
from tegula.ops.schedule import (
    BulkLoad,
    FenceAsync,
    MbarrierArrive,
    MbarrierExpect,
    MbarrierNew,
    MbarrierReady,
    MbarrierWait,
)
from tegula.ops.tile import TileEmpty, TileLoad, TileReshape
from tegula.passes.groups import group_of, only_starts_copies, role_of
from tegula.passes.runner import GpuCompilation
from tegula.target import CudaTarget
from tegula.types import BufType, MbarrierType, PipeType, TileType, bool_, int32

with deferred_imports():
    from tegula.passes.bulk_access import boxes, bulk_loadable, has_whole_patterns, may_swizzle

PIPE_OPS = (PipeLoad, PipePush, PipePop, PipeRelease)
MAX_REGISTER_ELEMENTS, ADDRESS_REGISTERS = 64, 24
"""The maximum number of elements of a tile that a thread loads to registers, and the number of registers for
addresses."""
RELEASE_OPS = (MbarrierArrive, S.Const, S.Add, S.Xor, S.Cmp, S.Select)
"""The ops that a release is lowered to."""
Key = tuple[Value, str]
"""A pipe, and the event that a role counts: "fill", "pop" or "release"."""


@dataclass(slots=True)
class _Pipe:
    """A lowered pipe: the ring, and the barriers of its stages. `bulk`: whether bulk copies fill the pipe. `leader`:
    the first of the pipes that share barriers; `bytes`: for a leader, the bytes of one item of all pipes that share its
    barriers. `to_tf32`: whether items are rounded to tf32."""

    type: PipeType
    ring: Value
    full: Value
    empty: Value
    bulk: bool
    swizzled: bool
    to_tf32: bool
    leader: Value
    bytes: int


@dataclass(slots=True)
class _Count:
    """A role's position in a pipe: the stage of its next item and the parity to wait for."""

    stage: Value
    parity: Value


def lower_pipes(kernel: Kernel, context: GpuCompilation) -> None:
    """Rewrite the kernel in place."""
    target, threads = context.target, context.threads
    pipe_ops = [op for op in kernel.walk() if isinstance(op, PipeNew)]
    if not pipe_ops:
        _publish(kernel)
        return
    users: dict[Value, list[Op]] = {op.result: [] for op in pipe_ops}
    for op in kernel.walk():
        if isinstance(op, PIPE_OPS):
            users[op.pipe].append(op)
    pipes = {op.result: _lower_pipe(kernel, target, op, users[op.result], threads) for op in pipe_ops}
    first, last = _share_barriers(pipes, users)
    lowering = _Lowering(kernel, target, threads, pipes, first, last, _read_by_threads(kernel, pipes))
    for region in dict.fromkeys(
        _insertion_point(kernel, op) for pipe_users in users.values() for op in pipe_users
    ):
        lowering.role(region)
    replace(kernel.body, lowering.popped)


def _read_by_threads(kernel: Kernel, pipes: dict[Value, _Pipe]) -> set[tuple[Region, Value]]:
    """The roles whose threads read stages that bulk copies fill through the generic proxy, each with the pipe on whose
    barriers the role arrives. WGMMA reads through the async proxy, as the copies write."""
    users = uses(kernel.body)
    return {
        (_insertion_point(kernel, op), pipes[op.pipe].leader)
        for op in kernel.walk()
        if isinstance(op, PipePop) and pipes[op.pipe].bulk and _is_loaded(op.result, users)
    }


def _is_loaded(tile: Value, users: Mapping[Value, list[tuple[Op, int]]]) -> bool:
    """Whether threads load from a popped tile, or from a view of it."""
    for user, _ in users.get(tile, []):
        if isinstance(user, BufView | BufReshape):
            if _is_loaded(user.result, users):
                return True
        elif isinstance(user, GroupMma) and user.unit == "wgmma":
            continue
        elif not isinstance(user, BufRead) or user.result in users:
            return True
    return False


def _share_barriers(pipes: dict[Value, _Pipe], users: dict[Value, list[Op]]) -> tuple[set[Op], set[Op]]:
    """Share barriers between pipes where possible. Returns the first and the last op of each run of ops on pipes with
    the same barriers, which wait and arrive for the whole run."""
    groups: list[list[Value]] = []
    for pipe in pipes:
        group = next((g for g in groups if _is_in_lockstep(pipes, users, g, pipe)), None)
        if group is None:
            groups.append([pipe])
        else:
            group.append(pipe)
    first, last = set[Op](), set[Op]()
    for group in groups:
        leader = pipes[group[0]]
        for pipe in group:
            users_of_pipe = pipes[pipe]
            if users_of_pipe is not leader:
                leader.bytes += users_of_pipe.bytes
                _erase(users_of_pipe.full)
                _erase(users_of_pipe.empty)
                users_of_pipe.full, users_of_pipe.empty, users_of_pipe.leader = (
                    leader.full,
                    leader.empty,
                    leader.leader,
                )
        for k in range(len(users[group[0]])):
            positions = sorted((users[pipe][k] for pipe in group), key=_position)
            first.add(positions[0])
            last.add(positions[-1])
    return first, last


def _erase(barrier: Value) -> None:
    assert isinstance(barrier.owner, Op) and barrier.owner.parent is not None
    barrier.owner.parent.ops.remove(barrier.owner)


def _position(op: Op) -> int:
    assert op.parent is not None
    return op.parent.ops.index(op)


def _is_in_lockstep(
    pipes: dict[Value, _Pipe], users: dict[Value, list[Op]], group: list[Value], pipe: Value
) -> bool:
    """Whether each op on a pipe is adjacent to a corresponding op on every pipe of the group."""
    leader, other = pipes[group[0]], pipes[pipe]
    own_users, other_users = users[group[0]], users[pipe]
    if not (
        leader.bulk
        and other.bulk
        and leader.type.stages == other.type.stages
        and len(own_users) == len(other_users)
    ):
        return False
    if any((type(x), x.parent) != (type(y), y.parent) for x, y in zip(own_users, other_users, strict=True)):
        return False
    members = {op for p in (*group, pipe) for op in users[p]}
    return all(_are_adjacent(users[group[-1]][k], other_users[k], members) for k in range(len(own_users)))


def _are_adjacent(a: Op, b: Op, members: set[Op]) -> bool:
    """Whether all ops between two ops of a region are `members` or have no effects other than reads."""
    assert a.parent is not None
    low, high = sorted((_position(a), _position(b)))
    return all(op in members or _has_no_effects(op) for op in a.parent.ops[low + 1 : high])


def _has_no_effects(op: Op) -> bool:
    return not op.regions and all(e.kind == "read" for e in op.effects())


def _insertion_point(kernel: Kernel, op: Op) -> Region:
    return role_of(op) or kernel.body


def _reads_only_whole_tiles(
    kernel: Kernel, target: CudaTarget, pipe: PipeType, fills: Sequence[Op], pops: Sequence[Op]
) -> bool:
    """Whether bulk copies fill a pipe and threads only read whole tiles, for which stages are swizzled: a warp reads
    elements of several rows at a time, which would lie in the same banks of shared memory."""
    users = uses(kernel.body)
    reads = [user for op in pops for user, _ in users.get(op.results[0], ())]
    return (
        may_swizzle(pipe)
        and has_whole_patterns(pipe)
        and all(isinstance(op, BufRead) for op in reads)
        and all(isinstance(op, PipeLoad) and bulk_loadable(kernel, target, op, True) for op in fills)
    )


def _lower_pipe(kernel: Kernel, target: CudaTarget, new: PipeNew, users: Sequence[Op], threads: int) -> _Pipe:
    """Replace a pipe by its memory and its barriers."""
    t = new.result.type
    assert isinstance(t, PipeType) and new.parent is not None
    fills = [op for op in users if isinstance(op, PipeLoad | PipePush)]
    pops = [op for op in users if isinstance(op, PipePop)]
    swizzled = bool(new.swizzled) or _reads_only_whole_tiles(kernel, target, t, fills, pops)
    bulk = all(isinstance(op, PipeLoad) and bulk_loadable(kernel, target, op, swizzled) for op in fills)
    arrivals = {name: _warps(kernel, ops, threads) for name, ops in (("full", fills), ("empty", pops))}
    region, lowered = new.parent, Region()
    build = Builder(lowered, new.loc)
    ring_type = TileType(t.dtype, (t.stages, *t.shape))
    empty = build.insert(TileEmpty([], [ring_type], {"type": ring_type})).result
    attrs = {"storage": "shared", "stages": t.stages, "pipe": True, "swizzled": swizzled, "bulk": bulk}
    ring = build.insert(BufNew([empty], [BufType(t.dtype, ring_type.shape, "shared")], attrs)).result
    ring.name = new.result.name
    barriers: dict[str, Value] = {}
    for name, count in arrivals.items():
        count = 1 if bulk and name == "full" else count
        barrier = MbarrierNew([], [MbarrierType(t.stages)], {"stages": t.stages, "arrivals": count})
        barriers[name] = build.insert(barrier).result
        barriers[name].name = f"{new.result.name}.{name}"
    for op in lowered.ops:
        op.parent = region
    at = region.ops.index(new)
    region.ops[at : at + 1] = lowered.ops
    size = boxes(t, swizzled).bytes
    to_tf32 = bool(new.to_tf32)
    return _Pipe(t, ring, barriers["full"], barriers["empty"], bulk, swizzled, to_tf32, new.result, size)


def _warps(kernel: Kernel, ops: Sequence[Op], threads: int) -> int:
    """The number of warps of all roles that contain one of the ops."""
    regions = dict.fromkeys(_insertion_point(kernel, op) for op in ops)
    return max(1, sum(group_of(region, threads).warps for region in regions))


@dataclass(slots=True)
class _Lowering:
    kernel: Kernel
    target: CudaTarget
    threads: int
    pipes: dict[Value, _Pipe]
    first: set[Op]
    last: set[Op]
    read: set[tuple[Region, Value]]
    home: Region = field(init=False)
    popped: dict[Value, Value] = field(default_factory=dict[Value, Value])
    counts: dict[Key, _Count] = field(default_factory=dict[Key, _Count])
    waits: list[MbarrierWait] = field(default_factory=list[MbarrierWait])
    """Waits of the current role for stages that copies fill."""

    def role(self, region: Region) -> None:
        """Lower the pipe ops of a role. Every count starts at the first stage; a wait for parity 1 passes on a fresh
        barrier, so that the first fills do not wait."""
        self.home, start, self.waits = region, Region(), []
        build = Builder(start, self.kernel.loc)
        self.counts = {
            key: _Count(_number(build, 0), _number(build, int(key[1] == "fill")))
            for key in self._keys(region.ops, nested=not self._is_body(region))
        }
        _publish(self.kernel)
        self.region(region)
        if not only_starts_copies(region):
            # Only the warp that starts the copies waits for a stage. The next phase does not depend on the other warps,
            # so that it could complete before they test the parity, which would then alias the old phase.
            for wait in self.waits:
                wait.elected = True
        for op in start.ops:
            op.parent = region
        at = _after_barriers(region)
        region.ops[at:at] = start.ops

    def _is_body(self, region: Region) -> bool:
        return region is self.kernel.body

    # Regions ---------------------------------------------------------------------------------------------------------

    def region(self, region: Region) -> None:
        before, region.ops = region.ops, []
        for op in before:
            build = Builder(region, op.loc)
            rule = _RULES.get(type(op))
            if rule is not None:
                rule(self, build, op)
                continue
            if isinstance(op, Carrier):
                self.control(op)
            region.append(op)

    def control(self, op: Carrier) -> None:
        """Add the counts of the nested ops to the carried values of a loop or branch, and lower these ops."""
        keys = self._keys([op], nested=True)
        if not keys:
            return
        entry, before = self._count_values(keys), len(op.results)
        if isinstance(op, LoopLike):
            self._lower_nested(op.body, keys, [op.append(v) for v in entry])
        elif isinstance(op, BranchLike):
            for v in entry:
                op.append(v.type)
            for region in op.alternatives:
                self._lower_nested(region, keys, entry)
        self._bind(keys, op.results[before:])

    def _lower_nested(self, region: Region, keys: Sequence[Key], entry: Sequence[Value]) -> None:
        """Lower a region, which then yields its counts as well."""
        self._bind(keys, entry)
        self.region(region)
        region.yielded = [*region.yielded, *self._count_values(keys)]

    def _count_values(self, keys: Sequence[Key]) -> list[Value]:
        return [v for key in keys for v in (self.counts[key].stage, self.counts[key].parity)]

    def _keys(self, ops: Sequence[Op], nested: bool) -> list[Key]:
        """The counts that the ops advance, in program order. `nested`: also in role regions inside."""
        keys: dict[Key, None] = {}
        for top in ops:
            for op in top.walk() if nested or not isinstance(top, Roles) else ():
                if isinstance(op, PIPE_OPS):
                    keys[self.pipes[op.pipe].leader, _EVENTS[type(op)]] = None
        return list(keys)

    def _bind(self, keys: Sequence[Key], values: Sequence[Value]) -> None:
        for k, key in enumerate(keys):
            self.counts[key] = _Count(values[2 * k], values[2 * k + 1])

    # Ops -------------------------------------------------------------------------------------------------------------

    def load(self, build: Builder, op: PipeLoad) -> None:
        pipe, starts = op.pipe, [op.array, *op.offset]
        lowered, promises = self.pipes[pipe], op.promises
        if lowered.bulk:
            count = self.counts[lowered.leader, "fill"]
            if op in self.first:
                wait = MbarrierWait([lowered.empty, count.stage, count.parity], [], {})
                self.waits.append(build.insert(wait))
                size = self.pipes[lowered.leader].bytes
                build.insert(MbarrierExpect([lowered.full, count.stage], [], {"bytes": size}))
            view = self._view(build, pipe, count.stage)
            shape = {} if op.shape is None else {"shape": op.shape}
            attrs = {"to_tf32": lowered.to_tf32, **shape, **promises}
            build.insert(BulkLoad([view, lowered.full, count.stage, *starts], [], attrs))
            if op in self.last:
                self._advance(build, (lowered.leader, "fill"))
            return
        if self._copies_past_registers(lowered):
            stage, view = self._wait_until_empty(build, pipe)
            view = self._reshaped_view(build, view, op.tile)
            build.insert(AsyncCopy([view, *starts], [], {**promises, "ahead": False}))
            build.insert(AsyncCommit())
            build.insert(AsyncWait([lowered.ring], [], {"pending": 0}))
            self._arrive_full(build, pipe, stage)
            return
        t = lowered.type
        zero = build.insert(S.Const([], [t.dtype], {"type": t.dtype, "value": 0})).result
        operands, attrs = [op.array, zero, *op.offset], {"shape": op.tile.shape, **promises}
        tile = build.insert(TileLoad(operands, [op.tile], attrs)).result
        if t.shape != op.tile.shape:
            tile = build.insert(TileReshape([tile], [TileType(t.dtype, t.shape)], {"shape": t.shape})).result
        self._store_item(build, pipe, tile)

    def _copies_past_registers(self, pipe: _Pipe) -> bool:
        """Whether threads copy a tile to shared memory without registers: it is not rounded, and it is too large for
        registers or the target has no bulk copies."""
        roles, capacity = self.home.parent, MAX_REGISTER_ELEMENTS
        if isinstance(roles, Roles):
            budget = roles.registers[roles.roles.index(self.home)]
            capacity = min(capacity, budget - ADDRESS_REGISTERS) if budget else capacity
        is_too_large = prod(pipe.type.shape) > capacity * group_of(self.home, self.threads).threads
        return not pipe.to_tf32 and (is_too_large or not self.target.bulk_copies)

    def push(self, build: Builder, op: PipePush) -> None:
        self._store_item(build, op.pipe, op.tile)

    def _store_item(self, build: Builder, pipe: Value, tile: Value) -> None:
        stage, view = self._wait_until_empty(build, pipe)
        build.insert(BufWrite([view, tile], [], {"to_tf32": self.pipes[pipe].to_tf32}))
        self._arrive_full(build, pipe, stage)

    def _arrive_full(self, build: Builder, pipe: Value, stage: Value) -> None:
        """Arrive on the full barrier after threads have filled a stage."""
        if self.pipes[pipe].swizzled:
            build.insert(FenceAsync())
        build.insert(MbarrierArrive([self.pipes[pipe].full, stage], []))
        self._advance(build, (pipe, "fill"))

    def _wait_until_empty(self, build: Builder, pipe: Value) -> tuple[Value, Value]:
        """Wait until the next stage is empty. Returns its index and its view."""
        count = self.counts[pipe, "fill"]
        build.insert(MbarrierWait([self.pipes[pipe].empty, count.stage, count.parity], []))
        return count.stage, self._view(build, pipe, count.stage)

    def pop(self, build: Builder, op: PipePop) -> None:
        lowered = self.pipes[op.pipe]
        count = self.counts[lowered.leader, "pop"]
        if op in self.first:
            build.insert(MbarrierWait([lowered.full, count.stage, count.parity], []))
        view = self._view(build, op.pipe, count.stage)
        view.name = op.result.name
        self.popped[op.result] = view
        if op in self.last:
            self._advance(build, (lowered.leader, "pop"))

    def release(self, build: Builder, op: PipeRelease) -> None:
        lowered = self.pipes[op.pipe]
        key = (lowered.leader, "release")
        if op in self.last:
            if (self.home, lowered.leader) in self.read and not _is_fenced(build.region.ops):
                build.insert(FenceAsync())
            build.insert(MbarrierArrive([lowered.empty, self.counts[key].stage], []))
            self._advance(build, key)

    def _view(self, build: Builder, pipe: Value, stage: Value) -> Value:
        t = self.pipes[pipe].type
        starts = [_number(build, 0)] * len(t.shape)
        attrs = {"shape": t.shape, "dims": tuple(range(1, 1 + len(t.shape))), "steps": (1,) * len(t.shape)}
        view = BufView([self.pipes[pipe].ring, stage, *starts], [BufType(t.dtype, t.shape, "shared")], attrs)
        return build.insert(view).result

    def _reshaped_view(self, build: Builder, view: Value, tile: TileType) -> Value:
        """A view of a stage in the shape of the tile that is copied to it."""
        if buffer_type(view.type).shape == tile.shape:
            return view
        shaped_type = BufType(tile.dtype, tile.shape, "shared")
        return build.insert(BufReshape([view], [shaped_type], {"shape": tile.shape})).result

    def _advance(self, build: Builder, key: Key) -> None:
        """Advance a count to the next item: to its stage, and to the other parity after the last stage."""
        count, stages = self.counts[key], self.pipes[key[0]].type.stages
        one = _number(build, 1)
        flipped = build.insert(S.Xor([count.parity, one], [int32])).result
        if stages == 1:
            self.counts[key] = _Count(count.stage, flipped)
            return
        next_stage = build.insert(S.Add([count.stage, one], [int32])).result
        wraps = build.insert(S.Cmp([next_stage, _number(build, stages)], [bool_], {"pred": "eq"})).result
        stage = build.insert(S.Select([wraps, _number(build, 0), next_stage], [int32])).result
        parity = build.insert(S.Select([wraps, flipped, count.parity], [int32])).result
        self.counts[key] = _Count(stage, parity)


def _is_fenced(ops: Sequence[Op]) -> bool:
    """Whether only arrivals and counting follow the last proxy fence."""
    last_op = next((op for op in reversed(ops) if not isinstance(op, RELEASE_OPS)), None)
    return isinstance(last_op, FenceAsync)


def _publish(kernel: Kernel) -> None:
    """Insert the op that makes initialised barriers visible to all threads, before any is used."""
    body = kernel.body
    if any(isinstance(op, MbarrierReady) for op in body.ops) or not _after_barriers(body):
        return
    ready = MbarrierReady(loc=kernel.loc)
    ready.parent = body
    body.ops.insert(_after_barriers(body), ready)


def _after_barriers(region: Region) -> int:
    last = [k for k, op in enumerate(region.ops) if isinstance(op, MbarrierNew | MbarrierReady)]
    return last[-1] + 1 if last else 0


def _number(build: Builder, n: int) -> Value:
    return build.insert(S.Const([], [int32], {"type": int32, "value": n})).result


_EVENTS: dict[type[Op], str] = {PipeLoad: "fill", PipePush: "fill", PipePop: "pop", PipeRelease: "release"}
_RULES: dict[type[Op], Callable[..., None]] = {
    PipeLoad: _Lowering.load,
    PipePush: _Lowering.push,
    PipePop: _Lowering.pop,
    PipeRelease: _Lowering.release,
}
