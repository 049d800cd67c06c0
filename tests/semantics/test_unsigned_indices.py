"""The section "Indices" of the semantics: an unsigned index is never negative, however large; int64 indices are not
truncated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from agreement import interpret

import tegula as tg

pytestmark = pytest.mark.machine_code


@tg.kernel
def slice_array(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    out[0] = float(x[u[0] :].shape[0])
    out[1] = float(x[: u[0]].shape[0])


@tg.kernel
def gather_elements(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    t = tg.tile_load(x, 4)
    tg.tile_store(out, t[tg.tile_load(u, 4)])


@tg.kernel
def vector_component(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    v = tg.vec4(x[0], x[1], x[2], x[3])
    out[0] = v[u[0]]
    v[u[0]] = 9.0
    out[1] = v[0] + v[1] + v[2] + v[3]


@tg.kernel
def load_tile(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    tg.tile_store(out, tg.tile_load(x, 4, offset=u[0]))


@tg.kernel
def store_tile(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    tg.tile_store(out, tg.tile_load(x, 4), offset=u[0])


KERNELS = [slice_array, gather_elements, vector_component, load_tile, store_tile]
EXPECTED = {"slice_array": [0, 4, 0, 0], "gather_elements": [0, 2, 0, 0], "vector_component": [4, 10, 0, 0]}
OUT_OF_BOUNDS_INDICES = [
    (tg.uint32, 2**31),
    (tg.uint32, 2**32 - 2),
    (tg.uint64, 2**64 - 1),
    (tg.uint64, 2**64 - 2),
    (tg.uint64, 2**63),
    (tg.uint64, 2**32 + 1),
    (tg.int64, 2**32 + 1),
    (tg.int64, 2**63 - 1),
]


def arguments(dtype: Any, index: int) -> list[tg.array]:
    indices = np.array([index, 1, index, index], tg.zeros(1, dtype=dtype, device="cpu").numpy().dtype)
    return [tg.array(indices), tg.array(np.arange(1, 5, dtype=np.float32)), tg.zeros(4)]


@pytest.mark.parametrize(("dtype", "index"), OUT_OF_BOUNDS_INDICES, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_large_unsigned_indices_are_out_of_bounds(dtype: Any, index: int, kernel: Any) -> None:
    compiled_args = arguments(dtype, index)
    tg.launch_tiled(kernel, 1, inputs=compiled_args, block_dim=1)
    assert compiled_args[2].list() == EXPECTED.get(kernel.name, [0, 0, 0, 0])
    with tg.ScopedDevice("cpu"):
        interpreted_args = arguments(dtype, index)
    interpret(kernel, interpreted_args, (1, 1), 1)
    assert interpreted_args[2].list() == compiled_args[2].list()


@tg.kernel
def tile_element(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    t = tg.tile_load(x, 4)
    out[0] = t[u[0]]


@tg.kernel
def array_element(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    out[0] = x[u[0]]


@pytest.mark.parametrize(("dtype", "index"), OUT_OF_BOUNDS_INDICES, ids=str)
@pytest.mark.parametrize("kernel", [tile_element, array_element], ids=lambda k: k.name)
def test_debug_mode_reports_unsigned_indices_out_of_bounds(
    dtype: Any, index: int, kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tg.config, "mode", "debug")
    with pytest.raises(tg.OutOfBounds):
        tg.launch_tiled(kernel, 1, inputs=arguments(dtype, index), block_dim=1)
        tg.synchronize()
    with tg.ScopedDevice("cpu"):
        interpreted_args = arguments(dtype, index)
    with pytest.raises(tg.OutOfBounds):
        interpret(kernel, interpreted_args, (1, 1), 1, debug=True)
