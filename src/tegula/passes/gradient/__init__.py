"""Reverse mode: from a forward kernel to the kernels that compute its gradients."""

from tegula.passes.gradient.differentiate import arrays_read, check_order, differentiate, split_adjoint
from tegula.passes.gradient.order import find_block_conflict
from tegula.passes.gradient.owners import max_launch_dims
from tegula.passes.gradient.sequential import sequentialise
from tegula.passes.gradient.series import overlap_launches
from tegula.passes.gradient.steps import (
    BUSY_BLOCKS,
    AdjointStep,
    ForwardLaunch,
    Partials,
    checkpoint_bytes,
    parameters_of,
)

__all__ = [
    "BUSY_BLOCKS",
    "AdjointStep",
    "ForwardLaunch",
    "Partials",
    "arrays_read",
    "check_order",
    "checkpoint_bytes",
    "differentiate",
    "find_block_conflict",
    "max_launch_dims",
    "overlap_launches",
    "parameters_of",
    "sequentialise",
    "split_adjoint",
]
