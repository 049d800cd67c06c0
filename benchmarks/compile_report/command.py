"""`python -m benchmarks --compile-only`: compiles all forms, prints the changes, and writes the report."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table

from benchmarks.compile_report import report

COLUMNS = ("registers", "spill_bytes", "shared_bytes", "threads", "verdict")
COUNTS = ("instructions", "tensor", "barriers", "shared", "global")
WIDTH = 170
"""The width of the table if the output is not a terminal."""


def compile_forms(name_filter: str, compare: bool) -> int:
    """Compile the forms whose name contains `name_filter` and write the report. With `compare` nothing is written, and
    1 is returned if a row differs from the committed report in more than times."""
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    committed_rows = report.read()["rows"] if report.PATH.exists() else {}
    measured: list[report.Row] = []
    changed: list[str] = []
    for row in report.rows(name_filter):
        measured.append(row)
        changed += report.differences(row, committed_rows.get(row["name"]))
        console.print(f"{row['name']}: {row['seconds']:.2f} s", markup=False, highlight=False)
    console.print(_table(measured))
    for line in changed or ["nothing changed"]:
        console.print(line, markup=False, highlight=False)
    if compare:
        return int(bool(changed))
    console.print(f"written to {report.save(measured, replace_all=not name_filter)}")
    return 0


def _table(rows: list[report.Row]) -> Table:
    table = Table(
        "kernel", *COLUMNS, *(f"loop: {c}" for c in COUNTS), "in flight at waits", "instructions", "s"
    )
    for row in rows:
        counts = [str(row["loop"][c]) for c in COUNTS]
        waits = " ".join(map(str, row["waits"]))
        total_instructions = str(row["whole"]["instructions"])
        table.add_row(
            row["name"],
            *(str(row[c]) for c in COLUMNS),
            *counts,
            waits,
            total_instructions,
            f"{row['seconds']:.2f}",
        )
    return table
