"""Kernels of the library on tensors of PyTorch: repeated calls, and similar calls with other layouts."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch

import tegula as tg
from tegula.kernels import attention, cholesky, fft, irfft, matmul, rfft


def integers(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    return torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def test_tensors_of_equal_layout_have_one_key() -> None:
    x = torch.zeros(4, 8)
    memory = torch.zeros(64)
    other_tensors = [
        *(x.double(), x.t(), x[:2], x[:, :4], torch.zeros(32), torch.zeros(4, 8, requires_grad=True)),
        *(memory[1:33].reshape(4, 8), torch.zeros(4, 8, device="meta"), torch.zeros(8, 8)[::2]),
    ]
    assert tg.launch_key(x) == tg.launch_key(torch.ones(4, 8)) == tg.launch_key(torch.nn.Parameter(x, False))
    keys = [tg.launch_key(y) for y in (x, *other_tensors)]
    assert None not in keys and len(set(keys)) == len(keys)
    assert tg.launch_key(x, tg.zeros((4, 8))) != tg.launch_key(tg.zeros((4, 8)), x)


def test_tensors_without_a_launch_key_are_recognised() -> None:
    class Subclass(torch.Tensor):
        pass

    for y in (torch.eye(3).to_sparse(), torch.zeros(3).as_subclass(Subclass)):
        assert tg.launch_key(y) is None


def test_launch_keys_hold_no_tensors() -> None:
    x = torch.zeros(5, 7)
    reference, key = weakref.ref(x), tg.launch_key(x)
    del x
    gc.collect()
    assert reference() is None and key is not None


@pytest.mark.machine_code
def test_matmuls_of_tensors_of_different_layouts_are_correct() -> None:
    memory = integers(60 * 80 + 8)
    a, b = integers(40, 80), integers(80, 60, seed=1)
    for _ in range(3):
        for x, y in (
            (a, b),
            (a[:, 8:], b[8:]),
            (a[:, 1:], b[1:]),
            (b.t(), a.t()),
            (a.float(), b.float()),
            (a, memory[: 80 * 60].reshape(80, 60)),
            (a, memory[1 : 80 * 60 + 1].reshape(80, 60)),
            (a, torch.nn.Parameter(b, requires_grad=False)),
        ):
            actual = matmul(x, y)
            assert type(actual) is torch.Tensor and actual.dtype == x.dtype
            assert torch.equal(actual, (x.float() @ y.float()).to(x.dtype))
            out = torch.full((x.shape[0], y.shape[1]), 7.0)
            assert matmul(x, y, out, alpha=2.0, beta=1.0) is out
            assert torch.equal(out, 2 * (x.float() @ y.float()) + 7)


@pytest.mark.machine_code
def test_later_calls_refuse_invalid_tensors_too() -> None:
    a, b, memory = integers(8, 16), integers(16, 8, seed=1), torch.zeros(16, 16, dtype=torch.bfloat16)
    out = torch.zeros(8, 8, dtype=torch.bfloat16)
    for _ in range(2):
        assert matmul(a, b, out) is out and matmul(a.float(), b.float()).dtype == torch.float32
        with pytest.raises(tg.LaunchError, match="'out' shares memory with 'a'"):
            matmul(memory[:8], b, memory[4:8].view(8, 8))
        with pytest.raises(tg.LaunchError, match="'a' is not an array"):
            matmul(a.float().requires_grad_(), b.float())
        with pytest.raises(tg.LaunchError, match="'a' is not an array"):
            matmul(a.to_sparse(), b)
        with pytest.raises(tg.LaunchError, match="'b' must have shape"):
            matmul(a, b[:8])
        with pytest.raises(tg.LaunchError, match="'a' must be of"):
            matmul(a.int(), b.int())


@pytest.mark.machine_code
def test_later_calls_count_writes_of_tensors() -> None:
    a, b, out = integers(8, 16), integers(16, 8, seed=1), torch.zeros(8, 8, dtype=torch.bfloat16)
    for _ in range(3):
        before = out._version
        matmul(a, b, out)
        assert out._version == before + 1


@pytest.mark.machine_code
def test_repeated_attention_of_tensors_is_correct() -> None:
    q, k, v = (torch.randn(1, 2, 40, 64, generator=torch.Generator().manual_seed(s)).half() for s in range(3))
    for _ in range(2):
        for causal in (False, True):
            expected = torch.nn.functional.scaled_dot_product_attention(
                q.float(), k.float(), v.float(), is_causal=causal
            )
            out = torch.empty_like(q)
            actual, lse = attention(q, k, v, out, causal=causal, return_lse=True)
            assert actual is out and lse.dtype == torch.float32 and lse.shape == (1, 2, 40)
            torch.testing.assert_close(out.float(), expected, rtol=2e-3, atol=2e-3)
            torch.testing.assert_close(attention(q, k, v, causal=causal), out)


@pytest.mark.machine_code
def test_calls_of_several_threads_with_tensors_are_correct() -> None:
    pairs = [(integers(n, 24), integers(24, 16, seed=1)) for n in (8, 16, 24, 32)]
    failed_shapes: list[object] = []

    def work() -> None:
        for x, y in pairs * 5:
            if not torch.equal(matmul(x, y), (x.float() @ y.float()).to(x.dtype)):
                failed_shapes.append(x.shape)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failed_shapes == []


@pytest.mark.machine_code
def test_decompositions_of_tensors_are_tensors() -> None:
    factor = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0))
    a = factor @ factor.mT + 4 * torch.eye(4)
    result = cholesky(a)
    assert isinstance(result, torch.Tensor)
    torch.testing.assert_close(result, torch.linalg.cholesky(a), rtol=1e-4, atol=1e-5)


@pytest.mark.machine_code
def test_transforms_of_tensors_are_tensors() -> None:
    x = torch.randn(3, 10, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
    for operand in (x, x.conj(), x.mT):
        torch.testing.assert_close(fft(operand), torch.fft.fft(operand))
    spectrum = rfft(x.real)
    torch.testing.assert_close(spectrum, torch.fft.rfft(x.real))
    torch.testing.assert_close(irfft(spectrum), x.real)
