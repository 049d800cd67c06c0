"""Run generated programs by the thousand, on any device: results against the interpreter, or gradients against finite
differences and derivatives in forward mode; every second one has kinks, and only the latter.

Usage: python tools/generated_programs.py [--gradients] [--device cuda:0] [--first SEED] [--count N] [--jobs N]
                                          [--seconds N] [--into FILE]

Programs are made from their seeds. Each worker is a process of its own; one that dies has failed at its program, and
another takes its place. Prints outcomes and failures, writes them as JSON with `--into`, and exits with 1 if there are
failures."""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "outcome "
SHOWN = 2000
"""Characters of a failure."""


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
        found = set(check(program).values())
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"
    wrong = [verdict for verdict in found if verdict.startswith("wrong")]
    if wrong:
        return f"failed: {wrong[0]}\n{program}"
    return min(found - {"right"}, default="right")


def work(device: str, gradients: bool) -> None:
    """Answer each seed that comes with its outcome."""
    for folder in ("semantics", "gradients" if gradients else "generated"):
        sys.path.insert(0, str(ROOT / "tests" / folder))
    import tegula as tg

    tg.config.cache_kernels = False
    run = outcome_of_gradient if gradients else outcome_of_program
    with tg.ScopedDevice(device):
        for line in sys.stdin:
            print(MARK + json.dumps(run(int(line))), flush=True)


# The run -------------------------------------------------------------------------------------------------------------


@dataclass
class Tally:
    """What has come of the programs so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: dict[int, str] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, seed: int, outcome: str) -> None:
        with self.lock:
            if outcome.startswith("failed"):
                self.failures[seed] = outcome[:SHOWN]
                print(f"seed {seed}: {self.failures[seed]}", flush=True)
            self.outcomes[outcome.split(":")[0]] += 1


def employ(seeds: Iterator[int], tally: Tally, options: list[str], end: float) -> None:
    """Keep one worker at work until there are no more seeds, or no more time."""
    worker: subprocess.Popen[str] | None = None
    while time.monotonic() < end:
        with tally.lock:
            seed = next(seeds, None)
        if seed is None:
            break
        if worker is None or worker.poll() is not None:
            command = [sys.executable, __file__, "--worker", *options]
            worker = subprocess.Popen(
                command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        tally.note(seed, answer(worker, seed))
    if worker is not None:
        worker.kill()


def answer(worker: subprocess.Popen[str], seed: int) -> str:
    assert worker.stdin is not None and worker.stdout is not None
    said: list[str] = []
    try:
        worker.stdin.write(f"{seed}\n")
        worker.stdin.flush()
        for line in worker.stdout:
            if line.startswith(MARK):
                return json.loads(line.removeprefix(MARK))
            said.append(line)
    except BrokenPipeError:
        pass
    return f"failed: the process ended with {worker.wait()}: {''.join(said)[-1000:]}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=1000, metavar="N")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--seconds", type=float, default=500.0, metavar="N")
    parser.add_argument("--into", type=Path, metavar="FILE")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        work(asked.device, asked.gradients)
        return 0
    tally, begin = Tally(), time.monotonic()
    seeds = iter(range(asked.first, asked.first + asked.count))
    options = ["--device", asked.device, *(["--gradients"] if asked.gradients else [])]
    given = (seeds, tally, options, begin + asked.seconds)
    threads = [threading.Thread(target=employ, args=given) for _ in range(asked.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.monotonic() - begin
    kind = "gradients" if asked.gradients else "programs"
    print(f"{tally.outcomes.total()} {kind} on {asked.device} in {took:.0f} s: {dict(tally.outcomes)}")
    if asked.into:
        data = {"kind": kind, "device": asked.device, "first": asked.first, "asked": asked.count}
        failures = {str(k): v for k, v in tally.failures.items()}
        data |= {"outcomes": dict(tally.outcomes), "failures": failures}
        asked.into.write_text(json.dumps(data, indent=1) + "\n")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
