"""A timer of a block of Python code."""

from __future__ import annotations

import cProfile
import threading
import time
from collections.abc import MutableMapping

from tegula.runtime.device import synchronize


class _ThreadState(threading.local):
    depth = 0


_thread_state = _ThreadState()


class ScopedTimer:
    """Measures and prints the duration of a `with` block.

        with tg.ScopedTimer("step", synchronize=True) as timer:
            tg.launch(...)
        timer.elapsed

    `elapsed` is the time in milliseconds, 0 before the end. The text in `extra_msg` is printed after the duration.

    Parameters:
        name: the text printed before the time, indented by four spaces for each enclosing timer.
        active: whether the block is measured; True by default.
        print: whether the time is printed; True by default.
        detailed: whether the times of functions are printed too, by Python's profiler; False by default.
        dict: a dictionary of lists of milliseconds by name, to which the time is appended.
        synchronize: whether to wait for all GPUs before and after, so that launches are measured; False by
            default.
        skip_tape: is accepted and changes nothing.
    Raises:
        nothing.
    """

    enabled = True

    def __init__(
        self,
        name: str,
        active: bool = True,
        print: bool = True,
        detailed: bool = False,
        dict: MutableMapping[str, list[float]] | None = None,
        synchronize: bool = False,
        skip_tape: bool = False,
    ) -> None:
        self.name, self.active = name, active and self.enabled
        self.print, self.detailed, self.synchronize = print, detailed, synchronize
        self.dict = dict
        self.elapsed = 0.0
        self.extra_msg = ""
        if dict is not None:
            dict.setdefault(name, [])

    def __enter__(self) -> ScopedTimer:
        if self.active:
            if self.synchronize:
                synchronize()
            if self.detailed:
                self._profile = cProfile.Profile()
                self._profile.enable()
            _thread_state.depth += 1
            self._begin = time.perf_counter_ns()
        return self

    def __exit__(self, *error: object) -> None:
        if not self.active:
            return
        try:
            if self.synchronize and error[0] is None:
                synchronize()
        finally:
            self.elapsed = (time.perf_counter_ns() - self._begin) / 1e6
            _thread_state.depth -= 1
            if self.dict is not None:
                self.dict[self.name].append(self.elapsed)
            self._report()

    def _report(self) -> None:
        if self.detailed:
            self._profile.disable()
            self._profile.print_stats(sort="tottime")
        if self.print:
            text = f"{'    ' * _thread_state.depth}{self.name} took {self.elapsed:.2f} ms {self.extra_msg}"
            print(text.rstrip())
