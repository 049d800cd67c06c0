"""The process that measures on a GPU may fail in any way: the other cases are measured nevertheless."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.gpu import rows
from benchmarks.measure import Report, Row

WORKER = """
import json, os, sys, time
asked = json.loads(sys.argv[1])
def tell(what):
    print("benchmark: " + json.dumps(what), flush=True)
cases = [n for n in ("good", "wrong", "fatal", "slow", "last") if asked["wanted"] in n and n not in asked["done"]]
print("something else", flush=True)
tell({"device": {"gpu": "none"}, "cases": cases})
for name in cases:
    if name == "fatal":
        print("memory fault", file=sys.stderr, flush=True)
        os._exit(3)
    if name == "slow":
        time.sleep(60)
    row = {"name": name, "value": 2.0, "unit": "ms"}
    if name == "wrong":
        row = {"name": name, "value": None, "unit": "", "failure": "wrong", "passes": False}
    tell({"case": name, "rows": [row]})
"""


def run(tmp_path: Path, seconds: float = 60.0, wanted: str = "", worker: str = WORKER) -> list[Row]:
    report = Report()
    for row in rows(wanted, report, seconds, [sys.executable, "-c", worker], limit=2.0):
        report.rows.append(row)
        report.save("found", tmp_path)
    return report.rows


def test_one_case_does_not_spoil_the_others(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert [(row.name, row.passes) for row in found] == [
        ("good", True), ("wrong", False), ("fatal", False), ("slow", False), ("last", True)
    ]  # fmt: skip
    assert found[2].failure == "the process ended with 3: memory fault"
    assert found[3].failure == "no result within 2 s; the process was ended"
    kept = json.loads((tmp_path / "found.json").read_text())
    assert {kept["machines"][row["machine"]]["gpu"] for row in kept["rows"]} == {"none"}
    assert [row["value"] for row in kept["rows"]] == [2.0, None, None, None, 2.0]


def test_what_no_time_is_left_for_is_named(tmp_path: Path) -> None:
    found = run(tmp_path, seconds=4.0, wanted="good")
    assert [(row.name, row.failure) for row in found] == [("good", "not measured: no time was left")]


def test_a_process_that_cannot_start(tmp_path: Path) -> None:
    (row,) = run(tmp_path, worker="raise SystemExit('no torch')")
    assert (row.name, row.failure) == ("gpu", "the process ended with 1: no torch")


def test_rows_that_were_not_measured_again_stay(tmp_path: Path) -> None:
    """With the machine of their measurement, also in files of the earlier format."""
    earlier = [{"name": "copy", "value": 1.0, "passes": True}, {"name": "sum", "value": 2.0, "passes": True}]
    (tmp_path / "kept.json").write_text(json.dumps({"machine": {"gpu": "old"}, "rows": earlier}))
    report = Report([Row("sum", 3.0, "ms"), Row("softmax", 4.0, "ms")], {"gpu": "new"})
    for _ in range(2):
        report.save("kept", tmp_path)
    kept = json.loads((tmp_path / "kept.json").read_text())
    found = [(row["name"], row["value"], kept["machines"][row["machine"]]["gpu"]) for row in kept["rows"]]
    assert found == [("copy", 1.0, "old"), ("sum", 3.0, "new"), ("softmax", 4.0, "new")]
    assert len(kept["machines"]) == 2 and kept["machines"][1]["date"]
