"""The timing of candidates by alternating bursts of launches. Pauses between bursts keep a GPU's clock from dropping
under a steady load."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tegula.dataclass import dataclass, field
from tegula.runtime.device import Device

if TYPE_CHECKING:
    from tegula.runtime.cuda.graph import Graph
    from tegula.runtime.cuda.stream import Stream

BURST, PAUSE = 4e-3, 20e-3
"""The seconds of work in a burst, and of the pause before a burst on a GPU."""
REPEATS, FIRST_REPEATS = 9, 3
"""The number of bursts of each candidate, and the number after which only candidates near the best continue."""
CONTINUE_RATIO, DROP_RATIO = 1.2, 8.0
"""The maximum ratios to the best time: of candidates that continue after the first bursts, and of candidates that are
timed in bursts at all."""
MAX_CALLS = 200
"""The maximum number of calls per burst."""
MAX_SECONDS = 1.0
"""The approximate limit of the time of all bursts of a candidate, in seconds: slow kernels have fewer bursts."""

Call = Callable[[], None]


class Clock(Protocol):
    """Measures the seconds per call of `call`, each after a call of `before`, whose time is not included."""

    def __call__(self, call: Call, before: Call | None, calls: int) -> float: ...


@dataclass(slots=True)
class Runner:
    """A candidate to time: the function that launches the candidate, the seconds per call in each burst, and the calls
    per burst."""

    call: Call
    seconds: list[float] = field(default_factory=list)
    calls: int = 1

    @property
    def median(self) -> float:
        """The median of the measured times, in seconds."""
        return statistics.median(self.seconds)


def time_calls(
    calls: Sequence[Call], before: Call | None, clock: Clock, advance: Callable[[], None] = lambda: None
) -> list[float]:
    """The seconds per call of each candidate, the median of its bursts. `before`: called before each call, not
    timed."""
    runners = [Runner(call) for call in calls]
    for runner in runners:
        first_time = max(clock(runner.call, before, 1), 1e-9)
        runner.calls = max(1, min(MAX_CALLS, round(BURST / first_time)))
        runner.seconds = [first_time]
    remaining = [r for r in runners if r.seconds[0] <= DROP_RATIO * min(r.seconds[0] for r in runners)]
    repeats = max(1, min(REPEATS, round(MAX_SECONDS / max(max(r.seconds[0] for r in remaining), BURST))))
    for r in remaining:
        r.seconds.clear()
    for k in range(repeats):
        # The order is reversed in every other iteration, so that no candidate is always first.
        for r in remaining if k % 2 else reversed(remaining):
            r.seconds.append(clock(r.call, before, r.calls))
        if k + 1 == FIRST_REPEATS:
            best = min(r.median for r in remaining)
            remaining = [r for r in remaining if r.median <= CONTINUE_RATIO * best]
        advance()
    return [r.median for r in runners]


def clock_for(device: Device) -> Clock:
    """The clock that times calls on a device."""
    return GpuClock(device) if device.is_cuda else cpu_clock


def cpu_clock(call: Call, before: Call | None, calls: int) -> float:
    """The seconds per call on the CPU, without the time of `before`."""
    total = 0.0
    for _ in range(calls):
        if before is not None:
            before()
        start = time.perf_counter()
        call()
        total += time.perf_counter() - start
    return total / calls


class GpuClock:
    """Times recorded launches by events of the device, so that the host's time is not included."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.graphs: dict[tuple[Any, ...], Graph] = {}

    def __call__(self, call: Call, before: Call | None, calls: int) -> float:
        if before is None:
            return self._burst((call,), calls)
        return max(self._burst((before, call), calls) - self._burst((before,), calls), 0.0)

    def _burst(self, sequence: tuple[Call, ...], calls: int) -> float:
        from tegula.runtime.cuda.stream import Event, get_event_elapsed_time, stream_on

        stream = stream_on(self.device)
        graph = self.graphs.get((sequence, calls)) or self._recorded(sequence, calls, stream)
        start, end = (Event(self.device, enable_timing=True) for _ in range(2))
        stream.synchronize()
        time.sleep(PAUSE)
        stream.record_event(start)
        graph.launch(stream)
        stream.record_event(end)
        return get_event_elapsed_time(start, end) * 1e-3 / calls

    def _recorded(self, sequence: tuple[Call, ...], calls: int, stream: Stream) -> Graph:
        """A graph of `calls` calls that was launched once, because the driver prepares a graph at its first launch."""
        from tegula.runtime.cuda.graph import ScopedCapture

        with ScopedCapture(self.device) as recorded:
            for _ in range(calls):
                for function in sequence:
                    function()
        assert recorded.graph is not None
        self.graphs[sequence, calls] = recorded.graph
        recorded.graph.launch(stream)
        return recorded.graph
