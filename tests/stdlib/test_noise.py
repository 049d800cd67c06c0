"""Noise, against known values, differences and its period."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code


def test_noise_matches_values_of_the_public_implementation() -> None:
    """Values of the public implementation."""

    @tg.kernel
    def kernel(out: tg.array[float]):
        s = tg.rand_init(42)
        out[0] = tg.noise(s, 0.3)
        out[1] = tg.noise(s, tg.vec2(0.3, 1.7))
        out[2] = tg.noise(s, tg.vec3(0.3, 1.7, -2.2))
        out[3] = tg.noise(s, xyzt=tg.vec4(0.3, 1.7, 2.2, 0.5))
        out[4] = tg.pnoise(s, tg.vec2(3.3, 5.7), 3, 4)

    out = tg.zeros(5)
    tg.launch(kernel, 1, inputs=[out])
    expected = [0.1514446, 0.2195674, 0.0431328, -0.0498613, 0.2195674]
    np.testing.assert_allclose(out.numpy(), expected, atol=5e-7)


@tg.kernel
def fields(x: tg.array[tg.vec3], y: tg.array[float], curl: tg.array[tg.vec2]):
    i = tg.tid()
    s, v = tg.rand_init(3), x[i]
    flat = tg.vec2(v[0], v[1])
    y[i] = tg.pnoise(s, flat, 3, 4) + tg.noise(s, v[2]) + tg.dot(tg.curlnoise(s, flat, 2), flat)
    curl[i] = tg.curlnoise(s, flat, gain=0.25)


@tg.kernel
def fields_of_space(x: tg.array[tg.vec3], y: tg.array[float], curl: tg.array[tg.vec2]):
    i = tg.tid()
    s, v = tg.rand_init(3), x[i]
    y[i] = tg.noise(s, v) + tg.dot(tg.curlnoise(s, v, 2), v)


@pytest.mark.slow
@pytest.mark.parametrize("fields", (fields, fields_of_space))
def test_gradients_of_noise_agree_with_differences(fields: Any) -> None:
    points = np.random.default_rng(0).uniform(0.1, 2.0, (8, 3)).astype(np.float32)
    x, y = tg.array(points, dtype=tg.vec3, requires_grad=True), tg.zeros(8, requires_grad=True)
    curl = tg.zeros(8, dtype=tg.vec2, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(fields, 8, inputs=[x], outputs=[y, curl])
    tape.backward(grads={y: np.ones(8, np.float32)})
    step = 2e-3
    for axis in range(3):
        field_values = []
        for sign in (1, -1):
            shifted_points = points.copy()
            shifted_points[:, axis] += sign * step
            out = tg.zeros(8)
            tg.launch(
                fields, 8, inputs=[tg.array(shifted_points, dtype=tg.vec3), out, tg.zeros(8, dtype=tg.vec2)]
            )
            field_values.append(out.numpy().astype(np.float64))
        np.testing.assert_allclose(
            x.grad.numpy()[:, axis], (field_values[0] - field_values[1]) / (2 * step), atol=2e-2, rtol=1e-3
        )


def test_curl_in_the_plane_is_the_gradient_rotated() -> None:
    @tg.kernel
    def plain(x: tg.array[tg.vec2], y: tg.array[float]):
        i = tg.tid()
        y[i] = tg.noise(tg.rand_init(3), x[i])

    points = np.random.default_rng(1).uniform(-2.0, 2.0, (8, 3)).astype(np.float32)
    curl = tg.zeros(8, dtype=tg.vec2)
    tg.launch(fields, 8, inputs=[tg.array(points, dtype=tg.vec3), tg.zeros(8), curl])
    x, y = tg.array(points[:, :2], dtype=tg.vec2, requires_grad=True), tg.zeros(8, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(plain, 8, inputs=[x], outputs=[y])
    tape.backward(grads={y: np.ones(8, np.float32)})
    g = x.grad.numpy()
    np.testing.assert_allclose(curl.numpy(), np.stack([-g[:, 1], g[:, 0]], 1), atol=2e-6)
