"""Gradients through structs and arrays of structs, against finite differences of every field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled

pytestmark = pytest.mark.machine_code


@tg.struct
class Point:
    x: tg.float64
    y: tg.vec3d
    tag: int


@tg.struct
class Node:
    point: Point
    rotation: tg.mat22d


@tg.struct
class Model:
    scale: tg.float64
    rates: tg.array[tg.float64]


@tg.func
def advance(n: Node, rate: tg.float64) -> Node:
    node = Node()
    node.point.x = n.point.x * n.point.y[1] * rate
    node.point.y = n.point.y * n.point.x
    node.point.tag = n.point.tag + 1
    node.rotation = n.rotation * n.rotation
    return node


@tg.func
def size(n: Node) -> tg.float64:
    return n.point.x * n.rotation[0, 1] + tg.dot(n.point.y, n.point.y) + n.rotation[1, 0] * n.rotation[1, 1]


@tg.func
def combine(a: Node, b: Node) -> Node:
    selected = a
    selected.point.x = a.point.x * b.point.x
    selected.point.y = a.point.y + b.point.y
    return selected


@tg.kernel
def step_per_thread(model: Model, a: tg.array[Node], b: tg.array[Node], out: tg.array[tg.float64]):
    i = tg.tid()
    n = a[i]
    for k in range(n.point.tag):
        n = advance(n, model.rates[k])
        if k == 1:
            n.point.y[2] = n.point.x * model.scale
    b[i] = n
    b[i].rotation[0, 1] = a[i].point.y[0] * n.point.x
    tg.atomic_add(out, 0, size(n) + b[i].rotation[0, 1])


@tg.kernel
def step_per_tile(model: Model, a: tg.array[Node], b: tg.array[Node], out: tg.array[tg.float64]):
    i, j = tg.tid()
    t = tg.tile_load(a, shape=4)
    u = tg.tile_map(advance, t, model.rates[1])
    u += t
    u[2] = t[0]
    tg.tile_store(b, u)
    total = tg.tile_sum(tg.tile_map(size, u - tg.tile_broadcast(t[1:2], shape=(4,))))
    extracted = tg.tile_extract(t, 3)
    summed = tg.tile_map(size, tg.tile_reduce(combine, t))
    tg.tile_store(out, total * model.scale + summed + extracted.point.x * extracted.point.y[1])


def nodes() -> np.ndarray:
    random = np.random.default_rng(3)
    data = np.zeros(4, Node.numpy_dtype())
    data["point"]["x"] = random.uniform(0.5, 1.5, 4)
    data["point"]["y"] = random.uniform(0.5, 1.5, (4, 3))
    data["point"]["tag"] = [0, 1, 2, 3]
    data["rotation"] = random.uniform(0.5, 1.5, (4, 2, 2))
    return data


def float_fields(data: np.ndarray) -> Iterator[np.ndarray]:
    """The float fields, as views."""
    yield from (data["point"]["x"], data["point"]["y"], data["rotation"])


def run(
    kernel: Any, data: np.ndarray, rates: np.ndarray, weights: np.ndarray | None
) -> tuple[float, Any, Any]:
    """The loss, and the arrays that have gradients. `weights`: gradients of the fields of b, or None."""
    a, b = tg.array(data, dtype=Node, requires_grad=True), tg.zeros(4, dtype=Node, requires_grad=True)
    out = tg.zeros(1, dtype=tg.float64, requires_grad=True)
    model = Model()
    model.scale, model.rates = 1.25, tg.array(rates, requires_grad=True)
    dim, options = (4, {}) if kernel is step_per_thread else ((1, 4), {"block_dim": 4})
    with tg.Tape() as tape:
        tg.launch(kernel, dim, inputs=[model, a], outputs=[b, out], **options)
    if weights is None:
        return float(out.numpy()[0]), a, model.rates
    tape.backward(grads={out: np.ones(1), b: weights})
    weighted_sum = sum(
        float((x * w).sum()) for x, w in zip(float_fields(b.numpy()), float_fields(weights), strict=True)
    )
    return float(out.numpy()[0]) + weighted_sum, a, model.rates


@sampled(2, "kernel", [step_per_thread, step_per_tile], ids=lambda k: k.name)
def test_every_field_of_a_struct_has_its_derivative(kernel: Any) -> None:
    weights, rates = nodes(), np.array([0.7, 1.3, 0.9])
    _, a, arguments = run(kernel, nodes(), rates, weights)
    actual = [*float_fields(a.grad.numpy()), arguments.grad.numpy()]
    assert (a.grad.numpy()["point"]["tag"] == 0).all()
    step = 1e-6
    for k, grad in enumerate(actual):
        for indices in np.ndindex(*grad.shape):
            losses: list[float] = []
            for sign in (step, -step):
                data, changed_rates = nodes(), rates.copy()
                [*float_fields(data), changed_rates][k][indices] += sign
                losses.append(run(kernel, data, changed_rates, weights)[0])
            assert grad[indices] == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-6, abs=1e-7), (
                k,
                indices,
            )


def test_gradcheck_checks_every_leaf_of_a_struct() -> None:
    @tg.kernel
    def scaled(a: tg.array[Point], b: tg.array[Point]):
        i = tg.tid()
        b[i].x = a[i].x * a[i].y[2]
        b[i].y = a[i].y * a[i].x

    data = nodes()["point"].copy()
    a, b = (tg.array(data, dtype=Point, requires_grad=True) for _ in range(2))
    assert tg.gradcheck(scaled, 4, inputs=[a], outputs=[b])
    assert (a.numpy() == data).all()


def test_tapes_track_arrays_of_structs_as_a_whole() -> None:
    @tg.kernel
    def copied(a: tg.array[Point], b: tg.array[Point]):
        i = tg.tid()
        b[i] = a[i]

    a = tg.zeros(3, dtype=Point, requires_grad=True)
    with tg.Tape() as tape:
        middle = tg.clone(a)
        b = tg.zeros(3, dtype=Point, requires_grad=True)
        tg.launch(copied, 2, inputs=[middle[:2]], outputs=[b[:2]])
    assert set(tape.gradients) >= {a, middle}
    grad = np.zeros(3, Point.numpy_dtype())
    grad["y"] = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
    b.grad.assign(tg.array(grad, dtype=Point))
    tape.backward()
    assert a.grad.numpy()["y"].tolist() == [[1, 2, 3], [4, 5, 6], [0, 0, 0]]
    tape.zero()
    assert not a.grad.numpy()["y"].any()


def test_adjoint_launches_take_gradients_of_structs() -> None:
    @tg.kernel
    def doubled(a: tg.array[Point], b: tg.array[Point]):
        i = tg.tid()
        b[i].x = a[i].x * tg.float64(2.0)

    a, b, input_gradient, source = (tg.zeros(2, dtype=Point) for _ in range(4))
    arguments = np.zeros(2, Point.numpy_dtype())
    arguments["x"] = [3, 4]
    source.assign(tg.array(arguments, dtype=Point))
    tg.launch(
        doubled, 2, inputs=[a], outputs=[b], adjoint=True, adj_inputs=[input_gradient], adj_outputs=[source]
    )
    assert input_gradient.numpy()["x"].tolist() == [6, 8]


def test_an_overwritten_field_that_a_seed_needs_is_found() -> None:
    @tg.kernel
    def squared(a: tg.array[Point], out: tg.array[tg.float64]):
        i = tg.tid()
        out[i] = a[i].x * a[i].x

    a, out = tg.zeros(2, dtype=Point, requires_grad=True), tg.zeros(2, dtype=tg.float64, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(squared, 2, inputs=[a], outputs=[out])
        a.fill_(Point())
    with pytest.raises(tg.LaunchError, match=r"'a\.x' as it was at"):
        tape.backward(grads={out: np.ones(2)})
