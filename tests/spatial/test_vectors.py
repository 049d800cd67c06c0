"""Comparisons of vectors, component by component, and the bits of vectors of bools."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import tegula as tg
from spatial.meshes import mesh_of, sphere, vectors
from tegula.runtime.compile import Compiled

pytestmark = pytest.mark.machine_code
EIGHT = tg.vector(8, float)


@tg.kernel
def compared(a: tg.array1d[EIGHT], b: tg.array1d[EIGHT], out: tg.array2d[tg.uint32]):
    i = tg.tid()
    x, y = a[i], b[i]
    out[i, 0] = tg._bits(tg._each_below(x, y))
    out[i, 1] = tg._bits(tg._each_within(x, y))
    out[i, 2] = tg._bits(tg._each_below(tg._smaller_of_each(x, y), tg._larger_of_each(x, y)))


@tg.kernel
def cast(mesh: tg.Mesh, start: tg.array1d[tg.vec3], dir: tg.array1d[tg.vec3], out: tg.array1d[float]):
    i = tg.tid()
    out[i] = tg.mesh_query_ray(mesh, start[i], dir[i], tg.inf).t


def packed(flags: np.ndarray) -> np.ndarray:
    return np.packbits(flags, axis=1, bitorder="little")[:, 0].astype(np.uint32)


@pytest.mark.parametrize("block_dim", [1, 64])
def test_wide_vectors_have_the_bits_of_their_components(block_dim: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (70, 8)).astype(np.float32) for _ in range(2))
    a[rng.random(a.shape) < 0.1] = np.nan
    out = tg.zeros((70, 3), dtype=tg.uint32)
    tg.launch(compared, 70, [tg.array(a, dtype=EIGHT), tg.array(b, dtype=EIGHT)], [out], block_dim=block_dim)
    larger, smaller = np.where(a > b, a, b), np.where(a < b, a, b)
    expected = np.stack([packed(a < b), packed(a <= b), packed(smaller < larger)], 1)
    np.testing.assert_array_equal(out.numpy(), expected)


@pytest.mark.parametrize("count", [8, 16])
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.int16, marks=pytest.mark.slow)])
def test_arrays_of_wide_vectors_are_read_and_written(count: int, dtype: Any) -> None:
    """Each block is one lane, which has the vector in one register on CPUs."""

    @tg.kernel
    def reversed_sums(a, b, out):
        i = tg.tid()
        x, y = a[i], b[1, i]
        result = x + y
        for k in tg.static(range(count)):
            result[k] = x[count - 1 - k] + y[k]
        out[i] = result

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-100, 100, shape).astype(dtype) for shape in ((5, count), (2, 5, count)))
    wide = tg.vector(count, getattr(tg, np.dtype(dtype).name))
    out = tg.zeros(5, dtype=wide)
    tg.launch(reversed_sums, 5, [tg.array(a, dtype=wide), tg.array(b, dtype=wide)], [out], block_dim=1)
    np.testing.assert_array_equal(out.numpy(), a[:, ::-1] + b[1])


@pytest.mark.cpu
def test_components_of_two_vectors_are_one_shuffle() -> None:
    """A vector of components of up to two vectors is one shuffle, whose other components are inserted."""
    wide = tg.vector(16, float)

    @tg.kernel
    def mixed(a, b, c, ends, out):
        # Blocks with loops of different lengths do not run in the lanes of vector registers.
        for i in range(ends[tg.tid()]):
            x, y, z = a[i], b[i], c[i]
            even = EIGHT(x[0], y[0], x[2], y[2], x[4], y[4], x[6], y[6])
            out[i, 0] = EIGHT(even[7], even[0], even[6], even[1], even[5], even[2], even[4], even[3])
            out[i, 1] = EIGHT(x[7], z[15], x[1], z[8], 3.0, x[1], z[0], x[0] * x[1])
            out[i, 2] = EIGHT(x[0], y[1], z[2], x[3], y[4], z[13], x[6], 0.5)

    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((5, n)).astype(np.float32) for n in (8, 8, 16))
    out = tg.zeros((5, 3), dtype=EIGHT)
    inputs = [tg.array(a, dtype=EIGHT), tg.array(b, dtype=EIGHT), tg.array(c, dtype=wide)]
    tg.launch(mixed, 1, [*inputs, tg.array([5], dtype=int)], [out], block_dim=1)
    even = np.stack([a[:, ::2], b[:, ::2]], 2).reshape(5, 8)
    three, half = np.full(5, 3.0, np.float32), np.full(5, 0.5, np.float32)
    columns = [a[:, 7], c[:, 15], a[:, 1], c[:, 8], three, a[:, 1], c[:, 0], a[:, 0] * a[:, 1]]
    spread = [a[:, 0], b[:, 1], c[:, 2], a[:, 3], b[:, 4], c[:, 13], a[:, 6], half]
    expected = [even[:, [7, 0, 6, 1, 5, 2, 4, 3]], np.stack(columns, 1), np.stack(spread, 1)]
    np.testing.assert_array_equal(out.numpy(), np.stack(expected, 1))
    for positions in ([0, 8, 2, 10, 4, 12, 6, 14], [7, 0, 6, 1, 5, 2, 4, 3]):
        assert f"<8 x i32> <{', '.join(f'i32 {k}' for k in positions)}>" in mixed.llvm()


@pytest.mark.cpu
def test_a_mesh_that_only_the_launch_holds_lives_until_the_kernel_has_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[str] = []
    run = Compiled.launch

    def launched(*args: Any) -> None:
        events.append("launched")
        run(*args)

    def new_mesh() -> tg.Mesh:
        mesh = mesh_of(*sphere(1))
        weakref.finalize(mesh, events.append, "deleted")
        return mesh

    v, mesh = vectors(np.ones((8, 3))), new_mesh()
    monkeypatch.setattr(Compiled, "launch", launched)
    arguments = [mesh, v, v]
    del mesh
    tg.launch(cast, 8, [arguments.pop(0), *arguments], [tg.zeros(8)])
    assert events == ["launched", "deleted"]


@pytest.mark.cpu
def test_boxes_are_tested_with_vector_instructions() -> None:
    v = vectors(np.ones((8, 3)))
    tg.launch(cast, 8, [mesh_of(*sphere(1)), v, v], [tg.zeros(8)])
    text = cast.llvm()
    assert "fcmp ole <8 x float>" in text and "bitcast <8 x i1>" in text
