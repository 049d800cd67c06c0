"""Vectors and matrices on the host: small values with the algebra of kernels."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import tegula as tg

V = tg.vec3(1.0, 2.0, 3.0)
M = tg.mat33(1, 2, 3, 4, 5, 6, 7, 8, 10)


def test_components_of_host_vectors_are_read_and_assigned() -> None:
    v = tg.vec4(1.0, 2.0, 3.0, 4.0)
    assert (v.x, v.y, v.z, v.w) == (1, 2, 3, 4) and type(v.x) is np.float32
    assert v[0] == 1 and v[-1] == 4 and len(v) == 4 and list(v) == [1, 2, 3, 4]
    assert v[0:2] == tg.vec2(1, 2) and v[::-1] == (4, 3, 2, 1)
    v.x, v[1], v[2:] = 5, 6.5, (7, 8)
    assert v == (5, 6.5, 7, 8) and v != (5, 6.5, 7) and v != tg.vec4(5, 6.5, 7, 9)
    with pytest.raises(AttributeError, match="no component 'z'"):
        _ = tg.vec2(1, 2).z
    with pytest.raises(IndexError):
        _ = v[4]
    for wrong in (1.0, True, [0, 1]):
        with pytest.raises(TypeError, match="must be integers or slices"):
            _ = v[wrong]
    with pytest.raises(ValueError, match="1 or more components"):
        _ = v[4:]


def test_entries_of_host_matrices_are_read_and_assigned() -> None:
    m = tg.mat22(1, 2, 3, 4)
    assert len(m) == 2 and m[1] == tg.vec2(3, 4) and m[1, 0] == 3 and m[:, 1] == tg.vec2(2, 4)
    assert m == [[1, 2], [3, 4]] and m.T == [[1, 3], [2, 4]] and list(m) == [m[0], m[1]]
    row = m[0]
    row.x = 9  # a copy
    m[1] = (5, 6)
    m[0, 1] = 7
    assert m == [[1, 7], [5, 6]]
    assert tg.mat22(tg.vec2(1, 2), tg.vec2(3, 4)) == tg.mat22([1, 2], [3, 4]) == tg.mat22(1, 2, 3, 4)


def test_operators_of_host_values_agree_with_kernels() -> None:
    assert V + V == 2 * V == V * 2.0 == np.float64(2) * V == V - -V == tg.vec3(2, 4, 6)
    assert M * V == M @ V == tg.vec3(14, 32, 53)
    assert V * M == V @ M == tg.vec3(30, 36, 45)
    assert M @ M == np.asarray(M) @ np.asarray(M)
    assert V / 2 == (0.5, 1, 1.5) and 6.0 / tg.vec2(2, 3) == (3, 2) and +V == V
    assert tg.vec3i(7, -7, 9) % 4 == (3, -3, 1) and tg.vec2i(6, 3) & tg.vec2i(3, 6) == (2, 2)
    ones: Any = (1, 1, 1)
    assert V + ones == V + np.ones(3) == list(ones) + V == np.ones(3) + V == (2, 3, 4)
    third = tg.vec2(1.0) / 3
    assert third.x == np.float32(1) / np.float32(3)
    assert (third * np.float64(0.1)).x == third.x * np.float32(0.1)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: V * V, TypeError, r"'\*' is not defined between vec3 and vec3"),
        (lambda: V + tg.vec2(1, 2), TypeError, "vec3 and vec2"),
        (lambda: V + tg.vec3d(1, 2, 3), TypeError, "vec3 and vec3d"),
        (lambda: V + 1, TypeError, r"'\+' is not defined between vec3 and float32"),
        (lambda: tg.vec2i(1, 2) * 2.5, ValueError, "2.5 does not fit int32"),
        (lambda: M @ tg.vec2(1, 2), TypeError, "cannot multiply"),
        (lambda: V + "a", TypeError, "unsupported operand"),
        (lambda: V < V, TypeError, "not supported"),
        (lambda: hash(V), TypeError, "unhashable"),
        (lambda: tg.vec3(1, 2), ValueError, "3 numbers of float32"),
    ],
)
def test_operands_of_host_values_that_kernels_refuse_are_refused(wrong: Any, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        wrong()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (V, "vec3f([1.0, 2.0, 3.0])"),
        (tg.vec2d(0.1, 2), "vec2d([0.1, 2.0])"),
        (tg.vec2(0.1, 2), "vec2f([0.1, 2.0])"),
        (tg.vec4ub(1, 2, 3, 255), "vec4ub([1, 2, 3, 255])"),
        (tg.mat22(1, 2, 3, 4), "mat22f([[1.0, 2.0], [3.0, 4.0]])"),
        (tg.types.vector(5, int)(7), "vector(5, int32)([7, 7, 7, 7, 7])"),
        (tg.types.matrix((1, 2), tg.bfloat16)(7), "matrix((1, 2), bfloat16)([[7.0, 7.0]])"),
    ],
)
def test_text_of_host_values_names_type_and_components(value: Any, text: str) -> None:
    assert repr(value) == text
    assert text.endswith(f"({value})")


def test_host_values_are_instances_of_their_types() -> None:
    assert isinstance(V, tg.vec3) and isinstance(V, tg.vec3f) and not isinstance(V, tg.vec3d)
    assert isinstance(M[0], tg.vec3) and isinstance(M, tg.mat33) and not isinstance(3.0, tg.vec3)
    assert V.dtype is tg.float32 and V.shape == (3,) and M.shape == (3, 3)
    assert tg.vec3d(V) == V and tg.float64(V).dtype is tg.float64 and tg.int32(tg.vec2(1.5, -1.5)) == (1, -1)


def test_host_values_convert_to_numpy_and_copy() -> None:
    assert np.asarray(V).dtype == np.float32 and np.asarray(V, np.float64).dtype == np.float64
    assert np.array([V, V]).shape == (2, 3) and np.sqrt(tg.vec2(4, 9)).tolist() == [2, 3]
    np.testing.assert_allclose(M, M.numpy())
    for copied in (copy.copy(V), copy.deepcopy(V), pickle.loads(pickle.dumps(V))):
        assert copied == V and copied.type == V.type
        copied.x = 8
        assert V.x == 1
    shared = np.array(V)
    shared[0] = 7
    assert V.x == 1 and V.tolist() == [1.0, 2.0, 3.0]


OFFSET = tg.vec3(1.0, 2.0, 3.0)


@tg.kernel
def affine(a: tg.array1d[tg.vec3], shift: tg.vec3, rotation: tg.mat33, anything: Any):
    i = tg.tid()
    a[i] = rotation * a[i] + shift + OFFSET * OFFSET.z + anything


@pytest.mark.machine_code
def test_host_values_are_arguments_captures_and_elements() -> None:
    a = tg.array([tg.vec3(1, 0, 0), V], dtype=tg.vec3)
    tg.launch(affine, dim=2, inputs=[a, V, M, tg.vec3(0.5)])
    total_shift = V + OFFSET * OFFSET.z + tg.vec3(0.5)
    assert a.numpy().tolist() == [(M[:, 0] + total_shift).tolist(), (M * V + total_shift).tolist()]
    assert tg.full(2, V, dtype=tg.vec3).numpy().tolist() == [[1, 2, 3]] * 2
    original = OFFSET.x
    try:
        OFFSET.x = 100.0  # the next launch uses the new value
        b = tg.zeros(1, dtype=tg.vec3)
        tg.launch(affine, dim=1, inputs=[b, V, M, tg.vec3(0)])
        assert b.numpy()[0, 0] == 301
    finally:
        OFFSET.x = original
