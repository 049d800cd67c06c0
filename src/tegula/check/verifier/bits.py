"""Bit operations on integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import and_, lshift, or_, rshift, xor
from typing import Any

BIT_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "and": and_,
    "or": or_,
    "xor": xor,
    "shl": lshift,
    "shr": rshift,
}


def bit_operation(name: str, operands: Sequence[int | None], low: Any, high: Any) -> int | None:
    """The result of a bit operation on two integers; None unless they and the result are between `low` and `high`, the
    limits of their type, and for shifts of negative integers or by 32 or more."""
    x, y = operands
    if x is None or y is None or (name in ("shl", "shr") and not (x >= 0 and 0 <= y < 32)):
        return None
    result = BIT_OPERATIONS[name](x, y)
    return result if all(low <= n <= high for n in (x, y, result)) else None
