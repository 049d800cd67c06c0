"""printf, prints of many values, and breakpoints."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from agreement import interpret

import tegula as tg
from tegula.errors import NotConstant, OutOfRange, TypeMismatch


@tg.kernel
def print_formatted(x: tg.array[float]):
    i = tg.tid()
    tg.printf("%d: %6.2f|%-5s|%04x %lld %e%%\n", i, x[i], "ab", 255, tg.int64(1) << tg.int64(40), x[i])


EXPECTED_LINES = [
    "0:  -1.50|ab   |00ff 1099511627776 -1.500000e+00%",
    "1:   2.25|ab   |00ff 1099511627776 2.250000e+00%",
]


@pytest.mark.machine_code
def test_printf_formats_numbers_as_c(capfd: pytest.CaptureFixture[str]) -> None:
    x = tg.array([-1.5, 2.25])
    assert interpret(print_formatted, [tg.clone(x, device="cpu")], (2,), 2) == EXPECTED_LINES
    tg.launch(print_formatted, 2, inputs=[x], block_dim=2)
    tg.synchronize()
    assert sorted(capfd.readouterr().out.splitlines()) == EXPECTED_LINES


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ('tg.printf("%d", 1.0)', TypeMismatch, "'%d' prints a scalar integer, got float literal"),
        ('tg.printf("%f", 1)', TypeMismatch, "'%f' prints a scalar float"),
        ('tg.printf("%f", tg.vec2(1.0))', TypeMismatch, "print\\(...\\)"),
        ('tg.printf("%d %d", 1)', OutOfRange, "2 specifiers for 1 values"),
        ('tg.printf("%q", 1)', TypeMismatch, "no specifier"),
        ("tg.printf(1.0)", NotConstant, "the format of printf"),
    ],
)
def test_invalid_formats_are_refused(call: str, error: type[Exception], words: str) -> None:
    names = tg.exec(f"import tegula as tg\n\n@tg.kernel\ndef wrong():\n    {call}\n", {})
    with pytest.raises(error, match=words):
        tg.launch(names["wrong"], 1)


@tg.kernel
def print_many_values(m: tg.array[tg.mat44], n: tg.array2d[int]):
    i = tg.tid()
    v = tg.vector(n[i, 0], n[i, 1], n[i, 2], n[i, 3], n[i, 4], n[i, 5], n[i, 6], n[i, 7], n[i, 8], n[i, 9])
    print(i, m[i], v, m[i] * 2.0, sep="; ")


@pytest.mark.machine_code
def test_print_accepts_many_values(capfd: pytest.CaptureFixture[str]) -> None:
    m, n = np.arange(48.0).reshape(3, 4, 4), np.arange(30).reshape(3, 10)
    args = [tg.array(m, dtype=tg.mat44), tg.array(n, dtype=int)]
    expected = [f"{i}; {m[i].tolist()}; {n[i].tolist()}; {(2 * m[i]).tolist()}" for i in range(3)]
    assert interpret(print_many_values, [tg.clone(a, device="cpu") for a in args], (3,), 2) == expected
    tg.launch(print_many_values, 3, inputs=args, block_dim=2)
    tg.synchronize()
    assert sorted(capfd.readouterr().out.splitlines()) == expected


PROGRAM = """
import tegula as tg


@tg.kernel
def break_if_one(a: tg.array[int]):
    if a[0] == 1:
        tg.breakpoint()


for n in (0, 1):
    tg.launch(break_if_one, 1, inputs=[tg.array([n], dtype=int)])
    print("went on", n, flush=True)
"""


@pytest.mark.cpu
def test_a_breakpoint_in_a_kernel_traps(tmp_path: Path) -> None:
    file = tmp_path / "stopped.py"
    file.write_text(PROGRAM)
    completed = subprocess.run([sys.executable, str(file)], capture_output=True, text=True)
    assert (completed.returncode, completed.stdout) == (-signal.SIGTRAP, "went on 0\n"), completed.stderr


def test_a_breakpoint_in_the_interpreter_stops_in_pdb(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[int] = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(1))

    @tg.kernel
    def stopped():
        if tg.tid() > 2:
            tg.breakpoint()

    interpret(stopped, [], (5,), 5)
    assert len(stops) == 2
