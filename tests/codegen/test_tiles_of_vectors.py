"""Tiles of vectors and matrices, vectorised over elements on CPUs: at edges, in views, transposed, broadcast."""

from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled

pytestmark = pytest.mark.machine_code


@tg.func
def doubled(v: Any):
    return v + v


@tg.func
def last_component(v: Any):
    return v[1]


@tg.kernel
def layout_changes(x: tg.array2d[Any], y: tg.array2d[Any], z: tg.array2d[Any], w: tg.array2d[Any]):
    t = tg.tile_load(x, shape=(5, 37), offset=(1, 3))
    tg.tile_store(y, tg.tile_map(doubled, t), offset=(1, 3))
    tg.tile_store(z, tg.tile_transpose(tg.tile_map(doubled, t[1:4, ::2])))
    tg.tile_store(w, tg.tile_broadcast(t[:1, :], shape=(5, 37)) + t)


@tg.kernel
def components(x: tg.array2d[Any], y: tg.array2d[Any], total: tg.array1d[Any]):
    t = tg.tile_map(last_component, tg.tile_load(x, shape=(5, 37), offset=(1, 3)))
    tg.tile_store(y, t)
    tg.tile_store(total, tg.tile_sum(t))


KINDS = (tg.vec2f, tg.vec3f, tg.vec4d, tg.vec2h, tg.mat22f, tg.quatf, tg.vec3ub, tg.vector(5, tg.float32))


@pytest.mark.parametrize("kind", KINDS, ids=str)
@sampled(3, "rows, columns", [(7, 41), pytest.param(5, 33, marks=pytest.mark.slow)])
def test_tiles_of_vectors_match_numpy(kind: Any, rows: int, columns: int) -> None:
    empty = tg.zeros((rows, columns), dtype=kind).numpy()
    values = np.random.default_rng(0).integers(0, 60, empty.shape).astype(empty.dtype)
    x, y = tg.array(values, dtype=kind), tg.zeros((rows, columns), dtype=kind)
    z, w = tg.zeros((19, 3), dtype=kind), tg.zeros((5, 37), dtype=kind)
    tg.launch_tiled(layout_changes, dim=1, inputs=[x], outputs=[y, z, w], block_dim=32)
    window = values[1:6, 3:40]
    tile = np.zeros((5, 37, *values.shape[2:]), values.dtype)
    tile[: window.shape[0], : window.shape[1]] = window
    expected = np.zeros_like(values)
    expected[1:6, 3:40] = 2 * window
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(z.numpy(), 2 * np.swapaxes(tile[1:4, ::2], 0, 1))
    np.testing.assert_array_equal(w.numpy(), tile[:1] + tile)
    if values.ndim == 3:
        part = tg.array(values[..., 1])
        y, total = tg.zeros((5, 37), dtype=part.dtype), tg.zeros(1, dtype=part.dtype)
        tg.launch_tiled(components, dim=1, inputs=[x], outputs=[y, total], block_dim=32)
        np.testing.assert_array_equal(y.numpy(), tile[..., 1])
        assert total.numpy()[0] == tile[..., 1].sum(dtype=values.dtype if values.dtype.kind == "u" else None)


@tg.kernel
def transposed_copy(x: tg.array2d[Any], y: tg.array2d[Any]):
    t = tg.tile_load(x, shape=(11, 21))
    result = tg.tile_zeros(shape=(23, 11), dtype=x.dtype)
    tg.tile_assign(result, tg.tile_transpose(t), (2, 0))
    tg.tile_store(y, result)


@pytest.mark.parametrize("kind", [tg.vec2f, tg.vec2i, tg.vec2d, tg.vec2h, tg.float32], ids=str)
def test_transposed_copies_of_vectors_keep_all_bits(kind: Any) -> None:
    values = tg.zeros((11, 21), dtype=kind).numpy()
    values[...] = np.random.default_rng(0).integers(0, 1000, values.shape)
    if kind is tg.vec2f:
        values.view(np.uint32)[3, 5] = 0x7FA00001, 0x80000000
    y = tg.zeros((23, 11), dtype=kind)
    tg.launch_tiled(transposed_copy, dim=1, inputs=[tg.array(values, dtype=kind)], outputs=[y], block_dim=1)
    assert y.numpy()[2:].tobytes() == np.swapaxes(values, 0, 1).tobytes()
    assert not y.numpy()[:2].any()
