"""Compiles all forms for sm_90a and writes a JSON report, whose diff shows the effects of a change of the compiler."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.compile_report import machine_code
from benchmarks.compile_report.forms import PreparedKernels, forms
from benchmarks.measure import RESULTS
from tegula.backend import ptx
from tegula.ir import Kernel
from tegula.runtime.automatic import build
from tegula.target import get_cuda_target

TARGET = get_cuda_target("sm_90a")
PATH = RESULTS / "compile-sm_90a.json"
TIMES = ("seconds",)
"""The fields of a row that differ between runs."""
Row = dict[str, Any]


def row(name: str, kernel: Kernel) -> Row:
    """The row of a prepared kernel, which the passes change.

    `registers` of a thread, `spill_bytes` stored and loaded, `shared_bytes` and `threads` of a block; `schedule`: the
    automatic schedule, or the reason why the kernel has no schedule; `verdict`: of the checker on its roles. `loop`,
    for the main loop, and `whole`: numbers of instructions by family; `waits`: the number of matmul groups that each
    wait of the main loop leaves in flight. `seconds`: the CPU time of the passes, LLVM and ptxas, which other programs
    change less than the elapsed time; nothing of a kernel is compiled in parallel."""
    start = _cpu_seconds()
    built = build(kernel, TARGET)
    seconds = _cpu_seconds() - start
    code = machine_code.read(built.cubin.sass())
    loop = machine_code.main_loop(code)
    return {
        "name": name,
        "registers": built.cubin.registers,
        "spill_bytes": built.cubin.spill_bytes,
        "shared_bytes": built.code.shared_bytes,
        "threads": built.code.threads,
        "schedule": str(built.schedule),
        "verdict": built.verdict.status,
        "waits": machine_code.waits(loop),
        "loop": machine_code.counts(loop),
        "whole": machine_code.counts(code.instructions),
        "seconds": round(seconds, 3),
    }


def _cpu_seconds() -> float:
    """The CPU time of this process and of the programs that it has run."""
    usages = (
        resource.getrusage(process_kind) for process_kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(u.ru_utime + u.ru_stime for u in usages)


def rows(name_filter: str) -> Iterator[Row]:
    """The rows of all forms whose name contains one of the alternatives of `name_filter`, which are separated by |."""
    for name, make in forms().items():
        if any(part in name for part in name_filter.split("|")):
            yield from rows_of(name, make)


def rows_of(name: str, make: Callable[[], PreparedKernels]) -> Iterator[Row]:
    """A row for each kernel of a form."""
    for suffix, kernel in make():
        yield row(name + suffix, kernel)


def assembler() -> str:
    """The version of the ptxas in use, for the report."""
    programs = ptx.candidates()
    return ptx.version(programs[0]) if programs else "none"


def read(path: Path = PATH) -> dict[str, Any]:
    """The committed report: `ptxas`, and `rows` by name."""
    stored = json.loads(path.read_text())
    return {**stored, "rows": {r["name"]: r for r in stored["rows"]}}


def save(measured: list[Row], path: Path = PATH, replace_all: bool = True) -> Path:
    """Write the report; unless `replace_all`, rows that were not compiled again are kept."""
    stored_rows = read(path)["rows"] if path.exists() and not replace_all else {}
    stored_rows |= {r["name"]: r for r in measured}
    lines = ",\n".join(f"  {json.dumps(r)}" for r in stored_rows.values())
    path.write_text(f'{{"ptxas": "{assembler()}", "rows": [\n{lines}\n]}}\n')
    return path


def differences(measured: Row, stored: Row | None) -> list[str]:
    """The changes of a row as text; none if only times differ."""
    if stored is None:
        return [f"{measured['name']}: new"]
    changed: list[str] = []
    for metric, value in _flat(measured):
        old_value = dict(_flat(stored)).get(metric)
        if old_value != value and metric not in TIMES:
            changed.append(f"{measured['name']}: {metric} {old_value} -> {value}")
    return changed


def _flat(r: Row) -> Iterator[tuple[str, Any]]:
    for metric, value in r.items():
        if isinstance(value, dict):
            yield from ((f"{metric}.{part}", count) for part, count in value.items())
        else:
            yield metric, value
