"""Searches in sorted arrays."""

from __future__ import annotations

from tegula.ops.documented import Family
from tegula.stdlib.registry import NOT_A_VALUE, composite, tg
from tegula.types import int32

SEARCH = Family(
    {"Gradient": "none: an index has no gradient."},
    {
        **NOT_A_VALUE,
        "type-mismatch": "`arr` is not an array of one dimension of scalars, or an index is not an integer",
        "mixed-scalar-types": "`value` is of another dtype than `arr`",
        "out-of-range": "a literal does not fit its dtype",
        "out-of-bounds": "the range leaves the array, in debug mode",
        "shape-mismatch": "the shapes of tiles do not broadcast",
    },
)


@composite(SEARCH)
def lower_bound(arr, value):
    """The first index of a sorted array whose element is at least a value; the end of the range if all elements are
    smaller.

    Parameters:
        arr: an array (N,) of scalars that ascends.
        arr_begin, arr_end: the range of indices, int32 scalars; by default the whole array.
        value: a scalar of the dtype of `arr`.
    Returns:
        an int32 from the begin of the range to its end.
    """
    return tg.lower_bound(arr, 0, arr.shape[0], value)


@composite()
def lower_bound(arr, arr_begin: int32, arr_end: int32, value):  # noqa: F811
    """The first index of a range whose element is at least a value."""
    low = arr_begin
    high = arr_end
    while low < high:
        middle = low + (high - low) // 2
        if arr[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low
