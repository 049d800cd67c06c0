"""Timing of two implementations against each other, and files of results."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 4e-3, "float16": 5e-4, "tf32": 7e-4}
"""The maximum relative error (2-norm) against float64 of a correct result, by the dtype of the result."""


@dataclass(slots=True)
class Row:
    """One measurement. `value` is in `unit`; `ratio` is the speed of the kernel over the speed of the peer (above 1:
    faster); `threshold` bounds the ratio from below, or the value from above where `ratio` is None."""

    name: str
    value: float
    unit: str
    peer: str = ""
    peer_value: float | None = None
    ratio: float | None = None
    threshold: float | None = None
    error: float | None = None
    samples: int = 0
    note: str = ""
    failure: str = ""
    """The reason why there is no measurement; `value` is then NaN."""

    @property
    def passes(self) -> bool:
        if self.failure:
            return False
        if self.threshold is None:
            return True
        return self.ratio >= self.threshold if self.ratio is not None else self.value <= self.threshold

    def json(self) -> dict[str, object]:
        """The row as JSON, with null for a value that was not measured."""
        return {
            **asdict(self),
            "value": None if math.isnan(self.value) else self.value,
            "passes": self.passes,
        }


def failed(name: str, reason: str) -> Row:
    """The row of a benchmark that could not be measured."""
    return Row(name, math.nan, "", failure=reason)


def row_of(data: dict[str, Any]) -> Row:
    """The row of a result of `Row.json`, or of an entry of a file."""
    fields = {k: v for k, v in data.items() if k not in ("passes", "machine", "measured")}
    return Row(**{**fields, "value": math.nan if data["value"] is None else data["value"]})


@dataclass(slots=True)
class Report:
    """The rows of a run. `device`: the properties of the GPU, besides the properties of the machine."""

    rows: list[Row] = field(default_factory=list)
    device: dict[str, object] = field(default_factory=dict)

    def save(self, name: str, folder: Path = RESULTS) -> Path:
        """Write the rows to a file in a folder atomically, each with the time and the machine of its measurement. Rows
        of the file that were not measured again are kept in place."""
        folder.mkdir(exist_ok=True, parents=True)
        path, new = folder / f"{name}.json", folder / f".{name}.json.new"
        rows = {row["name"]: row for row in _read_rows(path)}
        measured = {"date": date.today().isoformat(), **machine(), **self.device}
        rows |= {row.name: {**row.json(), "measured": measured} for row in self.rows}
        new.write_text(_text(list(rows.values())))
        new.replace(path)
        return path


def saved_rows(name: str, folder: Path = RESULTS, commit: str | None = None) -> list[Row]:
    """The rows of a file, or its rows that were measured at a commit."""
    result = _read_rows(folder / f"{name}.json")
    return [row_of(row) for row in result if commit in (None, row["measured"].get("commit"))]


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, each with the machine of its measurement; none if there is no file."""
    if not path.exists():
        return []
    data = json.loads(path.read_text())
    machines = data["machines"] if "machines" in data else [data["machine"]]
    return [
        {**{k: v for k, v in row.items() if k != "machine"}, "measured": machines[row.get("machine", 0)]}
        for row in data["rows"]
    ]


def _text(rows: list[dict[str, Any]]) -> str:
    """The text of a file of rows: each machine is written once, before the rows, which refer to it by its number."""
    machines: list[dict[str, Any]] = []
    numbered: list[dict[str, Any]] = []
    for row in rows:
        machine_properties = row["measured"]
        if machine_properties not in machines:
            machines.append(machine_properties)
        values = {k: v for k, v in row.items() if k != "measured"}
        numbered.append({**values, "machine": machines.index(machine_properties)})
    return json.dumps({"machines": machines, "rows": numbered}, indent=1) + "\n"


@cache
def commit() -> str:
    """The commit of the checkout; without a checkout or git, a hash of the source."""
    if shutil.which("git") is not None:
        process = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
        )
        if process.returncode == 0:
            return process.stdout.strip()
    root, text = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(p for folder in ("src", "benchmarks") for p in (root / folder).rglob("*.py")):
        text.update(path.read_bytes())
    return f"source {text.hexdigest()[:12]}"


def version_of(package: str) -> str:
    """The version of an installed package, or ""."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


@cache
def machine() -> dict[str, object]:
    """The properties of the machine and the versions of packages, determined at the first call."""
    cpu = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "llvmlite": version_of("llvmlite"),
        "commit": commit(),
        "load": os.getloadavg()[0],
    }


def interleaved(
    kernel: Callable[[], object],
    peer: Callable[[], object],
    iterations: int = 9,
    repeats: int = 6,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[float, float, float]:
    """The median seconds of both implementations, and the median over iterations of the ratio of peer time to kernel
    time. Each measurement repeats one implementation, so that idle threads of one implementation disturb only the first
    call of the other. `clock`: `time.process_time` sums the time of all threads."""
    kernel()
    peer()
    ratios, kernel_time, peer_time = [], [], []
    for _ in range(iterations):
        a, b = median_of_calls(kernel, repeats, clock), median_of_calls(peer, repeats, clock)
        kernel_time.append(a)
        peer_time.append(b)
        ratios.append(b / a)
    return statistics.median(kernel_time), statistics.median(peer_time), statistics.median(ratios)


def median_of_calls(
    f: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The median seconds of a few consecutive calls, after a pause in which other threads fall asleep."""
    time.sleep(0.02)
    samples = []
    for _ in range(repeats):
        start = clock()
        f()
        samples.append(clock() - start)
    return statistics.median(samples)


def relative_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """The 2-norm of the difference divided by the 2-norm of `expected`, in float64."""
    difference = actual.astype(np.float64) - expected.astype(np.float64)
    return float(np.linalg.norm(difference) / max(np.linalg.norm(expected.astype(np.float64)), 1e-300))


def require_right(name: str, error: float, dtype: str = "float32") -> None:
    """AssertionError if the relative error of a row's result is above the tolerance of `dtype`."""
    if not error <= TOLERANCE[dtype]:
        raise AssertionError(f"{name}: relative error {error:.2e} is above {TOLERANCE[dtype]:.0e}")


def compare(
    name: str,
    kernel: Callable[[], object],
    peer: Callable[[], object],
    result: Callable[[], np.ndarray],
    expected: np.ndarray,
    work: float,
    unit: str,
    peer_name: str,
    threshold: float | None,
    dtype: str = "float32",
    clock: Callable[[], float] = time.perf_counter,
) -> Row:
    """A row with the speed, `work` per second in `unit`; AssertionError if the result is wrong."""
    kernel()
    error = relative_error(result(), expected)
    require_right(name, error, dtype)
    kernel_time, peer_time, ratio = interleaved(kernel, peer, clock=clock)
    return Row(name, work / kernel_time, unit, peer_name, work / peer_time, ratio, threshold, error, 54)


def fresh_process(code: str, environment: dict[str, str]) -> float:
    """The last number that a new Python process prints; RuntimeError with its error output if it fails."""
    env = {**os.environ, **environment}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    completed = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
    if completed.returncode:
        raise RuntimeError(
            f"the process ended with {completed.returncode}: {completed.stderr.strip()[-600:]}"
        )
    return float(completed.stdout.strip().splitlines()[-1])
