"""Checks that no gradient is lost between the records of a tape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tegula.errors import LaunchError
from tegula.runtime.array import array
from tegula.runtime.element_range import ElementRange
from tegula.runtime.records import AdjointRecord, AssignmentRecord, Record, Use

DETACH = "where a view is only read, `requires_grad = False` declares its elements constant"


def check_flow(records: Sequence[Record], seeded: Sequence[array]) -> None:
    """Raise LaunchError if a gradient would be lost: in an array without a gradient, or in one of two gradients of the
    same memory. `seeded`: the arrays whose gradients the caller passes."""
    _check_views(records)
    _check_memory(records, [Use("backward", "an array with a seed", a) for a in seeded])
    _check_written(records)


def _check_views(records: Iterable[Record]) -> None:
    """Raise LaunchError for a view without a gradient of an array with a gradient, unless the view is detached and only
    read."""
    for record in records:
        for use in (*record.writes, *(u for u in record.reads if not u.array.is_detached)):
            if use.array.hides_grad:
                raise LaunchError(
                    f"{use.origin}: {use.name} is a view without a gradient of an array with a gradient, so the "
                    "gradient would be lost there",
                    f"pass that array, or a view of its dtype; {DETACH}",
                )


def _check_memory(records: Sequence[Record], seeded: Sequence[Use]) -> None:
    """Raise LaunchError if several arrays of the same memory do not share one gradient."""
    reads = [u for r in records for u in r.reads if not u.array.is_detached]
    for group in _groups(_distinct_arrays((*reads, *(w for r in records for w in r.writes), *seeded))):
        with_gradient = [u for u in group if u.has_gradient]
        for use in group:
            for other in with_gradient:
                if other.array is use.array or not use.elements.overlaps(other.elements):
                    continue
                if not use.has_gradient:
                    raise LaunchError(
                        f"{use.origin}: {use.name} has no gradient, but shares memory with {other.name} of "
                        f"{other.origin}, which has one",
                        f"pass a view of that array; {DETACH}",
                    )
                if not _share_gradient(use, other):
                    raise LaunchError(
                        f"{use.origin}: {use.name} shares memory with {other.name} of {other.origin}, but not its "
                        "gradient",
                        "make one array a view of the other, so that both share one gradient",
                    )


def _groups(uses: Iterable[Use]) -> Iterator[list[Use]]:
    """The uses, sorted by address, in groups such that arrays of different groups share no memory."""
    group: list[Use] = []
    end = 0
    for use in sorted(uses, key=lambda u: u.array.low):
        if group and use.array.low >= end:
            yield group
            group = []
        group.append(use)
        end = max(end, use.array.high)
    if group:
        yield group


def _share_gradient(use: Use, other: Use) -> bool:
    own_gradient, other_gradient = use.array.grad, other.array.grad
    return (
        own_gradient is not None
        and other_gradient is not None
        and ElementRange.of(own_gradient).overlaps(ElementRange.of(other_gradient))
    )


def _distinct_arrays(uses: Iterable[Use]) -> list[Use]:
    """One use for each array."""
    return list({id(use.array): use for use in uses}.values())


def _check_written(records: Iterable[Record]) -> None:
    """Raise LaunchError if a gradient would flow through an array without a gradient whose data depend on an array with
    a gradient. The check follows the dependence through copies and launches without gradients."""
    undifferentiated: list[Use] = []
    for record in records:
        reads = [u for u in record.reads if u.is_float and not u.array.is_detached]
        conflict = next(
            ((u, w) for u in reads for w in undifferentiated if u.elements.overlaps(w.elements)), None
        )
        reads_gradient = any(u.has_gradient for u in reads)
        if (
            reads_gradient
            and isinstance(record, AdjointRecord)
            and any(w.has_gradient for w in record.writes)
        ):
            raise LaunchError(
                f"{record.writes[0].origin} was written to an array with a gradient: there are no "
                "gradients of gradients",
                "leave out requires_grad of that array",
            )
        if conflict is not None and any(w.has_gradient for w in record.writes):
            use, source = conflict
            raise LaunchError(
                f"{use.origin}: {use.name} was written by {source.origin} as {_argument_name(source)}, an array "
                "without a gradient, so the gradient would be lost",
                "create the array with requires_grad=True, or launch the first kernel with record_tape=False",
            )
        if isinstance(record, AssignmentRecord):
            assigned = ElementRange.of(record.target)
            undifferentiated = [w for w in undifferentiated if not assigned.covers(w.elements)]
        if conflict is not None or reads_gradient:
            written_without_gradient = (w for w in record.writes if w.is_float and not w.has_gradient)
            undifferentiated += [w for w in written_without_gradient if not w.array.is_detached]


def _argument_name(use: Use) -> str:
    return use.name.removeprefix("argument ")
