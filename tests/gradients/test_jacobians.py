"""Jacobians by adjoints and by finite differences, and the checks that compare both."""

from __future__ import annotations

import numpy as np
import pytest

import tegula as tg

pytestmark = [pytest.mark.usefixtures("unoptimised"), pytest.mark.machine_code]
D = tg.float64


@tg.kernel
def vectors(x: tg.array[tg.vec3d], s: D, a: tg.array[D], y: tg.array[D], z: tg.array[tg.vec2d]):
    i = tg.tid()
    y[i] = tg.dot(x[i], x[i]) * s * a[0]
    z[i] = tg.vec2d(x[i][0] * a[0], x[i][1])


@tg.kernel
def sines(p: tg.array[D], q: tg.array[D], o: tg.array[D]):
    i = tg.tid()
    o[i] = tg.sin(p[i]) * q[0]


@tg.kernel
def scaled(p: tg.array[D], o: tg.array[D]):
    i = tg.tid()
    o[i] = 2.0 * p[i]
    p[i] = 0.0


@tg.func
def square_with_wrong_gradient(x: D):
    return x * x


@tg.func_grad(square_with_wrong_gradient)
def wrong_gradient(x: D, adj_ret: D):
    tg.adjoint[x] += x * adj_ret


@tg.kernel
def wrong_squares(p: tg.array[D], o: tg.array[D]):
    i = tg.tid()
    o[i] = square_with_wrong_gradient(p[i])


def variable(*values: float) -> tg.array:
    return tg.array(np.array(values), requires_grad=True)


def arguments() -> tuple[list[object], list[tg.array], dict[tuple[int, int], np.ndarray]]:
    """Arguments of `vectors`, and its Jacobians from calculus."""
    x, s, a = np.random.default_rng(0).standard_normal((2, 3)), 2.0, 1.5
    y, z = tg.zeros(2, dtype=D, requires_grad=True), tg.zeros(2, dtype=tg.vec2d, requires_grad=True)
    y_x, z_x, z_a = np.zeros((2, 2, 3)), np.zeros((2, 2, 2, 3)), np.zeros((2, 2))
    for i in range(2):
        y_x[i, i] = 2 * x[i] * s * a
        z_x[i, 0, i, 0], z_x[i, 1, i, 1] = a, 1.0
        z_a[i] = x[i, 0], 0.0
    y_a = (x * x).sum(1)[:, None] * s
    expected = {(0, 0): y_x, (0, 1): z_x.reshape(4, 2, 3), (2, 0): y_a, (2, 1): z_a.reshape(4, 1)}
    return [tg.array(x, dtype=tg.vec3d, requires_grad=True), s, variable(a)], [y, z], expected


def test_jacobians_of_a_kernel_match_the_formula() -> None:
    inputs, outputs, expected = arguments()
    exact = tg.autograd.jacobian(vectors, 2, inputs, outputs)
    numeric = tg.autograd.jacobian_fd(vectors, 2, inputs, outputs, eps=1e-5)
    assert set(exact) == set(numeric) == set(expected)
    for pair, jacobian in expected.items():
        np.testing.assert_allclose(exact[pair].numpy(), jacobian, rtol=1e-14)
        np.testing.assert_allclose(numeric[pair].numpy(), jacobian, atol=1e-9)
    assert exact[0, 0].dtype == tg.vec3d and not outputs[0].numpy().any()


def test_jacobians_of_requested_pairs_and_components_are_returned() -> None:
    inputs, outputs, _ = arguments()
    assert set(tg.autograd.jacobian(vectors, 2, inputs, outputs, [("a", "z"), (0, 0)])) == {(2, 1), (0, 0)}
    with pytest.raises(RuntimeError, match="no argument 'b'"):
        tg.autograd.jacobian(vectors, 2, inputs, outputs, [("b", "z")])
    jacobian = tg.autograd.jacobian(vectors, 2, inputs, outputs, [("x", "z")], max_outputs_per_var=3)[
        0, 1
    ].numpy()
    assert np.isnan(jacobian[3]).all() and not np.isnan(jacobian[:3]).any()
    jacobian = tg.autograd.jacobian_fd(vectors, 2, inputs, outputs, [("x", "z")], max_inputs_per_var=4)[
        0, 1
    ].numpy()
    assert np.isnan(jacobian.reshape(4, 6)[:, 4:]).all() and not np.isnan(jacobian.reshape(4, 6)[:, :4]).any()


def test_jacobians_of_a_function_that_overwrites_its_input_are_correct() -> None:
    p = variable(0.5, -1.0)

    def scale_in_place(p: tg.array) -> tg.array:
        out = tg.zeros(2, dtype=D, requires_grad=True)
        tg.launch(scaled, 2, [p], [out])
        return out

    for jacobians in (
        tg.autograd.jacobian(scale_in_place, inputs=[p]),
        tg.autograd.jacobian_fd(scale_in_place, inputs=[p]),
    ):
        np.testing.assert_allclose(jacobians[0, 0].numpy(), 2 * np.eye(2), atol=1e-9)
        assert p.numpy().tolist() == [0.5, -1.0]
    tg.autograd.jacobian(scale_in_place, inputs=[p], restore_inputs=False)
    assert p.numpy().tolist() == [0.0, 0.0]


def test_jacobian_checks_find_a_wrong_adjoint(capsys: pytest.CaptureFixture[str]) -> None:
    p, o = variable(1.0, 2.0), tg.zeros(2, dtype=D, requires_grad=True)
    with pytest.raises(
        ValueError, match=r"derivative of 'o' by 'p' at \(1, 1\) is 2 by the adjoint, 4"
    ) as error:
        tg.autograd.gradcheck(wrong_squares, 2, [p], [o])
    assert isinstance(error.value, AssertionError)
    assert "FAILED" in capsys.readouterr().out
    assert not tg.autograd.gradcheck(wrong_squares, 2, [p], [o], raise_exception=False, show_summary=False)
    assert tg.autograd.gradcheck(sines, 2, [p, variable(3.0)], [o], show_summary=False)
    assert capsys.readouterr().out == ""


def test_jacobian_checks_cover_launches_on_a_tape() -> None:
    p, q, o, w = (
        variable(1.0, 2.0),
        variable(3.0),
        *(tg.zeros(2, dtype=D, requires_grad=True) for _ in range(2)),
    )
    with tg.Tape() as tape:
        tg.launch(sines, 2, [p, q], [o])
        tg.launch(wrong_squares, 2, [o], [w])
    options = {"raise_exception": False, "show_summary": False}
    assert not tg.autograd.gradcheck_tape(tape, **options)
    assert tg.autograd.gradcheck_tape(tape, blacklist_kernels=["wrong_squares"], **options)
    assert tg.autograd.gradcheck_tape(tape, whitelist_kernels=["sines"], **options)
    assert not tg.autograd.gradcheck_tape(tape, skip_to_launch_index=1, **options)
    assert tg.autograd.gradcheck_tape(tape, reverse_launches=True, skip_to_launch_index=1, **options)
