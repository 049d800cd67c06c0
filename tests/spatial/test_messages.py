"""The messages for wrong arguments of structures and of queries."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import mesh_of, sphere, vectors

pytestmark = pytest.mark.cpu
"""Texts of messages name the device."""

POINTS = vectors(np.random.default_rng(0).random((9, 3)))
INDICES = tg.array([0, 1, 2], dtype=int)


def bvh() -> tg.Bvh:
    return tg.Bvh(POINTS, POINTS)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: tg.Bvh([[0, 0, 0]], POINTS),
            tg.LaunchError,
            "lowers must be an array of vec3, got a value of type list",
        ),
        (
            lambda: tg.Bvh(None, POINTS),
            tg.LaunchError,
            "lowers must be an array of vec3, got a value of type NoneType",
        ),
        (
            lambda: tg.Bvh(POINTS, POINTS[:4]),
            tg.LaunchError,
            "uppers must be a packed array of vec3 of shape (9,) on cpu, got a packed array of vec3 of shape (4,)",
        ),
        (
            lambda: tg.Bvh(POINTS[::2], POINTS[::2]),
            tg.LaunchError,
            "lowers must be a packed array of vec3 of shape (5,) on cpu, got an unpacked array of vec3 of shape (5,)",
        ),
        (
            lambda: tg.Bvh(POINTS, POINTS, leaf_size=4.0),
            ValueError,
            "the leaf size must be an integer from 1 to 255, got 4.0",
        ),
        (
            lambda: tg.Mesh(POINTS, np.arange(3)),
            tg.LaunchError,
            "indices must be an array of int32, got a value of type ndarray",
        ),
        (
            lambda: tg.Mesh(POINTS, tg.zeros((2, 3), dtype=int)),
            tg.LaunchError,
            "indices must be a packed array of int32 of shape (6,) on cpu, got a packed array of int32 of shape (2, 3)",
        ),
        (
            lambda: tg.HashGrid(4, 4, 4).build([[0, 0, 0]], 1.0),
            TypeError,
            "points must be an array of vec3, got a value of type list",
        ),
        (
            lambda: tg.HashGrid(4, 4, 4).build(POINTS, 1.0, [1] * 9),
            TypeError,
            "groups must be an array of int32, got a value of type list",
        ),
        (
            lambda: tg.bvh_overlaps(7, POINTS, POINTS),
            tg.LaunchError,
            "bvh_overlaps takes a tg.Bvh, got a value of type int",
        ),
    ],
)
def test_wrong_arguments_of_structures(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        make()
    assert message in str(raised.value)


@pytest.mark.machine_code
def test_a_leaf_size_may_be_a_numpy_integer() -> None:
    assert tg.Bvh(POINTS, POINTS, leaf_size=np.int64(4)).leaf_size == 4


@tg.kernel
def nearest(bvh: tg.Bvh, out: tg.array1d[int]):
    out[0] = tg.bvh_query_nearest(bvh, tg.vec3(0.0))


@tg.kernel
def nearest_of_id(bvh: tg.uint64, out: tg.array1d[int]):
    out[0] = tg.bvh_query_nearest(bvh, tg.vec3(0.0))


@tg.kernel
def ray_of_bvh(bvh: tg.Bvh, out: tg.array1d[int]):
    out[0] = tg.mesh_query_ray(bvh, tg.vec3(0.0), tg.vec3(1.0), 1.0).face


@pytest.mark.machine_code
def test_arguments_of_kernels_are_named_by_their_public_types() -> None:
    out, mesh = tg.zeros(1, dtype=int), tg.Mesh(POINTS, INDICES)
    with pytest.raises(
        tg.LaunchError, match=r"argument 'bvh': expected a tg.Bvh, got Mesh\nhelp: pass a tg.Bvh, or"
    ):
        tg.launch(nearest, 1, inputs=[mesh, out])
    with pytest.raises(
        tg.LaunchError, match=r"expected uint64, got a tg.Bvh\nhelp: pass its id, or annotate"
    ):
        tg.launch(nearest_of_id, 1, inputs=[bvh(), out])
    with pytest.raises(tg.CompileError) as error:
        tg.launch(ray_of_bvh, 1, inputs=[bvh(), out])
    assert "test_messages.py" in str(error.value)
    assert "no overload accepts an argument of type Bvh" in str(error.value)
    assert "help: signature: mesh_query_ray(id, start: vec3, dir: vec3, max_t: float32" in str(error.value)


@pytest.mark.machine_code
def test_a_structure_on_another_device_than_the_arrays_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    boxes = bvh()
    with monkeypatch.context() as patch:
        patch.setattr(boxes, "device", "cuda:0")
        with pytest.raises(
            tg.LaunchError, match="kernel nearest: a tg.Bvh is on cuda:0, and a tg.array on cpu"
        ):
            tg.launch(nearest, 1, inputs=[boxes, tg.zeros(1, dtype=int)])


@tg.struct
class Scene:
    mesh: tg.Mesh


@pytest.mark.machine_code
def test_a_field_of_a_struct_holds_an_id() -> None:
    with pytest.raises(RuntimeError, match="help: annotate the field with tg.uint64 and assign the id"):
        Scene().mesh = tg.Mesh(POINTS, INDICES)


@tg.kernel
def count_faces(mesh, out: tg.array1d[int]):
    for _ in tg.mesh_query_aabb(mesh, tg.vec3(-1.0), tg.vec3(2.0)):
        out[0] += 1


@pytest.mark.machine_code
def test_a_parameter_without_annotation_takes_a_structure_or_an_id() -> None:
    mesh, out = mesh_of(*sphere(0)), tg.zeros(1, dtype=int)
    for argument in (mesh, np.uint64(mesh.id), mesh):
        tg.launch(count_faces, 1, inputs=[argument], outputs=[out])
    assert out.numpy()[0] == 24


@tg.kernel
def heights(mesh: tg.Mesh, start: tg.array1d[tg.vec3], t: tg.array1d[float]):
    i = tg.tid()
    t[i] = tg.mesh_query_ray(mesh, start[i], tg.vec3(0.0, 0.0, -1.0), 10.0).t


@pytest.mark.machine_code
def test_a_refused_gradient_names_the_argument() -> None:
    mesh, start = mesh_of(*sphere(0)), vectors(np.array([[0.1, 0.1, 5.0]]))
    start.requires_grad = True
    t = tg.zeros(1, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(heights, 1, inputs=[mesh, start], outputs=[t])
    mesh.refit()
    with pytest.raises(tg.LaunchError, match="queries argument 'mesh' again, but the tg.Mesh was changed"):
        tape.backward(loss=t)
