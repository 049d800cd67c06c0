"""Gradients of hits and of closest points, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import mesh_of, sphere

pytestmark = [pytest.mark.machine_code, pytest.mark.slow]
COUNT = 6


@tg.kernel
def hits(mesh: tg.Mesh, start: tg.array1d[tg.vec3], dir: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    hit = tg.mesh_query_ray(mesh, start[i], dir[i], tg.inf)
    at = tg.mesh_eval_position(mesh, hit.face, hit.u, hit.v)
    out[i] = hit.t + 2.0 * at[0] + 3.0 * at[1] - at[2]


@tg.kernel
def distances(mesh: tg.uint64, points: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    near = tg.mesh_query_point_no_sign(mesh, points[i], tg.inf)
    out[i] = tg.length(tg.mesh_eval_position(mesh, near.face, near.u, near.v) - points[i])


def launched(kernel: Any, mesh: Any, args: list[np.ndarray], back: bool) -> Any:
    """The outputs, or the gradients of the arguments."""
    given = [tg.array(a, dtype=tg.vec3, requires_grad=back) for a in args]
    out = tg.zeros(COUNT, requires_grad=back)
    with tg.Tape() as tape:
        tg.launch(kernel, COUNT, inputs=[mesh, *given], outputs=[out])
    if not back:
        return out.numpy().astype(np.float64)
    out.grad.fill_(1.0)
    tape.backward()
    return [a.grad.numpy() for a in given]


@pytest.mark.parametrize("kernel", [hits, distances])
def test_gradients_agree_with_differences(kernel: Any) -> None:
    made = mesh_of(*sphere(2, 0.2))
    rng = np.random.default_rng(0)
    args = [rng.uniform(-0.3, 0.3, (COUNT, 3)), rng.standard_normal((COUNT, 3))]
    args = [a.astype(np.float32) for a in args[: 2 if kernel is hits else 1]]
    mesh = made if kernel is hits else made.id
    found = launched(kernel, mesh, args, back=True)
    for k, gradient in enumerate(found):
        for axis in range(3):
            step = np.zeros((COUNT, 3), np.float32)
            step[:, axis] = 1e-3
            ends = [
                launched(kernel, mesh, [a + s * step * (j == k) for j, a in enumerate(args)], False)
                for s in (1, -1)
            ]
            np.testing.assert_allclose(gradient[:, axis], (ends[0] - ends[1]) / 2e-3, atol=2e-3)
