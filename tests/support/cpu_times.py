"""Core-seconds of tests: `--cpu-times FILE` writes the time of each test, including child processes, and prints the
sums by folder. Unlike wall time, core-seconds hardly depend on other programs."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

LONG_SECONDS = 0.6
"""The largest core-seconds of a test of the default run; a test that takes more is split, shares its compiled code, or
is a slow test, by its mark or by LONG_TESTS."""
LONG_TESTS = Path(__file__).parents[1] / "long_tests.txt"
"""The tests that are slow because they were measured to take longer than LONG_SECONDS, as `python tools/long_tests.py`
writes them."""

VERY_LONG = 10.0
"""A slow test that takes longer states the reason: `slow(why="...")`."""

SENT_TIMES, SENT_MISSING_REASONS = "core_seconds", "without_why"
COLLECTION = "(start and collection)"


def mark_long(items: list[pytest.Item]) -> None:
    """Mark the tests of LONG_TESTS as slow."""
    long = {*LONG_TESTS.read_text(encoding="utf-8").splitlines()}
    for item in items:
        if item.nodeid in long:
            item.add_marker(pytest.mark.slow)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", metavar="FILE", help="write the core-seconds of each test, most first")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cpu-times"):
        config.pluginmanager.register(CpuTimes(config), "cpu-times")


def cpu_seconds() -> float:
    """Core-seconds of this process until now, and of its children that have ended."""
    return sum(os.times()[:4])


class CpuTimes:
    """The times of tests in this process, or in the workers that send them at their end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.taken: Counter[str] = Counter()
        self.without_why: list[str] = []

    def pytest_collection_finish(self) -> None:
        self.taken[COLLECTION] += cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        before = cpu_seconds()
        try:
            return (yield)
        finally:
            seconds = cpu_seconds() - before
            self.taken[item.nodeid] += seconds
            if seconds > VERY_LONG and not any(m.kwargs.get("why") for m in item.iter_markers("slow")):
                self.without_why.append(item.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput.update(
                {SENT_TIMES: dict(self.taken), SENT_MISSING_REASONS: self.without_why}
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        sent = getattr(node, "workeroutput", {})
        self.taken.update(sent.get(SENT_TIMES, {}))
        self.without_why += sent.get(SENT_MISSING_REASONS, [])

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines = [f"{seconds:9.3f} {name}\n" for name, seconds in self.taken.most_common()]
        Path(self.config.getoption("--cpu-times")).write_text("".join(lines))
        folders: defaultdict[str, list[float]] = defaultdict(list)
        for name, seconds in self.taken.items():
            folders[os.path.dirname(name.partition("::")[0]) or name].append(seconds)
        terminalreporter.section("core-seconds")
        terminalreporter.line(f"{'':26}{'tests':>7}{'sum':>9}{'longest':>9}   over {LONG_SECONDS:g} s")
        every = [("all", list(self.taken.values()))]
        for name, seconds in [*sorted(folders.items(), key=lambda each: -sum(each[1])), *every]:
            over = sum(s > LONG_SECONDS for s in seconds)
            terminalreporter.line(f"{name:26}{len(seconds):7}{sum(seconds):9.1f}{max(seconds):9.1f}{over:9}")
        for name in self.without_why:
            terminalreporter.line(
                f"{name} takes more than {VERY_LONG:g} s, and does not say why: slow(why=...)"
            )
