"""Timing on a GPU: implementations alternate, in short bursts of work with pauses.

A GPU under steady load reaches its power limit and lowers its clock within tenths of a second. Bursts of a few
milliseconds with pauses between them run at full clock, and their times repeat within tenths of a percent."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.measure import TOLERANCE, Row

BURST, PAUSE = 4e-3, 20e-3
"""The seconds of a burst, and of the pause before it."""
ITERATIONS = 15
MAX_CALLS = 200
CYCLES = 2e9
"""The approximate clock rate in cycles per second, by which the time of a spin kernel is computed."""

Call = Callable[[int], object]
"""An implementation, which queues its work on input set k."""


@dataclass(slots=True)
class BurstTimes:
    """The seconds per call in each iteration, the number of calls of a burst, and the host's seconds to queue one
    call."""

    call: Call
    seconds: list[float]
    calls: int
    host: float

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def bursts(calls: Mapping[str, Call], sets: int, iterations: int = ITERATIONS) -> dict[str, BurstTimes]:
    """Time implementations alternately, each on `sets` sets of inputs in rotation; on PyTorch's current stream, the
    default stream."""
    timings = {name: _warm_up(call, sets) for name, call in calls.items()}
    for k in range(iterations):
        # The order alternates, so that no implementation is always first.
        for name in list(timings) if k % 2 else reversed(list(timings)):
            timings[name].seconds.append(_burst(timings[name], sets))
    return timings


def _warm_up(call: Call, sets: int) -> BurstTimes:
    """Warm up an implementation and determine its number of calls per burst."""
    for k in range(sets):
        call(k)
    torch.cuda.synchronize()
    trial = BurstTimes(call, [], 3, 0.0)
    start = time.perf_counter()
    for k in range(trial.calls):
        call(k % sets)
    trial.host = (time.perf_counter() - start) / trial.calls
    burst_seconds = _burst(trial, sets)
    return BurstTimes(call, [], max(1, min(MAX_CALLS, round(BURST / burst_seconds))), trial.host)


def _burst(timed: BurstTimes, sets: int) -> float:
    """The device seconds per call of one burst."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    time.sleep(PAUSE)
    _keep_gpu_busy(1.5 * timed.calls * timed.host)
    start.record()
    for k in range(timed.calls):
        timed.call(k % sets)
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / timed.calls * 1e-3


def _keep_gpu_busy(seconds: float) -> None:
    """Keep the GPU busy while the host queues a burst, so that launch overhead is not measured."""
    spin: Any = getattr(torch.cuda, "_sleep", None)
    if spin is not None:
        spin(int(min(seconds, 10e-3) * CYCLES))


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """The 2-norm of the difference divided by the 2-norm of `expected`, in float64."""
    expected64 = expected.double()
    return float(
        torch.linalg.vector_norm(actual.double() - expected64) / torch.linalg.vector_norm(expected64)
    )


def comparison_row(
    name: str,
    kernel: Call,
    peers: Mapping[str, Call],
    sets: int,
    error: float,
    dtype: str,
    threshold: float | None = None,
    work: float | None = None,
    unit: str = "ms",
    max_ms: float | None = None,
    note: str = "",
    iterations: int = ITERATIONS,
) -> Row:
    """A row with the speed in `unit` for `work` per call, or milliseconds. The ratio is to the first peer; the other
    peers are in the note. `threshold` is the minimum ratio, `max_ms` the maximum time in milliseconds. AssertionError
    if `error` exceeds the tolerance of the result's dtype."""
    if not error <= TOLERANCE[dtype]:
        raise AssertionError(f"relative error {error:.2e} is above {TOLERANCE[dtype]:.0e}")
    timings = bursts({"": kernel, **peers}, sets, iterations)
    kernel_timing = timings.pop("")
    values = {peer: t.median * 1e3 if work is None else work / t.median for peer, t in timings.items()}
    peer = next(iter(peers), "")
    pairs = zip(timings[peer].seconds, kernel_timing.seconds, strict=True) if peer else []
    ratio = statistics.median(p / m for p, m in pairs) if peer else None
    notes = [f"{peer_name} {values[peer_name]:.4g}" for peer_name in list(values)[1:]]
    notes += [f"{kernel_timing.median * 1e3:.4f} ms"] if work is not None else []
    if max_ms is not None and ratio is not None:
        notes.append(f"{ratio:.3f} of {peer}")
    return Row(
        name,
        kernel_timing.median * 1e3 if work is None else work / kernel_timing.median,
        unit,
        peer,
        values.get(peer),
        ratio if max_ms is None else None,
        threshold if max_ms is None else max_ms,
        error,
        len(kernel_timing.seconds) * kernel_timing.calls,
        "; ".join([*notes, *([note] if note else [])]),
    )
