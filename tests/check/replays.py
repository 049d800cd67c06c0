"""Launches of kernels with roles that are replayed in many orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tegula.interp.engines.launch import EngineLaunch, PreparedKernel, prepared
from tegula.interp.engines.orders import Order, orders
from tegula.interp.engines.state import ReplayFailed
from tegula.interp.engines.trace import InvalidLaunch
from tegula.interp.lowered import BlockDistribution
from tegula.ir import Kernel
from tegula.passes.runner import GpuCompilation


def ready(kernel: Kernel, compilation: GpuCompilation) -> PreparedKernel:
    return prepared(
        kernel, BlockDistribution(compilation.layouts, compilation.shared.allocations, compilation.threads)
    )


def failure(
    prepared: PreparedKernel, args: Sequence[Any], dims: Sequence[int], count: int, ignore_races: bool = False
) -> str:
    """The first failure in a number of orders, with its order; "" if all orders store the same."""
    try:
        launch = EngineLaunch(prepared, args, dims)
    except InvalidLaunch as e:
        return f"{e.kind}: {e.text}"
    expected: Any = None
    for order in sample_orders(launch, count):
        try:
            result = launch.run(order, ignore_races)
        except ReplayFailed as e:
            return f"{e.kind}: {e.text} ({order.name})"
        expected = result if expected is None else expected
        if result != expected:
            return f"value: other results ({order.name})"
    return ""


def sample_orders(launch: EngineLaunch, count: int) -> list[Order]:
    return list(orders([role for role, *_ in launch.programs], count))
