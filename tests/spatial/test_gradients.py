"""Gradients of the results of mesh queries and reads, against finite differences of NumPy's formulas in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import crossings, sphere, vectors
from spatial.meshes import distances as distances_of

pytestmark = pytest.mark.machine_code
COUNT = 8
STEP = 1e-6


@tg.kernel
def hits(mesh: tg.Mesh, points: tg.array1d[tg.vec3], dir: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    hit = tg.mesh_query_ray(mesh, points[i], dir[i], tg.inf)
    p = tg.mesh_eval_position(mesh, hit.face, hit.u, hit.v)
    v = tg.mesh_eval_velocity(mesh, hit.face, hit.u, hit.v)
    out[i] = hit.t + 2.0 * p[0] + 3.0 * p[1] - p[2] + v[0] * v[1] + hit.normal[2]


@tg.kernel
def nearest(mesh: tg.uint64, points: tg.array1d[tg.vec3], dir: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    near = tg.mesh_query_point(mesh, points[i], tg.inf)
    p = tg.mesh_eval_position(mesh, near.face, near.u, near.v)
    v = tg.mesh_eval_velocity(mesh, near.face, near.u, near.v)
    out[i] = near.sign * tg.length(p - points[i]) + tg.dot(v, dir[i])


@tg.kernel
def query_furthest(
    mesh: tg.Mesh, points: tg.array1d[tg.vec3], dir: tg.array1d[tg.vec3], out: tg.array1d[float]
):
    i = tg.tid()
    far = tg.mesh_query_furthest_point_no_sign(mesh, points[i], 0.0)
    p = tg.mesh_eval_position(mesh, far.face, far.u, far.v)
    out[i] = tg.length(p - points[i]) * dir[i][0]


@tg.kernel
def read_mesh(mesh: tg.uint64, points: tg.array1d[tg.vec3], dir: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    parts = tg.mesh_get(mesh)
    n = tg.mesh_eval_face_normal(mesh, i)
    p, v = tg.mesh_get_point(mesh, 3 * i), tg.mesh_get_velocity(mesh, 3 * i + 1)
    out[i] = tg.dot(n, dir[i]) + p[0] * v[1] + tg.dot(parts.points[i], points[i]) + parts.velocities[i][2]


def interpolate(
    data: dict[str, np.ndarray], faces: np.ndarray, face: int, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A point of a face and the velocity there."""
    return w @ data["points"][faces[face]], w @ data["velocities"][faces[face]]


def ray_loss(data: dict[str, np.ndarray], faces: np.ndarray, face: int, i: int) -> float:
    a, b, c = data["points"][faces[face]]
    u, v, t = np.linalg.solve(np.stack([a - c, b - c, -data["dir"][i]], axis=1), data["at"][i] - c)
    p, vel = interpolate(data, faces, face, np.array([u, v, 1 - u - v]))
    n = np.cross(b - a, c - a)
    return t + 2 * p[0] + 3 * p[1] - p[2] + vel[0] * vel[1] + n[2] / np.linalg.norm(n)


def closest_point_loss(data: dict[str, np.ndarray], faces: np.ndarray, face: int, i: int) -> float:
    """A loss of the closest point: the closest among the projections on the plane, the edges and the vertices that lie
    inside the face."""
    corners, point = data["points"][faces[face]], data["at"][i]
    best = (np.inf, np.zeros(3))
    for subset in ((0, 1, 2), (0, 1), (1, 2), (2, 0), (0,), (1,), (2,)):
        vertices = corners[list(subset)]
        edges = (vertices[1:] - vertices[0]).T
        inner = np.linalg.lstsq(edges, point - vertices[0], rcond=None)[0] if len(subset) > 1 else np.zeros(0)
        w = np.zeros(3)
        w[list(subset)] = [1 - inner.sum(), *inner]
        if (w >= 0).all():
            best = min(best, (float(np.linalg.norm(w @ corners - point)), w), key=lambda x: x[0])
    a, b, c = corners
    side = np.sign((point - best[1] @ corners) @ np.cross(b - a, c - a))
    return side * best[0] + interpolate(data, faces, face, best[1])[1] @ data["dir"][i]


def furthest_point_loss(data: dict[str, np.ndarray], faces: np.ndarray, face: int, i: int) -> float:
    return np.linalg.norm(data["points"][faces[face]] - data["at"][i], axis=1).max() * data["dir"][i][0]


def read_loss(data: dict[str, np.ndarray], faces: np.ndarray, face: int, i: int) -> float:
    a, b, c = data["points"][faces[i]]
    n = np.cross(b - a, c - a)
    first = n / np.linalg.norm(n) @ data["dir"][i] + a[0] * data["velocities"][faces[i][1]][1]
    return first + data["points"][i] @ data["at"][i] + data["velocities"][i][2]


def queried_faces(kernel: Any, data: dict[str, np.ndarray], faces: np.ndarray) -> np.ndarray:
    """The face that each query finds."""
    if kernel is hits:
        return crossings(data["points"], faces, data["at"], data["dir"])[0].argmin(axis=1)
    if kernel is nearest:
        return distances_of(data["points"], faces, data["at"]).argmin(axis=1)
    gaps = np.linalg.norm(data["points"][faces][None] - data["at"][:, None, None], axis=3)
    return gaps.max(axis=2).argmax(axis=1)


def central_differences(
    data: dict[str, np.ndarray], loss: Callable[[dict[str, np.ndarray]], float]
) -> dict[str, np.ndarray]:
    """The gradient of a function of arrays by central differences."""
    gradients = {name: np.zeros_like(x) for name, x in data.items()}
    for name, x in data.items():
        for indices in np.ndindex(x.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = x.copy()
                moved[indices] += step
                ends.append(loss({**data, name: moved}))
            gradients[name][indices] = (ends[0] - ends[1]) / (2 * STEP)
    return gradients


def scene(kernel: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Vertices, velocities, and queries inside or around a bumpy ball."""
    rng = np.random.default_rng(0)
    points, faces = sphere(1, 0.2)
    queries = rng.uniform(-0.3, 0.3, (COUNT, 3)) * (1 if kernel is hits else 4)
    data = {"points": points, "velocities": rng.standard_normal(points.shape), "at": queries}
    data["dir"] = rng.standard_normal((COUNT, 3))
    return {name: x.astype(np.float32).astype(np.float64) for name, x in data.items()}, faces


def gradients(kernel: Any, data: dict[str, np.ndarray], faces: np.ndarray) -> dict[str, np.ndarray]:
    arguments = {name: tg.array(x, dtype=tg.vec3, requires_grad=True) for name, x in data.items()}
    mesh = tg.Mesh(arguments["points"], tg.array(faces.reshape(-1), dtype=int), arguments["velocities"])
    out = tg.zeros(COUNT, requires_grad=True)
    with tg.Tape() as tape:
        takes_id = kernel in (nearest, read_mesh)
        tg.launch(
            kernel,
            COUNT,
            inputs=[mesh.id if takes_id else mesh, arguments["at"], arguments["dir"]],
            outputs=[out],
        )
    del mesh
    out.grad.fill_(1.0)
    tape.backward()
    assert arguments["points"] in tape.gradients
    return {name: a.grad.numpy() for name, a in arguments.items()}


@pytest.mark.parametrize(
    ("kernel", "loss"),
    [
        pytest.param(hits, ray_loss, marks=pytest.mark.slow),
        pytest.param(nearest, closest_point_loss, marks=pytest.mark.slow),
        pytest.param(query_furthest, furthest_point_loss, marks=pytest.mark.slow),
        (read_mesh, read_loss),
    ],
)
def test_gradients_of_spatial_queries_agree_with_differences(kernel: Any, loss: Any) -> None:
    data, faces = scene(kernel)
    actual, faces_hit = gradients(kernel, data, faces), queried_faces(kernel, data, faces)
    expected = central_differences(
        data, lambda data: sum(loss(data, faces, int(face), i) for i, face in enumerate(faces_hit))
    )
    for name, gradient in expected.items():
        np.testing.assert_allclose(actual[name], gradient, rtol=2e-4, atol=2e-4, err_msg=name)


def run_backward_after_change(
    change: Callable[[tg.Mesh, tg.array], object], id_in_array: bool = False
) -> None:
    """A launch that reads a mesh, a change, and backward."""
    data, faces = scene(read_mesh)
    arguments = {name: tg.array(x, dtype=tg.vec3, requires_grad=True) for name, x in data.items()}
    mesh = tg.Mesh(arguments["points"], tg.array(faces.reshape(-1), dtype=int), arguments["velocities"])
    out = tg.zeros(COUNT, requires_grad=True)
    with tg.Tape() as tape:
        if id_in_array:
            ids = tg.array([mesh.id], dtype=tg.uint64)
            tg.launch(read_by_id_array, COUNT, inputs=[ids, arguments["at"]], outputs=[out])
        else:
            tg.launch(read_mesh, COUNT, inputs=[mesh.id, arguments["at"], arguments["dir"]], outputs=[out])
    change(mesh, arguments["points"])
    del mesh
    out.grad.fill_(1.0)
    tape.backward()
    assert np.abs(arguments["points"].grad.numpy()).sum() > 0


@tg.kernel
def read_by_id_array(ids: tg.array1d[tg.uint64], points: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    out[i] = tg.dot(tg.mesh_get_point(ids[0], i), points[i])


def new_points(mesh: tg.Mesh, points: tg.array) -> None:
    mesh.points = vectors(points.numpy() + 1.0)


@pytest.mark.parametrize("id_in_array", [False, True])
def test_a_gradient_is_refused_after_a_mesh_has_changed(id_in_array: bool) -> None:
    run_backward_after_change(lambda mesh, points: None, id_in_array)
    for change in (lambda mesh, points: mesh.refit(), lambda mesh, points: points.zero_(), new_points):
        with pytest.raises(
            tg.LaunchError, match="the gradient queries .* again, but .*the tg.Mesh was changed"
        ):
            run_backward_after_change(change, id_in_array)


def test_gradients_of_queries_without_an_array_are_refused() -> None:
    data, faces = scene(read_mesh)
    points = tg.array(data["points"], dtype=tg.vec3, requires_grad=True)
    mesh = tg.Mesh(points, tg.array(faces.reshape(-1), dtype=int))
    between, out = tg.zeros(COUNT), tg.zeros(COUNT, requires_grad=True)
    with tg.Tape() as tape:
        ids = tg.array([mesh.id], dtype=tg.uint64)
        tg.launch(read_by_id_array, COUNT, inputs=[ids, vectors(data["at"])], outputs=[between])
        tg.copy(out, between)
    with pytest.raises(tg.LaunchError, match="an array without a gradient, so the gradient would be lost"):
        tape.backward(grads={out: tg.ones(COUNT)})
