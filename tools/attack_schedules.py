"""Runs the checker on generated schedules, wrong or correct ones, and prints a table of its verdicts.

    python tools/attack_schedules.py --wrong --count 2000 --jobs 2       wrong schedules: the verdicts by row
    python tools/attack_schedules.py --right --count 2000                correct schedules
    python tools/attack_schedules.py --wrong --row O6 --row clusters     schedules of some rows of the table only
    python tools/attack_schedules.py --wrong --from 0 --to 100000 --into FILE --jobs 16 --seconds 95 --no-search
        a part of a long run, which further calls continue; no launches are tried
    python tools/attack_schedules.py --wrong --count 90 --replays 40     replays the faulty launch of each schedule
    python tools/attack_schedules.py --wrong --show 17                   prints a program, its launch and its fault

Exits with 1 if a wrong schedule is proved, a correct schedule fails in a replay, or anything crashes."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from math import inf
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

PASSING = ("proved", "unproved")
CHUNK, TASKS = 16, 16
"""The number of seeds of a task, and the number of tasks of a process, whose memory grows with each."""
SLOW_SECONDS = 10.0
"""The seconds from which a verdict is listed as slow."""


class JudgementOptions(NamedTuple):
    """How schedules are judged: the number of replays; the number of orders in which correct schedules are simulated;
    whether twins are judged too; whether launches are tried where there is no proof; the limit of the prover's
    work, 0 for the usual one; whether the programs are of support/attacks/constructs.py."""

    replays: int
    orders: int
    twins: bool
    searches: bool
    work: int
    constructs: bool


Work = tuple[bool, tuple[int, ...], tuple[str, ...], JudgementOptions]
"""A task: whether schedules are wrong; seeds; rows; how they are judged."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--wrong", action="store_true")
    kind.add_argument("--right", action="store_true")
    parser.add_argument("--first", "--from", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--to", type=int, help="the end of the seeds, instead of their number")
    parser.add_argument("--seconds", type=float, help="the time after which no more seeds are begun")
    parser.add_argument(
        "--no-search",
        action="store_true",
        help="prove packed arrays only, and try no launches of other schedules",
    )
    parser.add_argument(
        "--constructs",
        action="store_true",
        help="programs that use functions, structs, and loops of many kinds",
    )
    parser.add_argument("--work", type=int, default=0, help="the inequalities that the prover may decide")
    parser.add_argument(
        "--row", action="append", default=[], help="a row of the tables of classes, obligations and schedules"
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--into", type=Path, help="a file to add results to; its seeds are not run again")
    parser.add_argument("--replays", type=int, default=0, help="the number of orders to replay launches in")
    parser.add_argument(
        "--orders", type=int, default=6, help="the number of orders to simulate correct schedules in"
    )
    parser.add_argument(
        "--twins", action="store_true", help="also judge the correct program of each wrong schedule"
    )
    parser.add_argument("--show", type=int, help="print one program")
    options = parser.parse_args()
    if options.show is not None:
        return print_schedule(options.wrong, options.show, *options.row[:1])
    start = time.monotonic()
    stored_results = read_results(options.into)
    seeds = range(options.first, options.to if options.to is not None else options.first + options.count)
    rows = tuple(options.row)
    remaining = [s for s in seeds if (options.wrong, s, rows) not in stored_results]
    settings = JudgementOptions(
        options.replays,
        options.orders,
        options.twins,
        not options.no_search,
        options.work,
        options.constructs,
    )
    tasks = [
        (options.wrong, tuple(remaining[k : k + CHUNK]), rows, settings)
        for k in range(0, len(remaining), CHUNK)
    ]
    for record in run(tasks, options.jobs, options.seconds):
        for result in record:
            stored_results[options.wrong, result["seed"], rows] = result
            if options.into:
                append_result(options.into, options.wrong, rows, result)
    results = [
        stored_results[options.wrong, s, rows] for s in seeds if (options.wrong, s, rows) in stored_results
    ]
    print(page(results, options.wrong))
    print(f"{time.monotonic() - start:.0f} s, {len(results)} of {len(seeds)} seeds")
    return int(any(is_failure(result, options.wrong) for result in results))


def run(work: Sequence[Work], jobs: int, seconds: float | None) -> Iterator[list[dict[str, Any]]]:
    """The results of tasks, until the time is over."""
    end = (
        time.time() + seconds if seconds is not None else inf
    )  # of the day: processes have no other clock in common
    remaining, pending = iter(work), set[Future[list[dict[str, Any]]]]()
    with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=TASKS) as pool:
        while True:
            while (
                len(pending) < 2 * jobs and time.time() < end and (task := next(remaining, None)) is not None
            ):
                pending.add(pool.submit(judge_seeds, task, end))
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for record in done:
                yield record.result()


def judge_seeds(work: Work, end: float) -> list[dict[str, Any]]:
    """The results of the seeds of a task that are begun before the end."""
    wrong, seeds, rows, settings = work
    row = {seed: rows[seed % len(rows)] if rows else "" for seed in seeds}
    return [judge_one(wrong, seed, row[seed], settings) for seed in seeds if time.time() < end]


def judge_one(wrong: bool, seed: int, row: str, settings: JudgementOptions) -> dict[str, Any]:
    """The verdict on a schedule, with its fault and the results of simulations and replays."""
    from support.attacks import attack as attacks
    from support.attacks import constructs, judge
    from tegula.check.proof import search

    if settings.work:
        search.MAX_WORK = search.FIRST_WORK = settings.work
    if settings.constructs:
        start = time.process_time()
        name, status, text = constructs.judge_program(seed, max(4, settings.replays), wrong)
        seconds = round(time.process_time() - start, 2)
        fault = text if status == "wrongly proved" else ""
        return {
            "seed": seed,
            "row": name.partition(",")[0],
            "rows": (),
            "name": name,
            "fault": fault,
            "guarded": False,
            "replay": fault,
            "status": "proved" if fault else status,
            "message": text,
            "seconds": seconds,
            "twin": "",
            "constructs": True,
        }
    result = (attacks.wrong_attack if wrong else attacks.right_attack)(seed, row)
    outcome: dict[str, Any] = {
        "seed": seed, "row": row or result.row, "rows": result.rows, "name": result.name, "fault": result.fault,
        "guarded": result.guarded, "replay": "",
    }  # fmt: skip
    start = time.process_time()
    outcome["status"], outcome["message"] = result.verdict() if settings.searches else result.proof()
    outcome["seconds"] = round(time.process_time() - start, 2)
    if wrong:
        outcome["twin"] = judge.verdict(result.twin)[0] if result.twin and settings.twins else ""
        if settings.replays and outcome["status"] != "refused":
            outcome["replay"] = result.replay(result.args, settings.replays)
    elif outcome["status"] != "refused":
        if result.mutation is None:
            outcome["fault"] = next(
                (
                    f
                    for f in (attacks.simulate(result.text, args, settings.orders) for args in result.sizes)
                    if f
                ),
                "",
            )
        if settings.replays:
            outcome["replay"] = next(
                (f for f in (result.replay(args, settings.replays) for args in result.sizes[:6]) if f), ""
            )
    return outcome


def is_failure(result: dict[str, Any], wrong: bool) -> bool:
    if result["status"] == "crash":
        return True
    if wrong and not result.get("constructs"):
        return result["status"] == "proved" and not result["guarded"]
    return bool(result["fault"]) or bool(result["replay"]) and not result["replay"].startswith("unknown")


# Results --------------------------------------------------------------------------------------------------------------


def append_result(log: Path, wrong: bool, rows: tuple[str, ...], result: dict[str, Any]) -> None:
    with log.open("a", encoding="utf-8") as to:
        to.write(json.dumps([wrong, rows, result]) + "\n")


def read_results(log: Path | None) -> dict[tuple[bool, int, tuple[str, ...]], dict[str, Any]]:
    if log is None or not log.exists():
        return {}
    results = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            wrong, rows, result = json.loads(line)
        except ValueError:  # a run was ended while it wrote
            continue
        results[wrong, result["seed"], tuple(rows)] = result
    return results


STATUSES = ("proved", "guarded", "unproved", "undecided", "refuted", "refused", "crash")


def page(results: Sequence[dict[str, Any]], wrong: bool) -> str:
    rows = list(dict.fromkeys(r["row"] for r in results))
    further_columns = (
        ("not refuted", "twins passed", "of these passed", "replayed wrong")
        if wrong
        else ("proved %", "wrong")
    )
    lines = [
        "| row | all |" + "".join(f" {s} |" for s in (*STATUSES, *further_columns)),
        "|---" * (2 + len(STATUSES) + len(further_columns)) + "|",
    ]
    for row in (*rows, ""):
        row_results = [r for r in results if not row or r["row"] == row]
        counts = Counter(r["status"] for r in row_results)
        compiled = [r for r in row_results if r["status"] != "refused"]
        cells = [str(len(row_results)), *(str(counts[s]) for s in STATUSES)]
        if wrong:
            with_accepted_twin = [r for r in compiled if r["twin"] in PASSING]
            cells += [
                percent(sum(r["status"] != "refuted" for r in compiled), len(compiled)),
                str(len(with_accepted_twin)),
            ]
            cells += [
                percent(sum(r["status"] in PASSING for r in with_accepted_twin), len(with_accepted_twin))
            ]
            replayed = [r for r in compiled if r["replay"] != "" or not r["fault"]]
            cells += [f"{sum(failed(r) for r in row_results)}" if replayed else "-"]
        else:
            cells += [
                percent(counts["proved"], len(compiled)),
                str(sum(is_failure(r, False) for r in row_results)),
            ]
        lines.append(f"| {row or '**all**'} | " + " | ".join(cells) + " |")
    lines += problem_lines(results, wrong)
    return "\n".join(lines)


def failed(result: dict[str, Any]) -> bool:
    return bool(result["replay"]) and not result["replay"].startswith("unknown")


def percent(part: int, total: int) -> str:
    return f"{100 * part / total:.0f} %" if total else "-"


def problem_lines(results: Sequence[dict[str, Any]], wrong: bool) -> list[str]:
    lines = [f"- seed {r['seed']} ({r['row']}): {r['name']}: {r['status']} {r['message']} {r['fault']} {r['replay']}"
           for r in results if is_failure(r, wrong)]  # fmt: skip
    slow = [r for r in results if r["seconds"] > SLOW_SECONDS]
    lines += [f"- seed {r['seed']} ({r['row']}): {r['seconds']:.0f} s for a verdict" for r in slow]
    return ["", *lines] if lines else []


def print_schedule(wrong: bool, seed: int, row: str = "") -> int:
    from support.attacks import attack as attacks

    result = (attacks.wrong_attack if wrong else attacks.right_attack)(seed, row)
    print(f"# {result.name}\n# {', '.join(result.rows)}\n{result.text}")
    if wrong:
        print("# launch:", {k: v for k, v in result.args.items() if v is not None and k in result.text})
        print(f"# {result.fault}")
    print("#", *result.verdict())
    return 0


if __name__ == "__main__":
    sys.exit(main())
