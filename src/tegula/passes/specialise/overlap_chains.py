"""Software-pipelines chains of two matmuls in a loop: the second matmul of an iteration is overlapped with the ops that
the next iteration runs between its two matmuls.

    for n: s = x @ k[n]; p, acc = f(s, acc); acc = p @ v[n] + acc

becomes, if the loop has an iteration,

    s = x @ k[0]; p, acc = f(s, acc)
    for n from 1: start s = x @ k[n] and acc = p @ v[n - 1] + acc; wait for s; p = f(s); wait for acc; acc = f(s, acc)
    acc = p @ v[last] + acc

so that the tensor cores work while f computes. The tile v is carried to the next iteration, like the operands of
kernels that load one tile ahead."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tegula.dataclass import dataclass
from tegula.ir import Builder, ConstantLike, Op, Region, Value
from tegula.ir.rewrite import clone_op, uses, walk_regions
from tegula.ops.control import For, Yield
from tegula.ops.linear import TileMatmul, TileMatmulWait
from tegula.ops.scalar import Add, Const, Min
from tegula.ops.tile import TileLoad, TileMap, TilePermute, TileSlice
from tegula.passes.specialise.find_matmuls import OperandDef, converts, transposes

PeeledLoads = list[tuple[OperandDef, OperandDef]]
"""For each pipe, the load or conversion of the first iteration and the one of the other iterations; both fill the
pipe."""


def overlap_chains(region: Region) -> PeeledLoads:
    """Rewrite the loops of a region in place. Returns the loads and conversions that were duplicated."""
    peeled_loads: PeeledLoads = []
    for inside in list(walk_regions(region)):
        for op in list(inside.ops):
            chain = _chain(op) if isinstance(op, For) else None
            if chain is not None:
                peeled_loads += _Overlap(chain, inside).run()
    return peeled_loads


@dataclass(frozen=True, slots=True)
class _Chain:
    """A loop with two matmuls. Of the second matmul, `weights`: the op that defines the left operand; `load`: the load
    of the right operand; `transpose`: the op that transposes the loaded tile, or None; `slot`: the position of the
    accumulator among the loop's carried values; `accumulator_ops`: the ops between the carried value and the
    accumulator operand."""

    loop: For
    first: TileMatmul
    second: TileMatmul
    weights: Op
    load: TileLoad
    transpose: TilePermute | TileSlice | None
    slot: int
    accumulator_ops: tuple[Op, ...]

    @property
    def sum(self) -> Value:
        """The sum in the loop's body."""
        return self.loop.arguments[self.slot]

    @property
    def start_indices(self) -> list[Value]:
        """The start indices of the transposing op, if it is a slice."""
        return self.transpose.starts if isinstance(self.transpose, TileSlice) else []


def _chain(loop: For) -> _Chain | None:
    body = loop.body
    matmuls = [op for op in body.walk() if isinstance(op, TileMatmul)]
    step = loop.step.owner
    counts_up = isinstance(step, ConstantLike) and step.value > 0
    if len(matmuls) != 2 or any(p.parent is not body for p in matmuls) or not counts_up:
        return None
    first, second = matmuls
    users = uses(body)
    right = second.b.owner
    transpose = right if transposes(right) else None
    load = transpose.tile.owner if transpose is not None else right
    weights = second.a.owner
    yields = [k for k, v in enumerate(body.yielded) if v is second.result]
    if (
        not isinstance(load, TileLoad)
        or load.parent is not body
        or not isinstance(weights, Op)
        or weights.parent is not body
        or len(yields) != 1
        or len(users[second.result]) != 1
        or any(len(users[v]) > 1 for v in (load.result, *(transpose.results if transpose else ())))
        or any(isinstance(op, TileMatmulWait) for op in body.ops)
    ):
        return None
    argument = loop.arguments[yields[0]]
    accumulator_ops = _forward_slice(body, argument)
    needed = _backward_slice(body, [second.a])
    others = {u for u, _ in _users(users, [argument, *_results(accumulator_ops)])} - {
        *accumulator_ops,
        second,
    }
    if first not in needed or needed.intersection(accumulator_ops) or others or not _pure(accumulator_ops):
        return None
    return _Chain(loop, first, second, weights, load, transpose, yields[0], tuple(accumulator_ops))


def _users(users: dict[Value, list[tuple[Op, int]]], values: Iterable[Value]) -> list[tuple[Op, int]]:
    return [u for v in values for u in users.get(v, [])]


def _results(ops: Iterable[Op]) -> list[Value]:
    return [r for op in ops for r in op.results]


def _pure(ops: Iterable[Op]) -> bool:
    return all(op.PURE and not isinstance(op, TileMatmul) for op in ops)


def _forward_slice(body: Region, value: Value) -> list[Op]:
    """The ops of the body, without matmuls, that depend on a value."""
    dependent, ops = {value}, list[Op]()
    for op in body.ops[:-1]:
        inside = {v for inner in op.walk() for v in inner.operands}
        if dependent & inside and not isinstance(op, TileMatmul):
            ops.append(op)
            dependent.update(op.results)
    return ops


def _backward_slice(body: Region, values: Iterable[Value]) -> set[Op]:
    """The ops of the body on which values depend."""
    ops: set[Op] = set()
    queue = list(values)
    while queue:
        op = queue.pop().owner
        if isinstance(op, Op) and op.parent is body and op not in ops:
            ops.add(op)
            queue += [v for inner in op.walk() for v in inner.operands]
    return ops


class _Overlap:
    """Rewrites one loop."""

    def __init__(self, chain: _Chain, region: Region) -> None:
        self.chain, self.region = chain, region
        self.loop = chain.loop
        self.body = chain.loop.body
        self.before: dict[Value, OperandDef] = {}
        self.peeled_loads: PeeledLoads = []

    def run(self) -> PeeledLoads:
        """Replace the loop by the rewritten iterations inside a new loop, which has one iteration if the old loop had
        any. A branch is not possible, because its two alternatives would have to pop the same number of tiles."""
        loop, before = self.loop, Region()
        build = Builder(before, loop.loc)
        start, stop, step, *initial = loop.operands
        one = build.insert(Const([], [start.type], {"type": start.type, "value": 1})).result
        end = build.insert(Min([stop, build.insert(Add([start, one], [start.type])).result], [start.type]))
        body = Region([start.type, *(v.type for v in initial)])
        self._iterations(body)
        guard = For([start, end.result, step, *initial], [], None, [body], loop.loc)
        guard.results, loop.results = loop.results, []
        for v in guard.results:
            v.owner = guard
        build.insert(guard)
        at = self.region.ops.index(loop)
        self.region.ops[at : at + 1] = before.ops
        for op in before.ops:
            op.parent = self.region
        return self.peeled_loads

    def _iterations(self, region: Region) -> None:
        """Build the first iteration, the loop over the others, and the last second matmul."""
        loop, c = self.loop, self.chain
        start, stop, step, *initial = loop.operands
        build = Builder(region, loop.loc)
        mapping: dict[Value, Value] = dict(zip(self.body.args, region.args, strict=True))
        for old, new in mapping.items():
            new.name = old.name
        self._copy(region, self.body.ops[:-1], mapping, {c.second, c.transpose})
        self.before = {v: _producer(mapping[v]) for v in self._loads()}
        second = build.insert(Add([start, step], [start.type])).result
        carried = [self._next(mapping, k) for k in range(len(initial))]
        values = [mapping.get(v, v) for v in (c.second.a, c.load.result)]
        iterations = self._other_iterations((second, stop, step), [*carried, *values])
        build.insert(iterations)
        *results, weights, tile = iterations.results
        results[c.slot] = self._matmul(build, weights, tile, results[c.slot], dict(mapping)).result
        build.insert(Yield(results))

    def _other_iterations(self, bounds: Sequence[Value], initial: Sequence[Value]) -> For:
        """Build the loop whose iterations start their own first matmul and the previous iteration's second matmul."""
        c = self.chain
        body = Region([self.loop.index.type, *(v.type for v in initial)])
        build = Builder(body, self.loop.loc)
        for old, new in zip(self.body.args, body.args, strict=False):
            new.name = old.name
        mapping: dict[Value, Value] = dict(zip(self.body.args, body.args, strict=False))
        *_, weights, tile = body.args
        factors = [c.second.alpha, c.second.beta, *c.start_indices]
        first_ops = _backward_slice(self.body, [c.first.result, *factors])
        ops = self.body.ops[:-1]
        self._copy(body, [op for op in ops if op in first_ops], mapping, set())
        first = mapping[c.first.result].owner
        second = self._matmul(build, weights, tile, mapping[c.sum], mapping)
        assert isinstance(first, TileMatmul)
        first.wait = second.wait = False
        results = [first.result, second.result]
        waited = build.insert(
            TileMatmulWait(results, [v.type for v in results], {"pending": 1}, [], c.first.loc)
        )
        mapping[c.first.result], sum = waited.results
        weight_ops = {c.weights} if isinstance(c.weights, TileMap) and self._only_weights() else set[Op]()
        rest = [
            op for op in ops if op not in first_ops and op not in weight_ops and op not in c.accumulator_ops
        ]
        self._copy(body, rest, mapping, {c.second, c.transpose})
        attrs = {"pending": 0, "overlapped": True}
        completed = build.insert(TileMatmulWait([sum], [sum.type], attrs, [], c.second.loc))
        mapping[c.sum] = completed.result
        self._copy(body, [op for op in ops if op in weight_ops or op in c.accumulator_ops], mapping, set())
        ends = [self._next(mapping, k) for k in range(len(self.loop.results))]
        ends += [mapping.get(v, v) for v in (c.second.a, c.load.result)]
        self.peeled_loads = [(self.before[v], _producer(mapping[v])) for v in self._loads()]
        build.insert(Yield(ends))
        return For([*bounds, *initial], [v.type for v in initial], None, [body], self.loop.loc)

    def _next(self, mapping: dict[Value, Value], k: int) -> Value:
        """The new value that an iteration yields at position k; for the sum, the accumulator operand of the second
        matmul."""
        c = self.chain
        v = c.second.c if k == c.slot else self.body.yielded[k]
        return mapping.get(v, v)

    def _only_weights(self) -> bool:
        return [op for op, _ in uses(self.body)[self.chain.second.a]] == [self.chain.second]

    def _matmul(
        self, build: Builder, weights: Value, tile: Value, sum: Value, mapping: dict[Value, Value]
    ) -> TileMatmul:
        """Build the second matmul from carried weights and a carried tile."""
        c = self.chain
        if c.transpose is not None:
            start_indices = {v: mapping.get(v, v) for v in c.start_indices}
            tile = build.insert(clone_op(c.transpose, {**start_indices, c.load.result: tile})).result
        factors = [mapping.get(v, v) for v in (c.second.alpha, c.second.beta)]
        operands = [weights, tile, sum, *factors]
        return build.insert(TileMatmul(operands, [sum.type], c.second.attrs, [], c.second.loc))

    def _copy(
        self, out: Region, ops: Iterable[Op], mapping: dict[Value, Value], without: set[Op | None]
    ) -> None:
        for op in ops:
            if op not in without:
                out.append(clone_op(op, mapping))

    def _loads(self) -> list[Value]:
        return [op.result for op in self.body.ops if isinstance(op, TileLoad) or converts(op)]


def _producer(value: Value) -> OperandDef:
    assert isinstance(value.owner, OperandDef)
    return value.owner
