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


def query_face(
    f: dict[str, np.ndarray], faces: np.ndarray, face: int, w: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A point of a face and the velocity there."""
    return w @ f["points"][faces[face]], w @ f["velocities"][faces[face]]


def crossing(f: dict[str, np.ndarray], faces: np.ndarray, face: int, i: int) -> float:
    a, b, c = f["points"][faces[face]]
    u, v, t = np.linalg.solve(np.stack([a - c, b - c, -f["dir"][i]], axis=1), f["at"][i] - c)
    p, vel = query_face(f, faces, face, np.array([u, v, 1 - u - v]))
    n = np.cross(b - a, c - a)
    return t + 2 * p[0] + 3 * p[1] - p[2] + vel[0] * vel[1] + n[2] / np.linalg.norm(n)


def closest(f: dict[str, np.ndarray], faces: np.ndarray, face: int, i: int) -> float:
    """The closest point by the best of the plane, the edges and the vertices, where the point is inside of them."""
    corners, point = f["points"][faces[face]], f["at"][i]
    best = (np.inf, np.zeros(3))
    for chosen in ((0, 1, 2), (0, 1), (1, 2), (2, 0), (0,), (1,), (2,)):
        part = corners[list(chosen)]
        edges = (part[1:] - part[0]).T
        inner = np.linalg.lstsq(edges, point - part[0], rcond=None)[0] if len(chosen) > 1 else np.zeros(0)
        w = np.zeros(3)
        w[list(chosen)] = [1 - inner.sum(), *inner]
        if (w >= 0).all():
            best = min(best, (float(np.linalg.norm(w @ corners - point)), w), key=lambda x: x[0])
    a, b, c = corners
    side = np.sign((point - best[1] @ corners) @ np.cross(b - a, c - a))
    return side * best[0] + query_face(f, faces, face, best[1])[1] @ f["dir"][i]


def furthest_distance(f: dict[str, np.ndarray], faces: np.ndarray, face: int, i: int) -> float:
    return np.linalg.norm(f["points"][faces[face]] - f["at"][i], axis=1).max() * f["dir"][i][0]


def interpolated(f: dict[str, np.ndarray], faces: np.ndarray, face: int, i: int) -> float:
    a, b, c = f["points"][faces[i]]
    n = np.cross(b - a, c - a)
    first = n / np.linalg.norm(n) @ f["dir"][i] + a[0] * f["velocities"][faces[i][1]][1]
    return first + f["points"][i] @ f["at"][i] + f["velocities"][i][2]


def face_of(kernel: Any, f: dict[str, np.ndarray], faces: np.ndarray) -> np.ndarray:
    """The face that each query finds."""
    if kernel is hits:
        return crossings(f["points"], faces, f["at"], f["dir"])[0].argmin(axis=1)
    if kernel is nearest:
        return distances_of(f["points"], faces, f["at"]).argmin(axis=1)
    gaps = np.linalg.norm(f["points"][faces][None] - f["at"][:, None, None], axis=3)
    return gaps.max(axis=2).argmax(axis=1)


def differences(
    f: dict[str, np.ndarray], loss: Callable[[dict[str, np.ndarray]], float]
) -> dict[str, np.ndarray]:
    """The gradient of a function of arrays by central differences."""
    gradients = {name: np.zeros_like(x) for name, x in f.items()}
    for name, x in f.items():
        for indices in np.ndindex(x.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = x.copy()
                moved[indices] += step
                ends.append(loss({**f, name: moved}))
            gradients[name][indices] = (ends[0] - ends[1]) / (2 * STEP)
    return gradients


def scene(kernel: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Vertices, velocities, and queries inside or around a bumpy ball."""
    rng = np.random.default_rng(0)
    points, faces = sphere(1, 0.2)
    queries = rng.uniform(-0.3, 0.3, (COUNT, 3)) * (1 if kernel is hits else 4)
    f = {"points": points, "velocities": rng.standard_normal(points.shape), "at": queries}
    f["dir"] = rng.standard_normal((COUNT, 3))
    return {name: x.astype(np.float32).astype(np.float64) for name, x in f.items()}, faces


def gradients(kernel: Any, f: dict[str, np.ndarray], faces: np.ndarray) -> dict[str, np.ndarray]:
    arguments = {name: tg.array(x, dtype=tg.vec3, requires_grad=True) for name, x in f.items()}
    mesh = tg.Mesh(arguments["points"], tg.array(faces.reshape(-1), dtype=int), arguments["velocities"])
    out = tg.zeros(COUNT, requires_grad=True)
    with tg.Tape() as tape:
        by_id = kernel in (nearest, read_mesh)
        tg.launch(
            kernel,
            COUNT,
            inputs=[mesh.id if by_id else mesh, arguments["at"], arguments["dir"]],
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
        pytest.param(hits, crossing, marks=pytest.mark.slow),
        pytest.param(nearest, closest, marks=pytest.mark.slow),
        pytest.param(query_furthest, furthest_distance, marks=pytest.mark.slow),
        (read_mesh, interpolated),
    ],
)
def test_gradients_of_spatial_queries_agree_with_differences(kernel: Any, loss: Any) -> None:
    f, faces = scene(kernel)
    actual, faces_hit = gradients(kernel, f, faces), face_of(kernel, f, faces)
    expected = differences(f, lambda f: sum(loss(f, faces, int(face), i) for i, face in enumerate(faces_hit)))
    for name, gradient in expected.items():
        np.testing.assert_allclose(actual[name], gradient, rtol=2e-4, atol=2e-4, err_msg=name)


def recorded(changed: Callable[[tg.Mesh, tg.array], object], by_table: bool = False) -> None:
    """A launch that reads a mesh, a change, and backward."""
    f, faces = scene(read_mesh)
    arguments = {name: tg.array(x, dtype=tg.vec3, requires_grad=True) for name, x in f.items()}
    mesh = tg.Mesh(arguments["points"], tg.array(faces.reshape(-1), dtype=int), arguments["velocities"])
    out = tg.zeros(COUNT, requires_grad=True)
    with tg.Tape() as tape:
        if by_table:
            ids = tg.array([mesh.id], dtype=tg.uint64)
            tg.launch(read_listed, COUNT, inputs=[ids, arguments["at"]], outputs=[out])
        else:
            tg.launch(read_mesh, COUNT, inputs=[mesh.id, arguments["at"], arguments["dir"]], outputs=[out])
    changed(mesh, arguments["points"])
    del mesh
    out.grad.fill_(1.0)
    tape.backward()
    assert np.abs(arguments["points"].grad.numpy()).sum() > 0


@tg.kernel
def read_listed(ids: tg.array1d[tg.uint64], points: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    out[i] = tg.dot(tg.mesh_get_point(ids[0], i), points[i])


def new_points(mesh: tg.Mesh, points: tg.array) -> None:
    mesh.points = vectors(points.numpy() + 1.0)


@pytest.mark.parametrize("by_table", [False, True])
def test_a_gradient_is_refused_after_a_mesh_has_changed(by_table: bool) -> None:
    recorded(lambda mesh, points: None, by_table)
    for changed in (lambda mesh, points: mesh.refit(), lambda mesh, points: points.zero_(), new_points):
        with pytest.raises(tg.LaunchError, match="the gradient queries .* again, but .*the Mesh was changed"):
            recorded(changed, by_table)


def test_gradients_of_queries_without_an_array_are_refused() -> None:
    f, faces = scene(read_mesh)
    points = tg.array(f["points"], dtype=tg.vec3, requires_grad=True)
    mesh = tg.Mesh(points, tg.array(faces.reshape(-1), dtype=int))
    between, out = tg.zeros(COUNT), tg.zeros(COUNT, requires_grad=True)
    with tg.Tape() as tape:
        ids = tg.array([mesh.id], dtype=tg.uint64)
        tg.launch(read_listed, COUNT, inputs=[ids, vectors(f["at"])], outputs=[between])
        tg.copy(out, between)
    with pytest.raises(tg.LaunchError, match="an array without a gradient, so the gradient would be lost"):
        tape.backward(grads={out: tg.ones(COUNT)})
