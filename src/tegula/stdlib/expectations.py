"""Checks that print an error if they fail and let the kernel continue."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.stdlib.registry import NOT_A_VALUE, composite, tg

EXPECTED = Family(
    {"Gradient": "none: nothing is returned."},
    {
        **NOT_A_VALUE,
        "type-mismatch": "the operands are not scalars, vectors or matrices",
        "mixed-scalar-types": "the operands differ in type",
        "shape-mismatch": "the shapes of tiles do not broadcast",
        "out-of-range": "a literal does not fit its dtype",
    },
)


@composite(EXPECTED)
def expect_eq(a, b):
    """Checks that two values are equal. A failed check prints an error, and the kernel continues.

    Parameters:
        a, b: scalars, vectors or matrices of one type.
    """
    if a != b:
        print("Error, expect_eq() failed:\n\t Expected:", b, "\n\t Actual:", a)


@composite(EXPECTED)
def expect_neq(a, b):
    """Checks that two values differ. A failed check prints an error, and the kernel continues.

    Parameters:
        a, b: scalars, vectors or matrices of one type.
    """
    if a == b:
        print("Error, expect_neq() failed:\n\t Expected another value than:", b, "\n\t Actual:", a)


@composite(EXPECTED)
def expect_near(a, b, tolerance=1e-6):
    """Checks that all components of two values differ by at most a tolerance, and that no component is a NaN. A failed
    check prints an error, and the kernel continues.

    Parameters:
        a, b: scalars, vectors or matrices of one type of numbers.
        tolerance: a float; 1e-6 by default.
    """
    if not tg._all_within(a, b, tolerance):
        print("Error, expect_near() failed with tolerance", tolerance, "\n\t Expected:", b, "\n\t Actual:", a)
