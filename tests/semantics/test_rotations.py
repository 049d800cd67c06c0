"""Quaternions, transforms and spatial vectors: values, gradients, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree, interpret, traced
from rotations import (
    ARGUMENTS,
    QUATERNIONS,
    SPATIAL,
    TRANSFORMS,
    expected,
    kernel,
    quat_multiply,
    random_arguments,
    type_prefix,
)

import tegula as tg
from tegula.ir.text import parse_type

FAMILIES = {"quaternions": QUATERNIONS, "transforms": TRANSFORMS, "spatial vectors": SPATIAL}


def arrays(samples: dict[str, np.ndarray], suffix: str, **options: Any) -> list[Any]:
    return [
        tg.array(samples[name], dtype=getattr(tg, type_prefix(t) + suffix), **options)
        for name, t in ARGUMENTS.items()
    ]


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=pytest.mark.slow if name == "quaternions" else ()) for name in FAMILIES],
)
def test_functions_of_rotations_match_float64(family: str) -> None:
    table, samples = FAMILIES[family], random_arguments(12)
    rotation_kernel, count = kernel(table)
    args = [*arrays(samples, "d"), tg.zeros((12, count), dtype=tg.float64)]
    cpu_copies = [tg.clone(a, device="cpu") for a in args]
    tg.launch(rotation_kernel, 12, inputs=args, block_dim=4)
    interpret(rotation_kernel, cpu_copies, (12,), 4)
    for run in (args, cpu_copies):
        np.testing.assert_allclose(run[-1].numpy(), expected(table, samples), rtol=1e-12, atol=1e-12)


def check_gradients(table: dict[str, Any]) -> None:
    rotation_kernel, count = kernel(table)
    out = tg.zeros((5, count), dtype=tg.float64, requires_grad=True)
    tg.gradcheck(
        rotation_kernel, 5, arrays(random_arguments(5, 1), "d", requires_grad=True), [out], block_dim=5
    )


@pytest.mark.machine_code
def test_gradients_of_spatial_vectors_are_correct() -> None:
    check_gradients(SPATIAL)


@pytest.mark.machine_code
@pytest.mark.slow(why="sines and arc tangents, with their derivatives, in all quaternion functions")
@pytest.mark.parametrize("part", range(4))
def test_gradients_of_rotations_are_correct(part: int) -> None:
    table = {**QUATERNIONS, **TRANSFORMS}
    check_gradients(dict([*table.items()][part::4]))


@pytest.mark.machine_code
@pytest.mark.slow
def test_gradients_of_slerp_between_near_rotations_are_correct() -> None:
    """The gradient of interpolation between two equal or nearly equal rotations."""

    @tg.kernel
    def interpolate(
        a: tg.array[tg.quatd], b: tg.array[tg.quatd], t: tg.array[tg.float64], o: tg.array[tg.quatd]
    ):
        i = tg.tid()
        o[i] = tg.quat_slerp(a[i], b[i], t[i])

    a = random_arguments(3)["a"]
    nearby = a + np.array([[0.0] * 4, [1e-6, 0, 2e-6, 0], [1e-3, 0, 0, 2e-3]])
    arguments = [tg.array(x, dtype=tg.quatd, requires_grad=True) for x in (a, nearby)]
    t = tg.array([0.25, 0.5, 0.75], dtype=tg.float64, requires_grad=True)
    o = tg.zeros(3, dtype=tg.quatd, requires_grad=True)
    tg.gradcheck(interpolate, 3, [*arguments, t], [o], block_dim=1, eps=1e-7, rtol=1e-5)


@pytest.mark.machine_code
@pytest.mark.parametrize(("suffix", "tolerance"), [("f", 2e-6), ("h", 2e-3)])
def test_rotations_of_narrow_floats_are_computed_in_float32(suffix: str, tolerance: float) -> None:
    table = {text: f for text, f in {**QUATERNIONS, **SPATIAL}.items() if text in NARROW_EXPRESSIONS}
    rotation_kernel, count = kernel(table, suffix)
    samples = {name: x.astype(np.float32) for name, x in random_arguments(12).items()}
    samples = {name: x.astype(np.float16) if suffix == "h" else x for name, x in samples.items()}
    out = tg.zeros((12, count), dtype=tg.float16 if suffix == "h" else tg.float32)
    tg.launch(rotation_kernel, 12, inputs=[*arrays(samples, suffix), out], block_dim=4)
    in_float64 = {name: x.astype(np.float64) for name, x in samples.items()}
    np.testing.assert_allclose(out.numpy().astype(np.float64), expected(table, in_float64), atol=tolerance)


NARROW_EXPRESSIONS = (
    "a * b",
    "tg.quat_inverse(a)",
    "tg.skew(u)",
    "tg.spatial_cross(f, g)",
    "tg.velocity_at_point(f, u)",
)


@tg.kernel
def elements(
    a: tg.array[tg.quat], q: tg.quat, x: tg.transform, o: tg.array[tg.quat], s: tg.array[tg.transform]
):
    t = tg.tile_load(a, shape=8)
    tg.tile_store(o, t * q + tg.tile_ones(8, dtype=tg.quat))
    tg.tile_store(o, tg.tile_map(tg.quat_inverse, t), offset=8)
    tg.tile_store(o, tg.tile_sum(t), offset=16)
    _, lane = tg.tid()
    if lane == 0:
        s[1].p = x.p * 2.0
        s[1].q = tg.quat_identity()
        s[1].p.x += 1.0
        s[2] = tg.transform()
        s[3] = tg.transform_identity() * 2.0
    tg.atomic_add(s, 0, x)
    if x.q == tg.quat_identity() and x != tg.transform_identity():
        tg.atomic_add(s, 4, x * x)


@pytest.mark.machine_code
def test_rotations_are_elements_of_arrays_and_tiles_and_arguments() -> None:
    a = np.arange(32, dtype=np.float32).reshape(8, 4)
    q, x = tg.quat(0.0, 0.0, 1.0, 0.0), tg.transform((1.0, 2.0, 3.0))
    args = [
        tg.array(a, dtype=tg.quat), q, x, tg.zeros(17, dtype=tg.quat), tg.ones(5, dtype=tg.transform)
    ]  # fmt: skip
    _, o, s = agree(elements, args, 1, 2, tiled=True)
    assert o[:8].tolist() == [
        (quat_multiply(component, np.array(q)) + np.eye(4)[0]).tolist() for component in a
    ]
    assert o[8:16].tolist() == (a * [-1, -1, -1, 1]).tolist() and o[16].tolist() == a.sum(0).tolist()
    assert s.tolist() == [
        [3, 5, 7, 1, 1, 1, 3], [3, 4, 6, 0, 0, 0, 1], [0] * 7, [0] * 6 + [2], [5, 9, 13, 1, 1, 1, 3]
    ]  # fmt: skip


def test_rotations_are_constructed_in_python() -> None:
    assert tg.quat().tolist() == [0] * 4 and tg.transform().tolist() == [0] * 7
    assert tg.quatd(tg.vec3d(1.0, 2.0, 3.0), 4.0).tolist() == [1, 2, 3, 4]
    assert tg.transform(tg.vec3(1.0, 2.0, 3.0)).tolist() == [1, 2, 3, 0, 0, 0, 1]
    assert tg.spatial_vector(tg.vec3(1.0), tg.vec3(2.0)).tolist() == [1, 1, 1, 2, 2, 2]
    assert tg.zeros((2, 3), dtype=tg.transform).numpy().shape == (2, 3, 7)
    assert tg.quatd.notation == "quat<float64>" and parse_type("transform<float16>") == tg.transformh
    with pytest.raises(ValueError, match="quat takes 4 numbers, got 1"):
        tg.quat(1.0)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("q * v", "help: rotate a vector with tg.quat_rotate"),
        ("m * q", "help: rotate a vector with tg.quat_rotate"),
        ("t * v", "help: apply a transform with tg.transform_point or tg.transform_vector"),
        ("q * d", "mixed-scalar-types]: '*' mixes float32 and float64"),
        ("tg.quat_rotate(d, v)", "mixed-scalar-types]: quat_rotate mixes float64 and float32"),
        ("tg.quat_rotate(v, q)", "argument 'quat' of quat_rotate must be a quaternion of floats, got vec3"),
        ("q % 2.0", "'%' is not defined between quat and float literal 2.0"),
        ("tg.quat(1.0)", "quat takes 4 components, got 1"),
        ("tg.quat_identity(int)", "the components of a quat must be floats, not int32"),
        ("t.x", "transform has no attribute 'x'"),
        ("tg.mat33(v, v, tg.vec2())", "the rows of a mat33 are vectors of length 3"),
    ],
)
def test_invalid_rotations_are_refused(expression: str, message: str) -> None:
    source = "def kernel(q: tg.quat, v: tg.vec3, t: tg.transform, m: tg.mat44, d: tg.quatd):\n"
    space: dict[str, Any] = {"tg": tg}
    exec(f"{source}    r = {expression}\n", space)
    refused_kernel = tg.kernel(source=f"{source}    r = {expression}\n")(space["kernel"])
    args = [tg.quat(), tg.vec3(), tg.transform(), tg.mat44(), tg.quatd()]
    with pytest.raises(tg.CompileError) as raised:
        traced(refused_kernel, args, (1,), 1)
    assert message in str(raised.value)
