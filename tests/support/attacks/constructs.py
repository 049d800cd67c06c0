"""Schedules of two roles that count their items in different constructs of the language: functions, structs, loops that
count down or have steps, nested loops of different trip counts, early exits, bounds from arrays that a role may write,
narrow integers and floats. One or two lines of a program are faulty; a replay decides whether the program is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random

import numpy as np

from support.attacks import judge
from support.attacks.compositions import FaultPicker, Lines, indented
from support.attacks.program import LaunchArguments, defaults
from tegula.check.guards import Guard
from tegula.check.judge import certified
from tegula.check.limits import check_limits
from tegula.check.proof import Stuck
from tegula.check.verdict import Refuted
from tegula.check.verifier import Rejected
from tegula.errors import CompileError
from tegula.ir import Kernel
from tegula.passes.runner import GpuCompilation

ARGS = (
    "x: tg.array2d[float], out: tg.array2d[float], n: int, m: int, c: int, d: int, u: int, "
    "offs: tg.array1d[int], g: tg.array1d[int], w: tg.array1d[float]"
)
Walks = tuple[Lines, Lines]
"""The lines that open the loops of two roles; the last line opens the iteration for item k."""
WALKS: dict[str, Callable[[FaultPicker], Walks]] = {}
SMALL_ARGUMENTS = "assert n >= 0 and n <= 30000 and m >= 0 and m <= 30000"


def walk(make: Callable[[FaultPicker], Walks]) -> Callable[[FaultPicker], Walks]:
    WALKS[make.__name__.replace("_", " ")] = make
    return make


def counting_loops(*loops: str) -> Lines:
    """Nested loops; the innermost loop counts its iterations in `k`."""
    lines = [f"{'    ' * depth}{line}" for depth, line in enumerate(loops)]
    inner = "    " * len(loops)
    return ["at = int(0)", *lines, f"{inner}k = at", f"{inner}at += 1"]


PLAIN_LOOP = ["for k in range(n):"]


@walk
def downwards(p: FaultPicker) -> Walks:
    t = p.first_faulty_item()
    loop = p(
        "range(n - 1, -1, -1)",
        "range(n - 1, 0, -1)",
        "range(n, -1, -1)",
        "range(n - 1, -1, -2)",
        "range(n - 1, c - 1, -1)",
        f"range(n - 1, tg.min(-1, n - {t}), -1)",
        "range(n - 1, n, -1)",
        "range(n - 1, -1, -1 - c)",
    )
    return counting_loops(f"for q in {loop}:"), PLAIN_LOOP


@walk
def steps(p: FaultPicker) -> Walks:
    first = p("range(0, n, d)", "range(1, n, d)", "range(0, n + 1, d)", "range(c, n, d)")
    second = p(
        "range((n + d - 1) // d)",
        "range(n // d)",
        "range((n + d) // d)",
        "range((n + d - 1) / d)",
        "range(n // d + 1)",
        "range((n - 1) // d + 1 - c)",
    )
    return counting_loops(f"for q in {first}:"), [f"for k in {second}:"]


@walk
def bounds_of_arrays(p: FaultPicker) -> Walks:
    first = "for q in range(offs[i], offs[i + 1]):"
    second = p(
        first,
        "for q in range(offs[i + 1] - offs[i]):",
        "for q in range(offs[i], offs[i + 2]):",
        "for q in range(offs[i] + 1, offs[i + 1] + 1):",
        "for q in range(offs[i] - c, offs[i + 1]):",
        "for q in range(-offs[i + 1], -offs[i]):",
        "for q in range(offs[i + 1] - 1, offs[i] - 1, -1):",
    )
    rows = p("for i in range(m):", "for i in range(tg.min(m, n)):", "for i in range(m + c):")
    return counting_loops("for i in range(m):", first), counting_loops(rows, second)


@walk
def a_written_bound(p: FaultPicker) -> Walks:
    """The second role may modify the elements that the conditions of both roles read."""
    t = p.first_faulty_item()
    write = p("w[k] = 1.0", f"g[k + {t}] = 9", f"g[{t}] = k", "g[k] = 9", "tg.atomic_add(g, k + 2, 9)")
    first = counting_loops("for q in range(n):", "if g[q] < 5:")
    return first, [*first[:2], f"    {write.replace('[k', '[q').replace('k + 2', 'q + 2')}", *first[2:]]


@walk
def triangles(p: FaultPicker) -> Walks:
    second = p(
        "for j in range(i):",
        "for j in range(i + 1):",
        "for j in range(n - i):",
        "for j in range(i // 2 * 2):",
        "for j in range(tg.min(i, m)):",
        "for j in range(i * i):",
    )
    rows = p("for i in range(n):", "for i in range(1, n + 1):", "for i in range(n - c):")
    return counting_loops("for i in range(n):", "for j in range(i):"), counting_loops(rows, second)


@walk
def multiplied(p: FaultPicker) -> Walks:
    first = p("for q in range(n * m):", "for q in range(n * m + c):", "for q in range(n * (m + c)):")
    second = p("for j in range(m):", "for j in range(tg.max(m, 1)):", "for j in range(m + i // 7):")
    return counting_loops(first), counting_loops("for i in range(n):", second)


@walk
def multiplied_in_64_bits(p: FaultPicker) -> Walks:
    """Trip counts that are multiplied in 32 and in 64 bits."""
    second = p(
        "range(n * m)",
        "range(int(tg.int64(n) * tg.int64(m)))",
        "range(tg.int64(n) * tg.int64(m))",
        "range(m)",
    )
    return counting_loops("for q in range(n * m):"), counting_loops(f"for q in {second}:")


@walk
def one_side_skips(p: FaultPicker) -> Walks:
    test = p(
        "m > 3", "m >= 3", "m > 3 or c > 0", "m > 3 and n != 7", "m * 2 > 6", "m + u > 3 + u", "g[2] > 3"
    )
    return counting_loops("if m > 3:", "for q in range(n):"), counting_loops(
        f"if {test}:", "for q in range(n):"
    )


@walk
def breaks(p: FaultPicker) -> Walks:
    t = p.first_faulty_item()
    test = p("q >= n", "q > n", "q == n", f"q >= n or q == {t}", "q >= n - c", "q >= n or g[q] > 5")
    lines = [
        "at = int(0)",
        "while True:",
        "    q = at",
        f"    if {test}:",
        "        break",
        "    k = at",
        "    at += 1",
    ]
    return lines, PLAIN_LOOP


@walk
def continues(p: FaultPicker) -> Walks:
    first = "g[q] > 4"
    test = p(
        first, "g[q] >= 4", "g[q] > 4 or q == 3", "g[q + 1] > 4", "g[q] + u > 4 + u", "g[q] > 4 and m > 2"
    )

    def lines(skipped: str) -> Lines:
        head = ["at = int(0)", "for q in range(n):", f"    if {skipped}:", "        continue"]
        return [*head, "    k = at", "    at += 1"]

    return lines(first), lines(test)


@walk
def floats(p: FaultPicker) -> Walks:
    first = "if float(q) * 0.5 < w[q]:"
    second = p(
        first,
        "if float(q) < w[q] * 2.0:",
        "if float(q) < w[q] + w[q] - 0.25:",
        "if not float(q) * 0.5 >= w[q]:",
        "if q < int(w[q] * 2.0):",
        "if float(q) * 0.5 <= w[q]:",
    )
    return counting_loops("for q in range(n):", first), counting_loops("for q in range(n):", second)


@walk
def halves(p: FaultPicker) -> Walks:
    first = p("n - n // 2", "(n + 1) >> 1", "(n + 1) // 2")
    second = p(
        "(n + 1) // 2",
        "(n + 1) / 2",
        "n // 2",
        "n // 2 + 1",
        "(n + u) // 2",
        "(n + 2) >> 1",
        "n - (n >> 1) - c",
    )
    return counting_loops(f"for q in range({first}):"), [f"for k in range({second}):"]


@walk
def residues(p: FaultPicker) -> Walks:
    first = counting_loops("for q in range(n):", "if q % 3 == 1:")
    count = p("(n + 1) // 3", "n // 3", "(n + 2) // 3", "(n + 1 + c) // 3", "(n + 1) // 3 + n // 40")
    return first, counting_loops(f"for q in range({count}):")


def stage_and_phase(p: FaultPicker, S: int, first: int) -> tuple[str, Lines, Lines, Lines]:
    """The computation of a role's stage and phase: definitions; lines before the loop; lines at the start and at the
    end of an iteration. `first`: the term that is added to the phase."""
    t, suffix = p.first_faulty_item(), "one" if first else "two"
    construct = p.rng.choice(("functions", "a struct", "narrow", "carried"))
    if construct == "functions":
        stage_body = p(
            "return k % {S}",
            "if k == {t}:\n        return 0\n    return k % {S}",
            "return (k + k // {t}) % {S}",
        )
        phase_body = p(
            "return k // {S} + {first}",
            "return k // {S} + 1 - {first}",
            "return k // ({S} + 1) + {first}",
            "if k > {t}:\n        return {first}\n    return k // {S} + {first}",
            "return (k + {t}) // {S} + {first}",
        )
        text = "".join(
            f"@func\ndef {name}_{suffix}(k: int) -> int:\n    {body.format(S=S, t=t, first=first)}\n###\n"
            for name, body in (("stage", stage_body), ("phase", phase_body))
        )
        return text, [], [f"s = stage_{suffix}(k)", f"phase = phase_{suffix}(k)"], []
    if construct == "a struct":
        last = p(f"{S - 1}", f"{S}", f"{S - 1} - int(r.phase > {t})", f"{max(0, S - 2)}")
        flips = p("1 - r.phase % 2", "r.phase + 1", "r.phase", "1 - r.phase % 2 * int(r.stage > 0)")
        text = (
            f"@struct\nclass Ring_{suffix}:\n    stage: int\n    phase: int\n###\n"
            f"@func\ndef next_{suffix}(r: Ring_{suffix}) -> Ring_{suffix}:\n    if r.stage == {last}:\n"
            f"        return Ring_{suffix}(0, {flips})\n    return Ring_{suffix}(r.stage + 1, r.phase)\n###\n"
        )
        start = p(
            f"r = Ring_{suffix}(0, {first})",
            f"r = Ring_{suffix}(0, {1 - first})",
            f"r = Ring_{suffix}({S - 1}, {first})",
        )
        return text, [start], ["s = r.stage", "phase = r.phase"], [f"r = next_{suffix}(r)"]
    if construct == "narrow":
        kind = p("tg.int32", "tg.uint8", "tg.int8", "tg.uint16")
        wrap = p(f"int(z) % {S}", f"int(z) % {S + 1}")
        return (
            "",
            [f"z = {kind}(0)"],
            [f"s = {wrap}", f"phase = int(z) // {S} + {first}"],
            [f"z = z + {kind}(1)"],
        )
    reset = p(f"if s == {S}:", f"if s >= {S}:", f"if s == {S} or k == {t}:", f"if s == {S} + c:")
    flip = p("phase = phase ^ 1", "phase = 1", f"phase = phase ^ int(k != {t})")
    end = ["s = s + 1", reset, "    s = int(0)", f"    {flip}"]
    return "", ["s = int(0)", f"phase = int({first})"], [], end


def role(head: str, loop: Lines, before: Lines, body: Lines, after: Lines) -> Lines:
    last = loop[-1]
    depth = len(last) - len(last.lstrip()) + (4 if last.endswith(":") else 0)
    return [f"with {head}:", *indented([*before, *loop, *indented(body, depth), *after])]


def with_barriers(p: FaultPicker, walks: Walks) -> tuple[str, Lines]:
    """A ring with mbarriers, whose stages an asynchronous copy fills and threads read."""
    S = p.rng.choice((1, 2, 3, 4))
    first_stage, second_stage = stage_and_phase(p, S, 1), stage_and_phase(p, S, 0)
    fetch = [
        "tg.mbarrier_wait(empty, s, phase)",
        p.line("tg.mbarrier_expect_bytes(full, s, 128)"),
        "tg.tile_load_async(x, ring[s], (k, 0), full, s)",
    ]
    use = "tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))"
    read = [
        "tg.mbarrier_wait(full, s, phase)",
        p(use, f"{use}\nring[s] = ring[s] + 1.0", f"if k > 2:\n    {use}"),
        p(
            "tg.fence_async()",
            "if m < 9:\n    tg.fence_async()",
            f"if k != {p.first_faulty_item()}:\n    tg.fence_async()",
        ),
        p("tg.mbarrier_arrive(empty, s)", "if k < n - 1:\n    tg.mbarrier_arrive(empty, s)"),
    ]
    body = [*first_stage[2], "if tg.elect():", *indented(fetch), *first_stage[3]]
    results = [
        f'ring = tg.tile_empty(shape=({S}, 1, 32), dtype=float, storage="shared")',
        f"full, empty = tg.mbarrier({p('1', '2')}, stages={S}), tg.mbarrier({p('4', '3', '8')}, stages={S})",
    ]
    lines = [
        *results,
        *role('tg.role("fetch", warps=1)', walks[0], first_stage[1], body, []),
        *role("tg.ws(1)", walks[1], second_stage[1], [*second_stage[2], *read, *second_stage[3]], []),
    ]
    return first_stage[0] + second_stage[0], lines


LOAD, POP = "tg.tile_pipe_load(pipe, x, offset=(k, 0))", "tile = tg.tile_pipe_pop(pipe)"


def with_pipes(p: FaultPicker, walks: Walks) -> tuple[str, Lines]:
    """A pipe between two roles, or two pipes in sequence through a role that doubles the items."""
    S, t, middle = p.rng.choice((1, 2, 3)), p.first_faulty_item(), p.rng.random() < 0.5
    text = "@func\ndef doubled(v: float) -> float:\n    return v * 2.0\n###\n"
    results = [f"pipe = tg.tile_pipe(shape=(1, 32), dtype=float, stages={S})"]
    load = p(LOAD, f"if k != {t}:\n    {LOAD}")
    lines = role('tg.role("fetch", warps=1)', walks[0], [], [load], [])
    if not middle:
        pop = p(POP, f"{POP}\nif g[k] > 4:\n    {POP}")
        use = [pop, "tg.tile_store(out, tg.tile_map(doubled, tile), offset=(k, 0))"]
        return text, [*results, *lines, *role("tg.ws(1)", walks[1], [], use, [])]
    results.append(f"other = tg.tile_pipe(shape=(1, 32), dtype=float, stages={p.rng.choice((1, 2, 4))})")
    push = p(
        "tg.tile_pipe_push(other, tile)",
        "if g[k] < 5:\n    tg.tile_pipe_push(other, tile)",
        f"if k % {t} != 1:\n    tg.tile_pipe_push(other, tile)",
    )
    inner = ["tile = tg.tile_map(doubled, tg.tile_pipe_pop(pipe))", push]
    last = walks[p.rng.randrange(2)]
    sink = ["tg.tile_store(out, tg.tile_pipe_pop(other), offset=(k, 0))"]
    more = [*role("tg.ws(1)", walks[1], [], inner, []), *role("tg.ws(2)", last, [], sink, [])]
    return text, [*results, *lines, *more]


def program(seed: int, wrong: bool = True) -> tuple[str, str]:
    """The text of a program with definitions first, and its name: the loops, with the number of faults."""
    rng = Random(f"constructs {seed}")
    name, without_asserts = rng.choice([*WALKS]), rng.random() < 0.3
    ring = rng.choice((with_barriers, with_barriers, with_pipes))

    def text_with_faults(p: FaultPicker) -> str:
        text, lines = ring(p, WALKS[name](p))
        asserts = [] if without_asserts else [SMALL_ARGUMENTS]
        asserts += [p("assert d > 0", "assert d != 0")] if name == "steps" else []
        return text + "\n".join([f"def kernel({ARGS}):", *indented([*asserts, *lines])]) + "\n"

    counting_picker = FaultPicker(f"{name} {seed}")
    text_with_faults(counting_picker)
    faulty = rng.sample(range(counting_picker.count), rng.choice((1, 1, 2))) if wrong else []
    return text_with_faults(
        FaultPicker(f"{name} {seed}", frozenset(faulty))
    ), f"{name}, {ring.__name__}, {len(faulty)} faults"


def fault(text: str, kernel: Kernel, compilation: GpuCompilation, guards: Sequence[Guard], count: int) -> str:
    """The first fault in the first `count` orders of each launch that satisfies the guards, or ""."""
    for args in launches(text):
        arguments = judge.replay_arguments(text, args)
        if not all(
            guard.holds(lambda leaf, values=arguments: judge.argument_value(values, leaf)) for guard in guards
        ):
            continue
        failure = judge.replay_lowered(kernel, compilation, arguments, count)
        if failure and not failure.startswith(NO_FAULT) and "assertion failed" not in failure:
            return f"{ {k: v for k, v in args.items() if isinstance(v, int)} }: {failure}"
    return ""


NO_FAULT = ("endless", "unknown")
"""Outcomes of replays that exceed the interpreter's limit or use constructs that it does not support."""
NUMBERS = (
    (0, 0, 0, 1),
    (1, 1, 0, 1),
    (4, 2, 1, 2),
    (9, 5, 0, 3),
    (15, 4, 1, 4),
    (7, 6, 2, 5),
    (16, 12, 0, 2),
    (-3, -2, 0, 1),
    (5, -1, 1, -1),
    (-2, 5, 1, -2),
)
OVERFLOWING_NUMBERS, MANY_ITEMS = (65537, 65535, 0, 1), (300, 4, 0, 1)
"""Arguments for which `n * m` differs between 32 and 64 bits; arguments with more items than fit 8 bits."""


def launches(text: str) -> Iterator[LaunchArguments]:
    """Launches in which faults of a program occur: few and many items, negative numbers, rows that end before they
    begin, numbers that wrap."""
    more = [MANY_ITEMS] if "int8" in text else []
    more += [OVERFLOWING_NUMBERS] if "int64" in text else []
    for n, m, c, d in (*NUMBERS, *more):
        for u, wraps in (
            ((0, False), (2**31 - 2, True)) if "offs[" in text or " + u" in text else ((0, False),)
        ):
            args = {**defaults(400), "n": n, "m": m, "c": c, "d": d, "u": u}
            for k, value in ((2, 4), (3, 4), (7, 5), (12, 6)):
                args["g"][k] = value
            low = -(2**31)
            row = [low + n for n in (-1, 0, 2, 1, 4, 4, 7)] if wraps else [0, 2, 1, 4, 4, 9, 3]  # -1 wraps
            args["offs"][:] = np.array([*row, *[row[-1]] * (len(args["offs"]) - len(row))]).astype(np.int32)
            args["w"][:] = np.arange(len(args["w"])) / 2 + (np.arange(len(args["w"])) % 3 - 1) / 2
            yield args


def judge_program(seed: int, count: int, wrong: bool = True) -> tuple[str, str, str]:
    """The name of a program; "proved", "wrongly proved", "unproved" or "refused"; and the reason, or the fault that
    replays in `count` orders find in a proved program."""
    text, name = program(seed, wrong)
    try:
        kernel, compilation = judge.lowered(judge.kernel_of(text))
    except CompileError as e:
        return name, "refused", str(e).partition("\n")[0]
    try:
        check_limits(kernel, compilation.shared.allocations, compilation.threads)
        _, guards = certified(kernel, compilation)
    except (Refuted, Stuck, Rejected) as e:
        return name, "unproved", str(e)
    actual = fault(text, kernel, compilation, guards, count)
    return name, "wrongly proved" if actual else "proved", actual
