"""Fourier transforms of arrays with any batch: results of generated lengths, gradients, refusals."""

import math
from typing import Any

import numpy as np
import pytest

import tegula as tg
from tegula import kernels
from tegula.kernels import fourier

SHAPES = ((12,), (5, 8), (2, 3, 10), (4, 256))
RNG = np.random.default_rng(4)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)


def as_complex(x: Any) -> np.ndarray:
    """An array of pairs as complex numbers."""
    return x.numpy().view(np.complex128)[..., 0]


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


def check(shape: tuple[int, ...]) -> None:
    x, n = numbers(*shape), shape[-1]
    assert_close(as_complex(kernels.fft(x)), np.fft.fft(x))
    assert_close(as_complex(kernels.ifft(x)), np.fft.ifft(x))
    assert_close(as_complex(kernels.rfft(x.real)), np.fft.rfft(x.real))
    assert_close(kernels.irfft(x[..., : n // 2 + 1], n).numpy(), np.fft.irfft(x[..., : n // 2 + 1], n))


@pytest.mark.machine_code
@pytest.mark.parametrize("shape", SHAPES[1:2])
def test_fourier_transforms_match_numpy(shape: tuple[int, ...]) -> None:
    check(shape)


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.parametrize("shape", [*SHAPES, *((int(n), int(m)) for m, n in RNG.integers(1, 300, (12, 2)))])
def test_fourier_transforms_of_generated_lengths_match_numpy(shape: tuple[int, ...]) -> None:
    check(shape)


@pytest.mark.slow
@pytest.mark.machine_code
def test_fourier_transforms_take_any_strides() -> None:
    x = numbers(6, 4, 5)
    assert_close(as_complex(kernels.fft(tg.array(x).transpose((2, 1, 0)))), np.fft.fft(x.transpose(2, 1, 0)))


@pytest.mark.machine_code
@pytest.mark.parametrize("rows", [8, 16, 24, 25])
def test_fourier_transforms_of_whole_blocks_match_numpy(rows: int) -> None:
    """Blocks of batches that are a multiple of a block's rows do not check bounds."""
    x = numbers(rows, 4)
    assert_close(as_complex(kernels.fft(x)), np.fft.fft(x))


@pytest.mark.machine_code
@pytest.mark.parametrize("n", [60, pytest.param(67, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [np.complex64, pytest.param(np.complex128, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["fft", "ifft"])
def test_fourier_transforms_of_many_rows_match_numpy(dtype: Any, n: int, name: str) -> None:
    x = numbers(37, n).astype(dtype)
    result = getattr(kernels, name)(x).numpy().view(dtype)[..., 0]
    expected = getattr(np.fft, name)(x.astype(np.complex128))
    assert np.linalg.norm(result - expected) < 4 * np.finfo(dtype).eps * np.linalg.norm(expected)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("radices", "shape"),
    [
        ((5, 4), ()),
        pytest.param((2, 3, 4), (3,), marks=pytest.mark.slow),
        pytest.param((5, 5, 8, 5), (2, 3), marks=pytest.mark.slow),
    ],
)
def test_rows_whose_threads_load_elements_match_numpy(
    radices: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    x = numbers(*shape, math.prod(radices)).astype(np.complex64)
    for name in ("fft", "ifft"):
        kernel = fourier._row_kernel(name, radices, x.ndim)
        out = tg.zeros(x.shape, tg.vec2f)
        threads = fourier._row_threads(radices)
        tg.launch_tiled(kernel, shape or (1,), [tg.array(x)], [out], block_dim=threads)
        expected = getattr(np.fft, name)(x.astype(np.complex128))
        result = out.numpy().view(np.complex64)[..., 0]
        assert np.linalg.norm(result - expected) < 4 * np.finfo(np.float32).eps * np.linalg.norm(expected)


def test_radices_of_rows_are_factors_at_multiples_of_sectors() -> None:
    assert math.prod(fourier._row_radices("fft", 1000, tg.vec2f)) == 1000
    for n in range(1, 5000, 7):
        radices = fourier._row_radices("ifft", n, tg.vec2f)
        if radices:
            assert math.prod(radices) == n
            assert not any(n // radices[end] % 4 for end in (0, -1))
            assert fourier._row_threads(radices) <= 512
    assert not fourier._row_radices("rfft", 1000, tg.float32)
    assert not fourier._row_radices("fft", 1000, tg.vec2d)


FUNCTIONS = {
    "fft": (kernels.fft, numbers(2, 6)),
    "ifft": (kernels.ifft, numbers(2, 6)),
    "rfft": (kernels.rfft, numbers(2, 6).real),
    "irfft": (lambda x: kernels.irfft(x, 7), numbers(2, 4)),
}


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_fourier_transforms_are_recorded(name: str) -> None:
    f, a = FUNCTIONS[name]
    x = tg.array(a, requires_grad=True)
    with tg.Tape() as tape:
        out = f(x)
    seed = RNG.standard_normal(out.numpy().shape)
    tape.backward(grads={out: tg.array(seed, dtype=out.dtype)})
    step = numbers(*a.shape) if np.iscomplexobj(a) else RNG.standard_normal(a.shape)
    direction = np.stack([step.real, step.imag], -1) if np.iscomplexobj(a) else step
    change = (f(a + step).numpy() - f(a - step).numpy()) / 2
    np.testing.assert_allclose((x.grad.numpy() * direction).sum(), (seed * change).sum(), rtol=1e-9)


def test_fourier_transforms_of_empty_arrays_are_empty() -> None:
    assert kernels.rfft(np.ones((0, 5), np.float32)).shape == (0, 3)


def test_fourier_transforms_refuse_invalid_arguments() -> None:
    for call, message in (
        (lambda: kernels.fft(np.ones(4)), "vec2 or vec2d, got float64"),
        (lambda: kernels.rfft(np.ones(4, np.int32)), "float32 or float64, got int32"),
        (lambda: kernels.irfft(np.ones((2, 4), complex), 4), "no rows of n // 2 + 1 elements for n = 4"),
        (lambda: kernels.fft(np.ones((2, 0), complex)), "of shape (2, 0)"),
        (lambda: kernels.ifft("x"), "'x' is not an array"),
        (lambda: kernels.irfft(np.ones(1, complex), 0), "rows of 1 elements need n = 1"),
        (lambda: kernels.irfft(np.ones(3, complex), 4.0), "irfft: 'n' must be an int, got 4.0"),
    ):
        with pytest.raises(tg.LaunchError) as error:
            call()
        assert message in str(error.value)
    with pytest.raises(tg.CompileError) as refused:
        kernels.fft(np.ones(65537, complex))
    assert str(refused.value).startswith("error[out-of-range]: a transform of length 65537")


@pytest.mark.machine_code
def test_the_inverse_of_one_element_has_one_element() -> None:
    assert kernels.irfft(np.array([3.0 + 0j])).numpy().tolist() == [3.0]
