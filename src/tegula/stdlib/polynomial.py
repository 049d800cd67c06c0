"""Polynomials by Horner's rule: `_poly3(x, a, b, c, d)` is a + b x + c x**2 + d x**3."""

from __future__ import annotations

from tegula.stdlib.registry import func, tg
from tegula.types import float32, float64


@func
def _poly2(x: float32, c0: float32, c1: float32, c2: float32) -> float32:
    p = tg.fma(x, c2, c1)
    return tg.fma(x, p, c0)


@func
def _poly2(x: float64, c0: float64, c1: float64, c2: float64) -> float64:
    p = tg.fma(x, c2, c1)
    return tg.fma(x, p, c0)


@func
def _poly3(x: float32, c0: float32, c1: float32, c2: float32, c3: float32) -> float32:
    p = tg.fma(x, c3, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly3(x: float64, c0: float64, c1: float64, c2: float64, c3: float64) -> float64:
    p = tg.fma(x, c3, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly4(x: float32, c0: float32, c1: float32, c2: float32, c3: float32, c4: float32) -> float32:
    p = tg.fma(x, c4, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly4(x: float64, c0: float64, c1: float64, c2: float64, c3: float64, c4: float64) -> float64:
    p = tg.fma(x, c4, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly5(
    x: float32, c0: float32, c1: float32, c2: float32, c3: float32, c4: float32, c5: float32
) -> float32:
    p = tg.fma(x, c5, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly5(
    x: float64, c0: float64, c1: float64, c2: float64, c3: float64, c4: float64, c5: float64
) -> float64:
    p = tg.fma(x, c5, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly6(
    x: float32, c0: float32, c1: float32, c2: float32, c3: float32, c4: float32, c5: float32, c6: float32
) -> float32:
    p = tg.fma(x, c6, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly6(
    x: float64, c0: float64, c1: float64, c2: float64, c3: float64, c4: float64, c5: float64, c6: float64
) -> float64:
    p = tg.fma(x, c6, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly7(
    x: float32,
    c0: float32,
    c1: float32,
    c2: float32,
    c3: float32,
    c4: float32,
    c5: float32,
    c6: float32,
    c7: float32,
) -> float32:
    p = tg.fma(x, c7, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly7(
    x: float64,
    c0: float64,
    c1: float64,
    c2: float64,
    c3: float64,
    c4: float64,
    c5: float64,
    c6: float64,
    c7: float64,
) -> float64:
    p = tg.fma(x, c7, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly8(
    x: float32,
    c0: float32,
    c1: float32,
    c2: float32,
    c3: float32,
    c4: float32,
    c5: float32,
    c6: float32,
    c7: float32,
    c8: float32,
) -> float32:
    p = tg.fma(x, c8, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly8(
    x: float64,
    c0: float64,
    c1: float64,
    c2: float64,
    c3: float64,
    c4: float64,
    c5: float64,
    c6: float64,
    c7: float64,
    c8: float64,
) -> float64:
    p = tg.fma(x, c8, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly9(
    x: float32,
    c0: float32,
    c1: float32,
    c2: float32,
    c3: float32,
    c4: float32,
    c5: float32,
    c6: float32,
    c7: float32,
    c8: float32,
    c9: float32,
) -> float32:
    p = tg.fma(x, c9, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly9(
    x: float64,
    c0: float64,
    c1: float64,
    c2: float64,
    c3: float64,
    c4: float64,
    c5: float64,
    c6: float64,
    c7: float64,
    c8: float64,
    c9: float64,
) -> float64:
    p = tg.fma(x, c9, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly10(
    x: float32,
    c0: float32,
    c1: float32,
    c2: float32,
    c3: float32,
    c4: float32,
    c5: float32,
    c6: float32,
    c7: float32,
    c8: float32,
    c9: float32,
    c10: float32,
) -> float32:
    p = tg.fma(x, c10, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly10(
    x: float64,
    c0: float64,
    c1: float64,
    c2: float64,
    c3: float64,
    c4: float64,
    c5: float64,
    c6: float64,
    c7: float64,
    c8: float64,
    c9: float64,
    c10: float64,
) -> float64:
    p = tg.fma(x, c10, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly11(
    x: float32,
    c0: float32,
    c1: float32,
    c2: float32,
    c3: float32,
    c4: float32,
    c5: float32,
    c6: float32,
    c7: float32,
    c8: float32,
    c9: float32,
    c10: float32,
    c11: float32,
) -> float32:
    p = tg.fma(x, c11, c10)
    p = tg.fma(x, p, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly11(
    x: float64,
    c0: float64,
    c1: float64,
    c2: float64,
    c3: float64,
    c4: float64,
    c5: float64,
    c6: float64,
    c7: float64,
    c8: float64,
    c9: float64,
    c10: float64,
    c11: float64,
) -> float64:
    p = tg.fma(x, c11, c10)
    p = tg.fma(x, p, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly12(
    x: float32,
    c0: float32,
    c1: float32,
    c2: float32,
    c3: float32,
    c4: float32,
    c5: float32,
    c6: float32,
    c7: float32,
    c8: float32,
    c9: float32,
    c10: float32,
    c11: float32,
    c12: float32,
) -> float32:
    p = tg.fma(x, c12, c11)
    p = tg.fma(x, p, c10)
    p = tg.fma(x, p, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly12(
    x: float64,
    c0: float64,
    c1: float64,
    c2: float64,
    c3: float64,
    c4: float64,
    c5: float64,
    c6: float64,
    c7: float64,
    c8: float64,
    c9: float64,
    c10: float64,
    c11: float64,
    c12: float64,
) -> float64:
    p = tg.fma(x, c12, c11)
    p = tg.fma(x, p, c10)
    p = tg.fma(x, p, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly13(
    x: float32,
    c0: float32,
    c1: float32,
    c2: float32,
    c3: float32,
    c4: float32,
    c5: float32,
    c6: float32,
    c7: float32,
    c8: float32,
    c9: float32,
    c10: float32,
    c11: float32,
    c12: float32,
    c13: float32,
) -> float32:
    p = tg.fma(x, c13, c12)
    p = tg.fma(x, p, c11)
    p = tg.fma(x, p, c10)
    p = tg.fma(x, p, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly13(
    x: float64,
    c0: float64,
    c1: float64,
    c2: float64,
    c3: float64,
    c4: float64,
    c5: float64,
    c6: float64,
    c7: float64,
    c8: float64,
    c9: float64,
    c10: float64,
    c11: float64,
    c12: float64,
    c13: float64,
) -> float64:
    p = tg.fma(x, c13, c12)
    p = tg.fma(x, p, c11)
    p = tg.fma(x, p, c10)
    p = tg.fma(x, p, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly14(
    x: float32,
    c0: float32,
    c1: float32,
    c2: float32,
    c3: float32,
    c4: float32,
    c5: float32,
    c6: float32,
    c7: float32,
    c8: float32,
    c9: float32,
    c10: float32,
    c11: float32,
    c12: float32,
    c13: float32,
    c14: float32,
) -> float32:
    p = tg.fma(x, c14, c13)
    p = tg.fma(x, p, c12)
    p = tg.fma(x, p, c11)
    p = tg.fma(x, p, c10)
    p = tg.fma(x, p, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)


@func
def _poly14(
    x: float64,
    c0: float64,
    c1: float64,
    c2: float64,
    c3: float64,
    c4: float64,
    c5: float64,
    c6: float64,
    c7: float64,
    c8: float64,
    c9: float64,
    c10: float64,
    c11: float64,
    c12: float64,
    c13: float64,
    c14: float64,
) -> float64:
    p = tg.fma(x, c14, c13)
    p = tg.fma(x, p, c12)
    p = tg.fma(x, p, c11)
    p = tg.fma(x, p, c10)
    p = tg.fma(x, p, c9)
    p = tg.fma(x, p, c8)
    p = tg.fma(x, p, c7)
    p = tg.fma(x, p, c6)
    p = tg.fma(x, p, c5)
    p = tg.fma(x, p, c4)
    p = tg.fma(x, p, c3)
    p = tg.fma(x, p, c2)
    p = tg.fma(x, p, c1)
    return tg.fma(x, p, c0)
