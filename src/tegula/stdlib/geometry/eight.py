"""Transposes of vectors of eight components, of which each step is one shuffle of two vector registers."""

from __future__ import annotations

from tegula.stdlib.geometry.layout import VEC8
from tegula.stdlib.registry import composite, tg


@composite()
def _lower_pairs(a: VEC8, b: VEC8):
    """The components 0, 1, 4 and 5 of two vectors, interleaved."""
    return VEC8(a[0], b[0], a[1], b[1], a[4], b[4], a[5], b[5])


@composite()
def _upper_pairs(a: VEC8, b: VEC8):
    """The components 2, 3, 6 and 7 of two vectors, interleaved."""
    return VEC8(a[2], b[2], a[3], b[3], a[6], b[6], a[7], b[7])


@composite()
def _lower_halves(a: VEC8, b: VEC8):
    """The first two components of each half of two vectors."""
    return VEC8(a[0], a[1], b[0], b[1], a[4], a[5], b[4], b[5])


@composite()
def _upper_halves(a: VEC8, b: VEC8):
    """The last two components of each half of two vectors."""
    return VEC8(a[2], a[3], b[2], b[3], a[6], a[7], b[6], b[7])


@composite()
def _transposed_half(a: VEC8, b: VEC8, c: VEC8, d: VEC8):
    """The transpose of two 4x4 blocks: vector k has the components k of four vectors, then their components 4 + k, for
    k from 0 to 3."""
    ab_lower, cd_lower = tg._lower_pairs(a, b), tg._lower_pairs(c, d)
    ab_upper, cd_upper = tg._upper_pairs(a, b), tg._upper_pairs(c, d)
    return (
        tg._lower_halves(ab_lower, cd_lower),
        tg._upper_halves(ab_lower, cd_lower),
        tg._lower_halves(ab_upper, cd_upper),
        tg._upper_halves(ab_upper, cd_upper),
    )


@composite()
def _first_half(a: VEC8, b: VEC8):
    """The first halves of two vectors."""
    return VEC8(a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3])


@composite()
def _second_half(a: VEC8, b: VEC8):
    """The second halves of two vectors."""
    return VEC8(a[4], a[5], a[6], a[7], b[4], b[5], b[6], b[7])
