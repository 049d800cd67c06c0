"""Known divisors of a kernel's integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from tegula.ir import Carrier, ConstantLike, LoopLike, Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For
from tegula.ops.convert import Cast
from tegula.types import DType

Divisor = Callable[[Op], int]
"""A function that returns a known divisor of the result of an op, at least 1."""


def _unknown(op: Op) -> int:
    return 1


def divides(n: int, value: Value, divisor_of: Divisor = _unknown) -> bool:
    """Whether a value is a multiple of n, a power of two, in every launch. Overflow keeps multiples of n multiples.
    `divisor_of`: a known divisor of the result of an op of another family."""
    return _divisor(value, n, frozenset(), divisor_of) % n == 0


def _divisor(value: Value, n: int, visiting: frozenset[Value], divisor_of: Divisor) -> int:
    """The greatest known common divisor of a value and n. `visiting`: loop-carried values under examination, which are
    assumed to be multiples of n (induction over the iterations)."""
    if value in visiting:
        return n
    owner = value.owner
    if isinstance(owner, Region):
        return _common(_incoming_values(value, owner), n, visiting | {value}, divisor_of)
    if isinstance(owner, ConstantLike):
        number = owner.value
        return gcd(number, n) if isinstance(number, int) else 1
    if isinstance(owner, S.Mul):
        a, b = (_divisor(v, n, visiting, divisor_of) for v in owner.operands)
        return gcd(a * b, n)
    if isinstance(owner, S.Shl) and isinstance(owner.b.owner, ConstantLike):
        return gcd(_divisor(owner.a, n, visiting, divisor_of) << owner.b.owner.value, n)
    if isinstance(owner, Carrier):
        return _common(owner.carried[owner.results.index(value)].sources, n, visiting | {value}, divisor_of)
    if isinstance(owner, S.Add | S.Sub | S.Min | S.Max | S.Mod | S.Select):
        return _common((owner.a, owner.b), n, visiting, divisor_of)
    if isinstance(owner, S.FloorDiv) and isinstance(owner.b.owner, ConstantLike):
        # The quotient of a multiple of n * number is a multiple of n; for a power of two no overflow changes it.
        number = owner.b.owner.value
        power = isinstance(number, int) and number > 0 and number & (number - 1) == 0
        return max(_divisor(owner.a, n * number, visiting, divisor_of) // number, 1) if power else 1
    if isinstance(owner, Cast) and _is_integer(value) and _is_integer(owner.x):
        return _divisor(owner.x, n, visiting, divisor_of)
    return gcd(divisor_of(owner), n) if owner is not None else 1


def _common(values: Sequence[Value], n: int, visiting: frozenset[Value], divisor_of: Divisor) -> int:
    if not values:
        return 1
    common = n
    for value in values:
        common = gcd(common, _divisor(value, n, visiting, divisor_of))
        if common == 1:
            break
    return common


def _incoming_values(value: Value, region: Region) -> Sequence[Value]:
    """The values from which a region's argument is derived: the start and the step for a loop's index, all sources for
    a carried value, none for arguments of other regions."""
    loop = region.parent
    if not isinstance(loop, LoopLike):
        return ()
    if isinstance(loop, For) and value is loop.index:
        return loop.start, loop.step
    return next(carried.sources for carried in loop.carried if value in carried.arguments)


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, DType) and value.type.kind in "iu"
