"""Gradients that a backward run does not clear: gradients of arrays with `retain_grad` that kernels wrote."""

from __future__ import annotations

from tegula.runtime.array import array
from tegula.runtime.make_arrays import clone
from tegula.runtime.records import ElementRange, Record, existing_gradient


class RetainedGradients:
    """Snapshots of the gradients of arrays with `retain_grad`, taken before the adjoint of the last write clears
    them."""

    def __init__(self) -> None:
        self.gradients: dict[ElementRange, tuple[array, array]] = {}

    def save(self, record: Record) -> None:
        """Copies the gradients of the arrays that a record wrote, before its adjoint clears them."""
        for use in record.writes:
            grad = existing_gradient(use.array) if use.array.retain_grad and use.has_gradient else None
            if grad is not None and ElementRange.of(grad) not in self.gradients:
                self.gradients[ElementRange.of(grad)] = grad, clone(grad)

    def restore(self) -> None:
        """Sets the gradients to the copies."""
        for grad, copy in self.gradients.values():
            grad.assign(copy)
