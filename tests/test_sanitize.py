"""tools/sanitize.py: a finding of a sanitizer is a failure, unless it is explained line by line."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
KERNELS = ROOT / "tests" / "roles" / "pipe_chain.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sanitize", ROOT / "tools" / "sanitize.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["sanitize"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line_of(source: str) -> int:
    (number,) = (k for k, line in enumerate(KERNELS.read_text().splitlines(), 1) if line.strip() == source)
    return number


def report(*races: tuple[str, str, str, str], summary: int | None = None) -> str:
    """A racecheck report of pairs of accesses."""
    lines = ["========= COMPUTE-SANITIZER", "......"]
    for first, first_location, second, second_location in races:
        lines.append(f"========= Error: Race reported between {first} access at kernel+0x960{first_location}")
        lines.append(f"=========     and {second} access at kernel+0xf00{second_location} [2232 hazards]")
    lines.append(
        f"32 passed in 9.42s\n========= RACECHECK SUMMARY: {len(races) if summary is None else summary} hazard"
    )
    return "\n".join(lines)


@pytest.fixture
def explained(tool: ModuleType) -> tuple[str, str, str, str]:
    explanation: Any = tool.EXPLAINED[0]
    locations = [
        f" in {KERNELS.name}:{line_of(source)}" for source in (explanation.reads, explanation.writes)
    ]
    return "Read", locations[0], "Write", locations[1]


def test_each_explanation_names_existing_lines_and_a_note(tool: ModuleType) -> None:
    for explanation in tool.EXPLAINED:
        assert (
            line_of(explanation.writes) and line_of(explanation.reads) and (ROOT / explanation.note).exists()
        )


def test_a_report_without_findings_is_clean(tool: ModuleType) -> None:
    assert tool.summarise(report(), 0)["clean"]
    assert not tool.summarise(report(), 1)["clean"]
    assert not tool.summarise("32 passed", 0)["clean"]


def test_explained_findings_of_the_sanitizer_are_shown(
    tool: ModuleType, explained: tuple[str, str, str, str]
) -> None:
    judgement = tool.summarise(report(explained), 0)
    assert judgement["clean"] and judgement["findings"] == 1
    assert [(e["kernel"], e["hazards"]) for e in judgement["explained"]] == [("chain", 2232)]


def test_unexplained_findings_of_the_sanitizer_fail(
    tool: ModuleType, explained: tuple[str, str, str, str]
) -> None:
    read, read_location, write, write_location = explained
    other_location = f" in {KERNELS.name}:{line_of('row = tg.tile_pipe_pop(rows)')}"
    reports = {
        "another line": report((read, other_location, write, write_location)),
        "two writes": report((write, read_location, write, write_location)),
        "more of them": report(explained).replace("2232", "2233"),
        "no lines": report((read, "", write, "")),
        "one more race": report(explained, (read, other_location, write, write_location)),
        "one more finding": report(explained, summary=2),
    }
    for name, text in reports.items():
        assert not tool.summarise(text, 0)["clean"], name
