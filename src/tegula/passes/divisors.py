"""Known divisors of a kernel's integers."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from tegula.ir import Carrier, LoopLike, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For
from tegula.ops.convert import Cast
from tegula.types import DType


def divides(n: int, value: Value) -> bool:
    """Whether a value is a multiple of n, a power of two, in every launch. Overflow keeps multiples of n multiples."""
    return _divisor(value, n, frozenset()) % n == 0


def _divisor(value: Value, n: int, taken: frozenset[Value]) -> int:
    """The greatest known common divisor of a value and n. `taken`: loop-carried values under examination, which are
    assumed to be multiples of n (induction over the iterations)."""
    if value in taken:
        return n
    owner = value.owner
    if isinstance(owner, Region):
        return _common(_around(value, owner), n, taken | {value})
    if isinstance(owner, S.Const):
        number = owner.value
        return gcd(number, n) if isinstance(number, int) else 1
    if isinstance(owner, S.Mul):
        a, b = (_divisor(v, n, taken) for v in owner.operands)
        return gcd(a * b, n)
    if isinstance(owner, S.Shl) and isinstance(owner.b.owner, S.Const):
        return gcd(_divisor(owner.a, n, taken) << owner.b.owner.value, n)
    if isinstance(owner, Carrier):
        return _common(owner.carried[owner.results.index(value)].sources, n, taken | {value})
    if isinstance(owner, S.Add | S.Sub | S.Min | S.Max | S.Mod | S.Select):
        return _common((owner.a, owner.b), n, taken)
    if isinstance(owner, Cast) and _is_integer(value) and _is_integer(owner.x):
        return _divisor(owner.x, n, taken)
    return 1


def _common(values: Sequence[Value], n: int, taken: frozenset[Value]) -> int:
    if not values:
        return 1
    found = n
    for value in values:
        found = gcd(found, _divisor(value, n, taken))
        if found == 1:
            break
    return found


def _around(value: Value, region: Region) -> Sequence[Value]:
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
