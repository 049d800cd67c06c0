"""Checks of an optimiser's parameters and gradients, and the optimiser's state as packed arrays of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tegula as tg
from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.recording import recording
from tegula.types import DType, components, float32, scalar_of


def update_dtype(a: array) -> DType:
    """The dtype in which updates of an array are computed: the array's scalar type, or float32 for narrower floats."""
    scalar = scalar_of(a.dtype)
    if not scalar.is_float:
        raise LaunchError(f"an optimiser updates arrays of floats, got an array of {a.dtype}")
    return scalar if scalar.bits >= 32 else float32


def scalar_states(params: Sequence[array], states: Sequence[array]) -> list[array]:
    """A packed array of scalars for each parameter: the existing array if it fits, else zeros."""
    arrays: list[array] = []
    for k, param in enumerate(params):
        state = states[k] if len(states) == len(params) else None
        shape, dtype = (param.size * components(param.dtype),), update_dtype(param)
        if state is not None and (state.shape, state.dtype) == (shape, dtype):
            arrays.append(state.to(param.device))
        else:
            arrays.append(tg.zeros(shape, dtype, param.device))
    return arrays


def parameter_list(params: Any) -> list[array] | None:
    """The parameters as a list, or None; LaunchError unless all are arrays of floats."""
    if params is None:
        return None
    _check_list(params, "parameters")
    parameters = list(params)
    for x in parameters:
        if not isinstance(x, array):
            raise LaunchError(
                f"a parameter of an optimiser must be an array, got {type(x).__name__}",
                "create the parameter with tg.array(..., requires_grad=True)",
            )
    return parameters


def _check_list(x: Any, name: str) -> None:
    """Raise LaunchError for a value that is not a list of arrays."""
    if isinstance(x, array) or not hasattr(x, "__iter__"):
        actual = "one array" if isinstance(x, array) else f"a value of type {type(x).__name__}"
        raise LaunchError(
            f"the {name} of an optimiser must be a list of arrays, got {actual}", "write [a, b]"
        )


def update(param: array, grad: array, run: Callable[[array, array], None]) -> None:
    """Update a parameter by a launch on views of its scalars and of the gradient's scalars; no tape records the launch.

    Parameters:
        param: the parameter.
        grad: the gradient of the parameter.
        run: a function that launches the kernel on the two views.
    Raises:
        TypeError: the dtypes differ.
        ValueError: the shapes differ.
    """
    if param.dtype != grad.dtype:
        raise TypeError(f"a parameter of {param.dtype} has a gradient of {grad.dtype}")
    if param.shape != grad.shape:
        raise ValueError(f"a parameter of shape {param.shape} has a gradient of shape {grad.shape}")
    with recording.paused():
        target = param if param.is_contiguous else tg.clone(param)
        scalars = [
            array(a, scalar_of(a.dtype), (a.size * components(a.dtype),), copy=False)
            for a in (target, grad if grad.is_contiguous else tg.clone(grad))
        ]
        if param.size:
            run(*scalars)
        if target is not param:
            param.assign(target)


def check_count(params: Sequence[array] | None, grads: Sequence[array]) -> Sequence[array]:
    """The parameters; LaunchError if there are none, or if the number of gradients differs."""
    if params is None:
        raise LaunchError(
            "the optimiser has no parameters", "pass parameters to the constructor, or call set_params"
        )
    _check_list(grads, "gradients")
    if len(grads) != len(params):
        raise LaunchError(f"the numbers of gradients and parameters differ: {len(grads)} and {len(params)}")
    for k, grad in enumerate(grads):
        if not isinstance(grad, array):
            help = (
                "create the parameter with requires_grad=True"
                if grad is None
                else "pass a.grad of each parameter"
            )
            actual = "none" if grad is None else f"a value of type {type(grad).__name__}"
            raise LaunchError(f"the gradient of parameter {k} must be an array, got {actual}", help)
    return params
