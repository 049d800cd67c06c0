"""Disables one rule of the schedule checker after another, and shows a wrong schedule whose verdict changes.

Usage: python tools/check_rules.py [WORD ...]

With words, only rules whose names contain one of the words are disabled. Exits with 1 if no verdict changes for a
rule."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"


def main(words: list[str]) -> int:
    for folder in (".", "check", "roles", "semantics"):
        sys.path.insert(0, str(TESTS / folder))
    from rules import RULES, cases, cases_that_depend_on

    verdicts, missed = cases(), 0
    for name, rule in RULES.items():
        if words and not any(word in name for word in words):
            continue
        changed_case = next(cases_that_depend_on(rule, verdicts), None)
        if changed_case is None:
            missed += 1
            print(f"{name:36} NOT NOTICED")
            continue
        case, text = changed_case
        print(f"{name:36} {case}: {verdicts[case][0]} -> {text}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
