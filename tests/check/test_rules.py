"""Each rule of the checker is needed to refuse some wrong schedule."""

from __future__ import annotations

import pytest
from rules import LATE_WAIT_RULE, MUTATIONS, RULES, TEXTS, cases, cases_that_depend_on, rejection_kind

from support.campaigns import rest_slow, sampled

CASES = cases()
SLOW_RULES = {"no phase overtakes a waiting role", "arrivals are counted"}
"""Rules whose first wrong case is found after many others."""


@sampled(3, "name", rest_slow(((name,) for name in RULES), lambda name: name not in SLOW_RULES))
def test_a_disabled_rule_of_the_verifier_fails_a_case(name: str) -> None:
    assert next(cases_that_depend_on(RULES[name], CASES), None) is not None


@pytest.mark.parametrize("name", [*MUTATIONS, LATE_WAIT_RULE, *TEXTS])
def test_cases_for_single_rules_fail_with_their_kind(name: str) -> None:
    kind, check = CASES[name]
    assert rejection_kind(check()) == kind
