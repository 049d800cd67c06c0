"""Runs generated programs on a device and compares their results with the interpreter's. With `--gradients`, gradients
are compared with finite differences and forward-mode derivatives; every second program has kinks and is compared with
the latter only. With `--rounded`, gradients in every float type are compared with gradients of the same programs in
float64. With `--order`, the order of accesses to elements of tiles is compared with a model, also for kernels lowered
to the threads of a GPU block. With `--families`, programs of all families of ops are compared with NumPy too, on
several devices; with `--family-gradients` gradients of such programs are compared with finite differences. With
`--rescaling`, programs are loops that rescale sums, as online softmax does; their gradients are compared with finite
differences by NumPy.

Usage: python tools/generated_programs.py [--gradients | --tapes | --order | --rounded | --families |
                                           --family-gradients | --rescaling]
                                          [--device cuda:0 | --devices cpu,cuda:0] [--first SEED]
                                          [--count N | --to SEED] [--jobs N] [--seconds N] [--limit N] [--every N]
                                          [--into FILE]

`--families` runs each program on all `--devices`. Two of them need no GPU: `lowered` is the interpreter after all
passes for GPUs, which detects data races, and `simulated` runs the code for GPUs thread by thread on the CPU. At the
end it prints how many programs had each family, and how many of them failed.

Programs are generated from their seeds. Workers are processes; a worker is replaced after a program that failed,
crashed or took more than `--limit` seconds, because a fault ends a process's use of a GPU. Prints failures as they
happen, the outcomes so far every `--every` seconds, and all outcomes and the commands that run the failed programs
again at the end, or when interrupted by Ctrl-C or SIGTERM. `--into` adds a line of JSON to a file for each program;
programs that are already in the file are counted and not run again. Exits with 1 if there are failures."""

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
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parent.parent
OUTCOME_PREFIX = "outcome "
MAX_SHOWN = 2000
"""The number of characters of a failure that are printed."""
FAMILIES = "families: "
COLLECTION_PERIOD = 8
"""The number of programs between garbage collections."""


# Workers -------------------------------------------------------------------------------------------------------------


def outcome_of_program(seed: int, devices: str) -> str:
    """The outcome of a program: "ran", the code of the error that refused it, or its failure."""
    from choices import ChoiceSource
    from programs import ProgramWriter
    from run_program import compare

    draw = random.Random(seed).randrange
    program = ProgramWriter(ChoiceSource(draw)).program()
    try:
        return compare(program) or "ran"
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"


def outcome_of_gradient(seed: int, devices: str) -> str:
    """The worst outcome over a program's trip counts: "right", "unstable", the code of a refusal, or the difference."""
    from kinked_programs import KinkedProgram
    from smooth_programs import SmoothProgram

    return worst_outcome(KinkedProgram(seed) if seed % 2 else SmoothProgram(seed))


def worst_outcome(program: Any, **options: Any) -> str:
    """The worst outcome of a program over its trip counts."""
    from check_program import check

    try:
        result = check(program, **options)
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"
    verdicts = {iterations: verdict for iterations, verdict in result.items() if verdict != "right"}
    if not verdicts:
        return "right"
    worst = max(verdicts.values(), key=lambda verdict: verdict.startswith("wrong"))
    iterations_text = f"of {', '.join(str(iterations) for iterations in verdicts)} iterations"
    return (
        f"failed: {worst}, {iterations_text}\n{program}"
        if worst.startswith("wrong")
        else f"{worst}: {iterations_text}"
    )


def outcome_of_family_gradient(seed: int, devices: str) -> str:
    """The worst outcome over a program's trip counts: "right", "unstable", the code of a refusal, or the difference."""
    from smooth_families import SmoothFamilies

    return worst_outcome(SmoothFamilies(seed), forward=())


def outcome_of_tape(seed: int, devices: str) -> str:
    """The outcome of a program of launches, copies and views on a tape: "right", "empty", "unstable", "refused", or the
    difference. Seeds select the four float types cyclically."""
    from tape_programs import EPSILON, outcome

    result, program = outcome(seed // len(EPSILON), sorted(EPSILON)[seed % len(EPSILON)])
    return (
        f"failed: {result}\n{program}" if result.startswith("wrong") else result.split(":")[0].split(" ")[0]
    )


def outcome_of_order(seed: int, devices: str) -> str:
    """The outcome of a program: "ran", "refused" for accesses that cannot be ordered, or its failure."""
    from run_lane_program import compare_with_model, generated

    program = generated(seed)
    try:
        return compare_with_model(program)
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"


def outcome_of_rescaling(seed: int, devices: str) -> str:
    """The outcome of a program: "right", "unstable", "not finite", "refused", or its failure."""
    from check_rescaling import check
    from rescaling_programs import RescalingProgram

    program = RescalingProgram(seed)
    try:
        result = check(program.text, program.threads, program.count, seed)
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"
    return f"failed: {result}\n{program}" if result.startswith("wrong") else result.split(":")[0]


def outcome_of_rounded(seed: int, devices: str) -> str:
    """The outcome of a program: "right", "unstable", the code of a refusal, or the difference."""
    from check_rounded import check
    from rounded_programs import RoundedProgram

    program = RoundedProgram(seed)
    try:
        result = check(program)
    except Exception as error:
        return f"failed: {type(error).__name__} {error}\n{program}"
    return f"failed: {result}\n{program}" if result.startswith("wrong") else result


def outcome_of_family(seed: int, devices: str) -> str:
    """The outcome of a program of many families and their names: "ran", the code of the error that refused it, or its
    failure."""
    from family_programs import FamilyProgram
    from run_family_program import outcome

    program = FamilyProgram(seed)
    try:
        result = outcome(program, tuple(devices.split(",")))
    except Exception as error:
        result = f"failed: {type(error).__name__} {error}"
    families = ", ".join(sorted(program.families))
    return (
        f"{result}\n{FAMILIES}{families}\n{program}"
        if result.startswith("failed")
        else f"{result}: {families}"
    )


OUTCOMES = {
    "families": outcome_of_family,
    "family-gradients": outcome_of_family_gradient,
    "results": outcome_of_program,
    "gradients": outcome_of_gradient,
    "tapes": outcome_of_tape,
    "order": outcome_of_order,
    "rescaling": outcome_of_rescaling,
    "rounded": outcome_of_rounded,
}


GRADIENT_KINDS = ("gradients", "rescaling", "tapes", "rounded", "family-gradients")
"""The kinds of programs that are defined in tests/gradients."""


def answer_seeds(devices: str, kind: str) -> None:
    """Answer each seed of the input with its outcome."""
    program_folder = "tests/gradients" if kind in GRADIENT_KINDS else "tests/generated"
    for folder in (
        "tests",
        "tests/gpu_lowering",
        "tests/gpu_codegen",
        "tests/semantics",
        program_folder,
        "src",
    ):
        sys.path.insert(0, str(ROOT / folder))
    import tegula as tg

    tg.config.cache_kernels = False
    run = OUTCOMES[kind]
    # Garbage is collected after every few programs, and not during a compilation.
    gc.freeze()
    gc.disable()
    with tg.ScopedDevice("cpu" if kind == "families" else devices):
        for count, line in enumerate(sys.stdin):
            print(OUTCOME_PREFIX + json.dumps(run(int(line), devices)), flush=True)
            if count % COLLECTION_PERIOD == COLLECTION_PERIOD - 1:
                gc.collect()


@dataclass
class Worker:
    """A process that answers seeds with outcomes, started for the first seed."""

    options: list[str]
    limit: float
    process: subprocess.Popen[str] | None = None

    def outcome(self, seed: int) -> str:
        """The outcome of a program. A process is ended after a failure, because it may not be able to use its GPU."""
        answer = self.answer(seed)
        if answer.startswith("failed"):
            self.end()
        return answer

    def answer(self, seed: int) -> str:
        if self.process is None:
            self.process = start_process(self.options)
        process, lines, begin = self.process, list[str](), time.monotonic()
        assert process.stdin is not None and process.stdout is not None
        timer = threading.Timer(self.limit, process.kill)
        timer.start()
        try:
            process.stdin.write(f"{seed}\n")
            process.stdin.flush()
            for line in process.stdout:
                if line.startswith(OUTCOME_PREFIX):
                    return json.loads(line.removeprefix(OUTCOME_PREFIX))
                lines.append(line)
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        status = process.wait()
        is_timeout = time.monotonic() - begin >= self.limit
        reason = f"took more than {self.limit:g} s" if is_timeout else f"ended with {status}"
        return f"failed: the process {reason}: {''.join(lines)[-1000:]}"

    def end(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()


def start_process(options: list[str]) -> subprocess.Popen[str]:
    """Start the process of a worker in a new session, so that it does not receive the interrupts of the run."""
    return subprocess.Popen(
        [sys.executable, __file__, "--worker", *options],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "TEGULA_VERIFY_PASSES": "1",
        },
        start_new_session=True,
    )


# The run -------------------------------------------------------------------------------------------------------------


@dataclass
class OutcomeTally:
    """The outcomes of the programs so far. `into`: the file to which each outcome is added."""

    into: TextIO | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    families: dict[str, Counter[str]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, seed: int, outcome: str, seconds: float) -> None:
        with self.lock:
            self.count(seed, outcome)
            if self.into is not None:
                line = {"seed": seed, "outcome": outcome[:MAX_SHOWN], "seconds": round(seconds, 3)}
                self.into.write(json.dumps(line) + "\n")
                self.into.flush()

    def count(self, seed: int, outcome: str) -> None:
        if outcome.startswith("failed"):
            self.failures[seed] = outcome[:MAX_SHOWN]
            print(f"seed {seed}: {self.failures[seed]}", flush=True)
        kind, _, rest = outcome.partition(":")
        self.outcomes[kind] += 1
        self.finished.add(seed)
        family_names = rest.partition(f"\n{FAMILIES}")[2].partition("\n")[0] if kind == "failed" else rest
        for name in family_names.strip().split(", "):
            self.families.setdefault(name, Counter())[kind] += 1

    def __str__(self) -> str:
        with self.lock:
            parts = (f"{n} {outcome}" for outcome, n in self.outcomes.most_common())
            return f"{self.outcomes.total()} programs: {', '.join(parts) or 'none'}"


def family_report(tally: OutcomeTally) -> list[str]:
    """A line for each family of ops: the number of programs with the family, by outcome."""
    lines: list[str] = []
    for name, counts in sorted(tally.families.items()):
        parts = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
        lines.append(f"  {name:30} {counts.total():6} programs: {parts}")
    return lines


def read_tally(path: Path) -> OutcomeTally:
    """The tally of the outcomes in a file, to which further outcomes are added. An incomplete last line is ignored."""
    stored = path.read_text() if path.exists() else ""
    complete_lines = stored[: stored.rfind("\n") + 1]
    if complete_lines != stored:
        path.write_text(complete_lines)
    tally = OutcomeTally(path.open("a"))
    for line in complete_lines.splitlines():
        tally.count((record := json.loads(line))["seed"], record["outcome"])
    return tally


def run_worker(seeds: Iterator[int], tally: OutcomeTally, worker: Worker, stop: threading.Event) -> None:
    """Run programs in a worker until no seeds are left or `stop` is set; a program that ends after `stop` is not
    counted."""
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


def run(settings: argparse.Namespace, tally: OutcomeTally, stop: threading.Event) -> None:
    """Run all programs, and print the outcomes so far from time to time."""
    begin = time.monotonic()
    options = ["--device", settings.devices, *([] if settings.kind == "results" else [f"--{settings.kind}"])]
    all_seeds = range(settings.first, settings.first + settings.count if settings.to is None else settings.to)
    seeds = (seed for seed in all_seeds if seed not in tally.finished)
    workers = [Worker(options, settings.limit) for _ in range(settings.jobs)]
    threads = [
        threading.Thread(target=run_worker, args=(seeds, tally, worker, stop), daemon=True)
        for worker in workers
    ]
    for thread in threads:
        thread.start()
    last_progress = begin
    while any(thread.is_alive() for thread in threads):
        now = time.monotonic()
        if stop.wait(min(0.2, begin + settings.seconds - now)) or now - begin >= settings.seconds:
            break
        if now - last_progress >= settings.every:
            print(f"{now - begin:5.0f} s, {tally}", flush=True)
            last_progress = now
    stop.set()
    for thread, worker in zip(threads, workers, strict=True):
        while thread.is_alive():
            worker.end()
            thread.join(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    selection = parser.add_mutually_exclusive_group()
    selection.set_defaults(kind="results")
    for kind in ("gradients", "tapes", "order", "rounded", "families", "family-gradients", "rescaling"):
        selection.add_argument(f"--{kind}", action="store_const", const=kind, dest="kind")
    parser.add_argument("--device", "--devices", default="cpu", dest="devices")
    parser.add_argument("--first", "--from", type=int, default=0, metavar="SEED")
    parser.add_argument("--count", type=int, default=1000, metavar="N")
    parser.add_argument(
        "--to", type=int, metavar="SEED", help="the seed at which to stop, instead of --count"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--seconds", type=float, default=500.0, metavar="N", help="for all programs")
    parser.add_argument("--limit", type=float, default=120.0, metavar="N", help="seconds for one program")
    parser.add_argument("--every", type=float, default=10.0, metavar="N", help="seconds between two reports")
    parser.add_argument("--into", type=Path, metavar="FILE")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        answer_seeds(options.devices, options.kind)
        return 0
    stop, begin = threading.Event(), time.monotonic()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    tally = read_tally(options.into) if options.into else OutcomeTally()
    run(options, tally, stop)
    if options.kind == "families":
        print(*family_report(tally), sep="\n")
    selection = f"--{options.kind} " if options.kind != "results" else ""
    command = (
        f"python tools/generated_programs.py {selection}--device {options.devices} --count 1 --jobs 1 --first"
    )
    for seed in sorted(tally.failures):
        print(f"run again: {command} {seed}")
    print(f"{options.kind} on {options.devices}, {time.monotonic() - begin:.0f} s, {tally}", flush=True)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
