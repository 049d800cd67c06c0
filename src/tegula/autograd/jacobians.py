"""Jacobians: by the adjoint, a row for each component of an output; by differences, a column for each component of an
input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tegula as tg
from tegula.autograd.evaluation import Evaluation, Mask, components_of, evaluation
from tegula.types import element_shape, scalar_of, to_numpy

Jacobians = dict[tuple[int, int], tg.array]


def jacobian(
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_outputs_per_var: int = -1,
    restore_inputs: bool = True,
) -> Jacobians:
    """The Jacobian by the adjoint: the derivatives of all components of the outputs by all components of the inputs.
    The gradients of all arrays are 0 afterwards.

    Parameters:
        function: a kernel whose outputs are its last arguments, or a Python function that launches kernels and returns
            one or more arrays.
        dim: the number of threads in each dimension, of a kernel.
        inputs: a list of the arguments before the outputs. The Jacobian has the derivatives by arrays with
            `requires_grad`.
        outputs: the other arguments of a kernel.
        input_output_mask: pairs of an input and an output by position or name; all pairs by default.
        device: the device on which a kernel without array arguments runs.
        max_blocks: an int, accepted for compatibility; has no effect.
        block_dim: the number of threads in a block; as for tg.launch by default.
        max_outputs_per_var: the number of leading components of each output that are differentiated; all by default.
            The other rows are NaN.
        restore_inputs: whether the arguments have their old values afterwards; True by default, and always for
            kernels.
    Returns:
        a dictionary from pairs of indices (input, output) to arrays. An array has a row for each component of the
        output; a row has an element for each element of the input.
    Raises:
        launch: there are no inputs or outputs, or no such pair.
        no-gradient: an op between an input and an output has no gradient.
    """
    computation = evaluation(function, dim, inputs, outputs, block_dim, device, restore_inputs)
    return by_adjoint(computation, input_output_mask, max_outputs_per_var)


def jacobian_fd(
    function: Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask | None = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int | None = None,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    restore_inputs: bool = True,
) -> Jacobians:
    """The Jacobian by central differences: the derivatives of all components of the outputs by all components of the
    inputs.

    Parameters:
        function, dim, inputs, outputs, input_output_mask, device, max_blocks, block_dim: as for `jacobian`.
        max_inputs_per_var: an int, the number of leading components of each input to differentiate by; all by
            default. The other columns are NaN.
        eps: a float, the step; 1e-4 by default.
        restore_inputs: as for `jacobian`.
    Returns:
        arrays as `jacobian` returns them.
    Raises:
        launch: there are no inputs or outputs, or no such pair.
    """
    computation = evaluation(function, dim, inputs, outputs, block_dim, device, restore_inputs)
    return by_differences(computation, input_output_mask, max_inputs_per_var, eps)


def by_adjoint(computation: Evaluation, mask: Mask | None, max_components: int) -> Jacobians:
    """The Jacobians of an evaluation by its adjoint."""
    jacobians: Jacobians = {}
    with computation.restored():
        with tg.Tape() as tape:
            outputs = computation.run()
        for i, k in computation.pairs(outputs, mask):
            source, target = computation.inputs[i], outputs[k]
            size = components_of(target).size
            rows = np.full((size, components_of(source).size), np.nan)
            for row in range(size if max_components <= 0 else min(max_components, size)):
                tape.zero()
                seed = np.zeros(size)
                seed[row] = 1.0
                tape.backward(grads={target: seed.reshape(target.numpy().shape)})
                rows[row] = components_of(source.grad)
            jacobians[i, k] = _jacobian(rows, source)
        tape.zero()
    return jacobians


def by_differences(computation: Evaluation, mask: Mask | None, max_components: int, eps: float) -> Jacobians:
    """The Jacobians of an evaluation by central differences."""
    jacobians: Jacobians = {}
    with computation.restored():
        outputs = computation.run()
        computation.restore()
        targets: dict[int, list[int]] = {}
        for i, k in computation.pairs(outputs, mask):
            targets.setdefault(i, []).append(k)
        for i, output_indices in targets.items():
            source = computation.inputs[i]
            values = source.numpy().copy()
            columns = {
                k: np.full((values.size, components_of(outputs[k]).size), np.nan) for k in output_indices
            }
            for n in range(values.size if max_components <= 0 else min(max_components, values.size)):
                (above, above_outputs), (below, below_outputs) = (
                    _perturbed(computation, source, values, n, step) for step in (eps, -eps)
                )
                for k in output_indices:
                    columns[k][n] = (above_outputs[k] - below_outputs[k]) / (above - below)
            jacobians |= {(i, k): _jacobian(columns[k].T, source) for k in output_indices}
    return jacobians


def _perturbed(
    computation: Evaluation, source: tg.array, values: np.ndarray, n: int, step: float
) -> tuple[float, list[np.ndarray]]:
    """The outputs' components with one input component perturbed by a step, and the perturbed component's value. The
    input is restored."""
    computation.restore()
    perturbed = values.copy()
    perturbed.reshape(-1)[n] += values.dtype.type(step)
    source.assign(perturbed)
    results = [components_of(a) if isinstance(a, tg.array) else np.empty(0) for a in computation.run()]
    source.assign(values)
    return float(perturbed.reshape(-1)[n]), results


def _jacobian(rows: np.ndarray, source: tg.array) -> tg.array:
    """An array of derivatives with respect to an input's components: each row has the components of one element."""
    inner = element_shape(source.dtype)
    shape = (rows.shape[0], source.size, *inner)
    data = rows.reshape(shape).astype(to_numpy(scalar_of(source.dtype)))
    return tg.array(data, dtype=source.dtype, device=source.device)
