"""Loads whose columns are computed from the length of a row: bulk copies if the row of a packed array is a whole number
of 16-byte units."""

from __future__ import annotations

from typing import Any

import pytest
from role_rewriting import HOPPER

import tegula as tg
from tegula.ir import AccessClass, LaunchClass
from tegula.passes.pipeline import prepare
from tegula.runtime.automatic import build
from tegula.runtime.check import PACKED
from tegula.runtime.compile import trace
from tegula.runtime.description import _access
from tegula.types import ArrayType

S = 64
LAUNCH = LaunchClass(3, 128, (True, True, False), True, False)
PITCHED = AccessClass(align=64, contiguous=True, bulk=True)


@tg.kernel
def from_the_end(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[float]):
    i, j, _ = tg.tid()
    acc = tg.tile_zeros(shape=(S, S), dtype=float)
    for k in range(a.shape[1] - S, -1, -S):
        x = tg.tile_load(a, shape=(S, S), offset=(i * S, k))
        tg.tile_matmul(x, tg.tile_load(b, shape=(S, S), offset=(k, j * S)), acc)
    tg.tile_store(c, acc, offset=(i * S, j * S))


@tg.kernel
def second_half(a: tg.array2d[tg.bfloat16], b: tg.array2d[tg.bfloat16], c: tg.array2d[float]):
    i, j, _ = tg.tid()
    acc = tg.tile_zeros(shape=(S, S), dtype=float)
    for k in range(0, a.shape[1], S):
        x = tg.tile_load(a, shape=(S, S), offset=(i * S, k))
        tg.tile_matmul(x, tg.tile_load(b, shape=(S, S), offset=(k, b.shape[1] // 2 + j * S)), acc)
    tg.tile_store(c, acc, offset=(i * S, j * S))


def has_roles(kernel: Any, access: AccessClass) -> bool:
    half, single = ArrayType(tg.bfloat16, 2), ArrayType(tg.float32, 2)
    traced_kernel = trace(kernel, [half, half, single], LAUNCH, [access, access, PACKED])
    prepare(traced_kernel)
    return build(traced_kernel, HOPPER).schedule.plan is not None


@pytest.mark.parametrize("kernel", [from_the_end, second_half], ids=lambda k: k.definition.name)
def test_column_offsets_from_the_length_of_a_row_allow_bulk_copies(kernel: Any) -> None:
    assert has_roles(kernel, PACKED)
    assert not has_roles(kernel, PITCHED)
    assert not has_roles(kernel, AccessClass(align=16, contiguous=True, dense=True)), "no tensor map"


def test_half_rows_aligned_to_16_bytes_allow_no_bulk_copies() -> None:
    least = AccessClass(align=16, contiguous=True, dense=True, bulk=True)
    assert has_roles(from_the_end, least) and not has_roles(second_half, least)


@pytest.mark.parametrize(
    ("shape", "strides", "align"),
    [((4, 64), (128, 2), 64), ((1, 7), (128, 2), 2), ((1, 24), (128, 2), 16), ((0, 7), (128, 2), 2)],
)
def test_packed_arrays_are_aligned_like_their_rows(
    shape: tuple[int, ...], strides: tuple[int, ...], align: int
) -> None:
    actual = _access(2, shape, strides, 0)
    assert actual.dense and actual.align == align
