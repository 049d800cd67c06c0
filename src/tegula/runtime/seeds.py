"""The seeds of a backward run, and the gradients of arrays before the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tegula.errors import LaunchError
from tegula.runtime.addition import add
from tegula.runtime.array import array
from tegula.runtime.element_range import ElementRange
from tegula.runtime.make_arrays import clone
from tegula.runtime.records import Record, Use, clear, existing_gradient
from tegula.structs import StructType
from tegula.types import float32, scalar_of, with_scalar


class Seeds:
    """The initial gradients of a backward run. `gradients`: seeds by array, None for ones; without `gradients`, the
    current gradients of the recorded arrays are the seeds."""

    def __init__(self, gradients: Mapping[array, Any] | None) -> None:
        self.gradients = (
            None
            if gradients is None
            else [(target, _seed(target, seed)) for target, seed in _seeds_by_leaf(gradients)]
        )

    @property
    def targets(self) -> list[array]:
        """The arrays with seeds."""
        return [target for target, _ in self.gradients or ()]

    def apply(self, records: Sequence[Record]) -> SavedGradients:
        """Set gradients to their initial values. Seeds of overlapping arrays are summed. Gradients of other written
        arrays are results of earlier tapes, not seeds."""
        uses = [w for r in records for w in r.writes if w.has_gradient]
        if self.gradients is None:
            gradients = [(w.array, g) for w in uses if (g := existing_gradient(w.array)) is not None]
            return SavedGradients([], _retained_gradients(gradients, records))
        targets = [(target, _gradient(target)) for target, _ in self.gradients]
        ranges = [ElementRange.of(grad) for _, grad in targets]
        written = _other_gradients(uses, ranges)
        are_disjoint = not any(a.overlaps(b) for k, a in enumerate(ranges) for b in ranges[:k])
        if not are_disjoint or any(a.overlaps(ElementRange.of(g)) for a in ranges for g in written):
            for _, grad in targets:
                clear(grad)
        saved: list[tuple[array, array]] = []
        for grad in written:
            saved.append((grad, clone(grad)))
            clear(grad)
        for (_, grad), (_, seed) in zip(targets, self.gradients, strict=True):
            if are_disjoint:
                grad.assign(seed)
            else:
                add(grad, seed)
        return SavedGradients(saved, _retained_gradients(targets, records))


class SavedGradients:
    """The gradients before a backward run. `gradients`: gradients with their old values, which `restore` adds;
    `retained`: gradients that are seeds, with their values, which `restore` assigns."""

    def __init__(
        self, saved: Sequence[tuple[array, array]], saved_values: Sequence[tuple[array, array]]
    ) -> None:
        self.gradients, self.retained = saved, saved_values

    def restore(self) -> None:
        """Add the old values of gradients, and restore the values of seeds."""
        for grad, old_value in self.gradients:
            add(grad, old_value)
        for grad, value in self.retained:
            grad.assign(value)


def _retained_gradients(
    targets: Iterable[tuple[array, array]], records: Sequence[Record]
) -> list[tuple[array, array]]:
    """The gradients of arrays that no record reads, with copies. The gradient of an array that a record reads becomes
    the derivative by the array's value before the tape."""
    reads = [u.elements for r in records for u in r.reads if u.has_gradient]
    unread = {
        ElementRange.of(grad): grad
        for target, grad in targets
        if not any(ElementRange.of(target).overlaps(read) for read in reads)
    }
    return [(grad, clone(grad)) for grad in unread.values()]


def _other_gradients(uses: Iterable[Use], ranges: Sequence[ElementRange]) -> list[array]:
    """The distinct gradients of written arrays that have memory, except the gradients at the given addresses."""
    arrays: dict[ElementRange, array] = {}
    for use in uses:
        grad = existing_gradient(use.array)
        if grad is not None and ElementRange.of(grad) not in ranges:
            arrays.setdefault(ElementRange.of(grad), grad)
    return list(arrays.values())


def _gradient(target: array) -> array:
    grad = target.grad
    assert grad is not None
    return grad


def _seeds_by_leaf(gradients: Mapping[array, Any]) -> Iterator[tuple[array, Any]]:
    """Seeds by array; seeds of arrays of structs by leaf."""
    for target, seed in gradients.items():
        if not isinstance(target.dtype, StructType):
            yield target, seed
            continue
        if seed is not None and not isinstance(seed, array):
            seed = array(seed, target.dtype, device=target.device)
        if seed is not None and target.grad is None:
            target.grad = seed
        seeds = seed.leaves if seed is not None else (None,) * len(target.leaves)
        yield from ((t, s) for t, s in zip(target.leaves, seeds, strict=True) if scalar_of(t.dtype).is_float)


def _seed(target: array, seed: Any) -> array:
    """A copy of the seed of an array. If the array has no gradient, the seed becomes its gradient."""
    if not scalar_of(target.dtype).is_float:
        help = "pass gradients of the arrays of floats that the launches write"
        raise LaunchError(
            f"an array of {target.dtype} has no gradient: only arrays of floats have gradients", help
        )
    grad = target.grad
    if seed is None and grad is None:
        raise LaunchError("the array has no gradient", "create the array with requires_grad=True")
    if grad is None:
        dtype = with_scalar(target.dtype, float32) if scalar_of(target.dtype).bits == 8 else target.dtype
        fits = isinstance(seed, array) and seed.dtype == dtype and seed.shape == target.shape
        if isinstance(seed, array) and fits and seed.device == target.device:
            grad = seed
        else:
            grad = array(shape=target.shape, dtype=dtype, device=target.device).assign(seed)
        target.grad = grad
        return clone(grad, requires_grad=False)
    seed_array = array(shape=target.shape, dtype=grad.dtype, device=target.device)
    return seed_array.fill_(1) if seed is None else seed_array.assign(seed)
