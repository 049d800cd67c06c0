"""Host functions on whole arrays, which launch a few kernels: reductions, scans, conversions, sorts. Users import the
package as `tg.utils`."""

from tegula.algorithms.conversion import array_cast
from tegula.algorithms.reduction import array_inner, array_sum
from tegula.algorithms.runs import runlength_encode
from tegula.algorithms.scan import array_scan
from tegula.algorithms.sorting import radix_sort_pairs, segmented_sort_pairs

__all__ = [
    "array_cast",
    "array_inner",
    "array_scan",
    "array_sum",
    "radix_sort_pairs",
    "runlength_encode",
    "segmented_sort_pairs",
]


def __dir__() -> list[str]:
    return sorted(__all__)
