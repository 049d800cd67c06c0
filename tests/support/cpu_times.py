"""The core-seconds of tests: `--cpu-times FILE` writes the time of each test, including child processes, and prints the
sums by folder. Unlike wall time, core-seconds hardly depend on the load of the machine."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

LONG_SECONDS = 0.6
"""The largest core-seconds of a test of the default run. A longer test is split, shares compiled code with other tests,
or is a slow test, by its mark or by LONG_TESTS."""
LONG_TESTS = Path(__file__).parents[1] / "long_tests.txt"
"""The tests that are slow because they were measured to take longer than LONG_SECONDS; `python tools/long_tests.py`
writes the file."""

VERY_LONG = 10.0
"""The core-seconds of a slow test from which its mark states the reason: `slow(why="...")`."""

SENT_TIMES, SENT_MISSING_REASONS = "core_seconds", "missing_reasons"
COLLECTION = "(start and collection)"


def mark_long(items: list[pytest.Item]) -> None:
    """Mark the tests of LONG_TESTS as slow."""
    long = {*LONG_TESTS.read_text(encoding="utf-8").splitlines()}
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.slow)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", metavar="FILE", help="write the core-seconds of each test, longest first")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cpu-times"):
        config.pluginmanager.register(CpuTimes(config), "cpu-times")


def cpu_seconds() -> float:
    """The core-seconds of this process, and of its children that have ended."""
    return sum(os.times()[:4])


class CpuTimes:
    """The times of the tests of this process, or of the workers, which send their times when they end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.core_seconds: Counter[str] = Counter()
        self.missing_reasons: list[str] = []

    def pytest_collection_finish(self) -> None:
        self.core_seconds[COLLECTION] += cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        before = cpu_seconds()
        try:
            return (yield)
        finally:
            seconds = cpu_seconds() - before
            self.core_seconds[item.nodeid] += seconds
            if seconds > VERY_LONG and not any(m.kwargs.get("why") for m in item.iter_markers("slow")):
                self.missing_reasons.append(item.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput.update(
                {SENT_TIMES: dict(self.core_seconds), SENT_MISSING_REASONS: self.missing_reasons}
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        sent = getattr(node, "workeroutput", {})
        self.core_seconds.update(sent.get(SENT_TIMES, {}))
        self.missing_reasons += sent.get(SENT_MISSING_REASONS, [])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = [f"{seconds:9.3f} {name}\n" for name, seconds in self.core_seconds.most_common()]
        Path(self.config.getoption("--cpu-times")).write_text("".join(lines))
        folders: defaultdict[str, list[float]] = defaultdict(list)
        for name, seconds in self.core_seconds.items():
            folders[os.path.dirname(name.partition("::")[0]) or name].append(seconds)
        terminalreporter.section("core-seconds")
        terminalreporter.line(f"{'':26}{'tests':>7}{'sum':>9}{'longest':>9}   over {LONG_SECONDS:g} s")
        totals = [("all", list(self.core_seconds.values()))]
        for name, seconds in [*sorted(folders.items(), key=lambda each: -sum(each[1])), *totals]:
            long_count = sum(s > LONG_SECONDS for s in seconds)
            terminalreporter.line(
                f"{name:26}{len(seconds):7}{sum(seconds):9.1f}{max(seconds):9.1f}{long_count:9}"
            )
        for name in self.missing_reasons:
            terminalreporter.line(
                f"{name} takes more than {VERY_LONG:g} s: state the reason in its mark, slow(why=...)"
            )
