"""Checks of gradients against finite differences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tegula.errors import LaunchError, TegulaError
from tegula.runtime.adjoint import gradients
from tegula.runtime.array import array
from tegula.runtime.launch import launch
from tegula.runtime.make_arrays import clone
from tegula.runtime.recording import recording
from tegula.structs import StructType
from tegula.types import scalar_of


class GradientMismatch(TegulaError, AssertionError, ValueError):
    """A gradient that finite differences contradict."""


@recording.paused()
def gradcheck(
    kernel: Any,
    dim: Any,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    directions: int = 8,
    seed: int = 0,
    block_dim: int | None = None,
    raise_exception: bool = True,
) -> bool:
    """Checks the gradients of a kernel against central differences along random directions.

    Differences of float32 arrays are inaccurate; prefer float64.

    Parameters:
        kernel: the kernel.
        dim: the number of threads in each dimension.
        inputs, outputs: the arguments of the launch; arrays of floats with `requires_grad` are checked, and restored
            afterwards.
        eps: a float, the step of the central differences; by default 1e-5 if all checked arrays are float64, else 1e-2.
        atol: a float, the absolute tolerance; by default 1e-8 for float64, else 1e-3.
        rtol: a float, the tolerance relative to the sum of magnitudes; by default 1e-6 for float64, else 2e-2.
        directions: the number of directions; 8 by default.
        seed: an int, the seed of the random directions; 0 by default.
        block_dim: the number of threads in a block; as for tg.launch by default.
        raise_exception: whether a difference raises; True by default.
    Returns:
        True, or without `raise_exception` whether the gradients agree.
    Raises:
        AssertionError: the gradients differ (tg.GradientMismatch).
        launch: no input or no output has a gradient, or the arguments do not fit.
        no-gradient: the kernel has no gradient.
    """
    args = [*inputs, *outputs]
    checked = [part for k, a in enumerate(args) for part in _checked_arrays(a, k)]
    checked_inputs = [part for part in checked if part.position < len(inputs)]
    checked_outputs = [part for part in checked if part.position >= len(inputs)]
    sources, targets = [part.array for part in checked_inputs], [part.array for part in checked_outputs]
    if not sources or not targets:
        help = "create the arrays to check with requires_grad=True"
        raise LaunchError("gradcheck needs an input and an output with a gradient", help)
    all_float64 = all(a.numpy().dtype == np.float64 for a in (*sources, *targets))
    eps = (1e-5 if all_float64 else 1e-2) if eps is None else eps
    rtol = (1e-6 if all_float64 else 2e-2) if rtol is None else rtol
    atol = (1e-8 if all_float64 else 1e-3) if atol is None else atol
    copies = [(a, clone(a)) for a in args if isinstance(a, array)]
    rng = np.random.default_rng(seed)

    def restore() -> None:
        for a, saved in copies:
            a.assign(saved)

    def run() -> list[np.ndarray]:
        launch(kernel, dim, inputs, outputs, block_dim=block_dim, record_tape=False)
        return [np.array(a.numpy(), np.float64) for a in targets]

    for _ in range(directions):
        weights = [rng.standard_normal(np.shape(a)) for a in map(array.numpy, targets)]
        steps = [rng.standard_normal(np.shape(a)) for a in map(array.numpy, sources)]
        values: list[list[np.ndarray]] = []
        for sign in (1.0, -1.0):
            restore()
            for a, d in zip(sources, steps, strict=True):
                a.assign((a.numpy().astype(np.float64) + sign * eps * d).astype(a.numpy().dtype))
            values.append(run())
        restore()
        difference_terms = [
            (above - below) / (2 * eps) * w for above, below, w in zip(*values, weights, strict=True)
        ]
        run()
        grads = gradients(args)
        new_gradients = [
            array(shape=g.shape, dtype=g.dtype, device=g.device) if (g := grads.get(k)) is not None else None
            for k in range(len(args))
        ]
        for part, w in zip(checked_outputs, weights, strict=True):
            gradient = part.gradient_in(new_gradients)
            gradient.assign(w.astype(gradient.numpy().dtype))
        n = len(inputs)
        launch(
            kernel,
            dim,
            inputs,
            outputs,
            new_gradients[:n],
            new_gradients[n:],
            adjoint=True,
            block_dim=block_dim,
            record_tape=False,
        )
        adjoint_terms = []
        for part, d in zip(checked_inputs, steps, strict=True):
            gradient = part.gradient_in(new_gradients)
            adjoint_terms.append(np.array(gradient.numpy(), np.float64) * d)
        expected, actual = (
            sum(float(x.sum()) for x in difference_terms),
            sum(float(x.sum()) for x in adjoint_terms),
        )
        magnitude = max(
            sum(float(np.abs(x).sum()) for x in part) for part in (difference_terms, adjoint_terms)
        )
        restore()
        if not abs(expected - actual) <= atol + rtol * magnitude:
            if not raise_exception:
                return False
            raise GradientMismatch(
                f"kernel {kernel.name}: along a random direction the derivative is {expected:.9g} by differences, "
                f"{actual:.9g} by the adjoint (terms sum to {magnitude:.3g})"
            )
    return True


class _CheckedArray(NamedTuple):
    """An array of floats that is checked: the argument at a position, or a leaf of the argument."""

    array: array
    position: int
    leaf: int

    def gradient_in(self, gradients: Sequence[array | None]) -> array:
        """The gradient of the array, among the gradients of the arguments."""
        gradient = gradients[self.position]
        assert gradient is not None
        return gradient if self.leaf < 0 else gradient.leaves[self.leaf]


def _checked_arrays(a: Any, position: int) -> Iterator[_CheckedArray]:
    if not isinstance(a, array) or not a.requires_grad:
        return
    leaves = enumerate(a.leaves) if isinstance(a.dtype, StructType) else [(-1, a)]
    yield from (_CheckedArray(leaf, position, k) for k, leaf in leaves if scalar_of(leaf.dtype).is_float)
