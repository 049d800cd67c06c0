"""Methods of tiles, axes of reductions, matmuls of any rank and operators of vectors, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import agree

import tegula as tg

pytestmark = pytest.mark.machine_code

FORMS = {
    "sum": ("t.sum(axis=1)", lambda t: t.sum(1)),
    "sum of two axes": ("t.sum((0, 2), keepdims=True)", lambda t: t.sum((0, 2), keepdims=True)),
    "max": ("t.max(axis=-1, keepdims=True)", lambda t: t.max(-1, keepdims=True)),
    "min of all": ("t.min()", lambda t: t.min().reshape(1)),
    "argmax": ("t.argmax(axis=1).astype(float)", lambda t: t.argmax(1)),
    "argmin": ("t.argmin().astype(float)", lambda t: t.argmin().reshape(1)),
    "cumsum": ("t.cumsum(axis=0)", lambda t: t.cumsum(0)),
    "reshape": ("t.reshape(4, -1)", lambda t: t.reshape(4, -1)),
    "transpose": ("t.transpose(1, 0, 2)", lambda t: t.transpose(1, 0, 2)),
    "transpose of all": ("t.transpose()", lambda t: t.transpose()),
    "squeeze": ("t[0:1].squeeze()", lambda t: t[0]),
    "copy": ("t.copy()", lambda t: t),
    "any": ("(t > 7.0).any(axis=2).astype(float)", lambda t: (t > 7).any(2)),
    "all": ("t.all(axis=(0, 1)).astype(float)", lambda t: t.all((0, 1))),
    "count": ("(t > 0.0).sum(axis=0).astype(float)", lambda t: (t > 0).sum(0)),
    "zeros_like": ("tg.tile_zeros_like(t)", np.zeros_like),
    "ones_like": ("tg.tile_ones_like(t, dtype=int).astype(float)", np.ones_like),
    "full_like": ("tg.tile_full_like(t[0], 3)", lambda t: np.full_like(t[0], 3)),
    "tile_cumsum": ("tg.tile_cumsum(t, axis=-1)", lambda t: t.cumsum(-1)),
    "tile_where": ("tg.tile_where(t > t[0], t, 0.5)", lambda t: np.where(t > t[0], t, 0.5)),
    "a sum of float16 in float32": (
        "tg.tile_matmul(t[0].astype(tg.float16), t[0].T.astype(tg.float16), dtype=float)",
        lambda t: t[0] @ t[0].T,
    ),
    "a sum of int8 in int32": (
        "tg.tile_matmul(t.astype(tg.int8), t[0].T.astype(tg.int8), alpha=100, dtype=int).astype(float)",
        lambda t: 100 * (t @ t[0].T),
    ),
    "lambda": ("tg.tile_map(lambda x, y: x * y + 1.0, t, t[0])", lambda t: t * t[0] + 1),
    "lambda of a reduction": ("tg.tile_reduce(lambda x, y: tg.max(x, y), t, axis=1)", lambda t: t.max(1)),
    "batches": ("t @ t.transpose(0, 2, 1)", lambda t: t @ t.transpose(0, 2, 1)),
    "a batch with one matrix": ("t @ t[0].T", lambda t: t @ t[0].T),
    "a matrix and a vector": ("t[1] @ t[0, 1]", lambda t: t[1] @ t[0, 1]),
    "a vector and a matrix": ("t[:, 1, 0] @ t[:, 0]", lambda t: t[:, 1, 0] @ t[:, 0]),
    "two vectors": ("t[0, 0] @ t[1, 1]", lambda t: (t[0, 0] @ t[1, 1]).reshape(1)),
    "a batch and a vector": ("t @ t[0, 0]", lambda t: t @ t[0, 0]),
    "two batches": (
        "t.reshape(2, 1, 3, 4) @ t.transpose(0, 2, 1).reshape(1, 2, 4, 3)",
        lambda t: t.reshape(2, 1, 3, 4) @ t.transpose(0, 2, 1).reshape(1, 2, 4, 3),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_methods_of_tiles_match_numpy(name: str) -> None:
    expression, reference = FORMS[name]
    t = np.random.default_rng(3).integers(-9, 9, (2, 3, 4)).astype(np.float32)
    expected = np.asarray(reference(t), np.float32)
    text = f"""def kernel(a: tg.array3d[float], y: tg.array{expected.ndim}d[float]):
    t = tg.tile_load(a, shape=(2, 3, 4))
    tg.tile_store(y, {expression})
"""
    names = dict[str, Any](tg=tg)
    exec(text, names)
    kernel = tg.kernel(source=text)(names["kernel"])
    _, actual = agree(kernel, [tg.array(t), tg.zeros(expected.shape)], 1, 32, tiled=True)
    np.testing.assert_array_equal(actual, expected)


@tg.kernel
def bit_operators(a: tg.array1d[tg.vec2i], b: tg.array1d[tg.vec2i], y: tg.array2d[tg.vec2i]):
    t, s = tg.tile_load(a, shape=8), tg.tile_load(b, shape=8)
    tg.tile_store(y[0], t & s)
    tg.tile_store(y[1], t | s)
    tg.tile_store(y[2], t ^ s)
    tg.tile_store(y[3], t << (s & tg.vec2i(3, 3)))
    tg.tile_store(y[4], t >> (s & tg.vec2i(3, 3)))
    tg.tile_store(y[5], ~t)
    t &= s
    tg.tile_store(y[6], t)


def test_bit_operators_of_vector_tiles_match_numpy() -> None:
    a, b = (np.random.default_rng(k).integers(-99, 99, (8, 2), np.int32) for k in (1, 2))
    args = [tg.array(a, dtype=tg.vec2i), tg.array(b, dtype=tg.vec2i), tg.zeros((7, 8), dtype=tg.vec2i)]
    *_, result = agree(bit_operators, args, 1, 32, tiled=True)
    expected = [a & b, a | b, a ^ b, a << (b & 3), a >> (b & 3), ~a, a & b]
    np.testing.assert_array_equal(result, expected)


@tg.kernel
def dot_with_double(a: tg.array1d[tg.mat22], y: tg.array1d[float]):
    t = tg.tile_load(a, shape=5)
    tg.tile_store(y, tg.tile_dot(t, t + t))


def test_dot_of_matrix_tiles_matches_numpy() -> None:
    a = np.random.default_rng(1).integers(-9, 9, (5, 2, 2)).astype(np.float32)
    _, actual = agree(dot_with_double, [tg.array(a, dtype=tg.mat22), tg.zeros(1)], 1, 32, tiled=True)
    np.testing.assert_array_equal(actual, [2 * (a * a).sum()])
