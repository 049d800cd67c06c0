"""Comparison of views of a tile object."""

from __future__ import annotations

from typing import Any

from tegula.ir import ConstantLike, Value
from tegula.ops.buffer import BufReshape, BufView, buffer_type


def same_part(a: Value, b: Value) -> bool:
    """Whether two views have the same elements of one object in the same order."""
    first, second = _path(a), _path(b)
    return first is not None and first == second


def parts_disjoint(a: Value, b: Value) -> bool:
    """Whether two views of one object share no element."""
    first, second = _box(a), _box(b)
    if first is None or second is None:
        return False
    return any(x[1] <= y[0] or y[1] <= x[0] for x, y in zip(first, second, strict=True))


def _starts(view: BufView | BufReshape) -> list[int] | None:
    """The starts of a view if they are constants, else None."""
    starts = view.starts if isinstance(view, BufView) else []
    numbers: list[int] = [v.owner.value for v in starts if isinstance(v.owner, ConstantLike)]
    return numbers if len(numbers) == len(starts) else None


def _path(view: Value) -> list[Any] | None:
    """The chain of views from an object to a view of it; None if a start is not constant."""
    path: list[Any] = []
    while isinstance(view.owner, BufView | BufReshape):
        owner, source = view.owner, view.owner.buffer
        starts = _starts(owner)
        if starts is None:
            return None
        if isinstance(owner, BufView) or buffer_type(source.type).shape != buffer_type(view.type).shape:
            path.append((owner.NAME, starts, sorted(owner.attrs.items())))
        view = source
    return path


def _box(view: Value) -> list[tuple[int, int]] | None:
    """The range of a view's elements along each dimension of the object, its end excluded: the whole dimension if the
    start of the view is not constant. None for a view of a view."""
    owner = view.owner
    if not isinstance(owner, BufView | BufReshape):
        return [(0, n) for n in buffer_type(view.type).shape]
    if isinstance(owner, BufReshape) or isinstance(owner.buffer.owner, BufView | BufReshape):
        return None
    extents = buffer_type(owner.buffer.type).shape
    box = [
        (v.owner.value, v.owner.value + 1) if isinstance(v.owner, ConstantLike) else (0, n)
        for v, n in zip(owner.starts, extents, strict=True)
    ]
    dim: int
    for n, dim, step in zip(owner.shape, owner.dims, owner.steps, strict=True):
        if dim >= 0 and isinstance(owner.starts[dim].owner, ConstantLike):
            low, high = box[dim]
            span: int = (n - 1) * step
            box[dim] = (low + min(span, 0), high + max(span, 0))
    return box
