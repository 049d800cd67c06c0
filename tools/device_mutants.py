"""Runs mutants of schedules on a GPU, of three groups: refuted mutants whose replays end with wrong results ("wrong"),
refuted mutants whose replays deadlock ("stuck"), and proved mutants ("right").

    python tools/device_mutants.py --save benchmarks/results/device-mutants.json --jobs 14 --seconds 95
    python tools/device_mutants.py --each 5 --subject chain
    python tools/device_mutants.py --offline       compiles them only

Each mutant (tools/mutants.py) is launched repeatedly on the same data in a process of its own, and its results are
compared with the results of the kernel. A process that takes too long is ended. The outcome is the number of launches
with other results, or a hang or fault. Correct results of wrong mutants are no evidence, because the failing order of a
mutant may be rare. With `--save` a run continues an earlier run: mutants in the file are not run again. Exits with 1 if
a proved mutant does not give the kernel's results."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mutation.operators import Mutant

ROOT = Path(__file__).resolve().parent.parent
for folder in ("check", "roles", "semantics"):
    sys.path.insert(0, str(ROOT / "tests" / folder))

SIZES: dict[str, tuple[int, ...]] = {
    "matmul": (2048, 2048, 2048),
    "matmul32": (1024, 1024, 1024),
    "attention": (4096, 4096),
    "chain": (64,),
    "producers": (512,),
    "persistent": (8, 8, 64),
}
"""The sizes for which arguments are made, with enough iterations for stages to be used many times."""
BLOCKS = {"matmul": 132, "matmul32": 132, "attention": 1, "chain": 1, "producers": 1, "persistent": 16}
LAUNCHES, ORDERS = 50, 12
GROUPS = {("refuted", "other"): "wrong", ("refuted", "deadlock"): "stuck", ("proved", "same"): "right"}
"""The groups of mutants, by the checker's verdict and by the outcome of the replays."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--each", type=int, default=8, help="the number of mutants of each kernel and group")
    parser.add_argument("--subject", action="append")
    parser.add_argument("--limit", type=float, default=60.0, help="the time limit of a mutant in seconds")
    parser.add_argument("--offline", action="store_true", help="compile for sm_90a, launch nothing")
    parser.add_argument("--jobs", type=int, default=1, help="the number of mutants that run at the same time")
    parser.add_argument("--seconds", type=float, default=inf, help="the time after which no mutant is begun")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--choose", metavar="SUBJECT", help=argparse.SUPPRESS)
    parser.add_argument("--one", nargs=2, metavar=("SUBJECT", "NUMBER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compile_mutant(*options.one) if options.offline else launch_mutant(*options.one)))
        return 0
    if options.choose:
        for row in selected_mutants(options.choose, options.each):
            print(json.dumps(row), flush=True)
        return 0
    rows: list[dict[str, Any]] = []
    if options.save and options.save.exists():
        rows = json.loads(options.save.read_text(encoding="utf-8"))
    run(options, rows)
    counts = Counter((row["group"], row["outcome"]) for row in rows)
    for (group, outcome), count in sorted(counts.items()):
        print(f"{group}: {count} {outcome}")
    accepted_outcomes = ("compiled", "as expected")
    return int(any(row["group"] == "right" and row["outcome"] not in accepted_outcomes for row in rows))


def run(options: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Add the rows of the mutants that have none yet. One process for each kernel chooses the kernel's mutants, which
    run as soon as they are chosen."""
    end = time.monotonic() + options.seconds
    finished = {(row["kernel"], row["number"]) for row in rows}
    lock = Lock()

    def try_mutant(row: dict[str, Any]) -> None:
        if time.monotonic() > end:
            return
        result = judge_in_child(row["kernel"], row["number"], options.limit, options.offline)
        with lock:
            rows.append({**row, **result})
            print(*(f"{key}: {value}" for key, value in rows[-1].items()), sep=", ", flush=True)
            if options.save:
                options.save.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")

    def run_chosen(name: str, pool: ThreadPoolExecutor) -> None:
        command = [sys.executable, __file__, "--choose", name, "--each", str(options.each)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as chooser:
            timer = Timer(max(0.0, end - time.monotonic()), chooser.kill) if end < inf else None
            if timer is not None:
                timer.start()
            assert chooser.stdout is not None
            for line in chooser.stdout:
                row = json.loads(line)
                if (row["kernel"], row["number"]) not in finished:
                    pool.submit(try_mutant, row)
            if timer is not None:
                timer.cancel()

    names = options.subject or [*SIZES]
    with ThreadPoolExecutor(options.jobs) as pool, ThreadPoolExecutor(len(names)) as choosers:
        for done in [choosers.submit(run_chosen, name, pool) for name in names]:
            done.result()


def selected_mutants(name: str, count: int) -> Iterator[dict[str, Any]]:
    """Mutants of a kernel, at most one of each operator in each group: refuted mutants that end in every order, and
    have wrong results or a race in some order; refuted mutants that deadlock in some order; proved mutants with the
    kernel's results."""
    from mutation.judge import MutantJudge
    from mutation.subjects import subject

    from tegula.check.schedule import check_schedule

    judge = MutantJudge(subject(name), ORDERS)
    operators_by_group: dict[str, set[str]] = {"wrong": set(), "stuck": set(), "right": set()}
    for number, mutant in enumerate(judge.mutants):
        open_groups = {
            g
            for g, arguments in operators_by_group.items()
            if len(arguments) < count and mutant.operator not in arguments
        }
        if not open_groups:
            continue
        try:
            mutant.apply()
            verdict = check_schedule(judge.subject.kernel, judge.subject.compilation)
            group = GROUPS.get((verdict.status, replayed_outcome(judge)), "")
        finally:
            judge.saved.restore(judge.subject)
        if group in open_groups:
            operators_by_group[group].add(mutant.operator)
            yield {
                "kernel": name,
                "number": number,
                "group": group,
                "operator": mutant.operator,
                "change": mutant.change,
                "checker": verdict.kind or verdict.status,
            }


def replayed_outcome(judge: Any) -> str:
    """The outcome of a mutant's largest launch: "other" if all orders end, even with races, and some order has other
    results than the kernel; "same" if no order has; "deadlock" if some order deadlocks; "" for any other outcome."""
    from tegula.interp.engines.launch import EngineLaunch
    from tegula.interp.engines.orders import orders
    from tegula.interp.engines.state import ReplayFailed
    from tegula.interp.engines.trace import InvalidLaunch

    subject = judge.subject
    try:
        launch = EngineLaunch(subject.prepared, subject.launches[0], subject.dims)
        roles = [role for role, *_ in launch.programs]
        differ = [launch.run(o, ignore_races=True) != judge.stored[0] for o in orders(roles, ORDERS)]
    except ReplayFailed as e:
        return e.kind if e.kind == "deadlock" else ""
    except InvalidLaunch:
        return ""
    return "other" if any(differ) else "same"


def judge_in_child(name: str, number: int, limit: float, offline: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", name, str(number), *["--offline"] * offline]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TEGULA_CACHE_DIR": cache}
        try:
            process = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            return {"outcome": "hangs"}
    if process.returncode:
        return {"outcome": "fault", "message": process.stderr.strip().splitlines()[-1:]}
    return json.loads(process.stdout.splitlines()[-1])


# In a process of its own ----------------------------------------------------------------------------------------------


def mutate(name: str, number: int) -> list[str]:
    """Patch the GPU pipeline, so that kernels are changed after lowering as the mutant of a number is. The result names
    the changes that have been made."""
    from mutation.operators import mutants
    from mutation.subjects import Subject

    import tegula as tg
    from tegula.passes import pipeline_gpu
    from tegula.runtime import automatic

    for_gpu = pipeline_gpu.for_gpu
    changes: list[str] = []

    def for_mutated_gpu(kernel: Any, *args: Any, **options: Any) -> Any:
        parts = for_gpu(kernel, *args, **options)
        result: Any = None
        candidates: Sequence[Mutant] = list(mutants(Subject(name, kernel, parts, result, (), [])))
        candidates[number].apply()
        changes.append(candidates[number].change)
        return parts

    pipeline_gpu.for_gpu = automatic.for_gpu = for_mutated_gpu
    tg.config.check_schedules, tg.config.cache_kernels = "warning", False
    return changes


def compile_mutant(name: str, number: str) -> dict[str, Any]:
    """Compile the mutant for sm_90a."""
    from mutation.subjects import MAKERS
    from schedules import traced

    from tegula.runtime.cuda.compile import build
    from tegula.target import get_cuda_target

    kernel, ndim, *_ = MAKERS[name]
    changes = mutate(name, int(number))
    traced_kernel = build(traced(kernel(), ndim), get_cuda_target("sm_90a"), False)
    assert changes, "the mutant was not compiled"
    return {
        "outcome": "compiled",
        "bytes": len(traced_kernel.code),
        "registers": traced_kernel.metadata["registers"],
    }


def launch_mutant(name: str, number: str) -> dict[str, Any]:
    """Launch the mutant and compare its results with the results of the kernel."""
    from mutation.subjects import MAKERS

    import tegula as tg

    make, ndim, args, _ = MAKERS[name]
    rng, kernel = np.random.default_rng(1), make()
    arguments = args(*SIZES[name])
    arrays = [
        tg.array(rng.integers(-2, 3, x.shape).astype(x.dtype), device="cuda:0")
        if isinstance(x, np.ndarray)
        else x
        for x in arguments
    ]
    written = [k for k in OUTPUTS[name] if isinstance(arguments[k], np.ndarray)]
    dim = (*(1,) * (ndim - 2), BLOCKS[name])

    def stored_results() -> list[bytes]:
        for k in written:
            arrays[k].zero_()
        tg.launch_tiled(kernel, dim=dim, inputs=arrays)
        return [arrays[k].numpy().tobytes() for k in written]

    expected = stored_results()
    if stored_results() != expected:
        return {"outcome": "the kernel itself does not repeat its results"}
    kernel.unload()
    changes = mutate(name, int(number))
    wrong = sum(stored_results() != expected for _ in range(LAUNCHES))
    assert changes, "the mutant was not compiled"
    return {"outcome": "wrong" if wrong else "as expected", "launches": LAUNCHES, "wrong": wrong}


OUTPUTS = {
    "matmul": (5,),
    "matmul32": (5,),
    "attention": (4, 5),
    "chain": (2,),
    "producers": (2,),
    "persistent": (1, 2),
}
"""The positions of the arguments that each kernel writes."""

if __name__ == "__main__":
    sys.exit(main())
