"""The parameters of an optimiser, and its state, as packed arrays of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tegula as tg
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.recording import recording
from tegula.types import DType, components, float32, scalar_of


def wide(a: array) -> DType:
    """The dtype in which updates of an array are computed: its own, or float32 for narrower floats."""
    scalar = scalar_of(a.dtype)
    if not scalar.is_float:
        raise LaunchError(f"an optimiser changes arrays of floats, not of {a.dtype}")
    return scalar if scalar.bits >= 32 else float32


def state_of(params: Sequence[array], states: Sequence[array]) -> list[array]:
    """A packed array of scalars for each parameter: the existing array if it fits, else zeros."""
    made: list[array] = []
    for k, param in enumerate(params):
        known = states[k] if len(states) == len(params) else None
        shape, dtype = (param.size * components(param.dtype),), wide(param)
        if known is not None and (known.shape, known.dtype) == (shape, dtype):
            made.append(known.to(param.device))
        else:
            made.append(tg.zeros(shape, dtype, param.device))
    return made


def listed(params: Any) -> list[array] | None:
    """The parameters as a list, or None."""
    return None if params is None else list(params)


def update(param: array, grad: array, run: Callable[[array, array], None]) -> None:
    """Change a parameter by a launch on its scalars and the gradient's, which no tape records.

    Parameters:
        param: the parameter.
        grad: its gradient.
        run: launches a kernel on both.
    Raises:
        TypeError: the dtypes differ.
        ValueError: the shapes differ.
    """
    if param.dtype != grad.dtype:
        raise TypeError(f"a parameter of {param.dtype} has a gradient of {grad.dtype}")
    if param.shape != grad.shape:
        raise ValueError(f"a parameter of shape {param.shape} has a gradient of shape {grad.shape}")
    with recording.paused():
        made = param if param.is_contiguous else tg.clone(param)
        scalars = [
            array(a, scalar_of(a.dtype), (a.size * components(a.dtype),), copy=False)
            for a in (made, grad if grad.is_contiguous else tg.clone(grad))
        ]
        if param.size:
            run(*scalars)
        if made is not param:
            param.assign(made)


def check_count(params: Sequence[array] | None, grads: Sequence[array]) -> Sequence[array]:
    """The parameters; raises an error if there are none, or no gradient for each."""
    if params is None:
        raise LaunchError(
            "the optimiser has no parameters", "pass parameters to the constructor, or call set_params"
        )
    if len(grads) != len(params):
        raise LaunchError(f"{len(grads)} gradients are given for {len(params)} parameters")
    return params
