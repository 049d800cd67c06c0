"""Vectors and matrices of one component, and slices of one element."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

SINGLE_COMPONENT = {"vector": "tg.vector(x[i])", "matrix": "tg.matrix(x[i], shape=(1, 1), dtype=float)"}


@pytest.mark.machine_code
@pytest.mark.parametrize("preserve", [False, True])
@pytest.mark.parametrize("kind", SINGLE_COMPONENT)
def test_tiles_of_vectors_with_one_component_are_correct(kind: str, preserve: bool) -> None:
    text = (
        "def kernel(x: tg.array1d[float], y: tg.array1d[float]):\n"
        "    i = tg.tid()\n"
        f"    t = tg.tile({SINGLE_COMPONENT[kind]}, preserve_type={preserve})\n"
        "    v = tg.untile(t + t)\n"
        f"    y[i] = v[{'0, 0' if kind == 'matrix' else '0'}]\n"
    )
    scope = {"tg": tg}
    exec(text, scope)
    x = np.arange(40, dtype=np.float32)
    actual = agree(tg.kernel(scope["kernel"], source=text), [tg.array(x), tg.zeros(40)], 40, 16)[1]
    np.testing.assert_array_equal(actual, 2 * x)


@pytest.mark.cpu
@pytest.mark.parametrize("line", ["u = t[::0]", "u = t[1:4:0]", "t[::0] = t", "u = t[0, ::0]"])
def test_slices_with_a_step_of_0_are_refused(line: str) -> None:
    text = f"def kernel(y: tg.array1d[float]):\n    t = tg.tile_zeros((8, 8), dtype=float)\n    {line}\n"
    scope = {"tg": tg}
    exec(text, scope)
    with pytest.raises(tg.CompileError, match="the step of a slice must not be 0"):
        tg.launch(tg.kernel(scope["kernel"], source=text), dim=1, inputs=[tg.zeros(4)])


@pytest.mark.machine_code
def test_matrices_and_vectors_are_built_of_parts() -> None:
    """Rows in the order of the parts; the entries of a matrix row by row."""

    @tg.kernel
    def parts(x: tg.array2d[float], stacked: tg.array2d[float], flat: tg.array2d[float]):
        i = tg.tid()
        v = tg.vector(x[i, 0], x[i, 1], x[i, 2], x[i, 3])
        m = tg.matrix(v, shape=(2, 2), dtype=float)
        rows = tg.matrix(m[::-1, :], tg.vector(v[3], v[2]), m, shape=(5, 2), dtype=float)
        joined = tg.vector(v[1:3], v[0], v[::-2])
        entries = tg.vector(rows[1:4, :], length=6)
        for k in range(10):
            stacked[i, k] = rows[k // 2, k % 2]
        for k in range(5):
            flat[i, k] = joined[k]
        for k in range(6):
            flat[i, k + 5] = entries[k]

    x = np.random.default_rng(1).standard_normal((40, 4)).astype(np.float32)
    _, stacked, flat = agree(parts, [tg.array(x), tg.zeros((40, 10)), tg.zeros((40, 11))], 40, 16)
    a, b, c, d = x.T
    np.testing.assert_array_equal(stacked, np.stack([c, d, a, b, d, c, a, b, c, d], 1))
    np.testing.assert_array_equal(flat, np.stack([b, c, a, d, b, a, b, d, c, a, b], 1))


@pytest.mark.machine_code
def test_gradients_of_parts_reach_their_components() -> None:
    @tg.kernel
    def combine(x: tg.array2d[float], y: tg.array1d[float]):
        i = tg.tid()
        v = tg.vector(x[i, 0], x[i, 1], x[i, 2])
        w = tg.vector(v[::-1], v[0] * v[1], v)
        y[i] = w[0] * w[5] + w[3] * w[6] + w[1]

    rng = np.random.default_rng(2)
    x = tg.array(rng.standard_normal((8, 3)).astype(np.float32), requires_grad=True)
    y = tg.zeros(8, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(combine, 8, [x], [y])
    tape.backward(grads={y: tg.ones(8)})
    a, b, c = x.numpy().T
    expected = np.stack([b * c, c + a * c + 1, b + a * b], 1)
    # w = (c, b, a, a * b, a, b, c), so that y = c * b + a * b * c + b.
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-5, atol=1e-6)
