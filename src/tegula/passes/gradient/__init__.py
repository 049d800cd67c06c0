"""Reverse mode: from a forward kernel to the kernels that compute its gradients."""

from tegula.passes.gradient.differentiate import check_order, differentiate, reads, split
from tegula.passes.gradient.order import find_block_conflict
from tegula.passes.gradient.owners import longest
from tegula.passes.gradient.sequential import sequentialise
from tegula.passes.gradient.series import in_series
from tegula.passes.gradient.steps import (
    BUSY,
    AdjointStep,
    ForwardLaunch,
    Partials,
    checkpoint_bytes,
    parameters_of,
)

__all__ = [
    "BUSY",
    "AdjointStep",
    "ForwardLaunch",
    "Partials",
    "check_order",
    "checkpoint_bytes",
    "differentiate",
    "find_block_conflict",
    "in_series",
    "longest",
    "parameters_of",
    "reads",
    "sequentialise",
    "split",
]
