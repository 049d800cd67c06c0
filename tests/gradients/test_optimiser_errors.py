"""Errors of optimisers and tapes for arguments that are not lists of arrays, and the public names of modules."""

from __future__ import annotations

from typing import Any

import pytest

import tegula as tg
from tegula.api import MODULES


@pytest.mark.parametrize("optimiser", [tg.optim.Adam, tg.optim.SGD])
@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            tg.zeros(3),
            r"the parameters of an optimiser must be a list of arrays, got one array\nhelp: write \[a, b\]",
        ),
        (3, "a list of arrays, got a value of type int"),
        ([1.0], "a parameter of an optimiser must be an array, got float"),
        ([tg.zeros(3, dtype=int)], "arrays of floats, got an array of int32"),
    ],
)
def test_optimisers_refuse_parameters_that_are_not_lists_of_float_arrays(
    optimiser: Any, params: Any, message: str
) -> None:
    with pytest.raises(tg.LaunchError, match=message):
        optimiser(params)


@pytest.mark.parametrize("optimiser", [tg.optim.Adam, tg.optim.SGD])
@pytest.mark.parametrize(
    ("grads", "message"),
    [
        (None, "the gradients of an optimiser must be a list of arrays, got a value of type NoneType"),
        (tg.zeros(3), "the gradients of an optimiser must be a list of arrays, got one array"),
        (
            [None],
            r"the gradient of parameter 0 must be an array, got none\nhelp: create the parameter with requires_grad",
        ),
        ([1.0], "got a value of type float"),
        ([], "the numbers of gradients and parameters differ: 0 and 1"),
    ],
)
def test_optimisers_refuse_gradients_that_are_not_lists_of_arrays(
    optimiser: Any, grads: Any, message: str
) -> None:
    with pytest.raises(tg.LaunchError, match=message):
        optimiser([tg.zeros(3)]).step(grads)


def test_backward_refuses_a_loss_that_is_not_an_array() -> None:
    tape = tg.Tape()
    assert repr(tape) == "<tegula tape of 0 records>"
    with pytest.raises(tg.LaunchError, match="a loss is an array of one number, got a value of type float"):
        tape.backward(1.0)


@pytest.mark.parametrize("name", sorted(MODULES.keys() - {"types"}))
def test_public_modules_list_their_public_names(name: str) -> None:
    module = getattr(tg, name)
    assert dir(module) == sorted(module.__all__) and all(
        hasattr(module, attribute) for attribute in dir(module)
    )
