"""Small vectors and matrices, against NumPy in float64, and their gradients against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled
from tegula.types import MatType, VecType, float16, float32, float64

pytestmark = pytest.mark.machine_code
D = float64
M2, M3, M4, V2, V3 = MatType(2, 2, D), MatType(3, 3, D), MatType(4, 4, D), VecType(2, D), VecType(3, D)
EPS = {float16: 2e-3, float32: 2e-6, float64: 2e-14}


def matrices(n: int, count: int) -> np.ndarray:
    """Random matrices, after singular matrices, matrices with equal singular values and of extreme scales."""
    a = np.random.default_rng(n).standard_normal((count, n, n))
    eye = np.eye(n)
    a[:6] = (
        0.0 * eye,
        eye,
        np.ones((n, n)),
        np.diag([*[0.0] * (n - 1), -2.0]),
        np.diag([2.0, *[1e-3] * (n - 1)]),
        -eye,
    )
    a[6, :, -1] = a[6, :, 0]
    return a


@sampled(3, "dtype", EPS)
def test_decompositions_of_small_matrices_match_numpy(dtype: Any) -> None:
    M, V, N, W = MatType(3, 3, dtype), VecType(3, dtype), MatType(2, 2, dtype), VecType(2, dtype)

    @tg.kernel
    def kernel(a, b, threes, s, twos, t):
        i = tg.tid()
        threes[i, 0], s[i, 0], threes[i, 1] = tg.svd3(a[i])
        q, r = a[i], a[i]
        tg.qr3(a[i], q, R=r)
        threes[i, 2], threes[i, 3] = q, r
        threes[i, 4], s[i, 1] = tg.eig3(a[i] + tg.transpose(a[i]))
        twos[i, 0], t[i], twos[i, 1] = tg.svd2(b[i])

    n = 64
    a, b = (tg.array(matrices(k, n), dtype=t) for k, t in ((3, M), (2, N)))
    threes, s = tg.zeros((n, 5), dtype=M), tg.zeros((n, 2), dtype=V)
    twos, t = tg.zeros((n, 2), dtype=N), tg.zeros(n, dtype=W)
    tg.launch(kernel, n, inputs=[a, b, threes, s, twos, t])
    A, B, F, S, G, T = (x.numpy().astype(np.float64) for x in (a, b, threes, s, twos, t))
    within = 16 * EPS[dtype]

    def close(x: Any, y: Any) -> None:
        np.testing.assert_allclose(x, y, atol=within)

    u, v, q, r, e = np.moveaxis(F, 1, 0)
    rotations = np.concatenate([u, v, q, e])
    close(rotations.transpose(0, 2, 1) @ rotations, np.broadcast_to(np.eye(3), rotations.shape))
    close(np.linalg.det(rotations), np.ones(4 * n))
    close(u @ (S[:, 0, :, None] * v.transpose(0, 2, 1)), A)
    close(np.abs(S[:, 0]), np.linalg.svd(A, compute_uv=False))
    assert (S[:, 0, :2] >= 0).all() and (np.sign(S[7:, 0, 2]) == np.sign(np.linalg.det(A[7:]))).all()
    close(q @ r, A)
    assert (np.tril(r, -1) == 0).all() and (r[:, 0, 0] >= 0).all() and (r[:, 1, 1] >= 0).all()
    close(e @ (S[:, 1, :, None] * e.transpose(0, 2, 1)), A + A.transpose(0, 2, 1))
    close(G[:, 0] @ (T[:, :, None] * G[:, 1].transpose(0, 2, 1)), B)
    close(T, np.linalg.svd(B, compute_uv=False))


@pytest.mark.parametrize("n", (2, 3, 4))
def test_inverses_and_determinants_match_numpy(n: int) -> None:
    M, V = MatType(n, n, D), VecType(2, D)

    @tg.kernel
    def kernel(a, b, d):
        i = tg.tid()
        b[i, 0], b[i, 1] = tg.inverse(a[i]), tg.inverse_approx(a[i]).T
        d[i] = tg.vector(tg.determinant(a[i]), tg.ddot(a[i], tg.diag(tg.get_diag(a[i]))))

    a = tg.array(matrices(n, 32), dtype=M)
    b, d = tg.zeros((32, 2), dtype=M), tg.zeros(32, dtype=V)
    tg.launch(kernel, 32, inputs=[a, b, d])
    A, B = a.numpy(), b.numpy()
    np.testing.assert_allclose(d.numpy()[:, 0], np.linalg.det(A), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(d.numpy()[:, 1], (np.diagonal(A, 0, 1, 2) ** 2).sum(1), rtol=1e-14)
    assert (B[:, 0] == B[:, 1].transpose(0, 2, 1)).all() and (B[[0, 2, 3]] == 0).all()
    np.testing.assert_allclose(B[7:, 0] @ A[7:], np.broadcast_to(np.eye(n), A[7:].shape), atol=1e-11)


@tg.kernel
def svd3_kernel(x: tg.array[M3], y: tg.array[D]):
    i = tg.tid()
    u, s, v = tg.svd3(x[i])
    w = u * tg.transpose(v)
    y[i] = w[0, 1] * 2.0 + w[2, 1] * w[1, 1] + s[0] * s[1] + s[2] * 3.0 + tg.dot(u[:, 0], v[:, 0])


@tg.kernel
def svd2_kernel(x: tg.array[M2], y: tg.array[D]):
    i = tg.tid()
    u, s, v = tg.svd2(x[i])
    w = u * tg.transpose(v)
    y[i] = w[0, 1] * 2.0 + w[1, 1] + s[0] * s[1] + s[1] * 3.0 + tg.dot(u[:, 0], v[:, 0])


@tg.kernel
def qr3_kernel(x: tg.array[M3], y: tg.array[D]):
    i = tg.tid()
    q, r = tg.qr3(x[i])
    y[i] = q[0, 1] * 2.0 + q[2, 1] * r[1, 1] + r[2, 2] * r[0, 1]


@tg.kernel
def eig3_kernel(x: tg.array[M3], y: tg.array[D]):
    i = tg.tid()
    q, d = tg.eig3(x[i] + tg.transpose(x[i]))
    w = tg.outer(q[:, 0], q[:, 0])
    y[i] = d[0] * d[1] + d[2] * 3.0 + w[0, 1] * 2.0 + w[1, 2]


@tg.kernel
def inverse3_kernel(x: tg.array[M3], y: tg.array[D]):
    i = tg.tid()
    m = tg.inverse(x[i] + tg.identity(3, dtype=D) * 5.0)
    y[i] = m[0, 1] + m[2, 2] * m[1, 0] + tg.determinant(x[i])


@tg.kernel
def inverse4_kernel(x: tg.array[M4], y: tg.array[D]):
    i = tg.tid()
    m = tg.inverse(x[i] + tg.identity(4, dtype=D) * 5.0)
    y[i] = m[0, 1] + m[2, 2] * m[1, 3] + tg.determinant(x[i])


@tg.kernel
def vector_kernel(x: tg.array[V3], y: tg.array[D]):
    i = tg.tid()
    v = x[i]
    m = tg.skew(v) + tg.diag(v)
    y[i] = tg.ddot(m, m * m.T) + tg.dot(tg.get_diag(m * m), v) + tg.min(v) + max(v) * v[0]
    y[i] += tg.matrix_from_cols(v, v * 2.0)[1, 1] + tg.matrix_from_rows(v, v * v[1])[1, 1]
    y[i] += tg.lerp(v[0], v[1], v[2]) + tg.lerp(v, v * v[0], 0.3)[1] + tg.smoothstep(-3.0, 3.0, v[0])
    y[i] += tg.frac(v[1]) * v[2] + (v % (v * 0.3))[1]
    y[i] += tg.norm_l1(v) + tg.norm_l2(v) * tg.norm_huber(v, 1.5) + tg.norm_pseudo_huber(v, 0.7)
    y[i] += tg.smooth_normalize(v)[1]


@sampled(
    3,
    "kernel, dtype",
    [
        *((svd3_kernel, M3), (svd2_kernel, M2), (qr3_kernel, M3), (eig3_kernel, M3)),
        *((inverse3_kernel, M3), (inverse4_kernel, M4), (vector_kernel, V3)),
    ],
)
def test_gradients_of_small_matrix_functions_agree_with_differences(kernel: Any, dtype: Any) -> None:
    shape = (dtype.length,) if isinstance(dtype, VecType) else (dtype.rows, dtype.cols)
    x = tg.array(np.random.default_rng(1).standard_normal((5, *shape)), dtype=dtype, requires_grad=True)
    tg.gradcheck(kernel, 5, [x], [tg.zeros(5, dtype=D, requires_grad=True)], block_dim=8)


@pytest.mark.slow
def test_equal_singular_values_have_finite_gradients() -> None:
    """Pairs of equal singular values count as fixed."""
    x = tg.array(np.eye(3)[None], dtype=M3, requires_grad=True)
    y = tg.zeros(1, dtype=D, requires_grad=True)
    with tg.Tape() as tape:
        tg.launch(svd3_kernel, 1, inputs=[x], outputs=[y])
    tape.backward(grads={y: np.ones(1)})
    np.testing.assert_allclose(x.grad.numpy()[0], np.diag([1.0, 1.0, 3.0]), atol=1e-12)


def test_extremes_of_vectors_and_operator_functions_match_numpy() -> None:
    @tg.kernel
    def kernel(out: tg.array[int], sorted: tg.array[float]):
        v = tg.vec4(tg.nan, 5.0, -2.0, 5.0)
        out[0], out[1] = int(tg.argmax(v)), int(tg.argmin(v))
        out[2], out[3] = int(tg.argmin(tg.vec2(tg.nan, tg.nan))), int(tg.max(v) - tg.min(v))
        w = tg.vec2i(5, -9)
        out[4], out[5] = (w << 2)[1], (w >> tg.vec2i(1, 2))[1]
        out[6], out[7] = tg.lshift(3, 4), tg.rshift(-9, 1)
        out[8], out[9] = tg.invert(7), int(tg.unot(0)) + int(tg.unot(out))
        out[10], out[11] = tg.mod(-7, 4), (w % tg.vec2i(3, 4))[1]
        out[12], out[13] = tg.step(-3), tg.nonzero(-3)
        out[14], out[15] = tg.lower_bound(sorted, 2.5), tg.lower_bound(sorted, 1, 2, 9.0)
        out[16] = tg.where(out, 1, 2)

    out = tg.zeros(17, dtype=int)
    tg.launch(kernel, 1, inputs=[out, tg.array([1.0, 2.0, 3.0])])
    assert out.numpy().tolist() == [1, 2, 0, 7, -36, -3, 48, -5, -8, 1, -3, -1, 1, 1, 2, 2, 1]


def test_failed_expectations_print_and_continue(capfd: pytest.CaptureFixture[str]) -> None:
    @tg.kernel
    def kernel(out: tg.array[int]):
        tg.expect_eq(tg.vec2(1.0, 2.0), tg.vec2(1.0, 2.0))
        tg.expect_near(1.0, 1.0 + 1e-7)
        tg.expect_eq(out[0], 1)
        tg.expect_neq(out[0], 0)
        tg.expect_near(tg.vec2(1.0, 2.0), tg.vec2(1.0, 3.0), 0.5)
        out[0] = 7

    out = tg.zeros(1, dtype=int)
    tg.launch(kernel, 1, inputs=[out])
    tg.synchronize()
    output = capfd.readouterr().out
    assert out.numpy()[0] == 7
    assert [line for line in output.splitlines() if line.startswith("Error")] == [
        *("Error, expect_eq() failed:", "Error, expect_neq() failed:"),
        "Error, expect_near() failed with tolerance 0.5 ",
    ]
