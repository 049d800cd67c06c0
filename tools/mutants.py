"""Mutates the schedules of six kernels at every location, and compares the checker's verdicts with replays.

    python tools/mutants.py                        all mutants, in two processes: about a quarter of an hour
    python tools/mutants.py --part 0/10            every tenth mutant
    python tools/mutants.py --subject chain        mutants of one kernel
    python tools/mutants.py --save docs/mutants.md

Exits with 1 if a mutant that fails in a replay passes the checker, if a mutant that behaves like the kernel does not
pass, or if 2 % of all mutants or more are false alarms."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tegula.dataclass import field_names

if TYPE_CHECKING:
    from mutation.judge import JudgedMutant

ROOT = Path(__file__).resolve().parent.parent
for folder in ("check", "roles", "semantics"):
    sys.path.insert(0, str(ROOT / "tests" / folder))

CHUNKS = 12
"""The number of parts in which a kernel's mutants are judged, each by one process."""
Part = tuple[str, int, int, int]
"""A task: the kernel, the part, the number of parts, and the number of orders of a launch."""
MAX_ALARMS = 0.02
HEAD = """# Mutants of schedules

<!-- Written by tools/mutants.py. -->

Lowered schedules of six kernels, mutated in one place each, judged by [the checker](checker.md) and by {orders}
replays: of each of {launches} launches the same number, adversarial orders first. A mutant *fails* if a replay
deadlocks, has accesses without an order, leaves something on its way, or stores what another order does not.

| | |
|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--part", default="0/1", help="k/n: every nth mutant from the kth on")
    parser.add_argument("--subject", action="append", help="a kernel; may be repeated")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--orders", type=int, help="the number of orders of each launch")
    parser.add_argument("--log", type=Path, help="a file to add results to; its parts are not run again")
    parser.add_argument("--save", type=Path, help="the file to write the page to")
    options = parser.parse_args()
    from mutation.judge import ORDERS
    from mutation.subjects import MAKERS

    count = options.orders or ORDERS
    k, n = map(int, options.part.split("/"))
    names = options.subject or list(MAKERS)
    start = time.monotonic()
    tasks = [(name, k + n * c, n * CHUNKS, count) for c in range(CHUNKS) for name in names]
    stored_results = _read(options.log)
    with ProcessPoolExecutor(options.jobs) as pool:
        for part, judged_mutants in pool.map(
            _judge_part, [part for part in tasks if part not in stored_results]
        ):
            stored_results[part] = judged_mutants
            if options.log:
                _append(options.log, part, judged_mutants)
    judgements = [
        judged_mutants
        for name in names
        for task in tasks
        if task[0] == name
        for judged_mutants in stored_results[task]
    ]
    text = page(judgements, count * len(MAKERS["chain"][3]), len(MAKERS["chain"][3]))
    print(text)
    print(f"{time.monotonic() - start:.0f} s")
    if options.save:
        options.save.write_text(text, encoding="utf-8")
    alarms = sum(j.is_false_alarm for j in judgements)
    return int(
        any(j.is_missed for j in judgements)
        or any(j.same_events and not j.passed for j in judgements)
        or alarms >= MAX_ALARMS * len(judgements)
    )


def _judge_part(work: Part) -> tuple[Part, list[JudgedMutant]]:
    from mutation.judge import MutantJudge
    from mutation.subjects import subject

    name, first_part, step, count = work
    return work, list(MutantJudge(subject(name), count).all(first_part, step))


def _append(log: Path, part: Part, judged: Sequence[JudgedMutant]) -> None:
    rows = [{name: getattr(j, name) for name in field_names(j)} for j in judged]
    with log.open("a", encoding="utf-8") as to:
        to.write(json.dumps([part, rows]) + "\n")


def _read(log: Path | None) -> dict[Part, list[JudgedMutant]]:
    from mutation.judge import JudgedMutant

    if log is None or not log.exists():
        return {}
    lines = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    return {tuple(part): [JudgedMutant(**row) for row in rows] for part, rows in lines}


def page(results: Sequence[JudgedMutant], orders: int, launches: int) -> str:
    failing = [j for j in results if j.failure]
    rows = {
        "mutants": len(results),
        "fail": len(failing),
        "of these refuted": sum(j.status == "refuted" for j in failing),
        "of these unproved": sum(j.status == "unproved" for j in failing),
        "of these passed": sum(j.is_missed for j in failing),
        "do the same as the kernel": sum(j.same_events for j in results),
        "of these passed ": sum(j.same_events and j.passed for j in results),
        "store something else, the same in every order": sum(j.other for j in results),
        "of these passed: other kernels, with correct schedules": sum(j.other and j.passed for j in results),
        "do something else, and do not fail": sum(
            not (j.failure or j.same_events or j.other) for j in results
        ),
        "of these passed  ": sum(not (j.failure or j.same_events or j.other) and j.passed for j in results),
        "false alarms: not passed, and do not fail": f"{sum(j.is_false_alarm for j in results)} "
        f"({100 * sum(j.is_false_alarm for j in results) / max(1, len(results)):.1f} %)",
    }
    lines = [HEAD.format(orders=orders, launches=launches).rstrip()]
    lines += [f"| {name.strip()} | {n} |" for name, n in rows.items()]
    lines += ["", "## By operator", "", *_table(results, "operator")]
    lines += ["", "## By kernel", "", *_table(results, "subject")]
    lines += ["", "## How mutants fail", "", *_kinds(failing)]
    lines += ["", "## False alarms", "", *_alarms([j for j in results if j.is_false_alarm])]
    others = [j for j in results if j.other and j.passed]
    lines += ["", "## Other kernels", "", *_other_counts(others)] if others else []
    for j in results:
        if j.is_missed or (j.same_events and not j.passed):
            lines.append(f"- **{j.subject}**: {j.operator}: {j.change}: {j.status} {j.message}; {j.failure}")
    return "\n".join(lines) + "\n"


def _table(results: Sequence[JudgedMutant], by: str) -> list[str]:
    subjects = list(dict.fromkeys(j.subject for j in results))
    listed_subjects = subjects if by == "operator" else []
    lines = [
        f"| {by} | mutants | fail | not passed | right and passed | alarms |"
        + "".join(f" {s} |" for s in listed_subjects)
    ]
    lines.append("|---" * (6 + len(listed_subjects)) + "|")
    for name in sorted({getattr(j, by) for j in results}):
        members = [j for j in results if getattr(j, by) == name]
        fail = [j for j in members if j.failure]
        cells = [len(members), len(fail), sum(not j.passed for j in fail)]
        cells += [sum(j.passed and not j.failure for j in members), sum(j.is_false_alarm for j in members)]
        cells += [sum(j.subject == s for j in members) for s in listed_subjects]
        lines.append(f"| {name} | " + " | ".join(map(str, cells)) + " |")
    return lines


def _kinds(failing: Sequence[JudgedMutant]) -> list[str]:
    kinds = Counter(
        (j.failure.partition(":")[0], j.kind if j.status == "refuted" else j.status) for j in failing
    )
    replay_failures = list(dict.fromkeys(failure for failure, _ in sorted(kinds)))
    checker_verdicts = list(dict.fromkeys(verdict for _, verdict in sorted(kinds, key=lambda key: key[1])))
    lines = [
        "| replay \\ checker |" + "".join(f" {verdict} |" for verdict in checker_verdicts),
        "|---" * (1 + len(checker_verdicts)) + "|",
    ]
    return lines + [
        f"| {failure} |" + "".join(f" {kinds[failure, verdict] or ''} |" for verdict in checker_verdicts)
        for failure in replay_failures
    ]


def _alarms(alarms: Sequence[JudgedMutant]) -> list[str]:
    from mutation.judge import reason

    lines: list[str] = []
    for reason_text in dict.fromkeys(map(reason, alarms)):
        members = [j for j in alarms if reason(j) == reason_text]
        lines += [f"{len(members)}: {reason_text}.", ""]
        lines += [f"- {j.subject}, {j.operator}: {j.change}" for j in members] + [""]
    return lines[:-1]


def _other_counts(others: Sequence[JudgedMutant]) -> list[str]:
    return [f"- {j.subject}, {j.operator}: {j.change}" for j in others]


if __name__ == "__main__":
    sys.exit(main())
