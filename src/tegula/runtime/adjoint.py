"""Adjoint kernels: what computes the gradients of a kernel's launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.errors import LaunchError
from tegula.ir import AccessClass, LaunchClass
from tegula.ir import Kernel as KernelIR
from tegula.lang.annotations import ANY
from tegula.lang.captures import Captured, refreshed, unchanged
from tegula.lang.definition import FuncDef, Parameter
from tegula.lang.kernel import trace
from tegula.rewrite import clone_region
from tegula.runtime.array import array
from tegula.runtime.kernel import Kernel, Specialisation
from tegula.runtime.library import library
from tegula.types import Type, int32

if TYPE_CHECKING:
    from tegula.passes.gradient import Step


class Adjoint(Kernel):
    """The adjoint of a kernel: its parameters are the kernel's own, then a gradient for each array at `positions`.
    `reads`: the positions of the kernel's own arrays whose elements it needs; `steps`: the kernels that were launched
    for it last."""

    def __init__(self, forward: Kernel, positions: tuple[int, ...]) -> None:
        super().__init__(forward.definition, forward.options)
        self.forward = forward
        self.positions = positions
        self.name = f"{forward.name}_adjoint"
        self.reads: set[int] = set()
        self.steps: list[Part] = []
        self._programs: dict[Any, list[list[Part]]] = {}

    @property
    def parameters(self) -> list[Parameter]:
        own = self.forward.parameters
        return [*own, *(Parameter(f"adj_{own[k].name}", ANY) for k in self.positions)]

    def trace(
        self,
        param_types: Sequence[Type],
        launch: LaunchClass,
        access: Sequence[AccessClass | None] = (),
        functions: Mapping[str, FuncDef] | None = None,
    ) -> KernelIR:
        made, found = self.trace_reads(param_types, launch, access, functions)
        self.reads.update(found)
        return made

    def trace_reads(
        self,
        param_types: Sequence[Type],
        launch: LaunchClass,
        access: Sequence[AccessClass | None],
        functions: Mapping[str, FuncDef] | None,
    ) -> tuple[KernelIR, frozenset[int]]:
        """Its IR, and the positions of the kernel's own arrays whose elements that reads."""
        from tegula.passes.gradient import differentiate, reads

        n = len(self.forward.parameters)
        own = access[:n]
        kernel = trace(self.definition, param_types[:n], launch, own, functions, differentiable=True)
        made = differentiate(kernel, self.positions, tuple(access[n:]))
        return made, frozenset(reads(made, n))

    def steps_for(self, wanted: Specialisation) -> list[Part]:
        """The kernels that are launched, one after the other, for what captured names mean now."""
        programs = self._programs.setdefault(wanted, [])
        self.steps = next((p for p in programs if p[0].is_current()), [])
        if not self.steps:
            from tegula.passes.gradient import split

            whole = self.trace(wanted.types, wanted.launch, wanted.access, library())
            captured = whole.captured
            self.steps = [Part(self, step, captured) for step in split(whole, len(self.forward.parameters))]
            programs.append(self.steps)
        return self.steps

    def stages(self) -> dict[str, str]:
        found = [step.stages() for step in self._launched()]
        return {name: "\n".join(s[name] for s in found) for name in found[0]}

    def llvm(self) -> str:
        return self._joined(Kernel.llvm)

    def assembly(self) -> str:
        return self._joined(Kernel.assembly)

    def sass(self) -> str:
        return self._joined(Kernel.sass)

    def explain(self) -> str:
        return self._joined(Kernel.explain)

    def _joined(self, show: Callable[[Kernel], str]) -> str:
        return "\n\n".join(map(show, self._launched()))

    def _launched(self) -> list[Part]:
        if not self.steps:
            raise LaunchError(f"{self.name} has no compiled form to show", "launch it first")
        return self.steps


class Part(Kernel):
    """A kernel that is launched for an adjoint: its parameters are the adjoint's, then numbers of blocks. It exists for
    one specialisation."""

    def __init__(self, adjoint: Adjoint, step: Step, captured: tuple[Captured, ...]) -> None:
        super().__init__(adjoint.definition, adjoint.options)
        self.adjoint = adjoint
        self.step = step
        self.name = step.kernel.name
        self.captured = captured

    @property
    def parameters(self) -> list[Parameter]:
        names = self.step.kernel.param_names
        own = self.adjoint.parameters
        return [*own, *(Parameter(name, int32) for name in names[len(own) :])]

    def is_current(self) -> bool:
        """Whether it is made of what captured names mean now."""
        if not all(map(unchanged, self.captured)):
            return False
        self.captured = tuple(map(refreshed, self.captured))
        return True

    def trace(
        self,
        param_types: Sequence[Type],
        launch: LaunchClass,
        access: Sequence[AccessClass | None] = (),
        functions: Mapping[str, FuncDef] | None = None,
    ) -> KernelIR:
        made = self.step.kernel
        body = clone_region(made.body, {})
        kernel = KernelIR(made.name, made.param_names, body, launch, access, made.loc)
        kernel.captured = self.captured
        return kernel

    def numbers(self, dims: Sequence[int], args: Sequence[Any]) -> tuple[tuple[int, ...] | None, list[int]]:
        """The dimensions that it is launched over, None for those of the forward launch, and its last arguments.
        `dims`: of the forward launch; `args`: of the adjoint."""
        from tegula.passes.gradient import evaluate

        step, values = self.step, dict(zip(self.step.known, args, strict=True))
        counts = [evaluate(x, dims, values) for x in step.counts]
        if step.grid is None:
            return None, counts
        return (*(max(0, evaluate(x, dims, values)) for x in step.grid), dims[-1]), counts


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
