"""The encoding of labels in certificates, and the chains of lags that show which role's progress is known to which
other (docs/design/042-certificates.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tegula.check.proof.labels import Label
from tegula.check.proof.program import Program
from tegula.check.proof.state import Frame, Role, Stuck
from tegula.check.proof.terms import Atom, Sum, encoded

Lags = dict[tuple[int, int, int], int]


def record(program: Program, label: Label) -> dict[str, Any]:
    """The encoding of a label in certificates; raises Stuck if the label names a symbol that it does not bind."""
    bound = {a: k for k, a in enumerate(label.symbols)}
    try:
        return {
            "symbols": len(label.symbols),
            "facts": [encoded(c, bound) for c in label.facts.values()],
            "contents": [[n, encoded(item, bound), encoded(x, bound)] for n, item, x in label.state.contents],
            "roles": [row(program, role, bound) for role in label.state.roles],
        }
    except KeyError as e:
        raise Stuck("a symbol of the state has no value") from e


def row(program: Program, role: Role, bound: dict[Atom, int]) -> dict[str, Any]:
    """The encoding of a role's state in certificates."""
    number_of = program.number

    def items(in_flight: list[Any]) -> list[Any]:
        if any(x is None for _, x in in_flight):
            raise Stuck("the copies and matmuls in flight are unknown")
        return [[n, "item", encoded(x, bound)] if isinstance(x, Sum) else [n, x] for n, x in in_flight]

    numbers = {n: k + 1 for k, (n, _, _) in enumerate(role.pending_copies)}
    return {
        "frames": [frame_row(program, frame, bound) for frame in role.frames],
        "arrived": [[b, encoded(x, bound)] for b, x in role.arrived.items()],
        "waited": [[b, encoded(x, bound)] for b, x in role.waited.items()],
        "pending_matmuls": [
            [items(in_flight), None if v is None else number_of[v]] for _, in_flight, v in role.pending_copies
        ],
        "in_flight": [[number_of[v], numbers[n]] for v, n in role.in_flight.items() if n in numbers],
        "uncommitted_reads": items(role.uncommitted),
        "bulk_groups": [items(in_flight) for in_flight in role.copies],
        "unfenced": sorted([n, k] for n, k in role.dirty),
        "unsynchronised": sorted([n, k, level] for (n, k), level in role.unsynchronised.items()),
        "issuer_only_reads": sorted([n, k] for n, k in role.unknown),
        "warps_unordered": role.loose,
        "one_warp_ahead": role.ahead,
    }


def frame_row(program: Program, frame: Frame, bound: dict[Atom, int]) -> list[Any]:
    """The encoding of one region that a role is in: the region, the next op, and the values that are defined there."""
    env = [[program.number[v], encoded(x, bound)] for v, x in frame.values.items() if x is not None]
    return [program.region_number[frame.region], frame.at, env]


def chains(program: Program, lags: Lags) -> list[Any]:
    """The chains of lags by which each role that arrives at a barrier knows of the progress of each role that waits
    there, where one is found: [barrier, waiter, arriver, links]."""
    out: list[Any] = []
    for b, waiters in enumerate(program.waiters):
        for w in sorted(waiters):
            for r in sorted(program.arrivers[b]):
                chain_of_waits = chain(program, lags, b, w, [(b, r)], 0)
                if chain_of_waits is not None:
                    out.append([b, w, r, [list(link) for link in chain_of_waits]])
    return out


def used(program: Program, chains: list[Any], lags: Lags) -> Iterator[tuple[int, int, int]]:
    """The keys of the lags that chains use, and those of arrivals for the first items only, for pairs of roles that
    have no chain."""
    triples = {(b, w, r) for b, w, r, _ in chains}
    for b, _, _, links in chains:
        for k, (at, r) in enumerate(links):
            yield at, r, links[k + 1][0] if k + 1 < len(links) else b
    for b, waiters in enumerate(program.waiters):
        for r in sorted(program.arrivers[b]):
            if (b, r, -1) in lags and any((b, w, r) not in triples for w in waiters):
                yield b, r, -1


def chain(
    program: Program, lags: Lags, b: int, w: int, links: list[tuple[int, int]], total: int
) -> list[tuple[int, int]] | None:
    """A chain of (barrier, role) that begins with `links`, ends with role `w`, and whose lags sum to at most the number
    of stages; None if there is none."""
    at, r = links[-1]
    stages = program.stages[b]
    last = lags.get((at, r, b))
    if r == w and last is not None and total + last <= stages:
        return links
    for (c, q, after), lag in lags.items():
        if (c, q) != (at, r) or after < 0 or total + lag > stages:
            continue
        for q2 in sorted(program.arrivers[after]):
            if (after, q2) not in links:
                chain_of_waits = chain(program, lags, b, w, [*links, (after, q2)], total + lag)
                if chain_of_waits is not None:
                    return chain_of_waits
    return None
