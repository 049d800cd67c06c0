"""Kernels as functions that return their outputs, for `tegula.torch` and `tegula.jax`.

The function takes its inputs by value and allocates its outputs, so that another library can differentiate it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.errors import CompileError, LaunchError
from tegula.lang.annotations import ANY, ArrayAnnotation
from tegula.lang.captures import Captured, unchanged
from tegula.ops.gradient import gradient_element
from tegula.runtime.adjoint import adjoint_of
from tegula.runtime.array import adopt, array, wrap
from tegula.runtime.array_memory import allocate
from tegula.runtime.description import SPECIALISATIONS
from tegula.runtime.launch import block_size, check_kernel, dimensions, launch_adjoint, plan
from tegula.runtime.library import library
from tegula.runtime.resolve import overlaps, packed_arguments, resolve, specialisation, tegula_arguments
from tegula.types import DType, ElementType, element_shape, scalar_of

if TYPE_CHECKING:
    from tegula.runtime.device import Device
    from tegula.runtime.kernel import Kernel
    from tegula.runtime.launch import LaunchPlan


@dataclass(frozen=True, slots=True)
class ArrayDescription:
    """An array without its elements."""

    shape: tuple[int, ...]
    dtype: ElementType
    device: Device


@dataclass(frozen=True, slots=True)
class AdjointNeeds:
    """The positions of the arrays whose elements an adjoint reads, and the captures on which the adjoint depends."""

    positions: frozenset[int]
    captured: tuple[Captured, ...]

    @property
    def is_current(self) -> bool:
        """Whether the captured objects on which the adjoint depends are unchanged."""
        return all(map(unchanged, self.captured))


class KernelFunction:
    """A kernel as a function: the first parameters are the inputs, the other parameters the outputs.

    `dim`, `block_dim`, `tiled`: the launch options (`tiled`: one block for each element of `dim`). `outputs`: an object
    with a shape and a dtype for each output, or a single one. `dim` and `outputs` may be functions of the inputs."""

    def __init__(
        self,
        kernel: Kernel,
        dim: Any,
        outputs: Any,
        block_dim: int | None = None,
        tiled: bool = False,
    ) -> None:
        self.kernel = kernel
        self.name = kernel.name
        self.dim, self.outputs = dim, outputs
        self.block_dim, self.tiled = block_dim, tiled
        self._needs: dict[Any, list[AdjointNeeds]] = {}

    # Parts of a call -------------------------------------------------------------------------------------------------

    def output_descriptions(self, inputs: Sequence[Any]) -> tuple[list[Any], bool]:
        """The description of each output, and whether a single output is returned without a tuple. LaunchError for a
        wrong number of arguments."""
        declared: Any = self.outputs(*inputs) if callable(self.outputs) else self.outputs
        is_single = hasattr(declared, "shape")
        outputs = [declared] if is_single else list(declared)
        parameters = self.kernel.parameters
        if len(inputs) + len(outputs) != len(parameters):
            names = ", ".join(p.name for p in parameters)
            raise LaunchError(
                f"kernel {self.name} takes {len(parameters)} arguments ({names}), got {len(inputs)} inputs and "
                f"{len(outputs)} outputs",
                "the inputs of the function are the kernel's first parameters, its outputs the others",
            )
        for p, x in zip(parameters, inputs, strict=False):
            if isinstance(x, array) and x.requires_grad and scalar_of(x.dtype).is_float:
                raise LaunchError(
                    f"kernel {self.name}: argument '{p.name}' is a tg.array: its gradient would not be computed",
                    "pass an array of the library that differentiates the function",
                )
        for output in outputs:
            if not hasattr(output, "shape") or not hasattr(output, "dtype"):
                raise LaunchError(
                    f"kernel {self.name}: an output is described by {output!r}, which has no shape and dtype",
                    "for example outputs=lambda x: x for an output like the input x",
                )
        return outputs, is_single

    def is_array(self, position: int, value: Any) -> bool:
        """Whether an argument is an array, by the parameter's annotation or, without one, by the value."""
        annotation = self.kernel.parameters[position].annotation
        if annotation is ANY:
            return hasattr(value, "shape") and not isinstance(value, np.generic)
        return isinstance(annotation, ArrayAnnotation)

    def as_array(self, position: int, value: np.ndarray) -> array | np.ndarray:
        """An argument as an array, where the parameter would convert it to a vector."""
        annotation = self.kernel.parameters[position].annotation
        return adopt(value, None) if annotation is ANY else value

    def dims(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The number of threads in each dimension for given inputs, without the threads of a block if `tiled`."""
        return dimensions(self.dim(*inputs) if callable(self.dim) else self.dim)

    def plan(self, dims: tuple[Any, ...], arrays: Sequence[Any]) -> LaunchPlan:
        """The launch; `arrays`: all arguments, with Tegula arrays."""
        block_dim = block_size(self.kernel, self.block_dim, arrays, (), len(dims) + self.tiled)
        return plan((*dims, block_dim) if self.tiled else dims, block_dim)

    def arrays(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with other libraries' arrays as Tegula arrays on the same memory."""
        return tegula_arguments(self.kernel, tuple(args))

    # Forward ---------------------------------------------------------------------------------------------------------

    def run(self, plan: LaunchPlan, args: Sequence[Any], arrays: tuple[Any, ...], inputs: int) -> None:
        """Launch the kernel. `args`: the original arguments, which determine the stream; LaunchError for a kernel that
        writes one of the first `inputs` arguments."""
        try:
            compiled, packed, _ = resolve(self.kernel, plan, arrays)
        except CompileError as error:
            raise error.with_traceback(None) from error.__cause__
        for k in compiled.writes:
            if k < inputs:
                name = self.kernel.parameters[k].name
                raise LaunchError(
                    f"kernel {self.name} writes to '{name}', an input of the function",
                    "write to an output array, after a copy of the input into it",
                )
        compiled.launch(plan.blocks, packed, tuple(args), None, True)

    # Backward --------------------------------------------------------------------------------------------------------

    def differentiable_positions(self, arrays: Sequence[Any], positions: Iterable[int]) -> tuple[int, ...]:
        """The given positions at which the arguments are arrays of floats."""
        return tuple(
            k for k in positions if isinstance(a := arrays[k], array) and scalar_of(a.dtype).is_float
        )

    def adjoint_needs(
        self, plan: LaunchPlan, arrays: tuple[Any, ...], positions: tuple[int, ...]
    ) -> AdjointNeeds:
        """The arguments that the adjoint for gradients at `positions` reads. CompileError if there is no gradient."""
        adjoint = adjoint_of(self.kernel, positions)
        ids, pairs = [n for n, _ in packed_arguments(self.kernel, arrays)], overlaps(arrays)
        cached = self._needs.setdefault((plan.launch_id, *ids, *pairs, positions), [])
        for needs in cached:
            if needs.is_current:
                return needs
        specialised = specialisation([SPECIALISATIONS[n] for n in ids], plan.launch, pairs)
        types = (*specialised.types, *(specialised.types[k] for k in positions))
        access = (*specialised.access, *(specialised.access[k] for k in positions))
        try:
            traced, reads = adjoint.trace_reads(types, plan.launch, access, library())
        except CompileError as error:
            raise error.with_traceback(None) from error.__cause__
        cached.append(AdjointNeeds(reads, traced.captured))
        return cached[-1]

    def describe(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with arrays as their descriptions."""
        return tuple(
            ArrayDescription(a.shape, a.dtype, a.device) if isinstance(a, array) else a for a in arrays
        )

    def run_adjoint(
        self,
        plan: LaunchPlan,
        needs: AdjointNeeds,
        descriptions: Sequence[Any],
        saved: Mapping[int, Any],
        gradients: Mapping[int, Any],
    ) -> None:
        """Launch the adjoint. `descriptions`: the result of `describe`; `saved`: the arrays that the adjoint reads, by
        position; `gradients`: the gradients of outputs, which the adjoint clears, and of inputs, to which the adjoint
        adds, by position. LaunchError if the kernel's captured objects have changed since `needs` was computed."""
        if not needs.is_current:
            raise LaunchError(
                f"kernel {self.name}: a captured object has changed between a call and its gradient",
                "pass changing values as arguments",
            )
        arrays = [
            _primal(saved.get(k), a) if isinstance(a, ArrayDescription) else a
            for k, a in enumerate(descriptions)
        ]
        adopted_gradients = [
            adopt(g, _composite(gradient_element(arrays[k].dtype))) for k, g in gradients.items()
        ]
        adjoint = adjoint_of(self.kernel, tuple(gradients))
        launch_adjoint(adjoint, plan, (*arrays, *adopted_gradients), (*saved.values(), *gradients.values()))


def _composite(dtype: ElementType) -> ElementType | None:
    """The vector or matrix type of the trailing dimensions of another library's array; None for scalars."""
    return dtype if element_shape(dtype) else None


def _primal(saved: Any, description: ArrayDescription) -> array:
    """An argument of a launch for its adjoint. If the adjoint does not read the array, the argument is an array of the
    same shape and type with a single repeated element."""
    if saved is not None:
        return adopt(saved, _composite(description.dtype))
    element_dims = element_shape(description.dtype)
    repeated = allocate(element_dims or (1,), scalar_of(description.dtype), description.device)
    data = np.broadcast_to(repeated.reshape(element_dims), (*description.shape, *element_dims))
    return wrap(data, description.dtype, description.device)


def gradient_dtype(value: array) -> DType:
    """The scalar type of an array's gradient."""
    return scalar_of(gradient_element(value.dtype))


def function_of(kernel: Any, dim: Any, outputs: Any, block_dim: int | None, tiled: bool) -> KernelFunction:
    """The function of a kernel; LaunchError for an object that is not a kernel."""
    check_kernel(kernel)
    if kernel.takes_constants:
        help = "bind the constants first: kernel.bind(N=...)"
        raise LaunchError(
            f"kernel {kernel.name} has constant parameters, but a function of arrays passes no constants",
            help,
        )
    return KernelFunction(kernel, dim, outputs, block_dim, tiled)
