"""The command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tegula.backend.cache import Cache, Entry
from tegula.cli import main
from tegula.runtime.config import config


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A kernel cache with two entries, in use."""
    monkeypatch.setattr(config, "kernel_cache_dir", str(tmp_path))
    cache = Cache(tmp_path)
    for name in ("first", "second"):
        cache.put(name, Entry({}, b"code"))
    return cache


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def test_help_names_the_commands() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(command in result.output for command in ("demo", "doctor", "cache"))


def test_python_m_tegula_is_the_command_line() -> None:
    command = [sys.executable, "-m", "tegula", "--version"]
    process = subprocess.run(command, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert re.fullmatch(r"tegula \d+\.\d+\.\d+\S*\n", process.stdout)


def test_the_cache_command_shows_and_clears_the_cache(cache: Cache) -> None:
    assert invoke("cache", "info").output == f"{cache.path}: 2 kernels, 0.0 MiB\n"
    assert invoke("cache", "clear").output == f"{cache.path}: removed 2 kernels\n"
    assert cache.entries() == []
    assert invoke("cache", "info").output == f"{cache.path}: 0 kernels, 0.0 MiB\n"


def test_doctor_lists_the_environment(cache: Cache) -> None:
    result = invoke("doctor")
    assert result.exit_code == 0
    assert sys.version.split()[0] in result.output
    assert "2 kernels" in result.output


def test_doctor_fails_where_kernels_cannot_run(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cpu_target", "z80")
    result = invoke("doctor")
    assert result.exit_code == 1
    assert "there is no CPU target 'z80'" in result.output


def test_doctor_finds_ptxas_on_the_path(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "ptxas"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "300")
    assert str(program) in invoke("doctor").output


def test_the_check_command_checks_kernels_with_roles(tmp_path: Path) -> None:
    """Every kernel with roles is checked, and faults are printed."""
    program = """
import tegula as tg

def copies(first):
    @tg.kernel
    def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
        with tg.ws(0):
            for k in range(n):
                tg.tile_pipe_load(pipe, x, offset=(k, 0))
        with tg.ws(1):
            for k in range(first, n):
                tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
    return kernel

right = copies(0)
"""
    file = tmp_path / "kernels.py"
    file.write_text(program)
    result = invoke("check", str(file))
    assert result.exit_code == 0
    assert "kernel: proved\n" in result.output
    assert "1 checked, 0 refused" in result.output
    file.write_text(program + "wrong = copies(1)\n")
    result = invoke("check", str(file))
    assert result.exit_code == 1
    assert "error[schedule-refuted]" in result.output
    assert "2 checked, 1 refused" in result.output


def test_the_check_command_prints_and_verifies_certificates(tmp_path: Path) -> None:
    """The verifier alone checks a printed certificate; certificates of other kernels are refused."""
    program = """
import tegula as tg

@tg.kernel
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=STAGES)
    with tg.ws(0):
        for k in range(n):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range(n):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
"""
    file, result_path = tmp_path / "kernels.py", tmp_path / "kernels.json"
    file.write_text(program.replace("STAGES", "2"))
    printed = invoke("check", "--certificate", str(file))
    assert printed.exit_code == 0
    result_path.write_text(printed.output)
    (row,) = json.loads(printed.output)
    assert row["kernel"] == "kernel" and set(row["certificates"]) == {"packed", "any"}
    result = invoke("check", "--verify", str(result_path), str(file))
    assert result.exit_code == 0 and "kernel, packed arrays: proved" in result.output, result.output
    file.write_text(program.replace("STAGES", "3"))
    result = invoke("check", "--verify", str(result_path), str(file))
    assert result.exit_code == 1 and "the certificate belongs to another kernel" in result.output
    row["certificates"]["packed"]["lags"] = []
    result_path.write_text(json.dumps([row]))
    file.write_text(program.replace("STAGES", "2"))
    result = invoke("check", "--verify", str(result_path), str(file))
    assert result.exit_code == 1 and "1 checked, 1 refused" in result.output


def test_the_check_command_prints_the_status(tmp_path: Path) -> None:
    """Proved for a bound that is written the same way twice; with a guard of the host for two ways that wrap
    differently; not for all numbers."""
    program = """
import tegula as tg

def copies(first, second):
    @tg.kernel(check="bounded")
    def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
        pipe = tg.tile_pipe(shape=(1, 8), dtype=float, stages=2)
        with tg.ws(0):
            for k in range(first(n)):
                tg.tile_pipe_load(pipe, x, offset=(k, 0))
        with tg.ws(1):
            for k in range(second(n)):
                tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
    return kernel

@tg.func
def twice(n: int): return 2 * n

@tg.func
def added(n: int): return n + 1 + n - 1

@tg.func
def limited(n: int): return tg.min(n + n, 1000000)

alike, ways, far = copies(twice, twice), copies(twice, added), copies(twice, limited)
"""
    file = tmp_path / "kernels.py"
    file.write_text(program)
    result = invoke("check", str(file))
    assert result.exit_code == 0, result.output
    output = re.sub(r"\d+ (launch|steps)", r"N \1", result.output).splitlines()
    statuses = [line for line in output if not line.startswith(" ")]
    assert statuses == [
        "kernel: proved",
        "kernel: proved",
        "kernel: unproved (N launches explored, N steps of roles)",
        "3 checked, 0 refused",
    ]
    assert len([line for line in output if re.match(r"  line \d+: no proof \(ws[01]: ", line)]) == 1
    assert any("checked at each launch" in line for line in output)
