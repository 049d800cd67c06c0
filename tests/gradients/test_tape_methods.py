"""Methods of arrays on tapes, seeds of all kinds, and gradients of integers and of views."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tape_programs import EPSILON, TapeProgram, outcome

import tegula as tg
from support.campaigns import chunks

D = tg.float64


@tg.kernel
def scale(x: tg.array[D]):
    i = tg.tid()
    x[i] = x[i] * 3.0


@tg.kernel
def double(x: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = x[i] * 2.0


@tg.kernel
def add_to_loss(x: tg.array[D], loss: tg.array[D]):
    tg.atomic_add(loss, 0, x[tg.tid()])


def variable(*values: float) -> tg.array:
    return tg.array(np.array(values), dtype=D, requires_grad=True)


def grad_of(x: tg.array) -> list[float]:
    return x.grad.numpy().tolist()


# Generated -----------------------------------------------------------------------------------------------------------


def check(seeds: range, dtype: str) -> None:
    outcomes: list[str] = []
    for seed in seeds:
        verdict, program = outcome(seed, dtype)
        assert not verdict.startswith("wrong"), f"seed {seed}, {dtype}: {verdict}\n{program}"
        outcomes.append(verdict)
    assert sum(verdict == "right" for verdict in outcomes) >= 0.6 * len(outcomes), outcomes


@pytest.mark.machine_code
def test_gradients_of_generated_tapes_are_correct() -> None:
    check(range(12), "float64")
    check(range(20, 22), "bfloat16")


@pytest.mark.machine_code
def test_reference_derivatives_of_generated_tapes_match_differences() -> None:
    """The reference derivatives equal central differences of the same program in float64."""
    step = 1e-6
    for seed in range(8):
        up, down = (TapeProgram(seed, "float64", displacement=sign * step).forward() for sign in (1, -1))
        slopes = TapeProgram(seed, "float64", displacement=0.0).forward()
        for high, low, (_, slope) in zip(up, down, slopes, strict=True):
            np.testing.assert_allclose((high[0] - low[0]) / (2 * step), slope, rtol=1e-6, atol=1e-6)


@pytest.mark.machine_code
@pytest.mark.parametrize("chunk", chunks(range(5)))
@pytest.mark.parametrize("dtype", EPSILON)
def test_gradients_of_many_generated_tapes_are_correct(dtype: str, chunk: int) -> None:
    check(range(1000 + 125 * chunk, 1125 + 125 * chunk), dtype)


# Methods intermediates launches ---------------------------------------------------------------------------------------


def assign(x: tg.array, y: tg.array) -> None:
    y.assign(x)


def copy_array(x: tg.array, y: tg.array) -> None:
    tg.copy(y, x)


def copy_parts(x: tg.array, y: tg.array) -> None:
    y[2:].assign(x[2:])
    tg.copy(y[1::-1], x[1::-1])


def copy_over_itself(x: tg.array, y: tg.array) -> None:
    y.assign(x)
    y[::-1].assign(y)
    y.assign(y[::-1])


def copy_columns(x: tg.array, y: tg.array) -> None:
    y.reshape((2, 2)).transpose().assign(x.reshape((2, 2)).transpose())


def copy_through_float32(x: tg.array, y: tg.array) -> None:
    y.assign(tg.array(x, dtype=tg.float32, requires_grad=True))


def copy_as_vectors(x: tg.array, y: tg.array) -> None:
    pairs = tg.array(x.reshape((2, 2)), dtype=tg.vec2d, requires_grad=True)
    y.reshape((2, 2)).assign(tg.clone(pairs))


def copy_of_clone(x: tg.array, y: tg.array) -> None:
    y.assign(tg.clone(x))


COPIES = [
    assign,
    copy_array,
    copy_parts,
    copy_over_itself,
    copy_columns,
    copy_through_float32,
    copy_as_vectors,
    copy_of_clone,
]


@pytest.mark.machine_code
@pytest.mark.parametrize("copy_function", COPIES)
def test_array_copies_are_differentiated(copy_function: Callable[[tg.array, tg.array], None]) -> None:
    x, y, loss = variable(1, 2, 3, 4), variable(0, 0, 0, 0), variable(0)
    with tg.Tape() as tape:
        tg.launch(scale, 4, [x])
        copy_function(x, y)
        x.zero_()
        tg.launch(add_to_loss, 4, [y], [loss])
        tg.launch(add_to_loss, 4, [x], [loss])
    tape.backward(loss)
    assert loss.numpy().tolist() == [30.0]
    assert grad_of(x) == [3.0] * 4 and grad_of(y) == [0.0] * 4


@pytest.mark.machine_code
@pytest.mark.parametrize("value", ["fill_", "zero_", "numpy", "list", "integers", "array without a gradient"])
def test_assigned_constants_end_the_flow_of_gradients(value: str) -> None:
    x, loss = variable(1, 2, 3, 4), variable(0)
    data: dict[str, Any] = {
        "numpy": np.ones(2),
        "list": [1.0, 1.0],
        "integers": tg.ones(2, dtype=int, requires_grad=True),
        "array without a gradient": tg.ones(2, dtype=D),
    }
    with tg.Tape() as tape:
        part = x[1:3]
        if value in data:
            part.assign(data[value])
        else:
            getattr(part, value)(*[1.0] * (value == "fill_"))
        tg.launch(add_to_loss, 4, [x], [loss])
    tape.backward(loss)
    assert grad_of(x) == [1.0, 0.0, 0.0, 1.0]


def test_a_gradient_beyond_the_range_of_the_type_is_infinite() -> None:
    x = tg.ones(2, dtype=tg.float16, requires_grad=True)
    with tg.Tape() as tape:
        y = tg.zeros(2, dtype=D, requires_grad=True).assign(x)
    tape.backward(grads={y: [1e9, 1.0]})
    assert grad_of(x) == [np.inf, 1.0]


@pytest.mark.machine_code
def test_arrays_created_on_a_tape_have_gradients() -> None:
    loss = variable(0)
    with tg.Tape() as tape:
        x = tg.ones(4, dtype=D, requires_grad=True)
        y = tg.array(tg.ones(4, dtype=D), requires_grad=True)
        tg.launch(add_to_loss, 4, [x], [loss])
        tg.launch(add_to_loss, 4, [y], [loss])
    tape.backward(loss)
    assert grad_of(x) == grad_of(y) == [1.0] * 4


@pytest.mark.machine_code
def test_detached_copies_and_views_are_constant() -> None:
    x, loss = variable(1, 2), variable(0)
    with tg.Tape() as tape:
        detached = tg.clone(x, requires_grad=False)
        view = x[:]
        view.requires_grad = False
        for a in (x, detached, view):
            tg.launch(add_to_loss, 2, [a], [loss])
    tape.backward(loss)
    assert grad_of(x) == [1.0, 1.0]


@pytest.mark.machine_code
def test_each_tape_records_its_own_calls_only() -> None:
    x, y, loss = variable(1, 2), variable(0, 0), variable(0)
    with tg.Tape() as outer:
        tg.launch(add_to_loss, 2, [x], [loss])
        with pytest.raises(tg.LaunchError, match="recording already"), tg.Tape():
            pass
    with tg.Tape() as inner_tape:
        tg.launch(double, 2, [y], [x])
        outer.backward(loss)
        y.grad.zero_()
    assert len(outer.records) == 1 and len(inner_tape.records) == 3, (
        "the launch, the records of backward, and zero_"
    )
    assert grad_of(x) == [1.0, 1.0]
    inner_tape.backward(grads={x: [1.0, 1.0]})
    assert grad_of(y) == [2.0, 2.0]


def integer_view(x: tg.array) -> tg.array:
    return x.view(tg.int64)


def numpy_alias(x: tg.array) -> tg.array:
    return tg.array(x.numpy(), copy=False)


def alias_with_gradient(x: tg.array) -> tg.array:
    return tg.array(x.numpy(), copy=False, requires_grad=True)


@pytest.mark.machine_code
@pytest.mark.cpu
@pytest.mark.parametrize("make_alias", [integer_view, numpy_alias, alias_with_gradient])
@pytest.mark.parametrize("is_written", [False, True])
def test_other_names_of_memory_with_a_gradient_are_refused(
    make_alias: Callable[[tg.array], tg.array], is_written: bool
) -> None:
    x, loss = variable(1, 2), variable(0)
    with tg.Tape() as tape:
        tg.launch(scale, 2, [x])
        alias_of_x = make_alias(x)
        if is_written:
            alias_of_x.zero_()
        elif alias_of_x.dtype == D:
            tg.launch(double, 2, [alias_of_x], [loss])
        else:
            tg.zeros(2, dtype=tg.int64).assign(alias_of_x)
    with pytest.raises(tg.LaunchError, match="view without a gradient of an array|shares memory"):
        tape.backward(grads={x: [1.0, 1.0]})


@pytest.mark.machine_code
@pytest.mark.parametrize("steps", [1, 2])
def test_lost_gradients_after_other_arrays_are_refused(steps: int) -> None:
    x, loss = variable(1, 2), variable(0)
    intermediates = [tg.zeros(2, dtype=D) for _ in range(steps)]
    with tg.Tape() as tape:
        tg.launch(double, 2, [x], [intermediates[0]])
        for a, b in pairwise(intermediates):
            b.assign(a)
        tg.launch(add_to_loss, 2, [intermediates[-1]], [loss])
    with pytest.raises(tg.LaunchError, match="an array without a gradient"):
        tape.backward(loss)


@pytest.mark.machine_code
def test_gradients_of_gradients_are_refused() -> None:
    x, y, loss = variable(1, 2), variable(0, 0), variable(0)
    with tg.Tape() as tape:
        tg.launch(double, 2, [x], [y], adj_outputs=[tg.ones(2, dtype=D)], adjoint=True)
        tg.launch(add_to_loss, 2, [x.grad], [loss])
    with pytest.raises(
        tg.LaunchError, match="the gradient of kernel double as a gradient, an array without a gradient"
    ):
        tape.backward(loss)
    with tg.Tape() as inner:
        tg.launch(double, 2, [x], [y])
    with tg.Tape() as tape:
        inner.backward(grads={y: [1.0, 1.0]})
        tg.launch(add_to_loss, 2, [x.grad], [loss])
    with pytest.raises(tg.LaunchError, match="an array without a gradient"):
        tape.backward(loss)
    with tg.Tape() as tape:
        tg.launch(
            double, 2, [x], [y], adj_inputs=[variable(0, 0)], adj_outputs=[tg.ones(2, dtype=D)], adjoint=True
        )
    with pytest.raises(tg.LaunchError, match="no gradients of gradients"):
        tape.backward(grads={y: [1.0, 1.0]})


def test_gradients_of_an_adjoint_launch_have_the_shapes_of_the_arguments() -> None:
    x, y = variable(1, 2), variable(0, 0)
    with pytest.raises(tg.LaunchError, match="gradient of argument 'x' has shape"):
        tg.launch(double, 2, [x], [y], adj_inputs=[tg.zeros(1, dtype=D)], adjoint=True)


def test_fills_by_arrays_with_gradients_are_refused() -> None:
    x, seed_array = variable(1, 2), variable(3)
    with tg.Tape() as tape:
        x.fill_(seed_array)
    with pytest.raises(tg.LaunchError, match="would be a sum"):
        tape.backward(grads={x: [1.0, 1.0]})


# Seeds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.machine_code
def test_a_seed_that_is_read_and_overwritten_has_the_correct_gradient() -> None:
    x, arguments = variable(1, 2), tg.array([1.0, 10.0], dtype=D)
    with tg.Tape() as tape:
        tg.launch(scale, 2, [x])
    tape.backward(grads={x: arguments})
    assert grad_of(x) == [3.0, 30.0] and arguments.numpy().tolist() == [1.0, 10.0]
    tape.zero()
    x.grad.fill_(1.0)
    tape.backward()
    assert grad_of(x) == [3.0, 3.0]


@pytest.mark.machine_code
def test_a_seed_that_is_read_sums_both_gradients() -> None:
    x, y, loss = variable(1, 2), variable(0, 0), variable(0)
    with tg.Tape() as tape:
        tg.launch(double, 2, [x], [y])
        tg.launch(add_to_loss, 2, [y], [loss])
    tape.backward(grads={y: [1.0, 10.0], loss: [100.0]})
    assert grad_of(x) == [202.0, 220.0] and grad_of(loss) == [100.0]


@pytest.mark.machine_code
def test_seeds_of_overlapping_arrays_are_summed() -> None:
    x, y = variable(1, 2, 3), variable(0, 0, 0)
    y.grad.fill_(7.0)
    with tg.Tape() as tape:
        tg.launch(double, 3, [x], [y])
    tape.backward(grads={y[0:2]: [10.0, 20.0], y: [1.0, 2.0, 3.0], y[::2]: [100.0, 200.0]})
    assert grad_of(y) == [111.0, 22.0, 203.0] and grad_of(x) == [222.0, 44.0, 406.0]


@pytest.mark.machine_code
def test_seeds_of_an_earlier_tape_are_not_added_again() -> None:
    x, y, loss = variable(1, 2), variable(0, 0), variable(0)
    with tg.Tape() as first:
        tg.launch(double, 2, [x], [y])
    first.backward(grads={y: [5.0, 5.0]})
    with tg.Tape() as second:
        tg.launch(double, 2, [x], [y])
        tg.launch(add_to_loss, 2, [y], [loss])
    second.backward(loss)
    assert grad_of(x) == [12.0, 12.0]


@pytest.mark.machine_code
def test_gradients_are_summed_over_tapes_if_arrays_change_in_place() -> None:
    x = variable(1, 2)
    for _ in range(2):
        loss = variable(0)
        with tg.Tape() as tape:
            tg.launch(scale, 2, [x])
            tg.launch(add_to_loss, 2, [x], [loss])
        tape.backward(loss)
    assert grad_of(x) == [6.0, 6.0]


@pytest.mark.machine_code
def test_backward_without_arguments_uses_gradients_of_arrays() -> None:
    x, y = variable(1, 2), variable(0, 0)
    with tg.Tape() as tape:
        tg.launch(double, 2, [x], [y])
    y.grad.fill_(1.0)
    tape.backward()
    assert grad_of(x) == [2.0, 2.0] and grad_of(y) == [1.0, 1.0]
    with pytest.raises(tg.LaunchError, match="has run already"):
        tape.backward()
    tape.zero()
    y[1:].grad.fill_(4.0)
    tape.backward()
    assert grad_of(x) == [0.0, 8.0]


@pytest.mark.machine_code
def test_a_given_gradient_is_assigned_to_an_array_without_a_gradient() -> None:
    x, y, arguments = variable(1, 2), tg.zeros(2, dtype=D), tg.array([1.0, 2.0], dtype=D)
    with tg.Tape() as tape:
        tg.launch(double, 2, [x], [y])
    tape.backward(grads={y: arguments})
    assert y.grad is arguments and grad_of(y) == [1.0, 2.0] and grad_of(x) == [2.0, 4.0]
    y = tg.zeros(2, dtype=D)
    with tg.Tape() as tape:
        tg.launch(double, 1, [x[1:]], [y[1:]])
    tape.backward(grads={y: [1.0, 1.0]})
    assert grad_of(x) == [2.0, 6.0]


@pytest.mark.parametrize("loss", [tg.zeros(2, requires_grad=True), tg.zeros(1), tg.zeros(1, dtype=int)])
def test_arrays_that_are_not_a_loss_are_refused(loss: tg.array) -> None:
    with tg.Tape() as tape:
        pass
    with pytest.raises(tg.LaunchError, match="one element|no gradient"):
        tape.backward(loss)


# Integers and views --------------------------------------------------------------------------------------------------


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", [bool, tg.int8, tg.uint64])
def test_gradients_of_integers_are_zero(dtype: Any) -> None:
    indices = tg.zeros(2, dtype=dtype, requires_grad=True)
    assert indices.grad.dtype == indices.dtype and indices.grad.numpy().tolist() == [0, 0]

    @tg.kernel
    def take(x: tg.array[D], indices, y: tg.array[D]):
        i = tg.tid()
        y[i] = x[int(indices[i])] * 2.0

    x, y = variable(1, 2), variable(0, 0)
    with tg.Tape() as tape:
        tg.launch(take, 2, [x, indices], [y])
    tape.backward(grads={y: [1.0, 10.0]})
    assert grad_of(x) == [22.0, 0.0] and indices.grad.numpy().tolist() == [0, 0]
    with pytest.raises(tg.LaunchError, match="only arrays of floats have gradients"):
        tg.Tape().backward(grads={indices: [1, 1]})


@pytest.mark.machine_code
def test_views_created_before_requires_grad_have_the_gradient() -> None:
    x = tg.array(np.arange(4.0), dtype=D)
    views = [x[1:3], x.reshape((2, 2)), x.reshape((2, 2)).transpose()[1], tg.array(x, copy=False), x.view(D)]
    assert all(v.grad is None and not v.requires_grad for v in views)
    x.requires_grad = True
    for v in views:
        v.grad.fill_(0.0)
        x.grad.fill_(1.0)
        assert np.all(v.grad.numpy() == 1.0) and v.requires_grad
    loss = variable(0)
    x.grad.zero_()
    with tg.Tape() as tape:
        tg.launch(add_to_loss, 2, [views[0]], [loss])
    tape.backward(loss)
    assert grad_of(x) == [0.0, 1.0, 1.0, 0.0]
    x.grad = tg.ones(4, dtype=D)
    assert grad_of(views[0]) == [1.0, 1.0]
    x.requires_grad = False
    assert views[0].grad is None


def test_copied_views_have_their_part_of_the_gradient() -> None:
    x = variable(1, 2, 3)
    x.grad.assign([4.0, 5.0, 6.0])
    copied_array = copy.deepcopy(x[1:])
    assert (
        copied_array.requires_grad
        and grad_of(copied_array) == [5.0, 6.0]
        and pickle.loads(pickle.dumps(x[1:])).requires_grad
    )
    copied_view = x[:]
    copied_view.requires_grad = False
    assert not copy.deepcopy(copied_view).requires_grad and not copy.deepcopy(tg.zeros(2)).is_detached
