"""Adjoint kernels: what computes the gradients of a kernel's launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tegula.errors import LaunchError
from tegula.ir import AccessClass, LaunchClass
from tegula.ir import Kernel as KernelIR
from tegula.lang.annotations import ANY
from tegula.lang.definition import FuncDef, Parameter
from tegula.lang.kernel import trace
from tegula.runtime.array import array
from tegula.runtime.kernel import Kernel
from tegula.types import Type


class Adjoint(Kernel):
    """The adjoint of a kernel: its parameters are the kernel's own, then a gradient for each array at `positions`.
    `reads`: the positions of the kernel's own arrays whose elements it needs."""

    def __init__(self, forward: Kernel, positions: tuple[int, ...]) -> None:
        super().__init__(forward.definition, forward.options)
        self.forward = forward
        self.positions = positions
        self.name = f"{forward.name}_adjoint"
        self.reads: set[int] = set()

    @property
    def parameters(self) -> list[Parameter]:
        own = self.forward.parameters
        return [*own, *(Parameter(f"adj_{own[k].name}", ANY) for k in self.positions)]

    def trace(
        self,
        param_types: Sequence[Type],
        launch: LaunchClass,
        access: Sequence[AccessClass | None] = (),
        library: Mapping[str, FuncDef] | None = None,
    ) -> KernelIR:
        from tegula.passes.gradient import differentiate, reads

        n = len(self.forward.parameters)
        own = access[:n]
        kernel = trace(self.definition, param_types[:n], launch, own, library, differentiable=True)
        made = differentiate(kernel, self.positions, tuple(access[n:]))
        self.reads.update(reads(made, n))
        return made


def adjoint_of(kernel: Kernel, positions: tuple[int, ...]) -> Adjoint:
    """The adjoint of a kernel for gradients of the arrays at these positions; LaunchError where it was declared to have
    none."""
    if kernel.options.enable_backward is False:
        raise LaunchError(
            f"kernel {kernel.name} was made with enable_backward=False, so it has no gradient",
            "leave that out, or launch it outside of the tape",
        )
    return kernel.adjoints.setdefault(positions, Adjoint(kernel, positions))


def gradients(args: Sequence[Any], given: Sequence[Any] = ()) -> dict[int, array]:
    """The gradient array of each argument that has one: those given, else its own."""
    found: dict[int, array] = {}
    for k, argument in enumerate(args):
        grad = given[k] if k < len(given) else None
        if grad is None and isinstance(argument, array):
            grad = argument.grad
        if grad is not None:
            found[k] = grad if isinstance(grad, array) else array(grad, copy=False)
    return found
