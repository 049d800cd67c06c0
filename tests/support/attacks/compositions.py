"""Compositions of roles with one to three faulty lines: rings of unequal depth in sequence and in parallel, rows
that are changed in place and copied out, two roles that fill a ring, alternation at named barriers, loops with an early
exit. Each program is generated from a seed; a replay decides whether a composition is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from support.attacks import judge
from support.attacks.program import Args, defaults
from tegula.ir import Kernel
from tegula.passes.runner import GpuCompilation

ARGS = "x: tg.array2d[float], out: tg.array2d[float], n: int, m: int, c: int, d: int, g: tg.array1d[int]"
Lines = list[str]
Composition = tuple[Lines, Lines]
"""The lines of a kernel in front of its roles, and the lines of its roles."""
FAMILIES: dict[str, Callable[[FaultPicker], Composition]] = {}


class FaultPicker:
    """The lines of a program that may be faulty: `wrong` has the indices of the faulty lines."""

    def __init__(self, seed: str, wrong: frozenset[int] = frozenset()) -> None:
        self.rng, self.chosen, self.wrong, self.count = Random(seed), Random(f"wrong {seed}"), wrong, 0

    def __call__(self, right: str, *others: str) -> str:
        """The correct text of a line, or another text if the line is faulty."""
        self.count += 1
        return self.chosen.choice(others) if self.count - 1 in self.wrong else right

    def first_faulty_item(self) -> int:
        """A number of items from which a fault shows."""
        return self.rng.choice((3, 5, 7, 11, 13))

    def loop(self, form: str) -> Lines:
        """The lines that begin an iteration for each item k."""
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
            rows = self("m", "m - int(m > 2)", "m + c", "tg.min(m, 3)")
            row = self("i + d", f"i + d + int(i == {t})", f"tg.min(i + d, {t})", "tg.abs(i + d - 2)")
            return [
                "at = int(0)",
                f"for i in range({rows}):",
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

    def stage(self, k: str, S: int, other: int) -> str:
        """The stage of item k in a ring of S stages; `other`: the depth of another ring."""
        t = self.first_faulty_item()
        return self(
            f"({k}) % {S}",
            f"({k}) % {other if other != S else S + 1}",
            f"({k} + int({k} > {t})) % {S}",
            f"({k} + m // 3) % {S}",
            f"tg.min({k}, {t}) % {S}",
        )

    def phase(self, k: str, S: int, other: int, first: int = 0) -> str:
        """The phase of item k in a ring of S stages, plus `first`."""
        t, more = self.first_faulty_item(), f" + {first}" if first else ""
        return self(
            f"({k}) // {S}{more}",
            f"({k}) // {S} + {1 - first}",
            f"({k}) // {other if other != S else S + 1}{more}",
            f"({k} + 1) // {S}{more}",
            f"(({k}) // {S} & 1 ^ int({k} >= {t})){more}",
            f"({k}) // {S} * (({k}) // {S} + 1) // 2{more}",
            f"({k}) // {S} % 3{more}",
            f"({k} + {S} * c) // {S}{more}",
        )

    def sometimes(self, line: str, *others: str) -> str:
        """A line; or nothing, or the line in some iterations only, or others instead."""
        t, inner = self.first_faulty_item(), "\n".join(shifted([line]))
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

    def shuffled(self, lines: Lines) -> Lines:
        """Lines; if they are faulty, two neighbours are exchanged."""
        self.count += 1
        if self.count - 1 in self.wrong and len(lines) > 1:
            k = self.chosen.randrange(len(lines) - 1)
            lines[k], lines[k + 1] = lines[k + 1], lines[k]
        return lines


def family(make: Callable[[FaultPicker], Composition]) -> Callable[[FaultPicker], Composition]:
    FAMILIES[make.__name__.replace("_", " ")] = make
    return make


def shifted(lines: Lines, by: int = 4) -> Lines:
    return [" " * by + part for line in lines for part in line.split("\n")]


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
    inner = ["if tg.elect():", *shifted(body)] if elected else body
    return [f"with {head}:", *shifted([*before, *loop, *shifted(inner, depth), *after])]


def wait(p: FaultPicker, bar: str, k: str, S: int, other: int, first: int = 0) -> str:
    return p.sometimes(f"tg.mbarrier_wait({bar}, {p.stage(k, S, other)}, {p.phase(k, S, other, first)})")


def fetched(
    p: FaultPicker,
    form: str,
    S: int,
    peer_stage: int,
    ring: str = "ring",
    full: str = "full",
    empty: str = "empty",
) -> Lines:
    """A role of which one thread fetches rows into a ring."""
    size = p("128", "128 + 128 * int(k == 5)", "256", "64")
    body = p.shuffled(
        [
            wait(p, empty, "k", S, peer_stage, 1),
            p.sometimes(f"tg.mbarrier_expect_bytes({full}, {p.stage('k', S, peer_stage)}, {size})"),
            p.sometimes(
                f"tg.tile_load_async(x, {ring}[{p.stage('k', S, peer_stage)}], (k, 0), {full}, "
                f"{p.stage('k', S, peer_stage)})"
            ),
        ]
    )
    return role("tg.ws(0)", p.loop(form), body, elected=True)


def copied_out(p: FaultPicker, ring: str, S: int, other: int, bar: str, late: int) -> tuple[Lines, Lines]:
    """The lines that copy the row of an item out and release the stage of the item `late` before; and the lines after
    the loop."""
    arguments = f"tg.mbarrier_arrive({bar}, {p.stage(f'k - {late}' if late else 'k', S, other)})"
    back = (
        f"if k >= {p(str(late), str(late + 1), '0', str(max(0, late - 1)))}:\n    {arguments}"
        if late
        else arguments
    )
    lines = [
        p.sometimes(f"tg.tile_store_async(out, {ring}[{p.stage('k', S, other)}], (k, 0))"),
        p.sometimes("tg.store_commit()"),
        p.sometimes(
            f"tg.store_wait(pending={p(str(late), str(late + 1), str(max(0, late - 1)))}, read={p('True', 'False')})"
        ),
        p.sometimes(back),
    ]
    return p.shuffled(lines), [p("tg.store_wait(read=True)", "pass", "tg.store_wait(pending=1, read=True)")]


def rows(name: str, S: int) -> str:
    return f'{name} = tg.tile_empty(shape=({S}, 1, 32), dtype=float, storage="shared")'


def count(p: FaultPicker, right: int) -> str:
    return p(str(right), str(right + 1), str(right * 2), str(max(1, right - 1)))


def depths(p: FaultPicker) -> tuple[int, int, str]:
    form = p.rng.choice(("range", "range", "ends early", "nested", "of some"))
    return p.rng.randrange(1, 5), p.rng.randrange(1, 5), form


@family
def two_rings_in_a_row(p: FaultPicker) -> Composition:
    S, T, form = depths(p)
    results = [
        rows("ring", S),
        rows("other", T),
        f"full, empty = tg.mbarrier({count(p, 1)}, stages={S}), tg.mbarrier({count(p, 4)}, stages={S})",
        f"ready, free = tg.mbarrier({count(p, 4)}, stages={T}), tg.mbarrier({count(p, 4)}, stages={T})",
    ]
    out = p.rng.random() < 0.5
    middle = p.shuffled(
        [
            wait(p, "full", "k", S, T),
            wait(p, "free", "k", T, S, 1),
            p.sometimes(f"other[{p.stage('k', T, S)}] = ring[{p.stage('k', S, T)}] * 2.0"),
            p.sometimes("tg.fence_async()"),
            p.sometimes(f"tg.mbarrier_arrive(empty, {p.stage('k', S, T)})"),
            p.sometimes(f"tg.mbarrier_arrive(ready, {p.stage('k', T, S)})"),
        ]
    )
    after: Lines = []
    if out:
        last, after = copied_out(p, "other", T, S, "free", p.rng.randrange(T))
    else:
        last = p.shuffled(
            [
                p.sometimes(f"tg.tile_store(out, other[{p.stage('k', T, S)}], offset=(k, 0))"),
                p.sometimes(f"tg.mbarrier_arrive(free, {p.stage('k', T, S)})"),
            ]
        )
    sink = [wait(p, "ready", "k", T, S), *last]
    return results, [
        *fetched(p, form, S, T),
        *role("tg.ws(1)", p.loop(form), middle),
        *role("tg.ws(2)", p.loop(form), sink, after=after),
    ]


@family
def changed_in_place(p: FaultPicker) -> Composition:
    S, T, form = depths(p)
    results = [
        rows("ring", S),
        f"full, empty = tg.mbarrier({count(p, 1)}, stages={S}), tg.mbarrier({count(p, 4)}, stages={S})",
        f"ready = tg.mbarrier({count(p, 4)}, stages={S})",
    ]
    factor = p.rng.choice(("* 2.0", "+ 1.0"))
    change = p.shuffled(
        [
            wait(p, "full", "k", S, T),
            p.sometimes(f"ring[{p.stage('k', S, T)}] = ring[{p.stage('k', S, T)}] {factor}"),
            p.sometimes("tg.fence_async()"),
            p.sometimes(f"tg.mbarrier_arrive(ready, {p.stage('k', S, T)})"),
        ]
    )
    last, after = copied_out(p, "ring", S, T, "empty", p.rng.randrange(S))
    sink = [wait(p, "ready", "k", S, T), *last]
    return results, [
        *fetched(p, form, S, T),
        *role("tg.ws(1)", p.loop(form), change),
        *role("tg.ws(2)", p.loop(form), sink, after=after),
    ]


@family
def two_rings_side_by_side(p: FaultPicker) -> Composition:
    S, T, form = depths(p)
    results = [
        rows("ring", S),
        rows("other", T),
        f"full, empty = tg.mbarrier({count(p, 1)}, stages={S}), tg.mbarrier({count(p, 4)}, stages={S})",
        f"ready, free = tg.mbarrier({count(p, 4)}, stages={T}), tg.mbarrier({count(p, 4)}, stages={T})",
    ]
    second = p.shuffled(
        [
            wait(p, "free", "k", T, S, 1),
            p.sometimes(f"other[{p.stage('k', T, S)}] = tg.tile_load(x, shape=(1, 32), offset=(k, 0))"),
            p.sometimes(f"tg.mbarrier_arrive(ready, {p.stage('k', T, S)})"),
        ]
    )
    reads = p.shuffled(
        [
            wait(p, "full", "k", S, T),
            wait(p, "ready", "k", T, S),
            p.sometimes(
                f"tg.tile_store(out, ring[{p.stage('k', S, T)}] * other[{p.stage('k', T, S)}], offset=(k, 0))"
            ),
            p.sometimes("tg.fence_async()"),
            p.sometimes(f"tg.mbarrier_arrive(empty, {p.stage('k', S, T)})"),
            p.sometimes(f"tg.mbarrier_arrive(free, {p.stage('k', T, S)})"),
        ]
    )
    return results, [
        *fetched(p, form, S, T),
        *role("tg.ws(1)", p.loop(form), second),
        *role("tg.ws(2)", p.loop(form), reads),
    ]


@family
def two_fill_one_ring(p: FaultPicker) -> Composition:
    S, T, form = depths(p)
    results = [
        rows("ring", S),
        rows("other", S),
        f"full, empty = tg.mbarrier({count(p, 2)}, stages={S}), tg.mbarrier({count(p, 4)}, stages={S})",
    ]
    first, second = fetched(p, form, S, T), fetched(p, form, S, T, "other")
    second[0] = "with tg.ws(1):"
    reads = p.shuffled(
        [
            wait(p, "full", "k", S, T),
            p.sometimes(
                f"tg.tile_store(out, ring[{p.stage('k', S, T)}] * other[{p.stage('k', S, T)}], offset=(k, 0))"
            ),
            p.sometimes("tg.fence_async()"),
            p.sometimes(f"tg.mbarrier_arrive(empty, {p.stage('k', S, T)})"),
        ]
    )
    return results, [*first, *second, *role("tg.ws(2)", p.loop(form), reads)]


@family
def one_warp_gives_back(p: FaultPicker) -> Composition:
    S, T, form = depths(p)
    results = [
        rows("ring", S),
        f"full, empty = tg.mbarrier({count(p, 1)}, stages={S}), tg.mbarrier({count(p, 1)}, stages={S})",
        f"own = tg.named_barrier(warps={p('4', '8')})",
    ]
    arguments = f"tg.mbarrier_arrive(empty, {p.stage('k', S, T)})"
    reads = p.shuffled(
        [
            wait(p, "full", "k", S, T),
            p.sometimes(f"tg.tile_store(out, ring[{p.stage('k', S, T)}], offset=(k, 0))"),
            p.sometimes("tg.fence_async()"),
            p.sometimes("tg.named_barrier_sync(own)", "tg.named_barrier_arrive(own)"),
            f"if tg.elect():\n    {arguments}",
        ]
    )
    return results, [*fetched(p, form, S, T), *role("tg.ws(1)", p.loop(form), reads)]


@family
def turns_at_named_barriers(p: FaultPicker) -> Composition:
    _, _, form = depths(p)
    results = [
        rows("tile", 1).replace("(1, 1, 32)", "(1, 32)"),
        f"ready, free = tg.named_barrier(warps={p('8', '4', '12')}), tg.named_barrier(warps={p('8', '4')})",
    ]
    first = p.shuffled(
        [
            p.sometimes(
                "tg.named_barrier_sync(free)", "tg.named_barrier_arrive(free)", "tg.named_barrier_sync(ready)"
            ),
            p.sometimes("tile[:, :] = tg.tile_load(x, shape=(1, 32), offset=(k, 0)) * 3.0"),
            p.sometimes(
                "tg.named_barrier_arrive(ready)",
                "tg.named_barrier_arrive(free)",
                "tg.named_barrier_sync(ready)",
            ),
        ]
    )
    second = p.shuffled(
        [
            p.sometimes("tg.named_barrier_sync(ready)", "tg.named_barrier_arrive(ready)"),
            p.sometimes("tg.tile_store(out, tile, offset=(k, 0))"),
            p.sometimes("tg.named_barrier_arrive(free)", "tg.named_barrier_sync(free)"),
        ]
    )
    begin = [p("tg.named_barrier_arrive(free)", "pass", "tg.named_barrier_arrive(ready)")]
    end = [p("tg.named_barrier_sync(free)", "pass", "tg.named_barrier_arrive(free)")]
    return results, [
        *role("tg.ws(0)", p.loop(form), first, after=end),
        *role("tg.ws(1)", p.loop(form), second, before=begin),
    ]


def composition(seed: int, wrong: bool = True) -> tuple[str, str]:
    """The text of a composition, and its name: the family, with the number of faulty lines."""
    rng = Random(f"composition {seed}")
    name = rng.choice([*FAMILIES])
    make, key = FAMILIES[name], f"{name} {seed}"
    fault_places = FaultPicker(key)
    make(fault_places)
    some = rng.sample(range(fault_places.count), rng.choice((1, 1, 1, 2, 3))) if wrong else []
    result, roles = make(FaultPicker(key, frozenset(some)))
    return "\n".join(
        [f"def kernel({ARGS}):", *shifted([*result, *roles])]
    ) + "\n", f"{name}, {len(some)} places"


def fault(text: str, kernel: Kernel, parts: GpuCompilation, count: int) -> str:
    """The first fault in a number of orders of each launch, or ""."""
    for args in launches():
        failure = judge.replayed(kernel, parts, judge.replay_arguments(text, args), count)
        if failure:
            return f"n = {args['n']}, m = {args['m']}, c = {args['c']}, d = {args['d']}: {failure}"
    return ""


def launches() -> list[Args]:
    """Launches in which the faults of compositions show."""
    out: list[Args] = []
    for n, m, c, d in ((0, 0, 0, 0), (1, 1, 0, 1), (4, 2, 1, 2), (9, 3, 0, 1), (15, 4, 1, 0), (16, 2, 0, 3)):
        args = {**defaults(60), "n": n, "m": m, "c": c, "d": d}
        for k, x in ((3, 3), (7, 5), (12, 6)):
            args["g"][k] = x
        out.append(args)
    return out
