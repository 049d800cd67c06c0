"""Launching kernels."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tegula.backend.pool import run
from tegula.errors import LaunchError
from tegula.ir import AccessClass, LaunchClass
from tegula.lang.annotations import ArrayAnnotation
from tegula.lang.decorators import KernelDef
from tegula.lang.definition import Parameter
from tegula.runtime.array import array
from tegula.runtime.compile import Compiled, compile_kernel
from tegula.runtime.config import config
from tegula.runtime.device import Device, get_device
from tegula.runtime.report import Reports
from tegula.types import (
    ArrayType,
    DType,
    MatType,
    Type,
    VecType,
    bool_,
    element_bytes,
    element_shape,
    float32,
    from_numpy,
    int32,
    int64,
    scalar_of,
    to_numpy,
)

MAX_DIMS = 4
_FORMATS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint8": "B", "uint16": "H",
            "uint32": "I", "uint64": "Q", "float16": "e", "float32": "f", "float64": "d"}  # fmt: skip


class _Plan:
    """A launch shape: its class, blocks, and the bytes that kernels read it from."""

    __slots__ = ("blocks", "launch", "packed")

    def __init__(self, dims: tuple[int, ...], block_dim: int) -> None:
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
        self.blocks = -(-total // block_dim)
        self.packed = struct.pack(f"<{len(dims) + 1}q", *dims, total)


@lru_cache(maxsize=4096)
def _plan(dims: tuple[int, ...], block_dim: int) -> _Plan:
    if not 1 <= len(dims) <= MAX_DIMS:
        raise LaunchError(f"a launch has 1 to {MAX_DIMS} dimensions, got {len(dims)}")
    if any(n < 0 for n in dims):
        raise LaunchError(f"launch dimensions must not be negative, got {dims}")
    if not 1 <= block_dim <= 1024:
        raise LaunchError(f"block_dim must be 1 to 1024, got {block_dim}")
    return _Plan(dims, block_dim)


class _Variants:
    """The compiled forms of one kernel, by what they were specialised on."""

    __slots__ = ("by_key", "packers")

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.by_key: dict[Any, Compiled] = {}
        self.packers = [_packer(p) for p in parameters]


Packed = tuple[Any, bytes]
"""What an argument is specialised on, and its bytes."""


def _packer(p: Parameter) -> Callable[[Any], Packed]:
    """How an argument of this parameter is checked and packed."""
    wanted = p.annotation
    if isinstance(wanted, ArrayAnnotation):
        return lambda value: _pack_array(p, wanted, value)
    if isinstance(wanted, DType):
        return _scalar_packer(p, wanted)
    if isinstance(wanted, VecType | MatType):
        return lambda value: _pack_composite(p, wanted, value)
    return lambda value: _pack_any(p, value)


def _pack_array(p: Parameter, wanted: ArrayAnnotation, value: Any) -> Packed:
    if not isinstance(value, array):
        value = _adopted(p, value)
    found = ArrayType(value.dtype, value.ndim)
    if not wanted.matches(found):
        raise LaunchError(f"argument '{p.name}': expected {wanted}, got {found}")
    return value.launch_key, value.packed


def _adopted(p: Parameter, value: Any) -> array:
    """An array of another library, without a copy."""
    if isinstance(value, np.ndarray) or hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        wanted = p.annotation
        dtype = wanted.dtype if isinstance(wanted, ArrayAnnotation) and isinstance(wanted.dtype, VecType | MatType) else None
        return array(value, dtype=dtype, copy=False)
    raise LaunchError(f"argument '{p.name}': expected an array, got {type(value).__name__}")


def _scalar_packer(p: Parameter, wanted: DType) -> Callable[[Any], Packed]:
    code = _FORMATS.get(wanted.name)
    key = wanted

    def pack(value: Any) -> Packed:
        try:
            if isinstance(value, bool) and not wanted.is_bool or wanted.is_int and isinstance(value, float | np.floating):
                raise TypeError
            if code is not None:
                return key, struct.pack(f"<{code}", value).ljust(8, b"\0")
            return key, to_numpy(wanted).type(value).tobytes().ljust(8, b"\0")
        except (TypeError, ValueError, struct.error, OverflowError) as e:
            raise LaunchError(f"argument '{p.name}': expected {wanted}, got {value!r}") from e

    return pack


def _pack_composite(p: Parameter, wanted: VecType | MatType, value: Any) -> Packed:
    data = np.asarray(value)
    if data.shape != element_shape(wanted):
        raise LaunchError(f"argument '{p.name}': expected {wanted}, got a value of shape {data.shape}")
    raw = data.astype(to_numpy(scalar_of(wanted))).tobytes()
    return wanted, raw.ljust(-(-element_bytes(wanted) // 8) * 8, b"\0")


def _pack_any(p: Parameter, value: Any) -> Packed:
    """A parameter without annotation takes the argument's own type."""
    if isinstance(value, array):
        return value.launch_key, value.packed
    if isinstance(value, bool):
        return _scalar_packer(p, bool_)(value)
    if isinstance(value, int):
        return _scalar_packer(p, int32 if -(2**31) <= value < 2**31 else int64)(value)
    if isinstance(value, float):
        return _scalar_packer(p, float32)(value)
    if isinstance(value, np.generic):
        return _scalar_packer(p, from_numpy(value.dtype))(value.item())
    if isinstance(value, np.ndarray) and value.ndim in (1, 2) and value.size <= 16:
        scalar = from_numpy(value.dtype)
        made = VecType(value.size, scalar) if value.ndim == 1 else MatType(*value.shape, scalar)
        return _pack_composite(p, made, value)
    return _adopted(p, value).launch_key, _adopted(p, value).packed


def launch(
    kernel: KernelDef,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Device | str | None = None,
    stream: object = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
) -> None:
    """Run a kernel over a grid of threads.

    `dim`: threads per dimension, 1 to 4 of them. `inputs`, `outputs`: the arguments, in the order of the parameters.
    `block_dim`: threads per block, 1 to 1024 (256). `max_blocks` is accepted and changes nothing. On the CPU the launch
    is complete on return. LaunchError for arguments that do not fit; CompileError for a kernel that is wrong."""
    if adjoint or adj_inputs or adj_outputs:
        raise LaunchError("gradients are not available yet: launch without adjoint=, adj_inputs= and adj_outputs=")
    if record_cmd or stream is not None:
        raise LaunchError("recorded launches and streams are not available on the CPU")
    if not isinstance(kernel, KernelDef):
        raise LaunchError(f"expected a kernel, got {kernel!r}: decorate the function with @tg.kernel")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    plan = _plan(dims, block_dim or kernel.options.block_dim or config.block_dim)
    if device is not None:
        get_device(device)
    args = (*inputs, *outputs)
    compiled, packed = _resolved(kernel, plan, args)
    if plan.blocks == 0:
        return
    if not compiled.sites:
        run(compiled.function, packed + plan.packed + b"\0\0\0\0\0\0\0\0", plan.blocks, compiled.scratch_bytes)
        return
    reports = Reports(compiled)
    run(compiled.function, packed + plan.packed + struct.pack("<Q", reports.address), plan.blocks, compiled.scratch_bytes)
    reports.deliver()


def launch_tiled(
    kernel: KernelDef, dim: int | Sequence[int], inputs: Sequence[Any] = (), outputs: Sequence[Any] = (), **options: Any
) -> None:
    """`launch` with one block per element of `dim`: the same as launch(dim=[*dim, block_dim])."""
    block_dim = options.get("block_dim")
    if block_dim is None:
        raise LaunchError("launch_tiled needs block_dim=, the number of threads per block")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) >= MAX_DIMS:
        raise LaunchError(f"launch_tiled takes up to {MAX_DIMS - 1} dimensions, got {len(dims)}")
    launch(kernel, (*dims, block_dim), inputs, outputs, **options)


def _resolved(kernel: KernelDef, plan: _Plan, args: tuple[Any, ...]) -> tuple[Compiled, bytes]:
    variants = _variants(kernel)
    if len(args) != len(variants.packers):
        names = ", ".join(p.name for p in kernel.parameters)
        raise LaunchError(f"{kernel.name} takes {len(variants.packers)} arguments ({names}), got {len(args)}")
    packed = [pack(value) for pack, value in zip(variants.packers, args, strict=True)]
    keys = [k for k, _ in packed]
    overlap = _overlaps(args)
    key = (*keys, plan.launch, overlap, config.mode, config.cpu_target)
    compiled = variants.by_key.get(key)
    if compiled is None:
        types, access = _specialisation(kernel, keys, overlap)
        compiled = compile_kernel(kernel, types, plan.launch, access)
        variants.by_key[key] = compiled
    return compiled, b"".join([data for _, data in packed])


def _variants(kernel: KernelDef) -> _Variants:
    found = kernel.__dict__.get("variants")
    if found is None:
        found = kernel.__dict__["variants"] = _Variants(kernel.parameters)
    return found


def _overlaps(args: tuple[Any, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs of array arguments that share bytes."""
    ranges = [(k, a.byte_range) for k, a in enumerate(args) if type(a) is array]
    found: list[tuple[int, int]] = []
    for at, (k, (low, high)) in enumerate(ranges):
        for j, (start, end) in ranges[at + 1 :]:
            if low < end and start < high:
                found.append((k, j))
    return tuple(found)


def _specialisation(
    kernel: KernelDef, keys: list[Any], overlap: tuple[tuple[int, int], ...]
) -> tuple[list[Type], list[AccessClass | None]]:
    types: list[Type] = []
    access: list[AccessClass | None] = []
    for k, key in enumerate(keys):
        if isinstance(key, tuple):
            dtype, ndim, known = key
            others = tuple(sorted({j for pair in overlap for j in pair if k in pair and j != k}))
            types.append(ArrayType(dtype, ndim))
            access.append(AccessClass(known.align, known.contiguous, known.dense, others))
        else:
            types.append(key)
            access.append(None)
    return types, access


__all__ = ["launch", "launch_tiled"]
