"""Estimates, from the ops of a loop's body, of the increment per iteration of each carried value, arrival count and
wait count. The search starts from these estimates and refines them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import TypeVar

from tegula.check.proof.program import Program, stage_of
from tegula.check.proof.terms import ZERO, Sum, number
from tegula.ir import BranchLike, ComparisonLike, ConstantLike, LoopLike, Op, Region, Value
from tegula.ops import events as E
from tegula.ops.base import Binary, Unary
from tegula.ops.buffer import root
from tegula.ops.control import For, If, While, conditional
from tegula.ops.convert import Cast
from tegula.ops.scalar import Add, Select, Sub
from tegula.types import bool_

T = TypeVar("T")
Trip = Callable[[For], Sum | None]
Steady = Callable[[Value], Sum | None]
Count = tuple[str, int]
"""A count of a role: ("arrived" or "waited", barrier)."""
Rates = dict[Count, Sum]
"""The numbers of arrivals and waits of an iteration, by count."""


def cached(function: Callable[[Program, Region], T]) -> Callable[[Program, Region], T]:
    """Cache the result of a function of a program and a region."""

    @wraps(function)
    def stored(program: Program, body: Region) -> T:
        key = (function.__name__, body)
        if key not in program.cache_of_regions:
            program.cache_of_regions[key] = function(program, body)
        return program.cache_of_regions[key]

    return stored


def constant_trip(loop: For) -> Sum | None:
    """The number of iterations of a loop with constant bounds; None for other loops."""
    return None if loop.positions is None else number(len(loop.positions))


def items(program: Program, body: Region, trip: Trip) -> tuple[dict[Count, Sum], set[Count]]:
    """The number of unconditional arrivals and waits at each barrier in one execution of a body, and the counts that
    also change in branches or in loops of unknown trip count. A repeated wait for the same stage and phase is not
    counted. Branches with equal or opposite conditions are taken together."""
    known_counts: dict[Count, Sum] = {}
    varying_counts = set[Count]()
    sides: dict[tuple[Value, bool], Rates] = {}
    last: dict[Count, tuple[Value, ...]] = {}
    for op in body.ops:
        inner = [o for region in op.regions for o in region.walk() if counts_of(program, o)]
        times = trip(op) if isinstance(op, For) and program.counts(op) else None
        if not inner:
            for count in counts_of(program, op):
                at = (*E.stage_and_phase(op),)
                is_same_barrier = count[0] == "waited" and bool(at) and last.get(count) == at
                known_counts[count] = known_counts.get(count, ZERO) + (0 if is_same_barrier else 1)
                last = {**last, count: at} if count[0] == "waited" else {}
            continue
        last = {}
        if isinstance(op, For) and times is not None:
            counts_inside, varying_inside = items(program, op.body, trip)
            varying_counts |= varying_inside
            for count, n in counts_inside.items():
                known_counts[count] = known_counts.get(count, ZERO) + n * times
        elif isinstance(op, If):
            alternatives = [items(program, region, trip) for region in continuing(op)]
            condition, truth = without_negations(op.condition)
            for counts, side in ((alternatives[0], truth), (alternatives[-1], not truth)):
                varying_counts |= counts[1]
                total = sides.setdefault((condition, side), {})
                for count, n in counts[0].items():
                    total[count] = total.get(count, ZERO) + n
        elif isinstance(op, LoopLike):
            varying_counts.update(count for o in inner for count in counts_of(program, o))
    for condition in dict.fromkeys(condition for condition, _ in sides):
        if_true, if_false = sides[condition, True], sides[condition, False]
        for count in dict.fromkeys((*if_true, *if_false)):
            if (n := if_true.get(count)) is not None and n == if_false.get(count):
                known_counts[count] = known_counts.get(count, ZERO) + n
            else:
                varying_counts.add(count)
    return known_counts, varying_counts


def sides_of(op: Op) -> list[tuple[Value, bool, Region]]:
    """The sides of an `if`, each with a condition, which is no negation, and with the truth value that it has there."""
    if not isinstance(op, If):
        return []
    condition, truth = without_negations(op.condition)
    return [(condition, truth, op.then), (condition, not truth, op.orelse)]


def without_negations(condition: Value) -> tuple[Value, bool]:
    """The condition whose negation, of a negation, and so on a condition is, and whether they are equal."""
    truth = True
    while isinstance(condition.owner, Unary) and condition.owner.x.type == condition.type == bool_:
        condition, truth = condition.owner.x, not truth
    return condition, truth


@cached
def _counts_without_trips(program: Program, body: Region) -> tuple[dict[Count, Sum], set[Count]]:
    """The result of `items` when no loop's trip count is known."""
    return items(program, body, lambda _: None)


def counts_of(program: Program, op: Op) -> list[Count]:
    """The counts that an op increments, those of ops in its regions excluded."""
    out = program.counted.get(op)
    if out is None:
        out = program.counted[op] = []
        for e in program.events_of(op) if program.acts(op) else ():
            if isinstance(e, E.Wait | E.NamedWait):
                out.append(("waited", program.barrier[e.barrier]))
            if isinstance(e, E.Arrive | E.NamedArrival) and program.completes(op):
                out.append(("arrived", program.barrier[e.barrier]))
    return out


def constant(v: Value) -> Sum | None:
    """The number of a constant; None for other values."""
    return (
        number(v.owner.value)
        if isinstance(v.owner, ConstantLike) and isinstance(v.owner.value, int)
        else None
    )


def continuing(op: BranchLike) -> list[Region]:
    """The alternatives of a branch after which the enclosing loop goes on: all but those that set the flag of a `break`
    or `return`."""
    regions = [*op.alternatives]
    if not isinstance(op, If) or not op.leaves:
        return regions

    def sets_flag(region: Region) -> bool:
        return any(
            isinstance(v.owner, ConstantLike) and v.owner.value is True and result.type == bool_
            for v, result in zip(region.yielded, op.results, strict=True)
        )

    return [region for region in regions if not sets_flag(region)] or regions


def counting(loop: While, argument: Value) -> tuple[Value, Value, bool] | None:
    """The index and the end of a counted loop that a `break` may leave, and whether the index ascends, where `argument`
    is the carried bool that says whether another iteration follows; None for other values."""
    test = loop.body.yielded[loop.arguments.index(argument)].owner
    if not isinstance(test, ComparisonLike) or test.pred != "gt" or not isinstance(test.a.owner, Cast):
        return None
    distance = test.a.owner.x.owner
    if not isinstance(distance, Sub):
        return None
    for index, end, ascends in ((distance.b, distance.a, True), (distance.a, distance.b, False)):
        if index in loop.arguments and not is_loop_varying(end, loop.body):
            return index, end, ascends
    return None


def is_loop_varying(v: Value, body: Region) -> bool:
    """Whether a number depends on values that a loop with this body carries from one iteration to the next, the index
    included."""
    visited, queue = {v}, [v]
    while queue:
        owner = queue.pop().owner
        if owner is None or not is_in(owner if isinstance(owner, Region) else owner.parent, body):
            continue
        if isinstance(owner, Region):
            return True
        inputs = [*owner.operands, *(y for region in owner.regions for y in region.yielded)]
        queue += [x for x in inputs if x not in visited]
        visited.update(inputs)
    return False


def is_in(region: Region | None, body: Region) -> bool:
    """Whether a region is a body or is nested in it."""
    while region is not None and region is not body:
        region = region.parent.parent if region.parent is not None else None
    return region is not None


def carried(loop: LoopLike, k: int, trip: Trip, steady: Steady = constant) -> tuple[Sum | None, bool]:
    """The number that an iteration adds to the k-th value that a loop carries, None if the number depends on branches
    or inner loops; and whether the value changes only by constants that are added or subtracted. `steady`: a function
    that returns the number of a value that is equal in all iterations."""
    argument, yielded = loop.arguments[k], loop.body.yielded[k]
    n = _added(yielded, argument, trip, steady)
    return n, n is not None or _counter(yielded, argument)


def _counter(yielded: Value, argument: Value) -> bool:
    if yielded is argument:
        return True
    owner = yielded.owner
    if isinstance(owner, Add | Sub):
        return isinstance(owner.b.owner, ConstantLike) and _counter(owner.a, argument)
    if not isinstance(owner, BranchLike | LoopLike):
        return False
    k = owner.results.index(yielded)
    if isinstance(owner, BranchLike):
        return all(_counter(region.yielded[k], argument) for region in continuing(owner))
    inner = owner.arguments[k]
    return _counter(owner.initial[k], argument) and _counter(owner.body.yielded[k], inner)


def decreases(loop: LoopLike, argument: Value) -> bool:
    """Whether an iteration subtracts a constant from a value that a loop carries, on some path or in an inner loop."""
    queue, arguments = [loop.body.yielded[loop.arguments.index(argument)]], {argument}
    visited = set(queue)
    while queue:
        v = queue.pop()
        owner = v.owner
        if not isinstance(owner, Op):
            continue
        if isinstance(owner, Add | Sub) and owner.a in arguments and (n := constant(owner.b)) is not None:
            if ((n.value or 0) < 0) == isinstance(owner, Add):
                return True
            continue
        k = owner.results.index(v)
        if isinstance(owner, LoopLike):
            arguments.add(owner.arguments[k])
            inputs = [owner.body.yielded[k]]
        elif isinstance(owner, BranchLike):
            inputs = [region.yielded[k] for region in continuing(owner)]
        else:
            inputs = [*owner.operands]
        queue += [x for x in inputs if x not in visited]
        visited.update(inputs)
    return False


def compares(loop: Op) -> bool:
    """Whether a comparison of numbers decides if a loop goes on, and not flags alone."""
    if not conditional(loop):
        return False
    carried = [
        v for a, v in zip(loop.condition.args, loop.arguments, strict=True) if _is_read(a, loop.condition)
    ]
    comparisons = any(isinstance(op, ComparisonLike) for op in loop.condition.walk())
    return comparisons and not (carried and all(is_flag(loop, v) for v in carried))


def _is_read(v: Value, region: Region) -> bool:
    return any(v in op.operands for op in region.walk())


def is_flag(loop: LoopLike, argument: Value) -> bool:
    """Whether an iteration sets a carried value to a constant or leaves it unchanged, such as the flag of a `break`."""

    def is_constant(v: Value) -> bool:
        owner = v.owner
        if v is argument or isinstance(owner, ConstantLike):
            return True
        if isinstance(owner, Cast):
            return owner.x.type == bool_
        if isinstance(owner, Select):
            return is_constant(owner.a) and is_constant(owner.b)
        is_branch = isinstance(owner, BranchLike)
        return is_branch and all(is_constant(r.yielded[owner.results.index(v)]) for r in owner.alternatives)

    return is_constant(loop.body.yielded[loop.arguments.index(argument)])


@cached
def guarded(program: Program, body: Region) -> dict[Count, ComparisonLike]:
    """The counts that an iteration increments by one exactly where a comparison holds, each with its comparison. For a
    nested branch, the compared number must be one whose increment depends on branches or inner loops."""
    tests = tested(program, body)
    inner = nested(program, body)
    return {n: test for n, test in tests.items() if n not in inner or not _steady(test.a, body)}


@cached
def tested(program: Program, body: Region) -> dict[Count, ComparisonLike]:
    """The counts that an iteration increments, by one, in one branch only, each with the comparison that decides the
    branch, which may be nested in another one."""
    out: dict[Count, ComparisonLike] = {}
    repeated = set[Count]()
    for op, _ in _branches(body, False):
        for region in op.regions:
            counts, _ = _counts_without_trips(program, region)
            for count, n in counts.items():
                test = _test(op.condition)
                if (
                    isinstance(test, ComparisonLike)
                    and region is op.then
                    and n.value == 1
                    and count not in out
                ):
                    out[count] = test
                else:
                    repeated.add(count)
    return {count: test for count, test in out.items() if count not in repeated}


def _test(condition: Value) -> ComparisonLike | None:
    """The comparison that decides a condition, or the only one by a remainder of the comparisons of which one has to
    hold."""
    op = condition.owner
    if isinstance(op, ComparisonLike) or op is None or isinstance(op, Region):
        return op if isinstance(op, ComparisonLike) else None
    values = (
        [op.condition, *(r.yielded[op.results.index(condition)] for r in op.regions)]
        if isinstance(op, If)
        else []
    )
    alternatives = [*op.operands] if isinstance(op, Binary) else values
    tests = [test for v in alternatives if (test := _test(v)) is not None and by_remainder(test)]
    return tests[0] if len(tests) == 1 else None


@cached
def nested(program: Program, body: Region) -> set[Count]:
    """The counts that change in branches nested in other branches."""
    return {
        count
        for op, within in _branches(body, False)
        if within
        for region in op.regions
        for count in _counts_without_trips(program, region)[0]
    }


@cached
def branched(program: Program, body: Region) -> set[Count]:
    """The counts that change in branches, by different numbers on the two sides."""
    out: set[Count] = set()
    for op, _ in _branches(body, False):
        (if_true, _), (if_false, _) = (_counts_without_trips(program, region) for region in op.regions)
        out |= {count for count in {*if_true, *if_false} if if_true.get(count) != if_false.get(count)}
    return out


@cached
def selected(program: Program, body: Region) -> dict[Count, Value]:
    """The counts that an iteration increments by one where a condition holds, and leaves unchanged otherwise, each with
    the condition."""
    out: dict[Count, Value] = {}
    repeated = set[Count]()
    for op, within in _branches(body, False):
        (if_true, varying), (if_false, _) = (_counts_without_trips(program, region) for region in op.regions)
        for count in {*if_true, *if_false}:
            increments_once = if_true.get(count) == number(1) and count not in if_false | dict.fromkeys(
                varying
            )
            if increments_once and count not in out and not within:
                out[count] = op.condition
            else:
                repeated.add(count)
    return {count: condition for count, condition in out.items() if count not in repeated}


def assigned(loop: LoopLike, k: int) -> Value | None:
    """The value that a branch assigns to the k-th carried value of a loop, from no carried value, which the other side
    of the branch leaves unchanged; None for other values."""
    op = loop.body.yielded[k].owner
    if not isinstance(op, BranchLike):
        return None
    sides = [region.yielded[op.results.index(loop.body.yielded[k])] for region in op.alternatives]
    others = [v for v in sides if v is not loop.arguments[k]]
    if len(others) != 1 or isinstance(others[0].owner, ConstantLike):
        return None
    return None if _depends(others[0], loop.arguments) else others[0]


def _depends(v: Value, arguments: list[Value]) -> bool:
    """Whether a value is one of `arguments`, or computed from one."""
    return v in arguments or (
        isinstance(v.owner, Op) and any(_depends(x, arguments) for x in v.owner.operands)
    )


def in_branches(loop: LoopLike, k: int) -> bool:
    """Whether the increment of the k-th carried value of a loop depends on a branch."""

    def decided(v: Value) -> bool:
        owner = v.owner
        if isinstance(owner, Add | Sub):
            return decided(owner.a)
        if not isinstance(owner, BranchLike | LoopLike):
            return False
        at = owner.results.index(v)
        if isinstance(owner, BranchLike):
            regions = continuing(owner)
            return len(regions) > 1 or decided(regions[0].yielded[at])
        return decided(owner.body.yielded[at]) or decided(owner.initial[at])

    return decided(loop.body.yielded[k])


def counted(loop: LoopLike) -> Iterator[tuple[Value, ComparisonLike]]:
    """The carried values that an iteration increments by one if a comparison holds, and leaves unchanged otherwise,
    each with its comparison."""
    for v, yielded in zip(loop.arguments, loop.body.yielded, strict=True):
        op = yielded.owner
        if isinstance(op, If) and isinstance(op.condition.owner, ComparisonLike):
            k = op.results.index(yielded)
            added = [_added(region.yielded[k], v, constant_trip, constant) for region in (op.then, op.orelse)]
            if added == [number(1), ZERO]:
                yield v, op.condition.owner


def _branches(body: Region, within: bool) -> Iterator[tuple[If, bool]]:
    """The `if`s in a region, each with whether it is nested in another one, except those of which one side leaves the
    loop: each iteration that another one follows executes the other side."""
    for op in body.ops:
        regions = continuing(op) if isinstance(op, If) else op.regions
        decides = isinstance(op, If) and len(regions) > 1
        if isinstance(op, If) and decides:
            yield op, within
        for region in regions:
            yield from _branches(region, within or decides)


def by_remainder(test: ComparisonLike) -> bool:
    """Whether a comparison depends on a remainder or single bits of a number, or on a quotient and its dividend. A
    quotient alone grows with its dividend, so that a comparison with a fixed number alternates at most twice."""
    return any(_takes_part(v) and not _keeps_order(v) for v in test.operands)


def _takes_part(v: Value) -> bool:
    op = v.owner
    if not isinstance(op, Binary | Cast) or _is_fixed_number(v):
        return False
    return (isinstance(op, Binary) and op.TAKES_PART) or any(map(_takes_part, op.operands))


def _keeps_order(v: Value) -> bool:
    """Whether a number is computed from another one by quotients, and by sums and multiples with fixed numbers."""
    op = v.owner
    if not isinstance(op, Binary | Cast):
        return True
    varying = [x for x in op.operands if not _is_fixed_number(x)]
    is_remainder = isinstance(op, Binary) and op.TAKES_PART and not op.KEEPS_ORDER
    return not is_remainder and len(varying) < 2 and all(map(_keeps_order, varying))


def _is_fixed_number(v: Value) -> bool:
    """Whether a number is computed from constants and parameters alone."""
    op = v.owner
    if isinstance(op, Region):
        return op.parent is None
    return isinstance(op, ConstantLike) or (
        isinstance(op, Binary | Cast) and all(map(_is_fixed_number, op.operands))
    )


def is_periodic(program: Program, body: Region) -> bool:
    """Whether a loop with this body arrives or waits only in iterations that a remainder selects."""
    loop = body.parent
    assert isinstance(loop, LoopLike)
    return any(map(by_remainder, [*guarded(program, body).values(), *(test for _, test in counted(loop))]))


@cached
def issued(program: Program, body: Region) -> dict[str, dict[Value, bool]]:
    """The buffers that matmuls ("matmul") and bulk stores ("copy") which a body starts read, each with whether the body
    alone determines their slots."""
    out: dict[str, dict[Value, bool]] = {}
    for op in body.walk():
        for e in program.events_of(op) if program.acts(op) else ():
            if isinstance(e, E.Issue | E.CopyOut | E.Commit):
                buffers = out.setdefault("matmul" if isinstance(e, E.Issue) else "copy", {})
                for v in op.operands:
                    if root(v) in program.tracked:
                        stage = stage_of(v)
                        is_fixed = stage is None or _is_fixed(stage, body)
                        buffers[root(v)] = buffers.get(root(v), True) and is_fixed
    return out


@cached
def groups(program: Program, body: Region) -> int:
    """The number of bulk groups that an iteration commits, where each loop of unknown trip count has one iteration."""
    out = 0
    for op in body.ops:
        trip = constant_trip(op) if isinstance(op, For) else None
        times = 1 if trip is None or trip.value is None else trip.value
        events = program.events_of(op) if program.acts(op) else ()
        out += sum(isinstance(e, E.Commit) or (isinstance(e, E.CopyOut) and e.commit) for e in events)
        out += times * sum(groups(program, region) for region in op.regions)
    return out


def _is_fixed(v: Value, body: Region) -> bool:
    """Whether a number in a body is computed from constants and indices of loops with constant bounds."""
    owner = v.owner
    if isinstance(owner, Region):
        loop = owner.parent
        return (
            owner is not body
            and isinstance(loop, For)
            and v is loop.index
            and constant_trip(loop) is not None
        )
    return isinstance(owner, ConstantLike) or (
        isinstance(owner, Binary | Cast | Unary) and all(_is_fixed(x, body) for x in owner.operands)
    )


def nested_loops(program: Program, body: Region) -> int:
    """The number of loops with events in a body."""
    return sum(isinstance(op, LoopLike) and program.counts(op) for op in body.walk())


def inner_bounds_change(program: Program, body: Region) -> bool:
    """Whether the bounds of a loop with events, in the body of a loop, change with the iterations of the latter."""
    inner = (op for op in body.walk() if isinstance(op, For) and program.counts(op))
    return any(is_loop_varying(v, body) for op in inner for v in op.bounds)


def _steady(v: Value, body: Region) -> bool:
    """Whether every iteration adds the same constant to a number."""
    v, loop = before(v, body), body.parent
    if not isinstance(loop, LoopLike) or v not in loop.arguments:
        return True
    return carried(loop, loop.arguments.index(v), constant_trip)[0] is not None


def start(v: Value, body: Region) -> Value:
    """The value at the start of the body of a number that inner loops of the body carry."""
    while isinstance(v.owner, Region) and v.owner is not body:
        loop = v.owner.parent
        if not isinstance(loop, LoopLike):
            break
        if isinstance(loop, For) and v is loop.index:
            return loop.start
        v = loop.initial[loop.arguments.index(v)]
    return v


def before(v: Value, body: Region) -> Value:
    """The value from which a number is computed by adding and subtracting numbers that are equal in all iterations: an
    argument of the body, if the number comes from one."""
    v = start(v, body)
    while isinstance(v.owner, Add | Sub) and not is_loop_varying(v.owner.b, body):
        v = start(v.owner.a, body)
    return v


def inner_loops(v: Value, body: Region) -> list[LoopLike]:
    """The loops in a body that contain the op of a value, outermost first."""
    out: list[LoopLike] = []
    region = v.owner.parent if isinstance(v.owner, Op) else v.owner
    while region is not None and region is not body:
        op = region.parent
        out += [op] if isinstance(op, LoopLike) else []
        region = op.parent if op is not None else None
    return out[::-1]


def _added(yielded: Value, argument: Value, trip: Trip, steady: Steady) -> Sum | None:
    if yielded is argument:
        return ZERO
    owner = yielded.owner
    if isinstance(owner, Add | Sub):
        n, so_far = steady(owner.b), _added(owner.a, argument, trip, steady)
        if n is None or so_far is None:
            return None
        return so_far + n if isinstance(owner, Add) else so_far - n
    if isinstance(owner, BranchLike):
        k = owner.results.index(yielded)
        steps = [_added(region.yielded[k], argument, trip, steady) for region in continuing(owner)]
        return steps[0] if all(n == steps[0] for n in steps) else None
    if isinstance(owner, LoopLike):
        k = owner.results.index(yielded)
        so_far = _added(owner.initial[k], argument, trip, steady)
        per_iteration = _added(owner.body.yielded[k], owner.arguments[k], trip, steady)
        times = ZERO if per_iteration == ZERO else trip(owner) if isinstance(owner, For) else None
        if so_far is None or per_iteration is None or times is None:
            return None
        return so_far + per_iteration * times
    return None


def have_equal_rates(rates: Rates, other: Rates, stages: Mapping[int, int]) -> bool:
    """Whether one iteration of each of two loops has the same known numbers of arrivals and waits at the barriers
    that both use. `stages`: the numbers of stages of barriers at which a wait may pass over items of other stages."""

    def agree(kind: str, n: Sum, other_kind: str, m: Sum, stages: int) -> bool:
        if kind == other_kind or n == m:
            return n == m
        waits, arrivals = (n.value or 0, m.value or 0) if kind == "waited" else (m.value or 0, n.value or 0)
        return waits < arrivals <= waits * stages

    return all(
        agree(kind, n, other_kind, m, stages.get(b, 1))
        for (kind, b), n in rates.items()
        for (other_kind, c), m in other.items()
        if b == c
    )


def share_a_barrier(rates: Rates, other: Rates) -> bool:
    """Whether two loops have a barrier at which an iteration of each makes a known number of arrivals or waits."""
    return not {b for _, b in rates}.isdisjoint(b for _, b in other)
