"""What integers of a kernel are surely multiples of."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from tegula.ir import Op, Region, Value
from tegula.ops import scalar as S
from tegula.ops.control import For, If, While
from tegula.ops.convert import Cast
from tegula.types import DType


def divides(n: int, value: Value) -> bool:
    """Whether a value is a multiple of n, a power of two, in every launch. Where numbers overflow, they stay so."""
    return _divisor(value, n, frozenset()) % n == 0


def _divisor(value: Value, n: int, taken: frozenset[Value]) -> int:
    """The greatest known divisor that a value has in common with n. `taken`: values around loops that are multiples of
    n if those that they start from are."""
    if value in taken:
        return n
    owner = value.owner
    if isinstance(owner, Region):
        return _common(_around(value, owner), n, taken | {value})
    if isinstance(owner, S.Const):
        number = owner.attrs["value"]
        return gcd(number, n) if isinstance(number, int) else 1
    if isinstance(owner, S.Mul):
        a, b = (_divisor(v, n, taken) for v in owner.operands)
        return gcd(a * b, n)
    if isinstance(owner, S.Shl) and isinstance(owner.operands[1].owner, S.Const):
        return gcd(_divisor(owner.operands[0], n, taken) << owner.operands[1].owner.attrs["value"], n)
    if isinstance(owner, For | While | If):
        return _common(_ends(owner, owner.results.index(value)), n, taken | {value})
    if isinstance(owner, S.Add | S.Sub | S.Min | S.Max | S.Mod | S.Select):
        return _common(iter(owner.operands[isinstance(owner, S.Select) :]), n, taken)
    if isinstance(owner, Cast) and _is_integer(value) and _is_integer(owner.operands[0]):
        return _divisor(owner.operands[0], n, taken)
    return 1


def _common(values: Iterator[Value] | None, n: int, taken: frozenset[Value]) -> int:
    if values is None:
        return 1
    found = n
    for value in values:
        found = gcd(found, _divisor(value, n, taken))
        if found == 1:
            break
    return found


def _around(value: Value, body: Region) -> Iterator[Value] | None:
    """What an argument of a region is in some round: of an index, where the loop starts, and its step."""
    loop = body.parent
    if not isinstance(loop, For | While):
        return None
    k = body.args.index(value) - isinstance(loop, For)
    return iter((loop.operands[0], loop.operands[2])) if k < 0 else _carried(loop, k)


def _ends(op: Op, k: int) -> Iterator[Value]:
    """What a result of control flow may be."""
    if isinstance(op, If):
        return (region.terminator.operands[k] for region in op.regions)
    return _carried(op, k)


def _carried(loop: Op, k: int) -> Iterator[Value]:
    first = 3 if isinstance(loop, For) else 0
    return iter((loop.operands[first + k], loop.regions[-1].terminator.operands[k]))


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, DType) and value.type.kind in "iu"
