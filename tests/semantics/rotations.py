"""Functions of quaternions, transforms and spatial vectors, and their NumPy counterparts by other formulas: 4 x 4
matrices, and rotations by Rodrigues' formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tegula as tg

Array = np.ndarray


def quat_multiply(a: Array, b: Array) -> Array:
    """The quaternion a * b, computed with the matrix of a."""
    x, y, z, w = a
    left = np.array([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]])
    return left @ b


def conjugate(q: Array) -> Array:
    return q * [-1, -1, -1, 1]


def cross_matrix(v: Array) -> Array:
    return np.stack([np.cross(v, e) for e in np.eye(3)], -1)


def rodrigues(axis: Array, angle: float) -> Array:
    """The rotation matrix for an axis and an angle, by Rodrigues' formula."""
    k = cross_matrix(axis / np.linalg.norm(axis))
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def quat_from_axis_angle(axis: Array, angle: float) -> Array:
    return np.array([*(np.asarray(axis) * np.sin(angle / 2)), np.cos(angle / 2)])


def axis_angle(q: Array) -> tuple[Array, float]:
    q = q if q[3] >= 0 else -q
    return q[:3] / np.linalg.norm(q[:3]), 2 * np.arccos(q[3])


def rotation_of(q: Array) -> Array:
    return rodrigues(*axis_angle(q))


def positive(q: Array) -> Array:
    """q or -q, whichever has a nonnegative w."""
    return q if q[3] >= 0 else -q


def slerp(a: Array, b: Array, t: float) -> Array:
    """The spherical interpolation, by the angle between both quaternions."""
    b = b if a @ b >= 0 else -b
    half = np.arccos(a @ b)
    return (np.sin((1 - t) * half) * a + np.sin(t * half) * b) / np.sin(half)


def transform_matrix(t: Array) -> Array:
    transform = np.eye(4)
    transform[:3, :3], transform[:3, 3] = rotation_of(t[3:]), t[:3]
    return transform


def twist_matrix(t: Array) -> Array:
    """The matrix that transforms twists to another frame."""
    r = rotation_of(t[3:])
    return np.block([[r, np.zeros((3, 3))], [cross_matrix(t[:3]) @ r, r]])


def motion_cross_matrix(a: Array) -> Array:
    w, v = cross_matrix(a[:3]), cross_matrix(a[3:])
    return np.block([[w, np.zeros((3, 3))], [v, w]])


def twist(axis: Array, q: Array) -> Array:
    rotated = np.array([*(axis * (axis @ q[:3])), q[3]])
    return rotated / np.linalg.norm(rotated)


def euler(e: Array, *axes: int) -> Array:
    rotation = np.array([0.0, 0.0, 0.0, 1.0])
    for k in axes:
        rotation = quat_multiply(quat_from_axis_angle(np.eye(3)[k], e[k]), rotation)
    return rotation


def angles(r: Array) -> Array:
    """Roll, pitch and yaw of a rotation matrix."""
    return np.array([np.arctan2(r[2, 1], r[2, 2]), -np.arcsin(r[2, 0]), np.arctan2(r[1, 0], r[0, 0])])


@tg.func
def zxz_rotation(e, zero):
    """The rotation by e.z about z, then by e.x about x, then by e.y about z."""
    x, z = tg.vector(zero + 1.0, zero, zero), tg.vector(zero, zero, zero + 1.0)
    return tg.quat_from_axis_angle(z, e.y) * tg.quat_from_axis_angle(x, e.x) * tg.quat_from_axis_angle(z, e.z)


def rotation_between(a: Array, b: Array) -> Array:
    axis = np.cross(a, b)
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    return quat_from_axis_angle(axis / np.linalg.norm(axis), np.arccos(cosine))


def scaled_transform_matrix(p: Array, q: Array, s: Array) -> Array:
    transform = np.eye(4)
    transform[:3, :3], transform[:3, 3] = rotation_of(q) @ np.diag(s), p
    return transform


def transformed_point(t: Array, x: Array, weight: float) -> Array:
    return (transform_matrix(t) @ [*x, weight])[:3]


ARGUMENTS = {
    "a": tg.quatd, "b": tg.quatd, "u": tg.vec3d, "v": tg.vec3d, "n": tg.vec3d, "s": tg.transformd,
    "t": tg.transformd, "f": tg.spatial_vectord, "g": tg.spatial_vectord, "m": tg.mat44d, "k": tg.mat44d,
}  # fmt: skip
"""The arguments of expressions: quaternions a and b of length 1; vectors u, v, and n of length 1; transforms s and t;
spatial vectors f and g; the matrix m of the transform s; and the matrix k of a transform with scales."""

Reference = Callable[..., Any]
QUATERNIONS: dict[str, Reference] = {
    "a * b": lambda a, b, **_: quat_multiply(a, b),
    "tg.quat_multiply(a, b)": lambda a, b, **_: quat_multiply(a, b),
    "tg.quat_inverse(a)": lambda a, **_: conjugate(a),
    "a + b": lambda a, b, **_: a + b,
    "a * n.x - b / 2.0": lambda a, b, n, **_: a * n[0] - b / 2,
    "tg.quat_from_axis_angle(n, u.x)": lambda n, u, **_: quat_from_axis_angle(n, u[0]),
    "tg.quat_to_axis_angle(a)[0]": lambda a, **_: axis_angle(a)[0],
    "tg.quat_to_axis_angle(a)[1]": lambda a, **_: axis_angle(a)[1],
    "tg.quat_rotate(a, u)": lambda a, u, **_: rotation_of(a) @ u,
    "tg.quat_rotate_inv(a, u)": lambda a, u, **_: rotation_of(a).T @ u,
    "tg.quat_to_matrix(a)": lambda a, **_: rotation_of(a),
    "tg.quat_rpy(u.x, u.y, u.z)": lambda u, **_: euler(u, 0, 1, 2),
    "tg.quat_to_rpy(a)": lambda a, **_: angles(rotation_of(a)),
    "tg.quat_to_matrix(tg.quat_from_euler(tg.quat_to_euler(a, 1, 2, 0), 1, 2, 0))": lambda a, **_: (
        rotation_of(a)
    ),
    "tg.quat_to_matrix(tg.quat_from_euler(tg.quat_to_euler(a, 0, 2, 1), 0, 2, 1))": lambda a, **_: (
        rotation_of(a)
    ),
    "tg.quat_to_matrix(zxz_rotation(tg.quat_to_euler(a, 2, 0, 2), a.w * 0.0))": lambda a, **_: rotation_of(a),
    "tg.quat_slerp(a, b, n.x * n.x)": lambda a, b, n, **_: aligned_with(slerp(a, b, n[0] ** 2), a),
    "tg.quat_from_euler(u, 0, 1, 2)": lambda u, **_: euler(u, 0, 1, 2),
    "tg.quat_from_euler(u, 2, 0, 2)": lambda u, **_: euler(u, 2, 0, 2),
    "tg.quat_twist(n, a)": lambda n, a, **_: twist(n, a),
    "tg.quat_twist_angle(n, a)": lambda n, a, **_: 2 * np.arctan2(abs(n @ a[:3]), a[3]),
    "tg.quat_twist_angle_signed(n, a)": lambda n, a, **_: 2 * np.arctan2(n @ a[:3], a[3]),
    "tg.quat_between_vectors(u, v)": lambda u, v, **_: rotation_between(u, v),
    "tg.normalize(a * 3.0)": lambda a, **_: a,
    "tg.dot(a, b) + tg.length_sq(a)": lambda a, b, **_: a @ b + 1,
}


def aligned_with(q: Array, reference: Array) -> Array:
    return q if q @ reference >= 0 else -q


TRANSFORMS: dict[str, Reference] = {
    "tg.transform_point(s, u)": lambda s, u, **_: transformed_point(s, u, 1),
    "tg.transform_vector(s, u)": lambda s, u, **_: transformed_point(s, u, 0),
    "tg.transform_point(k, u)": lambda k, u, **_: (k @ [*u, 1])[:3],
    "tg.transform_vector(k, u)": lambda k, u, **_: (k @ [*u, 0])[:3],
    "tg.transform_point(s * t, u)": lambda s, t, u, **_: (
        transform_matrix(s) @ transform_matrix(t) @ [*u, 1]
    )[:3],
    "tg.transform_point(tg.transform_inverse(s), u)": lambda s, u, **_: (
        np.linalg.inv(transform_matrix(s)) @ [*u, 1]
    )[:3],
    "tg.transform_inverse(s)": lambda s, **_: np.array([*-(rotation_of(s[3:]).T @ s[:3]), *conjugate(s[3:])]),
    "tg.transform_to_matrix(s)": lambda s, **_: transform_matrix(s),
    "tg.transform_from_matrix(m).p": lambda s, **_: s[:3],
    "tg.quat_to_matrix(tg.transform_from_matrix(m).q)": lambda s, **_: rotation_of(s[3:]),
    "tg.quat_to_matrix(tg.quat_from_matrix(m[0:3, 0:3]))": lambda s, **_: rotation_of(s[3:]),
    "tg.transform_compose(u, a, v)": lambda u, a, v, **_: scaled_transform_matrix(u, a, v),
    "tg.matrix(u, a, v)": lambda u, a, v, **_: scaled_transform_matrix(u, a, v),
    "tg.transform_compose(*tg.transform_decompose(k))": lambda k, **_: k,
    "tg.transform_get_translation(s)": lambda s, **_: s[:3],
    "tg.transform_get_rotation(s)": lambda s, **_: s[3:],
    "tg.transformation(u, a)": lambda u, a, **_: np.array([*u, *a]),
    "tg.transformd(u)": lambda u, **_: np.array([*u, 0, 0, 0, 1]),
    "s + t * n.x": lambda s, t, n, **_: s + t * n[0],
    "s.q * t.q": lambda s, t, **_: quat_multiply(s[3:], t[3:]),
}

SPATIAL: dict[str, Reference] = {
    "tg.skew(u)": lambda u, **_: cross_matrix(u),
    "tg.spatial_vectord(u, v)": lambda u, v, **_: np.array([*u, *v]),
    "tg.spatial_top(f)": lambda f, **_: f[:3],
    "tg.spatial_bottom(f)": lambda f, **_: f[3:],
    "tg.spatial_dot(f, g)": lambda f, g, **_: f @ g,
    "tg.spatial_cross(f, g)": lambda f, g, **_: motion_cross_matrix(f) @ g,
    "tg.spatial_cross_dual(f, g)": lambda f, g, **_: -motion_cross_matrix(f).T @ g,
    "tg.spatial_adjoint(m[0:3, 0:3], k[0:3, 0:3])": lambda m, k, **_: np.block(
        [[m[:3, :3], np.zeros((3, 3))], [k[:3, :3], m[:3, :3]]]
    ),
    "tg.velocity_at_point(f, u)": lambda f, u, **_: f[3:] + np.cross(f[:3], u),
    "tg.transform_twist(s, f)": lambda s, f, **_: twist_matrix(s) @ f,
    "tg.transform_wrench(s, f)": lambda s, f, **_: np.linalg.inv(twist_matrix(s)).T @ f,
    "tg.matrix_from_cols(u, v)": lambda u, v, **_: np.stack([u, v], -1),
    "tg.matrix_from_rows(u, v)": lambda u, v, **_: np.stack([u, v]),
}


def random_arguments(count: int, seed: int = 0) -> dict[str, Array]:
    """Random arguments for a number of calls, by name."""
    rng = np.random.default_rng(seed)

    def unit(n: int) -> Array:
        x = rng.standard_normal((count, n))
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    inputs = {"a": unit(4), "b": unit(4), "n": unit(3)}
    inputs |= {"u": rng.uniform(-1.5, 1.5, (count, 3)), "v": rng.uniform(0.3, 1.5, (count, 3))}
    inputs |= {x: np.concatenate([rng.uniform(-1, 1, (count, 3)), unit(4)], -1) for x in "st"}
    inputs |= {x: rng.uniform(-1, 1, (count, 6)) for x in "fg"}
    inputs["m"] = np.stack([transform_matrix(s) for s in inputs["s"]])
    inputs["k"] = np.stack(
        [
            scaled_transform_matrix(*values)
            for values in zip(inputs["u"], inputs["a"], inputs["v"], strict=True)
        ]
    )
    return inputs


def kernel(table: dict[str, Reference], dtype: str = "d") -> tuple[Any, int]:
    """A kernel that stores the components of all expressions of a table, in order, and the number of these
    components."""
    samples = {name: x[0] for name, x in random_arguments(1).items()}
    lines, count = [], 0
    for k, (expression, reference) in enumerate(table.items()):
        lines.append(f"r{k} = {expression}")
        shape = np.shape(reference(**samples))
        for index in np.ndindex(*shape):
            entry = f"r{k}[{', '.join(map(str, index))}]" if shape else f"r{k}"
            lines.append(f"o[i, {count}] = {entry}")
            count += 1
    loads = [f"{name} = {name}_[i]" for name in ARGUMENTS]
    types = {name: f"tg.{type_prefix(t)}{dtype}" for name, t in ARGUMENTS.items()}
    parameters = ", ".join(f"{name}_: tg.array[{t}]" for name, t in types.items())
    body = "\n    ".join(["i = tg.tid()", *loads, *lines])
    out = {"d": "tg.float64", "f": "float", "h": "tg.float16"}[dtype]
    source = f"def kernel({parameters}, o: tg.array2d[{out}]):\n    {body}\n"
    source = source.replace("vectord(", f"vector{dtype}(").replace("transformd(", f"transform{dtype}(")
    space: dict[str, Any] = {"tg": tg, "zxz_rotation": zxz_rotation}
    exec(source, space)
    return tg.kernel(source=source)(space["kernel"]), count


def type_prefix(t: Any) -> str:
    names = ("quat", "vec3", "transform", "spatial_vector", "mat44")
    return next(name for name in names if getattr(tg, f"{name}d") == t)


def expected(table: dict[str, Reference], samples: dict[str, Array]) -> Array:
    count = len(samples["a"])
    inputs_of_sample = [{name: x[i] for name, x in samples.items()} for i in range(count)]
    return np.stack([np.concatenate([np.ravel(f(**x)) for f in table.values()]) for x in inputs_of_sample])
