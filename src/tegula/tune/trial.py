"""Runs candidates on the arguments of a launch and restores the arrays afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.errors import TuningError
from tegula.ir import Kernel
from tegula.passes.overlap import array_root
from tegula.runtime.array import array
from tegula.runtime.block_scales import with_scale
from tegula.runtime.compile import trace
from tegula.runtime.device import Device
from tegula.runtime.launch import block_size, launch, launch_tiled, plan
from tegula.runtime.make_arrays import clone, copy
from tegula.runtime.resolve import overlaps, requested_specialisation
from tegula.tune.candidates import BLOCK, Candidate, call_with
from tegula.tune.results import Result
from tegula.types import scalar_of

POISON = 0x5A
"""The poison value of integer elements."""


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of a launch, for any candidate. `arguments`: tg.arrays and numbers; `tiled`: whether the launch has
    a block for each element of `dim`."""

    dim: Any
    arguments: tuple[Any, ...]
    block_dim: int | None
    tiled: bool
    device: Any
    stream: Any

    def shape(self, candidate: Candidate) -> tuple[Any, int | None]:
        """The launch dimensions and threads per block of a candidate."""
        if candidate.block_dim is not None and self.block_dim is not None:
            help = f"leave out {BLOCK}= in the launch, or in the candidates"
            raise TuningError(f"both the candidates and the launch set {BLOCK}", help)
        dim = call_with(self.dim, candidate.values, "dim") if callable(self.dim) else self.dim
        return dim, candidate.block_dim if candidate.block_dim is not None else self.block_dim

    def traced(self, candidate: Candidate) -> tuple[Kernel, Device]:
        """The IR that a launch of the candidate runs, and the device."""
        dim, arguments = self.shape(candidate)
        dims = tuple(dim) if isinstance(dim, Sequence | np.ndarray) else (dim,)
        if self.tiled and self.block_dim is None and not candidate.kernel.has_roles and arguments is None:
            help = "pass block_dim= to the launch, or let the candidates choose: block_dim=[128, 256]"
            raise TuningError("launch_tiled needs block_dim=, the number of threads per block", help)
        threads = block_size(candidate.kernel, arguments, self.arguments, (), len(dims) + self.tiled)
        launch = plan((*dims, threads) if self.tiled else dims, threads)
        requested = with_scale(
            candidate.kernel, requested_specialisation(candidate.kernel, launch, self.arguments)
        )
        device = requested.device
        return trace(candidate.kernel, requested.types, requested.launch, requested.access, device), device

    def run(self, candidate: Candidate) -> None:
        """Launch a candidate with the arguments of the request."""
        dim, block_dim = self.shape(candidate)
        start = launch_tiled if self.tiled else launch
        options = {"device": self.device, "stream": self.stream, "record_tape": False}
        start(candidate.kernel, dim, self.arguments, block_dim=block_dim, **options)


class Trial:
    """The arrays that candidates write, with copies of their elements. `used`: the indices of the arguments whose old
    elements are read, so that the elements must be restored before every run."""

    def __init__(self, request: Request, kernels: Sequence[Kernel]) -> None:
        self.request = request
        written, read = accessed_parameters(kernels)
        shared = {k for pair in overlaps(request.arguments) for k in pair}
        self.written = [k for k in sorted(written) if request.arguments[k].size]
        self.used = [k for k in self.written if k in read or k in shared]
        self.before = {k: clone(request.arguments[k], requires_grad=False) for k in self.written}

    def restore(self) -> None:
        """Restore the elements of the written arrays."""
        for k, saved in self.before.items():
            copy(self.request.arguments[k], saved)

    @property
    def make_restore(self) -> Callable[[], None] | None:
        """A function that restores the arrays before a timed run; None if there is nothing to restore."""
        if not self.used:
            return None
        pairs = [(self.request.arguments[k], self.before[k]) for k in self.used]

        def restore_written() -> None:
            for target, saved in pairs:
                copy(target, saved)

        return restore_written

    def result(self, candidate: Candidate, wait: Callable[[], None]) -> Result:
        """The arrays that the candidate wrote. Arrays whose old elements are not read are filled with poison values
        first. Raises the errors of the launch, for example RunError; errors of kernels on a GPU are raised by
        `wait`."""
        self.restore()
        for k in self.written:
            if k not in self.used:
                poison(self.request.arguments[k])
        self.request.run(candidate)
        wait()
        arrays = [self.request.arguments[k] for k in self.written]
        return [(str(scalar_of(a.dtype)), np.array(a.numpy())) for a in arrays]


def poison(a: array) -> None:
    """Fill an array with a poison value, which a kernel is unlikely to write. Arrays of bools are left unchanged."""
    kind = scalar_of(a.dtype).kind
    if kind != "b":
        a.fill_(float("nan") if kind == "f" else POISON)


def accessed_parameters(kernels: Sequence[Kernel]) -> tuple[set[int], set[int]]:
    """The indices of the array parameters that any of the kernels may write, and of the array parameters that any of
    the kernels reads or modifies in place."""
    written: set[int] = set()
    read: set[int] = set()
    for kernel in kernels:
        for op in kernel.walk():
            for effect in op.effects():  # type: ignore[attr-defined]
                if effect.value is None or effect.kind not in ("read", "write", "atomic"):
                    continue
                root = array_root(effect.value)
                if root in kernel.params:
                    position = kernel.params.index(root)
                    written |= {position} if effect.kind != "read" else set()
                    read |= {position} if effect.kind != "write" else set()
    return written, read


def is_lost(device: Device) -> bool:
    """Whether a fault has made the device unusable in this process."""
    if not device.is_cuda:
        return False
    from tegula.runtime.cuda.context import context

    return context(device.ordinal).fault is not None
