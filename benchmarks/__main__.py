"""`python -m benchmarks [--gate] [--save NAME] [FILTER]`: run the rows whose name holds FILTER."""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import click
from rich.console import Console
from rich.table import Table

from benchmarks import cpu, latency
from benchmarks.measure import Report, Row


@click.command()
@click.argument("wanted", default="")
@click.option("--gate", is_flag=True, help="Exit with 1 if a row misses its threshold.")
@click.option("--save", default="", help="Name of the JSON file in benchmarks/results.")
@click.option("--only", type=click.Choice(["cpu", "latency"]), default=None)
def main(wanted: str, gate: bool, save: str, only: str | None) -> None:
    """Measure, print a table, keep the numbers."""
    console, report = Console(), Report()
    for family in (latency, cpu):
        if only is not None and not family.__name__.endswith(only):
            continue
        for row in family.rows():
            if wanted in row.name:
                report.rows.append(row)
                console.print(_line(row))
    console.print(_table(report))
    if save:
        console.print(f"written to {report.save(save)}")
    if gate and not all(row.passes for row in report.rows):
        raise SystemExit(1)


def _line(row: Row) -> str:
    ratio = f", {row.ratio:.2f} of {row.peer}" if row.ratio is not None else ""
    return f"{row.name}: {row.value:.3g} {row.unit}{ratio}"


def _table(report: Report) -> Table:
    table = Table("benchmark", "value", "peer", "ratio", "threshold", "error", "")
    for row in report.rows:
        peer = f"{row.peer_value:.3g} ({row.peer})" if row.peer_value is not None else ""
        table.add_row(
            row.name,
            f"{row.value:.3g} {row.unit}",
            peer,
            f"{row.ratio:.2f}" if row.ratio is not None else "",
            f"{row.threshold:.2f}" if row.threshold is not None else "",
            f"{row.error:.1e}" if row.error is not None else "",
            "ok" if row.passes else "MISSED",
        )
    return table


if __name__ == "__main__":
    main()
