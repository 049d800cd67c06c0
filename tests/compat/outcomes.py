"""Outcomes of tests, compared with the names of tests that are known to pass."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PASSED, SKIPPED = "passed", "skipped"
VARYING_TEXT = re.compile(r"0x[0-9a-f]+|\b\d+(\.\d+)?(e[-+]?\d+)?\b")
"""Addresses and numbers, which differ between messages with one cause."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test. `name`: file::test; `state`: passed, skipped or failed; `cause`: of a failure; `where`:
    the line of its file."""

    name: str
    state: str
    cause: str = ""
    where: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.state}{': ' * bool(self.cause)}{self.cause}{' @ ' * bool(self.where)}{self.where}"


def passing(device: str, strict: bool) -> Path:
    """The file with the names of tests that are known to pass on a kind of device, one per line."""
    kind = device.partition(":")[0].removeprefix("cpu")
    return HERE / f"{'_'.join(filter(None, ('passing', kind, 'strict' * strict)))}.txt"


def names_in_file(path: Path) -> set[str]:
    """The names in a file of names; none if there is no file."""
    return set(path.read_text().split()) if path.exists() else set()


def write(path: Path, names: Iterable[str]) -> None:
    """Writes a file of names, sorted."""
    path.write_text("".join(f"{name}\n" for name in sorted(names)))


def excluded(device: str, path: Path = HERE / "excluded.txt") -> dict[str, str]:
    """The reasons why tests are excluded, by name of the test, which ends with the device for most tests: the file has
    the names for the CPU."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    reasons = (line.split(": ", 1) for line in lines)
    suffix = re.sub(r"\W", "_", device)
    return {re.sub("_cpu$", f"_{suffix}", name): reason for name, reason in reasons}


def counted(outcomes: Iterable[Outcome], reasons: Mapping[str, str]) -> list[Outcome]:
    """The outcomes of tests that are neither excluded nor skipped."""
    return [outcome for outcome in outcomes if outcome.name not in reasons and outcome.state != SKIPPED]


def summary(outcomes: list[Outcome]) -> str:
    """The number of passed tests by file, and the causes of failures."""
    by_file: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_file[outcome.name.partition("::")[0]].append(outcome)
    lines = ["By file:"]
    for file, members in sorted(by_file.items()):
        passed = sum(outcome.state == PASSED for outcome in members)
        lines.append(f"  {passed:4} of {len(members):4}  {file}")
    causes = Counter(VARYING_TEXT.sub("N", outcome.cause) for outcome in outcomes if outcome.cause)
    lines.append("By cause:")
    lines += [f"  {number:4}  {cause}" for cause, number in causes.most_common()]
    return "\n".join(lines)


def compared(outcomes: list[Outcome], before: set[str], all_files: bool) -> tuple[list[str], list[str]]:
    """The names that passed before and do not pass now, and the names that pass now and did not before.

    Parameters:
        outcomes: the outcomes of this run.
        before: the names that passed.
        all_files: whether all tests ran; otherwise only tests that ran can be lost."""
    now = {outcome.name for outcome in outcomes if outcome.state == PASSED}
    ran = {outcome.name for outcome in outcomes}
    lost = before - now if all_files else (before - now) & ran
    return sorted(lost), sorted(now - before)
