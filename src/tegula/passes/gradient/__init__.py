"""Reverse mode: from a forward kernel to the kernels that compute its gradients."""

from tegula.passes.gradient.differentiate import differentiate, reads, split
from tegula.passes.gradient.steps import Launch, Partials, Step

__all__ = ["Launch", "Partials", "Step", "differentiate", "reads", "split"]
