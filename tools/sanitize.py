"""Run the named kernels on this machine's GPU under compute-sanitizer's tools, and say what each found.

Usage: python tools/sanitize.py [--into FILE] [TOOL ...]

TOOL is memcheck, racecheck, synccheck or initcheck; without one the first three run, at the same time. Exits with 1 if
one finds anything or a test fails. `--into` writes what was found, with versions, as JSON."""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from shutil import which
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TESTS = "tests/gpu/test_named_kernels.py"
DEFAULT = ("memcheck", "racecheck", "synccheck")
SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+)", re.MULTILINE)
PASSED = re.compile(r"(\d+) passed")
LIMIT = 540
"""Seconds for one tool."""


def start(tool: str) -> subprocess.Popen[str]:
    """One tool over all named kernels. Calls that the driver refuses tell kinds of memory apart; they are no errors."""
    command = ["compute-sanitizer", "--tool", tool, "--target-processes", "all"]
    command += ["--report-api-errors", "no"] if tool == "memcheck" else []
    command += [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def outcome(process: subprocess.Popen[str], end: float) -> tuple[dict[str, Any], str]:
    try:
        text, _ = process.communicate(timeout=max(1.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
        text += f"\nended after {LIMIT} s"
    found, passed = SUMMARY.search(text), PASSED.search(text)
    findings = int(found[1]) if found else None
    told = {"findings": findings, "passed": int(passed[1]) if passed else 0, "status": process.returncode}
    return {**told, "clean": findings == 0 and process.returncode == 0}, text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tools", nargs="*", default=DEFAULT, metavar="TOOL")
    parser.add_argument("--into", type=Path)
    asked = parser.parse_args()
    if which("compute-sanitizer") is None:
        print("There is no compute-sanitizer on the PATH; it is a part of the CUDA toolkit.")
        return 2
    end = time.monotonic() + LIMIT
    running = {tool: start(tool) for tool in asked.tools}
    told: dict[str, Any] = {}
    for tool, process in running.items():
        told[tool], text = outcome(process, end)
        print(f"{tool}: {told[tool]}", flush=True)
        if not told[tool]["clean"]:
            print("\n".join(line for line in text.splitlines() if line.strip())[-6000:], flush=True)
    if asked.into:
        version = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True).stdout
        data = {
            "tests": TESTS,
            "tools": told,
            "python": platform.python_version(),
            "sanitizer": version.strip(),
        }
        asked.into.write_text(json.dumps(data, indent=1) + "\n")
    return 0 if all(t["clean"] for t in told.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
