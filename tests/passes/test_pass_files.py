"""Every pass as text: what it makes of small kernels, what it leaves alone, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pass_files
import pytest

from tegula.ir.text import parse_kernel, print_kernel

NEEDED = 3
ELSEWHERE = {
    "fetch_rounds",
    "load_early",
    "pipeline_loops",
    "reduce_together",
    "unroll_and_jam",
    "delay_waits",
}
"""Tested by the kernels that they make: tests/gpu_lowering, tests/gpu_codegen, tests/check."""


@pytest.mark.parametrize("path", pass_files.files(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_what_a_pass_makes(path: Path, update: bool) -> None:
    if update:
        pass_files.update(path)
    wanted, found = pass_files.result(path)
    assert found == wanted
    if found.startswith("kernel "):
        assert print_kernel(parse_kernel(found)) == found.partition("\n// ")[0].rstrip("\n") + "\n"


def test_every_pass_has_tests() -> None:
    passes = {step.name for found in pass_files.PIPELINES.values() for p in found for step in p} - ELSEWHERE
    counts = {name: len(list((pass_files.FOLDER / name).glob("*.ir"))) for name in sorted(passes)}
    assert {name: n for name, n in counts.items() if n < NEEDED} == {}
    folders = {path.parent.name for path in pass_files.files()}
    assert folders <= passes
