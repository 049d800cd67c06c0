"""Gradients of tiles that change their storage, of tapes with many launches, and of aliased arrays; every way to
overwrite a value that a gradient needs is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled

pytestmark = pytest.mark.machine_code

D = tg.float64


def integers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def matmul_with_storages(first_storage: str, next_storage: str) -> Any:
    """The pipelined matmul of the guide; tiles loaded in the loop have a storage of their own."""

    @tg.kernel
    def matmul_pipelined(A: tg.array2d(dtype=float), B: tg.array2d(dtype=float), C: tg.array2d(dtype=float)):
        i, j = tg.tid()
        acc = tg.tile_zeros(shape=(8, 4), dtype=tg.float32)
        a = tg.tile_load(A, shape=(8, 8), offset=(i * 8, 0), storage=first_storage)
        b = tg.tile_load(B, shape=(8, 4), offset=(0, j * 4), storage=first_storage)
        count = int(A.shape[1] / 8)
        for k in range(1, count):
            a_next = tg.tile_load(A, shape=(8, 8), offset=(i * 8, k * 8), storage=next_storage)
            b_next = tg.tile_load(B, shape=(8, 4), offset=(k * 8, j * 4), storage=next_storage)
            tg.tile_matmul(a, b, acc)
            a = a_next
            b = b_next
        tg.tile_matmul(a, b, acc)
        tg.tile_store(C, acc, offset=(i * 8, j * 4))

    return matmul_pipelined


@pytest.mark.parametrize("first_storage", ["register", "shared"])
@pytest.mark.parametrize("next_storage", ["register", "shared"])
def test_tiles_that_change_their_storage_have_exact_gradients(first_storage: str, next_storage: str) -> None:
    kernel = matmul_with_storages(first_storage, next_storage)
    for iterations in (1, 2, 3, 18):
        a, b = integers(0, 16, 8 * iterations), integers(1, 8 * iterations, 8)
        A, B = (tg.array(x, requires_grad=True) for x in (a, b))
        C = tg.zeros((16, 8), requires_grad=True)
        g = integers(2, 16, 8)
        with tg.Tape() as tape:
            tg.launch_tiled(kernel, (2, 2), [A, B], [C], block_dim=32)
        tape.backward(grads={C: g})
        np.testing.assert_array_equal(C.numpy(), a @ b)
        np.testing.assert_array_equal(A.grad.numpy(), g @ b.T)
        np.testing.assert_array_equal(B.grad.numpy(), a.T @ g)


@tg.func
def activation(x: D):
    return tg.sin(x * 1.1 + 0.1)


@tg.func
def squash(x: D):
    return tg.tanh(tg.sqrt(tg.abs(x) + 1.0) * 0.7)


@sampled(2, "rows", [1, 2, 3, 18])
def test_gradients_of_the_pipelined_kernel_of_the_guide_are_correct(rows: int) -> None:
    @tg.kernel
    def pipelined(inp: tg.array2d[D], out: tg.array2d[D]):
        a = tg.tile_load(inp, shape=(1, 16), offset=(0, 0), storage="register")
        for i in range(1, rows):
            b = tg.tile_load(inp, shape=(1, 16), offset=(i, 0), storage="register")
            a = tg.tile_map(activation, a)
            a = tg.tile_map(squash, a)
            tg.tile_store(out, a, offset=(i - 1, 0))
            a = b
        a = tg.tile_map(activation, a)
        a = tg.tile_map(squash, a)
        tg.tile_store(out, a, offset=(rows - 1, 0))

    x = np.random.default_rng(0).standard_normal((rows, 16))
    inp, out = tg.array(x, dtype=D, requires_grad=True), tg.zeros((rows, 16), dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch_tiled(pipelined, 1, [inp], [out], block_dim=32)
    g = np.random.default_rng(1).standard_normal((rows, 16))
    tape.backward(grads={out: g})
    s, c = np.sin(x * 1.1 + 0.1), np.cos(x * 1.1 + 0.1)
    root = np.sqrt(np.abs(s) + 1.0)
    np.testing.assert_allclose(out.numpy(), np.tanh(root * 0.7), rtol=1e-13)
    expected = g / np.cosh(root * 0.7) ** 2 * 0.7 * 0.5 / root * np.sign(s) * c * 1.1
    np.testing.assert_allclose(inp.grad.numpy(), expected, rtol=1e-11)


# Many launches -------------------------------------------------------------------------------------------------------


@tg.kernel
def logistic(x: tg.array[D], r: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = r[0] * x[i] * (1.0 - x[i])


@tg.kernel
def scale(y: tg.array[D], factor: float):
    i = tg.tid()
    y[i] = y[i] * D(factor)


@tg.kernel
def products(a: tg.array[D], b: tg.array[D], y: tg.array[D]):
    i = tg.tid()
    y[i] = a[i] * a[i] * b[i]


@tg.kernel
def add_to_loss(x: tg.array[D], loss: tg.array[D]):
    i = tg.tid()
    tg.atomic_add(loss, 0, x[i])


def variable(*values: float) -> tg.array:
    return tg.array(list(values), dtype=D, requires_grad=True)


def test_gradients_over_two_hundred_launches_are_correct() -> None:
    states = [variable(0.1, 0.3, 0.7)] + [tg.zeros(3, dtype=D, requires_grad=True) for _ in range(200)]
    r, loss = variable(2.9), variable(0.0)
    with tg.Tape() as tape:
        for a, b in pairwise(states):
            tg.launch(logistic, 3, [a, r], [b])
        tg.launch(add_to_loss, 3, [states[-1]], [loss])
    tape.backward(loss)
    x, gradient_x, gradient_r = states[0].numpy().copy(), np.ones(3), np.zeros(3)
    for _ in range(200):
        slope = 2.9 * (1 - 2 * x)
        gradient_r = slope * gradient_r + x * (1 - x)
        gradient_x, x = slope * gradient_x, 2.9 * x * (1 - x)
    np.testing.assert_allclose(states[0].grad.numpy(), gradient_x, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(r.grad.numpy(), [gradient_r.sum()], rtol=1e-9)


def test_in_place_changes_without_needed_values_are_accepted() -> None:
    x, y, loss = variable(1.0, 2.0), tg.zeros(2, dtype=D, requires_grad=True), variable(0.0)
    with tg.Tape() as tape:
        tg.launch(products, 2, [x, x], [y])
        tg.launch(scale, 2, [y, 3.0])
        tg.launch(scale, 2, [y, -2.0])
        tg.launch(add_to_loss, 2, [y], [loss])
    tape.backward(loss)
    np.testing.assert_allclose(x.grad.numpy(), -18.0 * x.numpy() ** 2)


def test_gradients_of_one_array_for_several_arguments_are_correct() -> None:
    x, y = variable(1.0, 2.0, 3.0, 4.0), tg.zeros(2, dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(products, 2, [x[1:3], x[2:4]], [y])
    tape.backward(grads={y: np.array([1.0, 10.0])})
    a, b = x.numpy()[1:3], x.numpy()[2:4]
    expected = np.zeros(4)
    expected[1:3] += 2 * a * b * [1.0, 10.0]
    expected[2:4] += a * a * [1.0, 10.0]
    np.testing.assert_allclose(x.grad.numpy(), expected)
    common_gradient = tg.zeros(2, dtype=D)
    ones = tg.ones(2, dtype=D)
    tg.launch(
        products,
        2,
        [x[:2], x[:2]],
        [y],
        adj_inputs=[common_gradient, common_gradient],
        adj_outputs=[ones],
        adjoint=True,
    )
    np.testing.assert_allclose(common_gradient.numpy(), 3 * x.numpy()[:2] ** 2)


def test_launches_without_backward_are_accepted_if_no_gradient_reaches_them() -> None:
    @tg.kernel(enable_backward=False)
    def reset(y: tg.array[D]):
        i = tg.tid()
        y[i] = 0.0

    x, y, unused = variable(1.0, 2.0), tg.zeros(2, dtype=D, requires_grad=True), tg.ones(2, dtype=D)
    with tg.Tape() as tape:
        tg.launch(reset, 2, outputs=[unused])
        tg.launch(products, 2, [x, x], [y])
    tape.backward(grads={y: np.ones(2)})
    np.testing.assert_allclose(x.grad.numpy(), 3 * x.numpy() ** 2)
    with pytest.raises(tg.LaunchError, match="enable_backward=False"):
        tg.launch(reset, 2, outputs=[y], adjoint=True)


# Overwrites ----------------------------------------------------------------------------------------------------------


class SharedMemoryArray:
    """An object that exposes the memory of an array by the protocols of other libraries."""

    def __init__(self, x: tg.array) -> None:
        name = "__array_interface__" if str(x.device) == "cpu" else "__cuda_array_interface__"
        setattr(self, name, getattr(x, name))


OVERWRITES: dict[str, Any] = {
    "fill_": lambda x: x.fill_(5.0),
    "zero_": lambda x: x.zero_(),
    "assign": lambda x: x.assign(np.ones(2)),
    "copy": lambda x: tg.copy(x, tg.ones(2, dtype=D)),
    "a view": lambda x: x[1:].fill_(5.0),
    "another shape": lambda x: x.reshape((2, 1)).assign(np.ones((2, 1))),
    "a transposed view": lambda x: x.reshape((1, 2)).transpose().zero_(),
    "shared memory": lambda x: tg.array(SharedMemoryArray(x), copy=False)[1:].fill_(5.0),
    "a launch": lambda x: tg.launch(scale, 2, [x, 2.0]),
    "a launch that is not recorded": lambda x: tg.launch(scale, 2, [x, 2.0], record_tape=False),
    "an adjoint": lambda x: tg.launch(
        products, 2, [tg.ones(2, dtype=D)] * 2, [tg.zeros(2, dtype=D)],
        adj_inputs=[x], adj_outputs=[tg.ones(2, dtype=D)], adjoint=True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("while_recording", [True, False])
@pytest.mark.parametrize("overwrite", OVERWRITES)
def test_every_way_to_overwrite_a_needed_value_is_refused(overwrite: str, while_recording: bool) -> None:
    x, y = variable(1.0, 2.0), tg.zeros(2, dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(products, 2, [x, x], [y])
        if while_recording:
            OVERWRITES[overwrite](x)
    if not while_recording:
        OVERWRITES[overwrite](x)
    other_messages = "shares memory|no gradients of gradients"
    with pytest.raises(
        tg.LaunchError,
        match=f"'a' as it was at the launch, but a later operation has overwritten|{other_messages}",
    ):
        tape.backward(grads={y: np.ones(2)})


def test_adjoints_that_overwrite_values_of_another_launch_are_refused() -> None:
    """A gradient that is an input of a launch is also a value that must not be overwritten."""
    x, y, z = (
        variable(1.0, 2.0),
        tg.zeros(2, dtype=D, requires_grad=True),
        tg.zeros(2, dtype=D, requires_grad=True),
    )
    w = variable(3.0, 4.0)
    with tg.Tape() as first:
        tg.launch(products, 2, [x, x], [y])
    with tg.Tape() as second:
        tg.launch(products, 2, [w, x.grad], [z])
    first.backward(grads={y: np.ones(2)})
    with pytest.raises(
        tg.LaunchError, match="argument 'b' as it was at the launch, but a later operation has overwritten"
    ):
        second.backward(grads={z: np.ones(2)})


def test_a_captured_name_that_changes_before_backward_is_refused() -> None:
    factor = 2.0

    @tg.kernel
    def multiples(x: tg.array[D], y: tg.array[D]):
        i = tg.tid()
        y[i] = factor * x[i]

    x, y = variable(1.0, 2.0), tg.zeros(2, dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(multiples, 2, [x], [y])
    factor = 3.0
    with pytest.raises(tg.LaunchError, match="kernel multiples: a captured object has changed"):
        tape.backward(grads={y: np.ones(2)})
    factor = 2.0
    tape.zero()
    tape.backward(grads={y: np.ones(2)})
    assert x.grad.numpy().tolist() == [2.0, 2.0]


def test_a_tape_records_after_a_reset() -> None:
    x, y = variable(1.0, 2.0), tg.zeros(2, dtype=D, requires_grad=True)
    tape = tg.Tape()
    for _ in range(2):
        with tape:
            tg.launch(products, 2, [x, x], [y])
        tape.backward(grads={y: np.ones(2)})
        tape.zero()
        tape.reset()
        assert tape.records == [] and tape.gradients == {}
        x.fill_(3.0)
