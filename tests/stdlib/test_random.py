"""Random numbers, against the public algorithm in Python's integers, and the variables that draws advance."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.machine_code
WORD = (1 << 32) - 1


def pcg(s: int) -> int:
    b = (s * 747796405 + 2891336453) & WORD
    c = (((b >> ((b >> 28) + 4)) ^ b) * 277803737) & WORD
    return (c >> 22) ^ c


def init(seed: int, offset: int) -> int:
    return pcg((seed + pcg(offset)) & WORD)


def signed(x: int) -> int:
    return x - (1 << 32) if x >> 31 else x


def test_random_numbers_match_values_of_the_public_implementation() -> None:
    """Values of the public implementation."""

    @tg.kernel
    def kernel(integers: tg.array[tg.uint32], numbers: tg.array[float]):
        integers[0] = tg.rand_init(42)
        state = tg.rand_init(42, 7)
        integers[1] = state
        s = state
        integers[2] = tg.uint32(tg.randi(s))
        s = state
        integers[3] = tg.uint32(tg.randi(s, 0, 10))
        s = state
        numbers[0] = tg.randf(s)
        s = state
        numbers[1] = tg.randn(s)

    integers, numbers = tg.zeros(4, dtype=tg.uint32), tg.zeros(2)
    tg.launch(kernel, 1, inputs=[integers, numbers])
    assert integers.numpy().tolist() == [1223963391, 3115480925, 2122909397, 7]
    np.testing.assert_allclose(numbers.numpy(), [0.4942783, -0.5659789], rtol=1e-6)


def test_draws_advance_the_variable_on_every_path() -> None:
    """Draws advance the state in loops, in branches and in functions that take the state as InOut; a plain parameter is
    a copy."""

    @tg.func
    def twice(state: tg.InOut[tg.uint32]):
        return tg.randu(state) ^ tg.randu(state)

    @tg.func
    def draw_from_copy(state: tg.uint32):
        return tg.randu(state)

    @tg.kernel
    def kernel(out: tg.array2d[tg.uint32], low: tg.uint32):
        i = tg.tid()
        state = tg.rand_init(3, i)
        for k in range(4):
            if tg.randi(state, -5, 5) > 0:
                out[i, k] = tg.randu(state=state, low=low, high=tg.uint32(1000))
            else:
                out[i, k] = twice(state)
            out[i, k] += draw_from_copy(state)
        out[i, 4] = state

    out = tg.zeros((40, 5), dtype=tg.uint32)
    tg.launch(kernel, 40, inputs=[out, 17])
    expected = np.zeros((40, 5), np.int64)
    for i in range(40):
        s = init(3, i)
        for k in range(4):
            s = pcg(s)
            if signed(((s % 10) - 5) & WORD) > 0:
                s = pcg(s)
                x = s % 983 + 17
            else:
                first, s = pcg(s), pcg(pcg(s))
                x = first ^ s
            expected[i, k] = (x + pcg(s)) & WORD
        expected[i, 4] = s
    assert out.numpy().tolist() == expected.tolist()


def test_random_tiles_of_one_state_are_equal_for_any_block() -> None:
    @tg.kernel
    def kernel(full_tile: tg.array2d[int], short: tg.array2d[int], numbers: tg.array2d[float]):
        rng = tg.rand_init(42, 0)
        t = tg.tile_randi((37, 3), rng)
        tg.tile_store(full_tile, t - tg.tile_randi((37, 3), rng) + t)
        tg.tile_store(short, tg.tile_randi((37, 3), rng, min=-2, max=9))
        tg.tile_store(numbers, tg.tile_randf((37, 3), rng, -1.0, 3.0, storage="shared"))

    states = [pcg(pcg((init(42, 0) + e) & WORD)) for e in range(111)]
    assert [signed(s) for s in states[:4]] == [798497746, 1803297529, 1788185933, 1320194893]
    for block in (32, 128):
        full_tile, short = (tg.zeros((37, 3), dtype=int) for _ in range(2))
        numbers = tg.zeros((37, 3))
        tg.launch_tiled(kernel, 1, inputs=[full_tile, short, numbers], block_dim=block)
        assert full_tile.numpy().ravel().tolist() == [signed(s) for s in states]
        assert short.numpy().ravel().tolist() == [s % 11 - 2 for s in states]
        uniform = np.array([s >> 8 for s in states]) / 2.0**24
        np.testing.assert_allclose(numbers.numpy().ravel(), 4.0 * uniform - 1.0, atol=3e-7)


@pytest.mark.slow
def test_random_samples_have_their_range_and_mean() -> None:
    @tg.kernel
    def kernel(counts: tg.array2d[float], points: tg.array2d[tg.vec3], cdf: tg.array[float]):
        i = tg.tid()
        s = tg.rand_init(1, i)
        counts[i, 0] = float(tg.poisson(s, 3.0))
        counts[i, 1] = float(tg.poisson(s, 40.0))
        counts[i, 2] = tg.randn(s)
        counts[i, 3] = float(tg.sample_cdf(s, cdf))
        points[i, 0] = tg.sample_unit_sphere_surface(s)
        points[i, 1] = tg.sample_unit_hemisphere(s)
        points[i, 2] = tg.sample_unit_cube(s)
        disk, ring, corner = tg.sample_unit_disk(s), tg.sample_unit_ring(s), tg.sample_triangle(s)
        points[i, 3] = tg.vec3(tg.length(disk), tg.length(ring), corner[0] + corner[1])

    n = 4096
    counts, points = tg.zeros((n, 4)), tg.zeros((n, 4), dtype=tg.vec3)
    tg.launch(kernel, n, inputs=[counts, points, tg.array([0.25, 0.25, 1.0])])
    c, p = counts.numpy().astype(np.float64), points.numpy().astype(np.float64)
    assert (
        np.abs(c.mean(0) - [3.0, 40.0, 0.0, 1.5]).max() < 0.4 and np.abs(c.var(0)[:3] - [3, 40, 1]).max() < 4
    )
    assert set(c[:, 3]) == {0.0, 2.0}
    np.testing.assert_allclose(np.linalg.norm(p[:, 0], axis=1), 1.0, rtol=1e-6)
    assert np.abs(p[:, 0].mean(0)).max() < 0.05
    assert np.linalg.norm(p[:, 1], axis=1).max() <= 1.0 + 1e-6 and p[:, 1, 2].min() >= 0.0
    assert np.abs(p[:, 2]).max() <= 0.5 and np.abs(p[:, 2].mean(0)).max() < 0.03
    assert p[:, 3, 0].max() <= 1.0 + 1e-6 and p[:, 3, 2].max() <= 1.0 + 1e-6
    np.testing.assert_allclose(p[:, 3, 1], 1.0, rtol=1e-6)


def test_random_numbers_have_no_gradient_and_their_factors_do() -> None:
    @tg.kernel
    def kernel(x: tg.array[float], y: tg.array[float]):
        i = tg.tid()
        s = tg.rand_init(5, i)
        y[i] = tg.randf(s, x[i], 2.0 * x[i]) * x[i]

    x, y = tg.array([1.0, 2.0, 3.0], requires_grad=True), tg.zeros(3, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(kernel, 3, inputs=[x], outputs=[y])
    tape.backward(grads={y: np.ones(3, np.float32)})
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * y.numpy() / x.numpy(), rtol=1e-5)
