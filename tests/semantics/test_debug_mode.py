"""The errors that debug mode reports are equal in the interpreter and in compiled kernels."""

from __future__ import annotations

import pytest
from agreement import interpret

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def lane_division(a: tg.array[int], b: tg.array[int], out: tg.array[int]):
    i = tg.tid()
    out[i] = a[i] // b[i]


@tg.kernel
def guarded_remainder(a: tg.array[int], b: tg.array[int], out: tg.array[int]):
    i = tg.tid()
    if b[i] != 0:
        out[i] = a[i] % b[i]


@tg.kernel
def selected_division(a: tg.array[int], b: tg.array[int], out: tg.array[int]):
    i = tg.tid()
    out[i] = tg.where(b[i] == 0, 5, a[i] / b[i])


@tg.kernel
def tile_division(a: tg.array[int], b: tg.array[int], out: tg.array[int]):
    tg.tile_store(out, tg.tile_load(a, 4) / tg.tile_load(b, 4))


@tg.kernel
def float_division(a: tg.array[int], b: tg.array[int], out: tg.array[int]):
    i = tg.tid()
    out[i] = int(float(a[i]) / float(b[i]))


@tg.kernel
def broken_uniform(a: tg.array[int], b: tg.array[int], out: tg.array[int]):
    i = tg.tid()
    n = tg.uniform(b[i])
    total = 0
    for _ in range(n):
        total += tg.tile_sum(tg.tile(a[i]))[0]
    out[i] = total


@tg.kernel
def uniform_vectors(a: tg.array[int], b: tg.array[int], out: tg.array[int]):
    i = tg.tid()
    v = tg.uniform(tg.vec2(float(b[i]), 1.0))
    out[i] = int(v[0])


@tg.kernel
def gather(a: tg.array[int], b: tg.array[int], out: tg.array[int]):
    t = tg.tile_load(a, 4)
    tg.tile_store(out, t[tg.tile_load(b, 4)])


@tg.kernel
def dynamic_step(a: tg.array[int], b: tg.array[int], out: tg.array[int]):
    i = tg.tid()
    total = 0
    for k in range(0, 4, b[i]):
        total += k + 1
    out[i] = total


WITH_ZERO, ONES, NONZERO = [1, 0, 2, 9], [1, 1, 1, 1], [-1, -4, -5, 3]
DETECTED_ERRORS = [
    (lane_division, WITH_ZERO, tg.DivisionByZero),
    (guarded_remainder, WITH_ZERO, None),
    (selected_division, WITH_ZERO, tg.DivisionByZero),
    (tile_division, WITH_ZERO, tg.DivisionByZero),
    (float_division, WITH_ZERO, None),
    (lane_division, NONZERO, None),
    (tile_division, NONZERO, None),
    (broken_uniform, WITH_ZERO, tg.BrokenPromise),
    (broken_uniform, ONES, None),
    (uniform_vectors, NONZERO, tg.BrokenPromise),
    (uniform_vectors, ONES, None),
    (gather, NONZERO, None),
    (gather, WITH_ZERO, None),
    (dynamic_step, WITH_ZERO, tg.KernelAssertion),
    (dynamic_step, NONZERO, None),
]


def outcome(run, a, device=None):
    """The class of the error, and the output array, on the current device by default."""
    out = tg.zeros(4, dtype=int, device=device)
    arrays = [tg.array(values, dtype=int, device=device) for values in ([8, 9, 10, 11], a)]
    try:
        run([*arrays, out])
        tg.synchronize()
    except tg.RunError as error:
        return type(error), out.list()
    return None, out.list()


@pytest.mark.parametrize(
    ("kernel", "b", "error"), DETECTED_ERRORS, ids=lambda x: getattr(x, "name", None) or str(x)
)
def test_debug_mode_reports_equal_errors_in_interpreter_and_compiled_kernel(kernel, b, error, monkeypatch):
    def launch(args):
        tg.launch(kernel, 4, inputs=args, block_dim=4)

    def interpreted(debug):
        return outcome(lambda args: interpret(kernel, args, (4,), 4, debug), b, "cpu")

    monkeypatch.setattr(tg.config, "mode", "debug")
    compiled = outcome(launch, b)
    assert compiled == interpreted(debug=True)
    assert compiled[0] is error
    monkeypatch.setattr(tg.config, "mode", "release")
    released = outcome(launch, b)
    assert released == interpreted(debug=False)
    assert released == (error if error is tg.KernelAssertion else None, compiled[1])


def test_debug_mode_does_not_compare_absent_threads(monkeypatch):
    monkeypatch.setattr(tg.config, "mode", "debug")
    for launch, device in (
        (lambda args: tg.launch(broken_uniform, 3, inputs=args, block_dim=4), None),
        (lambda args: interpret(broken_uniform, args, (3,), 4, debug=True), "cpu"),
    ):
        assert outcome(launch, [2, 2, 2, 7], device) == (None, [54, 54, 54, 0])


def test_errors_of_debug_mode_name_the_line_and_the_thread(monkeypatch):
    monkeypatch.setattr(tg.config, "mode", "debug")
    with pytest.raises(tg.BrokenPromise, match=r"in block 0, thread 1 of kernel broken_uniform") as raised:
        arrays = [tg.ones(4, dtype=int), tg.array(WITH_ZERO, dtype=int), tg.zeros(4, dtype=int)]
        tg.launch(broken_uniform, 4, inputs=arrays, block_dim=4)
        tg.synchronize()
    assert "n = tg.uniform(b[i])" in str(raised.value)


@tg.kernel
def varying_tile_operands(a: tg.array[int], out: tg.array[int]):
    """Operands of tile functions that differ between threads: the values of thread 0 are used."""
    i = tg.tid()
    tg.tile_store(out[i:], tg.tile_load(a[i:], shape=2, offset=i))


def test_debug_mode_does_not_compare_group_operands(monkeypatch):
    monkeypatch.setattr(tg.config, "mode", "debug")
    a, out = tg.array([5, 6, 7, 8], dtype=int), tg.zeros(4, dtype=int)
    tg.launch(varying_tile_operands, 4, inputs=[a, out], block_dim=4)
    assert out.list() == [5, 6, 0, 0]


@tg.kernel
def component_read(x: tg.array2d[float], c: int, out: tg.array[float]):
    i = tg.tid()
    t = tg.tile(tg.vec3(x[i, 0], x[i, 1], x[i, 2]), preserve_type=True)
    out[i] = t[i, c]


@tg.kernel
def component_write(x: tg.array2d[float], c: int, out: tg.array[float]):
    i = tg.tid()
    t = tg.tile_zeros(4, dtype=tg.vec3, storage="shared")
    t[i, c] = x[i, 0]
    out[i] = t[i, 0] + t[i, 1] + t[i, 2]


@tg.kernel
def row_read(x: tg.array2d[float], c: int, out: tg.array[float]):
    i = tg.tid()
    t = tg.tile_zeros(4, dtype=tg.mat22, storage="shared")
    row = t[i, c]
    out[i] = row[0] + x[i, 0]


@pytest.mark.parametrize("kernel", [component_read, component_write, row_read], ids=lambda k: k.name)
@pytest.mark.parametrize("c", [0, -1, 3, 1_000_000, -4])
def test_debug_mode_reports_components_out_of_bounds(kernel, c: int, monkeypatch):
    monkeypatch.setattr(tg.config, "mode", "debug")
    x, out = tg.ones((4, 3)), tg.zeros(4)
    if c in (0, -1):
        tg.launch(kernel, dim=4, inputs=[x, c], outputs=[out], block_dim=4)
        assert out.numpy().tolist() == [1.0] * 4
        return
    with pytest.raises(tg.OutOfBounds, match=r"index \(\d, -?\d+\) is outside .* of shape \(4, [23]"):
        tg.launch(kernel, dim=4, inputs=[x, c], outputs=[out], block_dim=4)
        tg.synchronize()
    with tg.ScopedDevice("cpu"), pytest.raises(tg.OutOfBounds):
        interpret(kernel, [tg.ones((4, 3)), c, tg.zeros(4)], (4,), 4, debug=True)
