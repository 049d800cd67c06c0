"""Computations to differentiate: a kernel launch, a Python function, or a launch recorded by a tape."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import tegula as tg
from tegula.errors import LaunchError
from tegula.runtime.recording import recording
from tegula.types import scalar_of

Mask = Sequence[tuple[str | int, str | int]]
"""Pairs of an input and an output, by index or by name."""


class Evaluation:
    """A repeatable computation of outputs from inputs.

    Parameters:
        name: the name of the kernel or function.
        inputs: the arguments.
        input_names, output_names: the names of the inputs, and a function from the index of an output to its name.
        run: computes and returns the outputs.
        saved: the arrays that `restore` resets to their values at construction; other values are ignored.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Any],
        input_names: Sequence[str],
        output_names: Callable[[int], str],
        run: Callable[[], Sequence[Any]],
        saved: Sequence[Any],
    ) -> None:
        self.name, self.inputs, self.input_names = name, inputs, input_names
        self.output_name, self._run = output_names, run
        self._saved = [(a, tg.clone(a, requires_grad=False)) for a in saved if isinstance(a, tg.array)]

    def run(self) -> Sequence[Any]:
        """Compute the outputs for the current inputs."""
        return self._run()

    def restore(self) -> None:
        """Restore the arrays to their initial values."""
        with recording.paused():
            for a, value in self._saved:
                a.assign(value)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore the arrays to their initial values at the end of the `with` block; an active tape does not record the
        block."""
        try:
            with recording.paused():
                yield
        finally:
            self.restore()

    def pairs(self, outputs: Sequence[Any], mask: Mask | None) -> Iterator[tuple[int, int]]:
        """The indices of the pairs of an input and an output that have gradients: all pairs, or the pairs of a mask."""
        names = [self.output_name(k) for k in range(len(outputs))]
        selected = mask and {
            (_position(i, self.input_names, 0), _position(k, names, len(self.input_names))) for i, k in mask
        }
        for i, source in enumerate(self.inputs):
            for k, target in enumerate(outputs):
                if (not selected or (i, k) in selected) and has_gradient(source) and has_gradient(target):
                    yield i, k


def _position(name: str | int, names: Sequence[str], before: int) -> int:
    """The index of an argument given by name or by index; an index below `before` is unchanged."""
    if isinstance(name, int):
        return name
    if name not in names:
        raise LaunchError(
            f"the kernel has no argument '{name}' to differentiate", f"the arguments are {', '.join(names)}"
        )
    return names.index(name)


def has_gradient(a: Any) -> bool:
    """Whether a value is an array of floats through which gradients flow."""
    return isinstance(a, tg.array) and a.requires_grad and scalar_of(a.dtype).is_float


def evaluation(
    function: Any,
    dim: Any,
    inputs: Sequence[Any] | None,
    outputs: Sequence[Any] | None,
    block_dim: int | None,
    device: Any,
    restore_inputs: bool,
) -> Evaluation:
    """The evaluation of a kernel or a function.

    Raises:
        ValueError: a kernel has no outputs, or there are no inputs.
    """
    if inputs is None:
        raise LaunchError("the inputs are missing", "pass inputs=[...]")
    arrays = list(inputs)
    if not isinstance(function, tg.Kernel):
        names = list(inspect.signature(function).parameters)
        saved = arrays if restore_inputs else []
        return Evaluation(
            function.__name__,
            arrays,
            names,
            lambda k: f"output_{k}",
            lambda: _as_list(function(*arrays)),
            saved,
        )
    if not outputs:
        raise LaunchError(f"kernel {function.name}: the outputs are missing", "pass outputs=[...]")
    targets = list(outputs)
    names = [p.name for p in function.parameters]

    def run() -> Sequence[Any]:
        tg.launch(function, dim, arrays, targets, block_dim=block_dim, device=device)
        return targets

    saved = [*arrays, *targets]
    return Evaluation(
        function.name, arrays, names[: len(arrays)], lambda k: names[len(arrays) + k], run, saved
    )


def _as_list(results: Any) -> Sequence[Any]:
    """The return value of a function as a list."""
    return [results] if isinstance(results, tg.array) else list(results)


def components_of(a: tg.array) -> np.ndarray:
    """The components of an array's elements in float64, in one dimension; a copy."""
    return np.array(a.numpy(), np.float64).reshape(-1)
