"""The arguments with which the driver encodes tensor maps for bulk copies."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from simulated_driver import SimulatedDriver

import tegula as tg
from tegula.runtime.cuda.context import context
from tegula.runtime.cuda.maps import EMPTY_ARRAY_BYTES, ArrayMap, TensorMaps


def encoded(driver: SimulatedDriver, x: tg.array, written: bool) -> tuple[int, list[int], list[int]]:
    """The address, the lengths and the strides of an array's map, the last dimension first."""
    requests: list[Any] = []
    driver.cuTensorMapEncodeTiled = lambda *arguments: requests.append(arguments) or 0
    expected = ArrayMap(0, len(x.packed), "float32", (8,) * x.ndim, 0, written)
    TensorMaps(context(0), 0, [expected]).with_maps(x.packed)
    ((_, _, rank, address, lengths, strides, *_),) = requests
    return address, list(lengths)[:rank], list(strides)[: rank - 1]


def test_tensor_maps_encode_address_shape_and_strides(simulated: SimulatedDriver) -> None:
    x = tg.zeros((3, 20, 8), device="cuda:0")
    assert x.description.access.bulk
    assert encoded(simulated, x, written=False) == (x.ptr, [8, 20, 3], [32, 640])


def test_tensor_maps_of_empty_arrays_are_valid(simulated: SimulatedDriver) -> None:
    """Copies from the array read zeros, and copies to it are dropped."""
    offsets: set[int] = set()
    for shape in ((0, 8), (16, 0), (4, 0, 3)):
        x = tg.zeros(shape, device="cuda:0")
        assert x.description.access.bulk and x.is_contiguous
        for written in (False, True):
            address, lengths, strides = encoded(simulated, x, written)
            assert set(lengths) == {1} and all(n % 16 == 0 for n in strides) and address % 16 == 0
            offsets.add(address)
    source, sink = sorted(offsets)
    assert sink - source == EMPTY_ARRAY_BYTES
    assert not np.frombuffer((ctypes.c_uint8 * EMPTY_ARRAY_BYTES).from_address(source), np.uint8).any()
