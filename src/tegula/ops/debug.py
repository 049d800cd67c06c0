"""Print and assert: lane ops that report to the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tegula.ir import Effect, Region
from tegula.ops.base import TileOp, require
from tegula.types import TileType, Type, bool_, is_element


class Print(TileOp):
    """Prints, once per lane, attribute `parts`: a tuple of strings (literal text) and None (the next operand), then
    attribute `end`: a new line where there is none."""

    __slots__ = ()
    NAME = "print"
    PURE = False

    @classmethod
    def infer(
        cls, operands: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Region]
    ) -> Sequence[Type]:
        for t in operands:
            require(is_element(t), f"cannot print a {t}")
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("io"),)

    @staticmethod
    def ref(attrs: Mapping[str, Any], *operands: np.ndarray) -> str:
        """What one lane prints, without the end; operands: its scalars, vectors and matrices."""
        values = iter(operands)
        return "".join(_text(next(values)) if part is None else part for part in attrs["parts"])


class PrintTile(TileOp):
    """Prints, once per block, as `print` does, tiles in place of values. Attribute `elements`: the positions of the
    operands that have one element and are printed as that. Without `parts`: the one operand."""

    __slots__ = ()
    NAME = "print.tile"
    PURE = False
    COOPERATIVE = True

    @classmethod
    def infer(
        cls, operands: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Region]
    ) -> Sequence[Type]:
        for k, t in enumerate(operands):
            require(isinstance(t, TileType), f"expected a tile, got {t}")
            single = isinstance(t, TileType) and t.size == 1
            require(single or k not in attrs.get("elements", ()), f"{t} has more than one element")
        wanted = sum(part is None for part in attrs.get("parts", (None,)))
        require(wanted == len(operands), f"the text has {wanted} places for {len(operands)} values")
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("io"),)

    @staticmethod
    def ref(attrs: Mapping[str, Any], *operands: np.ndarray) -> str:
        """What a block prints, without the end; tiles have shape [*shape, *element_shape]."""
        single = attrs.get("elements", ())
        shown = [x[0] if k in single else x for k, x in enumerate(operands)]
        return Print.ref({"parts": attrs.get("parts", (None,))}, *(np.asarray(x) for x in shown))


class Assert(TileOp):
    """Fails the launch where the operand is false; attribute `message`. The first failure is reported with its block
    and lane; the kernel goes on."""

    __slots__ = ()
    NAME = "assert"
    PURE = False

    @classmethod
    def infer(
        cls, operands: Sequence[Type], attrs: Mapping[str, Any], regions: Sequence[Region]
    ) -> Sequence[Type]:
        require(list(operands) == [bool_], f"an assert needs a bool, got {', '.join(map(str, operands))}")
        return []

    def effects(self) -> Sequence[Effect]:
        return (Effect("io"),)


def _text(x: np.ndarray) -> str:
    """A scalar in the fewest digits that tell it from its neighbours, others as nested lists of them."""
    if x.ndim == 0:
        return str(x[()])
    return f"[{', '.join(_text(item) for item in x)}]"
