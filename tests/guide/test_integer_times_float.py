"""The guide's line that multiplies an integer thread index by a float is refused, with the cast that fixes it."""

import numpy as np
import pytest

import tegula as tg


@tg.kernel
def compute(out: tg.array[float]):
    i = tg.tid()
    x = i * 2.0 + tg.abs(float(i))
    t = tg.tile(x)
    tg.tile_store(out, t)


@tg.kernel
def fixed(out: tg.array[float]):
    i = tg.tid()
    x = float(i) * 2.0 + tg.abs(float(i))
    t = tg.tile(x)
    tg.tile_store(out, t)


def test_integer_times_float_is_refused_with_a_cast_as_remedy() -> None:
    with pytest.raises(tg.CompileError) as caught:
        tg.launch(compute, dim=8, inputs=[tg.zeros(8)], block_dim=8)
    text = str(caught.value)
    assert "x = i * 2.0" in text and "int32" in text and "float32" in text
    assert "float32(" in text or "float(" in text


@pytest.mark.machine_code
def test_integer_times_float_with_the_cast_matches_numpy() -> None:
    out = tg.zeros(8)
    tg.launch(fixed, dim=8, inputs=[out], block_dim=8)
    np.testing.assert_array_equal(out.numpy(), 3 * np.arange(8))
