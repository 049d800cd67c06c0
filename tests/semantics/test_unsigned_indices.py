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
def sliced(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    out[0] = float(x[u[0] :].shape[0])
    out[1] = float(x[: u[0]].shape[0])


@tg.kernel
def gathered(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    t = tg.tile_load(x, 4)
    tg.tile_store(out, t[tg.tile_load(u, 4)])


@tg.kernel
def component(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    v = tg.vec4(x[0], x[1], x[2], x[3])
    out[0] = v[u[0]]
    v[u[0]] = 9.0
    out[1] = v[0] + v[1] + v[2] + v[3]


@tg.kernel
def loaded(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    tg.tile_store(out, tg.tile_load(x, 4, offset=u[0]))


@tg.kernel
def stored(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    tg.tile_store(out, tg.tile_load(x, 4), offset=u[0])


KERNELS = [sliced, gathered, component, loaded, stored]
EXPECTED = {"sliced": [0, 4, 0, 0], "gathered": [0, 2, 0, 0], "component": [4, 10, 0, 0]}
LARGE = [
    (tg.uint32, 2**31),
    (tg.uint32, 2**32 - 2),
    (tg.uint64, 2**64 - 1),
    (tg.uint64, 2**64 - 2),
    (tg.uint64, 2**63),
    (tg.uint64, 2**32 + 1),
    (tg.int64, 2**32 + 1),
    (tg.int64, 2**63 - 1),
]


def arguments(dtype: Any, number: int) -> list[tg.array]:
    numbers = np.array([number, 1, number, number], tg.zeros(1, dtype=dtype, device="cpu").numpy().dtype)
    return [tg.array(numbers), tg.array(np.arange(1, 5, dtype=np.float32)), tg.zeros(4)]


@pytest.mark.parametrize(("dtype", "number"), LARGE, ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_large_unsigned_indices_are_out_of_bounds(dtype: Any, number: int, kernel: Any) -> None:
    compiled = arguments(dtype, number)
    tg.launch_tiled(kernel, 1, inputs=compiled, block_dim=1)
    assert compiled[2].list() == EXPECTED.get(kernel.name, [0, 0, 0, 0])
    with tg.ScopedDevice("cpu"):
        plain = arguments(dtype, number)
    interpret(kernel, plain, (1, 1), 1)
    assert plain[2].list() == compiled[2].list()


@tg.kernel
def tile_element(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    t = tg.tile_load(x, 4)
    out[0] = t[u[0]]


@tg.kernel
def array_element(u: tg.array1d[Any], x: tg.array1d[float], out: tg.array1d[float]):
    out[0] = x[u[0]]


@pytest.mark.parametrize(("dtype", "number"), LARGE, ids=str)
@pytest.mark.parametrize("kernel", [tile_element, array_element], ids=lambda k: k.name)
def test_debug_mode_reports_unsigned_indices_out_of_bounds(
    dtype: Any, number: int, kernel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tg.config, "mode", "debug")
    with pytest.raises(tg.OutOfBounds):
        tg.launch_tiled(kernel, 1, inputs=arguments(dtype, number), block_dim=1)
        tg.synchronize()
    with tg.ScopedDevice("cpu"):
        plain = arguments(dtype, number)
    with pytest.raises(tg.OutOfBounds):
        interpret(kernel, plain, (1, 1), 1, debug=True)
