"""Correct schedules in the idioms that users write: each passes, also with other numbers of stages."""

from __future__ import annotations

from itertools import product

from equivalent_rewrites import kernel
from idioms import MUTATED, RIGHT

from support.campaigns import rest_slow, sampled

SLOW_IDIOMS = {
    "only 90 groups",
    "turns end far away",
    "the item is computed from tile and step",
    "a tile that stays for many steps",
    "items go to two pipes in turn",  # similar wrong schedules are checked in fast tests
    "fewer whole rings far away",
    "a group begins one row later",
    "groups of another array",
    "the turns change",
}
"""An idiom of each group of similar idioms."""

UNPROVED = {
    "items go to two pipes in turn",
    "the item is computed from tile and step",
    "both roles leave the loop",
    "one role does everything",
    "a tile that stays for many steps",
    "two roles take turns over one ring",
}
"""Correct schedules without a proof."""


@sampled(
    2,
    ("name", "stages"),
    rest_slow(
        product(RIGHT, (2, 1, 4)),
        lambda name, stages: stages == 2 and name not in SLOW_IDIOMS,
        lambda _, stages: stages != 4,  # as 2 are
    ),
)
def test_idioms_of_users_pass_with_any_stage_count(name: str, stages: int) -> None:
    if stages == 1 and any(word in name for word in ("ahead", "late")):
        stages = 3  # roles hold one stage while they use another
    verdict = kernel(RIGHT[name], None, stages).check()
    expected = "unproved" if name in UNPROVED else "proved"
    assert verdict.status == expected, f"{verdict.kind}: {verdict.message}{verdict.launch_text}"


@sampled(2, "name", rest_slow(((name,) for name in MUTATED), lambda name: name not in SLOW_IDIOMS), slow=3)
def test_faulty_variants_of_idioms_do_not_pass(name: str) -> None:
    idiom, old, new = MUTATED[name]
    assert old in RIGHT[idiom]
    verdict = kernel(RIGHT[idiom].replace(old, new), None, 3).check()
    assert verdict.status == "refuted", verdict.message
