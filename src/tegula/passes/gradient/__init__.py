"""Reverse mode: from a forward kernel to the kernel that computes its gradients."""

from tegula.passes.gradient.differentiate import differentiate, reads

__all__ = ["differentiate", "reads"]
