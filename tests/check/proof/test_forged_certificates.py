"""Forged certificates: edits of the structure of certificates of correct kernels, which are also presented for wrong
kernels. No certificate of a wrong kernel is accepted."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest
from equivalent_rewrites import kernel
from proofs import AHEAD, CIRCLE, ROTATED, copies, element_at, paths_of, pipe, rejected
from schedules import double, drop, lowered

from support.campaigns import sampled
from tegula.check.judge import certified
from tegula.check.scheduled import fingerprint

NAMED = """def kernel(x: tg.array2d[float], out: tg.array2d[float], n: int):
    tile = tg.tile_empty(shape=(1, 32), dtype=float, storage="shared")
    ready, free = tg.named_barrier(warps=8), tg.named_barrier(warps=8)
    with tg.ws(0):
        for k in range(n):
            {first}
            tile[:, :] = tg.tile_load(x, shape=(1, 32), offset=(k, 0)) * 3.0
            tg.named_barrier_arrive(ready)
        {last}
    with tg.ws(1):
        {begin}
        for k in range(n):
            tg.named_barrier_sync(ready)
            tg.tile_store(out, tile, offset=(k, 0))
            tg.named_barrier_arrive(free)
"""
FREE = "tg.named_barrier_sync(free)"
TURNS = NAMED.format(first=FREE, last=FREE, begin="tg.named_barrier_arrive(free)")


@cache
def kernels() -> dict[str, Any]:
    return {
        "copies": copies,
        "bounds": pipe("range(n * m)", "range(m * n + 1, 1, -1)"),
        "turns": kernel(TURNS),
        "circle": kernel(CIRCLE, None, 2),
        "rotated": kernel(ROTATED, None, 2),
        "ahead": kernel(AHEAD, None, 2),
    }


@cache
def certified_kernel(name: str) -> tuple[Any, Any, str]:
    """A lowered correct kernel with its certificate."""
    compilation = lowered(kernels()[name])
    return *compilation, certified(*compilation)[0]


def edits(rng: Random, certificate: Any, count: int) -> Iterator[Any]:
    """Copies of a certificate with up to three entries replaced, dropped, repeated, swapped, widened or moved."""
    candidates = list(paths_of(certificate))
    for _ in range(count):
        edited = copy.deepcopy(certificate)
        for _ in range(rng.choice((1, 1, 2, 3))):
            path = rng.choice(candidates)
            try:
                container, k = element_at(edited, path[:-1]), path[-1]
                value = container[k]
                if isinstance(value, bool | int):
                    numbers = [
                        value + 0.5,
                        float(value),
                        -value,
                        value + 1,
                        value - 1,
                        10**9,
                        None,
                        [value],
                        not value,
                    ]
                    container[k] = rng.choice(numbers)
                elif isinstance(container, list) and rng.random() < 0.8:
                    other_key = rng.randrange(len(container))
                    kind = rng.choice(("drop", "repeat", "swap"))
                    if kind == "drop":
                        container.pop(k)
                    elif kind == "repeat":
                        container.insert(k, copy.deepcopy(container[k]))
                    else:
                        container[:] = swapped(container, k, other_key)
                elif isinstance(value, list):
                    container[k] = rng.choice(
                        (
                            [],
                            value[::-1],
                            value + value,
                            copy.deepcopy(element_at(edited, rng.choice(candidates))),
                        )
                    )
            except (LookupError, TypeError):  # an earlier edit has removed this path
                continue
        yield edited


def swapped(x: list[Any], k: int, j: int) -> list[Any]:
    out = list(x)
    out[k], out[j] = out[j], out[k]
    return out


WRONG_KERNELS = {
    "no wait for a free stage": ("copies", drop("mbarrier.wait", "pipe.empty")),
    "no wait for a full stage": ("copies", drop("mbarrier.wait", "pipe.full")),
    "no release": ("copies", drop("mbarrier.arrive", "pipe.empty")),
    "two releases": ("copies", double("mbarrier.arrive", "pipe.empty")),
    "no fence": ("copies", drop("fence.async")),
    "two copies": ("copies", double("bulk.load")),
    "no named arrival": ("turns", drop("named.arrive", "ready")),
    "no named arrival of the reader": ("turns", drop("named.arrive", "free")),
    "no named wait": ("turns", drop("named.sync", "free")),
    "no wait before a change": ("circle", drop("mbarrier.wait", "full")),
    "no wait for a change": ("circle", drop("mbarrier.wait", "changed")),
    "a change is not handed on": ("circle", drop("mbarrier.arrive", "changed")),
    "a change is not fenced": ("circle", drop("fence.async")),
    "no wait for a free stage, the first of which is named": ("rotated", drop("mbarrier.wait", "empty")),
    "no wait for a full stage, the first of which is named": ("rotated", drop("mbarrier.wait", "full")),
    "no wait for a free stage after the first ones": ("ahead", drop("mbarrier.wait", "empty")),
}


@sampled(4, "name", WRONG_KERNELS)
def test_no_forged_certificate_of_a_wrong_kernel_is_accepted(name: str) -> None:
    accepted, count = forged(name, 40)
    assert accepted == [] and count == 40


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG_KERNELS)
def test_no_forged_certificate_of_many_wrong_kernels_is_accepted(name: str) -> None:
    assert forged(name, 300) == ([], 300)


def forged(name: str, count: int) -> tuple[list[Any], int]:
    """The edited certificates of a correct kernel that the verifier accepts for a wrong kernel, and the number of
    edits."""
    original, mutate = WRONG_KERNELS[name]
    text = certified_kernel(original)[2]
    kernel, compilation = lowered(kernels()[original])
    mutate(kernel, compilation)
    certificate = {**json.loads(text), "kernel": fingerprint(kernel)}
    assert rejected(kernel, compilation, certificate)
    certificates = list(edits(Random(name), certificate, count))
    return [x for x in certificates if not rejected(kernel, compilation, x)], len(certificates)


def test_certificates_with_fractions_are_rejected() -> None:
    """With a delay of half a stage for each of two hand-overs, neither hand-over would order the two engines."""
    kernel, compilation, text = certified_kernel("copies")
    certificate = json.loads(text)
    assert not rejected(kernel, compilation, certificate)
    ((_, rows, _),) = certificate["rings"]
    assert sorted(row[6] for row in rows) == [0, 1]
    for row in rows:
        row[6] = 0.5
    assert rejected(kernel, compilation, certificate)


@pytest.mark.parametrize("offset", [-1, 1, 2])
def test_certificates_whose_named_waits_skip_the_first_item_are_rejected(offset: int) -> None:
    """Only the offset of a named wait states the first item for which a role waits at a named barrier."""
    kernel, compilation, text = certified_kernel("turns")
    certificate = json.loads(text)
    for b, r in ((b, r) for b in range(2) for r in range(2)):
        assert rejected(kernel, compilation, {**certificate, "offsets": [[b, r, offset]]})


def test_certificates_with_contradictory_guards_are_rejected() -> None:
    """Guards that no launch satisfies prove nothing."""
    kernel, compilation, text = certified_kernel("bounds")
    certificate = json.loads(text)
    kinds = [kind for kind, _ in certificate["guards"]]
    assert kinds and not rejected(kernel, compilation, certificate)
    contradictory = {**certificate, "start": [["absurd"]], "labels": []}
    assert rejected(kernel, compilation, contradictory)
    for kind in ("factor", "fits", "assert", "holds"):
        for v in range(0, 80, 4):
            assert rejected(
                kernel, compilation, {**contradictory, "guards": [*certificate["guards"], [kind, v]]}
            )
