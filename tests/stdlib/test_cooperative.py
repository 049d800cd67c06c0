"""Tests derived from the declarations of the library's cooperative functions: results near the reference in blocks of
any size and in a role, gradients by differences, refusals that name both shapes."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.campaigns import sampled
from tegula import testing
from tegula.declaration import Refused, Sample
from tegula.runtime.library import library
from tegula.stdlib.tiles import DECLARED

ROOT = Path(__file__).parent.parent.parent
SAMPLES = [
    pytest.param(name, sample, id=f"{name}-{k}")
    for name in sorted(library())
    if name in DECLARED and name[0] != "_"
    for k, sample in enumerate(testing.samples(name))
]
ACCEPTED = [p for p in SAMPLES if not isinstance(p.values[1], Refused)]


def sample_size(sample: Any) -> int:
    return max((x.size for x in sample.arguments if isinstance(x, np.ndarray)), default=0)


SMALL_SAMPLES = [p for p in ACCEPTED if 1 < sample_size(p.values[1]) <= 40]
DEFAULT_COUNT = 2
"""How many samples of a function the default run takes."""
DEFAULT_SAMPLES = [
    p
    for p in SMALL_SAMPLES
    if [q for q in SMALL_SAMPLES if q.values[0] == p.values[0]].index(p) < DEFAULT_COUNT
]


def test_every_function_has_a_reference_and_samples_of_both_kinds() -> None:
    public = {name: declaration for name, declaration in DECLARED.items() if name[0] != "_"}
    assert public
    for name, declaration in public.items():
        kinds = {isinstance(sample, Refused) for sample in testing.samples(name)}
        assert declaration.numpy is not None and kinds == {False, True}, name


@pytest.mark.parametrize(("name", "sample"), [p for p in SAMPLES if p not in ACCEPTED])
def test_refused_samples_of_cooperative_functions_are_refused(name: str, sample: Refused) -> None:
    testing.check_refused(name, sample)


@pytest.mark.machine_code
@sampled(3, ("name", "sample"), DEFAULT_SAMPLES)
def test_cooperative_functions_match_their_reference(name: str, sample: Sample) -> None:
    testing.check_sample(name, sample, 33)


@pytest.mark.slow(every=18)
@pytest.mark.machine_code
@pytest.mark.parametrize("block_dim", (1, 33, 256, 64, 100))
@pytest.mark.parametrize(("name", "sample"), ACCEPTED)
def test_cooperative_functions_match_in_blocks_of_any_size(name: str, sample: Sample, block_dim: int) -> None:
    testing.check_sample(name, sample, block_dim)


@pytest.mark.slow(every=12)
@pytest.mark.machine_code
@pytest.mark.parametrize(("name", "sample"), ACCEPTED)
def test_cooperative_functions_match_in_a_role(name: str, sample: Sample) -> None:
    testing.check_sample(name, sample, 128, in_role=True)


@pytest.mark.slow
@pytest.mark.machine_code
@pytest.mark.parametrize(("name", "sample"), [p for p in ACCEPTED if p.values[1].differentiable])
def test_gradients_of_cooperative_functions_agree_with_differences(name: str, sample: Sample) -> None:
    testing.check_gradient(name, sample)


def test_the_page_of_cooperative_functions_follows_the_declarations() -> None:
    """The page is up to date; `python tools/cooperative_page.py` writes it."""
    tool = runpy.run_path(str(ROOT / "tools" / "cooperative_page.py"))
    assert tool["PAGE"].read_text(encoding="utf-8") == tool["page"]()
