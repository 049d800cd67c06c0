"""The rules of the checker, each as something that can be left out, and the wrong schedules that notice."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from disguises import kernel
from schedules import (
    Spoil,
    chain,
    change,
    gemm,
    lowered,
    lowered_late,
    on_top,
    registers,
    two_producers,
    verdict,
)

from tegula.check import bounded, counts, horizon, launches, limits, machine, schedule
from tegula.check.machine import Run
from tegula.check.memory import Memory
from tegula.check.unroll import Program
from tegula.check.verdict import Refuted
from tegula.dataclass import dataclass, replace
from tegula.runtime import check as check_of_kernels
from tegula.runtime.check import PACKED

CORPUS = Path(__file__).parent / "corpus"
MADE = {"gemm": gemm, "two_producers": two_producers, "chain": chain, "registers": registers}


@dataclass(frozen=True, slots=True)
class Rule:
    """A function of the checker. Without the rule it does not refute for `kinds`, but gives `instead`; where there are
    no kinds, it always does. `noticed`: a case that notices, which is tried first."""

    owner: Any
    name: str
    kinds: tuple[str, ...]
    instead: Any
    noticed: str

    def left_out(self) -> Any:
        """A context in which the rule is not there."""
        real, rule = getattr(self.owner, self.name), self

        def without(*args: Any, **named: Any) -> Any:
            if not rule.kinds:
                return rule.instead
            try:
                return real(*args, **named)
            except Refuted as e:
                if e.kind not in rule.kinds:
                    raise
                return rule.instead

        events = {event: without for event, act in machine._DO.items() if act is real}
        return patch.dict(machine._DO, events) if events else patch.object(self.owner, self.name, without)


def _only(kind: bool) -> Callable[..., Any]:
    """The order of accesses, without races (True) or without fences (False)."""
    real = Memory._after

    def after(self: Memory, first: Any, second: Any, clock: Any) -> Any:
        found = real(self, first, second, clock)
        return None if found is not None and found.fence is not kind else found

    return after


class Order(Rule):
    """Of the order of accesses: that one comes after another, or that a fence is in between."""

    def left_out(self) -> Any:
        return patch.object(Memory, "_after", _only(self.instead))


PAIR = "blocks of a pair that make other rounds"
LATE = "a product of registers goes on in the next round"

RULES: dict[str, Rule] = {
    "two accesses have an order": Order(Memory, "_after", (), True, "corpus refill_while_a_product_reads"),
    "proxies are fenced": Order(Memory, "_after", (), False, "corpus no_fence_before_a_copy_reads"),
    "what is read was written": Rule(Memory, "unwritten", (), False, "gemm: copy to the stage beside"),
    "barriers lie apart": Rule(limits, "_apart", (), None, "two barriers in the same bytes"),
    "nothing else is written there": Rule(
        Memory, "barrier_in", (), None, "gemm: a barrier in a stage's bytes"
    ),
    "barriers are published": Rule(limits, "_barriers_made", (), None, "gemm: barriers not published"),
    "barriers count so far": Rule(limits, "_counts", (), None, "more bytes than a barrier counts"),
    "there are 16 named barriers": Rule(limits, "_named", (), None, "too many named barriers"),
    "each warp has one role": Rule(limits, "_warps", (), None, "2: padding warps fall into a role"),
    "budgets of registers": Rule(limits, "_registers", (), None, "3: registers of part of a warp group"),
    "arrivals are counted": Rule(Run, "_arrive", ("arrivals",), None, "gemm: two releases"),
    "copies are announced": Rule(Run, "copy_in", ("bytes",), True, "gemm: too few bytes"),
    "parities tell phases apart": Rule(
        Run, "wait", ("aliasing", "phase"), True, "gemm: consumer's phase is flipped"
    ),
    "waiters are waited for": Rule(Run, "_settle", ("aliasing",), None, "gemm: fewer steps multiplied"),
    "stages exist": Rule(Run, "phase", ("stage",), None, "a stage that there is not"),
    "somebody can go on": Rule(
        Run, "_play", ("deadlock", "arrivals", "bytes"), None, "corpus first_item_without_a_test"
    ),
    "nothing is on its way at the end": Rule(
        machine, "check_end", (), None, "gemm: stores on their way at the end"
    ),
    "products are waited for": Rule(Program, "_fly", ("in-flight",), None, "gemm: result used in flight"),
    "registers are read in the round": Rule(Program, "_settled", (), None, LATE),
    "pairs of blocks do the same": Rule(bounded, "check_pairs", (), None, PAIR),
    "control flow is uniform": Rule(
        bounded.BoundedSearch, "_uniform", (), None, "17: some threads of a role wait"
    ),
    "everything was reached": Rule(
        bounded.BoundedSearch, "_covered", (), None, "a bound that no launch leads to"
    ),
    "as far as numbers say": Rule(launches, "horizon", (), 0, "a phase that stays"),
    "slow numbers are waited for": Rule(
        horizon, "_counts_slowly", (), False, "a number that is counted slowly"
    ),
    "arguments of stages vary": Rule(launches, "leaves", (), (), "a stage that a large argument moves"),
    "elements differ": Rule(launches, "_mixed", (), (), "a fence where two elements are alike"),
    "few rounds do little": Rule(counts, "_little", (), True, "rounds of the first round"),
    "roles count alike": Rule(bounded, "check_counts", (), None, "counts that differ far away"),
}

HEAD = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full = tg.mbarrier(4, stages=S)
"""
LOOPS = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    pipe = tg.tile_pipe(shape=(1, N), dtype=float, stages=S)
    with tg.ws(0):
        for k in range({first}):
            tg.tile_pipe_load(pipe, x, offset=(k, 0))
    with tg.ws(1):
        for k in range({second}):
            tg.tile_store(out, tg.tile_pipe_pop(pipe), offset=(k, 0))
"""
FIRST = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    with tg.ws(0):
        if tg.elect():
            turn = int(0)
            for _ in range(n):
                if turn < 1:
                    for j in range(tg.min(m, 900)):
                        tg.mbarrier_wait(empty, j % S, j // S & 1 ^ 1)
                        tg.mbarrier_expect_bytes(full, j % S, N * 4)
                        tg.tile_load_async(x, ring[j % S], (j, 0), full, j % S)
                turn += 1
    with tg.ws(1):
        turn = int(0)
        for _ in range(n):
            if turn < 1:
                for j in range(m):
                    tg.mbarrier_wait(full, j % S, j // S & 1)
                    tg.tile_store(out, ring[j % S] * 2.0, offset=(j, 0))
                    tg.fence_async()
                    tg.mbarrier_arrive(empty, j % S)
            turn += 1
"""
TEXTS: dict[str, tuple[str, str]] = {
    "rounds of the first round": ("counts", FIRST),
    "a stage that there is not": (
        "stage",
        HEAD + "    with tg.ws(0):\n        for k in range(n):\n            tg.mbarrier_arrive(full, k)\n",
    ),
    "counts that differ far away": ("counts", LOOPS.format(first="n", second="tg.min(n, 1000)")),
    "a bound that no launch leads to": (
        "unreached",
        LOOPS.format(first="(n * n) % x.shape[0] - 1000", second="(n * n) % x.shape[0] - 999"),
    ),
    "too many named barriers": (
        "budget",
        "def kernel(x: tg.array2d[float]):\n"
        + "".join(f"    b{k} = tg.named_barrier(warps=4)\n" for k in range(16))
        + "    with tg.ws(0):\n"
        + "".join(f"        tg.named_barrier_sync(b{k})\n" for k in range(16)),
    ),
}


SPOILS: dict[str, Spoil] = {
    "more bytes than a barrier counts": change("mbarrier.expect", bytes=1 << 20),
    "two barriers in the same bytes": on_top("left.full", "left.empty"),
}


def one_round_less() -> Any:
    """Blocks fetch tiles for each other, as many rounds as each has tiles of its own."""
    made, parts = lowered(gemm(), arrays=replace(PACKED, align=16))
    for op in made.walk():
        if op.NAME == "for" and op.operands[1].owner.NAME == "pair.end":  # type: ignore[union-attr]
            op.operands[1] = op.operands[1].owner.operands[0]  # type: ignore[union-attr]
    return schedule.check_schedule(made, parts)


def cases() -> dict[str, tuple[str, Callable[[], Any]]]:
    """Wrong schedules: the kind of fault, and what checks them."""
    mutants, impossible = (
        importlib.import_module("support.spoiled_schedules"),
        importlib.import_module("support.spoiled_memory"),
    )
    far = importlib.import_module("support.far_rings")
    found: dict[str, tuple[str, Callable[[], Any]]] = {}
    for made, table in (
        ("gemm", mutants.GEMM),
        ("two_producers", mutants.TWO_PRODUCERS),
        ("chain", mutants.CHAIN),
        ("registers", mutants.REGISTERS),
    ):
        for name, (spoil, kind) in table.items():
            found[f"{made}: {name}"] = (kind, lambda made=made, spoil=spoil: verdict(MADE[made](), spoil))
    for name, (make, spoil, _, kind) in impossible.IN_MEMORY.items():
        found[name] = (kind, lambda make=make, spoil=spoil: verdict(make(), spoil))
    for path in sorted(CORPUS.glob("*.py")):
        names: dict[str, Any] = {}
        exec(path.read_text(), names)
        found[f"corpus {path.stem}"] = (names["KIND"], lambda text=names["WRONG"]: kernel(text).check())
    for name, spoil in SPOILS.items():
        found[name] = ("budget", lambda spoil=spoil: verdict(gemm(), spoil))
    found[PAIR] = ("pair", one_round_less)
    found[LATE] = ("in-flight", lambda: schedule.check_schedule(*lowered_late(registers())))
    texts = {name: far.RING.format(**{**far.RIGHT, **parts}) for name, parts in far.WRONG.items()}
    texts["a number that is counted slowly"] = far.COUNTED.format(
        **{**far.RIGHT, "once": "if s == S:", "fenced": "wraps != 4"}
    )
    for name, text in texts.items():
        found[name] = (kernel(text, None, 2).check().kind, lambda text=text: kernel(text, None, 2).check())
    for name, (kind, text) in TEXTS.items():
        found[name] = (kind, lambda text=text: kernel(text).check())
    return found


def noticing(rule: Rule, known: dict[str, tuple[str, Callable[[], Any]]]) -> Iterator[tuple[str, str]]:
    """The cases that notice that a rule is left out, and what is said of them then. No verdict of such a checker is
    kept on disk."""
    first = [rule.noticed] if rule.noticed in known else []
    for name in [*first, *(n for n in known if n != rule.noticed)]:
        kind, check = known[name]
        with rule.left_out(), patch.object(check_of_kernels, "disk_cache", lambda: None):
            try:
                said = check()
                text = said.kind or said.status
            except Exception as e:
                text = f"{type(e).__name__}"
        if text != kind:
            yield name, text
