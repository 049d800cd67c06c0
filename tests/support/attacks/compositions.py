"""Compositions of roles with one to three faulty lines: rings of different depth in sequence and in parallel, rows that
are modified in place and copied out, two roles that fill a ring, alternation at named barriers, and loops with an early
exit. Each program is generated from a seed; a replay decides whether the program is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from support.attacks import judge
from support.attacks.program import LaunchArguments, defaults
from tegula.ir import Kernel
from tegula.passes.runner import GpuCompilation

ARGS = "x: tg.array2d[float], out: tg.array2d[float], n: int, m: int, c: int, d: int, g: tg.array1d[int]"
Lines = list[str]
Composition = tuple[Lines, Lines]
"""The lines of a kernel before its roles, and the lines of the roles."""
FAMILIES: dict[str, Callable[[FaultPicker], Composition]] = {}


class FaultPicker:
    """Chooses between correct and faulty text. `faulty`: the indices of the choices that are faulty."""

    def __init__(self, seed: str, faulty: frozenset[int] = frozenset()) -> None:
        self.rng, self.fault_rng, self.faulty, self.count = Random(seed), Random(f"wrong {seed}"), faulty, 0

    def __call__(self, correct: str, *others: str) -> str:
        """The correct text, or one of the other texts if this choice is faulty."""
        self.count += 1
        return self.fault_rng.choice(others) if self.count - 1 in self.faulty else correct

    def first_faulty_item(self) -> int:
        """The index of the first item at which a fault occurs."""
        return self.rng.choice((3, 5, 7, 11, 13))

    def loop(self, form: str) -> Lines:
        """The lines that open a loop over the items k."""
        t = self.first_faulty_item()
        if form == "range":
            stop = self(
                "n", f"n - int(n > {t})", f"n + int(n == {t})", "n - int(m > 2)", "n // 2 * 2", "n + c"
            )
            return [f"for k in range({stop}):"]
        if form == "ends early":
            test = self(
                "g[k] > 4",
                "g[k] > 5",
                f"g[k] > 4 and k != {t}",
                "g[k] > 4 and m < 3",
                f"k > {t}",
                "g[k + 1] > 4",
            )
            return [f"for k in range({self('n', 'n - 1', 'n + 1')}):", f"    if {test}:", "        break"]
        if form == "nested":
            row_count = self("m", "m - int(m > 2)", "m + c", "tg.min(m, 3)")
            row = self("i + d", f"i + d + int(i == {t})", f"tg.min(i + d, {t})", "tg.abs(i + d - 2)")
            return [
                "at = int(0)",
                f"for i in range({row_count}):",
                f"    for j in range({row}):",
                "        k = at",
                "        at += 1",
            ]
        test = self("g[q] < 5", "g[q] < 4", f"g[q] < 5 or q == {t}", "g[q] < 5 and m < 3", "g[q] <= 5")
        return [
            "at = int(0)",
            f"for q in range({self('n', 'n - 1', 'n + 1')}):",
            f"    if {test}:",
            "        k = at",
            "        at += 1",
        ]

    def stage(self, k: str, S: int, other_depth: int) -> str:
        """The stage of item k in a ring of S stages; `other_depth`: the depth of another ring, used in a faulty
        stage."""
        t = self.first_faulty_item()
        return self(
            f"({k}) % {S}",
            f"({k}) % {other_depth if other_depth != S else S + 1}",
            f"({k} + int({k} > {t})) % {S}",
            f"({k} + m // 3) % {S}",
            f"tg.min({k}, {t}) % {S}",
        )

    def phase(self, k: str, S: int, other_depth: int, first: int = 0) -> str:
        """The phase of item k in a ring of S stages, plus `first`."""
        t, offset = self.first_faulty_item(), f" + {first}" if first else ""
        return self(
            f"({k}) // {S}{offset}",
            f"({k}) // {S} + {1 - first}",
            f"({k}) // {other_depth if other_depth != S else S + 1}{offset}",
            f"({k} + 1) // {S}{offset}",
            f"(({k}) // {S} & 1 ^ int({k} >= {t})){offset}",
            f"({k}) // {S} * (({k}) // {S} + 1) // 2{offset}",
            f"({k}) // {S} % 3{offset}",
            f"({k} + {S} * c) // {S}{offset}",
        )

    def line(self, line: str, *others: str) -> str:
        """A line; if it is faulty, the line is dropped, guarded, repeated or replaced."""
        t, inner = self.first_faulty_item(), "\n".join(indented([line]))
        return self(
            line,
            "pass",
            f"if k != {t}:\n{inner}",
            f"if k % {t} != c:\n{inner}",
            f"if m < 3:\n{inner}",
            f"for r in range(m):\n{inner}",
            f"if g[k] != 3:\n{inner}",
            f"{line}\n{line}",
            *others,
        )

    def sequence(self, lines: Lines) -> Lines:
        """Lines in order; if the order is faulty, two adjacent lines are swapped."""
        self.count += 1
        if self.count - 1 in self.faulty and len(lines) > 1:
            k = self.fault_rng.randrange(len(lines) - 1)
            lines[k], lines[k + 1] = lines[k + 1], lines[k]
        return lines


def family(make: Callable[[FaultPicker], Composition]) -> Callable[[FaultPicker], Composition]:
    FAMILIES[make.__name__.replace("_", " ")] = make
    return make


def indented(lines: Lines, width: int = 4) -> Lines:
    return [" " * width + part for line in lines for part in line.split("\n")]


def role(
    head: str,
    loop: Lines,
    body: Lines,
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    elected: bool = False,
) -> Lines:
    """The lines of a role."""
    depth = len(loop[-1]) - len(loop[-1].lstrip()) + (4 if loop[-1].endswith(":") else 0)
    if loop[-1].endswith("break"):
        depth = 4
    inner = ["if tg.elect():", *indented(body)] if elected else body
    return [f"with {head}:", *indented([*before, *loop, *indented(inner, depth), *after])]


def wait(p: FaultPicker, bar: str, k: str, S: int, other_depth: int, first: int = 0) -> str:
    return p.line(
        f"tg.mbarrier_wait({bar}, {p.stage(k, S, other_depth)}, {p.phase(k, S, other_depth, first)})"
    )


def fetch_role(
    p: FaultPicker,
    form: str,
    S: int,
    other_depth: int,
    ring: str = "ring",
    full: str = "full",
    empty: str = "empty",
) -> Lines:
    """A role in which an elected thread copies rows into a ring."""
    size = p("128", "128 + 128 * int(k == 5)", "256", "64")
    body = p.sequence(
        [
            wait(p, empty, "k", S, other_depth, 1),
            p.line(f"tg.mbarrier_expect_bytes({full}, {p.stage('k', S, other_depth)}, {size})"),
            p.line(
                f"tg.tile_load_async(x, {ring}[{p.stage('k', S, other_depth)}], (k, 0), {full}, "
                f"{p.stage('k', S, other_depth)})"
            ),
        ]
    )
    return role("tg.ws(0)", p.loop(form), body, elected=True)


def copy_out_lines(
    p: FaultPicker, ring: str, S: int, other_depth: int, bar: str, lag: int
) -> tuple[Lines, Lines]:
    """The lines that copy the row of an item out and release the stage of the item `lag` items earlier, and the lines
    after the loop."""
    arrive = f"tg.mbarrier_arrive({bar}, {p.stage(f'k - {lag}' if lag else 'k', S, other_depth)})"
    release = (
        f"if k >= {p(str(lag), str(lag + 1), '0', str(max(0, lag - 1)))}:\n    {arrive}" if lag else arrive
    )
    lines = [
        p.line(f"tg.tile_store_async(out, {ring}[{p.stage('k', S, other_depth)}], (k, 0))"),
        p.line("tg.store_commit()"),
        p.line(
            f"tg.store_wait(pending={p(str(lag), str(lag + 1), str(max(0, lag - 1)))}, read={p('True', 'False')})"
        ),
        p.line(release),
    ]
    return p.sequence(lines), [p("tg.store_wait(read=True)", "pass", "tg.store_wait(pending=1, read=True)")]


def ring_tile(name: str, S: int) -> str:
    return f'{name} = tg.tile_empty(shape=({S}, 1, 32), dtype=float, storage="shared")'


def arrival_count(p: FaultPicker, correct: int) -> str:
    return p(str(correct), str(correct + 1), str(correct * 2), str(max(1, correct - 1)))


def ring_depths(p: FaultPicker) -> tuple[int, int, str]:
    form = p.rng.choice(("range", "range", "ends early", "nested", "of some"))
    return p.rng.randrange(1, 5), p.rng.randrange(1, 5), form


@family
def two_rings_in_a_row(p: FaultPicker) -> Composition:
    S, T, form = ring_depths(p)
    results = [
        ring_tile("ring", S),
        ring_tile("other", T),
        f"full, empty = tg.mbarrier({arrival_count(p, 1)}, stages={S}), tg.mbarrier({arrival_count(p, 4)}, stages={S})",
        f"ready, free = tg.mbarrier({arrival_count(p, 4)}, stages={T}), tg.mbarrier({arrival_count(p, 4)}, stages={T})",
    ]
    out = p.rng.random() < 0.5
    middle = p.sequence(
        [
            wait(p, "full", "k", S, T),
            wait(p, "free", "k", T, S, 1),
            p.line(f"other[{p.stage('k', T, S)}] = ring[{p.stage('k', S, T)}] * 2.0"),
            p.line("tg.fence_async()"),
            p.line(f"tg.mbarrier_arrive(empty, {p.stage('k', S, T)})"),
            p.line(f"tg.mbarrier_arrive(ready, {p.stage('k', T, S)})"),
        ]
    )
    after: Lines = []
    if out:
        last, after = copy_out_lines(p, "other", T, S, "free", p.rng.randrange(T))
    else:
        last = p.sequence(
            [
                p.line(f"tg.tile_store(out, other[{p.stage('k', T, S)}], offset=(k, 0))"),
                p.line(f"tg.mbarrier_arrive(free, {p.stage('k', T, S)})"),
            ]
        )
    sink = [wait(p, "ready", "k", T, S), *last]
    return results, [
        *fetch_role(p, form, S, T),
        *role("tg.ws(1)", p.loop(form), middle),
        *role("tg.ws(2)", p.loop(form), sink, after=after),
    ]


@family
def changed_in_place(p: FaultPicker) -> Composition:
    S, T, form = ring_depths(p)
    results = [
        ring_tile("ring", S),
        f"full, empty = tg.mbarrier({arrival_count(p, 1)}, stages={S}), tg.mbarrier({arrival_count(p, 4)}, stages={S})",
        f"ready = tg.mbarrier({arrival_count(p, 4)}, stages={S})",
    ]
    factor = p.rng.choice(("* 2.0", "+ 1.0"))
    change = p.sequence(
        [
            wait(p, "full", "k", S, T),
            p.line(f"ring[{p.stage('k', S, T)}] = ring[{p.stage('k', S, T)}] {factor}"),
            p.line("tg.fence_async()"),
            p.line(f"tg.mbarrier_arrive(ready, {p.stage('k', S, T)})"),
        ]
    )
    last, after = copy_out_lines(p, "ring", S, T, "empty", p.rng.randrange(S))
    sink = [wait(p, "ready", "k", S, T), *last]
    return results, [
        *fetch_role(p, form, S, T),
        *role("tg.ws(1)", p.loop(form), change),
        *role("tg.ws(2)", p.loop(form), sink, after=after),
    ]


@family
def two_rings_side_by_side(p: FaultPicker) -> Composition:
    S, T, form = ring_depths(p)
    results = [
        ring_tile("ring", S),
        ring_tile("other", T),
        f"full, empty = tg.mbarrier({arrival_count(p, 1)}, stages={S}), tg.mbarrier({arrival_count(p, 4)}, stages={S})",
        f"ready, free = tg.mbarrier({arrival_count(p, 4)}, stages={T}), tg.mbarrier({arrival_count(p, 4)}, stages={T})",
    ]
    second = p.sequence(
        [
            wait(p, "free", "k", T, S, 1),
            p.line(f"other[{p.stage('k', T, S)}] = tg.tile_load(x, shape=(1, 32), offset=(k, 0))"),
            p.line(f"tg.mbarrier_arrive(ready, {p.stage('k', T, S)})"),
        ]
    )
    read = p.sequence(
        [
            wait(p, "full", "k", S, T),
            wait(p, "ready", "k", T, S),
            p.line(
                f"tg.tile_store(out, ring[{p.stage('k', S, T)}] * other[{p.stage('k', T, S)}], offset=(k, 0))"
            ),
            p.line("tg.fence_async()"),
            p.line(f"tg.mbarrier_arrive(empty, {p.stage('k', S, T)})"),
            p.line(f"tg.mbarrier_arrive(free, {p.stage('k', T, S)})"),
        ]
    )
    return results, [
        *fetch_role(p, form, S, T),
        *role("tg.ws(1)", p.loop(form), second),
        *role("tg.ws(2)", p.loop(form), read),
    ]


@family
def two_fill_one_ring(p: FaultPicker) -> Composition:
    S, T, form = ring_depths(p)
    results = [
        ring_tile("ring", S),
        ring_tile("other", S),
        f"full, empty = tg.mbarrier({arrival_count(p, 2)}, stages={S}), tg.mbarrier({arrival_count(p, 4)}, stages={S})",
    ]
    first, second = fetch_role(p, form, S, T), fetch_role(p, form, S, T, "other")
    second[0] = "with tg.ws(1):"
    read = p.sequence(
        [
            wait(p, "full", "k", S, T),
            p.line(
                f"tg.tile_store(out, ring[{p.stage('k', S, T)}] * other[{p.stage('k', S, T)}], offset=(k, 0))"
            ),
            p.line("tg.fence_async()"),
            p.line(f"tg.mbarrier_arrive(empty, {p.stage('k', S, T)})"),
        ]
    )
    return results, [*first, *second, *role("tg.ws(2)", p.loop(form), read)]


@family
def one_warp_gives_back(p: FaultPicker) -> Composition:
    S, T, form = ring_depths(p)
    results = [
        ring_tile("ring", S),
        f"full, empty = tg.mbarrier({arrival_count(p, 1)}, stages={S}), tg.mbarrier({arrival_count(p, 1)}, stages={S})",
        f"own = tg.named_barrier(warps={p('4', '8')})",
    ]
    arrive = f"tg.mbarrier_arrive(empty, {p.stage('k', S, T)})"
    read = p.sequence(
        [
            wait(p, "full", "k", S, T),
            p.line(f"tg.tile_store(out, ring[{p.stage('k', S, T)}], offset=(k, 0))"),
            p.line("tg.fence_async()"),
            p.line("tg.named_barrier_sync(own)", "tg.named_barrier_arrive(own)"),
            f"if tg.elect():\n    {arrive}",
        ]
    )
    return results, [*fetch_role(p, form, S, T), *role("tg.ws(1)", p.loop(form), read)]


@family
def turns_at_named_barriers(p: FaultPicker) -> Composition:
    _, _, form = ring_depths(p)
    results = [
        ring_tile("tile", 1).replace("(1, 1, 32)", "(1, 32)"),
        f"ready, free = tg.named_barrier(warps={p('8', '4', '12')}), tg.named_barrier(warps={p('8', '4')})",
    ]
    first = p.sequence(
        [
            p.line(
                "tg.named_barrier_sync(free)", "tg.named_barrier_arrive(free)", "tg.named_barrier_sync(ready)"
            ),
            p.line("tile[:, :] = tg.tile_load(x, shape=(1, 32), offset=(k, 0)) * 3.0"),
            p.line(
                "tg.named_barrier_arrive(ready)",
                "tg.named_barrier_arrive(free)",
                "tg.named_barrier_sync(ready)",
            ),
        ]
    )
    second = p.sequence(
        [
            p.line("tg.named_barrier_sync(ready)", "tg.named_barrier_arrive(ready)"),
            p.line("tg.tile_store(out, tile, offset=(k, 0))"),
            p.line("tg.named_barrier_arrive(free)", "tg.named_barrier_sync(free)"),
        ]
    )
    begin = [p("tg.named_barrier_arrive(free)", "pass", "tg.named_barrier_arrive(ready)")]
    end = [p("tg.named_barrier_sync(free)", "pass", "tg.named_barrier_arrive(free)")]
    return results, [
        *role("tg.ws(0)", p.loop(form), first, after=end),
        *role("tg.ws(1)", p.loop(form), second, before=begin),
    ]


def composition(seed: int, wrong: bool = True) -> tuple[str, str]:
    """The text of a composition, and its name: the family, with the number of faults."""
    rng = Random(f"composition {seed}")
    name = rng.choice([*FAMILIES])
    make, key = FAMILIES[name], f"{name} {seed}"
    counting_picker = FaultPicker(key)
    make(counting_picker)
    faulty = rng.sample(range(counting_picker.count), rng.choice((1, 1, 1, 2, 3))) if wrong else []
    result, roles = make(FaultPicker(key, frozenset(faulty)))
    return "\n".join(
        [f"def kernel({ARGS}):", *indented([*result, *roles])]
    ) + "\n", f"{name}, {len(faulty)} faults"


def fault(text: str, kernel: Kernel, compilation: GpuCompilation, count: int) -> str:
    """The first fault in the first `count` orders of each launch, or ""."""
    for args in launches():
        failure = judge.replay_lowered(kernel, compilation, judge.replay_arguments(text, args), count)
        if failure:
            return f"n = {args['n']}, m = {args['m']}, c = {args['c']}, d = {args['d']}: {failure}"
    return ""


def launches() -> list[LaunchArguments]:
    """Launches in which the faults of compositions occur."""
    out: list[LaunchArguments] = []
    for n, m, c, d in ((0, 0, 0, 0), (1, 1, 0, 1), (4, 2, 1, 2), (9, 3, 0, 1), (15, 4, 1, 0), (16, 2, 0, 3)):
        args = {**defaults(60), "n": n, "m": m, "c": c, "d": d}
        for k, x in ((3, 3), (7, 5), (12, 6)):
            args["g"][k] = x
        out.append(args)
    return out
