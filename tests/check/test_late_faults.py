"""Schedules that fail only after many iterations, or in launches with large numbers, are not proved."""

from __future__ import annotations

import pytest
from equivalent_rewrites import kernel

from support.late_fault_rings import CORRECT_PARTS, COUNTED, FAULTY_PARTS, RING


@pytest.mark.parametrize("name", FAULTY_PARTS)
def test_faults_in_far_iterations_are_refuted(name: str) -> None:
    kind, parts = FAULTY_PARTS[name]
    verdict = kernel(RING.format(**{**CORRECT_PARTS, **parts}), None, 2).check()
    assert (verdict.status, verdict.kind) == ("refuted", kind), verdict.message


UNPROVED = {"read_stage": "(k + m - m) % S"}


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"fill_stage": "k % 62 % S", "read_stage": "k % 62 % S"},
        {"read_stage": "(k + m - m) % S"},
        {"read_phase": "(k // S & 1) ^ (m & 1) ^ (m & 1)"},
        {"read_stage": "k & 1", "read_phase": "k >> 1 & 1"},
    ],
)
def test_correct_schedules_with_large_numbers_are_not_refuted(parts: dict[str, str]) -> None:
    verdict = kernel(RING.format(**{**CORRECT_PARTS, **parts}), None, 2).check()
    expected = "unproved" if parts == UNPROVED else "proved"
    assert verdict.status == expected, verdict.message


@pytest.mark.parametrize(
    "parts",
    [
        {"read_phase": "(k // S & 1) ^ (k * k // 4096 & 1)"},
        {"read_phase": "(k // S & 1) ^ (k // (m + 100) & 1)"},
    ],
)
def test_multiples_and_quotients_of_loop_indices_are_followed(parts: dict[str, str]) -> None:
    verdict = kernel(RING.format(**{**CORRECT_PARTS, **parts}), None, 2).check()
    assert verdict.status == "refuted", verdict.message


@pytest.mark.parametrize("fence_if", ["n * k != 3000", "k != 50000"])
def test_faults_in_late_iterations_are_not_proved(fence_if: str) -> None:
    """The checker unrolls no launch of this length."""
    verdict = kernel(RING.format(**{**CORRECT_PARTS, "fence_if": fence_if}), None, 2).check()
    assert verdict.status == "unproved" and verdict.gap is not None, verdict.message


@pytest.mark.parametrize(
    "fence_if", ["wraps != 3", "wraps != 4", "wraps < 5", "wraps % 5 != 4", "wraps + k != 12"]
)
@pytest.mark.parametrize("wrap_if", ["if s == S:", "if k % S == S - 1:"])
def test_faults_that_depend_on_a_slowly_growing_number_are_refuted(wrap_if: str, fence_if: str) -> None:
    verdict = kernel(
        COUNTED.format(**{**CORRECT_PARTS, "wrap_if": wrap_if, "fence_if": fence_if}), None, 2
    ).check()
    assert verdict.status == "refuted", verdict.message


@pytest.mark.parametrize("fence_if", ["wraps >= 0", "wraps != -1", "k >= 0"])
def test_schedules_that_depend_on_a_slowly_growing_number_pass(fence_if: str) -> None:
    verdict = kernel(
        COUNTED.format(**{**CORRECT_PARTS, "wrap_if": "if s == S:", "fence_if": fence_if}), None, 2
    ).check()
    assert verdict.passed, verdict.message


@pytest.mark.parametrize(
    ("fence_if", "is_correct"), [("seen != 3", False), ("seen != 9", False), ("seen >= 0", True)]
)
def test_faults_that_depend_on_counted_elements_are_refuted(fence_if: str, is_correct: bool) -> None:
    text = RING.replace("last = int(0)", "seen = int(0)")
    text = text.replace("last = flags[k]", "if flags[k] != 0:\n                seen += 1")
    verdict = kernel(text.format(**{**CORRECT_PARTS, "fence_if": fence_if}), None, 2).check()
    assert verdict.status == ("unproved" if is_correct else "refuted")
