"""Run generated programs by the thousand, on any device: results against the interpreter, or gradients against finite
differences and derivatives in forward mode; every second one has kinks, and only the latter. With `--rounded`,
gradients in every type of floats, against twins in float64. Or, with `--order`, the order of accesses to elements of
tiles, against a model of it, also lowered to the threads of a GPU block.

Usage: python tools/generated_programs.py [--gradients | --tapes | --order | --rounded] [--device cuda:0] [--first SEED]
                                          [--count N] [--jobs N] [--seconds N] [--limit N] [--every N] [--into FILE]

Programs are made from their seeds. Each worker is a process of its own, and another takes its place after a program at
which it failed, died, or worked for more than `--limit` seconds: a fault ends a process's use of a GPU. Prints failures
as they happen, the outcomes so far every `--every` seconds, and all of them at the end, which an interrupt or SIGTERM
only makes earlier. `--into` adds a line of JSON to a file as each program ends; programs that are in the file already
are counted, and not run again. Exits with 1 if there are failures."""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).resolve().parent.parent
MARK = "outcome "
SHOWN = 2000
"""Characters of a failure."""
COLLECTED = 8
"""Programs."""


# Workers -------------------------------------------------------------------------------------------------------------


def outcome_of_program(seed: int) -> str:
    """ "ran", the code of the error by which it was refused, or how it failed."""
    from choices import Choices
    from programs import Maker
    from run_program import compare

    draw = random.Random(seed).randrange
    program = Maker(Choices(draw)).program()
    try:
        return compare(program) or "ran"
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"


def outcome_of_gradient(seed: int) -> str:
    """The worst of its trip counts: "right", "unstable", the code of a refusal, or how it is wrong."""
    from check_program import check
    from kinked_programs import KinkedProgram
    from smooth_programs import SmoothProgram

    program = KinkedProgram(seed) if seed % 2 else SmoothProgram(seed)
    try:
        found = check(program)
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"
    others = {iterations: verdict for iterations, verdict in found.items() if verdict != "right"}
    if not others:
        return "right"
    worst = max(others.values(), key=lambda verdict: verdict.startswith("wrong"))
    of = f"of {', '.join(str(iterations) for iterations in others)} iterations"
    return f"failed: {worst}, {of}\n{program}" if worst.startswith("wrong") else f"{worst}: {of}"


def outcome_of_tape(seed: int) -> str:
    """ "right", "empty", "unstable", "refused", or how a program of launches, copies and views on a tape is wrong.
    Seeds are of four types of floats in turn."""
    from tape_programs import EPSILON, outcome

    end, program = outcome(seed // len(EPSILON), sorted(EPSILON)[seed % len(EPSILON)])
    return f"failed: {end}\n{program}" if end.startswith("wrong") else end.split(":")[0].split(" ")[0]


def outcome_of_order(seed: int) -> str:
    """ "ran", "refused" where no point orders what must be, or how it failed."""
    from run_lane_program import compare_with_model, generated

    program = generated(seed)
    try:
        return compare_with_model(program)
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"


def outcome_of_rounded(seed: int) -> str:
    """ "right", "unstable", the code of a refusal, or how it is wrong."""
    from check_rounded import check
    from rounded_programs import RoundedProgram

    program = RoundedProgram(seed)
    try:
        found = check(program)
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"
    return f"failed: {found}\n{program}" if found.startswith("wrong") else found


OUTCOMES = {
    "results": outcome_of_program,
    "gradients": outcome_of_gradient,
    "tapes": outcome_of_tape,
    "order": outcome_of_order,
    "rounded": outcome_of_rounded,
}


def work(device: str, kind: str) -> None:
    """Answer each seed of the input with its outcome."""
    own = "tests/gradients" if kind in ("gradients", "tapes", "rounded") else "tests/generated"
    for folder in ("tests/semantics", own, "src"):
        sys.path.insert(0, str(ROOT / folder))
    import tegula as tg

    tg.config.cache_kernels = False
    run = OUTCOMES[kind]
    # What programs leave is collected after some of them, and not while one of them is compiled.
    gc.freeze()
    gc.disable()
    with tg.ScopedDevice(device):
        for count, line in enumerate(sys.stdin):
            print(MARK + json.dumps(run(int(line))), flush=True)
            if count % COLLECTED == COLLECTED - 1:
                gc.collect()


@dataclass
class Worker:
    """A process that answers seeds, started when there is one to answer."""

    options: list[str]
    limit: float
    process: subprocess.Popen[str] | None = None

    def outcome(self, seed: int) -> str:
        """The outcome of the program. A process whose program fails is ended: perhaps it can use its GPU no more."""
        said = self.answer(seed)
        if said.startswith("failed"):
            self.end()
        return said

    def answer(self, seed: int) -> str:
        if self.process is None:
            self.process = started(self.options)
        process, said, begin = self.process, list[str](), time.monotonic()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(self.limit, process.kill)
        timer.start()
        try:
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
            for line in process.stdout:
                if line.startswith(MARK):
                    return json.loads(line.removeprefix(MARK))
                said.append(line)
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        status = process.wait()
        late = time.monotonic() - begin >= self.limit
        why = f"took more than {self.limit:g} s" if late else f"ended with {status}"
        return f"failed: the process {why}: {''.join(said)[-1000:]}"

    def end(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()


def started(options: list[str]) -> subprocess.Popen[str]:
    """A worker's process. There is one for each core, and interrupts are for the run as a whole."""
    return subprocess.Popen(
        [sys.executable, __file__, "--worker", *options],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )


# The run -------------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What has become of the programs so far. `into`: where each is noted as it ends."""

    into: TextIO | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, seed: int, outcome: str, seconds: float) -> None:
        with self.lock:
            self.count(seed, outcome)
            if self.into is not None:
                line = {"seed": seed, "outcome": outcome[:SHOWN], "seconds": round(seconds, 3)}
                self.into.write(json.dumps(line) + "\n")
                self.into.flush()

    def count(self, seed: int, outcome: str) -> None:
        if outcome.startswith("failed"):
            self.failures[seed] = outcome[:SHOWN]
            print(f"seed {seed}: {self.failures[seed]}", flush=True)
        self.outcomes[outcome.split(":")[0]] += 1
        self.seen.add(seed)

    def __str__(self) -> str:
        with self.lock:
            parts = (f"{n} {outcome}" for outcome, n in self.outcomes.most_common())
            return f"{self.outcomes.total()} programs: {', '.join(parts) or 'none'}"


def noted(path: Path) -> Tally:
    """The tally of what a file holds, which goes on there. A last line that was cut short is left out."""
    held = path.read_text() if path.exists() else ""
    whole = held[: held.rfind("\n") + 1]
    if whole != held:
        path.write_text(whole)
    tally = Tally(path.open("a"))
    for line in whole.splitlines():
        tally.count((record := json.loads(line))["seed"], record["outcome"])
    return tally


def employ(seeds: Iterator[int], tally: Tally, worker: Worker, stop: threading.Event) -> None:
    """Keep a worker at work until there are no more seeds, or it is to stop; what it is at then counts for nothing."""
    while not stop.is_set():
        with tally.lock:
            seed = next(seeds, None)
        if seed is None:
            break
        begin = time.monotonic()
        outcome = worker.outcome(seed)
        if not stop.is_set():
            tally.note(seed, outcome, time.monotonic() - begin)
    worker.end()


def run(asked: argparse.Namespace, tally: Tally, stop: threading.Event) -> None:
    """Have all programs run, and say from time to time how far it has got."""
    begin = time.monotonic()
    options = ["--device", asked.device, *([] if asked.kind == "results" else [f"--{asked.kind}"])]
    every = range(asked.first, asked.first + asked.count)
    seeds = (seed for seed in every if seed not in tally.seen)
    workers = [Worker(options, asked.limit) for _ in range(asked.jobs)]
    threads = [
        threading.Thread(target=employ, args=(seeds, tally, worker, stop), daemon=True) for worker in workers
    ]
    for thread in threads:
        thread.start()
    told = begin
    while any(thread.is_alive() for thread in threads):
        now = time.monotonic()
        if stop.wait(min(0.2, begin + asked.seconds - now)) or now - begin >= asked.seconds:
            break
        if now - told >= asked.every:
            print(f"{now - begin:5.0f} s, {tally}", flush=True)
            told = now
    stop.set()
    for thread, worker in zip(threads, workers, strict=True):
        while thread.is_alive():
            worker.end()
            thread.join(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group()
    which.set_defaults(kind="results")
    for kind in ("gradients", "tapes", "order", "rounded"):
        which.add_argument(f"--{kind}", action="store_const", const=kind, dest="kind")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=1000, metavar="N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--seconds", type=float, default=500.0, metavar="N", help="for all programs")
    parser.add_argument("--limit", type=float, default=120.0, metavar="N", help="seconds for one program")
    parser.add_argument("--every", type=float, default=10.0, metavar="N", help="seconds between two reports")
    parser.add_argument("--into", type=Path, metavar="FILE")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        work(asked.device, asked.kind)
        return 0
    stop, begin = threading.Event(), time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    tally = noted(asked.into) if asked.into else Tally()
    run(asked, tally, stop)
    print(f"{asked.kind} on {asked.device}, {time.monotonic() - begin:.0f} s, {tally}", flush=True)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
