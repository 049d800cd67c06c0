"""The Adam optimiser."""

from __future__ import annotations

from collections.abc import Sequence

import tegula as tg
from tegula.optim.parameters import check_count, parameter_list, scalar_states, update
from tegula.runtime.array import array


@tg.kernel
def adam_step(
    g,
    m,
    v,
    beta1: tg.float64,
    beta2: tg.float64,
    step_size: tg.float64,
    bias_correction: tg.float64,
    eps: tg.float64,
    params,
):
    """Update the running averages of a gradient and of its square, and the parameter."""
    i = tg.tid()
    gradient = m.dtype(g[i])
    first_moment = m.dtype(beta1) * m[i] + m.dtype(1.0 - beta1) * gradient
    second_moment = m.dtype(beta2) * v[i] + m.dtype(1.0 - beta2) * gradient * gradient
    m[i] = first_moment
    v[i] = second_moment
    step = (
        m.dtype(step_size) * first_moment / (tg.sqrt(second_moment * m.dtype(bias_correction)) + m.dtype(eps))
    )
    params[i] = params.dtype(m.dtype(params[i]) - step)


class Adam:
    """An optimiser that scales the step of each number by running averages of its gradient and of the gradient's square
    (Kingma and Ba 2015). For each parameter, `m` and `v` have an array of scalars with the two averages, float32 for
    narrower floats; `t` is the number of steps so far.

    Parameters:
        params: arrays of floats, of vectors or of matrices; None to set them later by `set_params`.
        lr: a float, the step size; 0.001 by default.
        betas: a pair of floats, the decay rates of the averages of the gradient and of its square;
            (0.9, 0.999) by default.
        eps: a float, added to the square root of the average of the square; 1e-8 by default.
    Raises:
        launch: a parameter is not an array of floats.
    """

    def __init__(
        self,
        params: Sequence[array] | None = None,
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
    ) -> None:
        self.m: list[array] = []
        self.v: list[array] = []
        self.set_params(params)
        self.lr, self.eps, self.t = lr, eps, 0
        self.beta1, self.beta2 = betas

    def set_params(self, params: Sequence[array] | None) -> None:
        """Sets the parameters. Averages of matching shape and dtype are kept.

        Parameters:
            params: as for the class.
        Raises:
            launch: a parameter is not an array of floats.
        """
        self.params = parameter_list(params)
        if self.params is not None:
            self.m, self.v = scalar_states(self.params, self.m), scalar_states(self.params, self.v)

    def reset_internal_state(self) -> None:
        """Sets the averages and the number of steps to 0.

        Raises:
            nothing.
        """
        for average in (*self.m, *self.v):
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
                grad[k], self.m[k], self.v[k], self.lr, self.beta1, self.beta2, self.t, self.eps, param
            )
        self.t += 1

    @staticmethod
    def step_detail(
        g: array,
        m: array,
        v: array,
        lr: float,
        beta1: float,
        beta2: float,
        t: float,
        eps: float,
        params: array,
    ) -> None:
        """Updates one parameter by a step.

        Parameters:
            g: the array of the parameter's gradient.
            m, v: the arrays of the parameter's averages.
            lr, beta1, beta2: as for the class.
            t: the number of previous steps.
            eps: as for the class.
            params: the array of the parameter.
        Raises:
            TypeError: the gradient has another dtype.
            ValueError: the gradient has another shape.
        """
        numbers = beta1, beta2, lr / (1.0 - beta1 ** (t + 1)), 1.0 / (1.0 - beta2 ** (t + 1)), eps
        update(params, g, lambda p, grad: tg.launch(adam_step, p.size, [grad, m, v, *numbers], [p]))
