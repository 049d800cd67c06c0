"""The examples compile for GPUs, and run on a simulated driver, which does not execute kernels."""

from __future__ import annotations

from collections import defaultdict
from importlib import import_module

import pytest
from simulated_driver import SimulatedDriver

import tegula as tg

SIZES = {
    "attention": (100,),
    "cloth": (8, 2),
    "compaction": (700,),
    "fluid": (12, 1),
    "gaussian_process": (2, 1),
    "heat": (20, 1),
    "image": (20,),
    "mandelbrot": (20,),
    "mlp": (1,),
    "nbody": (64, 2),
    "radix_sort": (700,),
    "spheres": (16,),
}
"""The arguments of `run` for each example."""


@pytest.mark.slow
@pytest.mark.parametrize("name", SIZES)
def test_an_example_compiles_for_gpus(
    name: str, simulated: SimulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated.kernels = defaultdict(lambda: lambda *_: None, simulated.kernels)
    example = import_module(name)
    for constant in ("STEPS", "JACOBI") if name == "fluid" else ():
        monkeypatch.setattr(example, constant, 2)
    with tg.ScopedDevice("cuda:0"):
        example.run(*SIZES[name])
