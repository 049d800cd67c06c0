"""Writes the tables of measurements in docs/performance.md and README.md from benchmarks/results.

Usage: python tools/figures.py

A table stands between `<!-- figures: NAMES -->` and `<!-- end of figures -->`, where NAMES is a key of TABLES."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ("README.md", "docs/performance.md")
TABLES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "all": (
        ("cpu-zen5", "gemm float32 1024 tile 64x64x64 plain", "matmul float32 1024³"),
        ("cpu-zen5", "four-operation chain 64 MiB", "four operations on float32, 64 MiB"),
        (
            "cpu-zen5",
            "lanes: if, exp, multiply-add 64 MiB",
            "`if`, `exp`, multiply-add for each element, 64 MiB",
        ),
        ("cpu-zen5", "row softmax 4096x1024", "softmax float32 4096 x 1024"),
        ("gpu-h200", "copy float32, tile 1024", "copy float32, tiles of 1024"),
        ("gpu-h200", "copy float32, one element per thread", "copy float32, one element for each thread"),
        ("gpu-h200", "softmax bfloat16 16384x4096", "softmax bfloat16 16384 x 4096"),
        ("gpu-h200", "layernorm bfloat16 16384x4096", "layernorm bfloat16 16384 x 4096"),
        ("gpu-h200-library", "library matmul bfloat16 8192x8192x8192", "`kernels.matmul` bfloat16 8192³"),
        ("gpu-h200-library", "library matmul bfloat16 5000x5000x5000", "`kernels.matmul` bfloat16 5000³"),
        (
            "gpu-h200-library",
            "library matmul bfloat16 256x256x65536",
            "`kernels.matmul` bfloat16 256 x 256 x 65536",
        ),
        (
            "gpu-h200-library",
            "library attention bfloat16 8k causal, batch 1, 16 heads of 128",
            "`kernels.attention` bfloat16, causal, 8192, heads of 128",
        ),
        (
            "gpu-h200-library",
            "library attention bfloat16 8k, batch 1, 16 heads of 64",
            "`kernels.attention` bfloat16, 8192, heads of 64",
        ),
    ),
}
TABLES["few"] = tuple(TABLES["all"][k] for k in (0, 3, 6, 8, 9, 11, 12))
"""Rows: the file, the name in the file, and the name in the table."""
TABLE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


@cache
def results(file: str) -> dict[str, Any]:
    """A file of results."""
    return json.loads((RESULTS / f"{file}.json").read_text(encoding="utf-8"))


def table(name: str) -> str:
    """The lines of a table."""
    lines = ["| kernel | Tegula | peer | ratio | device | date |", "|---|---|---|---|---|---|"]
    lines += [_row(file, row, columns) for file, row, columns in TABLES[name]]
    return "".join(f"{line}\n" for line in lines)


def _row(file: str, name: str, columns: str) -> str:
    row = next(stored_row for stored_row in results(file)["rows"] if stored_row["name"] == name)
    machine = results(file)["machines"][row["machine"]]
    device = machine.get("gpu") or f"{machine['cpu']}, {machine['cores']} cores"
    value, peer, unit = row["value"], row["peer_value"], row["unit"]
    ratio = row["ratio"] or (peer / value if unit in ("ms", "us") else value / peer)
    cells = (columns, f"{_number(value)} {unit}", f"{row['peer']} {_number(peer)}", f"{ratio:.2f}", device)
    return f"| {' | '.join(cells)} | {machine['date']} |"


def _number(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}"


def with_tables(text: str) -> str:
    """A page with tables of the measured numbers."""
    return TABLE.sub(lambda match: f"{match[1]}{table(match[2])}{match[3]}", text)


def main() -> None:
    """Write the tables."""
    for page in PAGES:
        path = ROOT / page
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
