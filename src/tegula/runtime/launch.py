"""Launching kernels."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Sequence
from functools import lru_cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from tegula.backend.pool import run
from tegula.errors import LaunchError
from tegula.ir import AccessClass, LaunchClass
from tegula.runtime.array import SPECIALISATIONS, array, device_of, launch_id
from tegula.runtime.config import config
from tegula.runtime.device import CPU, Device, get_device, switch
from tegula.runtime.kernel import Kernel, Specialisation
from tegula.runtime.pack import adopted
from tegula.types import ArrayType, Type

if TYPE_CHECKING:
    from tegula.runtime.cuda.stream import Stream

MAX_DIMS = 4
KNOWN = frozenset({array, int, float, bool})
"""Types of arguments that are taken as they are."""


class _Plan:
    """A launch shape: its class, blocks, and the bytes that kernels read it from."""

    __slots__ = ("blocks", "device", "launch", "number", "packed")

    def __init__(self, dims: tuple[int, ...], block_dim: int, device: Device = CPU) -> None:
        total = 1
        for n in dims:
            total *= n
        uniform, suffix = [], 1
        for n in reversed(dims):
            uniform.append(suffix % block_dim == 0 or block_dim == 1)
            suffix *= n
        self.launch = LaunchClass(
            len(dims), block_dim, tuple(reversed(uniform)), dims[-1] == block_dim, total % block_dim != 0
        )
        self.device = device
        self.number = launch_id(self.launch if device is CPU else (self.launch, device))
        self.blocks = -(-total // block_dim)
        self.packed = struct.pack(f"<{len(dims) + 1}q", *dims, total)


@lru_cache(maxsize=4096)
def _plan(dims: tuple[float, ...], block_dim: int, device: Device = CPU) -> _Plan:
    """`device`: where a kernel without arrays runs; arrays say it themselves."""
    if not 1 <= len(dims) <= MAX_DIMS:
        raise LaunchError(
            f"a launch has 1 to {MAX_DIMS} dimensions, got {len(dims)}",
            "merge some of them and split the index in the kernel",
        )
    whole = tuple(_whole(n) for n in dims)
    if any(n < 0 for n in whole):
        raise LaunchError(
            f"launch dimensions must not be negative, got {whole}",
            "give the number of threads in each dimension",
        )
    if math.prod(whole) >= 2**62:
        raise LaunchError(
            f"a launch has fewer than 2**62 threads, got dimensions {whole}", "launch several times"
        )
    if not 1 <= block_dim <= 1024:
        raise LaunchError(
            f"block_dim must be 1 to 1024, got {block_dim}",
            "use smaller blocks; dim says how many threads there are",
        )
    return _Plan(whole, block_dim, device)


def _dims(dim: float | Sequence[float]) -> tuple[Any, ...]:
    """The launch dimensions as they were given."""
    return tuple(dim) if isinstance(dim, Sequence) and not isinstance(dim, str) else (dim,)


def _whole(n: Any) -> int:
    """A launch dimension, which may come from a division."""
    try:
        if not isinstance(n, float):
            return operator.index(n)
        if n.is_integer():
            return int(n)
    except TypeError:
        pass
    raise LaunchError(f"launch dimensions must be whole numbers, got {n!r}", "round it up: -(-n // m)")


def launch(
    kernel: Kernel,
    dim: float | Sequence[float],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Device | str | None = None,
    stream: Stream | None = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
) -> None:
    """Run a kernel over a grid of threads.

    `dim`: threads per dimension, 1 to 4 of them (whole numbers; a float such as n / 4 may be one). `inputs`, `outputs`:
    the arguments, in the order of the parameters. The kernel runs where its arrays are; `device` must say the same, or
    says it for a kernel without arrays. `stream`: of a CUDA device, by default that of this thread. `block_dim`:
    threads per block, 1 to 1024 (256). `max_blocks` is accepted and changes nothing. On the CPU the launch is complete
    on return; on a GPU it runs later, and what the kernel found is raised when its stream is next waited for.
    LaunchError for arguments that do not fit; CompileError for a kernel that is wrong; RunError for what the kernel
    found while it ran."""
    if adjoint or adj_inputs or adj_outputs:
        raise LaunchError(
            "gradients are not available yet", "launch without adjoint=, adj_inputs= and adj_outputs="
        )
    if record_cmd:
        raise LaunchError(
            "single launches cannot be recorded", "record them on a CUDA device with tg.ScopedCapture"
        )
    if not isinstance(kernel, Kernel):
        raise LaunchError(f"expected a kernel, got {_named(kernel)}", "decorate the function with @tg.kernel")
    dims = _dims(dim)
    plan = _plan(dims, _block_size(kernel, block_dim))
    args = (*inputs, *outputs)
    if device is not None or stream is not None or switch.used:
        where = _place(device, stream, args)
        plan = plan if where is CPU else _plan(dims, plan.launch.block_dim, where)
    compiled, packed = _resolved(kernel, plan, args)
    if device is not None and compiled.device != get_device(device):
        raise LaunchError(
            f"kernel {kernel.name}: the launch is on {get_device(device)}, its arrays are on {compiled.device}",
            "leave out device=, or copy the arrays there: a.to(device)",
        )
    if plan.blocks == 0:
        return
    if compiled.device is not CPU:
        from tegula.runtime.cuda.launch import launch_on_device

        launch_on_device(compiled, plan.blocks, packed + plan.packed, args, stream)
        return
    if stream is not None:
        raise LaunchError(f"kernel {kernel.name}: there are no streams on the CPU", "launch without stream=")
    if not compiled.sites:
        run(
            compiled.function, packed + plan.packed + b"\0\0\0\0\0\0\0\0", plan.blocks, compiled.scratch_bytes
        )
        return
    from tegula.runtime.report import Reports

    reports = Reports(compiled)
    run(
        compiled.function,
        packed + plan.packed + struct.pack("<Q", reports.address),
        plan.blocks,
        compiled.scratch_bytes,
    )
    reports.deliver()


def _place(device: Device | str | None, stream: Stream | None, args: tuple[Any, ...]) -> Device:
    """Where a kernel without arrays runs; the CPU stands for nothing said where there are arrays."""
    if stream is not None and not hasattr(stream, "cuda_stream"):
        help = "make one with tg.Stream(device), or leave out stream="
        raise LaunchError(f"stream= takes a stream of a CUDA device, got {stream!r}", help)
    if not all(isinstance(a, int | float | np.number) for a in args):
        return CPU
    return stream.device if device is None and stream is not None else get_device(device)


def launch_tiled(
    kernel: Kernel,
    dim: float | Sequence[float],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    **options: Any,
) -> None:
    """`launch` with one block per element of `dim`: the same as launch(dim=[*dim, block_dim])."""
    block_dim = options.get("block_dim")
    if block_dim is None:
        raise LaunchError(
            "launch_tiled needs block_dim=, the number of threads per block", "for example block_dim=64"
        )
    dims = _dims(dim)
    if len(dims) >= MAX_DIMS:
        help = "the threads of a block are the last dimension: merge some of the others"
        raise LaunchError(f"launch_tiled takes up to {MAX_DIMS - 1} dimensions, got {len(dims)}", help)
    launch(kernel, (*dims, block_dim), inputs, outputs, **options)


def _block_size(kernel: Kernel, block_dim: Any) -> int:
    """Threads per block: as launched, as the kernel says, or by default."""
    if block_dim is None:
        return kernel.options.block_dim or config.block_dim
    if isinstance(block_dim, bool) or not hasattr(block_dim, "__index__"):
        raise LaunchError(f"block_dim must be a whole number, got {block_dim!r}", "for example block_dim=64")
    return operator.index(block_dim)


def _named(x: object) -> str:
    return f"the function {x.__name__}" if isinstance(x, FunctionType) else repr(x)


def _resolved(kernel: Kernel, plan: _Plan, args: tuple[Any, ...]) -> tuple[Any, bytes]:
    """The compiled form for these arguments, and their bytes."""
    packers = kernel.packers
    if len(args) != len(packers):
        names = ", ".join(p.name for p in kernel.parameters)
        help = "inputs=[...] and outputs=[...] together are the arguments, in the order of the parameters"
        raise LaunchError(f"{kernel.name} takes {len(packers)} arguments ({names}), got {len(args)}", help)
    try:
        if not KNOWN.issuperset(map(type, args)):
            args = tuple(adopted(p, value) for p, value in zip(kernel.parameters, args, strict=True))
        packed = [pack(value) for pack, value in zip(packers, args, strict=True)]
    except LaunchError as error:
        raise LaunchError(f"kernel {kernel.name}: {error.message}", error.help) from None
    key = (plan.number, *[n for n, _ in packed], *_overlaps(args), config.mode, config.cpu_target)
    compiled = kernel.compiled.get(key)
    if compiled is None:
        found = [SPECIALISATIONS[n] for n, _ in packed]
        device = _device_of(kernel, plan, found)
        compiled = kernel.compile(key, _specialisation(found, plan.launch, _overlaps(args), device))
    for k in compiled.writes:
        if not args[k].writeable:
            name = kernel.parameters[k].name
            raise LaunchError(
                f"kernel {kernel.name}: argument '{name}' is written, but its memory is read-only",
                "copy it: tg.array(...)",
            )
    return compiled, b"".join([data for _, data in packed])


def _overlaps(args: tuple[Any, ...]) -> list[tuple[int, int]]:
    """Pairs of array arguments that share bytes."""
    arrays = [a for a in args if type(a) is array]
    found: list[tuple[int, int]] = []
    for at, a in enumerate(arrays):
        low, high = a.low, a.high
        for b in arrays[at + 1 :]:
            if low < b.high and b.low < high:
                found += [
                    (i, j)
                    for i, x in enumerate(args)
                    if x is a
                    for j, y in enumerate(args)
                    if y is b and i < j
                ]
    return found


def _device_of(kernel: Kernel, plan: _Plan, found: Sequence[Any]) -> Device:
    """Where the arrays among the arguments are: all on one device, or a LaunchError."""
    homes = {
        p.name: device_of(known)
        for p, known in zip(kernel.parameters, found, strict=True)
        if isinstance(known, tuple)
    }
    if len(set(homes.values())) > 1:
        places = ", ".join(f"'{name}' is on {home}" for name, home in homes.items())
        raise LaunchError(
            f"kernel {kernel.name}: the arrays are on several devices: {places}",
            "copy them to one device: a.to(device)",
        )
    return next(iter(homes.values()), plan.device)


def _specialisation(
    found: Sequence[Any], launch: LaunchClass, overlap: Sequence[tuple[int, int]], device: Device = CPU
) -> Specialisation:
    types: list[Type] = []
    access: list[AccessClass | None] = []
    for k, argument in enumerate(found):
        if isinstance(argument, tuple):
            dtype, ndim, known = argument[:3]
            others = tuple(sorted({j for pair in overlap for j in pair if k in pair and j != k}))
            types.append(ArrayType(dtype, ndim))
            access.append(AccessClass(known.align, known.contiguous, known.dense, others))
        else:
            types.append(argument)
            access.append(None)
    return Specialisation(tuple(types), launch, tuple(access), device)
