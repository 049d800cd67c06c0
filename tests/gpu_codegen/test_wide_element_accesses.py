"""Elements of 16 bytes and more of arrays in lane code: one access for each 16 bytes of an aligned array."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gpu_code import lowered

import tegula as tg
from tegula.backend.llvm import compile_ptx

EIGHT = tg.vector(8, float)


@tg.kernel
def doubled(a, out):
    i = tg.tid()
    out[i] = a[i] + a[i]


def accesses(a: Any) -> list[str]:
    """The loads and stores of elements of a kernel of an array and another such array."""
    text = compile_ptx(lowered(doubled, [a, tg.zeros(len(a), dtype=a.dtype)], (32,), 32).text, "sm_90a")
    return re.findall(r"\t((?:ld|st)\.global(?:\.nc)?(?:\.v\d)?\.\w+) ", text)


@pytest.mark.parametrize(
    ("dtype", "storage_kind", "number"),
    [(tg.vec4, "v4.b32", 1), (EIGHT, "v4.b32", 2), (tg.vec4d, "v2.b64", 2)],
)
def test_elements_of_aligned_arrays_are_accesses_of_16_bytes(
    dtype: Any, storage_kind: str, number: int
) -> None:
    actual = accesses(tg.zeros(32, dtype=dtype))
    assert sum(x.startswith("ld") and x.endswith(storage_kind) for x in actual) == number, actual
    assert sum(x.startswith("st") and x.endswith(storage_kind) for x in actual) == number, actual


def test_elements_of_other_arrays_are_accesses_of_their_scalars() -> None:
    unaligned = tg.array(np.zeros(33 * 4 + 1, np.float32)[1:].reshape(33, 4), dtype=tg.vec4, copy=False)
    for a in (unaligned, tg.zeros(64, dtype=tg.vec4)[::2], tg.zeros(32, dtype=tg.vec3)):
        assert not any(".v4" in x for x in accesses(a) if x.startswith("ld")), a.dtype
