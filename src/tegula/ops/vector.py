"""Building and taking apart vectors and matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tegula.ir import Region
from tegula.ops.base import TileOp, element, require
from tegula.types import DType, Type, components, element_shape, scalar_of

Attrs = Mapping[str, Any]


class VecMake(TileOp):
    """A vector or matrix (attribute `type`) from its components, row-major."""

    __slots__ = ()
    NAME = "vec.make"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        made = attrs["type"]
        require(
            len(operands) == components(made),
            f"{made} takes {components(made)} components, got {len(operands)}",
        )
        for t in operands:
            require(t == scalar_of(made), f"a component of {made} must be {scalar_of(made)}, got {t}")
        return [made]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        shape = operands[0].shape + element_shape(attrs["type"])
        return np.stack(operands, -1).reshape(shape)


class VecSplat(TileOp):
    """A vector or matrix (attribute `type`) with the operand in every component."""

    __slots__ = ()
    NAME = "vec.splat"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        made = attrs["type"]
        require(
            operands[0] == scalar_of(made),
            f"a component of {made} must be {scalar_of(made)}, got {operands[0]}",
        )
        return [made]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        (x,) = operands
        shape = element_shape(attrs["type"])
        return np.broadcast_to(x.reshape(x.shape + (1,) * len(shape)), x.shape + shape).copy()


def _check_indices(composite: Type, indices: Sequence[Type]) -> DType:
    t = element(composite)
    rank = len(element_shape(t))
    require(rank > 0, f"{t} has no components")
    require(len(indices) == rank, f"{t} takes {rank} indices, got {len(indices)}")
    require(all(getattr(i, "is_int", False) for i in indices), "component indices must be integers")
    return scalar_of(t)


class VecExtract(TileOp):
    """Component of a vector (one index) or entry of a matrix (two); an index outside gives the last component."""

    __slots__ = ()
    NAME = "vec.extract"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        return [_check_indices(operands[0], operands[1:])]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        composite, *indices = operands
        at = [
            np.where((i >= 0) & (i < n), i.astype(np.intp), n - 1)
            for i, n in zip(indices, composite.shape[1:], strict=True)
        ]
        return composite[(np.arange(len(composite)), *(i.astype(np.intp) for i in at))]


class VecInsert(TileOp):
    """Operands: composite, value, indices. The composite with one component replaced; an index outside changes none."""

    __slots__ = ()
    NAME = "vec.insert"

    @classmethod
    def infer(cls, operands: Sequence[Type], attrs: Attrs, regions: Sequence[Region]) -> Sequence[Type]:
        scalar = _check_indices(operands[0], operands[2:])
        require(operands[1] == scalar, f"a component of {operands[0]} must be {scalar}, got {operands[1]}")
        return [operands[0]]

    @staticmethod
    def ref(attrs: Attrs, *operands: np.ndarray) -> np.ndarray:
        composite, value, *indices = operands
        inside = np.ones(len(composite), np.bool_)
        for i, n in zip(indices, composite.shape[1:], strict=True):
            inside &= (i >= 0) & (i < n)
        out = composite.copy()
        out[(inside.nonzero()[0], *(i[inside].astype(np.intp) for i in indices))] = value[inside]
        return out
