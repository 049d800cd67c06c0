"""Vectors and matrices of one component, and slices of one element."""

import numpy as np
import pytest
from agreement import agree

import tegula as tg

ONE = {"vector": "tg.vector(x[i])", "matrix": "tg.matrix(x[i], shape=(1, 1), dtype=float)"}


@pytest.mark.machine_code
@pytest.mark.parametrize("preserve", [False, True])
@pytest.mark.parametrize("kind", ONE)
def test_tiles_of_vectors_with_one_component_are_correct(kind: str, preserve: bool) -> None:
    text = (
        "def kernel(x: tg.array1d[float], y: tg.array1d[float]):\n"
        "    i = tg.tid()\n"
        f"    t = tg.tile({ONE[kind]}, preserve_type={preserve})\n"
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
