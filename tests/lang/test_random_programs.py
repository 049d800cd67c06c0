"""Random programs have the same results in a kernel as in CPython."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from traced_kernels import launched, zeros

import tegula as tg
from tegula.lang import array1d, func
from tegula.lang.decorators import kernel

NAMES = ("a", "b", "c", "d")
LANES = 16


class ProgramWriter:
    """Writes a function of one int over a few int variables; all loops end."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.counter = 0

    def program(self) -> str:
        self.lines = ["def f(n):", "    a = n", "    b = 1", "    c = 2 - n", "    d = 0"]
        self.block(1, 4, in_loop=False)
        self.lines.append("    return a + 3 * b + 5 * c + 7 * d")
        return "\n".join(self.lines) + "\n"

    def block(self, depth: int, size: int, in_loop: bool) -> None:
        for _ in range(self.random.randint(1, size)):
            self.statement(depth, in_loop)

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def atom(self) -> str:
        return self.random.choice([*NAMES, "n", str(self.random.randint(0, 9))])

    def value(self) -> str:
        r = self.random
        kind = r.randint(0, 5)
        if kind < 4:
            return f"({self.atom()} {r.choice('+-*')} {self.atom()}) & 1023"
        if kind == 4:
            return f"({self.atom()} if {self.condition()} else {self.atom()})"
        return f"min({self.atom()}, {self.atom()})"

    def condition(self) -> str:
        r = self.random
        simple = f"{self.atom()} {r.choice(['<', '>', '==', '!=', '<=', '>='])} {self.atom()}"
        kind = r.randint(0, 4)
        if kind == 0:
            return f"{simple} {r.choice(['and', 'or'])} {self.atom()} < {self.atom()}"
        if kind == 1:
            return f"not {self.atom()} < {self.atom()} <= {self.atom()}"
        return simple

    def statement(self, depth: int, in_loop: bool) -> None:
        r = self.random
        kind = r.randint(0, 11 if depth < 4 else 4)
        if kind <= 2:
            self.add(depth, f"{r.choice(NAMES)} = {self.value()}")
        elif kind == 3:
            name = r.choice(NAMES)
            self.add(depth, f"{name} {r.choice(['+=', '-=', '^='])} {self.atom()}")
            self.add(depth, f"{name} &= 4095")
        elif kind == 4:
            x, y = r.sample(NAMES, 2)
            self.add(depth, f"{x}, {y} = {y}, {x}")
        elif kind <= 7:
            self.branch(depth, in_loop)
        elif kind == 8:
            self.counter += 1
            name = r.choice([*NAMES, f"i{self.counter}"])
            bounds = r.choice(["3", f"{self.atom()} & 7", "5, 0, -2", f"1, {self.atom()} & 7, 2"])
            self.add(depth, f"for {name} in range({bounds}):")
            self.block(depth + 1, 3, in_loop=True)
        elif kind == 9:
            self.counter += 1
            self.add(depth, f"w{self.counter} = 0")
            self.add(depth, f"while w{self.counter} < 5 and ({self.condition()}):")
            self.add(depth + 1, f"w{self.counter} += 1")
            self.block(depth + 1, 3, in_loop=True)
        else:
            self.leave(depth, in_loop)

    def branch(self, depth: int, in_loop: bool) -> None:
        self.add(depth, f"if {self.condition()}:")
        self.block(depth + 1, 3, in_loop)
        if self.random.random() < 0.3:
            self.add(depth, f"elif {self.condition()}:")
            self.block(depth + 1, 2, in_loop)
        if self.random.random() < 0.5:
            self.add(depth, "else:")
            self.block(depth + 1, 2, in_loop)

    def leave(self, depth: int, in_loop: bool) -> None:
        exit_statement = self.random.choice(["break", "continue", "return"] if in_loop else ["return"])
        self.add(depth, f"if {self.condition()}:")
        self.add(depth + 1, f"return {self.value()}" if exit_statement == "return" else exit_statement)


def compare(text: str) -> None:
    namespace: dict[str, Any] = {}
    exec(text, namespace)
    python = namespace["f"]
    f = func(source=text)(python)

    @kernel
    def run(out: array1d[int]):
        i = tg.tid()
        out[i] = f(i)

    out = zeros(LANES, dtype=np.int32)
    launched(run, out, dims=(LANES,), block_dim=8)
    expected = np.array([python(n) for n in range(LANES)], dtype=object)
    assert out.tolist() == [(int(x) + 2**31) % 2**32 - 2**31 for x in expected], text


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_match_python(seed: int) -> None:
    compare(ProgramWriter(seed).program())
