"""Runs the named kernels on this machine's GPU under compute-sanitizer's tools, and prints the findings of each.

Usage: python tools/sanitize.py [--into FILE] [TOOL ...]

TOOL is memcheck, racecheck, synccheck or initcheck; by default the first three run concurrently. Exits with 1 if a tool
has a finding that is not in `EXPLAINED`, or if a test fails. Findings in `EXPLAINED` are printed as explained, and
counted. `--program`: a compute-sanitizer that is used instead of the program on the PATH. `--into`: a file for the
findings and versions, as JSON."""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import which
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = "tests/gpu/test_sanitized_kernels.py"
DEFAULT = ("memcheck", "racecheck", "synccheck")
SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+)", re.MULTILINE)
PASSED = re.compile(r"(\d+) passed")
LIMIT = 540
"""The time limit of one tool in seconds."""


@dataclass(frozen=True)
class Access:
    """An access in a report. `kind`: Read or Write; `kernel` and `source`: the function that contains the line and the
    text of the line, if the report has them."""

    kind: str
    kernel: str
    source: str


@dataclass(frozen=True)
class Race:
    """A race between two instructions that racecheck reports. `hazards`: the number of pairs of accesses."""

    first: Access
    second: Access
    hazards: int


@dataclass(frozen=True)
class ExplainedFinding:
    """A finding that is not a fault: its kernel, its lines, the number of its hazards, the reason, and the design note
    that explains it."""

    kernel: str
    writes: str
    reads: str
    hazards: int
    why: str
    note: str

    def covers(self, race: Race) -> bool:
        accesses = {Access("Write", self.kernel, self.writes), Access("Read", self.kernel, self.reads)}
        return {race.first, race.second} == accesses and race.hazards == self.hazards


EXPLAINED = (
    ExplainedFinding(
        kernel="chain",
        writes="tg.tile_pipe_push(squares, row * row)",
        reads="tg.tile_store(out, tg.tile_pipe_pop(squares), offset=(k, 0))",
        hazards=31 * 4 * (10 + 8),
        why="one lane arrives at a memory barrier for a synchronised warp: racecheck knows no order of the others",
        note="docs/design/032-one-arrival-of-a-warp.md",
    ),
)


# Reports -------------------------------------------------------------------------------------------------------------

ACCESS = r"(Read|Write) access at \S+(?: in (\S+?):(\d+))?"
FIRST = re.compile(rf"Race reported between {ACCESS}")
SECOND = re.compile(rf"and {ACCESS}.* \[(\d+) hazards?\]")


def races(text: str, sources: Path = ROOT / "tests") -> list[Race]:
    """The pairs of accesses that racecheck reports; a report names the first access once for several second
    accesses."""
    reported: list[Race] = []
    first: Access | None = None
    for line in text.splitlines():
        if opening := FIRST.search(line):
            first = _access(opening[1], opening[2], opening[3], sources)
        elif (second_line := SECOND.search(line)) and first is not None:
            reported.append(
                Race(
                    first,
                    _access(second_line[1], second_line[2], second_line[3], sources),
                    int(second_line[4]),
                )
            )
    return reported


def _access(kind: str, file: str | None, line: str | None, sources: Path) -> Access:
    """An access with its kernel and source line; reports name files without their folders."""
    for path in sources.rglob(Path(file).name) if file and line else ():
        text, number = path.read_text(encoding="utf-8"), int(line or 0)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.lineno <= number <= (node.end_lineno or 0):
                return Access(kind, node.name, text.splitlines()[number - 1].strip())
    return Access(kind, "", "")


def summarise(text: str, status: int, explained: Sequence[ExplainedFinding] = EXPLAINED) -> dict[str, Any]:
    """The findings of a tool. `clean`: all findings are explained, and the tests passed."""
    match, passed = SUMMARY.search(text), PASSED.search(text)
    findings = int(match[1]) if match else None
    explanations = [(r, next((e for e in explained if e.covers(r)), None)) for r in races(text)]
    explained_races = [asdict(e) for _, e in explanations if e is not None]
    return {
        "findings": findings,
        "explained": explained_races,
        "passed": int(passed[1]) if passed else 0,
        "status": status,
        "clean": findings == len(explained_races)
        and len(explanations) == len(explained_races)
        and status == 0,
    }


# Running -------------------------------------------------------------------------------------------------------------


def start(program: str, tool: str) -> subprocess.Popen[str]:
    """Start a tool on all named kernels. Driver calls may fail by design, to distinguish kinds of memory, so memcheck
    does not report them."""
    command = [program, "--tool", tool, "--target-processes", "all"]
    command += ["--report-api-errors", "no"] if tool == "memcheck" else []
    command += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS]
    environment = {**os.environ, "TEGULA_LINE_INFO": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, text=True, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def outcome(process: subprocess.Popen[str], end: float) -> tuple[dict[str, Any], str]:
    try:
        text, _ = process.communicate(timeout=max(1.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
        text += f"\nended after {LIMIT} s"
    return summarise(text, process.returncode), text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tools", nargs="*", default=DEFAULT, metavar="TOOL")
    parser.add_argument("--program", default="compute-sanitizer")
    parser.add_argument("--into", type=Path)
    options = parser.parse_args()
    if which(options.program) is None:
        print("There is no compute-sanitizer on the PATH; it is a part of the CUDA toolkit.")
        return 2
    end = time.monotonic() + LIMIT
    processes = {tool: start(options.program, tool) for tool in options.tools}
    summary: dict[str, Any] = {}
    for tool, process in processes.items():
        summary[tool], text = outcome(process, end)
        counts = {k: v for k, v in summary[tool].items() if k != "explained"}
        print(f"{tool}: {counts}", flush=True)
        for race in summary[tool]["explained"]:
            print(
                f"    explained: {race['kernel']}, {race['hazards']} hazards: {race['why']} ({race['note']})"
            )
        if not summary[tool]["clean"]:
            print("\n".join(line for line in text.splitlines() if line.strip())[-6000:], flush=True)
    if options.into:
        version = subprocess.run([options.program, "--version"], capture_output=True, text=True).stdout
        data = {
            "tests": TESTS,
            "tools": summary,
            "python": platform.python_version(),
            "sanitizer": version.strip(),
        }
        options.into.write_text(json.dumps(data, indent=1) + "\n")
    return 0 if all(t["clean"] for t in summary.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
