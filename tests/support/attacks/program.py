"""Programs of schedules, composed of loops over items, computations of stages and phases, and tagged lines that faults
modify."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np

from tegula.dataclass import dataclass, field, replace

LaunchArguments = dict[str, Any]
TYPES = {
    **dict.fromkeys(("x", "y"), "tg.array2d[float]"),
    **dict.fromkeys(("a", "b"), "tg.array2d[tg.bfloat16]"),
    "out": "tg.array2d[float]",
    **dict.fromkeys(("n", "m", "c", "d", "e", "u", "v"), "int"),
    **dict.fromkeys(("flags", "offs", "keys", "g"), "tg.array1d[int]"),
    "w": "tg.array1d[float]",
}
"""The types of the parameters that kernels may have, in the order of the parameters."""
ROW = 32
"""The number of elements of a row."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a role's loop body. `tag`: the kind of the line, by which faults select it."""

    tag: str
    text: str


@dataclass(frozen=True, slots=True)
class LoopForm:
    """A form of iteration over items: the lines `before`, and consecutive loops, each with the lines that open and
    close it. Inside the loops `k` is the index of the item."""

    loops: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    before: tuple[str, ...] = ()

    @property
    def carries(self) -> bool:
        return bool(self.before) or any(close for _, close in self.loops)


def form(*open: str, close: Sequence[str] = (), before: Sequence[str] = ()) -> LoopForm:
    return LoopForm(((tuple(open), tuple(close)),), tuple(before))


@dataclass(frozen=True, slots=True)
class Staging:
    """Code that computes the stage and phase of item `k`: lines before the loops, and at the start and the end of the
    loop body."""

    before: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    end: tuple[str, ...] = ()


@dataclass(slots=True)
class Role:
    """A role. `elected`: an elected thread runs the loop body."""

    head: str
    form: LoopForm
    body: list[Line]
    staging: Staging = field(default_factory=Staging)
    elected: bool = False
    before: list[str] = field(default_factory=list)
    end: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        elect_all = (
            self.elected and not self.form.carries and not (self.staging.end or self.before or self.end)
        )
        out = [*self.form.before, *self.staging.before, *self.before]
        for open, close in self.form.loops:
            out += open
            opened = open[-1].endswith(":")
            depth = _depth(open[-1]) + (4 if opened else 0)
            inner = [line.text for line in self.body]
            if self.elected and not elect_all:
                inner = ["if tg.elect():", *indented(inner)]
            inner = [*self.staging.start, *inner, *self.end, *self.staging.end]
            out += indented(inner, depth)
            out += close
        out += self.after
        if elect_all:
            out = ["if tg.elect():", *indented(out)]
        return [f"with {self.head}:", *indented(out or ["pass"])]

    def index_of_tag(self, tag: str) -> int:
        """The index of the first line with a tag, or -1 if no line has the tag."""
        return next((k for k, line in enumerate(self.body) if line.tag == tag), -1)

    def copy(self) -> Role:
        return replace(
            self, body=list(self.body), before=list(self.before), end=list(self.end), after=list(self.after)
        )


@dataclass(slots=True)
class Program:
    """A kernel. `preamble`: the lines before the roles; `asserts`: the asserts before the preamble."""

    preamble: list[str]
    roles: list[Role]
    asserts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        lines = [*self.asserts, *self.preamble]
        for role in self.roles:
            lines += role.lines()
        used_names = set(re.findall(r"\b[a-z]+\b", "\n".join(lines)))
        if re.search(r"\bi\b", "\n".join(self.preamble)):
            lines.insert(0, "i = tg.tid()")
        parameters = ", ".join(f"{name}: {t}" for name, t in TYPES.items() if name in used_names)
        return "\n".join([f"def kernel({parameters}):", *indented(lines)]) + "\n"

    @property
    def stages(self) -> int:
        """The number of stages of the first barriers or the first pipe, or 0 if the program has neither."""
        match = re.search(r"stages=(\d+)", "\n".join(self.preamble))
        return int(match.group(1)) if match else 0

    def copy(self) -> Program:
        return Program(list(self.preamble), [role.copy() for role in self.roles], list(self.asserts))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def indented(lines: Sequence[str], width: int = 4) -> list[str]:
    return [" " * width + part for line in lines for part in line.split("\n")]


# Stages and phases ----------------------------------------------------------------------------------------------------


def stagings(rng: Random, stages: int) -> Staging:
    """A correct computation of stages and phases."""
    S = stages
    forms = [
        Staging(start=(f"s = k % {S}", f"phase = k // {S} & 1")),
        Staging(start=(f"s = k % {S}", f"phase = k // {S} % 2")),
        Staging(start=(f"s, phase = k % {S}, k // {S} & 1",)),
        Staging(start=(f"phase = k // {S} & 1", f"s = k - k // {S} * {S}")),
        Staging(
            ("s = int(0)", "phase = int(0)"), (), ("s += 1", f"if s == {S}:", "    s = 0", "    phase ^= 1")
        ),
        Staging(
            ("s = int(0)", "phase = int(0)"), (), (f"s = s + 1 if s < {S - 1} else 0", "phase ^= int(s == 0)")
        ),
        Staging(("it = int(0)",), (f"s, phase = it % {S}, it // {S} & 1",), ("it += 1",)),
    ]
    if S & (S - 1) == 0:
        log = S.bit_length() - 1
        forms += [
            Staging(start=(f"s, phase = k & {S - 1}, k >> {log} & 1",)),
            Staging(
                ("it = tg.uint8(0)",),
                (f"s, phase = int(it % tg.uint8({S})), int(it // tg.uint8({S})) & 1",),
                ("it += tg.uint8(1)",),
            ),
        ]
    return rng.choice(forms)


def wrong_stagings(rng: Random, stages: int) -> tuple[Staging, int, LaunchArguments]:
    """A computation of stages and phases that is wrong from some item on, or for a large argument; with the number of
    items from which the fault occurs, and the arguments."""
    S = stages
    top, big = rng.choice((17, 40, 64, 100, 130, 200)), rng.choice((2**31 // S + 5, 2**30 + 1, 2**31 - 7))
    forms: list[tuple[Staging, int, LaunchArguments]] = [
        (Staging(start=(f"s, phase = k % {S}, tg.min(k, {top}) // {S} & 1",)), top, {}),
        (Staging(start=(f"s, phase = k % {S}, (k // {S} & 1) ^ int(k > {top})",)), top, {}),
        (Staging(start=(f"s, phase = k % {top} % {S}, k % {top} // {S} & 1",)), 2 * top, {}),
        (Staging(start=(f"s, phase = k % {top} % {S}, k // {S} & 1",)), 2 * top, {}),
        (Staging(start=(f"s, phase = (k + {S} * c) % {S}, k // {S} & 1",)), 4, {"c": big}),
        (Staging(start=(f"s, phase = k % {S}, (k + {2 * S} * c) // {S} & 1",)), 4, {"c": big}),
        (Staging(start=(f"s, phase = k % {S}, (k // {S} & 1) ^ (c >> 20 & 1)",)), 4, {"c": 1 << 20}),
        (Staging(("it = c",), (f"s, phase = it % {S}, it // {S} & 1",), ("it += 1",)), 4, {"c": 1}),
        (Staging(start=(f"s, phase = (k + c) % {S}, (k + c) // {S} & 1",)), 4, {"c": S + 1}),
        (
            Staging(start=(f"s, phase = (k + {2 * S} * c) % {S}, (k + {2 * S} * c) // {S} & 1",)),
            4,
            {"c": big},
        ),
        (
            Staging(
                (
                    "s = int(0)",
                    "phase = c",
                ),
                (),
                ("s += 1", f"if s >= {S}:", "    s = 0", "    phase ^= 1"),
            ),
            4,
            {"c": 1},
        ),
        (
            Staging(start=(f"s, phase = k % {S}, k // {S} + k // {top} * (k // {top} - 1) // 2 & 1",)),
            3 * top,
            {},
        ),
        (Staging(start=(f"s, phase = k % {S}, (k // {S} & 1) ^ (k * k // {top * top} & 1)",)), 2 * top, {}),
    ]
    if S & (S - 1):
        forms += [
            (
                Staging(
                    ("it = tg.uint8(0)",),
                    (f"s, phase = int(it % tg.uint8({S})), int(it // tg.uint8({S})) & 1",),
                    ("it += tg.uint8(1)",),
                ),
                256,
                {},
            ),
            (
                Staging(
                    start=(
                        f"s = int(tg.uint8(k) % tg.uint8({S}))",
                        f"phase = int(tg.uint8(k) // tg.uint8({S})) & 1",
                    )
                ),
                256,
                {},
            ),
        ]
    for bits in (7, 8, 9, 10):
        magic = (1 << bits) // S + 1
        first = next((k for k in range(4096) if k * magic >> bits != k // S), 0)
        if S & (S - 1) and 2 * S + 1 < first:
            index = f"(k * {magic} >> {bits})"
            forms.append((Staging(start=(f"s, phase = k - {index} * {S}, {index} & 1",)), first, {}))
    return rng.choice(forms)


# Arguments ------------------------------------------------------------------------------------------------------------


def defaults(items: int) -> LaunchArguments:
    """Default arguments of all parameters, with arrays of at least `items` elements."""
    count = items + 70
    return {
        "x": None, "y": None, "a": None, "b": None, "out": None, "n": 1, "m": 1, "c": 0, "d": 1, "e": 0, "u": 0, "v": 0,
        "flags": np.ones(count, np.int32), "offs": np.zeros(count, np.int32), "keys": np.zeros(count, np.int32),
        "g": np.zeros(count, np.int32), "w": np.zeros(count, np.float32),
    }  # fmt: skip


ArgumentBuilder = Callable[[Random, int], LaunchArguments]
"""A function from a generator and a number of items to the arguments of a launch with at least this number of items."""
