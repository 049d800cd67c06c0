"""Launches of kernels: `tg.launch` and `tg.launch_tiled`."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.backend.launch_modes import TILED
from tegula.deferred import deferred_imports
from tegula.errors import CompileError, LaunchError, suggestion
from tegula.ir import LaunchClass
from tegula.runtime.arguments import (
    LISTS,
    arguments_of,
    flattened_call,
    leaf_arguments_with_gradients,
    leaf_call,
)
from tegula.runtime.array import array, wrap
from tegula.runtime.array_memory import allocate
from tegula.runtime.compound_arguments import is_compound
from tegula.runtime.config import config, modes
from tegula.runtime.description import launch_id
from tegula.runtime.device import CPU, Device, cuda_selection, get_device
from tegula.runtime.dimensions import check_dimensions
from tegula.runtime.kernel import Kernel, KernelChoice
from tegula.runtime.make_arrays import zeros
from tegula.runtime.pack import NO_REPORT, adopt_argument
from tegula.runtime.recording import recording
from tegula.runtime.resolve import resolve, role_threads, tegula_arguments
from tegula.runtime.structures import publish_gradients
from tegula.runtime.tensors import count_writes

with deferred_imports():
    from tegula.runtime.adjoint import adjoint_of, gradients
    from tegula.runtime.command import Launch

if TYPE_CHECKING:
    from tegula.runtime.adjoint import Adjoint, AdjointLaunch, PartialArrays
    from tegula.runtime.cuda.stream import Stream
    from tegula.types import DType

MAX_DIMS = 4
Arguments = Sequence[Any] | Mapping[str, Any]
Dim = float | Sequence[float] | np.ndarray


class LaunchPlan:
    """A launch shape: its class, the number of blocks, and the bytes from which kernels read the shape, which end with
    the address of the report buffer, here 0. `grid`: the grid of blocks of a launch of whole blocks; else empty."""

    __slots__ = ("blocks", "device", "dims", "grid", "launch", "launch_id", "packed")

    def __init__(self, dims: tuple[int, ...], block_dim: int, device: Device = CPU) -> None:
        total = 1
        for n in dims:
            total *= n
        uniform, suffix = [], 1
        for n in reversed(dims):
            uniform.append(suffix % block_dim == 0 or block_dim == 1)
            suffix *= n
        self.launch = LaunchClass(
            len(dims),
            block_dim,
            tuple(reversed(uniform)),
            dims[-1] == block_dim,
            total % block_dim != 0,
        )
        self.grid = dims[:-1] if dims[-1] == block_dim else ()
        self.device = device
        self.dims = dims
        self.launch_id = launch_id(self.launch if device is CPU else (self.launch, device))
        self.blocks = -(-total // block_dim)
        self.packed = struct.pack(f"<{len(dims) + 1}q", *dims, total) + NO_REPORT


@lru_cache(maxsize=4096)
def plan(dims: tuple[Any, ...], block_dim: int, device: Device = CPU) -> LaunchPlan:
    """The plan of a launch; LaunchError for invalid dimensions. `device`: the device of a kernel without arrays; else
    the arrays determine it."""
    if not 1 <= len(dims) <= MAX_DIMS:
        raise LaunchError(
            f"a launch has 1 to {MAX_DIMS} dimensions, got {len(dims)}",
            "merge dimensions, and compute their indices in the kernel with // and %",
        )
    sizes = tuple(_as_int(n) for n in dims)
    if any(n < 0 for n in sizes):
        raise LaunchError(
            f"launch dimensions must not be negative, got {sizes}",
            "pass the number of threads in each dimension",
        )
    check_dimensions(sizes)
    if not 1 <= block_dim <= 1024:
        raise LaunchError(
            f"block_dim must be 1 to 1024, got {block_dim}",
            "use smaller blocks; dim= is the number of threads of the launch",
        )
    return LaunchPlan(sizes, block_dim, device)


def _plan_uncached(dims: tuple[Any, ...], block_dim: int, device: Device = CPU) -> LaunchPlan:
    """The plan of a launch whose dimensions may have any number type, and be unhashable."""
    return plan(tuple(map(_as_int, dims)), block_dim, device)


def dimensions(dim: Any) -> tuple[Any, ...]:
    """The launch dimensions as passed by the caller."""
    if type(dim) is tuple:
        return dim
    if isinstance(dim, np.ndarray):
        dim = dim.tolist()
    return tuple(dim) if isinstance(dim, Sequence) and not isinstance(dim, str) else (dim,)


def _as_int(n: Any) -> int:
    """A launch dimension as an int; whole floats are accepted."""
    try:
        if not isinstance(n, float):
            return operator.index(n)
        if n.is_integer():
            return int(n)
    except TypeError:
        pass
    raise LaunchError(
        f"launch dimensions must be whole numbers, got {n!r}", "divide and round up: -(-n // m)"
    )


def launch(
    kernel: Kernel | KernelChoice,
    dim: Dim,
    inputs: Arguments = (),
    outputs: Arguments = (),
    adj_inputs: Arguments = (),
    adj_outputs: Arguments = (),
    device: Device | str | None = None,
    stream: Stream | None = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
    **unknown: Any,
) -> Any:
    """Runs a kernel over a grid of threads.

    On the CPU the launch is complete when it returns. On a GPU the kernel runs asynchronously, and its errors are
    raised at the next wait for its stream.

    Parameters:
        kernel: a kernel, or a result of tg.autotune.
        dim: the number of threads in each of 1 to 4 dimensions, whole numbers up to 2**31.
        inputs, outputs: lists of the arguments, in the order of the parameters, or dictionaries of arguments by name:
            arrays, None for absent arrays, numbers, vectors, matrices, and constants (tg.constexpr). Arrays of NumPy,
            PyTorch and other libraries are used without a copy. Missing arguments have their defaults. Kernels run on
            the device of their arrays.
        adj_inputs, adj_outputs: with `adjoint`, gradients in the order of the arguments, arrays; None for the gradient
            of the argument itself.
        device: the device of a kernel without arrays; otherwise the arrays determine the device.
        stream: a stream of a CUDA device; by default the calling thread's stream.
        adjoint: whether to run the adjoint of the kernel instead; False by default.
        record_tape: whether an open tape records the launch; True by default.
        record_cmd: whether the launch is returned instead of run; False by default.
        max_blocks: is accepted and changes nothing.
        block_dim: the number of threads in a block, 1 to 1024; by default that of the kernel, of its roles, or
            256.
        **unknown: is refused.
    Returns:
        with `record_cmd` a launch object, which the method `launch` runs.
    Raises:
        launch: the arguments, the dimensions, the device or an option do not fit.
        RuntimeError: the kernel does not compile (tg.CompileError, with the codes of docs/errors.md), or fails on the
            CPU (tg.RunError).
    Gradient:
        tg.Tape, or `adjoint=True`: the adjoint reads and clears the gradients of written arrays, and adds to the
        gradients of arrays that were read.
    """
    if unknown:
        raise _no_option(next(iter(unknown)))
    if record_cmd:
        if not isinstance(kernel, KernelChoice):
            check_kernel(kernel)
        options = {"device": device, "stream": stream, "adjoint": adjoint, "record_tape": record_tape}
        pairs = (inputs, adj_inputs), (outputs, adj_outputs)
        return Launch(launch, kernel, dim, *pairs, {**options, "block_dim": block_dim})
    memory_owners = None
    if type(kernel) is not Kernel:
        # Kernels get addresses of memory that typed arguments own, which must live until the kernel has run.
        memory_owners = inputs, outputs
        if isinstance(kernel, KernelChoice):
            args = arguments_of(kernel, inputs, outputs)
            kernel, dim, block_dim = kernel.choose(dim, args, block_dim, False, device, stream)
        check_kernel(kernel)
        if not adjoint:
            kernel, inputs = leaf_call(kernel, inputs, outputs)
            outputs = ()
    # The result of the machine code: True, the arrays that the launch has written, or the key of the launch for the
    # cache (see backend/launcher.py).
    native_launch = None
    if kernel.native is not None and not (
        (recording.on and _needs_recording(kernel, inputs, outputs, record_tape))
        or adjoint
        or adj_inputs
        or adj_outputs
        or device is not None
    ):
        native_launch = kernel.native(dim, block_dim, inputs, outputs, 0, stream)
        if native_launch is True:
            return None
        if type(native_launch) is tuple:
            count_writes((*inputs, *outputs), native_launch)
            return None
        if native_launch:
            dim, inputs, outputs = dimensions(dim), tuple(inputs), tuple(outputs)
    call = (dim, block_dim, inputs, outputs, 0) if native_launch else ()
    dims = (dim,) if type(dim) is int else dimensions(dim)
    if block_dim is None and not kernel.has_roles:
        block_dim = (
            kernel.options.block_dim or modes[1] or config.block_dim
        )  # as in block_size, without its call
    elif type(block_dim) is not int:
        block_dim = block_size(kernel, block_dim, inputs, outputs, len(dims))
    if adjoint:
        launch_plan = _plan_uncached(dims, block_dim)
        part, args, grads = leaf_arguments_with_gradients(
            kernel, (inputs, adj_inputs), (outputs, adj_outputs)
        )
        if not run_adjoint(part, launch_plan, args, grads, stream, device=device):
            help = "create an array with requires_grad=True, or pass adj_inputs= and adj_outputs="
            raise LaunchError(f"kernel {kernel.name}: none of the arguments has a gradient", help)
        return None
    if adj_inputs or adj_outputs:
        raise LaunchError("adj_inputs= and adj_outputs= are for adjoint launches", "add adjoint=True")
    slow_launch = _run(kernel, dims, block_dim, inputs, outputs, device, stream, record_tape)
    if native_launch:
        _cache_launch(kernel, native_launch, call, *slow_launch)
    del memory_owners
    return None


def _needs_recording(kernel: Kernel, inputs: Arguments, outputs: Arguments, record: bool = True) -> bool:
    """Whether a tape needs to be notified of a launch in machine code."""
    if type(inputs) in LISTS and type(outputs) in LISTS:
        return recording.needs_notification((*inputs, *outputs), kernel.written, record)
    return True


def _no_option(name: str) -> LaunchError:
    """The error for an unknown keyword of a launch."""
    return LaunchError(f"a launch has no option '{name}'", suggestion(name, _OPTIONS))


_OPTIONS = frozenset(launch.__code__.co_varnames[: launch.__code__.co_argcount])
"""The keywords of `launch`."""


def _cache_launch(
    kernel: Kernel,
    key: bytes,
    call: tuple[Any, ...],
    launched_kernel: Kernel,
    launch_plan: LaunchPlan,
    compiled: Any,
) -> None:
    """Cache a launch for the machine code, which had no entry for it. `call`: the arguments of the call of the machine
    code; `launched_kernel`: the kernel itself, or its variant if arrays were absent."""
    from tegula.runtime.cuda.native import cache_launch

    if compiled.device is not CPU and launched_kernel is kernel:
        kernel.written |= set(compiled.writes)
        cache_launch(kernel, key, call, launch_plan, compiled)


def run_adjoint(
    kernel: Kernel,
    forward_plan: LaunchPlan,
    args: Sequence[Any],
    grads: Sequence[Any] = (),
    stream: Stream | None = None,
    check: Callable[[Adjoint], None] | None = None,
    device: Device | str | None = None,
) -> bool:
    """Run the adjoint of a launch with these arguments: the adjoint reads and clears the gradients of the arrays that
    the launch wrote, and adds to the gradients of the arrays that the launch read. `forward_plan`: the plan of the
    forward launch; `grads`: gradient arrays that replace the arguments' own; `check` may raise before the first launch;
    `device`: the requested device, or None. Returns False if no argument has a gradient."""
    original_arguments = (*args, *grads)
    args = tegula_arguments(kernel, tuple(args))
    if device is not None:
        _check_device(kernel, device, next((a.device for a in args if type(a) is array), CPU))
    # Adopted gradients order the launch in the stream of their library, as in launches with the library's arrays.
    adopted_gradients = [
        g if g is None else adopt_argument(p, g) for p, g in zip(kernel.parameters, grads, strict=False)
    ]
    gradient_arrays = gradients(args, adopted_gradients)
    if not gradient_arrays:
        return False
    for k, grad in gradient_arrays.items():
        if grad.shape != args[k].shape:
            name = kernel.parameters[k].name
            raise LaunchError(
                f"kernel {kernel.name}: the gradient of argument '{name}' has shape {grad.shape}, but the argument "
                f"has shape {args[k].shape}",
                "pass a gradient of the argument's shape",
            )
    launch_adjoint(
        adjoint_of(kernel, tuple(gradient_arrays)),
        forward_plan,
        (*args, *gradient_arrays.values()),
        original_arguments,
        stream,
        check,
    )
    if recording.on:
        recording.differentiated(kernel.name, args, gradient_arrays)
    count_writes(grads, [k for k in gradient_arrays if k < len(grads)])
    return True


def launch_adjoint(
    adjoint: Adjoint,
    forward_plan: LaunchPlan,
    args: tuple[Any, ...],
    arguments: Sequence[Any],
    stream: Stream | None = None,
    check: Callable[[Adjoint], None] | None = None,
) -> None:
    """Run the launches of an adjoint. `args`: the arguments, as Tegula arrays; `arguments`: the arguments before
    their conversion, whose library determines the stream."""
    part_launches = adjoint.launches(forward_plan, args)
    if check is not None:
        check(adjoint)
    if adjoint.queries:
        publish_gradients()
    adjoint.launched_parts[:] = [part_launch.part for part_launch in part_launches]
    has_foreign = not TEGULA_TYPES.issuperset(map(type, arguments))
    partial_arrays: PartialArrays = {}
    arguments = arguments if has_foreign else ()
    allocate_array = partial(_temporary_array, arguments=arguments, stream=stream)
    for part_launch in part_launches:
        part_arguments = (*args, *part_launch.extra(args, partial_arrays, allocate_array))
        _launch_part(part_launch, part_arguments, arguments, stream)
        if recording.on:
            recording.launch_wrote(part_arguments, part_launch.part.writes)


def _temporary_array(
    shape: Sequence[int],
    dtype: DType,
    device: Device,
    zeroed: bool,
    arguments: Sequence[Any],
    stream: Stream | None,
) -> array:
    """A temporary array for one call, of zeros or uninitialised. `arguments`, `stream`: as for a launch."""
    temporary = None
    if device is not CPU:
        from tegula.runtime.cuda.interop import memory_of_call

        temporary = memory_of_call(shape, dtype, device, zeroed, arguments, stream)
    if temporary is None:
        temporary = (
            zeros(shape, dtype, device) if zeroed else wrap(allocate(shape, dtype, device), dtype, device)
        )
    return temporary


TEGULA_TYPES = frozenset({array, int, float, bool, type(None)})
"""The types of adjoint arguments that belong to no other library with streams of its own."""


def _launch_part(
    part_launch: AdjointLaunch, args: tuple[Any, ...], arguments: Sequence[Any], stream: Stream | None
) -> None:
    """Run one launch of an adjoint. `arguments`: the arguments before their conversion, if other libraries' arrays are
    among them."""
    part, native_launch = part_launch.part, None
    if part.native is not None and not arguments:
        native_launch = part.native(part_launch.dims, part_launch.threads, args, (), 0, stream)
        if native_launch is True:
            return
    launch_plan = plan(part_launch.dims, part_launch.threads, part_launch.device)
    compiled, packed, _ = resolve(part, launch_plan, args)
    if part.in_order:
        from tegula.runtime.compile import Compiled

        assert isinstance(compiled, Compiled), "refused by check_order"
        compiled.launch(launch_plan.blocks, packed, (*args, *arguments), stream, True, threads=1)
        return
    compiled.launch(launch_plan.blocks, packed, (*args, *arguments), stream, True)
    if native_launch:
        _cache_launch(
            part,
            native_launch,
            (part_launch.dims, part_launch.threads, args, (), 0),
            part,
            launch_plan,
            compiled,
        )


def _device_for(device: Device | str | None, stream: Stream | None, args: tuple[Any, ...]) -> Device:
    """The device of a kernel without arrays; for a kernel with arrays the CPU, as a placeholder."""
    if stream is not None and not hasattr(stream, "cuda_stream"):
        help = "create a stream with tg.Stream(device), or leave out stream="
        raise LaunchError(f"stream= takes a stream of a CUDA device, got {stream!r}", help)
    if not all(a is None or isinstance(a, int | float | np.number) for a in args):
        return CPU
    return stream.device if device is None and stream is not None else get_device(device)


def launch_tiled(
    kernel: Kernel | KernelChoice,
    dim: Dim,
    inputs: Arguments = (),
    outputs: Arguments = (),
    *,
    block_dim: int | None = None,
    **options: Any,
) -> Any:
    """Runs a kernel with one block for each element of a grid: tg.launch with dim=(*dim, block_dim).

    Parameters:
        kernel: a kernel, or a result of tg.autotune.
        dim: the number of blocks in each of 1 to 3 dimensions, whole numbers up to 2**31.
        inputs, outputs: lists of the arguments, in the order of the parameters.
        block_dim: the number of threads in a block, 1 to 1024; optional for a kernel with roles or with a `block_dim`
            option.
        **options: `device`, `stream`, `adjoint`, `adj_inputs`, `adj_outputs`, `record_tape`, `record_cmd`, as for
            tg.launch.
    Returns:
        with `record_cmd` a launch object, as tg.launch.
    Raises:
        launch: the arguments, the dimensions, the device or an option do not fit.
        RuntimeError: the kernel does not compile (tg.CompileError, with the codes of docs/errors.md), or fails on the
            CPU (tg.RunError).
    Gradient:
        as for tg.launch.
    """
    if options:
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise _no_option(min(unknown))
    if type(kernel) is not Kernel:
        if isinstance(kernel, KernelChoice):
            args = arguments_of(kernel, inputs, outputs)
            target = options.get("device"), options.get("stream")
            kernel, dim, block_dim = kernel.choose(dim, args, block_dim, True, *target)
        check_kernel(kernel)
        if not options:
            kernel, inputs = leaf_call(kernel, inputs, outputs)
            outputs = ()
    native_launch = None
    if kernel.native is not None and not (
        options or (recording.on and _needs_recording(kernel, inputs, outputs))
    ):
        native_launch = kernel.native(dim, block_dim, inputs, outputs, TILED, None)
        if native_launch is True:
            return None
        if type(native_launch) is tuple:
            count_writes((*inputs, *outputs), native_launch)
            return None
        if native_launch:
            dim, inputs, outputs = dimensions(dim), tuple(inputs), tuple(outputs)
    call = dim, block_dim, inputs, outputs, TILED
    if block_dim is None and not kernel.has_roles:
        raise LaunchError(
            "launch_tiled needs block_dim=, the number of threads per block", "for example block_dim=64"
        )
    dims = (dim,) if type(dim) is int else dimensions(dim)
    if len(dims) >= MAX_DIMS:
        help = "launch_tiled appends the threads of a block as the last dimension: merge dimensions of dim="
        raise LaunchError(f"launch_tiled takes up to {MAX_DIMS - 1} dimensions, got {len(dims)}", help)
    block_dim = block_size(kernel, block_dim, inputs, outputs, len(dims) + 1)
    if options:
        return launch(kernel, (*dims, block_dim), inputs, outputs, block_dim=block_dim, **options)
    slow_launch = _run(kernel, (*dims, block_dim), block_dim, inputs, outputs)
    if native_launch:
        _cache_launch(kernel, native_launch, call, *slow_launch)
    return None


def _run(
    kernel: Kernel,
    dims: tuple[Any, ...],
    block_dim: int,
    inputs: Arguments,
    outputs: Arguments,
    device: Device | str | None = None,
    stream: Stream | None = None,
    record: bool = True,
) -> tuple[Kernel, LaunchPlan, Any]:
    """Launch by the slow path. Returns the kernel that ran, with absent arrays bound, the plan and the form."""
    if type(inputs) in LISTS and type(outputs) in LISTS:
        args = (*inputs, *outputs)
    else:
        args = arguments_of(kernel, inputs, outputs)
    target = CPU
    if (
        device is not None
        or stream is not None
        or (cuda_selection.used and not (args and type(args[0]) is array))
    ):
        if device is not None:
            get_device(device)  # an unknown device is reported before errors of arguments
        target = _device_for(device, stream, flattened_call(kernel, args).arguments)
    try:
        launch_plan = plan(dims, block_dim) if target is CPU else plan(dims, block_dim, target)
    except LaunchError:
        raise
    except TypeError:
        launch_plan = _plan_uncached(dims, block_dim, target)
    try:
        packed_launch = kernel.fast_path(launch_plan, args)
        if packed_launch is None:
            if is_compound(kernel, args) or NoneType in map(type, args) or len(args) != len(kernel.packers):
                kernel, args = flattened_call(kernel, args)
            packed_launch = resolve(kernel, launch_plan, args)
        compiled, packed, has_foreign = packed_launch
    except (CompileError, LaunchError) as error:
        # The traceback of the compiler is dropped, because the message has the location in the kernel or the argument.
        raise error.with_traceback(None) from error.__cause__
    if device is not None:
        _check_device(kernel, device, compiled.device)
    compiled.launch(launch_plan.blocks, packed, args, stream, has_foreign)
    if has_foreign:
        count_writes(args, compiled.writes)
    if recording.on and recording.needs_notification(args, compiled.writes, record):
        recording.launched(kernel, launch_plan, args, tegula_arguments(kernel, args), compiled, record)
    return kernel, launch_plan, compiled


def _check_device(kernel: Kernel, requested: Device | str, actual: Device) -> None:
    """Raise LaunchError if the requested device is not the device of the arrays."""
    if actual != get_device(requested):
        raise LaunchError(
            f"kernel {kernel.name}: the launch is on {get_device(requested)}, but its arrays are on {actual}",
            "leave out device=, or copy the arrays there: a.to(device)",
        )


def check_kernel(kernel: object) -> None:
    """Raise LaunchError for an object that is not a kernel."""
    if not isinstance(kernel, Kernel):
        raise LaunchError(
            f"expected a kernel, got {_object_text(kernel)}", "decorate the function with @tg.kernel"
        )


def block_size(
    kernel: Kernel, block_dim: Any, inputs: Arguments, outputs: Arguments = (), ndim: int = 2
) -> int:
    """The number of threads per block: set by the launch, else by the kernel's roles, by its decorator, or the default.
    `ndim`: the number of dimensions of the launch."""
    if type(block_dim) is int:
        return block_dim
    if block_dim is None:
        if kernel.has_roles:
            try:
                thread_count = role_threads(*flattened_call(kernel, inputs, outputs), ndim)
            except CompileError as error:
                raise error.with_traceback(None) from error.__cause__  # as in _run
            if thread_count is not None:
                return thread_count
        return kernel.options.block_dim or config.block_dim
    if isinstance(block_dim, bool) or not hasattr(block_dim, "__index__"):
        raise LaunchError(f"block_dim must be a whole number, got {block_dim!r}", "for example block_dim=64")
    return operator.index(block_dim)


def _object_text(x: object) -> str:
    return f"the function {x.__name__}" if isinstance(x, FunctionType) else repr(x)
