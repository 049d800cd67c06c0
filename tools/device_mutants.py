"""Runs mutants of schedules on a GPU: mutants that the checker refutes and whose replays end with wrong results.

    python tools/device_mutants.py --save benchmarks/results/device-mutants.json
    python tools/device_mutants.py --each 5 --subject chain
    python tools/device_mutants.py --offline       compiles them only

Each mutant (tools/mutants.py) is launched repeatedly on the same data in a process of its own, and its results are
compared with those of the kernel. A process that takes too long is ended. The outcome is the number of launches with
other results, or a hang or fault. Right results prove nothing: the order in which a mutant goes wrong may be rare."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
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


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--each", type=int, default=8, help="the number of mutants of each kernel")
    parser.add_argument("--subject", action="append")
    parser.add_argument("--limit", type=float, default=60.0, help="the time limit of a mutant in seconds")
    parser.add_argument("--offline", action="store_true", help="compile for sm_90a, launch nothing")
    parser.add_argument("--save", type=Path)
    parser.add_argument("--one", nargs=2, metavar=("SUBJECT", "NUMBER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(compiled(*options.one) if options.offline else launched(*options.one)))
        return 0
    rows: list[dict[str, Any]] = []
    for name in options.subject or SIZES:
        for number, judged in chosen(name, options.each):
            row = {"kernel": name, **judged, **in_process(name, number, options.limit, options.offline)}
            rows.append(row)
            print(*(f"{key}: {value}" for key, value in row.items()), sep=", ", flush=True)
            if options.save:
                options.save.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


def chosen(name: str, count: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Mutants by number that the checker refutes, that end in every order, and that have wrong results or a race in
    one."""
    from mutation.judge import Judge
    from mutation.subjects import subject

    from tegula.check.schedule import check_schedule

    judge = Judge(subject(name), ORDERS)
    found: set[str] = set()
    for number, mutant in enumerate(judge.mutants):
        if len(found) == count:
            return
        if mutant.operator in found:
            continue  # one of each operator
        try:
            mutant.apply()
            verdict = check_schedule(judge.subject.kernel, judge.subject.parts)
            wrong = verdict.status == "refuted" and ends(judge)
        finally:
            judge.saved.restore(judge.subject)
        if wrong:
            found.add(mutant.operator)
            yield number, {"operator": mutant.operator, "change": mutant.what, "checker": verdict.kind}


def ends(judge: Any) -> bool:
    """Whether a mutant ends in all orders of its largest launch, even with races, and has other results in one."""
    from tegula.interp.engines.launch import EngineLaunch
    from tegula.interp.engines.orders import orders
    from tegula.interp.engines.state import ReplayFailed
    from tegula.interp.engines.trace import Wrong

    subject = judge.subject
    try:
        launch = EngineLaunch(subject.made, subject.launches[0], subject.dims)
        roles = [role for role, *_ in launch.programs]
        return any([launch.play(o, blind=True) != judge.stored[0] for o in orders(roles, ORDERS)])
    except (Wrong, ReplayFailed):
        return False


def in_process(name: str, number: int, limit: float, offline: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", name, str(number), *["--offline"] * offline]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TEGULA_CACHE_DIR": cache}
        try:
            made = subprocess.run(
                command, capture_output=True, text=True, timeout=limit, env=environment, check=False
            )
        except subprocess.TimeoutExpired:
            return {"outcome": "hangs"}
    if made.returncode:
        return {"outcome": "fault", "message": made.stderr.strip().splitlines()[-1:]}
    return json.loads(made.stdout.splitlines()[-1])


# In a process of its own ---------------------------------------------------------------------------------------------


def spoil(name: str, number: int) -> None:
    """Patch the GPU pipeline, so that kernels are changed after lowering as the mutant of a number is."""
    from mutation.operators import mutants
    from mutation.subjects import Subject

    from tegula.passes import pipeline_gpu

    plain = pipeline_gpu.for_gpu

    def spoiled(kernel: Any, *args: Any, **options: Any) -> Any:
        parts = plain(kernel, *args, **options)
        made: Any = None
        found: Sequence[Mutant] = list(mutants(Subject(name, kernel, parts, made, (), [])))
        found[number].apply()
        return parts

    pipeline_gpu.for_gpu = spoiled


def compiled(name: str, number: str) -> dict[str, Any]:
    """Compile the mutant for sm_90a."""
    from mutation.subjects import MAKERS
    from schedules import traced

    import tegula as tg
    from tegula.runtime.cuda.compile import build
    from tegula.target import get_cuda_target

    kernel, ndim, *_ = MAKERS[name]
    tg.config.check_schedules = "warning"
    spoil(name, int(number))
    made = build(traced(kernel(), ndim), get_cuda_target("sm_90a"), False)
    return {"outcome": "compiled", "bytes": len(made.code), "registers": made.metadata["registers"]}


def launched(name: str, number: str) -> dict[str, Any]:
    """Launch the mutant and compare its results with those of the kernel."""
    from mutation.subjects import MAKERS

    import tegula as tg

    make, ndim, args, _ = MAKERS[name]
    rng, kernel = np.random.default_rng(1), make()
    given = args(*SIZES[name])
    arrays = [
        tg.array(rng.integers(-2, 3, x.shape).astype(x.dtype), device="cuda:0")
        if isinstance(x, np.ndarray)
        else x
        for x in given
    ]
    written = OUTPUTS[name]
    dim = (*(1,) * (ndim - 2), BLOCKS[name])

    def stored() -> list[bytes]:
        for k in written:
            arrays[k].zero_()
        tg.launch_tiled(kernel, dim=dim, inputs=arrays)
        return [arrays[k].numpy().tobytes() for k in written]

    expected = stored()
    if stored() != expected:
        return {"outcome": "the kernel itself does not repeat its results"}
    kernel.unload()
    tg.config.check_schedules = "warning"
    spoil(name, int(number))
    wrong = sum(stored() != expected for _ in range(LAUNCHES))
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
