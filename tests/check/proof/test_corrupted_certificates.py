"""Corrupted certificates, and certificates of another kernel, are rejected."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from proofs import Place, copies, element_at, paths_of, rejected
from schedules import chain, double, drop, gemm, lowered, lowered_late, two_producers

from tegula.check.proof import prove
from tegula.check.scheduled import fingerprint


def certified(kernel: Any) -> tuple[Any, Any, Any]:
    lowered_kernel, parts = lowered(kernel)
    return lowered_kernel, parts, json.loads(json.dumps(prove(lowered_kernel, parts)))


def replacements(x: Any) -> list[Any]:
    """Replacements of a part of a certificate."""
    if isinstance(x, bool):
        return [not x]
    if isinstance(x, int):
        return [x + 1, x - 1]
    if isinstance(x, str):
        return ["end", "absurd", "go"]
    return [x[:-1], x[1:], []] if isinstance(x, list) and x else []


def corruptions(certificate: Any) -> Iterator[tuple[Place, Any]]:
    """Copies of a certificate with one number, name or list replaced."""
    for path in paths_of(certificate):
        was = element_at(certificate, path)
        for new in replacements(was):
            if new != was:
                copied = copy.deepcopy(certificate)
                element_at(copied, path[:-1])[path[-1]] = new
                yield path, copied


def says_no_more(path: Place) -> bool:
    """Whether a change at a path of a certificate only weakens a label, or leaves the label provable: facts; a longer
    lag that is short enough; more accesses than there are; another of two roles with equal decisions; a wait that
    begins with item 0."""
    field = next((k for k in reversed(path) if isinstance(k, str)), "")
    splits = path[-1] == 1 and field in ("tree", "start")
    return field in ("facts", "loose", "ahead", "offsets") or splits or (field == "lags" and path[-1] == 3)


def test_certificates_with_a_corrupted_field_are_rejected() -> None:
    kernel, parts, certificate = certified(copies)
    corrupted = list(corruptions(certificate))
    assert len(corrupted) > 500
    accepted = [
        path for path, certificate_variant in corrupted if not rejected(kernel, parts, certificate_variant)
    ]
    assert [path for path in accepted if not says_no_more(path)] == []
    assert len(accepted) < len(corrupted) // 20


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [two_producers(), chain()])
def test_larger_certificates_with_a_corrupted_field_are_rejected(kernel: Any) -> None:
    result, parts, certificate = certified(kernel)
    accepted = [
        path for path, corrupted in corruptions(certificate) if not rejected(result, parts, corrupted)
    ]
    assert [path for path in accepted if not says_no_more(path)] == []


TWINS = {
    "a wait for room is left out": (copies, drop("mbarrier.wait", "pipe.empty")),
    "a wait for data is left out": (copies, drop("mbarrier.wait", "pipe.full")),
    "a release is left out": (copies, drop("mbarrier.arrive", "pipe.empty")),
    "a release is done twice": (copies, double("mbarrier.arrive", "pipe.empty")),
    "a fence is left out": (copies, drop("fence.async")),
    "a copy is left out": (copies, drop("bulk.load")),
    "a copy is done twice": (copies, double("bulk.load")),
    "bytes are announced twice": (copies, double("mbarrier.expect")),
}


@pytest.mark.parametrize("name", TWINS)
def test_the_certificate_of_another_kernel_is_rejected(name: str) -> None:
    """The certificate is refused even if it claims to be of this kernel."""
    kernel, mutate = TWINS[name]
    result, parts, certificate = certified(kernel)
    mutate(result, parts)
    assert rejected(result, parts, certificate)
    certificate["kernel"] = fingerprint(result)
    assert rejected(result, parts, certificate)


def test_certificates_of_kernels_with_deferred_matmul_waits_are_accepted() -> None:
    """Matmuls are waited for one iteration late, in registers that the next iteration does not use."""
    kernel, parts = lowered_late(gemm())
    assert not rejected(kernel, parts, json.loads(json.dumps(prove(kernel, parts))))


def test_a_certificate_with_an_overflowing_quotient_is_rejected() -> None:
    """Certificates may name any function of numbers; a quotient that is not a number of its type contradicts
    nothing."""
    kernel, parts, certificate = certified(copies)
    blocks = ["app", ["block.count", "", 0, "int32"], []]
    quotient = ["app", ["floordiv", "", 0, "int8"], [["*", blocks, 1000], blocks]]
    certificate["start"] = [["split", ["ge", ["+", quotient, -500]], [["absurd"]], [["absurd"]]]]
    certificate["labels"] = []
    assert rejected(kernel, parts, certificate)
