"""The launches that an adjoint consists of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tegula.dataclass import dataclass
from tegula.ir import Kernel, Op, Value
from tegula.ops.array import ArrayShape
from tegula.ops.base import Elementwise
from tegula.ops.convert import Cast
from tegula.ops.scalar import Const, Select
from tegula.types import DType, to_numpy

Extent = int | Value
"""A number that the host knows before a launch: the length of a dimension of the forward launch, by its number, or a
value of the adjoint kernel that follows from the arguments alone."""


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of an adjoint. `grid`: its blocks, in each dimension; None: the grid of the forward launch. `counts`:
    int32 arguments that follow those of the adjoint kernel. `known`: the parameters of the adjoint kernel, which the
    extents are values of."""

    kernel: Kernel
    known: tuple[Value, ...]
    grid: tuple[Extent, ...] | None = None
    counts: tuple[Extent, ...] = ()


PURE = (Const, ArrayShape, Elementwise, Cast, Select)


def known_to_host(value: Value) -> bool:
    """Whether a number follows from the arguments of the kernel alone."""
    if not isinstance(value.owner, Op):
        region = value.owner
        return region is not None and region.parent is None and isinstance(value.type, DType)
    if isinstance(value.owner, ArrayShape):
        return not isinstance(value.owner.operands[0].owner, Op)
    return (
        isinstance(value.owner, PURE)
        and isinstance(value.type, DType)
        and all(map(known_to_host, value.owner.operands))
    )


def evaluate(extent: Extent, dims: Sequence[int], arguments: Mapping[Value, Any]) -> int:
    """The number that an extent is. `dims`: of the forward launch; `arguments`: by parameter of the adjoint kernel,
    numbers and arrays."""
    if isinstance(extent, int):
        return dims[extent]
    return int(_value(extent, arguments)[0])


def _value(value: Value, arguments: Mapping[Value, Any]) -> np.ndarray:
    op = value.owner
    assert isinstance(value.type, DType)
    kind = to_numpy(value.type)
    if not isinstance(op, Op):
        return np.array([arguments[value]], kind)
    if isinstance(op, Const):
        return np.array([op.attrs["value"]], kind)
    if isinstance(op, ArrayShape):
        return np.array([arguments[op.operands[0]].shape[op.attrs["dim"]]], kind)
    assert isinstance(op, Elementwise | Cast | Select)
    return op.ref(op.attrs, *(_value(v, arguments) for v in op.operands))
