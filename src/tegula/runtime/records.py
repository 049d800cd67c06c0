"""The records of a tape: launches, and methods of arrays that overwrite elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tegula.deferred import deferred_imports
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.element_range import ElementRange
from tegula.runtime.make_arrays import empty
from tegula.runtime.recording import recording
from tegula.runtime.structures import structures_of
from tegula.types import components, scalar_of, to_numpy, with_scalar

with deferred_imports():
    from tegula.runtime.addition import add

if TYPE_CHECKING:
    from tegula.runtime.fast_path import Form
    from tegula.runtime.kernel import Kernel
    from tegula.runtime.launch import LaunchPlan


class Use(NamedTuple):
    """An array that a record reads or writes. `origin`: the record, as text; `name`: the array's name in the record."""

    origin: str
    name: str
    array: array

    @property
    def elements(self) -> ElementRange:
        """The memory of the array."""
        return ElementRange.of(self.array)

    @property
    def is_float(self) -> bool:
        """Whether the array is of floats."""
        return scalar_of(self.array.dtype).is_float

    @property
    def has_gradient(self) -> bool:
        """Whether gradients flow to the array."""
        return self.is_float and self.array.requires_grad


class LaunchRecord:
    """The record of a launch, with the compiled form that ran, and the tape's number of writes after the launch.
    `raw_arguments`: the arguments as they were passed; `arguments`: the arguments as tg.arrays; `versions`: the version
    counters of PyTorch tensors."""

    def __init__(
        self,
        kernel: Kernel,
        plan: LaunchPlan,
        raw_arguments: Sequence[Any],
        arguments: Sequence[Any],
        form: Form,
        time: int,
        versions: dict[int, int],
    ) -> None:
        self.kernel, self.plan, self.form = kernel, plan, form
        named_arguments = zip((p.name for p in kernel.parameters), arguments, strict=False)
        reads_table = any(site.kind == "structures" for site in form.sites)
        self.structures = structures_of(named_arguments, form.device, reads_table)
        self.raw_arguments, self.arguments = raw_arguments, arguments
        self.time, self.versions = time, versions

    @cached_property
    def reads(self) -> list[Use]:
        """The arrays that the launch may have read, including the arrays of structures."""
        return [*self._uses(read_positions(self.kernel, self.form)), *self._structure_uses()]

    @cached_property
    def writes(self) -> list[Use]:
        """The arrays that the launch may have written."""
        return self._uses(self.form.writes)

    def _uses(self, positions: Sequence[int]) -> list[Use]:
        subject = f"kernel {self.kernel.name}"
        named_arguments = (
            (f"argument '{self.kernel.parameters[k].name}'", self.arguments[k]) for k in positions
        )
        return [Use(subject, name, a) for name, a in named_arguments if isinstance(a, array)]

    def _structure_uses(self) -> list[Use]:
        """The arrays with a gradient of the launch's structures."""
        subject = f"kernel {self.kernel.name}"
        structure_arrays = [
            (s.name, name, a) for s in self.structures for name, a in s.structure.differentiable()
        ]
        return [
            Use(subject, f"'{name}' of {owner}", a) for owner, name, a in structure_arrays if a.requires_grad
        ]

    @property
    def arrays(self) -> Iterator[array]:
        """The arrays among the arguments, and the arrays with a gradient of structures."""
        yield from (a for a in self.arguments if isinstance(a, array))
        yield from (use.array for use in self._structure_uses())


class AssignmentRecord:
    """The record of a method that set all elements of an array to the converted elements of another array, or to
    constants. `new`: whether the method created the array."""

    def __init__(self, target: array, source: array | None, new: bool) -> None:
        self.target, self.source, self.new = target, source, new

    @property
    def reads(self) -> list[Use]:
        """The array that was copied, if any."""
        return [] if self.source is None else [Use("a copy", "the source", self.source)]

    @property
    def writes(self) -> list[Use]:
        """The array that was overwritten."""
        return [Use("a copy" if self.source is not None else "a fill", "the target", self.target)]

    @property
    def arrays(self) -> Iterator[array]:
        """The arrays of the record."""
        return (a for a in (self.target, self.source) if a is not None)

    def propagate_gradient(self) -> None:
        """The adjoint: add the target's gradient to the source's gradient, and clear the target's gradient, because the
        method overwrote the target."""
        have_gradient = [bool(u.has_gradient) for u in (*self.writes, *self.reads)]
        target_gradient = existing_gradient(self.target) if have_gradient[0] else None
        if target_gradient is None:
            return
        if self.source is not None and _scalar_count(self.source) != _scalar_count(self.target):
            help = "broadcast the array by a launch, or pass a number, which is constant"
            raise LaunchError(
                "an array was filled with a broadcast array, whose gradient would be a sum", help
            )
        if self.source is None or not any(have_gradient[1:]):
            if not self.new:
                clear(target_gradient)
            return
        source_gradient = self.source.grad
        assert source_gradient is not None
        scalar = scalar_of(source_gradient.dtype)
        converted = empty(
            target_gradient.shape, with_scalar(target_gradient.dtype, scalar), source_gradient.device
        )
        # Numbers that overflow the other float type become infinite, as in kernels.
        with np.errstate(over="ignore"):
            converted.assign(
                target_gradient
                if converted.dtype == target_gradient.dtype
                else target_gradient.numpy().astype(to_numpy(scalar))
            )
        clear(target_gradient)
        add(source_gradient, array(converted, source_gradient.dtype, source_gradient.shape, copy=False))


class AdjointRecord:
    """The record of a run of a kernel's adjoint. There are no gradients of gradients: the arrays that the adjoint wrote
    are treated as arrays without a gradient that depend on arrays with a gradient."""

    def __init__(self, name: str, args: Sequence[Any], gradients: Mapping[int, array]) -> None:
        self.origin = subject = f"the gradient of kernel {name}"
        self.arrays = [*(a for a in args if isinstance(a, array)), *gradients.values()]
        self.reads = [Use(subject, "an array", a) for a in self.arrays]
        self.writes = [Use(subject, "a gradient", g) for g in gradients.values()]


class CallRecord:
    """The record of a function that a backward run calls. The arrays that the function accesses are unknown."""

    def __init__(self, backward: Callable[[], object], arrays: Sequence[array]) -> None:
        self.backward, self.arrays = backward, list(arrays)
        self.reads: list[Use] = []
        self.writes: list[Use] = []


Record = LaunchRecord | AssignmentRecord | AdjointRecord | CallRecord


def _scalar_count(a: array) -> int:
    return a.size * components(a.dtype)


def existing_gradient(a: array) -> array | None:
    """The gradient of an array; None if the gradient has no memory yet, and is zero."""
    return a._gradient(make=False)


def clear(a: array) -> None:
    """Set all elements to zero. No tape records the fill."""
    with recording.paused():
        a.zero_()


def read_positions(kernel: Kernel, form: Form) -> list[int]:
    """The positions of the array parameters that a compiled form of a kernel may read."""
    from tegula.passes.overlap import array_root

    cached = kernel.cached_reads
    if form not in cached:
        effects = [e for op in form.kernel.walk() for e in op.effects() if e.kind != "write"]
        roots = {array_root(e.value) for e in effects if e.value is not None}
        cached[form] = [k for k, p in enumerate(form.kernel.params) if p in roots]
    return cached[form]
