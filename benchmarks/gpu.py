"""GPU kernels against PyTorch, measured in a separate process, so that other cases continue after a crash or hang."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

from benchmarks.gpu_worker import MARK
from benchmarks.measure import Report, Row, failed, row_of

WORKER = (sys.executable, "-m", "benchmarks.gpu_worker")
CASE_LIMIT = 75.0
"""The time limit of one case in seconds; the first case includes the import of PyTorch."""
SWEEP_LIMIT = 150.0
"""The time limit of one point of the sweep, whose peers may be compiled."""
NO_TIME = "not measured: no time was left"
MIN_SECONDS_LEFT = 5.0
"""The minimum remaining seconds for the start of a case."""


def rows(
    name_filter: str,
    report: Report,
    seconds: float,
    worker: Sequence[str] = WORKER,
    limit: float = CASE_LIMIT,
    family: str = "gpu",
    saved_names: Iterable[str] = (),
) -> Iterator[Row]:
    """The rows of the cases of a family whose name contains `name_filter`, without the rows named `saved_names`, within
    `seconds` in all. The row of a case that is not started in time, takes longer than `limit` seconds or ends its
    process states this failure."""
    end = time.monotonic() + seconds
    done = list(saved_names)
    remaining: list[str] | None = None
    while remaining is None or remaining:
        with _Worker(
            [*worker, json.dumps({"family": family, "name_filter": name_filter, "done": done})]
        ) as process:
            first = process.next(min(limit, end - time.monotonic()))
            if not isinstance(first, dict):
                yield failed((remaining or [f"gpu {name_filter}".strip()])[0], first)
                if remaining is None:
                    return
                done.append(remaining.pop(0))
                continue
            report.device = first["device"]
            remaining = first["cases"]
            while remaining:
                if end - time.monotonic() < MIN_SECONDS_LEFT:
                    yield from (failed(name, NO_TIME) for name in remaining)
                    return
                result = process.next(min(limit, end - time.monotonic()))
                name = remaining.pop(0)
                done.append(name)
                if not isinstance(result, dict):
                    yield failed(name, NO_TIME if time.monotonic() >= end else result)
                    break
                yield from map(row_of, result["rows"])


class _Worker:
    """A worker process and the queue of lines that it prints."""

    def __init__(self, command: list[str]) -> None:
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.records: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):
                self.records.put(json.loads(line.removeprefix(MARK)))
        self.records.put(None)

    def next(self, seconds: float) -> dict[str, Any] | str:
        """The next record of the process, or the reason why the process printed no record."""
        try:
            result = self.records.get(timeout=max(seconds, 0.0))
        except queue.Empty:
            return f"no result within {seconds:.0f} s; the process was ended"
        if result is not None:
            return result
        status = self.process.wait()
        self.errors.seek(0)
        stderr_text = self.errors.read().decode(errors="replace").strip()
        return f"the process ended with {status}: {stderr_text[-600:]}"

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *exception: object) -> None:
        # Nothing is read from the process after its last line.
        self.process.kill()
        self.process.wait()
        self.errors.close()
