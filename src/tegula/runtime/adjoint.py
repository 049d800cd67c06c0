"""Adjoint kernels, which compute the gradients of a kernel's launches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tegula.dataclass import dataclass, replace
from tegula.errors import LaunchError
from tegula.ir import ALONE, AccessClass, LaunchClass, LaunchOverlap, StructureRead, Value
from tegula.ir import Kernel as KernelIR
from tegula.ir.rewrite import clone_region
from tegula.lang.annotations import ANY, Annotation, array_annotation
from tegula.lang.captures import Captured, refreshed, unchanged
from tegula.lang.definition import FuncDef, Parameter
from tegula.runtime.array import array, array_with_layout_of
from tegula.runtime.config import config
from tegula.runtime.device import CPU, Device
from tegula.runtime.dimensions import MAX_INT32, check_dimensions
from tegula.runtime.fast_path import keep, make_fast_path
from tegula.runtime.fast_path import key as fast_path_key
from tegula.runtime.kernel import SOURCE, Kernel, Specialisation
from tegula.runtime.library import library
from tegula.runtime.resolve import overlaps, wanted_form
from tegula.types import ArrayType, DType, Type, components, element_bytes, is_element, scalar_of

if TYPE_CHECKING:
    from tegula.passes.gradient import AdjointStep, Partials
    from tegula.runtime.launch import LaunchPlan

BUSY_CPU = 32
"""The number of blocks that occupy a CPU; independent of the number of cores, so that sums are the same on all CPUs."""
ADDRESS_BYTES = 8
"""The size in bytes of an array's address, the first field of an array's descriptor."""
MAX_KNOWN = 256
"""The maximum number of cached launches of an adjoint for arguments of given types and kinds of memory."""


@dataclass(frozen=True, slots=True)
class TileGrid:
    """The grid of tiles, rows and columns, of a forward launch with persistent blocks: values of the kernel with the
    parameters `params`. `extents` is None if the grid equals the launch grid. `longest`: the maximum dimensions of the
    launch for the gradient."""

    params: Sequence[Value]
    extents: tuple[Value, Value] | None
    longest: tuple[int, ...] = ()


class Adjoint(Kernel):
    """The adjoint of a kernel. Its parameters are the kernel's parameters, then a gradient for each array at
    `positions`. `reads`: the positions of the kernel's arrays whose elements the adjoint needs; `queries`: whether the
    adjoint queries spatial structures; `launched`: the kernels of the last launch."""

    def __init__(self, forward: Kernel, positions: tuple[int, ...]) -> None:
        super().__init__(forward.definition, forward.options)
        self.forward = forward
        self.positions = positions
        self.name = f"{forward.name}_adjoint"
        self.reads: set[int] = set()
        self.queries = False
        self.launched: list[Part] = []
        self.grid = TileGrid((), None)
        self.steps: dict[Any, list[list[Part]]] = {}
        """The adjoint's kernels by specialisation, with a list for each state of the captures."""
        self.programs: dict[tuple[Type, ...], AdjointPrograms] = {}
        """Cached launches by the types of the arguments."""

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters, all leaves, because adjoints have no compound arguments."""
        own = self.forward.parameters
        return [*own, *(Parameter(f"adj_{own[k].name}", ANY) for k in self.positions)]

    def trace(
        self,
        param_types: Sequence[Type],
        launch: LaunchClass,
        access: Sequence[AccessClass | None] = (),
        functions: Mapping[str, FuncDef] | None = None,
    ) -> KernelIR:
        kernel, indices = self.trace_reads(param_types, launch, access, functions)
        self.reads.update(indices)
        self.queries = self.queries or any(isinstance(op, StructureRead) for op in kernel.walk())
        return kernel

    def trace_reads(
        self,
        param_types: Sequence[Type],
        launch: LaunchClass,
        access: Sequence[AccessClass | None],
        functions: Mapping[str, FuncDef] | None,
    ) -> tuple[KernelIR, frozenset[int]]:
        """The adjoint's IR, and the positions of the kernel's own arrays whose elements the adjoint reads."""
        from tegula.lang.kernel import trace
        from tegula.passes.gradient import differentiate, longest, reads, sequentialise
        from tegula.passes.pipeline import check

        n = len(self.forward.parameters)
        own = access[:n]
        kernel = trace(self.definition, param_types[:n], launch, own, functions, differentiable=True)
        check(kernel)
        extents = sequentialise(kernel)
        gradient_kernel = differentiate(kernel, self.positions, tuple(access[n:]))
        self.grid = TileGrid(kernel.params, extents, longest(gradient_kernel))
        return gradient_kernel, frozenset(reads(gradient_kernel, n))

    def steps_for(self, requested: Specialisation) -> list[Part]:
        """The kernels that are launched in order, for the current values of captured names."""
        parts = self.steps.setdefault((requested, config.deterministic), [])
        steps = next((p for p in parts if p[0].is_current()), [])
        if not steps:
            from tegula.passes.gradient import check_order, split

            kernel = self.trace(requested.types, requested.launch, requested.access, library())
            captured = kernel.captured
            new_steps = split(kernel, len(self.forward.parameters), config.deterministic)
            if config.deterministic and requested.device.is_cuda:
                check_order(new_steps)
            steps = [Part(self, step, captured, self.grid) for step in new_steps]
            parts.append(steps)
        return steps

    def launches(self, shape: LaunchPlan, args: tuple[Any, ...]) -> list[KnownLaunch]:
        """The launches in order, for arguments that are Tegula arrays or numbers."""
        # Another thread may cache launches for arguments of other types concurrently.
        for programs in tuple(self.programs.values()):
            known = programs.find(shape, args)
            if known is not None:
                return known
        requested = replace(wanted_form(self, shape, args), grid=())
        steps = self.steps_for(requested)
        if not shape.blocks:
            return []
        device = next((a.device for a in args if isinstance(a, array)), CPU)
        planned = plan_launches(steps, shape.dims, args, device)
        if requested.types not in self.programs:
            typed = zip(self.parameters, requested.types, strict=True)
            self.programs[requested.types] = AdjointPrograms(
                [Parameter(p.name, _annotation(t)) for p, t in typed]
            )
        if not overlaps(args):
            self.programs[requested.types].cache(shape, args, steps, planned)
        return planned

    def stages(self) -> dict[str, str]:
        names = self.launched[0].stages() if self.launched else {}
        return {name: self._concatenated(lambda step, at=name: step.stages()[at]) for name in names}

    def ir(self, stage: str = SOURCE) -> str:
        return self._concatenated(lambda step: step.ir(stage))

    def llvm(self) -> str:
        return self._concatenated(Kernel.llvm)

    def assembly(self) -> str:
        return self._concatenated(Kernel.assembly)

    def sass(self) -> str:
        return self._concatenated(Kernel.sass)

    def explain(self) -> str:
        """A text about the adjoint's launches and the memory that they need for the gradient: checkpoints of loop
        iterations in each block, and partial sums that a later launch reduces."""
        return f"{self._concatenated(Kernel.explain)}\n\n{self.memory_report()}"

    def memory_report(self) -> str:
        """A report of the memory reserved for the gradient: the bytes of each value, in a block and in the last
        launch."""
        from tegula.passes.gradient import checkpoint_bytes

        lines: list[str] = []
        for part in self.launched:
            for (name, line), size in checkpoint_bytes(part.step.kernel).items():
                lines.append(
                    f"  {name} (loop in line {line}): {size:,} bytes in a block, {size * part.blocks:,} in all"
                )
            lines += [f"  partial sums: {size:,} bytes" for size in part.sums]
        return "\n".join(["kept for the gradient:" if lines else "kept for the gradient: nothing", *lines])

    def _concatenated(self, show: Callable[[Kernel], str]) -> str:
        if not self.launched:
            raise LaunchError(f"kernel {self.name} has not been compiled yet", "launch the kernel first")
        return "\n\n".join(map(show, self.launched))


def _annotation(t: Type) -> Annotation:
    """The annotation of a parameter of a given type."""
    if isinstance(t, ArrayType):
        return array_annotation(t.dtype, t.ndim)
    assert is_element(t)
    return t


class Part(Kernel):
    """A kernel that an adjoint launches, for one specialisation. Its parameters are the adjoint's parameters, followed
    by numbers of blocks."""

    def __init__(
        self,
        adjoint: Adjoint,
        step: AdjointStep,
        captured: tuple[Captured, ...],
        grid: TileGrid | None = None,
        overlap: LaunchOverlap = ALONE,
    ) -> None:
        super().__init__(adjoint.definition, adjoint.options)
        self.adjoint = adjoint
        self.step = step
        self.name = step.kernel.name
        self.captured = captured
        self.grid = grid
        """The grid of the forward launch's blocks."""
        self.blocks = 0
        """The number of blocks of the kernel's last launch."""
        self.sums: list[int] = []
        """The bytes of each array of partial sums, by the last launch, if this launch was the first to write the
        array."""
        self.overlap = overlap
        self.placed: dict[LaunchOverlap, Part] = {overlap: self}
        """The copies of this kernel for the positions among an adjoint's launches at which it was used."""
        others = [*step.shared, *([step.wide.step] if step.wide is not None else [])]
        self.shared = [Part(adjoint, s, captured) for s in others]
        """The alternative kernels."""

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """The positions of the arrays that the kernel may write."""
        from tegula.runtime.compile import written

        return tuple(written(self.step.kernel))

    @cached_property
    def longest(self) -> tuple[int, ...]:
        """The maximum launch dimensions."""
        from tegula.passes.gradient import longest

        return longest(self.step.kernel)

    @property
    def in_order(self) -> bool:
        """Whether blocks run sequentially, because they add to the same elements in a fixed order."""
        from tegula.passes.gradient import find_block_conflict

        return config.deterministic and find_block_conflict(self.step.kernel) is not None

    def of(self, step: AdjointStep, overlap: LaunchOverlap) -> Part:
        """The kernel for one step, at a position among an adjoint's launches."""
        part = next((p for p in self.shared if p.step is step), self)
        if overlap not in part.placed:
            part.placed[overlap] = Part(self.adjoint, step, part.captured, part.grid, overlap)
        return part.placed[overlap]

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters, all leaves, because adjoints have no compound arguments."""
        kernel = self.step.kernel
        return [
            Parameter(name, _annotation(p.type))
            for name, p in zip(kernel.param_names, kernel.params, strict=True)
        ]

    def is_current(self) -> bool:
        """Whether the captures from which the kernel was generated are unchanged."""
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
        step_kernel = self.step.kernel
        body = clone_region(step_kernel.body, {})
        kernel = KernelIR(step_kernel.name, step_kernel.param_names, body, launch, access, step_kernel.loc)
        kernel.captured = self.captured
        kernel.overlap = self.overlap
        return kernel


def busy_blocks(device: Device) -> int:
    """The number of blocks that keep a device busy."""
    from tegula.passes.gradient import BUSY

    return BUSY * device.sm_count or BUSY_CPU


Memory = Callable[[Sequence[int], DType, Device, bool], array]
"""A function that allocates a temporary array of a shape and dtype on a device, of zeros or uninitialised."""


Rows = dict[Any, array]
"""The arrays of partial sums, by their Partials, and the memory of arrays that replace arguments, by the positions."""


class KnownLaunch(NamedTuple):
    """A launch of an adjoint for arguments of given shapes. `dims`, `threads`, `blocks`: the launch grid; `counts`: the
    integer arguments after the adjoint's arguments; `partials`: the arrays of partial sums, with their shapes, which
    are the last arguments."""

    part: Part
    dims: tuple[int, ...]
    threads: int
    blocks: int
    counts: tuple[int, ...]
    partials: tuple[tuple[Partials, tuple[int, ...]], ...]
    device: Device

    def extra(self, args: Sequence[Any], rows: Rows, memory: Memory) -> tuple[Any, ...]:
        """The arguments of a launch after the adjoint's arguments. `rows`: the existing arrays of partial sums;
        `memory`: allocates new arrays."""
        part = self.part
        part.blocks = self.blocks
        if not self.partials:
            return self.counts
        part.sums = []
        for p, shape in self.partials:
            if p not in rows:
                rows[p] = self._replacement(p, args, rows, memory) if p.like else self._sums(p, shape, memory)
                part.sums.append(math.prod(shape) * element_bytes(p.dtype))
        return (*self.counts, *(rows[p] for p, _ in self.partials))

    def _replacement(self, p: Partials, args: Sequence[Any], rows: Rows, memory: Memory) -> array:
        """An array that replaces an argument. The replacements of aliasing arguments are views of one allocation, which
        spans these arguments from the first to the last byte."""
        arrays, scalar = [args[k] for k in p.like], scalar_of(p.dtype)
        size = element_bytes(scalar_of(arrays[0].dtype))
        low, high = min(a.low for a in arrays), max(a.high for a in arrays)
        together = frozenset(p.like)
        if together not in rows:
            rows[together] = memory(((high - low) // size,), scalar, self.device, p.zeroed)
        return array_with_layout_of(arrays[0], rows[together], (arrays[0].ptr - low) // size, p.dtype)

    def _sums(self, p: Partials, shape: tuple[int, ...], memory: Memory) -> array:
        """A new array of partial sums; an array of vectors or matrices is a view of an array of their components."""
        if isinstance(p.dtype, DType):
            return memory(shape, p.dtype, self.device, p.zeroed)
        count = math.prod(shape) * components(p.dtype)
        flat = memory((count,), scalar_of(p.dtype), self.device, p.zeroed)
        return array(flat, p.dtype, shape, copy=False)


class AdjointProgram:
    """The launches of an adjoint for one state of its captures. `control_arguments`: the positions of the number
    arguments that the launches depend on."""

    __slots__ = ("captured", "control_arguments", "launches")

    def __init__(self, captured: tuple[Captured, ...], control_arguments: frozenset[int]) -> None:
        self.captured = captured
        self.control_arguments = control_arguments
        self.launches: dict[tuple[Any, ...], list[KnownLaunch]] = {}

    def key(self, plan: LaunchPlan, args: Sequence[Any]) -> tuple[Any, ...]:
        """The key of the launches: the dimensions of the forward launch, the lengths and strides of arrays, the number
        arguments at `control_arguments`, and whether additions have a fixed order. The types of all numbers are part of
        the key, because an int may be passed for a float and may need different launches."""
        return (
            config.deterministic,
            plan.dims,
            *[a.packed[ADDRESS_BYTES:] if type(a) is array else type(a) for a in args],
            *[args[k] for k in self.control_arguments],
        )


class AdjointPrograms:
    """The programs for arguments of given types, with the look-up of `runtime.fast_path`."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.ready: dict[Any, Any] = {}
        self.fast_path = make_fast_path(parameters, self.ready)

    def find(self, plan: LaunchPlan, args: Sequence[Any]) -> list[KnownLaunch] | None:
        """The cached launches for arguments with an equal key; None if there are none."""
        known: Any = self.fast_path(plan, args)
        return known and known[0].launches.get(known[0].key(plan, args))

    def cache(
        self, plan: LaunchPlan, args: Sequence[Any], steps: Sequence[Part], launches: list[KnownLaunch]
    ) -> None:
        """Cache the launches of some steps for arguments with an equal key, if `find` supports the arguments: vectors
        and NumPy numbers take the slow path."""
        at = fast_path_key(plan, [a.launch_id for a in args if type(a) is array])
        captured, control_arguments = steps[0].captured, _control_arguments(steps)
        program = self.ready.get(at)
        if (
            program is None
            or program.captured != captured
            or not control_arguments <= program.control_arguments
        ):
            program = AdjointProgram(captured, control_arguments)
            keep(self.ready, at, program)
        if self.fast_path(plan, args) is None:
            return
        if len(program.launches) >= MAX_KNOWN:
            program.launches.clear()
        program.launches[program.key(plan, args)] = launches


def _control_arguments(steps: Sequence[Part]) -> frozenset[int]:
    """The positions of the number arguments that the launches depend on."""
    from tegula.passes.gradient import parameters_of

    walked = steps[0].grid
    requested = parameters_of(n for part in steps for n in part.step.extents())
    if walked is not None and walked.extents is not None:
        requested |= parameters_of(walked.extents)
    parameters = [steps[0].step.known, () if walked is None else walked.params]
    positions = {k for known in parameters for k, value in enumerate(known) if value in requested}
    return frozenset(k for k in positions if not isinstance(steps[0].step.known[k].type, ArrayType))


def plan_launches(
    steps: Sequence[Part], dims: Sequence[int], args: Sequence[Any], device: Device
) -> list[KnownLaunch]:
    """The launches for the steps of an adjoint. `dims`: the dimensions of the forward launch; `args`: the arguments of
    the adjoint, with Tegula arrays."""
    from tegula.backend.pool import thread_count
    from tegula.passes.gradient import ForwardLaunch, in_series

    values, walked = dict(zip(steps[0].step.known, args, strict=True)), steps[0].grid
    busy = busy_blocks(device)
    if walked is not None and walked.extents is not None:
        values |= zip(walked.params, args, strict=False)
        dims = (*ForwardLaunch(dims, values, busy).numbers(walked.extents), dims[-1])
    if walked is not None:
        _check_longest(dims, walked.longest)
    forward_launch = ForwardLaunch(dims, values, busy, device.is_cuda, thread_count())
    requested: list[tuple[Part, AdjointStep, tuple[int, ...]]] = []
    for part in steps:
        for step in forward_launch.steps(part.step):
            grid = None if step.grid is None else forward_launch.numbers(step.grid)
            shape = tuple(dims) if grid is None else (*grid, step.kernel.launch.block_dim)
            if 0 not in shape:
                requested.append((part, step, shape))
    overlaps = in_series([step for _, step, _ in requested]) if device.is_cuda else [ALONE] * len(requested)
    launches: list[KnownLaunch] = []
    for (part, step, shape), overlap in zip(requested, overlaps, strict=True):
        threads = step.kernel.launch.block_dim
        blocks = -(-math.prod(shape) // threads)
        partials = tuple((p, forward_launch.numbers(p.shape)) for p in step.partials)
        counts = forward_launch.numbers(step.counts)
        check_dimensions(shape)
        if max(counts, default=0) > MAX_INT32:
            raise LaunchError(
                f"the gradient would count to {max(counts)}, which exceeds int32", "launch several times"
            )
        made_of = part.of(step, overlap)
        _check_longest(shape, made_of.longest)
        launches.append(KnownLaunch(made_of, shape, threads, blocks, counts, partials, device))
    return launches


def _check_longest(dims: Sequence[int], longest: Sequence[int]) -> None:
    """Raise LaunchError if different blocks would own the same elements of a gradient."""
    for k, (n, maximum) in enumerate(zip(dims, longest, strict=False)):
        if n > maximum:
            raise LaunchError(
                f"dimension {k} of the gradient's launch has {n} blocks or threads, and the offsets beyond number "
                f"{maximum} wrap around int32, to elements of other blocks",
                "launch several times, with fewer blocks or threads each",
            )


def adjoint_of(kernel: Kernel, positions: tuple[int, ...]) -> Adjoint:
    """The adjoint of a kernel for gradients of the arrays at given positions; LaunchError if the kernel is declared to
    have no adjoint."""
    if kernel.options.enable_backward is False:
        raise LaunchError(
            f"kernel {kernel.name} was declared with enable_backward=False, so it has no gradient",
            "remove enable_backward=False, or launch the kernel outside of the tape",
        )
    adjoint = kernel.adjoints.get(positions)
    if adjoint is None:
        adjoint = kernel.adjoints[positions] = Adjoint(kernel, positions)
    return adjoint


def gradients(args: Sequence[Any], grads: Sequence[array | None] = ()) -> dict[int, array]:
    """The gradient array of each float argument that has one: the given array, else the argument's own gradient."""
    arrays: dict[int, array] = {}
    for k, argument in enumerate(args):
        grad = grads[k] if k < len(grads) else None
        if isinstance(argument, array) and not scalar_of(argument.dtype).is_float:
            continue  # the existing gradient stays zero
        if grad is None and isinstance(argument, array):
            grad = argument.grad
        if grad is not None:
            arrays[k] = grad
    return arrays
