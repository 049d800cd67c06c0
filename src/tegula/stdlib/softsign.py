"""A sigmoid that is computed without an exponential."""

from __future__ import annotations

from tegula.stdlib.registry import func, meaning, tg

AROUND = ((-1.0, 1.0), (-20.0, 20.0), (-1e5, 1e5))


@func
def softsign(x):
    """x / (1 + |x|), which goes from -1 to 1.

    Parameters:
        x: a float, or a tile of floats.
    Returns:
        a value like x.
    Raises:
        type-mismatch: x is of integers.
    Gradient:
        1 / (1 + |x|) squared.
    """
    y = x / (1.0 + tg.abs(x))
    return tg.where(tg.isinf(x), tg.copysign(tg.min(tg.abs(x), 1.0), x), y)


@meaning("softsign", AROUND, smooth=((-3.0, 3.0),))
def exact(x):
    """Of a multiprecision number."""
    return x / (1 + abs(x))
