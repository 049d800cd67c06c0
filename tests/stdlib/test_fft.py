"""Fourier transforms of any length: errors against float64, linear and shifted inputs, refusals."""

from math import log2
from typing import Any

import numpy as np
import pytest

import tegula as tg
from support.campaigns import sampled
from tegula import errors as E
from tegula.stdlib.tiles.plans import exchanges_parts
from tegula.stdlib.tiles.roots import (
    SHARED_BYTES,
    factors,
    input_order,
    is_smooth,
    output_position,
    padded_length,
    radices_in_lanes,
    radices_of_threads,
)

LENGTHS = (1, 2, 3, 4, 6, 8, 11, 13, 16, 17, 25, 31, 43, 53, 60, 64, 97, 100, 128, 143, 240, 243, 289)
LONG_LENGTHS = (256, 343, 500, 512, 625, 1000, 1009, 1024, 1155, 1331, 2039, 2048, 2197, 3000, 4096, 8192)


def bound(n: int, dtype: Any) -> float:
    """The maximum error in the L2 norm, relative to the norm of the result."""
    per_stage = 0.2 if is_smooth(n) else 0.35
    return float(np.finfo(dtype).eps) * max(per_stage * log2(n) if n > 1 else 0.0, 1.0)


def transformed(x: np.ndarray, block_dim: int, inverse: bool = False, alone: bool = False) -> np.ndarray:
    """The transforms of the rows of an array of complex numbers, by one block; `alone`: by the program for kernels
    without another transform."""
    shape = x.shape

    @tg.kernel
    def transform(x: tg.array2d[Any], y: tg.array2d[Any]):
        t = tg.tile_load(x, shape=shape)
        if tg.static(alone):
            t = tg._tile_dft(t, inverse, True)
        elif tg.static(inverse):
            tg.tile_ifft(t)
        else:
            tg.tile_fft(t)
        tg.tile_store(y, t)

    y = tg.zeros(shape, dtype=tg.vec2f if x.dtype == np.complex64 else tg.vec2d)
    tg.launch_tiled(transform, dim=1, inputs=[tg.array(x)], outputs=[y], block_dim=block_dim)
    return y.numpy().astype(np.float64).view(np.complex128)[..., 0]


def check(n: int, dtype: Any, block_dim: int, rows: int, inverse: bool = False, alone: bool = False) -> None:
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((rows, n)) + 1j * rng.standard_normal((rows, n))).astype(dtype)
    extended = x.astype(np.clongdouble)
    expected = np.fft.ifft(extended, norm="forward") if inverse else np.fft.fft(extended)
    relative_error = np.linalg.norm(transformed(x, block_dim, inverse, alone) - expected) / np.linalg.norm(
        expected
    )
    assert relative_error <= bound(n, dtype), f"{relative_error / bound(n, dtype):.2f} of the bound"


@pytest.mark.machine_code
@sampled(3, "n", (12, 17, 64))
def test_errors_of_fourier_transforms_are_within_bounds(n: int) -> None:
    check(n, np.complex64, 32, 2)


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", (np.complex64, np.complex128))
@pytest.mark.parametrize("n", (*LENGTHS, *LONG_LENGTHS))
def test_errors_of_fourier_transforms_of_many_lengths_are_within_bounds(n: int, dtype: Any) -> None:
    block_dim = (8, 32, 33, 64, 96, 128, 1)[n % 7]
    check(n, dtype, block_dim, 1 + n % 3, inverse=n % 2 == 0)


IN_REGISTERS = ((64, 8, 64), (256, 4, 64), (512, 1, 64), (4096, 1, 256), (8192, 1, 256))


@pytest.mark.slow(every=2)
@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", (np.complex64, np.complex128))
@pytest.mark.parametrize(("n", "rows", "block_dim"), IN_REGISTERS)
def test_errors_of_transforms_whose_elements_stay_in_registers_are_within_bounds(
    n: int, rows: int, block_dim: int, dtype: Any
) -> None:
    assert exchanges_parts(n * rows, n, block_dim)
    check(n, dtype, block_dim, rows, inverse=n % 3 == 1, alone=True)


@pytest.mark.machine_code
def test_code_of_prime_radices_grows_linearly_on_cpus() -> None:
    """A butterfly of r elements has (r - 1)^2 multiplications, whose code is a loop over pairs of results."""
    lines = {n: len(transform_kernel(n).llvm().splitlines()) for n in (17, 41)}
    assert lines[41] < 41 / 17 * lines[17]


def transform_kernel(n: int) -> Any:
    """A kernel that has transformed a row of n elements."""

    @tg.kernel
    def transform(x: tg.array[tg.vec2f], y: tg.array[tg.vec2f]):
        t = tg.tile_load(x, shape=n)
        tg.tile_fft(t)
        tg.tile_store(y, t)

    x, y = (tg.zeros(n, dtype=tg.vec2f) for _ in range(2))
    tg.launch_tiled(transform, dim=1, inputs=[x], outputs=[y], block_dim=8)
    return transform


@pytest.mark.machine_code
def test_threads_with_four_elements_take_larger_butterflies_between_the_first_and_the_last_stage() -> None:
    assert radices_of_threads(128, 4) == (4, 8, 4)
    check(128, np.complex64, 64, 2, alone=True)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("n", "expected"), [(32, (8, 4)), pytest.param(128, (8, 16), marks=pytest.mark.slow)]
)
def test_the_largest_radices_of_rows_in_lanes_are_last(n: int, expected: tuple[int, ...]) -> None:
    assert radices_in_lanes(n) == expected
    check(n, np.complex64, 8, 16)


def test_radices_of_rows_in_lanes_are_factors_of_the_length() -> None:
    for n in (1, 15, 16, 17, 225, 272, 1500, 4096, 8192):
        radices = radices_in_lanes(n)
        assert np.prod(radices, dtype=int) == n
        assert 16 not in radices[:-1]


def test_coprime_factors_of_a_butterfly_need_no_twiddle_factors() -> None:
    for r in (6, 10, 12, 14, 15):
        f, g = factors(r)
        k = np.arange(r)
        x = (k**2 % 7 + 1j * k)[input_order(r)].reshape(f, g)
        assert np.allclose(np.fft.fft2(x).ravel()[output_position(r)], np.fft.fft(k**2 % 7 + 1j * k))


def test_padded_lengths_fit_the_shared_memory_if_any_length_fits() -> None:
    for n in (*range(67, 13825, 61), 13823):
        for place_bytes in (8, 16, 24):
            length = padded_length(n, True, place_bytes)
            assert length >= 2 * n - 1 and is_smooth(length, (2, 3, 5))
            assert (
                length * place_bytes <= SHARED_BYTES or (2 * n - 1) * place_bytes * 9 // 8 > SHARED_BYTES
            ), n


def test_fourier_transforms_of_lengths_without_tables_are_refused() -> None:
    with pytest.raises(
        E.OutOfRange, match="a transform of length 65537, by transforms of length 131220, exceeds the limit"
    ):
        transformed(np.ones((1, 65537), np.complex64), 32)
