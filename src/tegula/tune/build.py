"""The parallel compilation of candidates: worker processes read traced kernels as text and fill the disk cache."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tegula.backend.cache import Cache
from tegula.dataclass import dataclass, field_names
from tegula.errors import TegulaError
from tegula.ir import Kernel
from tegula.ir.text import parse_kernel, print_kernel
from tegula.ops.roles import Roles
from tegula.runtime.compile import build, cache_text, cpu_key_parts
from tegula.runtime.config import config
from tegula.runtime.device import Device
from tegula.runtime.store import disk_cache
from tegula.target import get_cuda_target, get_target

ROOT = Path(__file__).parents[2]
"""The folder that the package is imported from."""
WORKER_STARTUP = 0.6
"""The approximate start-up time of a worker process, in seconds."""
CHECK_TARGET = "sm_90a"
"""The GPU target that schedules are checked for when kernels run on the CPU, where roles do not run concurrently."""


@dataclass(frozen=True, slots=True)
class Job:
    """A traced kernel to compile: its text, the key of its entry in the disk cache ("" for none), and the options.
    `target`: the name of a CPU or the architecture of a GPU."""

    text: str
    entry: str
    directory: str
    target: str
    on_gpu: bool
    debug: bool
    ptxas: str | None
    line_info: bool


def job(kernel: Kernel, device: Device) -> Job:
    """The job that compiles a kernel for a device with the current `tg.config`."""
    debug, store = config.mode == "debug", disk_cache()
    if device.is_cuda:
        from tegula.runtime.cuda.compile import parts
        from tegula.runtime.cuda.context import target as target_of
        from tegula.runtime.cuda.module import key_parts

        cuda_target = target_of(device.ordinal)
        keys = key_parts(parts(kernel, cache_text(kernel, debug), debug), cuda_target)
        target = cuda_target.arch
    else:
        target = config.cpu_target
        keys = cpu_key_parts(kernel, get_target(target), debug)
    entry, directory = ("", "") if store is None else (store.key(keys), store.path)
    text = print_kernel(kernel, locations=True)
    return Job(text, entry, directory, target, device.is_cuda, debug, config.ptxas, config.line_info)


def run_job(job: Job) -> str:
    """Compile a kernel, check its schedule if it has roles, and put it into the disk cache. Returns the error, or
    ""."""
    try:
        return _compile(job)
    except TegulaError as error:
        return str(error)


def _compile(job: Job) -> str:
    store = Cache(Path(job.directory)) if job.entry else None
    kernel = parse_kernel(job.text)
    if job.on_gpu:
        from tegula.runtime.cuda.compile import build as build_for_gpu

        cached = store.get(job.entry) if store is not None else None
        entry = cached or build_for_gpu(kernel, get_cuda_target(job.target), job.debug)
        schedule = entry.metadata["schedule"]
        if not schedule["accepted"]:
            return f"the checker does not accept the schedule: the schedule is {schedule['status']}"
    else:
        if any(isinstance(op, Roles) for op in kernel.body.ops):
            _check(parse_kernel(job.text))
        if store is None or store.get(job.entry) is not None:
            return ""
        cached, entry = None, build(kernel, get_target(job.target), job.debug)
    if store is not None and cached is None:
        store.put(job.entry, entry)
    return ""


def _check(kernel: Kernel) -> None:
    """Raise ScheduleRefuted or ScheduleUnproved for a kernel with roles whose schedule the checker does not accept."""
    from tegula.check.schedule import check_schedule
    from tegula.passes.pipeline import prepare
    from tegula.passes.pipeline_gpu import for_gpu

    prepare(kernel)
    check_schedule(kernel, for_gpu(kernel, get_cuda_target(CHECK_TARGET))).require()


def build_all(jobs: Sequence[Job], advance: Callable[[], None], start: float = WORKER_STARTUP) -> list[str]:
    """Do jobs in this process, or in worker processes if that is faster; for each job the error, or "".

    `start`: the start-up time of a worker process, in seconds."""
    started = time.perf_counter()
    failures: list[str] = []
    for k, job in enumerate(jobs):
        elapsed, remaining = time.perf_counter() - started, len(jobs) - k
        worker_count = min(len(os.sched_getaffinity(0)), remaining)
        # The remaining jobs are assumed to take the mean time of the jobs done so far.
        if (
            k
            and job.entry
            and worker_count > 1
            and sys.executable
            and elapsed / k * remaining * (1 - 1 / worker_count) > start
        ):
            return failures + _in_processes(jobs[k:], worker_count, advance)
        failures.append(run_job(job))
        advance()
    return failures


def _in_processes(jobs: Sequence[Job], worker_count: int, advance: Callable[[], None]) -> list[str]:
    """The results of `build_all` from `worker_count` worker processes, each of which takes the next job of a queue."""
    job_queue: queue.SimpleQueue[int] = queue.SimpleQueue()
    for k in range(len(jobs)):
        job_queue.put(k)
    failures = [""] * len(jobs)
    workers: list[Worker] = []

    def work() -> None:
        worker = None
        while True:
            try:
                index = job_queue.get_nowait()
            except queue.Empty:
                return
            if worker is None or not worker.alive:
                worker = Worker()
                workers.append(worker)
            failures[index] = worker.do(jobs[index])
            advance()

    threads = [threading.Thread(target=work, daemon=True) for _ in range(worker_count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for worker in workers:
            worker.end()
    return failures


class Worker:
    """A worker process, which reads a line for each job and answers it with a line."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tegula.tune.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.alive = True

    def do(self, job: Job) -> str:
        """Have the process do a job. Returns the error, or ""."""
        try:
            self._pipe(self.process.stdin).write(encode_job(job) + "\n")
            self._pipe(self.process.stdin).flush()
            line = self._pipe(self.process.stdout).readline()
        except OSError:
            line = ""
        if line:
            return json.loads(line)
        self.alive = False
        return f"the process that compiled the candidate ended with status {self.process.wait()}"

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe

    def end(self) -> None:
        """Kill the process and close its pipes."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                self._pipe(pipe).close()
            except OSError:
                continue


def encode_job(job: Job) -> str:
    """A job as a line of text."""
    return json.dumps({name: getattr(job, name) for name in field_names(Job)})


def decode_job(line: str) -> Job:
    """The job of a line of text."""
    data: dict[str, Any] = json.loads(line)
    return Job(**data)
