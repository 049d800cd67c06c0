"""Runs a kernel in the interpreter and on a device, and compares every byte of every argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tegula as tg
from tegula import interp
from tegula.dataclass import replace
from tegula.ir import Kernel as KernelIR
from tegula.runtime.compile import trace
from tegula.runtime.compound_arguments import flattened
from tegula.runtime.description import SPECIALISATIONS
from tegula.runtime.launch import plan
from tegula.runtime.resolve import overlaps, specialisation


def traced(
    kernel: Any, args: Sequence[Any], dims: Sequence[int], block_dim: int, on_gpu: bool | None = None
) -> KernelIR:
    """The unoptimised IR of a launch with these arguments. `on_gpu`: with the programs of one device only."""
    packed = [pack(value) for pack, value in zip(kernel.packers, args, strict=True)]
    specialisations = [SPECIALISATIONS[number] for number, _ in packed]
    specialised = specialisation(specialisations, plan(tuple(dims), block_dim).launch, overlaps(tuple(args)))
    launch = replace(specialised.launch, on_gpu=on_gpu)
    return trace(kernel, specialised.types, launch, specialised.access)


def interpret(
    kernel: Any, args: Sequence[Any], dims: Sequence[int], block_dim: int, debug: bool = False
) -> list[str]:
    """Run a launch in the interpreter. Arrays must be on the CPU and change in place. Returns the printed lines."""
    assert all(str(a.device) == "cpu" for a in args if isinstance(a, tg.array)), (
        "arrays on a GPU would be copied to the host"
    )
    printed: list[str] = []
    kernel, args = flattened(kernel, tuple(args))
    host_values = [a.numpy() if isinstance(a, tg.array) else a for a in args]
    interp.run(
        traced(kernel, args, dims, block_dim), host_values, tuple(dims), block_dim, printed.append, debug
    )
    return printed


def agree(
    kernel: Any, args: Sequence[Any], dim: int | Sequence[int], block_dim: int, tiled: bool = False
) -> list[np.ndarray]:
    """Launch a kernel on the current device and in the interpreter, on copies of the arrays, and assert that the arrays
    are equal. Returns the arrays.

    Arguments are packed arrays and numbers."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    dims = (*dims, block_dim) if tiled else dims
    reference = [tg.clone(a, device="cpu") if isinstance(a, tg.array) else a for a in args]
    device_arguments = [tg.clone(a) if isinstance(a, tg.array) else a for a in args]
    interpret(kernel, reference, dims, block_dim)
    tg.launch(kernel, dims, inputs=device_arguments, block_dim=block_dim)
    names = (p.name for p in kernel.definition.parameters)
    for name, expected, actual in zip(names, reference, device_arguments, strict=True):
        if isinstance(expected, tg.array):
            assert_same_bits(actual.numpy(), expected.numpy(), name)
    return [a.numpy() for a in device_arguments if isinstance(a, tg.array)]


def assert_same_bits(actual: np.ndarray, expected: np.ndarray, name: str = "") -> None:
    """Assert that arrays are equal bit for bit, except that any NaN equals any NaN."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    for field in actual.dtype.names or ():
        assert_same_bits(actual[field], expected[field], f"{name}.{field}")
    if actual.dtype.names is not None:
        return
    integer_dtype = np.dtype(f"u{actual.dtype.itemsize}")
    equal = np.ascontiguousarray(actual).view(integer_dtype) == np.ascontiguousarray(expected).view(
        integer_dtype
    )
    if actual.dtype.kind not in "biu":
        equal |= np.isnan(actual.astype(np.float64)) & np.isnan(expected.astype(np.float64))
    assert equal.all(), f"{name}: device\n{actual}\ninterpreter\n{expected}"


def codes(error: tg.CompileError) -> set[str]:
    """The codes of an error, or of the errors of a group."""
    return {e.CODE for e in getattr(error, "errors", [error])}
