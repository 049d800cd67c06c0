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
from proofs import copies, element_at, paths_of, pipe, rejected
from schedules import double, drop, lowered

from support.campaigns import sampled
from tegula.check.schedule import certified
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
    }


@cache
def certified_kernel(name: str) -> tuple[Any, Any, str]:
    """A lowered correct kernel with its certificate."""
    parts = lowered(kernels()[name])
    return *parts, certified(*parts)[0]


def edits(rng: Random, x: Any, count: int) -> Iterator[Any]:
    """Copies of a certificate with a few of its parts replaced, dropped, repeated, swapped, widened, or moved."""
    candidates = list(paths_of(x))
    for _ in range(count):
        new = copy.deepcopy(x)
        for _ in range(rng.choice((1, 1, 2, 3))):
            path = rng.choice(candidates)
            try:
                inside, k = element_at(new, path[:-1]), path[-1]
                was = inside[k]
                if isinstance(was, bool | int):
                    numbers = [was + 0.5, float(was), -was, was + 1, was - 1, 10**9, None, [was], not was]
                    inside[k] = rng.choice(numbers)
                elif isinstance(inside, list) and rng.random() < 0.8:
                    other_key = rng.randrange(len(inside))
                    kind = rng.choice(("drop", "repeat", "swap"))
                    if kind == "drop":
                        inside.pop(k)
                    elif kind == "repeat":
                        inside.insert(k, copy.deepcopy(inside[k]))
                    else:
                        inside[:] = swapped(inside, k, other_key)
                elif isinstance(was, list):
                    inside[k] = rng.choice(
                        ([], was[::-1], was + was, copy.deepcopy(element_at(new, rng.choice(candidates))))
                    )
            except (LookupError, TypeError):  # an earlier edit has removed this path
                continue
        yield new


def swapped(x: list[Any], k: int, j: int) -> list[Any]:
    out = list(x)
    out[k], out[j] = out[j], out[k]
    return out


TWINS = {
    "no wait for room": ("copies", drop("mbarrier.wait", "pipe.empty")),
    "no wait for data": ("copies", drop("mbarrier.wait", "pipe.full")),
    "no release": ("copies", drop("mbarrier.arrive", "pipe.empty")),
    "two releases": ("copies", double("mbarrier.arrive", "pipe.empty")),
    "no fence": ("copies", drop("fence.async")),
    "two copies": ("copies", double("bulk.load")),
    "no arrival by name": ("turns", drop("named.arrive", "ready")),
    "no arrival by name of the reader": ("turns", drop("named.arrive", "free")),
    "no wait by name": ("turns", drop("named.sync", "free")),
}


@sampled(4, "name", TWINS)
def test_no_forged_certificate_of_a_wrong_kernel_is_accepted(name: str) -> None:
    accepted, count = forged(name, 40)
    assert accepted == [] and count == 40


@pytest.mark.slow
@pytest.mark.parametrize("name", TWINS)
def test_no_forged_certificate_of_many_wrong_kernels_is_accepted(name: str) -> None:
    assert forged(name, 300) == ([], 300)


def forged(name: str, count: int) -> tuple[list[Any], int]:
    """The edited certificates of a correct kernel that the verifier accepts for a wrong kernel, and the number of
    edits."""
    original, mutate = TWINS[name]
    text = certified_kernel(original)[2]
    kernel, parts = lowered(kernels()[original])
    mutate(kernel, parts)
    certificate = {**json.loads(text), "kernel": fingerprint(kernel)}
    assert rejected(kernel, parts, certificate)
    certificates = list(edits(Random(name), certificate, count))
    return [x for x in certificates if not rejected(kernel, parts, x)], len(certificates)


def test_certificates_with_fractions_are_rejected() -> None:
    """With half a stage of delay for each of two hand-overs, two engines would be in order in neither."""
    kernel, parts, text = certified_kernel("copies")
    certificate = json.loads(text)
    assert not rejected(kernel, parts, certificate)
    ((_, rows, _),) = certificate["rings"]
    assert sorted(row[6] for row in rows) == [0, 1]
    for row in rows:
        row[6] = 0.5
    assert rejected(kernel, parts, certificate)


@pytest.mark.parametrize("offset", [-1, 1, 2])
def test_certificates_whose_named_waits_skip_the_first_item_are_rejected(offset: int) -> None:
    """The offset of a named wait alone states from which item on a role waits at a barrier in registers."""
    kernel, parts, text = certified_kernel("turns")
    certificate = json.loads(text)
    for b, r in ((b, r) for b in range(2) for r in range(2)):
        assert rejected(kernel, parts, {**certificate, "offsets": [[b, r, offset]]})


def test_certificates_with_contradictory_guards_are_rejected() -> None:
    """Guards that no launch satisfies prove nothing."""
    kernel, parts, text = certified_kernel("bounds")
    certificate = json.loads(text)
    kinds = [kind for kind, _ in certificate["guards"]]
    assert kinds and not rejected(kernel, parts, certificate)
    contradictory = {**certificate, "start": [["absurd"]], "labels": []}
    assert rejected(kernel, parts, contradictory)
    for kind in ("factor", "fits", "assert", "holds"):
        for v in range(0, 80, 4):
            assert rejected(kernel, parts, {**contradictory, "guards": [*certificate["guards"], [kind, v]]})
