"""Kernels without a source file: typed at the prompt, given with -c or piped, run from text."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tegula as tg
from tegula.errors import SourceNotFound

SESSION = """
import tegula as tg, numpy as np
a = np.zeros(4, np.float32)
@tg.kernel
def k(a: tg.array[float]):
    a[tg.tid()] = 1.0

tg.launch(k, 4, [a]); print("first", a[0])
@tg.kernel(
    block_dim=32,
)
def k(a: tg.array[float]):
    i = tg.tid()
    a[i] += 2.0
    a[i] += 2.0
    a[i] *= 3.0

tg.launch(k, 4, [a]); print("again", a[0])
def make(n):
    @tg.func
    def f(x: float):
        return x * float(n)
    @tg.kernel
    def k(a: tg.array[float]):
        def g(x: float):
            return f(x) + 1.0
        a[tg.tid()] = g(2.0)
    return k

tg.launch(make(3), 4, [a]); print("made", a[0])
tg.launch(make(5), 4, [a]); print("made", a[0])
m = tg.array([1.0, 2.0, 3.0])
print("mapped", sum(tg.map(lambda x: x * 2.0, m)))
print("mapped", sum(tg.map(lambda x: x * 3.0, m)))
def scaled(by):
    return tg.map(
        lambda x:
            x * by if x > 1.0 else 0.0,
        m)

print("mapped", sum(scaled(2.0))); print("mapped", sum(scaled(4.0)))
@tg.func
def twice(x: float): return x * 2.0

@tg.func
def twice(x: int): return x + x + 1

print("overloads", twice(1.0) + twice(1))
@tg.func
def twice(x: float):
    return x * 10.0

print("overloads", twice(1.0) + twice(1))
@tg.kernel
def k(a: tg.array[float]):
    a[tg.tid()] = undefined

tg.launch(k, 4, [a])
@tg.kernel
def k(a: tg.array[float]):
    assert a[tg.tid()] < 0.0

tg.launch(k, 4, [a])
"""
PROGRAM = """
import tegula as tg, numpy as np
a = np.zeros(2, np.float32)
@tg.kernel
def k(a: tg.array[float]):
    a[tg.tid()] = 7.0
tg.launch(k, 2, [a])
print(a[0])
"""
MAPPED = """
import tegula as tg
m = tg.array([1.0, 2.0, 3.0])
def scaled(by):
    return tg.map(lambda x: x * by if x > 1.0 else 0.0, m)
print(sum(scaled(2.0)), sum(scaled(4.0)), sum(tg.map(lambda x: 5.0, m)))
"""


def environment(home: Path) -> dict[str, str]:
    source = str(Path(tg.__file__).parent.parent)
    return {
        **os.environ,
        "PYTHONPATH": source,
        "TERM": "xterm",
        "HOME": str(home),
        "PYTHON_BASIC_REPL": "1",
        "PYTHONSTARTUP": "",
    }


PROMPT = re.compile(rb">>> |\.\.\. ")


class Prompt:
    """An interactive Python process in a pseudo-terminal."""

    def __init__(self, home: Path) -> None:
        self.output = b""
        variables = environment(home)
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execve(sys.executable, [sys.executable, "-q"], variables)

    def read(self, prompts: int | None = None) -> None:
        """Wait until a number of prompts were printed, or until the process has ended."""
        end = time.time() + 120
        while prompts is None or len(PROMPT.findall(self.output)) < prompts:
            if time.time() > end or not select.select([self.terminal], [], [], 120)[0]:
                return
            try:
                data = os.read(self.terminal, 1 << 16)
            except OSError:  # the process has ended
                return
            if not data:
                return
            self.output += data

    def session(self, text: str) -> str:
        """The output of the process after lines of text are typed."""
        for k, line in enumerate([*text.strip().splitlines(), "exit()"]):
            self.read(k + 1)
            os.write(self.terminal, line.encode() + b"\n")
        self.read()
        os.waitpid(self.process, 0)
        os.close(self.terminal)
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", self.output.decode())


@pytest.mark.cpu
def test_kernels_typed_at_the_prompt_run(tmp_path: Path) -> None:
    """Definitions of several lines, of equal lines, redefinitions, and definitions in functions; errors show their
    lines."""
    output = Prompt(tmp_path).session(SESSION)
    results = re.findall(r"^(first|again|made) (\S+)$", output, re.M)
    assert results == [("first", "1.0"), ("again", "15.0"), ("made", "7.0"), ("made", "11.0")], output
    assert re.findall(r"^mapped (\S+)$", output, re.M) == ["12.0", "18.0", "10.0", "20.0"], output
    assert re.findall(r"^overloads (\S+)$", output, re.M) == ["5.0", "13.0"], output
    assert re.search(
        r"<(std|python-)in.*:3:19: error\[unknown-name\].*\n +a\[tg.tid\(\)\] = undefined\n +\^+\n", output
    ), output
    failed = r"<(std|python-)in.*:3:5: error\[assertion\].*\n +assert a\[tg.tid\(\)\] < 0.0\n +\^+\n"
    assert re.search(failed, output), output


def python_output(tmp_path: Path, *arguments: str, standard_input: str = "") -> str:
    command = [sys.executable, *arguments]
    completed = subprocess.run(
        command, input=standard_input, capture_output=True, text=True, env=environment(tmp_path), check=False
    )
    return completed.stdout + completed.stderr


@pytest.mark.cpu
def test_kernels_given_on_the_command_line_run(tmp_path: Path) -> None:
    assert python_output(tmp_path, "-c", PROGRAM) == "7.0\n"
    assert python_output(tmp_path, "-c", MAPPED) == "10.0 20.0 15.0\n"
    assert "the source of k is not available" in python_output(tmp_path, "-c", f"exec({PROGRAM!r})")


@pytest.mark.cpu
def test_piped_text_is_refused_with_a_remedy(tmp_path: Path) -> None:
    output = python_output(tmp_path, "-", standard_input=PROGRAM)
    assert "<stdin>:4:1: error[source-not-found]: the source of k is not available" in output
    assert "tg.exec(text, namespace)" in output


@pytest.mark.machine_code
def test_kernels_in_executed_text_run() -> None:
    """tg.exec stores the text of each run, in a given or a new namespace."""
    text = PROGRAM.replace("print(a[0])", "")
    first = tg.exec(text)
    names = {"a": None}
    assert tg.exec(text.replace("7.0", "8.0"), names) is names
    assert (first["a"][0], names["a"][0]) == (7.0, 8.0)
    tg.launch(first["k"], 2, [first["a"]], block_dim=64)  # compiled from the text once more
    assert first["a"].tolist() == [7.0, 7.0]


@pytest.mark.machine_code
def test_plain_exec_is_refused_with_a_remedy() -> None:
    with pytest.raises(SourceNotFound, match=r"tg\.exec\(text, namespace\)"):
        exec(PROGRAM, {})
    corrected = PROGRAM.replace("tg.kernel", "tg.kernel(source=PROGRAM)")
    names: dict[str, object] = {"PROGRAM": PROGRAM}
    exec(corrected, names)
    assert np.array_equal(names["a"], [7.0, 7.0])
