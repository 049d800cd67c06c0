"""The summary of the rows of the sweep: a table and a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from rich.table import Table

from benchmarks.measure import Row
from benchmarks.sweep.points import GRADIENTS, PREFIX

MIN_RATIO = 0.8
"""The ratio below which a point is slower than its peer."""


def group(row: Row) -> str:
    """The group of a row: matmul, attention or rows, or the gradients of such a group."""
    kind = row.name.removeprefix(PREFIX).partition(",")[0]
    return f"{kind}{GRADIENTS}" if row.name.endswith(GRADIENTS) else kind


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows by group, forward groups first."""
    by_group: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: row.name.endswith(GRADIENTS)):
        by_group.setdefault(group(row), []).append(row)
    return by_group


def mean(rows: Sequence[Row]) -> float:
    """The geometric mean of the ratios; NaN if no row has a ratio."""
    logs = [math.log(row.ratio) for row in rows if row.ratio]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def summary(rows: Sequence[Row]) -> Table:
    """A line for each group and a line for all forward points: the number of points, the geometric mean, the worst
    point."""
    table = Table("group", "points", "without ratio", "geometric mean", "worst", "")
    forward = [row for row in rows if not row.name.endswith(GRADIENTS)]
    for name, members in {**groups(rows), "all but gradients": forward}.items():
        ratios = [row for row in members if row.ratio]
        worst = min(ratios, key=lambda row: row.ratio or math.inf, default=None)
        table.add_row(
            name,
            str(len(members)),
            str(len(members) - len(ratios)),
            f"{mean(members):.3f}",
            f"{worst.ratio:.3f}" if worst is not None else "",
            worst.name.removeprefix(PREFIX) if worst is not None else "",
        )
    return table


def slower_than_peer(rows: Sequence[Row]) -> Table:
    """Every point below MIN_RATIO or without a ratio, the worst first."""
    table = Table("below 0.8", "ratio", "target", "peer", "why, or the schedule")
    slow_rows = [row for row in rows if row.ratio is None or row.ratio < MIN_RATIO]
    for row in sorted(slow_rows, key=lambda row: row.ratio or 0.0):
        table.add_row(
            row.name.removeprefix(PREFIX),
            f"{row.ratio:.3f}" if row.ratio else "",
            f"{row.threshold:.2f}" if row.threshold else "",
            row.peer,
            (row.failure or row.note)[:160],
        )
    return table


LABELS, SCALE, LINE, MAX_RATIO = 330, 420, 15, 1.2
"""The pixels of the names, of a ratio of 1 and of a line, and the maximum ratio in the picture."""


def picture(rows: Sequence[Row], title: str) -> str:
    """A picture in SVG: a dot for each point at its ratio, on lines at MIN_RATIO and at 1, by group."""
    body: list[str] = []
    y = 40

    def text(x: float, heading: str, kind: str = "") -> None:
        body.append(f'<text x="{x:.0f}" y="{y}" class="{kind}">{escape(heading)}</text>')

    for name, members in groups(rows).items():
        y += LINE
        text(8, f"{name}: geometric mean {mean(members):.3f}", "group")
        for row in members:
            y += LINE
            text(16, row.name.removeprefix(PREFIX).removesuffix(GRADIENTS).partition(", ")[2])
            if row.ratio is None:
                text(LABELS, "failed" if row.failure else "no peer", "lost")
                continue
            x = LABELS + SCALE * min(row.ratio, MAX_RATIO)
            kind = "lost" if row.ratio < MIN_RATIO else "won"
            body.append(f'<circle cx="{x:.1f}" cy="{y - 4}" r="4" class="{kind}"/>')
            text(LABELS + SCALE * MAX_RATIO + 10, f"{row.ratio:.3f} {row.peer}", kind)
    lines = [
        f'<line x1="{x:.0f}" x2="{x:.0f}" y1="34" y2="{y}"/>'
        for x in (LABELS + SCALE * ratio for ratio in (0.0, MIN_RATIO, 1.0))
    ]
    style = (
        "text{font:11px sans-serif;fill:#222}.group{font-weight:bold}.lost{fill:#c22}.won{fill:#222}"
        "line{stroke:#bbb}circle.won{fill:#27c}circle.lost{fill:#c22}"
    )
    width = LABELS + SCALE * MAX_RATIO + 190
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{y + 20}">'
    heading = f'<text x="8" y="20" class="group">{escape(title)}</text>'
    background = '<rect width="100%" height="100%" fill="white"/>'
    return "\n".join([head, f"<style>{style}</style>", background, heading, *lines, *body, "</svg>\n"])


def draw(rows: Sequence[Row], path: Path) -> Path:
    """Write the picture of the rows to a file."""
    path.write_text(picture(rows, f"Speed relative to the fastest peer, {len(rows)} points"))
    return path
