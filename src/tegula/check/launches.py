"""The launches to unroll. Each input of a launch has values near the constants with which the kernel compares it or by
which the kernel divides it, and near numbers of stages. Each value is combined with small and large values of the other
inputs, and random launches are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, zip_longest
from random import Random
from zlib import crc32

from tegula.check.evaluate import cast_to
from tegula.check.slices import ScheduleSlice, sources
from tegula.dataclass import dataclass
from tegula.ir import ConstantLike, Kernel, Value
from tegula.ops import scalar as S
from tegula.ops.array import ArrayLoad, ArrayShape, ArrayView
from tegula.ops.base import Binary
from tegula.ops.lane import BlockCoordinate, BlockCount, BlockIndex, LogicalBlocks, Tid
from tegula.passes.overlap import array_root, overlap
from tegula.types import ArrayType, DType

MAX_LAUNCHES = 200
"""The maximum number of simulated launches of a kernel."""
MAX_INPUT = 1 << 12
"""The maximum absolute value of an input of a launch."""
DIVISIONS = (S.FloorDiv, S.Div, S.Mod, S.And, S.Shr)
INPUTS = (ArrayShape, ArrayLoad, BlockIndex, BlockCount, BlockCoordinate, LogicalBlocks, Tid)
"""Ops whose results are inputs of a launch."""
EQUAL, RISING, MIXED = "equal", "rising", "mixed"
"""The patterns of array elements: all equal; increasing with the index; pseudo-random, with factors 0, 1, 2."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An input of a launch: an "argument", a "length" or the "elements" of an array, by the parameter; the index of the
    "block", the last one of the grid; the number of tiles of a persistent grid ("blocks"); the index of the "thread"
    in dimension `dim`."""

    kind: str
    parameter: int = -1
    dim: int = -1

    def name(self, kernel: Kernel) -> str:
        """The leaf in the user's terms."""
        name = kernel.param_names[self.parameter] if self.parameter >= 0 else self.kind
        return {
            "length": f"{name}.shape[{self.dim}]",
            "elements": f"{name}[...]",
            "thread": f"tid[{self.dim}]",
        }.get(self.kind, name)


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch: the value of each leaf, and the pattern of array elements."""

    lengths: Mapping[Leaf, int]
    elements: str = EQUAL

    def of(self, leaf: Leaf, at: int | None = 0) -> int | None:
        """The value of a leaf; `at`: the index of the element. None where the index is unknown."""
        n = self.lengths.get(leaf, 0 if leaf.kind in ("block", "thread") else 1)
        if leaf.kind != "elements" or self.elements == EQUAL:
            return n
        if at is None:
            return None
        return n * (at if self.elements == RISING else crc32(str(at).encode()) % 3)

    def row(self, kernel: Kernel) -> tuple[tuple[str, int], ...]:
        """The values of the leaves by name."""
        return tuple(sorted((leaf.name(kernel), n) for leaf, n in self.lengths.items()))


class Leaves:
    """The leaves of a kernel: its values that are inputs of launches."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        effects = (e for op in kernel.walk() for e in op.effects())
        changed = (e.value for e in effects if e.value is not None and e.kind in ("write", "atomic"))
        self.written = [array_root(v) for v in changed if isinstance(v.type, ArrayType)]

    def of(self, value: Value) -> Leaf | None:
        """The leaf of an integer or bool; None where the value is computed, or changes while the kernel runs."""
        if not isinstance(value.type, DType) or value.type.is_float:
            return None
        if value in self.kernel.params:
            return Leaf("argument", self.kernel.params.index(value))
        op = value.owner
        if isinstance(op, ArrayShape) and op.array in self.kernel.params:
            return Leaf("length", self.kernel.params.index(op.array), op.dim)
        if isinstance(op, ArrayLoad):
            array = array_root(op.array)
            if not any(array is w or overlap(self.kernel, array, w) for w in self.written):
                return Leaf("elements", self.kernel.params.index(array))
        if isinstance(op, LogicalBlocks):
            return Leaf("blocks") if value is op.end else Leaf("block")
        if isinstance(op, BlockIndex | BlockCount):
            return Leaf("block")
        return (
            Leaf("thread", -1, op.results.index(value)) if isinstance(op, Tid) and op.block is None else None
        )

    def reader(self, value: Value) -> Callable[[Launch, Callable[[Value], int | None]], int | None]:
        """A function that evaluates a value in a launch, given the numbers that are known there. In a persistent grid,
        tiles follow each other along the first dimension."""
        op, leaf = value.owner, self.of(value)
        if isinstance(op, Tid | BlockCoordinate) and (block := op.block) is not None:
            first = op.dim == 0 if isinstance(op, BlockCoordinate) else value is op.results[0]
            return lambda launch, known: known(block) if first else 0
        if leaf is None:
            return lambda launch, known: None
        if isinstance(op, ArrayLoad):
            position, cast = _index_position(op), cast_to(value.type)

            def element(launch: Launch, known: Callable[[Value], int | None]) -> int | None:
                n = launch.of(leaf, known(position) if position is not None else None)
                return None if n is None else cast(n)

            return element
        if isinstance(op, BlockCount) or (isinstance(op, LogicalBlocks) and value is op.step):
            return lambda launch, known: (launch.of(leaf) or 0) + 1
        return lambda launch, known: launch.of(leaf)


def _index_position(load: ArrayLoad) -> Value | None:
    """The index of a load along the last dimension; None where a view shifts the index."""
    array = load.array
    while isinstance(array.owner, ArrayView):
        view = array.owner
        start = view.bounds[-2].owner if view.spec[-1] != "index" else None
        if not (isinstance(start, ConstantLike) and start.value == 0 and view.spec[-1] == ("slice", 1)):
            return None
        array = view.array
    return load.indices[-1]


def launches(
    leaves: Leaves, schedule_slice: ScheduleSlice, stages: Sequence[int], satisfies: Callable[[Launch], bool]
) -> Iterator[Launch]:
    """The distinct launches to simulate, all of which satisfy the guards."""
    tried = Candidates(leaves, schedule_slice, stages)
    pairs = zip_longest(tried.per_leaf_candidates(), tried.random_launches())
    candidates = (
        x for x in chain(tried.with_equal_trip_counts(), chain.from_iterable(pairs)) if x is not None
    )
    seen: set[tuple[tuple[int, ...], str]] = set()
    new = (
        x
        for x in candidates
        if (key := (tuple(x.lengths.values()), x.elements)) not in seen and not seen.add(key)
    )
    return islice((launch for launch in new if satisfies(launch)), MAX_LAUNCHES)


class Candidates:
    """The candidate values of each leaf, in order."""

    def __init__(self, leaves: Leaves, schedule_slice: ScheduleSlice, stages: Sequence[int]) -> None:
        self.counts = sorted({n for s in stages for n in (0, 1, 2, s - 1, s, s + 1, 2 * s + 1)})
        numbers_of_leaves: dict[Leaf, tuple[set[int], set[int], DType]] = {}
        values = (v for op in leaves.kernel.walk() for v in op.results)
        relevant = [v for v in (*leaves.kernel.params, *values) if v in schedule_slice.needed]
        for value in relevant:
            leaf = leaves.of(value)
            if leaf is not None:
                assert isinstance(value.type, DType)
                numbers_of_leaves.setdefault(leaf, (set(), set(), value.type))
        for closure, constants, divisors in _decisions(relevant):
            operand_leaves = set(map(leaves.of, closure))
            for own_constants, own_divisors, _ in (
                row for leaf, row in numbers_of_leaves.items() if leaf in operand_leaves
            ):
                own_constants.update(constants)
                own_divisors.update(divisors)
        self.scales = {
            leaf: max([1, *(d for d in divisors if d <= MAX_INPUT)])
            for leaf, (_, divisors, _) in numbers_of_leaves.items()
        }
        self.numbers = {
            leaf: [n for n in self._numbers(constants, {1, *stages, *divisors}) if _fits(n, leaf, t)]
            for leaf, (constants, divisors, t) in numbers_of_leaves.items()
        }
        self.patterns = self._patterns()

    def _patterns(self) -> list[str]:
        """The patterns of array elements to simulate."""
        return [EQUAL, RISING, MIXED] if any(leaf.kind == "elements" for leaf in self.numbers) else [EQUAL]

    def _numbers(self, constants: Iterable[int], scales: Iterable[int]) -> list[int]:
        """The candidate values of a leaf: trip counts and numbers near the kernel's constants first, then multiples."""
        max_count = self.counts[-1]
        candidates = [*self.counts, -1, *(c + d for c in sorted(constants) for d in (-1, 0, 1, max_count))]
        for d in sorted(scales):
            candidates += [n * d + rest for n in self.counts for rest in (0, 1)]
        for d in sorted(scales):
            candidates += [(c + n) * d for c in sorted(constants) for n in (0, 1, max_count)]
        candidates += [1 << k for k in range(3, 9)] + [-self.counts[-1]]
        return [n for n in dict.fromkeys(candidates) if abs(n) <= MAX_INPUT]

    def _values_for_trip_count(self, count: int) -> dict[Leaf, int]:
        """The values of leaves for which loops have about `count` iterations, with a remainder where `count` is at
        least 2."""
        return {
            leaf: 0 if leaf.kind in ("block", "thread") else count * d + (count > 1 < d)
            for leaf, d in self.scales.items()
        }

    def with_equal_trip_counts(self) -> Iterator[Launch]:
        """Launches in which all leaves have the values for one trip count."""
        for count in self.counts:
            for pattern in self.patterns:
                sized = self._values_for_trip_count(count)
                yield Launch({leaf: min(n, count) for leaf, n in sized.items()}, pattern)
                yield Launch(sized, pattern)

    def per_leaf_candidates(self) -> Iterator[Launch]:
        """Launches with each candidate of each leaf, combined with small, medium and large values of the others."""
        max_candidates = max(map(len, self.numbers.values()), default=0)
        for k in range(max_candidates):
            for leaf, numbers in self.numbers.items():
                for count in (1, self.counts[-1]) if k < len(numbers) else ():
                    for pattern in self.patterns:
                        yield Launch({**self._values_for_trip_count(count), leaf: numbers[k]}, pattern)

    def random_launches(self) -> Iterator[Launch]:
        """Launches with random values for all leaves."""
        random = Random(0)
        for _ in range(MAX_LAUNCHES if len(self.numbers) > 1 else 0):
            known = {leaf: random.choice(numbers) for leaf, numbers in self.numbers.items()}
            yield Launch(known, random.choice(self.patterns))


def _fits(n: int, leaf: Leaf, t: DType) -> bool:
    """Whether a leaf can have a value."""
    if t.is_bool:
        return n in (0, 1)
    low = 0 if t.kind == "u" or leaf.kind not in ("argument", "elements") else -(1 << (t.bits - 1))
    return low <= n < 1 << (t.bits - 1)


def _decisions(values: Iterable[Value]) -> Iterator[tuple[set[Value], set[int], set[int]]]:
    """For each result of a binary op: its transitive operands, the constants among these, and the divisors."""
    for value in values:
        if not isinstance(value.owner, Binary):
            continue
        closure, queue = set[Value](), [value]
        while queue:
            v = queue.pop()
            if v not in closure:
                closure.add(v)
                queue += sources(v)
        constants = {int(v.owner.value) for v in closure if isinstance(v.owner, ConstantLike)}
        yield closure, constants, {d for v in closure if (d := _divisor(v.owner)) > 1}


def _divisor(op: object) -> int:
    """The constant divisor of an op; 0 for other ops."""
    if not isinstance(op, DIVISIONS):
        return 0
    numbers = [int(v.owner.value) for v in op.operands if isinstance(v.owner, ConstantLike)]
    if not numbers:
        return 0
    return (
        1 << numbers[0] if isinstance(op, S.Shr) and numbers[0] < 12 else numbers[0] + isinstance(op, S.And)
    )
