"""Corrupted certificates, and certificates of another kernel, are rejected."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from equivalent_rewrites import kernel as rewritten
from proofs import CIRCLE, CertificatePath, copies, element_at, paths_of, rejected
from schedules import chain, double, drop, gemm, lowered, lowered_late, two_producers

from tegula.check.proof import prove
from tegula.check.scheduled import fingerprint


def certified(kernel: Any) -> tuple[Any, Any, Any]:
    lowered_kernel, compilation = lowered(kernel)
    return lowered_kernel, compilation, json.loads(json.dumps(prove(lowered_kernel, compilation)))


def replacements(x: Any) -> list[Any]:
    """Replacements of a part of a certificate."""
    if isinstance(x, bool):
        return [not x]
    if isinstance(x, int):
        return [x + 1, x - 1]
    if isinstance(x, str):
        return ["end", "absurd", "go"]
    return [x[:-1], x[1:], []] if isinstance(x, list) and x else []


def corruptions(certificate: Any) -> Iterator[tuple[CertificatePath, Any]]:
    """Copies of a certificate with one number, name or list replaced."""
    for path in paths_of(certificate):
        value = element_at(certificate, path)
        for replacement in replacements(value):
            if replacement != value:
                copied = copy.deepcopy(certificate)
                element_at(copied, path[:-1])[path[-1]] = replacement
                yield path, copied


def is_weakening(path: CertificatePath) -> bool:
    """Whether a change at a path of a certificate only weakens a label, which stays provable: fewer facts, a longer lag
    that is still short enough, a larger bound on accesses, another of two roles with equal decisions, or a wait that
    begins with item 0."""
    field = next((k for k in reversed(path) if isinstance(k, str)), "")
    splits = path[-1] == 1 and field in ("tree", "start")
    return (
        field in ("facts", "warps_unordered", "one_warp_ahead", "offsets")
        or splits
        or (field == "lags" and path[-1] == 3)
    )


def test_certificates_with_a_corrupted_field_are_rejected() -> None:
    kernel, compilation, certificate = certified(copies)
    corrupted = list(corruptions(certificate))
    assert len(corrupted) > 500
    accepted = [
        path
        for path, certificate_variant in corrupted
        if not rejected(kernel, compilation, certificate_variant)
    ]
    assert [path for path in accepted if not is_weakening(path)] == []
    assert len(accepted) < len(corrupted) // 20


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [two_producers(), chain(), rewritten(CIRCLE, None, 2)])
def test_larger_certificates_with_a_corrupted_field_are_rejected(kernel: Any) -> None:
    result, compilation, certificate = certified(kernel)
    accepted = [
        path for path, corrupted in corruptions(certificate) if not rejected(result, compilation, corrupted)
    ]
    assert [path for path in accepted if not is_weakening(path)] == []


WRONG_KERNELS = {
    "a wait for a free stage is omitted": (copies, drop("mbarrier.wait", "pipe.empty")),
    "a wait for a full stage is omitted": (copies, drop("mbarrier.wait", "pipe.full")),
    "a release is omitted": (copies, drop("mbarrier.arrive", "pipe.empty")),
    "a release is repeated": (copies, double("mbarrier.arrive", "pipe.empty")),
    "a fence is omitted": (copies, drop("fence.async")),
    "a copy is omitted": (copies, drop("bulk.load")),
    "a copy is repeated": (copies, double("bulk.load")),
    "bytes are announced twice": (copies, double("mbarrier.expect")),
}


@pytest.mark.parametrize("name", WRONG_KERNELS)
def test_the_certificate_of_another_kernel_is_rejected(name: str) -> None:
    """The certificate is refused even if it claims to be of this kernel."""
    kernel, mutate = WRONG_KERNELS[name]
    result, compilation, certificate = certified(kernel)
    mutate(result, compilation)
    assert rejected(result, compilation, certificate)
    certificate["kernel"] = fingerprint(result)
    assert rejected(result, compilation, certificate)


def test_certificates_of_kernels_with_deferred_matmul_waits_are_accepted() -> None:
    """The wait for matmuls is one iteration late; the next iteration does not use their registers."""
    kernel, compilation = lowered_late(gemm())
    assert not rejected(kernel, compilation, json.loads(json.dumps(prove(kernel, compilation))))


def test_a_certificate_with_an_overflowing_quotient_is_rejected() -> None:
    """A certificate may name any function of integers; a quotient that overflows its type is not a contradiction."""
    kernel, compilation, certificate = certified(copies)
    blocks = ["app", ["block.count", "", 0, "int32"], []]
    quotient = ["app", ["floordiv", "", 0, "int8"], [["*", blocks, 1000], blocks]]
    certificate["start"] = [["split", ["ge", ["+", quotient, -500]], [["absurd"]], [["absurd"]]]]
    certificate["labels"] = []
    assert rejected(kernel, compilation, certificate)
