"""Derivatives of kernels and of functions that launch them: Jacobians, by adjoints and by differences, and whether
they agree."""

from tegula.autograd.checks import gradcheck, gradcheck_tape
from tegula.autograd.jacobians import jacobian, jacobian_fd

__all__ = ["gradcheck", "gradcheck_tape", "jacobian", "jacobian_fd"]


def __dir__() -> list[str]:
    return sorted(__all__)
