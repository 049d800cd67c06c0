"""examples/torch_norms.py against PyTorch in float64."""

from __future__ import annotations

import pytest
import torch
import torch_norms

pytestmark = pytest.mark.machine_code


def test_torch_norms_and_their_gradients_match_float64() -> None:
    torch.manual_seed(0)
    arguments = [torch.randn(shape, requires_grad=True) for shape in ((7, 33), (33,), (33,))]
    exact = [x.detach().double().requires_grad_() for x in arguments]
    seed = torch.randn(7, 33)
    reference = torch.softmax(torch.layer_norm(exact[0], (33,), *exact[1:]), 1)
    actual = torch_norms.softmax(torch_norms.layer_norm(*arguments))
    torch.testing.assert_close(actual, reference.float())
    for gradient, expected in zip(
        torch.autograd.grad(actual, arguments, seed),
        torch.autograd.grad(reference, exact, seed.double()),
        strict=True,
    ):
        torch.testing.assert_close(gradient, expected.float(), rtol=1e-4, atol=1e-5)


def test_a_network_trains_alike_with_norms_of_torch_and_tegula() -> None:
    actual = torch_norms.run(64, steps=30)
    assert actual["Tegula"][-1] < actual["Tegula"][0]
    torch.testing.assert_close(actual["Tegula"], actual["PyTorch"], rtol=1e-3, atol=0.0)
