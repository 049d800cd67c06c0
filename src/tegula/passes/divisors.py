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


def divides(n: int, value: Value, known: Divisor = _unknown) -> bool:
    """Whether a value is a multiple of n, a power of two, in every launch. Overflow keeps multiples of n multiples.
    `known`: the divisors of ops of other families."""
    return _divisor(value, n, frozenset(), known) % n == 0


def _divisor(value: Value, n: int, taken: frozenset[Value], known: Divisor) -> int:
    """The greatest known common divisor of a value and n. `taken`: loop-carried values under examination, which are
    assumed to be multiples of n (induction over the iterations)."""
    if value in taken:
        return n
    owner = value.owner
    if isinstance(owner, Region):
        return _common(_incoming_values(value, owner), n, taken | {value}, known)
    if isinstance(owner, ConstantLike):
        number = owner.value
        return gcd(number, n) if isinstance(number, int) else 1
    if isinstance(owner, S.Mul):
        a, b = (_divisor(v, n, taken, known) for v in owner.operands)
        return gcd(a * b, n)
    if isinstance(owner, S.Shl) and isinstance(owner.b.owner, ConstantLike):
        return gcd(_divisor(owner.a, n, taken, known) << owner.b.owner.value, n)
    if isinstance(owner, Carrier):
        return _common(owner.carried[owner.results.index(value)].sources, n, taken | {value}, known)
    if isinstance(owner, S.Add | S.Sub | S.Min | S.Max | S.Mod | S.Select):
        return _common((owner.a, owner.b), n, taken, known)
    if isinstance(owner, S.FloorDiv) and isinstance(owner.b.owner, ConstantLike):
        # The quotient of a multiple of n * number is a multiple of n; for a power of two no overflow changes it.
        number = owner.b.owner.value
        power = isinstance(number, int) and number > 0 and number & (number - 1) == 0
        return max(_divisor(owner.a, n * number, taken, known) // number, 1) if power else 1
    if isinstance(owner, Cast) and _is_integer(value) and _is_integer(owner.x):
        return _divisor(owner.x, n, taken, known)
    return gcd(known(owner), n) if owner is not None else 1


def _common(values: Sequence[Value], n: int, taken: frozenset[Value], known: Divisor) -> int:
    if not values:
        return 1
    found = n
    for value in values:
        found = gcd(found, _divisor(value, n, taken, known))
        if found == 1:
            break
    return found


def _incoming_values(value: Value, region: Region) -> Sequence[Value]:
    """The values from which a region's argument is derived: the start and the step for a loop's index, all sources for
    a carried value, none for arguments of other regions."""
    loop = region.parent
    if not isinstance(loop, LoopLike):
        return ()
    if isinstance(loop, For) and value is loop.index:
        return loop.start, loop.step
    return next(one.sources for one in loop.carried if value in one.arguments)


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, DType) and value.type.kind in "iu"
