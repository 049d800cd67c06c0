"""Correct schedules in the idioms that users write: each passes, also with other numbers of stages."""

from __future__ import annotations

from itertools import product

from equivalent_rewrites import kernel
from idioms import MUTATED, RIGHT

from support.campaigns import rest_slow, sampled

SLOW_IDIOMS = {
    "only 90 groups",
    "the even items end at 90",
    "the item index is computed from tile and iteration",
    "a tile is read in many iterations",
    "items alternate between two pipes",  # similar wrong schedules are checked in fast tests
    "at most 90 full rings",
    "a group begins one row later",
    "the end of the next group",
    "even and odd items are exchanged",
}
"""Idioms that take long, and are similar to faster ones."""

UNPROVED = {
    "items alternate between two pipes",
    "one role does everything",
    "two roles alternate over one ring",
}
"""Correct schedules without a proof."""


@sampled(
    2,
    ("name", "stages"),
    rest_slow(
        product(RIGHT, (2, 1, 4)),
        lambda name, stages: stages == 2 and name not in SLOW_IDIOMS,
        lambda _, stages: stages != 4,  # campaigns test 4 stages
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
