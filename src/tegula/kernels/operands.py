"""Operands of the library's kernels: checks of arrays and tensors, aligned and transposed copies, allocation of
outputs."""

import math
import os
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import tegula as tg

MAP_ALIGNMENT = 16
"""The alignment in bytes that bulk copies need of an array's address and strides."""


def as_array(function: str, name: str, value: Any) -> Any:
    """A `tg.array` view of an array of any library; LaunchError for an argument that is not an array."""
    try:
        if value is None:
            raise TypeError("it is None")
        return value if isinstance(value, tg.array) else tg.array(value, copy=False)
    except (tg.LaunchError, tg.RunError):
        raise
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        message = f"{function}: '{name}' is not an array: {error}"
        raise tg.LaunchError(message, "pass a tg.array, or an array of NumPy, CuPy or PyTorch") from error


def checked_array(function: str, name: str, value: Any, ndim: int, dtypes: Sequence[str]) -> Any:
    """A `tg.array` view of an array of any library; LaunchError for an array with another number of dimensions or
    another dtype.

    Callers use the view for shape, dtype and device, and pass the argument itself to launches, because its library may
    order work in its own stream."""
    array = as_array(function, name, value)
    if array.ndim != ndim:
        message = (
            f"{function}: '{name}' must have {ndim} dimension{'s' * (ndim > 1)}, got shape {array.shape}"
        )
        raise tg.LaunchError(message, "reshape the array, or loop over the additional dimensions")
    if str(array.dtype) not in dtypes:
        message = f"{function}: '{name}' must be of {' or '.join(dtypes)}, got {array.dtype}"
        raise tg.LaunchError(message, "convert the array, or write a kernel for this type")
    return array


def expect_shape(function: str, name: str, array: Any, expected: tuple[int, ...], source: str) -> None:
    """Raise LaunchError if the shape of an array is not `expected`. `source`: the names of the arrays that imply the
    expected shape."""
    if array.shape != expected:
        message = f"{function}: '{name}' must have shape {expected} to fit {source}, got {array.shape}"
        raise tg.LaunchError(message, "check the order of the array's dimensions")


def expect_disjoint(function: str, out: Any, inputs: dict[str, Any]) -> "ByteRanges":
    """Raise LaunchError if the memory of an output overlaps an input, which other blocks may still read. The returned
    ranges make the same check for other arguments with the same launch key."""
    byte_ranges = ByteRanges(
        function, *((name, x.low - x.ptr, x.high - x.ptr) for name, x in (("out", out), *inputs.items()))
    )
    byte_ranges.expect_disjoint(out, inputs.values())
    return byte_ranges


class ByteRanges:
    """The byte ranges of an output and of inputs, relative to their addresses. `ranges`: the name, begin and end of
    each range, the output first."""

    def __init__(self, function: str, *ranges: tuple[str, int, int]) -> None:
        self.function = function
        (_, self.low, self.high), *self.inputs = ranges

    def expect_disjoint(self, out: Any, inputs: Iterable[Any]) -> None:
        """Raise LaunchError if the memory of an output overlaps an input."""
        start = address(out)
        first, end = start + self.low, start + self.high
        for x, (name, low, high) in zip(inputs, self.inputs, strict=False):
            input_address = address(x)
            if first < input_address + high and input_address + low < end:
                message = (
                    f"{self.function}: 'out' shares memory with '{name}', which is read while it is written"
                )
                raise tg.LaunchError(message, "omit out=, or pass an array that overlaps no input")


def address(x: Any) -> int:
    """The address of the first element of a tg.array or a PyTorch tensor."""
    return x.ptr if isinstance(x, tg.array) else x.data_ptr()


def needs_gradient(*arguments: Any) -> bool:
    """Whether a tape is recording and an argument requires a gradient, so that results need a gradient too."""
    return tg.Tape.active() is not None and any(
        isinstance(x, tg.array) and x.requires_grad for x in arguments
    )


Copies = Sequence[Callable[[Any], Any] | None]


def with_aligned_copy(argument: Any, dtype: Any) -> Any:
    """A copy of an operand whose rows are aligned for bulk copies."""
    copy = with_aligned_rows(argument, argument.shape, dtype)
    if needs_gradient(argument):
        tg.launch(copy_kernel(dtype, argument.ndim), argument.shape, [argument], [copy])
    elif is_in_order(argument):
        copy.copy_(argument.detach())
    else:
        tg.copy(copy, argument if isinstance(argument, tg.array) else tg.array(argument, copy=False))
    return copy


def with_aligned_rows(argument: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Uninitialised memory with rows aligned for bulk copies. For a tensor whose work is ordered with launches the
    memory is a PyTorch tensor, which PyTorch's CUDA graphs keep alive; otherwise it is a tg.array, with a gradient if a
    tape needs one."""
    *outer, last = shape
    unit = 8 * MAP_ALIGNMENT // dtype.bits
    padded = (*outer, math.ceil(last / unit) * unit)
    if is_in_order(argument):
        padded_array = argument.new_empty(padded)
    else:
        view = argument if isinstance(argument, tg.array) else tg.array(argument, copy=False)
        padded_array = tg.empty(padded, dtype, view.device, needs_gradient(argument))
    return padded_array[(*(slice(n) for n in outer), slice(last))]


def is_tensor(value: Any) -> bool:
    """Whether a value is a PyTorch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_in_order(value: Any) -> bool:
    """Whether a value is a PyTorch tensor whose pending work is ordered with launches: on a CPU always, on a GPU if the
    thread has set no stream of its own, so that launches go to PyTorch's stream."""
    if not is_tensor(value):
        return False
    return not value.is_cuda or tg.get_stream(str(value.device)).cuda_stream == DEFAULT_STREAM


@cache
def copy_kernel(dtype: Any, ndim: int) -> Any:
    """The kernel that copies arrays of 2 or 4 dimensions, recorded by tapes."""

    @tg.kernel
    def copy_matrix(x: tg.array2d[dtype], out: tg.array2d[dtype]):
        i, j = tg.tid()
        out[i, j] = x[i, j]

    @tg.kernel
    def copy_heads(x: tg.array4d[dtype], out: tg.array4d[dtype]):
        b, h, i, j = tg.tid()
        out[b, h, i, j] = x[b, h, i, j]

    return copy_matrix if ndim == 2 else copy_heads


SIDE = 64
"""The side of the square tiles of the transposing kernel, in elements."""


@cache
def transpose_kernel(dtype: Any) -> Any:
    """The kernel that transposes arrays of a dtype."""

    @tg.kernel
    def transpose(x: tg.array2d[dtype], out: tg.array2d[dtype]):
        i, j = tg.tid()
        tile = tg.tile_load(x, shape=(SIDE, SIDE), offset=(i * SIDE, j * SIDE))
        tg.tile_store(out, tg.tile_transpose(tile), offset=(j * SIDE, i * SIDE))

    return transpose


def transposed_copy(argument: Any, dtype: Any) -> Any:
    """A transposed copy of a 2-D array whose rows are aligned for bulk copies."""
    rows, columns = argument.shape
    copy = with_aligned_rows(argument, (columns, rows), dtype)
    if rows and columns:
        grid = [math.ceil(n / SIDE) for n in (rows, columns)]
        tg.launch_tiled(transpose_kernel(dtype), grid, [argument], [copy], block_dim=256)
    return copy


def allows_bulk_reads(x: Any) -> bool:
    """Whether an operand can be read by bulk copies: on CPUs always, on GPUs if its rows are aligned."""
    return x.device.is_cpu or is_aligned(x) or not x.size


def is_aligned(x: Any) -> bool:
    """Whether elements of a row are adjacent and rows are aligned for bulk copies."""
    *outer, last = x.strides
    distances = all(s > 0 and s % MAP_ALIGNMENT == 0 for s in outer)
    return distances and x.ptr % MAP_ALIGNMENT == 0 and 8 * last == x.dtype.bits


def make_allocator(shape: tuple[int, ...], dtype: Any, like: Any, device: Any) -> Callable[[], Any]:
    """A function that allocates an array: a PyTorch tensor if `like` is one, else a tg.array on the device. The
    function keeps no reference to an argument that has a launch key."""
    if is_tensor(like):
        torch = sys.modules["torch"]
        torch_dtype = getattr(torch, str(dtype))
        if tg.launch_key(like) is None:
            return partial(like.new_empty, shape, dtype=torch_dtype)
        # torch.empty_strided takes two thirds of the time of torch.empty.
        strides = [math.prod(max(n, 1) for n in shape[k + 1 :]) for k in range(len(shape))]
        return partial(torch.empty_strided, shape, strides, dtype=torch_dtype, device=like.device)
    return partial(tg.empty, shape, dtype, device)


DEFAULT_STREAM = 1
"""The driver's handle of a device's default stream."""
MAX_SCRATCH = 4
"""The number of scratch arrays that a thread keeps."""


class StreamScratch(threading.local):
    """A thread's scratch arrays for calls in the default streams, by device and shape. Consecutive calls reuse the
    arrays."""

    def __init__(self) -> None:
        self.buffers: dict[Any, Any] = {}


kept = StreamScratch()


def scratch(shape: tuple[int, int, int], like: Any, device: Any, needs_grad: bool = False) -> Any:
    """Uninitialised float32 memory for one call, with rows aligned for bulk copies. The memory is a PyTorch tensor if
    `like` is one, because PyTorch's allocator is fast. Other allocations take longer than the launches, so a thread
    reuses arrays for its calls in the default stream, which run in order. `needs_grad`: whether the memory is new and
    has a gradient, for a tape."""
    padded, end = (*shape[:2], math.ceil(shape[2] / 4) * 4), slice(shape[2])
    if needs_grad:
        return tg.empty(padded, tg.float32, device, True)[:, :, end]
    if is_in_order(like):
        memory = like.new_empty(padded, dtype=sys.modules["torch"].float32)
        return memory if padded == shape else memory[:, :, end]
    if device.is_cpu or tg.get_stream(device).cuda_stream != DEFAULT_STREAM:
        return tg.empty(padded, tg.float32, device)[:, :, end]
    memory = kept.buffers.get((device, shape))
    if memory is None:
        if len(kept.buffers) >= MAX_SCRATCH:
            kept.buffers.clear()
        memory = kept.buffers[device, shape] = tg.empty(padded, tg.float32, device)[:, :, end]
    return memory


@cache
def processors(device: Any) -> int:
    """The number of concurrent blocks of a persistent kernel: the SMs of a GPU, or the cores of a CPU."""
    return device.sm_count or os.cpu_count() or 1


MAX_PLANS = 4096


class ConfigCache:
    """A cache of configurations, keyed by the launch keys of the arguments and by options. The cache holds no arrays.
    `make`: the function that chooses the configuration for inputs, an output and options."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make
        self.configs: dict[Any, Any] = {}

    def find(self, inputs: tuple[Any, ...], out: Any, options: tuple[Any, ...]) -> Any:
        """The configuration for arguments; the output and the last input may be None. Raises LaunchError if arguments
        do not fit or the memory of the output overlaps an input."""
        launch_key = tg.launch_key(*inputs, out)
        key = None if launch_key is None else (launch_key, options)
        plan = self.configs.get(key)
        if plan is None:
            plan = self.make(*inputs, out, *options)
            if key is not None:
                if len(self.configs) >= MAX_PLANS:
                    self.configs.clear()
                self.configs[key] = plan
        elif plan.byte_ranges is not None:
            plan.byte_ranges.expect_disjoint(out, inputs)
        return plan
