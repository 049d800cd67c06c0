"""Runs work in separate processes, so that a crash or a hang affects only its own work."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any


@dataclass
class RunningProcess:
    """A process that runs a piece of work. `result`: the file for the work's result."""

    name: str
    process: int
    result: IO[str]
    end: float

    def take(self) -> tuple[Any, str | None]:
        """The work's result, and the failure if there is none, after its process has ended."""
        with self.result:
            text = self.result.read()
        status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        if text and status == 0:
            value, error = json.loads(text)
            return value, error
        if status < 0:
            return None, f"crashed: {signal.Signals(-status).name}"
        return None, f"its process ended with status {status}"

    def kill(self) -> None:
        """Ends the process and its children."""
        os.killpg(self.process, signal.SIGKILL)
        self.result.close()
        os.waitpid(self.process, 0)


def start(name: str, work: Callable[[], Any], limit: float, silent: bool) -> RunningProcess:
    """Forks a process for some work."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(writing)
        return RunningProcess(name, process, os.fdopen(reading), time.monotonic() + limit)
    status = 1
    try:
        os.setpgid(0, 0)
        os.close(reading)
        if silent:
            with tempfile.TemporaryFile() as printed:
                for stream in (1, 2):
                    os.dup2(printed.fileno(), stream)
        with os.fdopen(writing, "w") as result:
            try:
                answer = [work(), None]
            except BaseException as error:
                answer = [None, f"{type(error).__name__}: {error}"]
            json.dump(answer, result)
        status = 0
    finally:
        sys.stdout.flush()
        os._exit(status)


def isolated(
    works: Iterable[tuple[str, Callable[[], Any]]], workers: int, limit: float, silent: bool = True
) -> Iterator[tuple[str, Any, str | None]]:
    """Runs each piece of work in a forked process, several at a time.

    Parameters:
        works: functions by name, whose results are written as JSON.
        workers: how many processes run at the same time.
        limit: seconds, after which the process is killed.
        silent: whether the output of the processes is dropped.
    Returns:
        the name, the result, and the failure of each process, in the order of completion."""
    remaining = iter(works)
    running: dict[int, RunningProcess] = {}
    try:
        while True:
            while len(running) < workers and (work := next(remaining, None)) is not None:
                started = start(*work, limit, silent)
                running[started.result.fileno()] = started
            if not running:
                return
            soonest = min(running_work.end for running_work in running.values())
            ready, _, _ = select.select(list(running), [], [], max(0.0, soonest - time.monotonic()))
            for number in ready:
                ended = running.pop(number)
                yield (ended.name, *ended.take())
            for number, overdue in [*running.items()]:
                if overdue.end <= time.monotonic():
                    del running[number]
                    overdue.kill()
                    yield overdue.name, None, f"hung: longer than {limit:g} s"
    finally:
        for running_work in running.values():
            running_work.kill()
