"""Components, loops and functions of vectors, and functions that assign variables of their caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree, interpret

import tegula as tg
from tegula.errors import TypeMismatch


@tg.kernel
def vector_components(v: tg.array[tg.vec4], m: tg.array[tg.mat33], out: tg.array2d[float]):
    i = tg.tid()
    a = v[i]
    out[i, 0] = tg.dot(a.xy, a.zw)
    out[i, 1] = tg.dot(a.zyx, tg.vec3(1.0, 10.0, 100.0))
    a.yx = a.zw
    out[i, 2] = a.x * 10.0 + a.y
    a.xz += tg.vec2(1.0, 2.0)
    out[i, 3] = a.x - a.z
    total = 0.0
    for x in v[i]:
        total += x * x
    out[i, 4] = total
    for row in m[i]:
        total = total * 0.5 + tg.dot(row, a.xyz)
    out[i, 5] = total
    b = tg.vec2(*v[i].xy)
    out[i, 6] = tg.dot(tg.sin(b), v[i].zw)
    out[i, 7] = tg.dot(tg.hypot(a.xyz, tg.vec3(2.0, 3.0, 4.0)), tg.rsqrt(tg.abs(a.xyz)))
    first, second, third = m[i]
    out[i, 8] = first[0] * second[1] * third[2]
    out[i, 9] = tg.trace(tg.radians(m[i]).T)


def expected(v: np.ndarray, m: np.ndarray) -> np.ndarray:
    rows = []
    for (x, y, z, w), n in zip(v.astype(np.float64), m.astype(np.float64), strict=True):
        a = np.array([w + 1.0, z, z + 2.0, w])
        squares = x * x + y * y + z * z + w * w
        accumulator = squares
        for row in n:
            accumulator = accumulator * 0.5 + row @ a[:3]
        lengths = np.hypot(a[:3], [2.0, 3.0, 4.0]) @ np.abs(a[:3]) ** -0.5
        sines = np.sin([x, y]) @ [z, w]
        diagonal_terms = n[0, 0] * n[1, 1] * n[2, 2], np.trace(np.radians(n))
        row = [
            x * z + y * w,
            z + 10 * y + 100 * x,
            w * 10 + z,
            a[0] - a[2],
            squares,
            accumulator,
            sines,
            lengths,
        ]
        rows.append([*row, *diagonal_terms])
    return np.array(rows)


def random_arguments(**options: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    v, m = rng.uniform(-2, 2, (6, 4)), rng.uniform(-2, 2, (6, 3, 3))
    return [tg.array(v, dtype=tg.vec4, **options), tg.array(m, dtype=tg.mat33, **options)]


@pytest.mark.machine_code
def test_parts_of_vectors_match_numpy() -> None:
    v, m, on_device = [*random_arguments(), tg.zeros((6, 10))]
    reference = tg.zeros((6, 10), device="cpu")
    tg.launch(vector_components, 6, inputs=[v, m, on_device], block_dim=4)
    interpret(vector_components, [tg.clone(v, device="cpu"), tg.clone(m, device="cpu"), reference], (6,), 4)
    for out in (on_device, reference):
        np.testing.assert_allclose(out.numpy(), expected(v.numpy(), m.numpy()), rtol=2e-5, atol=1e-5)


@pytest.mark.machine_code
def test_gradients_of_vector_parts_are_correct() -> None:
    out = tg.zeros((6, 10), requires_grad=True)
    tg.gradcheck(vector_components, 6, random_arguments(requires_grad=True), [out], block_dim=4)


@tg.kernel
def set_caller_variables(
    q: tg.array[tg.quatd], m: tg.array[tg.mat44d], p: tg.array[tg.vec3d], out: tg.array2d[tg.float64]
):
    i = tg.tid()
    axis, angle = tg.vec3d(), tg.float64(0.0)
    tg.quat_to_axis_angle(tg.normalize(q[i]), axis, angle)
    translation, rotation, scale = tg.vec3d(), tg.quatd(), tg.vec3d()
    if i >= 0:
        tg.transform_decompose(m[i], translation, rotation, scale)
    t = tg.transformd(p[i], q[i])
    tg.transform_set_translation(t, translation * angle)
    tg.transform_set_rotation(t, rotation)
    for k in range(3):
        out[i, k] = axis[k] * angle
        out[i, 3 + k] = scale[k]
    for k in range(7):
        out[i, 6 + k] = t[k]


@pytest.mark.machine_code
def test_functions_set_variables_of_their_caller() -> None:
    rng = np.random.default_rng(1)
    scales, rotations = rng.uniform(0.5, 2, (3, 3)), rng.standard_normal((3, 4))
    m = np.stack(
        [
            np.asarray(tg.transform_compose(tg.vec3d(1, 2, 3), tg.normalize(tg.quatd(*q)), tg.vec3d(*s)))
            for q, s in zip(rotations, scales, strict=True)
        ]
    )
    args = [tg.array(x, dtype=t, requires_grad=True) for x, t in ((rotations, tg.quatd), (m, tg.mat44d))]
    args.append(tg.array(rng.standard_normal((3, 3)), dtype=tg.vec3d, requires_grad=True))
    array = tg.zeros((3, 13), dtype=tg.float64)
    tg.launch(set_caller_variables, 3, inputs=[*args, array], block_dim=2)
    out = array.numpy()
    np.testing.assert_allclose(out[:, 3:6], scales, rtol=1e-12)
    np.testing.assert_allclose(
        np.abs(out[:, 9:]), np.abs(rotations) / np.linalg.norm(rotations, axis=1)[:, None], rtol=1e-12
    )
    angles = np.linalg.norm(out[:, :3], axis=1)
    np.testing.assert_allclose(out[:, 6:9], angles[:, None] * [1, 2, 3], rtol=1e-12)
    tg.gradcheck(
        set_caller_variables, 3, args, [tg.zeros((3, 13), dtype=tg.float64, requires_grad=True)], block_dim=2
    )


@tg.kernel
def bit_counts(
    a: tg.array[int], b: tg.array[tg.uint64], c: tg.array[tg.int8], v: tg.array[tg.vec3i], s: tg.array[int]
):
    i = tg.tid()
    s[0] = tg.bit_count(a[i])
    s[1] = tg.bit_count(b[i]) + tg.bit_count(c[i])
    s[2] = tg.dot(tg.bit_count(v[i]), tg.vec3i(1, 10, 100))
    s[3] = tg.dot(tg.sign(v[i]), tg.vec3i(1, 10, 100)) + int(tg.sign(b[i]))


@pytest.mark.machine_code
def test_bit_counts_are_int32() -> None:
    args = [tg.array([-1], dtype=int), tg.array([2**63 + 1], dtype=tg.uint64), tg.array([-2], dtype=tg.int8)]
    args += [tg.array([[3, -1, 0]], dtype=tg.vec3i), tg.zeros(4, dtype=int)]
    assert agree(bit_counts, args, 1, 1)[-1].tolist() == [32, 9, 322, 92]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("tg.vec3(1.0).xw", "unknown-attribute"),
        ("tg.transform_identity().pq", "unknown-attribute"),
        ("tg.quat_identity().xyzwx", "unknown-attribute"),
        ("tg.sin(tg.quat_identity())", "wrong-arguments"),
        ("tg.atan2(tg.vec3(1.0), tg.vec2(1.0))", "mixed-scalar-types"),
    ],
)
def test_missing_parts_of_vectors_are_refused(text: str, code: str) -> None:
    names = tg.exec(f"import tegula as tg\n\n@tg.kernel\ndef invalid():\n    x = {text}\n", {})
    with pytest.raises(tg.CompileError) as raised:
        tg.launch(names["invalid"], 1)
    assert raised.value.CODE == code


def test_a_component_cannot_be_named_twice_in_an_assignment() -> None:
    @tg.kernel
    def repeated_component():
        v = tg.vec2(1.0, 2.0)
        v.xx = tg.vec2(1.0, 2.0)

    with pytest.raises(TypeMismatch, match="names a component twice"):
        tg.launch(repeated_component, 1)


def test_parts_of_host_vectors_match_numpy() -> None:
    v, t = tg.vec3(1.0, 2.0, 3.0), tg.transform((1.0, 2.0, 3.0))
    v.zx = v.xy
    assert v == (2.0, 2.0, 1.0) and v.xyz.xx == (2.0, 2.0)
    assert t.p == (1.0, 2.0, 3.0) and isinstance(t.q, tg.quat)
    with pytest.raises(AttributeError, match="no component 'w'"):
        v.w = 1.0
    with pytest.raises(AttributeError, match="twice"):
        v.xx = (1.0, 2.0)
