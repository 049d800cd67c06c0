"""The encoding of labels in certificates, and the chains of lags by which a role knows the progress of another role
(docs/design/042-certificates.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tegula.check.proof.labels import Label
from tegula.check.proof.program import Program
from tegula.check.proof.state import Frame, Role, State, Stuck
from tegula.check.proof.terms import Atom, Sum, encoded, symbols
from tegula.ir import Op
from tegula.ops import events as E

Lags = dict[tuple[int, int, int], int]


class FirstWaits(NamedTuple):
    """How roles begin to wait. `offsets`: by barrier and role, the number of stages if the role waits for the item one
    phase before, else 0; `late`: the keys of lags by which a role may tell of waits for items below 0 too early."""

    offsets: Mapping[tuple[int, int], int]
    late: Mapping[tuple[int, int, int], None]


def record(program: Program, label: Label) -> dict[str, Any]:
    """The encoding of a label in certificates; raises Stuck if the label names a symbol that it does not bind."""
    bound = {a: k for k, a in enumerate(label.symbols)}
    try:
        return {
            "symbols": len(label.symbols),
            "facts": [encoded(c, bound) for c in label.facts.values()],
            "contents": [
                [n, encoded(item, bound), element, encoded(x, bound)]
                for n, item, element, x in label.state.contents
            ],
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

    numbers = {n: k + 1 for k, (n, _, _) in enumerate(role.pending_matmuls)}
    return {
        "frames": [frame_row(program, frame, bound) for frame in role.frames],
        "arrived": [[b, encoded(x, bound)] for b, x in role.arrived.items()],
        "waited": [[b, encoded(x, bound)] for b, x in role.waited.items()],
        "pending_matmuls": [
            [items(in_flight), None if v is None else number_of[v]]
            for _, in_flight, v in role.pending_matmuls
        ],
        "in_flight": [[number_of[v], numbers[n]] for v, n in role.in_flight.items() if n in numbers],
        "uncommitted_reads": items(role.uncommitted_reads),
        "bulk_groups": [items(in_flight) for in_flight in role.bulk_groups],
        "unfenced": sorted([n, k] for n, k in role.unfenced),
        "unsynchronised": sorted([n, k, level] for (n, k), level in role.unsynchronised.items()),
        "issuer_only_reads": sorted([n, k] for n, k in role.issuer_only_reads),
        "warps_unordered": role.warps_unordered,
        "one_warp_ahead": role.one_warp_ahead,
    }


def frame_row(program: Program, frame: Frame, bound: dict[Atom, int]) -> list[Any]:
    """The encoding of a frame: the region, the next op, and the values that are defined in the region."""
    env = [[program.number[v], encoded(x, bound)] for v, x in frame.values.items() if x is not None]
    return [program.region_number[frame.region], frame.at, env]


def chains(program: Program, lags: Lags, first_waits: FirstWaits) -> list[Any]:
    """The chains of lags by which the arrivers of a barrier know the progress of its waiters, as rows [barrier, waiter,
    arriver, links]. Pairs of roles for which no chain is found have no row."""
    out: list[Any] = []
    for b, waiters in enumerate(program.waiters):
        for w in sorted(waiters):
            for r in sorted(program.arrivers[b]):
                links = chain(program, lags, first_waits, b, w, [(b, r)], 0)
                if links is not None:
                    out.append([b, w, r, [list(link) for link in links]])
    return out


def require_chains(program: Program, chains: list[Any], lags: Lags, first_waits: FirstWaits) -> None:
    """Raise Stuck unless chains order each arrival after the waits for the previous phase."""
    known = {(b, w, r) for b, w, r, _ in chains}
    events = (e for events in program.order for _, e in events)
    named = {program.barrier[e.barrier] for e in events if isinstance(e, E.NamedArrival)}
    for b, waiters in enumerate(program.waiters):
        for r in program.arrivers[b] if waiters else ():
            proved = [
                (b, w, r) in known or (lags.get((b, r, -1)) == 0 and not first_waits.offsets.get((b, w)))
                for w in waiters
            ]
            v = program.barriers[b]
            if not (any(proved) if b in named else all(proved)):
                assert isinstance(v.owner, Op)
                raise Stuck(f"{v.name} may be two phases ahead of a role that waits for it", v.owner)


def used(program: Program, chains: list[Any], lags: Lags) -> Iterator[tuple[int, int, int]]:
    """The keys of the lags that chains and hand-overs use, and, for pairs of roles without a chain, the keys of
    arrivals for the first items only."""
    for v, ring in program.rings.items():
        keys = [key for row in ring.handovers for key in row.lags()]
        if missing := [key for key in keys if key not in lags]:
            assert isinstance(v.owner, Op)
            raise Stuck("a role that hands a ring on may arrive before its wait", v.owner, missing[0][1])
        yield from keys
    triples = {(b, w, r) for b, w, r, _ in chains}
    for b, _, _, links in chains:
        for k, (at, r) in enumerate(links):
            yield at, r, links[k + 1][0] if k + 1 < len(links) else b
    for b, waiters in enumerate(program.waiters):
        for r in sorted(program.arrivers[b]):
            if (b, r, -1) in lags and any((b, w, r) not in triples for w in waiters):
                yield b, r, -1


def chain(
    program: Program,
    lags: Lags,
    first_waits: FirstWaits,
    b: int,
    w: int,
    links: list[tuple[int, int]],
    total: int,
) -> list[tuple[int, int]] | None:
    """A chain of (barrier, role) that begins with `links`, ends with role `w`, and whose lags sum to at most the
    length of all stages; None if there is none."""
    at, r = links[-1]
    length = program.stages[b] * program.units[b]
    last, begins_early = lags.get((at, r, b)), first_waits.offsets.get((b, w))
    is_late = begins_early and (at, r, b) in first_waits.late
    if r == w and last is not None and total + last <= length and not is_late:
        return links
    for (c, q, waited_barrier), lag in lags.items():
        # Waits that begin before item 0 need items on the way that exist.
        limit = 0 if begins_early else length
        if (c, q) != (at, r) or waited_barrier < 0 or total + lag > limit:
            continue
        for arriver in sorted(program.arrivers[waited_barrier]):
            if (waited_barrier, arriver) not in links:
                longer = chain(
                    program, lags, first_waits, b, w, [*links, (waited_barrier, arriver)], total + lag
                )
                if longer is not None:
                    return longer
    return None


def encoded_on_path(x: Any, state: State) -> Any:
    """The encoding of a number or condition in certificates; Stuck where it has a symbol that the path does not
    bind."""
    bound = {a: k for k, a in enumerate(state.bound)}
    if not symbols(x) <= bound.keys():
        raise Stuck("a symbol of the label has no value")
    return encoded(x, bound)
