"""The runtime of GPUs on a simulated driver."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from simulated_driver import SimulatedDriver

from tegula.kernels import gemm, operands
from tegula.kernels.attention import plans as attention_plans
from tegula.runtime import device
from tegula.runtime.cuda import context, driver, maps, report, stream, strided


def reset_runtime() -> None:
    """Reset the runtime's state of the driver and release all objects created with the driver."""
    gc.collect()
    for cache in (
        *(
            context._contexts.contexts,
            stream._defaults,
            stream.thread_streams.streams,
            report._queues,
            strided._functions,
            maps._empty_arrays,
        ),
        device._cuda,
        operands.kept.buffers,
        gemm.plans.configs,
        attention_plans.configs,
    ):
        cache.clear()
    context.attribute.cache_clear()


@pytest.fixture
def simulated() -> Iterator[SimulatedDriver]:
    simulated = SimulatedDriver()
    reset_runtime()
    # Objects that other tests leave are not scanned again when this test ends.
    gc.freeze()
    previous_driver = driver.install(simulated)
    yield simulated
    device.set_device("cpu")
    device.cuda_selection.used = False
    reset_runtime()
    driver.install(previous_driver)
