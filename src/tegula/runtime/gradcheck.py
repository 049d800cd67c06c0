"""Gradients against finite differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tegula.errors import LaunchError, TegulaError
from tegula.runtime.adjoint import gradients
from tegula.runtime.array import array, clone
from tegula.runtime.launch import launch
from tegula.runtime.recording import recording
from tegula.types import scalar_of


class GradientMismatch(TegulaError, AssertionError):
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
    """Whether a kernel's gradients agree with central differences along random directions.

    `inputs`, `outputs`: the arguments of the launch; the arrays of floats among them that have `requires_grad` are
    checked and left as they were. The derivative of the outputs' sum with random weights, along a random direction of
    the inputs, must differ by at most atol + rtol * the size of what was summed. Steps and tolerances are by default
    those that float64 allows where all arrays are float64, else float32. GradientMismatch where they differ, unless
    `raise_exception` is false."""
    args = [*inputs, *outputs]
    sources = [a for a in inputs if _has_gradient(a)]
    targets = [a for a in outputs if _has_gradient(a)]
    if not sources or not targets:
        help = "make the arrays to check with requires_grad=True"
        raise LaunchError("gradcheck needs an input and an output with a gradient", help)
    exact = all(a.numpy().dtype == np.float64 for a in (*sources, *targets))
    eps = (1e-5 if exact else 1e-2) if eps is None else eps
    rtol = (1e-6 if exact else 2e-2) if rtol is None else rtol
    atol = (1e-8 if exact else 1e-3) if atol is None else atol
    before = [(a, clone(a)) for a in args if isinstance(a, array)]
    rng = np.random.default_rng(seed)

    def restore() -> None:
        for a, kept in before:
            a.assign(kept)

    def run() -> list[np.ndarray]:
        launch(kernel, dim, inputs, outputs, block_dim=block_dim, record_tape=False)
        return [np.array(a.numpy(), np.float64) for a in targets]

    for _ in range(directions):
        weights = [rng.standard_normal(np.shape(a)) for a in map(array.numpy, targets)]
        along = [rng.standard_normal(np.shape(a)) for a in map(array.numpy, sources)]
        values: list[list[np.ndarray]] = []
        for sign in (1.0, -1.0):
            restore()
            for a, d in zip(sources, along, strict=True):
                a.assign((a.numpy().astype(np.float64) + sign * eps * d).astype(a.numpy().dtype))
            values.append(run())
        restore()
        numeric = [(up - down) / (2 * eps) * w for up, down, w in zip(*values, weights, strict=True)]
        run()
        grads = gradients(args)
        fresh = [
            array(shape=g.shape, dtype=g.dtype, device=g.device) if (g := grads.get(k)) is not None else None
            for k in range(len(args))
        ]
        for a, w in zip(targets, weights, strict=True):
            found = fresh[next(k for k, x in enumerate(args) if x is a)]
            assert found is not None
            found.assign(w.astype(found.numpy().dtype))
        n = len(inputs)
        launch(
            kernel,
            dim,
            inputs,
            outputs,
            fresh[:n],
            fresh[n:],
            adjoint=True,
            block_dim=block_dim,
            record_tape=False,
        )
        products = []
        for a, d in zip(sources, along, strict=True):
            found = fresh[next(k for k, x in enumerate(args) if x is a)]
            assert found is not None
            products.append(np.array(found.numpy(), np.float64) * d)
        wanted, got = sum(float(x.sum()) for x in numeric), sum(float(x.sum()) for x in products)
        size = max(sum(float(np.abs(x).sum()) for x in part) for part in (numeric, products))
        restore()
        if not abs(wanted - got) <= atol + rtol * size:
            if not raise_exception:
                return False
            raise GradientMismatch(
                f"kernel {kernel.name}: along a random direction the derivative is {wanted:.9g} by differences, "
                f"{got:.9g} by the adjoint (terms sum to {size:.3g})"
            )
    return True


def _has_gradient(a: Any) -> bool:
    return isinstance(a, array) and a.requires_grad and scalar_of(a.dtype).is_float
