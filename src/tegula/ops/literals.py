"""Constant folding of literals: the results equal the results of ops at run time, but have no type yet."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tegula.ir import REGISTRY, TypeRule
from tegula.ops.base import Elementwise

SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
    "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip

BITWISE = ("and", "or", "xor", "shl", "shr")
BITWISE_HELP = (
    "operands must be integers: convert with int(...) or tg.bitcast; combine conditions with 'and' and 'or'"
)

MAX_BITS = 4096
"""The maximum width in bits of an integer that constant folding computes."""


def fold_literals(op: str, a: Any, b: Any) -> Any:
    """The result of a binary operator, "min" or "max" on two literals, like the op at run time, but computed in
    integers of unlimited width or in float64. The result takes the type of the value that it is combined with."""
    bools = [isinstance(x, bool) for x in (a, b)]
    if op == "matmul" or (any(bools) and not (all(bools) and op in ("and", "or", "xor", "min", "max"))):
        raise TypeRule(f"'{SYMBOLS.get(op, op)}' is not defined for {a!r} and {b!r}")
    if op in BITWISE and (isinstance(a, float) or isinstance(b, float)):
        raise TypeRule(f"'{SYMBOLS[op]}' is not defined for floats: {a!r} and {b!r}", BITWISE_HELP)
    if op != "pow" and isinstance(a, int) != isinstance(b, int):
        symbol = SYMBOLS.get(op, op)
        raise TypeRule(
            "", "write both literals as floats", "MixedScalars", op=symbol, left=repr(a), right=repr(b)
        )
    if all(bools):
        return bool(_INTEGER_OPERATORS[op](a, b))
    if isinstance(a, int) and isinstance(b, int) and not (op == "pow" and b < 0):
        if b == 0 and op in ("div", "mod", "floordiv"):
            raise TypeRule("division by the constant 0", "use a divisor other than 0", "OutOfRange")
        if _bits(op, a, b) > MAX_BITS:
            raise TypeRule(f"the constant result of '{SYMBOLS[op]}' has more than {MAX_BITS} bits")
        return _INTEGER_OPERATORS[op](a, b)
    return _fold_floats(op, as_float(a), as_float(b))


def _bits(op: str, a: int, b: int) -> int:
    """An estimate of the bits of a power or left shift, which may have many more bits than its operands; 0 for other
    operators."""
    if op == "pow" and abs(a) > 1:
        return a.bit_length() * b
    return a.bit_length() + b if op == "shl" and a else 0


def _fold_floats(op: str, a: float, b: float) -> float:
    x, y = np.array([a]), np.array([b])
    if op in ("mod", "pow"):
        with np.errstate(all="ignore"):
            return float((np.fmod if op == "mod" else np.power)(x, y)[0])
    kind = REGISTRY[op]
    assert issubclass(kind, Elementwise)
    return float(kind.ref({}, x, y)[0])


def as_float(x: float) -> float:
    """A literal as a float; infinite if it is larger than every float."""
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _truncated_quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_INTEGER_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _truncated_quotient,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a - _truncated_quotient(a, b) * b,
    "pow": lambda a, b: a**b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    # A shift by a negative count gives the result of a shift by the width.
    "shl": lambda a, b: a << b if b >= 0 else 0,
    "shr": lambda a, b: a >> b if b >= 0 else -(a < 0),
    "min": min,
    "max": max,
}
