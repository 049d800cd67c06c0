"""Softmax and layer norm as functions of PyTorch: a block for each row, gradients by the compiler.

python examples/torch_norms.py [--device cuda:0] [--size ROWS] [--picture PATH]

Requires PyTorch: pip install tegula[interop]"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import show

import tegula as tg

# Imported by name, so that type checkers do not need PyTorch.
torch: Any = import_module("torch")
function: Any = import_module("tegula.torch").function
WIDTH, STEPS = 96, 200


@tg.kernel
def softmax_rows(x: tg.array2d[float], y: tg.array2d[float], N: tg.constexpr):
    i = tg.tid()
    row = tg.tile_load(x[i], shape=N)
    e = tg.exp(row - tg.tile_max(row))
    tg.tile_store(y[i], e / tg.tile_sum(e))


@tg.kernel
def norm_rows(
    x: tg.array2d[float],
    weight: tg.array[float],
    bias: tg.array[float],
    y: tg.array2d[float],
    N: tg.constexpr,
):
    """(x - mean) / deviation * weight + bias; the gradients of weight and bias are sums over all blocks."""
    i = tg.tid()
    row = tg.tile_load(x[i], shape=N)
    centred = row - tg.tile_sum(row) / float(N)
    scale = tg.rsqrt(tg.tile_sum(centred * centred) / float(N) + 1e-5)
    tg.tile_store(y[i], centred * scale * tg.tile_load(weight, shape=N) + tg.tile_load(bias, shape=N))


@cache
def kernel_of_width(kernel: Any, width: int) -> Any:
    """A kernel as a function of tensors with rows of `width` elements."""
    launch_options = {"dim": lambda x, *_: len(x), "outputs": lambda x, *_: x}
    return function(kernel.bind(N=width), block_dim=64, tiled=True, **launch_options)


def softmax(x: Any) -> Any:
    return kernel_of_width(softmax_rows, x.shape[1])(x)


def layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return kernel_of_width(norm_rows, x.shape[1])(x, weight, bias)


def spirals(size: int) -> tuple[Any, Any]:
    """Points of two intertwined spirals, and the spiral of each point."""
    labels = torch.arange(size) % 2
    radius = torch.linspace(0.1, 1.0, size)
    angle = 9.0 * radius + torch.pi * labels
    return radius[:, None] * torch.stack([torch.cos(angle), torch.sin(angle)], 1), labels


def losses(size: int, norm: Any, probabilities: Any, steps: int) -> list[float]:
    """The losses of a network of two layers during training, with the given layer norm and softmax."""
    torch.manual_seed(0)
    first, last = torch.nn.Linear(2, WIDTH), torch.nn.Linear(WIDTH, 2)
    weight, bias = torch.ones(WIDTH, requires_grad=True), torch.zeros(WIDTH, requires_grad=True)
    adam = torch.optim.Adam([*first.parameters(), *last.parameters(), weight, bias], lr=0.01)
    x, labels = spirals(size)
    result = []
    for _ in range(steps):
        p = probabilities(last(torch.tanh(norm(first(x), weight, bias))))
        loss = -torch.log(p[torch.arange(size), labels]).mean()
        result.append(loss.item())
        adam.zero_grad()
        loss.backward()
        adam.step()
    return result


def run(size: int, steps: int = STEPS) -> dict[str, list[float]]:
    with torch.device(str(tg.get_device())):
        torch_losses = losses(
            size, lambda x, *w: torch.layer_norm(x, (WIDTH,), *w), lambda x: torch.softmax(x, 1), steps
        )
        return {"PyTorch": torch_losses, "Tegula": losses(size, layer_norm, softmax, steps)}


def draw(figure: Any, result: dict[str, list[float]]) -> None:
    axes = figure.subplots()
    for (name, actual), style in zip(result.items(), ("-", "--"), strict=True):
        axes.plot(actual, style, label=f"with {name}'s softmax and layer norm")
    axes.set(xlabel="step", ylabel="loss", yscale="log")
    axes.legend()


if __name__ == "__main__":
    show.main(run, draw, size=256)
