"""Any failure of the measuring process leaves the other cases of a benchmark intact."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.gpu import NO_TIME, rows
from benchmarks.measure import Report, Row, commit, saved_rows
from benchmarks.sweep.table import mean, picture, slower_than_peer, summary

WORKER = """
import json, os, sys, time
request = json.loads(sys.argv[1])
def send(message):
    print("benchmark: " + json.dumps(message), flush=True)
names = ("good", "wrong", "fatal", "slow", "last")
cases = [n for n in names if request["name_filter"] in n and n not in request["done"]]
print("something else", flush=True)
send({"device": {"gpu": "none"}, "cases": cases})
for name in cases:
    if name == "fatal":
        print("memory fault", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "slow":
        time.sleep(60)
    row = {"name": name, "value": 2.0, "unit": "ms"}
    if name == "wrong":
        row = {"name": name, "value": None, "unit": "", "failure": "wrong", "passes": False}
    send({"case": name, "rows": [row]})
"""


def run(tmp_path: Path, seconds: float = 60.0, name_filter: str = "", worker: str = WORKER) -> list[Row]:
    report = Report()
    for row in rows(name_filter, report, seconds, [sys.executable, "-c", worker], limit=2.0):
        report.rows.append(row)
        report.save("found", tmp_path)
    return report.rows


def test_a_failing_benchmark_does_not_affect_others(tmp_path: Path) -> None:
    actual = run(tmp_path)
    assert [(row.name, row.passes) for row in actual] == [
        ("good", True), ("wrong", False), ("fatal", False), ("slow", False), ("last", True)
    ]  # fmt: skip
    assert actual[2].failure == "the process ended with 3: memory fault"
    assert actual[3].failure == "no result within 2 s; the process was ended"
    report = json.loads((tmp_path / "found.json").read_text())
    assert {report["machines"][row["machine"]]["gpu"] for row in report["rows"]} == {"none"}
    assert [row["value"] for row in report["rows"]] == [2.0, None, None, None, 2.0]


def test_benchmarks_without_time_left_are_named(tmp_path: Path) -> None:
    actual = run(tmp_path, seconds=4.0, name_filter="good")
    assert [(row.name, row.failure) for row in actual] == [("good", "not measured: no time was left")]


def test_a_benchmark_process_that_cannot_start_is_reported(tmp_path: Path) -> None:
    (row,) = run(tmp_path, worker="raise SystemExit('no torch')")
    assert (row.name, row.failure) == ("gpu", "the process ended with 1: no torch")


def test_rows_of_results_without_a_new_measurement_are_preserved(tmp_path: Path) -> None:
    """Rows keep the machine of their measurement, also in files of the earlier format."""
    earlier = [{"name": "copy", "value": 1.0, "passes": True}, {"name": "sum", "value": 2.0, "passes": True}]
    (tmp_path / "kept.json").write_text(json.dumps({"machine": {"gpu": "old"}, "rows": earlier}))
    report = Report([Row("sum", 3.0, "ms"), Row("softmax", 4.0, "ms")], {"gpu": "new"})
    for _ in range(2):
        report.save("kept", tmp_path)
    saved = json.loads((tmp_path / "kept.json").read_text())
    stored = [(row["name"], row["value"], saved["machines"][row["machine"]]["gpu"]) for row in saved["rows"]]
    assert stored == [("copy", 1.0, "old"), ("sum", 3.0, "new"), ("softmax", 4.0, "new")]
    assert len(saved["machines"]) == 2 and saved["machines"][1]["date"]


def test_a_benchmark_beyond_the_time_limit_is_not_measured(tmp_path: Path) -> None:
    report = Report()
    command = [sys.executable, "-c", WORKER]
    measured = list(rows("slow", report, 6.0, command, limit=60.0, family="sweep"))
    assert [(row.name, row.failure) for row in measured] == [("slow", NO_TIME)]


def test_known_rows_of_results_are_not_measured_again() -> None:
    measured = list(
        rows("", Report(), 60.0, [sys.executable, "-c", WORKER], 2.0, saved_names=["good", "fatal", "slow"])
    )
    assert [row.name for row in measured] == ["wrong", "last"]


def test_rows_of_results_are_read_from_a_commit(tmp_path: Path) -> None:
    Report([Row("sum", 3.0, "ms"), Row("softmax", 4.0, "ms", failure="wrong")]).save("kept", tmp_path)
    assert [row.name for row in saved_rows("kept", tmp_path, commit())] == ["sum", "softmax"]
    assert not saved_rows("kept", tmp_path, "another") and saved_rows("kept", tmp_path)[1].failure == "wrong"
    assert not saved_rows("nothing", tmp_path)


def test_a_run_without_rows_leaves_a_file_that_later_runs_extend(tmp_path: Path) -> None:
    Report().save("empty", tmp_path)
    assert not saved_rows("empty", tmp_path)
    Report([Row("sum", 1.0, "ms")]).save("empty", tmp_path)
    assert [row.name for row in saved_rows("empty", tmp_path)] == ["sum"]


SWEPT = [
    Row("sweep: matmul, base", 1.0, "TFLOP/s", "cuBLAS", 1.0, 1.0),
    Row("sweep: matmul, batched", 1.0, "TFLOP/s", "cuBLAS", 4.0, 0.25),
    Row("sweep: matmul, batched, gradients", 1.0, "TFLOP/s", "cuBLAS", 9.0, 0.09),
    Row("sweep: rows, row scan", float("nan"), "", failure="out of memory"),
]
"""Rows of a sweep."""


def test_the_summary_of_a_sweep_has_worst_and_mean_of_each_group_and_of_all_but_gradients() -> None:
    columns = [list(column.cells) for column in summary(SWEPT).columns]
    assert columns[0] == ["matmul", "rows", "matmul, gradients", "all but gradients"]
    assert columns[3] == ["0.500", "nan", "0.090", "0.500"]
    assert columns[4:] == [
        ["0.250", "", "0.090", "0.250"],
        ["matmul, batched", "", "matmul, batched, gradients", "matmul, batched"],
    ]
    assert mean(SWEPT[:2]) == 0.5


def test_points_that_lose_are_listed_from_the_worst_and_drawn() -> None:
    slower = ["rows, row scan", "matmul, batched, gradients", "matmul, batched"]
    assert list(slower_than_peer(SWEPT).columns[0].cells) == slower
    svg = picture(SWEPT, "a < b")
    assert svg.count("<circle") == 3 and svg.count('class="lost"/>') == 2
    assert "a &lt; b" in svg and ">failed</text>" in svg
