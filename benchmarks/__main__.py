"""`python -m benchmarks [--only FAMILY] [--gate] [--save NAME] [FILTER]`: runs the rows whose name contains FILTER,
which may have several alternatives separated by | for GPU rows and the sweep."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import click
from rich.console import Console
from rich.table import Table

from benchmarks import cpu, gpu, latency, spatial
from benchmarks.measure import RESULTS, Report, Row, commit, saved_rows
from benchmarks.sweep import table as sweep

ON_GPUS = ("gpu", "dense", "sweep")
FAMILIES = ("latency", "cpu", "spatial", *ON_GPUS)
LINE = 170
"""The width of the table if the output is not a terminal."""


@click.command()
@click.argument("name_filter", default="")
@click.option("--gate", is_flag=True, help="Exit with 1 if a row misses its threshold.")
@click.option("--save", default="", help="The name of a JSON file, written after each row.")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=RESULTS,
    help="The folder of the JSON file [benchmarks/results].",
)
@click.option(
    "--only",
    type=click.Choice(FAMILIES),
    default=None,
    help="A family of rows; latency and cpu by default.",
)
@click.option("--seconds", default=210.0, help="The time limit of all GPU rows.", show_default=True)
@click.option("--resume", is_flag=True, help="Leave out rows that the file has from the same commit.")
@click.option(
    "--compile-only",
    is_flag=True,
    help="Compile GPU kernels for sm_90a; with --gate compare and write nothing.",
)
def main(
    name_filter: str,
    gate: bool,
    save: str,
    into: Path,
    only: str | None,
    seconds: float,
    resume: bool,
    compile_only: bool,
) -> None:
    """Run benchmarks, print a table and save the results."""
    if compile_only:
        from benchmarks.compile_report.command import compile_forms

        raise SystemExit(compile_forms(name_filter, gate))
    report = Report()
    console = Console() if sys.stdout.isatty() else Console(width=LINE)
    known_rows = saved_rows(save, into, commit()) if resume and save else []
    saved_names = [row.name for row in known_rows if row.failure != gpu.NO_TIME]
    for row in _rows(name_filter, only, report, seconds, saved_names):
        if resume and row.failure == gpu.NO_TIME:
            console.print(f"left for the next part: {row.name}", markup=False, highlight=False)
            continue
        report.rows.append(row)
        if save:
            report.save(save, into)
        console.print(_line(row), markup=False, highlight=False)
    console.print(_table(report))
    if save:
        console.print(f"written to {report.save(save, into)}")
    if only == "sweep":
        _print_sweep_summary(
            saved_rows(save, into) if save else report.rows, into / f"{save}.svg" if save else None, console
        )
    if gate and not all(row.passes for row in report.rows):
        raise SystemExit(1)


def _rows(
    name_filter: str, only: str | None, report: Report, seconds: float, saved_names: list[str]
) -> Iterator[Row]:
    if only in ON_GPUS:
        limit = gpu.SWEEP_LIMIT if only == "sweep" else gpu.CASE_LIMIT
        yield from gpu.rows(name_filter, report, seconds, limit=limit, family=only, saved_names=saved_names)
        return
    for family in (latency, cpu, spatial):
        if (only is None and family is not spatial) or family.__name__.endswith(str(only)):
            yield from (
                row for row in family.rows() if name_filter in row.name and row.name not in saved_names
            )


def _print_sweep_summary(rows: list[Row], path: Path | None, console: Console) -> None:
    """Print a summary of the sweep's points, and plot them."""
    console.print(sweep.slower_than_peer(rows))
    console.print(sweep.summary(rows))
    if path is not None:
        console.print(f"drawn in {sweep.draw(rows, path)}")


def _line(row: Row) -> str:
    if row.failure:
        return f"{row.name}: FAILED: {row.failure}"
    ratio = f", {row.ratio:.3f} of {row.peer}" if row.ratio is not None else ""
    note = f" ({row.note})" if row.note else ""
    return f"{row.name}: {row.value:.4g} {row.unit}{ratio}{note}"


def _table(report: Report) -> Table:
    table = Table("benchmark", "value", "peer", "ratio", "threshold", "error", "")
    for row in report.rows:
        peer = f"{row.peer_value:.4g} ({row.peer})" if row.peer_value is not None else ""
        table.add_row(
            row.name,
            f"{row.value:.4g} {row.unit}" if not row.failure else "",
            peer,
            f"{row.ratio:.3f}" if row.ratio is not None else "",
            f"{row.threshold:.2f}" if row.threshold is not None else "",
            f"{row.error:.1e}" if row.error is not None else "",
            "FAILED" if row.failure else "ok" if row.passes else "MISSED",
        )
    return table


if __name__ == "__main__":
    main()
