"""Functions that a tape calls, the graph of the recorded launches, and timing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tegula as tg

pytestmark = pytest.mark.usefixtures("unoptimised")


@tg.kernel
def squares(x: tg.array[float], y: tg.array[float]):
    i = tg.tid()
    y[i] = x[i] * x[i]


def tape_with_function() -> tuple[tg.Tape, tg.array, tg.array, tg.array]:
    """A tape that computes z = 5 x²; NumPy computes the factor 5 and its gradient."""
    x = tg.array([1.0, 2.0, 3.0], requires_grad=True)
    y, z = tg.zeros_like(x), tg.zeros_like(x)

    def times_5() -> None:
        assert y.grad is not None and z.grad is not None
        y.grad.assign(y.grad.numpy() + 5.0 * z.grad.numpy())

    with tg.Tape() as tape:
        tg.launch(squares, 3, [x], [y])
        z.assign(tg.array(5.0 * y.numpy()))
        tape.records.pop()  # the copy has no gradient
        tape.record_func(times_5, [y, z])
    return tape, x, y, z


@pytest.mark.machine_code
def test_a_function_is_called_between_adjoints() -> None:
    tape, x, y, z = tape_with_function()
    tape.backward(grads={z: np.ones(3, np.float32)})
    assert x.grad is not None and x.grad.numpy().tolist() == [10.0, 20.0, 30.0]
    assert set(tape.gradients) == {x, y, z}
    assert (
        tape.get_adjoint(x) is x.grad
        and tape.get_adjoint(tg.zeros(3)) is None
        and tape.get_adjoint(2.0) is None
    )
    tape.reset()
    assert tape.records == [] and not any(a.grad.numpy().any() for a in (x, y, z) if a.grad is not None)


def test_a_function_of_an_array_without_a_gradient_is_refused() -> None:
    with pytest.raises(RuntimeError, match="one of the arrays has no gradient"):
        tg.Tape().record_func(lambda: None, [tg.zeros(3)])


@pytest.mark.machine_code
def test_backward_takes_a_loss_together_with_gradients() -> None:
    x, y, loss = tg.array([1.0, 2.0], requires_grad=True), *(tg.zeros(n, requires_grad=True) for n in (2, 1))
    with tg.Tape() as tape:
        tg.launch(squares, 2, [x], [y])
        tg.launch(squares, 1, [x], [loss])
    tape.backward(loss, grads={y: np.array([10.0, 100.0], np.float32)})
    assert x.grad is not None and x.grad.numpy().tolist() == [2.0 + 20.0, 400.0]
    with pytest.raises(RuntimeError, match="one element"):
        tg.Tape().backward(tg.zeros(1, dtype=tg.vec3, requires_grad=True))


@pytest.mark.machine_code
def test_visualize_writes_the_graph_of_a_tape(tmp_path: Path) -> None:
    tape, x, _, z = tape_with_function()
    text = tape.visualize(str(tmp_path / "tape.dot"), array_labels={z: 'five "y"'}, graph_direction="TB")
    assert (tmp_path / "tape.dot").read_text() == text
    assert text.splitlines() == [
        "digraph tape {",
        "    rankdir=TB;",
        '    a0 [shape=ellipse, label="x", tooltip="float32[3] with a gradient"];',
        '    a1 [shape=ellipse, label="y", tooltip="float32[3] with a gradient"];',
        '    a2 [shape=ellipse, label="five \\"y\\"", tooltip="float32[3] with a gradient"];',
        '    r0 [shape=box, style=rounded, label="squares 3"];',
        "    a0 -> r0;",
        "    r0 -> a1;",
        '    r1 [shape=box, style=rounded, label="times_5"];',
        "    a1 -> r1 [dir=none, style=dashed];",
        "    a2 -> r1 [dir=none, style=dashed];",
        "}",
    ]
    assert "a0" not in tape.visualize(hide_readonly_arrays=True)
    assert '"in"' in tape.visualize(hide_readonly_arrays=True, track_inputs=[x], track_input_names=["in"])


@pytest.mark.cpu
def test_nested_timers_print_with_indentation(capsys: pytest.CaptureFixture[str]) -> None:
    times: dict[str, list[float]] = {}
    with tg.ScopedTimer("outer", dict=times, synchronize=True) as timer, tg.ScopedTimer("inner") as inner:
        inner.extra_msg = "and more"
    with tg.ScopedTimer("none", active=False, dict=times) as inactive_timer:
        pass
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" took ")[0] for line in lines] == ["    inner", "outer"]
    assert lines[0].endswith(" ms and more")
    assert (
        times == {"outer": [timer.elapsed], "none": []}
        and timer.elapsed >= inner.elapsed > inactive_timer.elapsed == 0.0
    )
