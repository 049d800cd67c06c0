"""Integers of which each bit is the parity of a stage, and parities in bools and narrow integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from equivalent_rewrites import kernel
from proofs import outcome
from schedules import lowered

from support.campaigns import sampled
from tegula.check.proof import terms
from tegula.check.verifier import arithmetic as verifier

KERNEL = """def masked(x: tg.array2d[float], out: tg.array2d[float], n: int, m: int):
    assert n >= 0 and n % S == 0
    ring = tg.tile_empty(shape=(S, 1, N), dtype=float, storage="shared")
    full, empty = tg.mbarrier(1, stages=S), tg.mbarrier(4, stages=S)
    with tg.role("fetch", warps=1):
        FETCH_LOOP
            tg.mbarrier_wait(empty, STAGE, ((bits >> STAGE) & 1) ^ 1)
            tg.mbarrier_expect_bytes(full, STAGE, N * 4)
            tg.tile_load_async(x, ring[STAGE], (0, 0), full, STAGE)
            bits ^= 1 << STAGE
            NEXT
    with tg.ws(1):
        STORE_LOOP
            tg.mbarrier_wait(full, STAGE, (bits >> STAGE) & 1)
            tg.tile_store(out, ring[STAGE], offset=(0, 0))
            tg.fence_async()
            tg.mbarrier_arrive(empty, STAGE)
            bits = bits ^ (1 << STAGE)
            NEXT
"""
LOOPS = {
    "an index": ("for k in range(n):", "k % S", ""),
    "a carried stage": ("s = 0\n        for k in range(n):", "s", "s = s + 1 if s < S - 1 else 0"),
    "nested": ("k = 0\n        for i in range(n):\n          for j in range(m):", "k % S", "k += 1"),
    "unrolled": ("for q in range(n // S):\n          for s in tg.unrolled(S):", "s", ""),
}


def masked(loop: str, first: str = "0") -> str:
    head, stage, step = LOOPS[loop]
    text = KERNEL.replace("STAGE", stage).replace("NEXT", step)
    return text.replace("FETCH_LOOP", f"bits = 0\n        {head}").replace(
        "STORE_LOOP", f"bits = {first}\n        {head}"
    )


@sampled(
    3,
    ("loop", "stages"),
    [
        ("an index", 4),
        ("a carried stage", 3),
        ("unrolled", 2),
        ("nested", 3),
        ("an index", 8),
        ("a carried stage", 2),
        ("unrolled", 4),
    ],
)
def test_bits_of_integers_are_parities_of_stages(loop: str, stages: int) -> None:
    assert outcome(lowered(kernel(masked(loop), None, stages))) == "proved"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bits = bits ^ (1 << k % S)", "bits = bits ^ (1 << (k + 1) % S)"),
        ("bits = bits ^ (1 << k % S)", "bits = bits ^ (2 << k % S)"),
        ("full, k % S, (bits >> k % S) & 1", "full, k % S, (bits >> k % 2) & 1"),
        (
            "bits = 0\n        for k in range(n):\n            tg.mbarrier_wait(full",
            "bits = 4\n        for k in range(n):\n            tg.mbarrier_wait(full",
        ),
    ],
)
def test_other_bits_are_no_parities_of_stages(old: str, new: str) -> None:
    text = masked("an index")
    assert old in text
    assert outcome(lowered(kernel(text.replace(old, new), None, 3))) != "proved"


@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("xor", (6, 3), 5),
        ("and", (-1, 12), 12),
        ("or", (8, 3), 11),
        ("shl", (1, 30), 1 << 30),
        ("shr", (12, 2), 3),
        ("shl", (1, 31), None),  # beyond the type
        ("shl", (1, 32), None),
        ("shl", (1, -1), None),
        ("shr", (-4, 1), None),
        ("xor", (1 << 40, 1), None),  # no number of the type
    ],
)
def test_bit_operations_on_numbers_are_numbers(name: str, operands: Sequence[int], expected: Any) -> None:
    function = (name, "[]", 0, "int32")
    proved = terms.atom("app", function, tuple(map(terms.number, operands))).value
    atoms = verifier.Atoms()
    verified = verifier.constant(atoms.intern("app", function, tuple(map(verifier.number, operands))))
    assert proved == expected and verified == expected
