"""Gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Sequence

import tegula as tg
from tegula.optim.parameters import check_count, parameter_list, scalar_states, update
from tegula.runtime.array import array


@tg.kernel
def sgd_step(
    g,
    b,
    lr: tg.float64,
    momentum: tg.float64,
    gradient_weight: tg.float64,
    decay: tg.float64,
    nesterov: bool,
    params,
):
    """Update the running average of a gradient, and the parameter."""
    i = tg.tid()
    value = b.dtype(params[i])
    update = b.dtype(g[i]) + b.dtype(decay) * value
    if momentum != 0.0:
        average = b.dtype(momentum) * b[i] + b.dtype(gradient_weight) * update
        b[i] = average
        if nesterov:
            update = update + b.dtype(momentum) * average
        else:
            update = average
    params[i] = params.dtype(value - b.dtype(lr) * update)


class SGD:
    """Gradient descent, optionally with momentum (Polyak 1964, Nesterov 1983) and weight decay. For each parameter, `b`
    has an array of scalars with the average of the gradients, float32 for narrower floats; `t` is the number of steps
    so far.

    Parameters:
        params: arrays of floats, of vectors or of matrices; None to set them later by `set_params`.
        lr: a float, the step size; 0.001 by default.
        momentum: a float, the decay rate of the average of the gradients; 0 by default, for no momentum.
        dampening: a float; a gradient enters the average with the factor 1 - `dampening`. 0 by default.
        weight_decay: a float; `weight_decay` times the parameter is added to its gradient. 0 by default.
        nesterov: whether to use Nesterov momentum; False by default.
    Raises:
        launch: a parameter is not an array of floats.
    """

    def __init__(
        self,
        params: Sequence[array] | None = None,
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        self.b: list[array] = []
        self.set_params(params)
        self.lr, self.momentum, self.dampening = lr, momentum, dampening
        self.weight_decay, self.nesterov, self.t = weight_decay, nesterov, 0

    def set_params(self, params: Sequence[array] | None) -> None:
        """Sets the parameters. Averages of matching shape and dtype are kept.

        Parameters:
            params: as for the class.
        Raises:
            launch: a parameter is not an array of floats.
        """
        self.params = parameter_list(params)
        if self.params is not None:
            self.b = scalar_states(self.params, self.b)

    def reset_internal_state(self) -> None:
        """Sets the averages and the number of steps to 0.

        Raises:
            nothing.
        """
        for average in self.b:
            average.zero_()
        self.t = 0

    def step(self, grad: Sequence[array]) -> None:
        """Updates the parameters by a step that no tape records.

        Parameters:
            grad: the gradients, arrays of the parameters' shapes and dtypes.
        Raises:
            launch: there are no parameters, or the number of gradients differs.
            TypeError: a gradient has another dtype.
            ValueError: a gradient has another shape.
        """
        for k, param in enumerate(check_count(self.params, grad)):
            self.step_detail(
                *(grad[k], self.b[k], self.lr, self.momentum, self.dampening, self.weight_decay),
                *(self.nesterov, self.t, param),
            )
        self.t += 1

    @staticmethod
    def step_detail(
        g: array,
        b: array,
        lr: float,
        momentum: float,
        dampening: float,
        weight_decay: float,
        nesterov: bool,
        t: int,
        params: array,
    ) -> None:
        """Updates one parameter by a step.

        Parameters:
            g: the array of the parameter's gradient.
            b: the array of the parameter's average.
            lr, momentum, dampening, weight_decay, nesterov: as for the class.
            t: the number of previous steps; in step 0 the average is the gradient.
            params: the array of the parameter.
        Raises:
            TypeError: the gradient has another dtype.
            ValueError: the gradient has another shape.
        """
        gradient_weight = 1.0 - dampening if t else 1.0
        numbers = lr, momentum, gradient_weight, weight_decay, bool(nesterov)

        def step(p: array, grad: array) -> None:
            if not t:
                b.zero_()
            tg.launch(sgd_step, p.size, [grad, b, *numbers], [p])

        update(params, g, step)
