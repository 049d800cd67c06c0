"""Jacobians of kernels and of functions that launch kernels, by adjoints and by finite differences, and checks that
both agree."""

from tegula.autograd.checks import gradcheck, gradcheck_tape
from tegula.autograd.jacobians import jacobian, jacobian_fd

__all__ = ["gradcheck", "gradcheck_tape", "jacobian", "jacobian_fd"]


def __dir__() -> list[str]:
    return sorted(__all__)
