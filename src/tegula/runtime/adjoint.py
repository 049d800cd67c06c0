"""Adjoint kernels, which compute the gradients of a kernel's launches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from tegula.dataclass import dataclass, replace
from tegula.errors import LaunchError
from tegula.ir import NO_OVERLAP, AccessClass, LaunchClass, LaunchOverlap, StructureRead, Value
from tegula.ir import Kernel as KernelIR
from tegula.ir.rewrite import clone_region
from tegula.lang.annotations import ANY, Annotation, array_annotation
from tegula.lang.captures import Captured, refresh, unchanged
from tegula.lang.definition import FuncDef, Parameter
from tegula.runtime.array import array, array_with_layout_of
from tegula.runtime.config import config
from tegula.runtime.device import CPU, Device
from tegula.runtime.dimensions import MAX_INT32, check_dimensions
from tegula.runtime.fast_path import key as fast_path_key
from tegula.runtime.fast_path import make_fast_path, put_bounded
from tegula.runtime.kernel import SOURCE, Kernel, Specialisation
from tegula.runtime.library import library
from tegula.runtime.resolve import overlaps, requested_specialisation
from tegula.types import ArrayType, DType, Type, components, element_bytes, is_element, scalar_of

if TYPE_CHECKING:
    from tegula.passes.gradient import AdjointStep, Partials
    from tegula.runtime.launch import LaunchPlan

BUSY_CPU = 32
"""The number of blocks that occupy a CPU; independent of the number of cores, so that sums are the same on all CPUs."""
ADDRESS_BYTES = 8
"""The size in bytes of an array's address, the first field of an array's descriptor."""
MAX_CACHED_LAUNCHES = 256
"""The maximum number of cached launches of an adjoint for arguments of given types and kinds of memory."""


@dataclass(frozen=True, slots=True)
class TileGrid:
    """The grid of tiles (rows, columns) of a forward launch with persistent blocks. `extents`: the two extents, as
    values of the kernel with the parameters `params`; None if the grid equals the launch grid. `max_dims`: the maximum
    dimensions of a launch for which a gradient exists."""

    params: Sequence[Value]
    extents: tuple[Value, Value] | None
    max_dims: tuple[int, ...] = ()


class Adjoint(Kernel):
    """The adjoint of a kernel. Its parameters are the kernel's parameters, then a gradient for each array at
    `positions`. `reads`: the positions of the kernel's arrays whose elements the adjoint needs; `queries`: whether the
    adjoint queries spatial structures; `launched_parts`: the kernels of the last launch."""

    def __init__(self, forward: Kernel, positions: tuple[int, ...]) -> None:
        super().__init__(forward.definition, forward.options)
        self.forward = forward
        self.positions = positions
        self.name = f"{forward.name}_adjoint"
        self.reads: set[int] = set()
        self.queries = False
        self.launched_parts: list[Part] = []
        self.grid = TileGrid((), None)
        self.steps: dict[Any, list[list[Part]]] = {}
        """The adjoint's kernels by specialisation, with a list for each state of the captures."""
        self.programs: dict[tuple[Type, ...], AdjointPrograms] = {}
        """Cached launches by the types of the arguments."""

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters, all leaves, because adjoints have no compound arguments."""
        forward_parameters = self.forward.parameters
        return [
            *forward_parameters,
            *(Parameter(f"adj_{forward_parameters[k].name}", ANY) for k in self.positions),
        ]

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
        from tegula.passes.gradient import arrays_read, differentiate, max_launch_dims, sequentialise
        from tegula.passes.pipeline import check

        count = len(self.forward.parameters)
        forward_access = access[:count]
        kernel = trace(
            self.definition, param_types[:count], launch, forward_access, functions, differentiable=True
        )
        check(kernel)
        extents = sequentialise(kernel)
        gradient_kernel = differentiate(kernel, self.positions, tuple(access[count:]))
        self.grid = TileGrid(kernel.params, extents, max_launch_dims(gradient_kernel))
        return gradient_kernel, frozenset(arrays_read(gradient_kernel, count))

    def steps_for(self, specialisation: Specialisation) -> list[Part]:
        """The kernels that are launched in order, for the current values of captured names."""
        cached_steps = self.steps.setdefault((specialisation, config.deterministic), [])
        steps = next((cached for cached in cached_steps if cached[0].is_current()), [])
        if not steps:
            from tegula.passes.gradient import check_order, split_adjoint

            kernel = self.trace(specialisation.types, specialisation.launch, specialisation.access, library())
            captured = kernel.captured
            new_steps = split_adjoint(kernel, len(self.forward.parameters), config.deterministic)
            if config.deterministic and specialisation.device.is_cuda:
                check_order(new_steps)
            steps = [Part(self, step, captured, self.grid) for step in new_steps]
            cached_steps.append(steps)
        return steps

    def launches(self, plan: LaunchPlan, args: tuple[Any, ...]) -> list[AdjointLaunch]:
        """The launches in order, for arguments that are Tegula arrays or numbers."""
        # Another thread may cache launches for arguments of other types concurrently.
        for programs in tuple(self.programs.values()):
            cached = programs.find(plan, args)
            if cached is not None:
                return cached
        specialisation = replace(requested_specialisation(self, plan, args), grid=())
        steps = self.steps_for(specialisation)
        if not plan.blocks:
            return []
        device = next((a.device for a in args if isinstance(a, array)), CPU)
        adjoint_launches = plan_launches(steps, plan.dims, args, device)
        if specialisation.types not in self.programs:
            typed = zip(self.parameters, specialisation.types, strict=True)
            self.programs[specialisation.types] = AdjointPrograms(
                [Parameter(p.name, _annotation(t)) for p, t in typed]
            )
        if not overlaps(args):
            self.programs[specialisation.types].cache(plan, args, steps, adjoint_launches)
        return adjoint_launches

    def stages(self) -> dict[str, str]:
        names = self.launched_parts[0].stages() if self.launched_parts else {}
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
        for part in self.launched_parts:
            for (name, line), size in checkpoint_bytes(part.step.kernel).items():
                lines.append(
                    f"  {name} (loop in line {line}): {size:,} bytes in a block, {size * part.blocks:,} in all"
                )
            lines += [f"  partial sums: {size:,} bytes" for size in part.sums]
        return "\n".join(["kept for the gradient:" if lines else "kept for the gradient: nothing", *lines])

    def _concatenated(self, text_of: Callable[[Kernel], str]) -> str:
        if not self.launched_parts:
            raise LaunchError(f"kernel {self.name} has not been compiled yet", "launch the kernel first")
        return "\n\n".join(map(text_of, self.launched_parts))


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
        overlap: LaunchOverlap = NO_OVERLAP,
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
        """The bytes of each array of partial sums that the last launch was the first to write."""
        self.overlap = overlap
        self.by_overlap: dict[LaunchOverlap, Part] = {overlap: self}
        """The copies of this kernel, by their overlap with the neighbouring launches of an adjoint."""
        alternative_steps = [*step.shared, *([step.wide.step] if step.wide is not None else [])]
        self.shared = [Part(adjoint, alternative, captured) for alternative in alternative_steps]
        """The alternative kernels."""

    @cached_property
    def writes(self) -> tuple[int, ...]:
        """The positions of the arrays that the kernel may write."""
        from tegula.runtime.compile import written

        return tuple(written(self.step.kernel))

    @cached_property
    def max_dims(self) -> tuple[int, ...]:
        """The maximum launch dimensions."""
        from tegula.passes.gradient import max_launch_dims

        return max_launch_dims(self.step.kernel)

    @property
    def in_order(self) -> bool:
        """Whether blocks run sequentially, because they add to the same elements in a fixed order."""
        from tegula.passes.gradient import find_block_conflict

        return config.deterministic and find_block_conflict(self.step.kernel) is not None

    def of(self, step: AdjointStep, overlap: LaunchOverlap) -> Part:
        """The kernel for one step, with an overlap with the neighbouring launches of an adjoint."""
        part = next((alternative for alternative in self.shared if alternative.step is step), self)
        if overlap not in part.by_overlap:
            part.by_overlap[overlap] = Part(self.adjoint, step, part.captured, part.grid, overlap)
        return part.by_overlap[overlap]

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
        self.captured = tuple(map(refresh, self.captured))
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
    from tegula.passes.gradient import BUSY_BLOCKS

    return BUSY_BLOCKS * device.sm_count or BUSY_CPU


Allocator = Callable[[Sequence[int], DType, Device, bool], array]
"""A function that allocates a temporary array of a shape and dtype on a device, of zeros or uninitialised."""


PartialArrays = dict[Any, array]
"""The arrays of partial sums by their Partials, and the allocations of arrays that replace arguments, by the positions
of the arguments."""


class AdjointLaunch(NamedTuple):
    """A cached launch of an adjoint for arguments of given shapes. `dims`, `threads`, `blocks`: the launch grid;
    `counts`: the integer arguments after the adjoint's arguments; `partials`: the arrays of partial sums, with their
    shapes, which are the last arguments."""

    part: Part
    dims: tuple[int, ...]
    threads: int
    blocks: int
    counts: tuple[int, ...]
    partials: tuple[tuple[Partials, tuple[int, ...]], ...]
    device: Device

    def extra(
        self, args: Sequence[Any], partial_arrays: PartialArrays, allocate: Allocator
    ) -> tuple[Any, ...]:
        """The arguments of a launch after the adjoint's arguments. `partial_arrays`: the existing arrays of partial
        sums; `allocate`: allocates new arrays."""
        part = self.part
        part.blocks = self.blocks
        if not self.partials:
            return self.counts
        part.sums = []
        for p, shape in self.partials:
            if p not in partial_arrays:
                partial_arrays[p] = (
                    self._replacement(p, args, partial_arrays, allocate)
                    if p.like
                    else self._sums(p, shape, allocate)
                )
                part.sums.append(math.prod(shape) * element_bytes(p.dtype))
        return (*self.counts, *(partial_arrays[p] for p, _ in self.partials))

    def _replacement(
        self, p: Partials, args: Sequence[Any], partial_arrays: PartialArrays, allocate: Allocator
    ) -> array:
        """An array that replaces an argument. The replacements of aliasing arguments are views of one allocation, which
        spans the arguments from their first to their last byte."""
        arrays, scalar = [args[k] for k in p.like], scalar_of(p.dtype)
        size = element_bytes(scalar_of(arrays[0].dtype))
        low, high = min(a.low for a in arrays), max(a.high for a in arrays)
        aliases = frozenset(p.like)
        if aliases not in partial_arrays:
            partial_arrays[aliases] = allocate(((high - low) // size,), scalar, self.device, p.zeroed)
        return array_with_layout_of(
            arrays[0], partial_arrays[aliases], (arrays[0].ptr - low) // size, p.dtype
        )

    def _sums(self, p: Partials, shape: tuple[int, ...], allocate: Allocator) -> array:
        """A new array of partial sums; an array of vectors or matrices is a view of an array of their components."""
        if isinstance(p.dtype, DType):
            return allocate(shape, p.dtype, self.device, p.zeroed)
        count = math.prod(shape) * components(p.dtype)
        flat = allocate((count,), scalar_of(p.dtype), self.device, p.zeroed)
        return array(flat, p.dtype, shape, copy=False)


class AdjointProgram:
    """The launches of an adjoint for one state of its captures. `control_arguments`: the positions of the number
    arguments that the launches depend on."""

    __slots__ = ("captured", "control_arguments", "launches")

    def __init__(self, captured: tuple[Captured, ...], control_arguments: frozenset[int]) -> None:
        self.captured = captured
        self.control_arguments = control_arguments
        self.launches: dict[tuple[Any, ...], list[AdjointLaunch]] = {}

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

    def find(self, plan: LaunchPlan, args: Sequence[Any]) -> list[AdjointLaunch] | None:
        """The cached launches for arguments with an equal key; None if there are none."""
        cached: Any = self.fast_path(plan, args)
        return cached and cached[0].launches.get(cached[0].key(plan, args))

    def cache(
        self, plan: LaunchPlan, args: Sequence[Any], steps: Sequence[Part], launches: list[AdjointLaunch]
    ) -> None:
        """Cache the launches of some steps for arguments with an equal key, if `find` supports the arguments: vectors
        and NumPy numbers take the slow path."""
        lookup_key = fast_path_key(plan, [a.launch_id for a in args if type(a) is array])
        captured, control_arguments = steps[0].captured, _control_arguments(steps)
        program = self.ready.get(lookup_key)
        if (
            program is None
            or program.captured != captured
            or not control_arguments <= program.control_arguments
        ):
            program = AdjointProgram(captured, control_arguments)
            put_bounded(self.ready, lookup_key, program)
        if self.fast_path(plan, args) is None:
            return
        if len(program.launches) >= MAX_CACHED_LAUNCHES:
            program.launches.clear()
        program.launches[program.key(plan, args)] = launches


def _control_arguments(steps: Sequence[Part]) -> frozenset[int]:
    """The positions of the number arguments that the launches depend on."""
    from tegula.passes.gradient import parameters_of

    tile_grid = steps[0].grid
    control_values = parameters_of(n for part in steps for n in part.step.extents())
    if tile_grid is not None and tile_grid.extents is not None:
        control_values |= parameters_of(tile_grid.extents)
    parameters = [steps[0].step.known, () if tile_grid is None else tile_grid.params]
    positions = {
        k
        for parameters_of_kernel in parameters
        for k, value in enumerate(parameters_of_kernel)
        if value in control_values
    }
    return frozenset(k for k in positions if not isinstance(steps[0].step.known[k].type, ArrayType))


def plan_launches(
    steps: Sequence[Part], dims: Sequence[int], args: Sequence[Any], device: Device
) -> list[AdjointLaunch]:
    """The launches for the steps of an adjoint. `dims`: the dimensions of the forward launch; `args`: the arguments of
    the adjoint, with Tegula arrays."""
    from tegula.backend.pool import thread_count
    from tegula.passes.gradient import ForwardLaunch, overlap_launches

    values, tile_grid = dict(zip(steps[0].step.known, args, strict=True)), steps[0].grid
    block_count = busy_blocks(device)
    if tile_grid is not None and tile_grid.extents is not None:
        values |= zip(tile_grid.params, args, strict=False)
        dims = (*ForwardLaunch(dims, values, block_count).numbers(tile_grid.extents), dims[-1])
    if tile_grid is not None:
        _check_dims(dims, tile_grid.max_dims)
    forward_launch = ForwardLaunch(dims, values, block_count, device.is_cuda, thread_count())
    step_launches: list[tuple[Part, AdjointStep, tuple[int, ...]]] = []
    for part in steps:
        for step in forward_launch.steps(part.step):
            grid = None if step.grid is None else forward_launch.numbers(step.grid)
            shape = tuple(dims) if grid is None else (*grid, step.kernel.launch.block_dim)
            if 0 not in shape:
                step_launches.append((part, step, shape))
    overlaps = (
        overlap_launches([step for _, step, _ in step_launches])
        if device.is_cuda
        else [NO_OVERLAP] * len(step_launches)
    )
    launches: list[AdjointLaunch] = []
    for (part, step, shape), overlap in zip(step_launches, overlaps, strict=True):
        threads = step.kernel.launch.block_dim
        blocks = -(-math.prod(shape) // threads)
        partials = tuple((p, forward_launch.numbers(p.shape)) for p in step.partials)
        counts = forward_launch.numbers(step.counts)
        check_dimensions(shape)
        if max(counts, default=0) > MAX_INT32:
            raise LaunchError(
                f"the gradient would count to {max(counts)}, which exceeds int32", "launch several times"
            )
        launched_part = part.of(step, overlap)
        _check_dims(shape, launched_part.max_dims)
        launches.append(AdjointLaunch(launched_part, shape, threads, blocks, counts, partials, device))
    return launches


def _check_dims(dims: Sequence[int], max_dims: Sequence[int]) -> None:
    """Raise LaunchError if different blocks would own the same elements of a gradient."""
    for k, (n, maximum) in enumerate(zip(dims, max_dims, strict=False)):
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
