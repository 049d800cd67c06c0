"""Forms of iteration over the items of a schedule, in pairs for two roles: pairs that always agree, and pairs that
differ in some launches."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from support.attacks.program import ArgumentBuilder, LaunchArguments, LoopForm, form
from tegula.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LoopPair:
    """Two loops over the same items. `first`, `second`: the forms of two roles; `launch_args`: the arguments for a
    number of items; `count`: the parameter that holds the number of items, or ""; `preamble`: the lines before the
    roles; `faulty_args`: arguments of launches in which the forms differ, empty if they always agree; `guarded`: the
    forms differ only if a factor of a trip count is negative or the trip count exceeds 32 bits, so that a guard may
    exclude these launches."""

    row: str
    name: str
    first: LoopForm
    second: LoopForm
    launch_args: ArgumentBuilder
    count: str = ""
    preamble: tuple[str, ...] = ()
    asserts: tuple[str, ...] = ()
    faulty_args: tuple[LaunchArguments, ...] = ()
    guarded: bool = False


WalkBuilder = Callable[[Random, bool], LoopPair]
WALKS: list[WalkBuilder] = []


def walk(builder: WalkBuilder) -> WalkBuilder:
    WALKS.append(builder)
    return builder


def _rows(rng: Random, items: int) -> tuple[int, int]:
    """Two factors for a loop nest of at least `items` iterations."""
    m = rng.choice((1, 2, 3, 5, 7, 16))
    return -(-items // m) + rng.randrange(2), m


def counted(*open: str, close: tuple[str, ...] = ()) -> LoopForm:
    """Loops that count their items in `k`."""
    depth = len(open[-1]) - len(open[-1].lstrip()) + 4
    return form(*open, close=(" " * depth + "k += 1", *close), before=("k = int(0)",))


def plain(rng: Random, bound: str = "n") -> LoopForm:
    return rng.choice(
        [
            form(f"for k in range({bound}):"),
            form(f"while k < {bound}:", close=("    k += 1",), before=("k = int(0)",)),
            form(f"for q in range(5, 5 + {bound}):", "    k = q - 5"),
            form(f"for q in range(0, 2 * {bound}, 2):", "    k = q // 2"),
            counted(f"for q in range({bound}):"),
        ]
    )


@walk
def one_loop(rng: Random, wrong: bool) -> LoopPair:
    """One loop, whose bound may have two equivalent expressions."""
    a, b = form("for k in range(n):"), plain(rng)

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        return {"n": items + rng.randrange(4)}

    if not wrong:
        return LoopPair("", "one loop", a, b, launch_args, "n")
    pairs: list[tuple[str, str, list[LaunchArguments]]] = [
        ("n", "n + m - m // d * d", [{"m": 7 * 40 + 3, "d": 40}]),
        ("n + m // 100", "n + m // 100 + int(m % 1000 == 777)", [{"n": 9, "m": 1777}]),
        ("tg.min(n, m)", "n if n < m else m - int(n - m == 33)", [{"n": 50, "m": 17}]),
        ("n", "n + (c * c & 4096)", [{"n": 20, "c": 64}]),
        ("n", "n + (m ^ c) // 1000000", [{"n": 20, "m": 1 << 20, "c": 3}]),
        ("n // 3 * 3", "n - n % 3 + int(n == 3 * 41)", [{"n": 123}]),
        ("n + int(float(n) * 0.1 > 6.05)", "n + int(n > 61)", [{"n": 61}]),
        ("n", "int(tg.float32(n + 16777216)) - 16777216 + n % 2 - int(n == 301)", [{"n": 301}]),
        ("n", "int(tg.int16(n * c)) // tg.max(c, 1)", [{"n": 40, "c": 999}]),
        ("n", "n + g[n % 7] // 50", [{"n": 19, "g": {5: 50}}]),
        ("tg.abs(n)", "n", [{"n": -5}]),
        ("n + 5 + m / 2", "n + 5 + m // 2", [{"n": 9, "m": -3}, {"n": 9, "m": -8001}]),
        ("n + m % 4", "n + m - m // 4 * 4", [{"n": 9, "m": -3}]),
        ("n + (m >> 3)", "n + m / 8", [{"n": 20, "m": -9}]),
        ("n + tg.max(m, c) - m", "n + tg.max(0, c - m)", [{"n": 9, "m": -(2**31) + 3, "c": 2**31 - 9}]),
        ("n + tg.min(m, 40)", "n + (m if m < 41 else 41 - int(m != 41))", [{"n": 9, "m": 41}]),
        ("n", "tg.max(n, m - 90)", [{"n": 12, "m": 107}]),
    ]
    first_walk, second_walk, faulty_args = rng.choice(pairs)
    if rng.random() < 0.5:
        first_walk, second_walk = second_walk, first_walk
    return LoopPair(
        "", "one loop", form(f"for k in range({first_walk}):"), plain(rng, f"({second_walk})"), launch_args, "n",
        faulty_args=tuple(faulty_args),
    )  # fmt: skip


@walk
def window(rng: Random, wrong: bool) -> LoopPair:
    low, high = "tg.max(0, j - m)", "tg.min(j + m + 1, d)"
    a = counted("for j in range(n):", f"    for q in range({low}, {high}):")
    b = rng.choice(
        [
            counted(
                "for j in range(n):", f"    lo = {low}", f"    hi = {high}", "    for q in range(hi - lo):"
            ),
            counted("for j in range(n):", f"    for q in range({low}, {high}):"),
            counted("for j in range(n):", f"    for q in range({low} + 2, {high} + 2):"),
        ]
    )

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        m = rng.randrange(1, 4)
        n = items // (m + 1) + m + 2
        return {"n": n, "m": m, "d": n}

    if wrong:
        b, faulty_args = rng.choice(
            [
                (
                    counted(
                        "for j in range(n):", f"    for q in range(tg.max(0, j - m - int(j == 21)), {high}):"
                    ),
                    [{"n": 24, "m": 2, "d": 30}],
                ),
                (
                    counted("for j in range(n):", "    for q in range(tg.min(2 * m + 1, d)):"),
                    [{"n": 5, "m": 2, "d": 9}],
                ),
                (
                    counted("for j in range(n):", f"    for q in range({low}, tg.min(j + m + 1, n)):"),
                    [{"n": 12, "m": 2, "d": 13}, {"n": 7, "m": 1, "d": 6}],
                ),
                (
                    counted(
                        "for j in range(n):", f"    for q in range({low}, tg.min(tg.min(j, 33) + m + 1, d)):"
                    ),
                    [{"n": 40, "m": 1, "d": 60}],
                ),
                (
                    counted(
                        "for j in range(n):",
                        f"    for q in range(j - m if j - m > 0 else int(j == m and m > 3), {high}):",
                    ),
                    [{"n": 9, "m": 4, "d": 12}],
                ),
            ]
        )
        return LoopPair("sliding window", "window", a, b, launch_args, faulty_args=tuple(faulty_args))
    return LoopPair("sliding window", "window", a, b, launch_args)


@walk
def split(rng: Random, wrong: bool) -> LoopPair:
    """The chunk of a loop that one block of a split-K matmul computes."""
    chunk = "(n + d - 1) // d"
    a = form(
        f"for q in range(c * ({chunk}), tg.min(n, c * ({chunk}) + {chunk})):", f"    k = q - c * ({chunk})"
    )
    b = rng.choice(
        [
            form(f"for k in range(tg.min({chunk}, n - c * ({chunk}))):"),
            counted(f"for q in range(c * ({chunk}), tg.min(n, (c + 1) * ({chunk}))):"),
        ]
    )

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        d = rng.randrange(1, 5)
        return {"n": d * items + rng.randrange(d), "d": d, "c": rng.randrange(d)}

    if wrong:
        b, faulty_args = rng.choice(
            [
                (form(f"for k in range({chunk}):"), [{"n": 10, "d": 3, "c": 2}]),
                (form("for k in range(n // d + int(c < n % d)):"), [{"n": 21, "d": 4, "c": 3}]),
                (form(f"for k in range(tg.min({chunk}, n - c * ({chunk})) - int(n % d == 5 and d == 7)):"),
                 [{"n": 40, "d": 7, "c": 2}]),
                (counted(f"for q in range(c * ({chunk}), tg.min(n - n % d // 6, (c + 1) * ({chunk}))):"),
                 [{"n": 7 * 8 + 6, "d": 7, "c": 6}, {"n": 6 * 8 + 6, "d": 7, "c": 6}]),
            ]
        )  # fmt: skip
        return LoopPair("sliding window", "split-K", a, b, launch_args, faulty_args=tuple(faulty_args))
    return LoopPair("sliding window", "split-K", a, b, launch_args)


@walk
def stream(rng: Random, wrong: bool) -> LoopPair:
    """Stream-K: a range of items that starts and ends inside tiles of m items."""
    result = ("first = c * e", "last = tg.min(first + e, n * m)")
    full_walk = form("for q in range(first, last):", "    k = q - first")
    stop = "tg.min(last, (t // m + 1) * m)"

    def parts(stop: str) -> LoopForm:
        return form(
            "while t < last:", f"    stop = {stop}", "    for q in range(t, stop):", "        k = q - first",
            close=("    t = stop",), before=("t = first",),
        )  # fmt: skip

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        m = rng.choice((1, 2, 3, 5, 7))
        c = rng.randrange(3)
        return {"m": m, "n": (c + 1) * items // m + 3, "c": c, "e": items}

    if wrong:
        b, faulty_args = rng.choice(
            [
                (
                    parts("tg.min(last + int(last - t == 1 and m == 7), (t // m + 1) * m)"),
                    [{"n": 9, "m": 7, "c": 0, "e": 8}],
                ),
                (
                    parts("tg.min(last, (t // m + 1) * m) + int(last % 64 == 33)"),
                    [{"n": 40, "m": 5, "c": 1, "e": 97}],
                ),
                (parts("(t // m + 1) * m"), [{"n": 40, "m": 5, "c": 0, "e": 12}]),
            ]
        )
        if rng.random() < 0.4:
            a = form("for q in range(first, last + int(e > 60 and n % 3 == 1)):", "    k = q - first")
            return LoopPair("sliding window", "stream-K", a, parts(stop), launch_args, preamble=result,
                    faulty_args=({"n": 40, "m": 5, "c": 0, "e": 61}, {"n": 43, "m": 5, "c": 0, "e": 61}))  # fmt: skip
        return LoopPair(
            "sliding window",
            "stream-K",
            full_walk,
            b,
            launch_args,
            preamble=result,
            faulty_args=tuple(faulty_args),
        )
    b = rng.choice([parts(stop), full_walk, form("for k in range(last - first):")])
    asserts = (  # the loop does not end if tiles have no items
        "assert m > 0 and m < 1000000 and n >= 0 and n < 2000",
        "assert c >= 0 and c < 1000 and e >= 0 and e < 1000000",
    )
    return LoopPair(
        "sliding window",
        "stream-K",
        full_walk,
        b,
        launch_args,
        preamble=result,
        asserts=asserts if b.before else (),
    )


@walk
def steps(rng: Random, wrong: bool) -> LoopPair:
    """A loop with a step that is an argument."""
    a = counted("for q in range(m, n, d):")
    if wrong:
        pairs = [
            ("(n - m) // d + 1", [{"n": 30, "m": 3, "d": 9}]),
            ("(n - m + d) // d", [{"n": 21, "m": 1, "d": 4}]),
            ("(n - m + d - 1) // d - int((n - m) % 97 == 96)", [{"n": 96, "m": 0, "d": 3}]),
            (
                "(n - m + d - 1 - c // 50) // d",
                [{"n": 31, "m": 0, "d": 3, "c": 100}, {"n": 31, "m": 0, "d": 1, "c": 60}],
            ),
            ("(n - m + d - 1) // d", [{"n": 0, "m": 10, "d": -3}, {"n": -5, "m": 10, "d": -4}]),
        ]
        count, faulty_args = rng.choice(pairs)
        b = form(f"for k in range({count}):")
        return LoopPair(
            "sliding window",
            "steps",
            a,
            b,
            lambda rng, n: {"n": 3 * n + 2, "m": 2, "d": 3},
            faulty_args=tuple(faulty_args),
        )
    b = rng.choice([form("for k in range((n - m + d - 1) // d):"), counted("for q in range(m, n, d):")])
    return LoopPair(
        "sliding window", "steps", a, b, lambda rng, n: {"n": 3 * n + 2, "m": 2, "d": 3}, asserts=(
            "assert d > 0 and d < 1000", "assert m >= 0 and m < 1000000", "assert n >= 0 and n < 1000000"
        ),
    )  # fmt: skip


@walk
def csr_rows(rng: Random, wrong: bool) -> LoopPair:
    """CSR: rows whose lengths are read from an array of offsets."""
    from_to = counted("for r in range(n):", "    for q in range(offs[r], offs[r + 1]):")
    difference = counted(
        "for r in range(n):", "    lo, hi = offs[r], offs[r + 1]", "    for q in range(hi - lo):"
    )
    a, b = rng.choice(
        [
            (from_to, from_to),
            (difference, difference),
            (difference, counted("for r in range(n):", "    for q in range(offs[r + 1] - offs[r]):")),
        ]
    )

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        n = max(1, items // 2)
        lengths = [rng.randrange(5) for _ in range(n)]
        lengths[-1] += max(0, items - sum(lengths))
        return {"n": n, "offs": np.cumsum([0, *lengths, 0, 0]).astype(np.int32)}

    if wrong:
        fall, a = {0: 0, 1: 4, 2: 2, 3: 5, 4: 9}, from_to
        b, faulty_args = rng.choice(
            [
                (difference, [{"n": 1, "offs": {0: 2**31 - 1, 1: -(2**31)}}]),
                (form("for q in range(offs[0], offs[n]):", "    k = q - offs[0]"), [{"n": 4, "offs": fall}]),
                (
                    counted("for r in range(n):", "    for q in range(tg.abs(offs[r + 1] - offs[r])):"),
                    [{"n": 4, "offs": fall}],
                ),
                (
                    counted(
                        "for r in range(n):",
                        "    for q in range(offs[r], tg.max(offs[r + 1], offs[r] + int(r == 18))):",
                    ),
                    [{"n": 20, "offs": {k: k for k in range(19)} | {19: 18, 20: 18}}],
                ),
                (
                    counted("for r in range(n):", "    for q in range(offs[r], tg.min(offs[r + 1], offs[r] + 40)):"),
                    [{"n": 3, "offs": {0: 0, 1: 3, 2: 45, 3: 47}}],
                ),
                (
                    counted(
                        "for r in range(n):",
                        "    if offs[r + 1] != 33:",
                        "        for q in range(offs[r], offs[r + 1]):",
                    ),
                    [{"n": 3, "offs": {0: 0, 1: 30, 2: 33, 3: 35}}],
                ),
            ]
        )  # fmt: skip
        return LoopPair("sliding window", "CSR", a, b, launch_args, faulty_args=tuple(faulty_args))
    return LoopPair("sliding window", "CSR", a, b, launch_args)


@walk
def persistent(rng: Random, wrong: bool) -> LoopPair:
    """Persistent blocks whose tiles have different numbers of items."""
    bound = rng.choice(("m + 1", "t % 3 + 1", "keys[t]", "tg.min(t + 1, m)"))
    a = counted("for t in range(c, n, d):", f"    for q in range({bound}):")

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        d = rng.randrange(1, 4)
        n = d * (items + 2)
        return {"c": rng.randrange(d), "n": n, "d": d, "m": 2, "keys": np.full(n + 4, 2, np.int32)}

    if wrong:
        second_bound, faulty_args = rng.choice(
            [
                (f"{bound} + int(t == 29)", {"c": 0, "n": 33, "d": 1}),
                (f"{bound} - int(t + d > n - 1 and n % 7 == 4)", {"c": 0, "n": 32, "d": 3}),
                (f"{bound} + int(m == 5 and d == 3)", {"c": 1, "n": 12, "d": 3, "m": 5}),
                (f"{bound} - int(keys[t] == 13)", {"c": 0, "n": 12, "d": 1, "keys": {5: 13}}),
            ]
        )
        faulty_args = {"m": 2, "keys": np.full(faulty_args["n"] + 4, 2, np.int32)} | faulty_args
        if isinstance(faulty_args["keys"], dict):
            full = np.full(faulty_args["n"] + 4, 2, np.int32)
            full[5] = 13
            faulty_args["keys"] = full
        b = counted("for t in range(c, n, d):", f"    for q in range({second_bound}):")
        return LoopPair("sliding window", "persistent", a, b, launch_args, faulty_args=(faulty_args,))
    b = rng.choice([a, counted("t = c", "while t < n:", f"    for q in range({bound}):")])
    if b is not a:
        b = form("while t < n:", f"    for q in range({bound}):", close=("        k += 1", "    t += d"),
                 before=("k = int(0)", "t = c"))  # fmt: skip
    asserts = (
        ("assert d > 0 and d < 1000", "assert n < 1000000 and c >= 0 and c < 1000") if b is not a else ()
    )
    return LoopPair("sliding window", "persistent", a, b, launch_args, asserts=asserts)


CONDITIONS = (
    "flags[q] != 0", "flags[q] > 2", "w[q] > 0.5", "w[q] < w[q + 1]", "q % 3 == 1", "q % m == c", "(q ^ m) & 1 == 0",
    "q * 3 % 5 < 3", "flags[q] & 1 == 1", "flags[q] == flags[q + 1]", "q < m or q > 2 * m",
)  # fmt: skip
UNEQUAL: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("w[q] > 0.5", "not w[q] <= 0.5", {"w": {9: float("nan")}}),
    ("flags[q] > 0", "flags[q] != 0", {"flags": {14: -3}}),
    ("flags[q] != 0", "flags[q] * flags[q] != 0", {"flags": {11: 65536}}),
    ("flags[q] != 0", "int(tg.int8(flags[q])) != 0", {"flags": {7: 512}}),
    ("flags[q] > 16777216", "tg.float32(flags[q]) > 16777216.0", {"flags": {6: 16777217}}),
    ("(q - m) % 3 == 1", "(q - m) - (q - m) / 3 * 3 == 1", {"m": 11}),
    ("q - m < 5", "q < m + 5", {"m": 2**31 - 3}),
    ("tg.max(q, m) == q", "q > m - int(m != 23)", {"m": 23}),
    ("w[q] > 0.5", "w[q] + 0.1 > 0.6", {"w": {8: 0.50000006}}),
    ("q % 3 == 1", "q % 3 == 1 and q != 28", {}),
    ("q % 5 < 3", "q % 5 < 3 or q % 35 == 34", {}),
    ("flags[q] == flags[q + 1]", "flags[q] - flags[q + 1] <= 0", {"flags": {9: 0, 10: 5}}),
    ("(q + m) % 4 == 0", "(q % 4 + m % 4) % 4 == 0 and m != 2001", {"m": 2001}),
    ("q * m % 7 == 0", "(q % 7) * (m % 7) % 7 == 0", {"m": 1500000001}),
    ("q % 2 == c", "q % 2 == (c & 1)", {"c": 3}),
    ("q < m", "q - m < 0", {"m": -2147483647}),
    ("w[q] > 0.0", "w[q] * w[q] > 0.0", {"w": {12: 1e-30}}),
    ("flags[q] > 5", "flags[q] * 3 > 15", {"flags": {12: 1 << 30}}),
    ("flags[q] % 64 != 0", "flags[q] & 127 != 0", {"flags": {20: 64}}),
    ("flags[q] >> 4 == 1", "flags[q] // 16 == 1 and w[q] != 13.0", {"flags": {20: 16}, "w": {20: 13.0}}),
)


@walk
def equal_conditions(rng: Random, wrong: bool) -> LoopPair:
    """Equivalent conditions of both roles on data, floats and remainders."""
    first_condition = second_condition = rng.choice(CONDITIONS)
    faulty_args: LaunchArguments = {}
    if wrong:
        first_condition, second_condition, faulty_args = rng.choice(UNEQUAL)
        if rng.random() < 0.5:
            first_condition, second_condition = second_condition, first_condition
    bound = rng.choice(("n", "n", "tg.min(n, 90)"))
    a = form(
        f"for q in range({bound}):",
        f"    if {first_condition}:",
        close=("        k += 1",),
        before=("k = int(0)",),
    )
    b = form(
        f"for q in range({bound}):",
        f"    if {second_condition}:",
        close=("        k += 1",),
        before=("k = int(0)",),
    )

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        n = 4 * items + 4
        return {
            "n": n, "m": 3, "c": 1, "flags": np.array([rng.choice((0, 1, 3, 3)) for _ in range(n + 4)], np.int32),
            "w": np.array([rng.choice((0.0, 0.9, 1.0)) for _ in range(n + 4)], np.float32),
        }  # fmt: skip

    return LoopPair(
        "data-dependent",
        "equivalent conditions",
        a,
        b,
        launch_args,
        faulty_args=({"n": 40, **faulty_args},) if wrong else (),
    )


@walk
def residues(rng: Random, wrong: bool) -> LoopPair:
    """Every d-th iteration in one role, and a bound divided by d in the other."""
    d = rng.choice((2, 3, 4, 5, 8, 16, 48))
    r = rng.randrange(d)
    a = counted("for q in range(n):", f"    if q % {d} == {r}:")
    correct_count = f"(n + {d - 1 - r}) // {d}"

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        return {"n": d * items + rng.randrange(d)}

    if wrong:
        options = [f"n // {d} + int(n % {d} > {r + 1})", f"(n + {d - r}) // {d}", f"n // {d}",
                   f"(n - {r}) // {d} + int(n > {r})",
                   f"{correct_count} - int(n % {d * 7} == {d * 7 - 1})",
                   f"(n + {d - 1 - r}) // {d} + int(n == {29 * d})",
                   f"(n >> {max(1, d.bit_length() - 1)}) + int(n % {d} > {r})",
                   f"{correct_count} - n // {40 * d}"]  # fmt: skip
        b = form(f"for k in range({rng.choice(options)}):")
        faulty_args = tuple(
            {"n": n} for n in (*range(0, 3 * d + 2), 7 * d - 1, 14 * d - 1, 29 * d, 40 * d, 40 * d + 1)
        )
        return LoopPair(
            "residue against division", "residues", a, b, launch_args, "n", faulty_args=faulty_args
        )
    b = form(f"for k in range({correct_count}):")
    if r == 0 and rng.random() < 0.5:
        b = form(f"for q in range(0, n, {d}):", f"    k = q // {d}")
    asserts = ("assert n >= 0 and n < 1000000000",)
    return LoopPair("residue against division", "residues", a, b, launch_args, "n", asserts=asserts)


@walk
def flattened(rng: Random, wrong: bool) -> LoopPair:
    flat = form("for k in range(n * m):")
    nested = rng.choice(
        [
            form("for i in range(n):", "    for j in range(m):", "        k = i * m + j"),
            counted("for i in range(n):", "    for j in range(m):"),
            counted("for j in range(m):", "    for i in range(n):"),
        ]
    )

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        n, m = _rows(rng, items)
        return {"n": n, "m": m}

    asserts = ("assert n >= 0 and n <= 30000", "assert m >= 0 and m <= 30000")
    if wrong:
        kind = rng.randrange(8)
        faulty_args: list[LaunchArguments] = []
        guarded = False
        if kind == 0:
            asserts, guarded = (), True
            faulty_args = [{"n": -2, "m": -3}, {"n": -7, "m": -1}, {"n": 65536, "m": 65536}]
        elif kind == 1:
            asserts = ("assert n > 0 and m > 0", "assert n * m < 1000000")
            faulty_args = [{"n": 65536, "m": 65536}, {"n": 1 << 20, "m": 1 << 12}]
            guarded = True
        elif kind == 2:
            flat = form("for k in range(n * m - int(n == 13 and m == 5)):")
            faulty_args = [{"n": 13, "m": 5}]
        elif kind == 3:
            nested = counted("for i in range(n):", "    for j in range(m - int(i == 19)):")
            faulty_args = [{"n": 22, "m": 2}]
        elif kind == 4:
            nested = counted("for i in range(n):", "    for j in range(tg.min(m, 21)):")
            faulty_args = [{"n": 2, "m": 22}]
        elif kind == 5:
            flat, nested = (
                form("for k in range(n * (n - 1) // 2):"),
                counted("for i in range(n):", "    for j in range(i + int(i == 11)):"),
            )
            faulty_args = [{"n": 14}]
        elif kind == 6:
            flat = form("for k in range(n // d * d * m):")
            nested = counted(
                "for i in range(n // d):", "    for j in range(d * m + int(n % d == 3 and d == 6)):"
            )
            asserts = (*asserts, "assert d > 0 and d < 100")
            faulty_args = [{"n": 21, "m": 2, "d": 6}]
        else:
            flat = form("for k in range(n * m + g[n + m] // 100):")
            faulty_args = [{"n": 6, "m": 5, "g": {11: 100}}]
        return LoopPair("flattened against nested", "flattened", flat, nested, launch_args, asserts=asserts,
                    faulty_args=tuple(faulty_args), guarded=guarded)  # fmt: skip
    first = rng.choice((flat, flat, nested))
    return LoopPair("flattened against nested", "flattened", first, nested, launch_args, asserts=asserts)


@walk
def two_part_maximum(rng: Random, wrong: bool) -> LoopPair:
    """A loop to max(n, m), and two consecutive loops to n and from n to m."""
    full_walk = form("for k in range(tg.max(n, m)):")
    parts = LoopForm(((("for k in range(n):",), ()), (("for k in range(n, m):",), ())))
    asserts = ("assert n >= 0 and m >= 0",)

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        n = items + rng.randrange(5)
        m = rng.randrange(items + 3)
        return {"n": n, "m": m} if rng.random() < 0.5 else {"n": m, "m": n}

    faulty_args: list[LaunchArguments] = []
    if wrong:
        kind = rng.randrange(7)
        if kind == 0:
            asserts, faulty_args = (), [{"n": -2, "m": 9}]
        elif kind == 1:
            parts = LoopForm(
                ((("for k in range(n):",), ()), (("for k in range(n + int(m - n == 31), m):",), ()))
            )
            faulty_args = [{"n": 4, "m": 35}]
        elif kind == 2:
            full_walk, faulty_args = form("for k in range(tg.max(n, tg.min(m, 60))):"), [{"n": 3, "m": 64}]
        elif kind == 3:
            full_walk, faulty_args = (
                form("for k in range(tg.max(n, m) if n != 2 * m + 19 else m):"),
                [{"n": 21, "m": 1}],
            )
        elif kind == 4:
            full_walk, faulty_args = (
                form("for k in range(n if n > m - c // 64 else m):"),
                [{"n": 12, "m": 13, "c": 128}],
            )
        elif kind == 5:
            parts = LoopForm(
                (
                    (("for k in range(tg.min(n, m)):",), ()),
                    (("for k in range(tg.min(n, m), tg.max(n, m) - int(n > 5 * m + 3)):",), ()),
                )
            )
            faulty_args = [{"n": 30, "m": 2}]
        else:
            full_walk, faulty_args = (
                form("for k in range((n + m + tg.abs(n - m)) // 2 + int(n ^ m == 96)):"),
                [{"n": 96, "m": 0}, {"n": 97, "m": 1}],
            )
    elif rng.random() < 0.4:
        parts = LoopForm(
            ((("for k in range(tg.min(n, m)):",), ()), (("for k in range(tg.min(n, m), tg.max(n, m)):",), ()))
        )
    first, second = (full_walk, parts) if rng.random() < 0.5 else (parts, full_walk)
    return LoopPair(
        "max against parts",
        "max",
        first,
        second,
        launch_args,
        asserts=asserts,
        faulty_args=tuple(faulty_args),
    )


@walk
def equal_under_assert(rng: Random, wrong: bool) -> LoopPair:
    """Loops that agree only if an assert holds."""
    forms: list[tuple[str, LoopForm, LoopForm, LaunchArguments, str, LaunchArguments]] = [
        ("assert n % 2 == 0", form("for k in range(n):"),
         form("for q in range(n // 2):", "    for j in range(2):", "        k = 2 * q + j"), {"n": 2},
         "assert n % 2 == 0 or n > 60", {"n": 61}),
        ("assert n == m", form("for k in range(n):"), form("for k in range(m):"), {"n": 1, "m": 1},
         "assert n == m or n - m == 40", {"n": 47, "m": 7}),
        ("assert n <= m", form("for k in range(n):"), form("for k in range(tg.min(n, m)):"), {"n": 1, "m": 2},
         "assert n <= m or m == 23", {"n": 25, "m": 23}),
        ("assert m >= 0 and n >= 0 and n < 100000000", form("for k in range(n):"),
         form("for k in range(n * 4 // 4):"), {"n": 1, "m": 1},
         "assert m >= 0 and n >= 0 and n * 4 < 100000000", {"n": (1 << 30) + 9, "m": 1}),
        ("assert d == 4 and n >= 0", form("for k in range(n // d):"), form("for k in range(n >> 2):"), {"n": 4, "d": 4},
         "assert d & 3 == 0 and d != 0 and n >= 0", {"n": 80, "d": 8}),
        ("assert n > 0", form("for k in range(n):"),
         form("while k < n or k == 0:", close=("    k += 1",), before=("k = int(0)",)),
         {"n": 1}, "assert n >= 0", {"n": 0}),
        ("assert m > 0 and m < 100", form("for k in range(n + m):"),
         form("for k in range(n + (m if m > 0 else 0)):"), {"n": 1, "m": 1},
         "assert m > -2 and m < 100", {"n": 20, "m": -1}),
    ]  # fmt: skip
    correct_assert, a, b, per_item, weaker_assert, faulty_args = rng.choice(forms)

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        return {name: (items * v + 3) // 2 * 2 if name in "nm" else v for name, v in per_item.items()}

    if wrong:
        asserts = rng.choice(
            (
                (weaker_assert,),
                (weaker_assert,),
                () if weaker_assert.startswith(correct_assert) else (weaker_assert,),
            )
        )
        return LoopPair(
            "preconditions", "assert", a, b, launch_args, asserts=asserts, faulty_args=(faulty_args,)
        )
    return LoopPair("preconditions", "assert", a, b, launch_args, asserts=(correct_assert,))


@walk
def overwritten(rng: Random, wrong: bool) -> LoopPair:
    """Both roles read an element that one of them modifies, or an element that neither modifies."""
    changed = rng.choice(("flags[q]", "flags[n - 1]")) if wrong else "g[q]"
    value = rng.choice(("flags[q] - 1", "0", "flags[q] // 2"))
    guard = rng.choice(("", "", "    if q % 16 == 13:\n        ", "    if g[q] == 0:\n        "))
    body = ["    flagged = flags[q] > 0", f"{guard}    {changed} = {value}".lstrip("\n"), "    if flagged:"]
    if guard:
        body[1:2] = [guard.split("\n")[0], f"        {changed} = {value}"]
    a = form("for q in range(n):", "    if flags[q] > 0:", close=("        k += 1",), before=("k = int(0)",))
    b = form("for q in range(n):", *body, close=("        k += 1",), before=("k = int(0)",))

    def launch_args(rng: Random, items: int) -> LaunchArguments:
        n = 2 * items + 4
        return {"n": n, "flags": np.array([rng.choice((0, 1, 1)) for _ in range(n + 4)], np.int32)}

    first, second = (a, b) if rng.random() < 0.5 else (b, a)
    faulty_args = ({"n": 36, "flags": {k: 1 for k in range(36)}},) if wrong else ()
    return LoopPair(
        "data-dependent", "a condition that changes", first, second, launch_args, faulty_args=faulty_args
    )
