"""Launch keys: the properties of arguments that launches depend on, without addresses and elements."""

from __future__ import annotations

import gc
import weakref

import ml_dtypes
import numpy as np
import pytest
from simulated_driver import SimulatedDriver

import tegula as tg


def key(x: object) -> object:
    """The key of one argument, which is hashable."""
    result = tg.launch_key(x)
    assert result is not None and {result: True}[result]
    return result


def test_arrays_of_equal_layout_have_one_key() -> None:
    a, b = tg.zeros((4, 6)), tg.ones((4, 6))
    assert key(a) == key(b) and tg.launch_key(a, b) == tg.launch_key(b, a)
    assert key(a[:, 2:4]) == key(b[:, 2:4])


def test_the_properties_in_the_launch_key_of_arrays() -> None:
    a = tg.zeros((4, 6))
    frozen = np.zeros((4, 6), np.float32)
    frozen.flags.writeable = False
    variants = [
        *(tg.zeros((4, 6), dtype=int), tg.zeros((6, 4)), tg.zeros(24), tg.zeros((4, 6), dtype=tg.vec3)),
        *(tg.zeros((6, 4)).transpose(), tg.zeros((8, 6))[::2], tg.zeros((5, 6))[1:], tg.zeros((4, 8))[:, :6]),
        *(tg.from_numpy(frozen), tg.zeros((4, 6), dtype=tg.bfloat16), tg.zeros((0, 6))),
    ]
    keys = [key(x) for x in (a, *variants)]
    assert len(set(keys)) == len(keys)


def test_launch_keys_depend_on_the_device(simulated: SimulatedDriver) -> None:
    keys = {key(tg.zeros((4, 6), device=device)) for device in ("cpu", "cuda:0", "cuda:1")}
    assert len(keys) == 3


def test_omitted_arguments_have_a_launch_key() -> None:
    a = tg.zeros(3)
    assert tg.launch_key(a, None) not in (None, tg.launch_key(a), tg.launch_key(a, a), tg.launch_key(None, a))


@pytest.mark.parametrize("value", [1, 2.0, "a", [1.0], np.zeros(3), ml_dtypes.bfloat16(1), ...])
def test_other_values_have_no_launch_key(value: object) -> None:
    assert tg.launch_key(tg.zeros(3), value) is None


def test_launch_keys_hold_no_memory() -> None:
    data = np.zeros((3, 5), np.float32)
    reference = weakref.ref(data)
    first_key = key(tg.array(data, copy=False))
    del data
    gc.collect()
    assert reference() is None and first_key is not None
