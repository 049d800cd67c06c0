"""Generated schedules: wrong schedules, each with a faulty launch, and correct schedules. No wrong schedule may be
proved. `tools/attack_schedules.py` judges any number of them."""

from __future__ import annotations

import pytest

import tegula as tg
from support.attacks import judge
from support.attacks.attack import Attack, right_attack, simulate, wrong_attack
from support.attacks.clusters import cluster_fault
from support.attacks.program import defaults
from support.attacks.rows import CLASSES, ROWS
from support.campaigns import chunks, sampled

COMPLETE = False
"""Whether nearly all correct schedules of each class must be proved."""
SEEDS, CAMPAIGN_SEEDS, CHUNKS, CORRECT_CHUNK = range(200), range(2250), 321, 10
"""`CHUNKS`: the number of chunks of the wrong schedules, 50 for each of 45 rows; `CORRECT_CHUNK`: the number of correct
schedules in a chunk."""
MAX_UNPROVED, MAX_UNPROVED_PER_ROW = 0.05, 0.15

RING = """\
def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int, g: tg.array1d[int]):
    ring = tg.tile_empty(shape=(3, 1, 32), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=3), tg.mbarrier(4, stages=3)
    with tg.ws(0):
        if tg.elect():
            for k in range(n):
                s = k % 3
                tg.mbarrier_wait(empty, s, k // 3 + 1)
                tg.mbarrier_expect_bytes(full, s, 128)
                tg.tile_load_async(x, ring[s], (k, 0), full, s)
    with tg.ws(1):
        for k in range(n):
            s = k % 3
            tg.mbarrier_wait(full, s, k // 3)
            tg.tile_store(out, ring[s] * 2.0, offset=(k, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, s)
"""
SECOND_ANNOUNCEMENT = """\
                if g[k] > 5:
                    tg.mbarrier_expect_bytes(full, s, 128)
"""
MUTATED = {
    "fence": (
        "            tg.fence_async()\n",
        "            if k != 17:\n                tg.fence_async()\n",
    ),
    "race": ("(full, s, k // 3)", "(full, s, k // 3 ^ int(k == 17))"),
    "deadlock": (
        "            tg.mbarrier_arrive",
        "            if k != 11:\n                tg.mbarrier_arrive",
    ),
    "unfinished": ("in range(n):\n            s", "in range(n - int(n == 20)):\n            s"),
    "unwritten": ("ring[s] * 2.0", "ring[(s + int(k * m < 0)) % 3] * 2.0"),
    "arrivals": (
        "                tg.tile_load_async",
        f"{SECOND_ANNOUNCEMENT}                tg.tile_load_async",
    ),
}
"""Kinds of faults, and the changes by which the ring has them in some iteration or launch."""


def launch(n: int, m: int = 1) -> dict[str, object]:
    args = {**defaults(n + 9), "n": n, "m": m}
    args["g"][5] = 9  # type: ignore[index]
    return args


# The simulation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 7, 20])
def test_a_correct_ring_has_no_fault(n: int) -> None:
    assert simulate(RING, launch(n), 12) == ""


@pytest.mark.parametrize("kind", MUTATED)
def test_the_simulation_finds_a_fault_in_its_iteration(kind: str) -> None:
    text = RING.replace(*MUTATED[kind], 1) if kind != "unfinished" else replace_last(*MUTATED[kind])
    assert text != RING
    assert simulate(text, launch(4)) == ""
    actual = simulate(text, launch(20 if kind == "unfinished" else 24, 1 << 28 if kind == "unwritten" else 1))
    assert actual.startswith(("race", "unwritten") if kind == "unwritten" else kind), actual


def replace_last(old: str, new: str) -> str:
    """The text of the ring with the last occurrence of a line replaced."""
    index = RING.rindex(old)
    return RING[:index] + new + RING[index + len(old) :]


def test_the_integer_model_of_two_blocks_finds_deadlocks() -> None:
    assert cluster_fault((6, 6), 2, lambda b, k: True) == ""
    assert cluster_fault((6, 6), 2, lambda b, k: k % 2 == 0) == ""
    assert "has ended" in cluster_fault((6, 4), 2, lambda b, k: True)
    assert "took" in cluster_fault((9, 4), 2, lambda b, k: False) and cluster_fault(
        (6, 6), 2, lambda b, k: b == 0
    )


# The generator --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [3, 47, 105])
def test_a_seed_generates_the_same_attack_each_time(seed: int) -> None:
    first, second = wrong_attack(seed), wrong_attack(seed)
    assert (first.text, first.name, first.fault) == (second.text, second.name, second.fault)
    assert right_attack(seed).text == right_attack(seed).text


def test_each_attack_violates_the_rule_of_its_class() -> None:
    for seed in range(0, len(ROWS), 4):
        attack = wrong_attack(seed)
        assert attack.row == ROWS[seed] and attack.row in attack.rows and attack.fault


@sampled(3, "first", range(0, len(SEEDS), 50))
def test_generated_wrong_schedules_compile_or_have_an_error_with_a_reason(first: int) -> None:
    """Wrong schedules compile, or an error gives the reason."""
    programs = set()
    for seed in SEEDS[first : first + 50]:
        attack = wrong_attack(seed)
        assert attack.fault, attack.name
        programs.add(attack.text + attack.name)
        status, message = compiled(attack) if seed % 3 == 0 else ("", "")
        assert status != "crash", f"{seed}: {message}\n{attack.text}"
    assert len(programs) == 50


@sampled(2, "seed", [57, 98])
def test_wrong_schedules_accepted_by_an_earlier_prover_are_not_proved(seed: int) -> None:
    """Copies for a 2-CTA cluster whose barriers are not cluster barriers; the second kernel has one stage."""
    attack = wrong_attack(seed)
    assert attack.fault and attack.verdict()[0] not in ("proved", "crash")


def compiled(attack: Attack) -> tuple[str, str]:
    if attack.mutation is not None:
        return "", ""
    try:
        judge.lowered(judge.kernel_of(attack.text))
    except tg.CompileError as e:
        return ("refused" if "error[" in str(e) else "crash"), str(e)
    return "", ""


@pytest.mark.parametrize("seed", [1, 15, 17, 21, 36, 66])
def test_attacks_fail_in_replays(seed: int) -> None:
    """Faults in the simulation of the text are faults in the replay of the lowered form."""
    attack = wrong_attack(seed)
    assert attack.replay(attack.args, 30), f"{attack.name}: {attack.fault}\n{attack.text}"


@pytest.mark.parametrize("seed", range(len(CLASSES)))
def test_generated_correct_schedules_have_no_fault(seed: int) -> None:
    attack = right_attack(seed)
    faults = [simulate(attack.text, args, 4) for args in attack.sizes[:6] if attack.mutation is None]
    assert not any(faults), f"{attack.name}: {faults}\n{attack.text}"


# Campaigns ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", chunks(range(CHUNKS)))
def test_many_generated_wrong_schedules_are_not_proved(first: int) -> None:
    for seed in CAMPAIGN_SEEDS[first::CHUNKS]:
        attack = wrong_attack(seed)
        status, message = attack.verdict()
        assert status != "crash", f"{seed}: {message}\n{attack.text}"
        assert status != "proved" or attack.guarded, f"{seed}: {attack.name}\n{attack.text}"


@pytest.mark.parametrize("first", chunks(range(0, len(CAMPAIGN_SEEDS), CORRECT_CHUNK)))
def test_many_generated_correct_schedules_are_proved_and_never_fail(first: int) -> None:
    """Correct schedules do not fail in many orders of several launches, and nearly all are proved."""
    unproved: dict[str, list[int]] = {row: [] for row in CLASSES}
    for seed in CAMPAIGN_SEEDS[first : first + CORRECT_CHUNK]:
        attack = right_attack(seed)
        status, message = attack.verdict()
        assert status != "crash", f"{seed}: {message}\n{attack.text}"
        for args in attack.sizes:
            assert attack.mutation or not simulate(attack.text, args, 12), (
                f"{seed}: {attack.name}\n{attack.text}"
            )
        if status != "refused":
            fault = attack.replay(attack.sizes[2], 25)
            assert not fault or fault.startswith("unknown"), f"{seed}: {attack.name}: {fault}\n{attack.text}"
        if status != "proved":
            unproved[attack.row].append(seed)
    if COMPLETE:
        assert sum(map(len, unproved.values())) <= 1 + MAX_UNPROVED * CORRECT_CHUNK, unproved
        for row, seeds in unproved.items():
            assert len(seeds) <= 1 + MAX_UNPROVED_PER_ROW * CORRECT_CHUNK / len(CLASSES), f"{row}: {seeds}"
