"""The rules of the checker, each of which can be disabled, and the wrong schedules that are then accepted."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from equivalent_rewrites import kernel
from schedules import (
    Mutation,
    chain,
    change,
    gemm,
    lowered_late,
    on_top,
    registers,
    two_producers,
    verdict,
)

from tegula.check import launches, limits, machine, schedule
from tegula.check.launches import EQUAL, Candidates
from tegula.check.machine import Run
from tegula.check.memory import Memory
from tegula.check.unroll import Program
from tegula.check.verdict import UNPROVED, Refuted, Verdict
from tegula.dataclass import dataclass
from tegula.runtime import check as check_of_kernels

CORPUS = Path(__file__).parent / "corpus"
KERNEL_MAKERS = {"gemm": gemm, "two_producers": two_producers, "chain": chain, "registers": registers}


@dataclass(frozen=True, slots=True)
class Rule:
    """A function of the checker. Without the rule the function returns `instead` in place of a refutation of these
    `kinds`, or of any result if there are no kinds. `noticed`: a case whose verdict changes without the rule, which is
    tried first."""

    owner: Any
    name: str
    kinds: tuple[str, ...]
    instead: Any
    noticed: str

    def disabled(self) -> Any:
        """A context in which the rule is disabled."""
        original, rule = getattr(self.owner, self.name), self

        def without(*args: Any, **named: Any) -> Any:
            if not rule.kinds:
                return rule.instead
            try:
                return original(*args, **named)
            except Refuted as e:
                if e.kind not in rule.kinds:
                    raise
                return rule.instead

        events = {event: without for event, act in machine._EXECUTE.items() if act is original}
        return (
            patch.dict(machine._EXECUTE, events) if events else patch.object(self.owner, self.name, without)
        )


def _order_of_kind(kind: bool) -> Callable[..., Any]:
    """The order of accesses, without races (True) or without fences (False)."""
    original = Memory._after

    def after(self: Memory, first: Any, second: Any, clock: Any) -> Any:
        result = original(self, first, second, clock)
        return None if result is not None and result.fence is not kind else result

    return after


class Order(Rule):
    """A rule about the order of accesses: one access follows another, or a fence is between them."""

    def disabled(self) -> Any:
        return patch.object(Memory, "_after", _order_of_kind(self.instead))


LATE_WAIT_RULE = "a matmul that reads registers is in flight in the next iteration"

RULES: dict[str, Rule] = {
    "two accesses have an order": Order(Memory, "_after", (), True, "corpus refill_during_matmul"),
    "proxies are fenced": Order(Memory, "_after", (), False, "corpus missing_fence_before_bulk_store"),
    "reads are of initialised memory": Rule(
        Memory, "has_uninitialised", (), False, "gemm: copy to another stage"
    ),
    "barriers are disjoint": Rule(limits, "_check_disjoint", (), None, "two barriers in the same bytes"),
    "barriers are not overwritten": Rule(Memory, "barrier_in", (), None, "gemm: a barrier overlaps a stage"),
    "barriers are published": Rule(limits, "_check_initialised", (), None, "gemm: barriers not published"),
    "counts fit a barrier": Rule(limits, "_check_counts", (), None, "more bytes than a barrier counts"),
    "there are 16 named barriers": Rule(limits, "_check_named_barriers", (), None, "too many named barriers"),
    "each warp has one role": Rule(limits, "_check_warps", (), None, "2: idle warps join a role"),
    "register budgets are valid": Rule(
        limits, "_check_registers", (), None, "3: different budgets in one warp group"
    ),
    "arrivals are counted": Rule(Run, "_arrive", ("arrivals",), None, "gemm: two releases"),
    "copies are announced": Rule(Run, "copy_in", ("bytes",), True, "gemm: too few bytes"),
    "parities tell phases apart": Rule(
        Run, "wait", ("aliasing", "phase"), True, "gemm: consumer's phase is flipped"
    ),
    "no phase overtakes a waiting role": Rule(
        Run, "_complete_phase", ("aliasing",), None, "gemm: fewer steps multiplied"
    ),
    "stages exist": Rule(Run, "phase", ("stage",), None, "a stage out of range"),
    "some role can proceed": Rule(
        Run, "_simulate", ("deadlock", "arrivals", "bytes"), None, "corpus unguarded_first_item"
    ),
    "nothing is in flight at the end": Rule(
        machine, "check_end", (), None, "gemm: stores in flight at the end"
    ),
    "matmuls are waited for": Rule(
        Program, "_track_in_flight", ("in-flight",), None, "gemm: result used in flight"
    ),
    "registers are read before they are overwritten": Rule(
        Program, "_check_register_operands", (), None, LATE_WAIT_RULE
    ),
    "threads of a role do not diverge": Rule(
        Program, "diverges", (), False, "17: some threads of a role wait"
    ),
    "numbers of the kernel are tried": Rule(launches, "_decisions", (), (), "a constant phase"),
    "numbers are tried one by one": Rule(Candidates, "per_leaf_candidates", (), (), "a constant phase"),
    "large numbers are combined": Rule(
        Candidates, "random_launches", (), (), "a fence unless two numbers are large"
    ),
    "elements differ": Rule(Candidates, "_patterns", (), [EQUAL], "a fence if two elements are equal"),
}

HEAD = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full = tg.mbarrier(4, stages=S)
"""
TEXTS: dict[str, tuple[str, str]] = {
    "a stage out of range": (
        "stage",
        HEAD + "    with tg.ws(0):\n        for k in range(n):\n            tg.mbarrier_arrive(full, k)\n",
    ),
    "too many named barriers": (
        "budget",
        "def kernel(x: tg.array2d[float]):\n"
        + "".join(f"    b{k} = tg.named_barrier(warps=4)\n" for k in range(16))
        + "    with tg.ws(0):\n"
        + "".join(f"        tg.named_barrier_sync(b{k})\n" for k in range(16)),
    ),
}


MUTATIONS: dict[str, Mutation] = {
    "more bytes than a barrier counts": change("mbarrier.expect", bytes=1 << 20),
    "two barriers in the same bytes": on_top("left.full", "left.empty"),
}


def cases() -> dict[str, tuple[str, Callable[[], Any]]]:
    """Wrong schedules: the kind of fault, and the function that checks them."""
    mutants, impossible = (
        importlib.import_module("support.mutated_schedules"),
        importlib.import_module("support.mutated_memory"),
    )
    late_faults = importlib.import_module("support.late_fault_rings")
    result: dict[str, tuple[str, Callable[[], Any]]] = {}
    for kernel_name, table in (
        ("gemm", mutants.GEMM),
        ("two_producers", mutants.TWO_PRODUCERS),
        ("chain", mutants.CHAIN),
        ("registers", mutants.REGISTERS),
    ):
        for name, (mutate, kind) in table.items():
            result[f"{kernel_name}: {name}"] = (
                kind,
                lambda maker=kernel_name, mutate=mutate: verdict(KERNEL_MAKERS[maker](), mutate),
            )
    for name, (make, mutate, _, kind) in impossible.MEMORY_MUTATIONS.items():
        result[name] = (kind or "undecided", lambda make=make, mutate=mutate: verdict(make(), mutate))
    for path in sorted(CORPUS.glob("*.py")):
        names: dict[str, Any] = {}
        exec(path.read_text(), names)
        result[f"corpus {path.stem}"] = (names["KIND"], lambda text=names["WRONG"]: kernel(text).check())
    for name, mutate in MUTATIONS.items():
        result[name] = ("budget", lambda mutate=mutate: verdict(gemm(), mutate))
    result[LATE_WAIT_RULE] = ("in-flight", lambda: schedule.check_schedule(*lowered_late(registers())))
    for name, (kind, parts) in late_faults.FAULTY_PARTS.items():
        text = late_faults.RING.format(**{**late_faults.CORRECT_PARTS, **parts})
        result[name] = (kind, lambda text=text: kernel(text, None, 2).check())
    for name, (kind, text) in TEXTS.items():
        result[name] = (kind, lambda text=text: kernel(text).check())
    return result


def rejection_kind(verdict: Verdict) -> str:
    """The kind of fault of a verdict; "undecided" or the status of a verdict without a fault."""
    return verdict.kind or (
        "undecided" if verdict.status == UNPROVED and verdict.locations else verdict.status
    )


def cases_that_depend_on(
    rule: Rule, all_cases: dict[str, tuple[str, Callable[[], Any]]]
) -> Iterator[tuple[str, str]]:
    """The cases whose verdicts change if a rule is disabled, with the changed verdicts; the disk cache is not used."""
    first = [rule.noticed] if rule.noticed in all_cases else []
    for name in [*first, *(n for n in all_cases if n != rule.noticed)]:
        kind, check = all_cases[name]
        with rule.disabled(), patch.object(check_of_kernels, "disk_cache", lambda: None):
            try:
                kind_without_rule = rejection_kind(check())
            except Exception as e:
                kind_without_rule = f"{type(e).__name__}"
        if kind_without_rule != kind:
            yield name, kind_without_rule
