"""Execution orders of engines: adversarial orders, which are likely to expose a faulty schedule, and random orders."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from tegula.dataclass import dataclass

EARLY, LATE, RANDOM = "early", "late", "random"
"""The time at which copies complete, matmuls read and stores read: immediately, when no warp can proceed, or at
random."""


@dataclass(frozen=True, slots=True)
class Order:
    """An execution order of engines. `ranks`: the warps by priority; empty for any. `copies`, `matmuls`, `stores`:
    EARLY, LATE or RANDOM; `newest`: whether the youngest copy completes first. `reads`: whether loads of threads take
    their values as late as possible; `turn`: the number of consecutive acts of a warp."""

    name: str
    ranks: tuple[int, ...] = ()
    copies: str = LATE
    matmuls: str = LATE
    stores: str = LATE
    newest: bool = False
    reads: bool = True
    turn: int = 1_000_000
    seed: int = 0


def orders(roles: Sequence[int], count: int, seed: int = 0) -> Iterator[Order]:
    """The first `count` orders: adversarial orders, then random orders. `roles`: the role of each warp."""
    adversarial = _adversarial(roles)
    rng = random.Random(seed)
    for k in range(count):
        order = next(adversarial, None)
        yield order if order is not None else _random(rng, len(roles), k)


def _adversarial(roles: Sequence[int]) -> Iterator[Order]:
    warps = list(range(len(roles)))
    names = sorted(set(roles))
    yield Order("in order", tuple(warps))
    yield Order("in order, all at once", tuple(warps), EARLY, EARLY, EARLY, reads=False)
    for role in names:
        others = [w for w in warps if roles[w] != role]
        warps_of_role = [w for w in warps if roles[w] == role]
        yield Order(f"role {role} first", tuple(warps_of_role + others), EARLY)
        yield Order(f"role {role} last", tuple(others + warps_of_role), EARLY, turn=1)
        yield Order(f"role {role} first, slow copies", tuple(warps_of_role + others), LATE, newest=True)
        yield Order(f"role {role} last, slow copies", tuple(others + warps_of_role), LATE, EARLY, newest=True)
        if len(warps_of_role) > 1:
            rest = [w for w in warps if w != warps_of_role[-1]]
            yield Order(f"the last warp of role {role} late", (*rest, warps_of_role[-1]), EARLY)
            yield Order(f"the last warp of role {role} ahead", (warps_of_role[-1], *rest), EARLY)
            rest = [w for w in warps if w != warps_of_role[0]]
            yield Order(f"the first warp of role {role} late", (*rest, warps_of_role[0]), EARLY, turn=1)
    yield Order("in turns", tuple(reversed(warps)), RANDOM, LATE, LATE, turn=1)


def _random(rng: random.Random, warps: int, number: int) -> Order:
    ranks = tuple(rng.sample(range(warps), warps)) if rng.random() < 0.5 else ()
    copies, matmuls, stores = (rng.choice((EARLY, LATE, RANDOM, RANDOM)) for _ in range(3))
    return Order(
        f"random {number}", ranks, copies, matmuls, stores, rng.random() < 0.5, rng.random() < 0.5,
        rng.choice((1, 2, 5, 1_000_000)), rng.randrange(1 << 30),
    )  # fmt: skip
