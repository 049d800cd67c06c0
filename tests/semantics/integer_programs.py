"""Random integer arithmetic that wraps, as the source of a kernel, and computed with Python's integers.

Each term has its text, and the values in all lanes, wrapped to its type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

import tegula as tg

LANES = 16
TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SMALL_NUMBERS = (0, 1, 2, 3, 5, 7, 8, 31, 64, 100, 127)
LARGE_NUMBERS = (1000003, 2**31 - 1, 65537, 46341, 2**30)


@dataclass(frozen=True)
class Term:
    """An expression: its text, its type, and its value in each lane."""

    text: str
    dtype: str
    values: tuple[int, ...]


def wrap(value: int, dtype: str) -> int:
    bits = int(dtype.lstrip("uint"))
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value


def truncating_divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b) if b else 0
    return quotient if (a < 0) == (b < 0) else -quotient


def shift_right(a: int, b: int, bits: int) -> int:
    return a >> (b if 0 <= b < bits else bits)


OPS: dict[str, Callable[[int, int, int], int]] = {
    "{} + {}": lambda a, b, bits: a + b,
    "{} - {}": lambda a, b, bits: a - b,
    "{} * {}": lambda a, b, bits: a * b,
    "{} / {}": lambda a, b, bits: truncating_divide(a, b),
    "{} // {}": lambda a, b, bits: a // b if b else 0,
    "{} % {}": lambda a, b, bits: a - b * truncating_divide(a, b) if b else 0,
    "{} & {}": lambda a, b, bits: a & b,
    "{} | {}": lambda a, b, bits: a | b,
    "{} ^ {}": lambda a, b, bits: a ^ b,
    "{} << {}": lambda a, b, bits: a << b if 0 <= b < bits else 0,
    "{} >> {}": shift_right,
    "tg.min({}, {})": lambda a, b, bits: min(a, b),
    "tg.max({}, {})": lambda a, b, bits: max(a, b),
    "tg.abs({0})": lambda a, b, bits: abs(a),
    "-{0}": lambda a, b, bits: -a,
    "~{0}": lambda a, b, bits: ~a,
}


NONNEGATIVE_OPS = (
    "{} + {}",
    "{} * {}",
    "{} * {}",
    "{} << {}",
    "{} >> {}",
    "{} // {}",
    "{} % {}",
    "tg.min({}, {})",
)
"""Ops that have nonnegative results for nonnegative operands, unless they wrap."""


class IntegerProgram:
    """A kernel of one block, and the expected contents of its array `o`. The numbers of every second program are
    nonnegative and grow until they wrap."""

    def __init__(self, seed: int, results: int = 5) -> None:
        self.random = Random(seed)
        self.is_nonnegative = seed % 2 == 0
        self.lines: list[str] = []
        self.names: dict[str, Term] = {}
        self.n = self.random.choice([*SMALL_NUMBERS, *LARGE_NUMBERS, -1, -7, -(2**31)])
        self.x = np.array(
            [self.random.choice([*SMALL_NUMBERS, *LARGE_NUMBERS, -3, -(2**31)]) for _ in range(LANES)],
            np.int32,
        )
        self.define("t", "int32", range(LANES))
        self.define("n", "int32", [self.n] * LANES)
        self.define("x", "int32", self.x.tolist())
        self.expected = np.zeros((2 * results, LANES), np.int64)
        for k in range(results):
            self.loop() if self.random.random() < 0.4 else self.statement()
            self.result(k)

    def define(self, name: str, dtype: str, values: Any) -> None:
        self.names[name] = Term(name, dtype, tuple(values))

    # Terms -----------------------------------------------------------------------------------------------------------

    def term(self, depth: int) -> Term:
        if depth == 0 or self.random.random() < 0.1:
            return self.leaf()
        if self.random.random() < 0.3:
            return self.cast(self.term(depth - 1), self.random.choice(TYPES))
        a = self.term(depth - 1)
        text = self.random.choice(NONNEGATIVE_OPS if self.is_nonnegative else list(OPS))
        if "{1}" not in text and text.count("{}") < 2:
            b = a
        elif "<<" in text or ">>" in text or self.random.random() < 0.4:
            b = self.literal(a.dtype)
        else:
            b = self.cast(self.term(depth - 1), a.dtype)
        if text[0] in "-~" or text == "tg.abs({0})":
            b = a
        bits = int(a.dtype.lstrip("uint"))
        values = tuple(wrap(OPS[text](p, q, bits), a.dtype) for p, q in zip(a.values, b.values, strict=True))
        return Term(f"({text.format(a.text, b.text)})", a.dtype, values)

    def leaf(self) -> Term:
        variables = [v for name, v in self.names.items() if not self.is_nonnegative or name not in ("n", "x")]
        return self.random.choice(variables)

    def literal(self, dtype: str) -> Term:
        max_literal = 127 if dtype == "int8" else 255
        large = LARGE_NUMBERS * (1 + 2 * self.is_nonnegative)
        number = self.random.choice(
            [n for n in (*SMALL_NUMBERS, *large) if n <= max_literal or dtype[-2:] in ("32", "64")]
        )
        return Term(f"tg.{dtype}({number})", dtype, (number,) * LANES)

    def cast(self, a: Term, dtype: str) -> Term:
        if a.dtype == dtype:
            return a
        return Term(f"tg.{dtype}({a.text})", dtype, tuple(wrap(v, dtype) for v in a.values))

    # Statements ------------------------------------------------------------------------------------------------------

    def statement(self) -> None:
        term = self.term(4)
        name = f"v{len(self.names)}"
        self.lines.append(f"    {name} = {term.text}")
        self.define(name, term.dtype, term.values)

    def loop(self) -> None:
        """A loop-carried value, updated by an expression of its value, the loop index and earlier values."""
        start, count, step = (
            self.random.choice([0, 1, 5]),
            self.random.choice([1, 3, 9]),
            self.random.choice([1, 7, -2]),
        )
        carried, index = f"v{len(self.names)}", f"k{len(self.names)}"
        first = self.cast(self.leaf(), self.random.choice(TYPES))
        self.lines += [
            f"    {carried} = {first.text} + tg.{first.dtype}(0)",
            f"    for {index} in range({start}, {start + count * step}, {step}):",
        ]
        saved_names, state, body = dict(self.names), self.random.getstate(), ""
        values = first.values
        for k in range(start, start + count * step, step):
            self.random.setstate(state)
            self.names = dict(saved_names)
            self.define(carried, first.dtype, values)
            self.define(index, "int32", [k] * LANES)
            update = self.cast(self.term(3), first.dtype)
            body, values = update.text, update.values
        self.lines.append(f"        {carried} = {body}")
        self.names = saved_names
        self.define(carried, first.dtype, values)

    def result(self, k: int) -> None:
        """Uses of the newest value that would reveal a wrong assumption of the compiler that it is nonnegative: in a
        maximum, and as an index."""
        result = list(self.names.values())[-1]
        extent = self.random.choice([5, 8, 100])
        indices = [v - extent * truncating_divide(v, extent) for v in result.values]
        self.expected[2 * k] = [max(v, 0) if v < 2**63 else v - 2**64 for v in result.values]
        self.expected[2 * k + 1] = [v % extent for v in indices]
        self.lines += [
            f"    o[{2 * k}, t] = tg.int64(tg.max({result.text}, tg.{result.dtype}(0)))",
            f"    s{k} = tg.tile_arange({extent}, dtype=tg.int64, storage='shared')",
            f"    s{k}[0] += tg.int64(0)",
            f"    o[{2 * k + 1}, t] = s{k}[{result.text} % tg.{result.dtype}({extent})]",
        ]

    # Kernel ----------------------------------------------------------------------------------------------------------

    @property
    def text(self) -> str:
        opening = [
            "def kernel(o: tg.array2d[tg.int64], a: tg.array[tg.int32], n: int):",
            "    i, t = tg.tid()",
        ]
        return "\n".join([*opening, "    x = a[t]", *self.lines]) + "\n"

    def build(self) -> Any:
        space: dict[str, Any] = {"tg": tg}
        exec(self.text, space)
        return tg.kernel(source=self.text)(space["kernel"])

    def arguments(self) -> list[Any]:
        return [tg.zeros(self.expected.shape, dtype=tg.int64), tg.array(self.x), self.n]
