"""The kernels that copy memory of any strides: their elements run here on the CPU, their code is assembled for GPUs."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tegula.backend.llvm import compile_object, compile_ptx
from tegula.backend.loader import load
from tegula.backend.ptx import candidates, compile_cubin
from tegula.runtime.cuda.strided import ELEMENT, SIZES, arguments, fill_template, kernels_text
from tegula.target import CUDA_TARGETS, get_target

ENTRY = """
define void @run<SIZE>(ptr %args, i64 %flat) {
  call void @element<SIZE>(ptr %args, i64 %flat)
  ret void
}
"""
CODE = load(compile_object("".join(fill_template(ELEMENT + ENTRY, size) for size in SIZES), get_target()))
Run = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of views of one shape and dtype: steps, reversed and permuted dimensions, a broadcast source."""
    rank = draw(st.integers(1, 6))
    shape = tuple(draw(st.integers(1, 4)) for _ in range(rank))
    dtype = np.dtype(f"u{draw(st.sampled_from(SIZES))}")

    def view(data: np.ndarray) -> np.ndarray:
        return data[tuple(slice(None, None, draw(st.sampled_from((1, 2, -1)))) for _ in shape)][
            tuple(slice(0, n) for n in shape)
        ]

    order = draw(st.permutations(range(rank)))
    inverse_order = tuple(int(k) for k in np.argsort(order))
    base = tuple(2 * shape[k] for k in order)
    values = np.random.default_rng(0).integers(0, 256, base).astype(dtype)
    source = (
        view(values.transpose(inverse_order))
        if draw(st.booleans())
        else np.broadcast_to(values.flat[0], shape)
    )
    return view(np.zeros(base, dtype).transpose(inverse_order)), source


@given(pairs())
def test_strided_copies_match_numpy(pair: tuple[np.ndarray, np.ndarray]) -> None:
    target, source = pair
    assert target.shape == source.shape
    run = Run(CODE.address(f"run{target.itemsize}"))
    packed = arguments(target, source)
    for k in range(target.size):
        run(packed, k)
    np.testing.assert_array_equal(target, source)


@pytest.mark.parametrize("arch", CUDA_TARGETS)
def test_kernels_of_strided_copies_assemble_without_spills(arch: str) -> None:
    text = compile_ptx(kernels_text(), arch)
    assert all(f".entry copy{size}(" in text for size in SIZES)
    assert ".local" not in text and "call" not in text
    if candidates():  # without ptxas the driver compiles the kernels
        assert compile_cubin(text, arch).spill_bytes == 0
