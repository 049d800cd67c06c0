"""Adjoint kernels: what computes the gradients of a kernel's launches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tegula.dataclass import dataclass
from tegula.errors import LaunchError
from tegula.ir import AccessClass, LaunchClass, Value
from tegula.ir import Kernel as KernelIR
from tegula.lang.annotations import ANY, Annotation, array_annotation
from tegula.lang.captures import Captured, refreshed, unchanged
from tegula.lang.definition import FuncDef, Parameter
from tegula.lang.kernel import trace
from tegula.passes.pipeline import check
from tegula.rewrite import clone_region
from tegula.runtime.array import allocate, array, wrap
from tegula.runtime.config import config
from tegula.runtime.device import CPU, Device
from tegula.runtime.kernel import SOURCE, Kernel, Specialisation
from tegula.runtime.library import library
from tegula.types import ArrayType, Type, element_bytes, is_element

if TYPE_CHECKING:
    from tegula.passes.gradient import Step

BUSY_CPU = 32
"""Blocks that keep a CPU busy; not a multiple of its cores, so that sums are the same on all of them."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The blocks of a forward launch whose blocks take tiles in turn, one for each tile: rows and columns, values of
    the kernel with these parameters. None where the launch itself says."""

    params: Sequence[Value]
    extents: tuple[Value, Value] | None


class Adjoint(Kernel):
    """The adjoint of a kernel: its parameters are the kernel's own, then a gradient for each array at `positions`.
    `reads`: the positions of the kernel's own arrays whose elements it needs; `launched`: the kernels of its last
    launch."""

    def __init__(self, forward: Kernel, positions: tuple[int, ...]) -> None:
        super().__init__(forward.definition, forward.options)
        self.forward = forward
        self.positions = positions
        self.name = f"{forward.name}_adjoint"
        self.reads: set[int] = set()
        self.launched: list[Part] = []
        self.grid = Grid((), None)
        self.alone: dict[bool, list[Part]] = {False: [], True: []}
        """Those that are launched as the forward kernel was, and nothing else; by whether the order is to be fixed."""
        self.programs: dict[Any, list[list[Part]]] = {}

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
        from tegula.passes.gradient import differentiate, reads, sequentialise

        n = len(self.forward.parameters)
        own = access[:n]
        kernel = trace(self.definition, param_types[:n], launch, own, functions, differentiable=True)
        check(kernel)
        self.grid = Grid(kernel.params, sequentialise(kernel))
        made = differentiate(kernel, self.positions, tuple(access[n:]))
        return made, frozenset(reads(made, n))

    def steps_for(self, wanted: Specialisation) -> list[Part]:
        """The kernels that are launched, one after the other, for what captured names mean now."""
        programs = self.programs.setdefault((wanted, config.deterministic), [])
        steps = next((p for p in programs if p[0].is_current()), [])
        if not steps:
            from tegula.passes.gradient import check_order, split

            whole = self.trace(wanted.types, wanted.launch, wanted.access, library())
            captured = whole.captured
            made = split(whole, len(self.forward.parameters), config.deterministic)
            if config.deterministic and wanted.device.is_cuda:
                check_order(made)
            steps = [Part(self, step, captured, self.grid) for step in made]
            programs.append(steps)
            if len(steps) == 1 and steps[0].is_alone:
                self.alone[config.deterministic].append(steps[0])
        return steps

    def stages(self) -> dict[str, str]:
        names = self.launched[0].stages() if self.launched else {}
        return {name: self._joined(lambda step, at=name: step.stages()[at]) for name in names}

    def ir(self, stage: str = SOURCE) -> str:
        return self._joined(lambda step: step.ir(stage))

    def llvm(self) -> str:
        return self._joined(Kernel.llvm)

    def assembly(self) -> str:
        return self._joined(Kernel.assembly)

    def sass(self) -> str:
        return self._joined(Kernel.sass)

    def explain(self) -> str:
        """How its launches run, and what they keep for the gradient: of the rounds of loops, in each block, and sums
        that a later launch adds up."""
        return f"{self._joined(Kernel.explain)}\n\n{self.kept()}"

    def kept(self) -> str:
        """What is kept for the gradient: bytes for each value, in a block and in the last launch."""
        from tegula.passes.gradient import kept_of_loops

        lines: list[str] = []
        for part in self.launched:
            for (name, line), size in kept_of_loops(part.step.kernel).items():
                lines.append(
                    f"  {name} (loop in line {line}): {size:,} bytes in a block, {size * part.blocks:,} in all"
                )
            lines += [f"  partial sums: {size:,} bytes" for size in part.sums]
        return "\n".join(["kept for the gradient:" if lines else "kept for the gradient: nothing", *lines])

    def _joined(self, show: Callable[[Kernel], str]) -> str:
        if not self.launched:
            raise LaunchError(f"{self.name} has no compiled form to show", "launch it first")
        return "\n\n".join(map(show, self.launched))


def _annotation(t: Type) -> Annotation:
    """What a parameter of a type is annotated with."""
    if isinstance(t, ArrayType):
        return array_annotation(t.dtype, t.ndim)
    assert is_element(t)
    return t


class Part(Kernel):
    """A kernel that is launched for an adjoint: its parameters are the adjoint's, then numbers of blocks. It exists for
    one specialisation."""

    def __init__(
        self, adjoint: Adjoint, step: Step, captured: tuple[Captured, ...], grid: Grid | None = None
    ) -> None:
        super().__init__(adjoint.definition, adjoint.options)
        self.adjoint = adjoint
        self.step = step
        self.name = step.kernel.name
        self.captured = captured
        self.grid = grid
        """That of the forward blocks."""
        self.blocks = 0
        """Of its last launch."""
        self.sums: list[int] = []
        """Bytes of each array of sums that its last launch wrote."""
        others = [*step.shared, *([step.wide.step] if step.wide is not None else [])]
        self.shared = [Part(adjoint, s, captured) for s in others]
        """What may be launched instead."""

    @property
    def in_order(self) -> bool:
        """Whether its blocks run one after the other: they add to the same elements, and the order is to be fixed."""
        from tegula.passes.gradient import among_blocks

        return config.deterministic and among_blocks(self.step.kernel) is not None

    @property
    def is_alone(self) -> bool:
        """Whether it is launched with the arguments of the adjoint, over the dimensions of the forward launch."""
        step, spread = self.step, self.grid is not None and self.grid.extents is not None
        return step.grid is None and not (step.counts or step.partials or spread or self.in_order)

    def of(self, step: Step) -> Part:
        return next((p for p in self.shared if p.step is step), self)

    @property
    def parameters(self) -> list[Parameter]:
        kernel = self.step.kernel
        return [
            Parameter(name, _annotation(p.type))
            for name, p in zip(kernel.param_names, kernel.params, strict=True)
        ]

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


def busy_blocks(device: Device) -> int:
    """Blocks that keep a device busy."""
    from tegula.passes.gradient import BUSY

    return BUSY * device.sm_count or BUSY_CPU


def launches(
    steps: Sequence[Part], dims: Sequence[int], args: Sequence[Any]
) -> Iterator[tuple[Part, tuple[int, ...], tuple[Any, ...]]]:
    """What is launched for the steps of an adjoint: a kernel, its dimensions and its arguments. `dims`: of the forward
    launch; `args`: of the adjoint, ours."""
    from tegula.passes.gradient import Launch

    where = next((a.device for a in args if isinstance(a, array)), CPU)
    values, grid = dict(zip(steps[0].step.known, args, strict=True)), steps[0].grid
    busy = busy_blocks(where)
    if grid is not None and grid.extents is not None:
        values |= zip(grid.params, args, strict=False)
        dims = (*Launch(dims, values, busy).numbers(grid.extents), dims[-1])
    made = Launch(dims, values, busy, where.is_cuda)
    rows: dict[Any, array] = {}
    steps[0].adjoint.launched.clear()
    for part in steps:
        for step in made.steps(part.step):
            launched = part.of(step)
            launched.sums = []
            for p in step.partials:
                if p not in rows:
                    launched.sums.append(math.prod(made.numbers(p.shape)) * element_bytes(p.dtype))
                    rows[p] = wrap(allocate(made.numbers(p.shape), p.dtype, where), p.dtype, where)
                    if p.zeroed:
                        rows[p].zero_()
            extra = (*made.numbers(step.counts), *(rows[p] for p in step.partials))
            shape = (
                tuple(dims) if step.grid is None else (*made.numbers(step.grid), step.kernel.launch.block_dim)
            )
            if 0 not in shape:
                launched.blocks = -(-math.prod(shape) // step.kernel.launch.block_dim)
                steps[0].adjoint.launched.append(launched)
                yield launched, shape, (*args, *extra)


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
