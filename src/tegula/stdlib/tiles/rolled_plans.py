"""Plans of Fourier transforms whose stages of equal radix are iterations of loops, so that the code is short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from tegula.stdlib.tiles.plans import fits_registers, max_elements, plan_of
from tegula.stdlib.tiles.roots import MAX_RADIX, is_loop_on_gpu, runs, stages_of
from tegula.stdlib.tiles.warps import WARP

MAX_CODE, MIN_SAVED = 40, 0.2
"""The maximum `code_length` of a transform without loops over stages, and the part of longer code that loops must leave
out."""

MAX_UNEVEN_CODE, MIN_UNEVEN_SAVED = 52, 0.4
"""The same numbers if some threads have no butterfly in some stage: in loops such threads compute as others do."""

MAX_ROLLED_CODE = 64
"""The maximum `code_length` of loops over the stages with the fewest exchanges."""

CONDITION_FACTOR, LAST_FACTOR = 1.25, 0.5
"""The length of the code of an element under a condition, and in the last stage."""

MIN_SHORTER = 0.9
"""The part of the code of another plan that a plan with more work may have at most."""


class RolledPlan(NamedTuple):
    """The stages of a transform as loops: the runs of stages of equal radix, as `runs`, the radix of the last stage,
    and the length of the code."""

    runs: tuple[tuple[int, int, int, int], ...]
    last: int
    code: float


def is_rolled(size: int, n: int, alone: bool, repeats: bool, group: int) -> bool:
    """Whether stages of equal radix are a loop: if the code without loops is long, and loops leave out enough of it.
    `alone` as for `_tile_dft`; `repeats`: whether the transform is in a loop, so that there is other long code. Then
    loops are faster for shorter code too if all threads have as many butterflies."""
    unrolled = tuple(r for r, *_ in plan_of(size, n, alone, group))
    length = code_length(size, unrolled, group)
    is_even = all(size % (r * group) == 0 for r in unrolled)
    if length <= (MAX_CODE if is_even else MAX_UNEVEN_CODE) and not (repeats and is_even):
        return False
    rolled = rolled_plan(size, n, alone, repeats, group)
    min_saved = MIN_SAVED if is_even or repeats else MIN_UNEVEN_SAVED
    return rolled is not None and rolled.code <= (1 - min_saved) * length


@lru_cache(maxsize=256)
def rolled_plan(size: int, n: int, alone: bool, repeats: bool, group: int) -> RolledPlan | None:
    """The first plan of `_plans` whose code is at most `MAX_ROLLED_CODE`, or half of that in a kernel that `repeats`
    the transform, because such a kernel has other long code; else the plan with the shortest code. None if the threads
    of a group of warps cannot hold all elements in all stages, or if butterflies are loops themselves."""
    plan = plan_of(size, n, alone, group)
    if group < WARP or len(plan) < 2 or any(is_loop_on_gpu(*stage) for stage in plan):
        return None
    shortest = None
    for candidate in _plans(size, n, tuple(r for r, *_ in plan), group):
        if _fits(size, candidate, group) and (
            shortest is None or candidate.code < MIN_SHORTER * shortest.code
        ):
            shortest = candidate
            if shortest.code <= MAX_ROLLED_CODE / (2 if repeats else 1):
                break
    return shortest


def _plans(size: int, n: int, radices: tuple[int, ...], group: int) -> Iterator[RolledPlan]:
    """Plans with these or as many other radices, and then those with a stage more. In both groups the shortest code is
    first."""
    count = len(radices)
    yield from _by_length(_rolled(size, x, group) for x in (radices, *_orders(n, count)))
    yield from _by_length(_rolled(size, x, group) for x in _orders(n, count + 1))


def _by_length(plans: Iterable[RolledPlan]) -> list[RolledPlan]:
    return sorted(plans, key=lambda x: x.code)


@lru_cache(maxsize=256)
def _orders(n: int, count: int) -> tuple[tuple[int, ...], ...]:
    """The factorisations of n in `count` radices up to MAX_RADIX, in descending order but for the last radix."""
    return tuple(
        (*x[:last], *x[last + 1 :], x[last])
        for x in _factorisations(n, count, MAX_RADIX)
        for last in range(count)
        if last + 1 == count or x[last] != x[last + 1]
    )


def _factorisations(n: int, count: int, largest: int) -> Iterator[tuple[int, ...]]:
    """The factorisations of n in `count` factors from 2 to `largest`, in descending order."""
    if count == 1:
        yield from ((n,),) if 1 < n <= largest else ()
        return
    for r in range(2, largest + 1):
        if n % r == 0:
            yield from ((r, *rest) for rest in _factorisations(n // r, count - 1, r))


def _rolled(size: int, radices: tuple[int, ...], group: int) -> RolledPlan:
    """The plan with these radices."""
    loops, last = runs(stages_of(radices)[:-1]), radices[-1]
    return RolledPlan(loops, last, code_length(size, (*(r for r, *_ in loops), last), group))


def _fits(size: int, plan: RolledPlan, group: int) -> bool:
    """Whether the threads of a group hold all elements in all stages in registers."""
    radices = (*(r for r, *_ in plan.runs), plan.last)
    return max(radices) <= max_elements(group) and all(fits_registers(size, r, group) for r in radices)


def code_length(size: int, radices: Sequence[int], group: int) -> float:
    """The length of the code of stages, as the number of elements of a thread's butterflies. Those of the last stage,
    without an exchange, count less, and those in stages without butterflies for all threads, which need conditions,
    count more."""
    result = 0.0
    for stage, r in enumerate(radices, start=1):
        butterflies, factor = -(-size // (r * group)), LAST_FACTOR if stage == len(radices) else 1
        result += factor * r * butterflies * (1 if butterflies * r * group == size else CONDITION_FACTOR)
    return result
